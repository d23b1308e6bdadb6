//! The script of a run: all actions of each phase, and their times, follow from the seed.

use std::time::Duration;

use testkit::chance::Chance;

use super::exchange::mixed;

use super::hostile::{self, Hostility};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The worker process is killed (SIGKILL).
    Kill,
    /// The worker process is stopped and goes on later (SIGSTOP, SIGCONT).
    Freeze,
    /// Lariat is drained and started again.
    Restart,
    /// A reload of another good configuration, with a renewed certificate.
    Reload,
    Hangup,
    /// A reload of a text that is no configuration.
    BadReload,
    /// A reload with a certificate whose file is damaged.
    BadCertificate,
    ServersDie,
    ServersRefuse,
    /// Servers neither read nor write.
    ServersStall,
    /// Servers reset in the midst of answers.
    ServersReset,
    /// The log of connections is not read.
    BlockLog,
    /// The messages of the supervisor are not read.
    BlockTalk,
    /// The disk with the log of connections is full.
    FillDisk,
    /// The worker process has hardly any descriptor left.
    StarveDescriptors,
    /// The wall clock of both processes jumps and comes back.
    JumpClock,
}

pub const FAULTS: [Fault; 16] = [
    Fault::Kill,
    Fault::Freeze,
    Fault::Restart,
    Fault::Reload,
    Fault::Hangup,
    Fault::BadReload,
    Fault::BadCertificate,
    Fault::ServersDie,
    Fault::ServersRefuse,
    Fault::ServersStall,
    Fault::ServersReset,
    Fault::BlockLog,
    Fault::BlockTalk,
    Fault::FillDisk,
    Fault::StarveDescriptors,
    Fault::JumpClock,
];

/// Interval of phases without a fault: there, nothing may fail and all books agree to the byte.
const CALM_EVERY: u64 = 4;

/// Load by `lariat-lab load`: each kind of handshake, kept connections, early data, each close.
const LOADS: [&str; 11] = [
    "--handshake full --tls 1.2",
    "--handshake full --tls 1.3 --close reset",
    "--handshake session-id --requests-per-session 4",
    "--handshake ticket --requests-per-session 4",
    "--handshake psk --requests-per-session 4",
    "--handshake psk --early-data --requests-per-session 9",
    "--handshake mixed --requests-per-session 3",
    "--handshake any --requests-per-connection 20",
    "--handshake full --requests-per-connection 7 --size 100k",
    "--handshake full --tls 1.3 --no-request",
    "--handshake session-id --requests-per-session 5 --requests-per-connection 2 --size 3k",
];

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Phase {
    pub number: u64,
    /// Whether the phase has no faults.
    pub is_calm: bool,
    pub length: Duration,
    /// Flags of each `lariat-lab load`.
    pub loads: Vec<&'static str>,
    pub honest: usize,
    pub hostile: Vec<Hostility>,
    /// Faults and their mending, in order of time.
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Step {
    pub at: Duration,
    pub fault: Fault,
    /// Whether the fault ends now, and does not begin.
    pub is_end: bool,
}

impl Phase {
    pub fn by_seed(seed: u64, number: u64) -> Self {
        let mut chance = Chance::new(seed ^ mixed(number));
        let is_calm = number.is_multiple_of(CALM_EVERY);
        let length = Duration::from_millis(4000 + chance.below(4000) as u64);
        let mut phase = Self {
            number,
            is_calm,
            length,
            loads: (0..1 + chance.below(2)).map(|_| *chance.pick(&LOADS)).collect(),
            honest: 3 + chance.below(4),
            hostile: Vec::new(),
            steps: Vec::new(),
        };
        if !is_calm {
            let rude = 1 + chance.below(3);
            phase.hostile = (0..rude).map(|_| chance.pick(&hostile::ALL).0).collect();
            phase.choose_faults(seed, &mut chance);
        }
        phase
    }

    /// Makes a phase without faults, in which clients misbehave: rude ones, and a reload at times.
    pub fn of_soak(seed: u64, number: u64) -> Self {
        const RELOAD_EVERY: u64 = 10;
        let mut phase = Self::by_seed(seed, number);
        phase.length = Duration::from_secs(15);
        phase.is_calm = false;
        phase.steps.clear();
        if number % RELOAD_EVERY == 1 {
            let step = |seconds, is_end| Step {
                at: Duration::from_secs(seconds),
                fault: Fault::Reload,
                is_end,
            };
            phase.steps.extend([step(2, false), step(5, true)]);
        }
        phase
    }

    pub fn has(&self, fault: Fault) -> bool {
        self.steps.iter().any(|step| step.fault == fault)
    }

    /// Chooses faults: the first goes through all in an order by seed, the others are random.
    fn choose_faults(&mut self, seed: u64, chance: &mut Chance) {
        let turn = self.number - self.number / CALM_EVERY - 1;
        let mut faults = vec![shuffled(seed)[(turn % FAULTS.len() as u64) as usize]];
        for _ in 0..chance.below(3) {
            let fault = *chance.pick(&FAULTS);
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        let length = self.length.as_millis() as usize;
        for fault in faults {
            let begin = length / 10 + chance.below(length / 2);
            let end = begin + 300 + chance.below(length - begin - 300);
            let step =
                |at: usize, is_end| Step { at: Duration::from_millis(at as u64), fault, is_end };
            self.steps.extend([step(begin, false), step(end, true)]);
        }
        self.steps.sort_by_key(|step| step.at);
    }
}

/// Returns all faults in an order by seed (Fisher and Yates).
fn shuffled(seed: u64) -> [Fault; FAULTS.len()] {
    let (mut faults, mut chance) = (FAULTS, Chance::new(seed));
    for last in (1..faults.len()).rev() {
        faults.swap(last, chance.below(last + 1));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_script_again_and_another_makes_another() {
        let script = |seed| (0..40).map(move |number| Phase::by_seed(seed, number));
        assert!(script(7).eq(script(7)));
        assert!(!script(7).eq(script(8)));
    }

    #[test]
    fn each_fault_comes_and_what_breaks_is_mended_within_its_phase() {
        let phases: Vec<_> = (0..22).map(|number| Phase::by_seed(1, number)).collect();
        for fault in FAULTS {
            assert!(phases.iter().any(|phase| phase.has(fault)), "{fault:?}");
        }
        for phase in &phases {
            assert_eq!(phase.is_calm, phase.steps.is_empty());
            for pair in phase.steps.windows(2) {
                assert!(pair[0].at <= pair[1].at);
            }
            for begin in phase.steps.iter().filter(|step| !step.is_end) {
                let mut rest = phase.steps.iter();
                let end = rest.find(|step| step.is_end && step.fault == begin.fault);
                assert!(end.is_some_and(|end| end.at > begin.at && end.at < phase.length));
            }
        }
    }
}
