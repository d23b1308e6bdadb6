//! The steps of a schedule, in their order: chosen by a seed before anything happens, so that a
//! failure can be repeated with fewer steps.

use std::time::Duration;

use testkit::chance::Chance;

use super::host::{FrontKind, SERVICES};

/// One event. A step that is impossible when its time has come is skipped.
#[derive(Clone, Copy, Debug)]
pub(super) enum ScriptStep {
    ClientConnects(usize),
    Client(usize, ClientStep),
    /// A step of the server that accepted the connection of that number.
    Server(usize, ServerStep),
    /// Answers of servers to dials are held until they are released.
    DialsAreHeld(bool),
    TimePasses(Duration),
    /// Time passes until the worker would wake by itself.
    TimerIsDue,
    /// The clock moves to this client's deadline, and this number of microseconds further.
    DeadlineIsDue(usize, u64),
    /// The kernel is asked for events, which come in an order of this number. Events after this and
    /// before the turn are still unknown to the worker.
    EventsAreTaken(usize),
    Turn,
    Drain(Duration),
    Reload(usize),
    /// An active check has found this server of the first client's service up or down.
    ServerIsChecked(usize, bool),
    Accepts(bool),
    /// Sessions that are looked for on other hosts are found nowhere.
    FetchesAreAnswered,
    /// A thread that waits for files has finished its task.
    FileIsThere,
    /// The finished task is reported to all connections, though few wait for it.
    AnswerComesTwice,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ClientStep {
    /// The client has this number of bytes more to send, and sends as many as it can.
    Says(usize),
    /// The client sends at most this number of its waiting bytes.
    Sends(usize),
    Reads(usize),
    UpdatesKeys,
    ClosesItsTls,
    EndsItsStream,
    Closes,
    Resets,
    SendsGarbage,
    /// The client neither sends nor reads any more.
    Stalls,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ServerStep {
    Says(usize),
    Sends(usize),
    Reads(usize),
    UpdatesKeys,
    Ends,
    EndsItsStream,
    Closes,
    Resets,
    Stalls,
}

/// The client's part in a schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) service: usize,
    pub(super) bytes: usize,
    pub(super) ends_first: bool,
    pub(super) is_tls13: bool,
    /// Whether the client, under STARTTLS, asks for TLS once more.
    pub(super) is_odd: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Script {
    pub(super) seed: u64,
    pub(super) clients: Vec<Part>,
    /// Replies of servers to their connections, in the order of acceptance, and whether the servers
    /// end first.
    pub(super) replies: [(usize, bool); 4],
    pub(super) connections_max: u32,
    /// Whether servers are on other hosts: an event announces that they are connected.
    pub(super) connects_later: bool,
    /// Time that each reading of the clock takes.
    pub(super) look: Duration,
    /// Whether searches for sessions on other hosts, and threads that wait for files, never answer.
    pub(super) never_answers: bool,
    /// Whether timers fire in the turn behind a stall, as if there had been none.
    pub(super) ignores_stalls: bool,
    pub(super) steps: Vec<ScriptStep>,
}

const SIZES: [usize; 8] = [0, 1, 1, 20, 300, 3000, 20_000, 300_000];
const PIECES: [usize; 8] = [1, 5, 16, 100, 517, 4000, 100_000, usize::MAX];
/// Plain services cost least, so there are more of them.
const CHOSEN: [usize; 31] = [
    2, 2, 2, 3, 3, 3, 3, 4, 4, 10, 10, 8, 5, 5, 6, 6, 7, 9, 9, 11, 0, 1, 12, 13, 14, 15, 15, 16,
    16, 17, 17,
];

pub(super) fn write(seed: u64) -> Script {
    let mut chance = Chance::new(seed);
    for _ in 0..4 {
        chance.below(2);
    }
    let count = [1, 1, 1, 1, 2, 2, 3][chance.below(7)];
    let service = CHOSEN[chance.below(CHOSEN.len())];
    // In most schedules nothing happens that breaks a connection.
    let is_rough = !chance.one_in(3);
    let clients = (0..count).map(|_| {
        let is_other = chance.one_in(4);
        Part {
            service: match SERVICES[service].shared_name {
                Some(_) => chance.below(2),
                None if is_other => CHOSEN[chance.below(CHOSEN.len())],
                None => service,
            },
            bytes: size(&mut chance),
            ends_first: chance.one_in(2),
            is_tls13: chance.one_in(2),
            is_odd: chance.one_in(2),
        }
    });
    let clients: Vec<_> = clients.collect();
    let replies = std::array::from_fn(|_| (size(&mut chance), chance.one_in(2)));
    let length = 4 + chance.below(24);
    let mut steps = vec![ScriptStep::ClientConnects(0)];
    for client in 1..count {
        let at = chance.below(4);
        (0..at).for_each(|_| steps.push(step(&mut chance, count, is_rough)));
        steps.push(ScriptStep::ClientConnects(client));
    }
    while steps.len() < length {
        if chance.one_in(16) && is_rough {
            together(&mut chance, count, &mut steps);
        } else {
            steps.push(step(&mut chance, count, is_rough));
        }
    }
    Script {
        seed,
        clients,
        replies,
        connections_max: if is_rough && chance.one_in(8) { 2 } else { 1000 },
        connects_later: chance.one_in(2),
        look: Duration::from_micros([0, 0, 10, 300, 2000][chance.below(5)]),
        never_answers: chance.one_in(3),
        ignores_stalls: chance.one_in(2),
        steps,
    }
}

fn size(chance: &mut Chance) -> usize {
    let is_large = chance.one_in(24);
    SIZES[chance.below(SIZES.len() - usize::from(!is_large))]
}

/// Adds several events that the worker learns of at once.
fn together(chance: &mut Chance, count: usize, steps: &mut Vec<ScriptStep>) {
    let client = chance.below(count);
    let (is_held, is_early) = (chance.one_in(2), chance.one_in(2));
    if is_held {
        steps.push(ScriptStep::DialsAreHeld(true));
        for _ in 0..2 {
            steps.push(ScriptStep::Client(client, ClientStep::Says(usize::MAX)));
            steps.push(ScriptStep::EventsAreTaken(0));
            steps.push(ScriptStep::Turn);
            steps.push(ScriptStep::Client(client, ClientStep::Reads(usize::MAX)));
        }
        steps.push(ScriptStep::DialsAreHeld(false));
    }
    let due = ScriptStep::DeadlineIsDue(client, [0, 60_000][chance.below(2)]);
    if is_early {
        steps.push(due);
    }
    for _ in 0..chance.below(4) {
        steps.push(step(chance, count, true));
    }
    steps.push(ScriptStep::EventsAreTaken(chance.below(1000)));
    if !is_early {
        steps.push(due);
    }
    steps.push(ScriptStep::Turn);
}

fn step(chance: &mut Chance, count: usize, is_rough: bool) -> ScriptStep {
    let (client, server) = (chance.below(count), chance.below(count + 1).saturating_sub(1));
    let piece = PIECES[chance.below(PIECES.len())];
    let ordinary = chance.below(100);
    match ordinary {
        0..14 => ScriptStep::EventsAreTaken(chance.below(1000)),
        14..34 => ScriptStep::Turn,
        34..46 => ScriptStep::Client(client, ClientStep::Says(piece)),
        46..54 => ScriptStep::Client(client, ClientStep::Sends(piece)),
        54..62 => ScriptStep::Client(client, ClientStep::Reads(piece)),
        62..70 => ScriptStep::Server(server, ServerStep::Says(piece)),
        70..74 => ScriptStep::Server(server, ServerStep::Sends(piece)),
        74..80 => ScriptStep::Server(server, ServerStep::Reads(piece)),
        80 | 81 => ScriptStep::Client(client, ClientStep::UpdatesKeys),
        82 => ScriptStep::Server(server, ServerStep::UpdatesKeys),
        83 => ScriptStep::TimerIsDue,
        84 => ScriptStep::TimePasses(Duration::from_millis([1, 5, 50][chance.below(3)])),
        85 => ScriptStep::DialsAreHeld(chance.one_in(2)),
        86 => ScriptStep::Reload(chance.below(2)),
        _ if !is_rough => ScriptStep::Client(client, ClientStep::Sends(usize::MAX)),
        87 => ScriptStep::Client(client, ClientStep::ClosesItsTls),
        88 => ScriptStep::Client(client, ClientStep::EndsItsStream),
        89 => ScriptStep::Client(client, ClientStep::Closes),
        90 => ScriptStep::Client(client, ClientStep::Resets),
        91 => match chance.below(3) {
            0 => ScriptStep::Client(client, ClientStep::SendsGarbage),
            1 => ScriptStep::Client(client, ClientStep::Stalls),
            _ => ScriptStep::Server(server, ServerStep::Stalls),
        },
        92 => ScriptStep::Server(server, ServerStep::Ends),
        93 => ScriptStep::Server(server, ServerStep::EndsItsStream),
        94 => ScriptStep::Server(server, ServerStep::Closes),
        95 => ScriptStep::Server(server, ServerStep::Resets),
        96 => ScriptStep::DeadlineIsDue(client, [0, 0, 60_000][chance.below(3)]),
        97 => ScriptStep::TimePasses(Duration::from_secs([1, 3, 10, 60][chance.below(4)])),
        98 => match chance.below(3) {
            0 => ScriptStep::Drain(Duration::from_secs([0, 1, 30][chance.below(3)])),
            up => ScriptStep::ServerIsChecked(chance.below(2), up == 1),
        },
        _ => match chance.below(4) {
            0 => ScriptStep::Accepts(chance.one_in(2)),
            1 => ScriptStep::FileIsThere,
            2 => ScriptStep::FetchesAreAnswered,
            _ => ScriptStep::AnswerComesTwice,
        },
    }
}

impl Script {
    pub(super) fn tell(&self) -> String {
        let mut told = format!("seed {}", self.seed);
        for (number, part) in self.clients.iter().enumerate() {
            let kind = &SERVICES[part.service];
            let tls = match kind.front {
                FrontKind::Plain | FrontKind::Passthrough => "",
                _ if part.is_tls13 => " over TLS 1.3",
                _ => " over TLS 1.2",
            };
            let first = if part.ends_first { ", ends first" } else { "" };
            told += &format!(
                "\n  client {number}: service `{}`{tls}, says {} bytes{first}",
                kind.name, part.bytes
            );
        }
        told += &format!("\n  servers (bytes said, ends first): {:?}", self.replies);
        told += &format!(
            "\n  connections at most {}, connects later: {}, a look at the clock takes {:?}, \
             answers fetches: {}, ignores stalls: {}",
            self.connections_max,
            self.connects_later,
            self.look,
            !self.never_answers,
            self.ignores_stalls
        );
        for step in &self.steps {
            told += &format!("\n  {step:?}");
        }
        told
    }
}
