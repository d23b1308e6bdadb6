//! The order in which configurations are read.
//!
//! Round by round, so that what the machine does in one hour it does to all. Within a round the
//! choices of values come in random order, and within a choice the targets do, one right after the
//! other: these are compared.

use std::collections::BTreeMap;

use measure::experiment::Configuration;

/// A source of chance that repeats itself with the same seed: SplitMix64 (Steele, Lea, Flood 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            // The bias of the remainder is below one in 10¹⁵.
            let other = (self.next() % (last as u64 + 1)) as usize;
            list.swap(last, other);
        }
    }
}

/// The order of a round: places in the list of configurations.
pub(crate) fn round(
    configurations: &[&Configuration],
    seed: u64,
    scenario: usize,
    repeat: u32,
) -> Vec<usize> {
    let own = seed ^ ((scenario as u64) << 32) ^ u64::from(repeat);
    let mut chance = Chance(own);
    let mut choices: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (place, planned) in configurations.iter().enumerate() {
        choices.entry(&planned.values).or_default().push(place);
    }
    let mut choices: Vec<_> = choices.into_values().collect();
    chance.shuffle(&mut choices);
    for targets in &mut choices {
        chance.shuffle(targets);
    }
    choices.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configurations() -> Vec<Configuration> {
        let levels = ["1", "2", "3", "4"];
        let all = levels
            .iter()
            .flat_map(|level| ["a", "b", "c"].map(|target| (level, target)));
        all.map(|(level, target)| Configuration {
            key: format!("target={target} n={level}"),
            target: target.to_owned(),
            values: BTreeMap::from([("n".to_owned(), (*level).to_owned())]),
            command: Vec::new(),
            unsupported: None,
        })
        .collect()
    }

    #[test]
    fn a_round_has_every_configuration_once_and_targets_side_by_side() {
        let configurations = configurations();
        let all: Vec<_> = configurations.iter().collect();
        let first = round(&all, 1, 0, 0);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..configurations.len()).collect::<Vec<_>>());
        for three in first.chunks(3) {
            let of = |place: usize| &configurations[place].values;
            assert!(three.iter().all(|place| of(*place) == of(three[0])));
        }
    }

    #[test]
    fn chance_repeats_itself_and_differs_by_round() {
        let configurations = configurations();
        let all: Vec<_> = configurations.iter().collect();
        assert_eq!(round(&all, 7, 1, 2), round(&all, 7, 1, 2));
        let others = [
            round(&all, 8, 1, 2),
            round(&all, 7, 1, 3),
            round(&all, 7, 2, 2),
        ];
        assert!(others.iter().any(|other| *other != round(&all, 7, 1, 2)));
    }

    #[test]
    fn every_place_is_as_likely() {
        let configurations = configurations();
        let all: Vec<_> = configurations.iter().collect();
        let mut first = [0; 12];
        for seed in 0..1200 {
            first[round(&all, seed, 0, 0)[0]] += 1;
        }
        assert!(
            first.iter().all(|count| (60..150).contains(count)),
            "{first:?}"
        );
    }
}
