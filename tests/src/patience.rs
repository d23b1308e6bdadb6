//! Waiting for events that are bound to come. Only this module of the tests sleeps.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Long, because a loaded machine is no failure.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Short enough not to be felt, long enough not to burn the CPU that is being waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// Calls `ask` again and again until there is an answer.
pub fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    within(PATIENCE, ask).unwrap_or_else(|| panic!("still waiting for {what}"))
}

pub fn until_true(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, || is_so().then_some(()));
}

/// Calls `ask` again and again until there is an answer; `None` if none came in this time.
pub fn within<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if begun.elapsed() >= limit {
            return None;
        }
        thread::sleep(PAUSE);
    }
}

pub fn now_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("a clock of today").as_secs()
}

/// Lets time pass where a script says when things happen. No test waits for an event by it.
pub fn pause(time: Duration) {
    thread::sleep(time);
}
