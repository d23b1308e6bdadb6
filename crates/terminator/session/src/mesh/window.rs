//! Which sequence numbers of one sender have come: an anti-replay window (RFC 4303 section 3.4.3),
//! as a ring of words (RFC 6479).

const WORD_BITS: u64 = 64;

/// The numbers up to the highest that has come, each once.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    words: Box<[u64]>,
    lowest: u64,
    highest: u64,
    received: u64,
}

impl Window {
    /// A window of at least so many numbers.
    pub(crate) fn new(numbers: u32) -> Self {
        // One word more: that of the highest number is seldom whole.
        let words = u64::from(numbers).div_ceil(WORD_BITS) + 1;
        Self {
            words: vec![0; words as usize].into(),
            lowest: 0,
            highest: 0,
            received: 0,
        }
    }

    /// Takes a number. `false` = it has come before, or is too old to say.
    pub(crate) fn take(&mut self, number: u64) -> bool {
        let count = self.words.len() as u64;
        let word = number / WORD_BITS;
        if self.received == 0 {
            (self.lowest, self.highest) = (number, number);
        }
        let last = self.highest / WORD_BITS;
        if word + count <= last {
            return false;
        }
        for place in (last + 1).max((word + 1).saturating_sub(count))..=word {
            self.words[(place % count) as usize] = 0;
        }
        let bits = &mut self.words[(word % count) as usize];
        let bit = 1 << (number % WORD_BITS);
        if *bits & bit != 0 {
            return false;
        }
        *bits |= bit;
        self.highest = self.highest.max(number);
        self.lowest = self.lowest.min(number);
        self.received += 1;
        true
    }

    /// Numbers between the lowest and the highest that have not come: lost, or still on their way.
    pub(crate) fn missing(&self) -> u64 {
        match self.received {
            0 => 0,
            received => (self.highest - self.lowest).saturating_sub(received - 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_comes_once_in_any_order_and_gaps_are_counted() {
        let mut window = Window::new(128);
        let taken: Vec<_> = [7, 5, 9, 7, 5, 6, 400, 9, 399, 272, 143, u64::MAX, u64::MAX]
            .into_iter()
            .map(|number| window.take(number))
            .collect();
        let wanted = [
            true, true, true, false, false, true, true, false, true, true, false, true, false,
        ];
        assert_eq!(taken, wanted);
        assert_eq!(
            (window.received, window.missing()),
            (8, u64::MAX - 5 + 1 - 8)
        );
    }

    #[test]
    fn the_widest_gap_is_counted() {
        let mut window = Window::new(128);
        assert!(window.take(0) && window.take(u64::MAX));
        assert_eq!(window.missing(), u64::MAX - 1);
    }

    proptest! {
        /// A set says the same, but for what is too old.
        #[test]
        fn no_number_comes_twice(steps in proptest::collection::vec(0u64..3000, 1..300)) {
            let mut window = Window::new(256);
            let mut seen = BTreeSet::new();
            for number in steps {
                let highest = seen.last().copied().unwrap_or(number);
                let is_new = !seen.contains(&number);
                let is_taken = window.take(number);
                prop_assert!(is_new || !is_taken);
                if is_new && number + 256 > highest {
                    prop_assert!(is_taken, "{number} after {highest}");
                }
                if is_taken {
                    seen.insert(number);
                }
            }
            prop_assert_eq!(window.received, seen.len() as u64);
        }
    }
}
