//! Tests whether intervals by three methods hold their 95 % on recorded noise: rounds of the same
//! server twice, on a host with other work. The figures in docs/benchmarks.md are printed by
//! `DRAWS=20000 cargo test -p measure --test coverage -- --nocapture`.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use measure::effect::{Effect, EffectScale};
use measure::random::SplitMix;
use measure::statistics::Spread;

/// Written by `lariat-lab self-test`: CPU time per operation of both servers in each round.
const RECORDED: &str = include_str!("../../../../docs/reports/2026-11-28-self-test/pairs.csv");

/// Returns the rounds in which nothing was planted.
fn recorded() -> Vec<(f64, f64)> {
    let rounds = RECORDED.lines().skip(1).map(|line| {
        let columns: Vec<f64> = line.split(',').map(|text| text.parse().unwrap()).collect();
        (columns[2], (columns[3], columns[4]))
    });
    rounds.filter(|(planted, _)| *planted == 0.0).map(|(_, pair)| pair).collect()
}

/// Counts for each sum of positive ranks the choices of signs (of 2ⁿ) that have it: Wilcoxon,
/// Biometrics Bulletin 1 (1945).
fn sums_of_ranks(count: usize) -> Vec<f64> {
    let mut ways = vec![0.0; count * (count + 1) / 2 + 1];
    ways[0] = 1.0;
    for rank in 1..=count {
        for sum in (rank..ways.len()).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    ways
}

/// Returns the interval of the signed ranks at 95 % or more: Hodges and Lehmann, Annals of
/// Mathematical Statistics 34 (1963), of the means of all pairs of samples.
fn by_rank(samples: &[f64]) -> (f64, f64) {
    let mut means: Vec<f64> = samples
        .iter()
        .enumerate()
        .flat_map(|(place, one)| samples[place..].iter().map(move |other| (one + other) / 2.0))
        .collect();
    means.sort_by(f64::total_cmp);
    let ways = sums_of_ranks(samples.len());
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let is_out = |ways: &&f64| {
        below += **ways / all;
        below <= 0.025
    };
    let cut = ways.iter().take_while(is_out).count().max(1) - 1;
    (means[cut], means[means.len() - 1 - cut])
}

/// Returns for Student's t, the trimmed mean and signed ranks the share of intervals that hold the
/// truth, and the median of their reach to either side, in percent.
fn coverage(rounds: &[(f64, f64)], count: usize, draws: usize) -> [(f64, f64); 3] {
    let mut chance = SplitMix { state: 7 };
    let (mut held, mut reaches) = ([0; 3], [const { Vec::new() }; 3]);
    for _ in 0..draws {
        // The two are the same server: the order in a pair is drawn as well, so that the truth is 1
        // whatever the noise is like.
        let pairs: Vec<(f64, f64)> = (0..count)
            .map(|_| {
                let drawn = chance.draw();
                let (a, b) = rounds[(drawn >> 1) as usize % rounds.len()];
                if drawn.is_multiple_of(2) { (a, b) } else { (b, a) }
            })
            .collect();
        let changes: Vec<f64> = pairs.iter().map(|(a, b)| (a / b).ln()).collect();
        let trimmed = Effect::of_pairs(&pairs, EffectScale::Ratio).unwrap().interval.unwrap();
        let intervals = [
            Spread::of(&changes).unwrap().interval().unwrap(),
            (trimmed.0.ln(), trimmed.1.ln()),
            by_rank(&changes),
        ];
        for (method, (from, to)) in intervals.into_iter().enumerate() {
            held[method] += usize::from(from <= 0.0 && 0.0 <= to);
            reaches[method].push(((to - from) / 2.0).exp_m1() * 100.0);
        }
    }
    std::array::from_fn(|method| {
        let reach = Spread::of(&reaches[method]).unwrap().median;
        (held[method] as f64 / draws as f64 * 100.0, reach)
    })
}

#[test]
fn intervals_hold_their_confidence_on_recorded_noise() {
    let rounds = recorded();
    assert!(rounds.len() >= 40, "{}", rounds.len());
    println!("| rounds | Student's t | trimmed mean | signed ranks |\n|---|---|---|---|");
    let draws = std::env::var("DRAWS").map_or(500, |text| text.parse().unwrap());
    for count in [6, 12, 20, 40] {
        let found = coverage(&rounds, count, draws);
        let [t, trimmed, ranks] = found.map(|(held, reach)| format!("{held:.1} %, ±{reach:.1} %"));
        println!("| {count} | {t} | {trimmed} | {ranks} |");
        let (held, _) = found[1];
        assert!((92.0..99.0).contains(&held), "{count} rounds: {found:?}");
    }
}

/// A tabulated value: for ten samples, the least eight sums hold under 2.5 %.
#[test]
fn ranks_are_cut_as_tables_say() {
    let ways = sums_of_ranks(10);
    let below = |sum: usize| ways[..=sum].iter().sum::<f64>() / 1024.0;
    assert!(below(8) <= 0.025 && below(9) > 0.025);
}
