//! The sum of a server's active checks: up or down, by counts in a row.
//!
//! Owns the count; making the checks is the control side's.

use crate::options::CheckOptions;

/// The state of one server under check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    fall: u32,
    rise: u32,
    up: Option<bool>,
    /// Results in a row that speak against `up`.
    against: u32,
}

impl Check {
    /// A server about which nothing is known, or, after a reload, what was known before.
    ///
    /// An unknown server is used, and the first result alone decides, because a server
    /// that was never seen to answer gets no benefit of the doubt, and one that answers at once
    /// need not wait for its `rise`.
    pub fn new(options: &CheckOptions, before: Option<bool>) -> Self {
        Self { fall: options.fall.max(1), rise: options.rise.max(1), up: before, against: 0 }
    }

    /// Takes a result in. Says what the server now is if that changed (or was unknown).
    pub fn observe(&mut self, good: bool) -> Option<bool> {
        if self.up == Some(good) {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = match self.up {
            None => 1,
            Some(true) => self.fall,
            Some(false) => self.rise,
        };
        if self.against < needed {
            return None;
        }
        self.against = 0;
        self.up = Some(good);
        self.up
    }

    /// Whether it is up; `None` before the first result.
    pub fn is_up(&self) -> Option<bool> {
        self.up
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::CheckKind;
    use proptest::prelude::*;
    use std::time::Duration;

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
        /// A change to `good` comes exactly when the last `needed` results were all `good`.
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
}
