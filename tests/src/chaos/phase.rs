//! Runs one phase: clients of every kind at once, while the script's faults come and are mended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::client::Client;
use crate::load::{Load, Loading, Record};
use testkit::chance::Chance;

use super::exchange::mixed;
use crate::patience::pause;

use super::faults::Faults;
use super::honest::{Tally, Target, Visitor};
use super::hostile::{self, Hostility};
use super::rig::Rig;
use super::script::{Fault, Phase};

#[derive(Debug)]
pub(super) struct Counted {
    /// Counts of our honest clients.
    pub(super) tally: Tally,
    /// A record for each `lariat-lab load`.
    pub(super) records: Vec<Record>,
}

/// Transactions of one `lariat-lab load` where all must succeed.
const CALM_COUNT: u32 = 60;

/// Faults with which a reload may fail, or wait for longer than its command does.
const HINDRANCES: [Fault; 6] = [
    Fault::Kill,
    Fault::Freeze,
    Fault::Restart,
    Fault::Hangup,
    Fault::StarveDescriptors,
    Fault::BlockTalk,
];

/// Plays a phase to its end, with all faults mended.
pub(super) fn play(rig: &mut Rig, phase: &Phase, seed: u64) -> Counted {
    let journal = std::sync::Arc::clone(&rig.journal);
    let seed = mixed(seed ^ phase.number << 8);
    let targets = [
        Target::Exchange(rig.services.exchange.address),
        Target::Exchange(rig.services.exchange.address),
        Target::File(rig.services.files.address),
    ];
    let visitors: Vec<_> = (0..phase.honest)
        .map(|index| Visitor::new(&journal, &rig.site, seed + index as u64, phase.is_calm))
        .collect();
    let client = Client::new(&rig.site);
    let address = rig.services.exchange.address;
    let mut loadings = Vec::new();
    for flags in &phase.loads {
        loadings.push(load(rig, phase, flags));
    }
    let stop = AtomicBool::new(false);
    let is_stopped = || stop.load(Ordering::Acquire);
    let tally = thread::scope(|scope| {
        // Even if a step panics, because the scope waits for its threads.
        let guard = StopOnDrop(&stop);
        let visit = |(index, mut visitor): (usize, Visitor<'_>)| {
            while !is_stopped() {
                visitor.visit(targets[index % targets.len()]);
            }
            visitor.tally()
        };
        let honest: Vec<_> =
            visitors.into_iter().enumerate().map(|pair| scope.spawn(move || visit(pair))).collect();
        for (index, hostility) in phase.hostile.iter().enumerate() {
            let mut chance = Chance::new(seed ^ index as u64);
            let (journal, client) = (&journal, &client);
            scope.spawn(move || {
                while !is_stopped() {
                    hostile::act(*hostility, journal, client, address, &mut chance);
                    rest(*hostility);
                }
            });
        }
        steps(rig, phase);
        drop(guard);
        honest.into_iter().fold(Tally::default(), |mut sum, one| {
            sum.add(one.join().unwrap_or_default());
            sum
        })
    });
    let records = loadings.into_iter().map(|loading| loading.wait().record()).collect();
    Counted { tally, records }
}

/// Pauses after an act, because some take no time and must not use the whole CPU.
fn rest(hostility: Hostility) {
    let milliseconds = match hostility {
        Hostility::Truncating | Hostility::Resetting | Hostility::Garbage => 20,
        _ => 1,
    };
    pause(std::time::Duration::from_millis(milliseconds));
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Makes and mends the faults, each at its time, until the phase is over.
fn steps(rig: &mut Rig, phase: &Phase) {
    let begun = Instant::now();
    let mut faults = Faults::new(!HINDRANCES.iter().any(|fault| phase.has(*fault)));
    for step in &phase.steps {
        pause(step.at.saturating_sub(begun.elapsed()));
        let verb = if step.is_end { "end" } else { "begin" };
        rig.journal.step(&format!("{verb} {:?}", step.fault));
        if step.is_end { faults.end(rig, step.fault) } else { faults.begin(rig, step.fault) }
    }
    pause(phase.length.saturating_sub(begun.elapsed()));
}

/// Begins a `lariat-lab load` of the service before the origin.
fn load(rig: &Rig, phase: &Phase, flags: &str) -> Loading {
    let load = Load::alone(rig.services.web.address).args("--connections 3 --think-time 5ms");
    let load = load.args(flags);
    if phase.is_calm {
        load.args(&format!("--count {CALM_COUNT}"))
    } else {
        load.args(&format!("--duration {}ms", phase.length.as_millis()))
    }
    .start()
}
