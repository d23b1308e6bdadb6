//! Active checks: when a server is up and when it is down.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::options::CheckKind;

fn options(fall: u32, rise: u32) -> CheckOptions {
    CheckOptions {
        kind: CheckKind::Tcp,
        port: None,
        tls: None,
        interval: Duration::from_secs(2),
        timeout: Duration::from_secs(1),
        fall,
        rise,
    }
}

fn changes(check: &mut Check, results: &str) -> String {
    let letter = |change| match change {
        None => '.',
        Some(true) => 'U',
        Some(false) => 'D',
    };
    let observe = |result| letter(check.observe(result == '+'));
    results.chars().map(observe).collect()
}

#[test]
fn the_first_result_decides_and_then_the_counts() {
    let mut check = Check::new(&options(3, 2), None);
    assert_eq!(check.is_up(), None);
    assert_eq!(changes(&mut check, "+--+---+-++"), "U.....D...U");
    let mut check = Check::new(&options(3, 2), None);
    assert_eq!(changes(&mut check, "-+"), "D.");
}

#[test]
fn what_was_known_before_a_reload_takes_the_counts_to_change() {
    let mut check = Check::new(&options(3, 2), Some(true));
    assert_eq!(changes(&mut check, "---"), "..D");
}

proptest! {
    /// A change to `good` is reported exactly when the last `needed` results were all `good`.
    #[test]
    fn a_change_needs_its_count_in_a_row(
        fall in 1u32..5, rise in 1u32..5, up: bool,
        results in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let mut check = Check::new(&options(fall, rise), Some(up));
        for end in 1..=results.len() {
            let before = check.is_up().unwrap();
            let good = results[end - 1];
            let change = check.observe(good);
            let needed = if before { fall } else { rise } as usize;
            let row = results[..end].iter().rev().take_while(|r| **r == good).count();
            let due = good != before && row >= needed;
            prop_assert_eq!(change, due.then_some(good));
        }
    }
}
