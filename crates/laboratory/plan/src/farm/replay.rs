//! Replays measured scenarios with the farm, to check its predictions.

use super::Farm;
use super::node::{FarmSettings, RetryPolicy};
use crate::script::ScriptLine;
use crate::traffic::Sharing;

/// Settings of both scenarios: their clients try once.
fn scenario() -> FarmSettings {
    FarmSettings {
        nodes: 1,
        cores: 1.0,
        full_s: 0.0005,
        resumed_s: 0.0005,
        connections_per_s: 200.0,
        clients: 60,
        resumed_share: 1.0,
        sharing: Sharing::Apart,
        has_affinity: true,
        patience_s: 2.0,
        retry: RetryPolicy { most: 0, backs_off: false },
        sheds: true,
        detection_s: 0.0,
        lost_share: 0.0,
        connections_max: 100_000,
        duration_s: 10,
        seed: 1,
        busy_by_work: Vec::new(),
        quantiles_s: Vec::new(),
    }
}

/// Returns goodput divided by capacity from the fifth second to the seventh, at a multiple of the
/// capacity, and the assumed order of the program's queue. Ours sheds load, as its documents say;
/// the others serve all in turn.
pub(crate) fn goodput(
    target: &str,
    offered: f64,
    capacity: f64,
    full_share: f64,
) -> (f64, &'static str) {
    let sheds = target.starts_with("lariat");
    let settings = FarmSettings {
        full_s: 1.0 / capacity,
        resumed_s: 1.0 / capacity,
        connections_per_s: offered * capacity,
        // A great number, so that no client comes twice.
        clients: 100_000_000,
        resumed_share: 1.0 - full_share,
        sheds,
        duration_s: 7,
        ..scenario()
    };
    let mut farm = Farm::new(settings, Vec::new()).expect("a script without lines asks nothing");
    while !farm.is_over() {
        farm.step();
    }
    let succeeded: u64 = farm.seconds.iter().skip(4).map(|second| second.succeeded).sum();
    let how = if sheds { "which sheds load" } else { "which serves all in turn" };
    (succeeded as f64 / 3.0 / capacity, how)
}

/// Returns the least share that resumed in a second after one of the nodes died; `None` if the way
/// of sharing is unknown.
pub(crate) fn scale_out(nodes: u32, sessions: &str) -> Option<f64> {
    let (sharing, has_affinity) = match sessions {
        "apart" => (Sharing::Apart, false),
        "shared" => (Sharing::Tickets, false),
        "session-ids" => (Sharing::Apart, true),
        "session-ids-shared" => (Sharing::Peers, true),
        "session-ids-store" => (Sharing::Store, true),
        _ => return None,
    };
    // A node without peers, and with secret keys of its own, forgets its sessions when it dies.
    let is_alone = nodes == 1 && sharing != Sharing::Store && sharing != Sharing::Tickets;
    let sharing = if is_alone { Sharing::Apart } else { sharing };
    let script = vec![ScriptLine::parse("5s lose 1 for 2s").ok()?];
    let settings = FarmSettings { nodes, sharing, has_affinity, ..scenario() };
    let mut farm = Farm::new(settings, script).ok()?;
    while !farm.is_over() {
        farm.step();
    }
    let seconds = farm.seconds.iter().skip(5).filter(|it| it.full + it.resumed > 0);
    Some(seconds.map(|it| it.resumed as f64 / (it.full + it.resumed) as f64).fold(1.0, f64::min))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(settings: FarmSettings, lines: &[&str]) -> Farm {
        let script = lines.iter().map(|line| ScriptLine::parse(line).unwrap()).collect();
        let mut farm = Farm::new(settings, script).unwrap();
        while !farm.is_over() {
            farm.step();
        }
        farm
    }

    /// Returns a farm with expensive full handshakes and impatient, stubborn clients.
    fn fragile() -> FarmSettings {
        FarmSettings {
            nodes: 3,
            full_s: 0.004,
            resumed_s: 0.0008,
            connections_per_s: 1200.0,
            clients: 120_000,
            resumed_share: 0.95,
            patience_s: 2.0,
            retry: RetryPolicy { most: 4, backs_off: false },
            sheds: false,
            detection_s: 1.0,
            duration_s: 400,
            ..scenario()
        }
    }

    #[test]
    fn no_client_is_lost_or_made() {
        let lines = ["20s lose 1 for 30s", "80s forget 50%", "90s return 60% in 5s"];
        for sharing in [Sharing::Apart, Sharing::Peers, Sharing::Store] {
            let farm = run(FarmSettings { sharing, duration_s: 150, ..fragile() }, &lines);
            assert_eq!(farm.clients(), 120_000);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_farm() {
        let of = |seed| run(FarmSettings { seed, ..fragile() }, &["20s lose 1"]).seconds;
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }

    /// Lost sessions push the farm into a lasting queue; shedding, and sessions that survive, each
    /// prevent it.
    #[test]
    fn a_loss_becomes_a_collapse_that_lasts_and_shedding_prevents_it() {
        let lines = ["30s forget 100%"];
        let collapsed = run(fragile(), &lines).verdict();
        assert!(!collapsed.has_recovered && collapsed.seconds_after > 300, "{collapsed:?}");
        let shed = run(FarmSettings { sheds: true, ..fragile() }, &lines).verdict();
        assert!(shed.has_recovered && shed.seconds_after < 200, "{shed:?}");
        let unhurt = run(fragile(), &[]).verdict();
        assert_eq!(unhurt.seconds_failing, 0);
    }

    /// A fast node serves more in a second than may wait at it.
    #[test]
    fn what_is_served_at_once_does_not_wait() {
        let fast = FarmSettings {
            cores: 16.0,
            full_s: 0.0002,
            resumed_s: 0.0002,
            connections_per_s: 40_000.0,
            clients: 10_000_000,
            connections_max: 1_000,
            duration_s: 20,
            ..scenario()
        };
        let failed = |farm: Farm| farm.seconds.iter().map(|it| it.failed).sum::<u64>();
        assert_eq!(failed(run(fast.clone(), &[])), 0);
        assert!(failed(run(FarmSettings { cores: 4.0, ..fast }, &[])) > 100_000);
    }

    /// Simulates each client separately, by the same rules: the farm in groups agrees.
    #[test]
    fn groups_of_clients_behave_as_clients_one_by_one() {
        use measure::random::SplitMix;
        let (clients, nodes, per_s) = (2_000usize, 4usize, 100.0);
        let mut random = SplitMix { state: 3 };
        let mut home: Vec<Option<usize>> = (0..clients).map(|it| Some(it % nodes)).collect();
        let chance = 1.0 - (-per_s / clients as f64).exp();
        let mut full_alone = 0u64;
        for second in 0..60 {
            if second == 10 {
                home.iter_mut().filter(|it| **it == Some(0)).for_each(|it| *it = None);
            }
            for it in &mut home {
                if random.share() <= chance && it.is_none() {
                    full_alone += 1;
                    *it = Some(1 + random.below(nodes - 1));
                }
            }
        }
        let settings = FarmSettings {
            nodes: nodes as u32,
            connections_per_s: per_s,
            clients: clients as u64,
            duration_s: 60,
            ..scenario()
        };
        let farm = run(settings, &["10s lose 1"]);
        let full: u64 = farm.seconds.iter().map(|it| it.full).sum();
        let apart = full as f64 / full_alone as f64 - 1.0;
        assert!(apart.abs() < 0.1, "{full} of groups, {full_alone} one by one");
    }
}
