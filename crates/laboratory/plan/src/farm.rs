//! A farm in virtual time: clients with sessions, a balancer, nodes with queues, and a script.
//!
//! Clients are counted by where their session is, not one by one: 10⁸ of them are as many numbers
//! as there are nodes. How many of a group come in a tick is drawn by chance, so that a count has
//! the error of a sample of its size. Time goes in ticks of a second, or less where clients return
//! within seconds; waits in a queue are known to a tick.
//!
//! A failure becomes a collapse that lasts in the way of N. Bronson and others, "Metastable failures
//! in distributed systems", HotOS 2021: lost sessions make full handshakes, those make a queue,
//! clients give up in it and try again, and the work for those that are gone keeps the queue.

mod node;
pub mod replay;

use measure::choice::Kind;
use measure::planned::{CollapseVerdict, SimulatedMoment, SimulatedNode, SimulatedRun};
use measure::random::SplitMix;
use measure::record::{HandshakeCounts, LoadRecord, LoadSecond, RunEnding, RunWarning};

use crate::PlanFault;
use crate::script::{FarmEvent, ScriptLine};
use crate::traffic::Sharing;
use node::{ConnectionCohort, FarmNode, TickWork, WaitHistogram};

pub use node::{FarmSettings, RetryPolicy};

/// Ticks until the latest retry of a client: its waits double at most this often.
const RING: usize = 256;

/// Nodes that a simulation may have: beyond, its day takes hours.
pub const NODES_MAX: u32 = 10_000;

/// Clients that will try again, by attempt and tick.
#[derive(Clone, Debug)]
struct RetryRing {
    /// Without a session, `[attempt][tick]`.
    bare: Vec<Vec<u64>>,
    /// With one, `[attempt][tick × nodes + home]`.
    held: Vec<Vec<u64>>,
}

#[derive(Clone, Debug)]
pub struct Farm {
    settings: FarmSettings,
    script: Vec<ScriptLine>,
    random: SplitMix,
    nodes: Vec<FarmNode>,
    /// Clients that think and have no session that is of use.
    bare: u64,
    retries: RetryRing,
    ticks_per_s: u64,
    tick: u64,
    second: LoadSecond,
    waits: WaitHistogram,
    seconds: Vec<LoadSecond>,
    moments: Vec<SimulatedMoment>,
    busy_s: f64,
    busy_most: f64,
}

/// Connections of a tick that come anew to some node, by attempt.
type Newcomers = Vec<u64>;

impl Farm {
    /// All clients that can have a session have one, evenly over the nodes.
    ///
    /// # Errors
    /// [`PlanFault::Meaning`] if the script asks for more than the farm has.
    pub fn new(settings: FarmSettings, script: Vec<ScriptLine>) -> Result<Self, PlanFault> {
        for line in &script {
            let refused = |why: &str| {
                Err(PlanFault::Meaning { line: line.text.clone(), why: why.to_owned() })
            };
            match line.event {
                FarmEvent::Lose(part) if part.of(settings.nodes) > settings.nodes => {
                    return refused("loses more nodes than there are");
                }
                FarmEvent::StoreAway if settings.sharing != Sharing::Store => {
                    return refused("takes a store away that there is not: --share store");
                }
                _ if line.at_s >= settings.duration_s as f64 => {
                    return refused("comes after the end: a longer --duration");
                }
                _ => {}
            }
        }
        let returns = settings.connections_per_s / settings.clients as f64;
        // A client comes at most once in a tick: with a fifth of them in one, a tenth of those
        // that would come twice are missed.
        let ticks_per_s = (returns / 0.2).ceil().clamp(1.0, 100.0) as u64;
        let count = settings.nodes as usize;
        let each = settings.clients / count as u64;
        let mut nodes = vec![FarmNode::default(); count];
        nodes.iter_mut().for_each(|node| node.held = each);
        nodes[0].held += settings.clients - each * count as u64;
        let attempts = settings.retry.most as usize + 1;
        Ok(Self {
            random: SplitMix::of_thread(settings.seed, 0),
            retries: RetryRing {
                bare: vec![vec![0; RING]; attempts],
                held: vec![vec![0; RING * count]; attempts],
            },
            nodes,
            bare: 0,
            ticks_per_s,
            tick: 0,
            second: LoadSecond::default(),
            waits: WaitHistogram::default(),
            seconds: Vec::new(),
            moments: Vec::new(),
            busy_s: 0.0,
            busy_most: 0.0,
            settings,
            script,
        })
    }

    pub fn is_over(&self) -> bool {
        self.seconds.len() as u64 >= self.settings.duration_s
    }

    /// Goes on by a second.
    pub fn step(&mut self) {
        for _ in 0..self.ticks_per_s {
            self.tick();
            self.tick += 1;
        }
        self.close_second();
    }

    fn now_s(&self) -> f64 {
        self.tick as f64 / self.ticks_per_s as f64
    }

    /// Whether an event goes on in this tick.
    fn is_on(&self, line: &ScriptLine) -> bool {
        let now = self.now_s();
        let ends = line.length_s.map_or(f64::INFINITY, |length| line.at_s + length);
        now >= line.at_s && now < ends
    }

    fn tick(&mut self) {
        self.take_down_and_up();
        self.forget();
        let mut newcomers: Newcomers = vec![0; self.settings.retry.most as usize + 1];
        let returning = self.returning();
        self.arrive(returning, &mut newcomers);
        self.try_again(&mut newcomers);
        self.spread(&newcomers);
        self.serve();
    }

    /// The chance of a thinking client to come in this tick.
    fn returning(&self) -> f64 {
        let usual = self.settings.connections_per_s / self.settings.clients as f64;
        let (mut factor, mut extra) = (1.0, 0.0);
        for line in self.script.iter().filter(|line| self.is_on(line)) {
            match line.event {
                FarmEvent::Load(times) => factor *= times,
                FarmEvent::Return(share) => extra += share / line.length_s.unwrap_or(1.0),
                _ => {}
            }
        }
        let expected = (usual * factor + extra) / self.ticks_per_s as f64;
        // Not 1 - exp(-expected): a client that comes at most once in a tick would come less often
        // than it is asked to.
        expected.min(1.0)
    }

    /// Nodes of events that began or ended; what the balancer notices later.
    fn take_down_and_up(&mut self) {
        let (now, count) = (self.now_s(), self.settings.nodes);
        let mut is_down = vec![false; count as usize];
        for line in &self.script {
            match line.event {
                FarmEvent::Lose(part) if self.is_on(line) => {
                    is_down.iter_mut().take(part.of(count) as usize).for_each(|it| *it = true);
                }
                FarmEvent::Roll(each) if now >= line.at_s => {
                    let turn = ((now - line.at_s) / each) as usize;
                    if let Some(it) = is_down.get_mut(turn) {
                        *it = true;
                    }
                }
                _ => {}
            }
        }
        let detection = (self.settings.detection_s * self.ticks_per_s as f64) as u64;
        for (place, is_down) in is_down.into_iter().enumerate() {
            let node = &mut self.nodes[place];
            match (node.down_since, is_down) {
                (None, true) => {
                    node.down_since = Some(self.tick);
                    for cohort in node.take_queue() {
                        self.failed_of(place, cohort);
                    }
                    // Nobody knows its sessions but itself, and it has forgotten them.
                    if self.settings.sharing == Sharing::Apart {
                        self.bare += std::mem::take(&mut self.nodes[place].held);
                    }
                }
                (Some(_), false) => {
                    node.down_since = None;
                    node.is_known_down = false;
                }
                (Some(since), true) if !node.is_known_down && self.tick >= since + detection => {
                    node.is_known_down = true;
                    self.move_clients(place);
                }
                _ => {}
            }
        }
    }

    /// Clients of a node that the balancer knows to be down go to others, with sessions that these
    /// know.
    fn move_clients(&mut self, place: usize) {
        let held = std::mem::take(&mut self.nodes[place].held);
        let reach = match self.settings.sharing {
            Sharing::Store if self.is_going_on(&FarmEvent::StoreAway) => 0.0,
            Sharing::Peers if self.is_going_on(&FarmEvent::Partition) => 0.5,
            Sharing::Peers => 1.0 - self.settings.lost_share,
            _ => 1.0,
        };
        let kept = self.random.binomial(held, reach);
        self.bare += held - kept;
        let routable = self.routable();
        if routable.is_empty() {
            self.bare += kept;
            return;
        }
        for (node, count) in self.divided(kept, &routable) {
            self.nodes[node].held += count;
        }
    }

    fn is_going_on(&self, event: &FarmEvent) -> bool {
        self.script.iter().any(|line| line.event == *event && self.is_on(line))
    }

    /// Sessions that ended before their time.
    fn forget(&mut self) {
        let instant =
            |line: &&ScriptLine| (line.at_s * self.ticks_per_s as f64) as u64 == self.tick;
        let shares: Vec<f64> = self
            .script
            .iter()
            .filter(instant)
            .filter_map(|line| match line.event {
                FarmEvent::Forget(share) => Some(share),
                _ => None,
            })
            .collect();
        for share in shares {
            for place in 0..self.nodes.len() {
                let lost = self.random.binomial(self.nodes[place].held, share);
                self.nodes[place].held -= lost;
                self.bare += lost;
            }
        }
    }

    /// Clients that come back: with their session to its node, without one to any.
    fn arrive(&mut self, chance: f64, newcomers: &mut Newcomers) {
        let bare = self.random.binomial(self.bare, chance);
        self.bare -= bare;
        newcomers[0] += bare;
        let resumable = self.settings.resumed_share * self.known_share();
        for place in 0..self.nodes.len() {
            let coming = self.random.binomial(self.nodes[place].held, chance);
            self.nodes[place].held -= coming;
            let resumed = self.random.binomial(coming, resumable);
            newcomers[0] += coming - resumed;
            self.enter(place, true, 0, resumed);
        }
    }

    /// The share of nodes that resume a session of any node, where the balancer does not bring it
    /// home.
    fn known_share(&self) -> f64 {
        let up = self.nodes.iter().filter(|node| !node.is_known_down).count().max(1) as f64;
        match self.settings.sharing {
            _ if self.settings.has_affinity => 1.0,
            Sharing::Apart => 1.0 / up,
            Sharing::Store if self.is_going_on(&FarmEvent::StoreAway) => 1.0 / up,
            Sharing::Peers if self.is_going_on(&FarmEvent::Partition) => 0.5,
            Sharing::Peers => 1.0 - self.settings.lost_share,
            _ => 1.0,
        }
    }

    fn try_again(&mut self, newcomers: &mut Newcomers) {
        let slot = self.tick as usize % RING;
        let count = self.nodes.len();
        for (attempt, entering) in newcomers.iter_mut().enumerate().skip(1) {
            *entering += std::mem::take(&mut self.retries.bare[attempt][slot]);
            for place in 0..count {
                let coming = std::mem::take(&mut self.retries.held[attempt][slot * count + place]);
                if coming == 0 {
                    continue;
                }
                if !self.nodes[place].is_known_down {
                    self.enter(place, true, attempt, coming);
                } else if self.settings.sharing == Sharing::Apart {
                    *entering += coming;
                } else {
                    let routable = self.routable();
                    let parts = self.divided(coming, &routable);
                    if parts.is_empty() {
                        self.failed_at_once(None, attempt, coming);
                    }
                    for (other, part) in parts {
                        self.enter(other, true, attempt, part);
                    }
                }
            }
        }
    }

    /// Newcomers go to any node that the balancer believes to be up.
    fn spread(&mut self, newcomers: &Newcomers) {
        let routable = self.routable();
        for (attempt, count) in newcomers.iter().enumerate().filter(|(_, count)| **count > 0) {
            if routable.is_empty() {
                self.failed_at_once(None, attempt, *count);
                continue;
            }
            for (place, part) in self.divided(*count, &routable) {
                self.enter(place, false, attempt, part);
            }
        }
    }

    fn routable(&self) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| !node.is_known_down).map(|(place, _)| place).collect()
    }

    /// A count over nodes by chance, without one lost.
    fn divided(&mut self, count: u64, nodes: &[usize]) -> Vec<(usize, u64)> {
        let mut left = count;
        let mut parts = Vec::with_capacity(nodes.len());
        for (index, place) in nodes.iter().enumerate() {
            let rest = nodes.len() - index;
            let part = if rest == 1 { left } else { self.random.binomial(left, 1.0 / rest as f64) };
            left -= part;
            parts.push((*place, part));
        }
        parts
    }

    /// Connections come to a node: into its queue, or to nobody.
    fn enter(&mut self, place: usize, has_session: bool, attempt: usize, count: u64) {
        if count == 0 {
            return;
        }
        // Those that it serves within the tick do not wait at once.
        let served = self.settings.cores / self.settings.full_s / self.ticks_per_s as f64;
        let most = self.settings.connections_max.saturating_add(served as u64);
        let node = &mut self.nodes[place];
        let room = most.saturating_sub(node.waiting());
        let taken = if node.down_since.is_some() { 0 } else { count.min(room) };
        self.second.attempted += taken;
        if taken > 0 {
            node.push(self.tick, has_session, attempt, taken);
        }
        if taken < count {
            self.failed_at_once(has_session.then_some(place), attempt, count - taken);
        }
    }

    fn failed_at_once(&mut self, home: Option<usize>, attempt: usize, count: u64) {
        self.second.attempted += count;
        self.failed(home, attempt, count);
    }

    fn failed_of(&mut self, place: usize, cohort: ConnectionCohort) {
        self.failed(cohort.has_session.then_some(place), cohort.attempt, cohort.count);
    }

    /// They try again, or think until their next visit.
    fn failed(&mut self, home: Option<usize>, attempt: usize, count: u64) {
        self.second.failed += count;
        if let Some(place) = home {
            self.nodes[place].told.failed += count;
        }
        let next = attempt + 1;
        if next > self.settings.retry.most as usize {
            match home {
                Some(place) if !self.nodes[place].is_known_down => self.nodes[place].held += count,
                _ => self.bare += count,
            }
            return;
        }
        for (wait_s, part) in self.settings.retry.waits(attempt, count) {
            let ticks = (wait_s * self.ticks_per_s as f64).round() as u64;
            let slot = (self.tick + ticks.clamp(1, RING as u64 - 1)) as usize % RING;
            match home {
                Some(place) => {
                    self.retries.held[next][slot * self.nodes.len() + place] += part;
                }
                None => self.retries.bare[next][slot] += part,
            }
        }
    }

    fn serve(&mut self) {
        let on = self.script.iter().filter(|line| self.is_on(line));
        let reload =
            on.map(|line| if let FarmEvent::Reload(share) = line.event { share } else { 0.0 });
        let reload: f64 = reload.sum();
        let cores = self.settings.cores * (1.0 - reload.min(1.0));
        let capacity_s = cores / self.ticks_per_s as f64;
        for place in 0..self.nodes.len() {
            if self.nodes[place].down_since.is_some() {
                self.nodes[place].told.seconds_down += 1;
                continue;
            }
            let served =
                self.nodes[place].serve(self.tick, capacity_s, self.ticks_per_s, &self.settings);
            self.account(place, served);
        }
    }

    fn account(&mut self, place: usize, served: TickWork) {
        let settings = &self.settings;
        for (wait_ticks, count) in &served.waits {
            let wait_s = *wait_ticks as f64 / self.ticks_per_s as f64;
            self.waits.add(wait_s, settings.quantiles_at(served.work), *count);
        }
        let busy = settings.busy_at(served.work);
        self.busy_s += busy;
        self.busy_most = self.busy_most.max(busy);
        let node = &mut self.nodes[place];
        // The client has the session that its connection brought.
        node.held += served.full + served.resumed;
        node.told.full += served.full;
        node.told.resumed += served.resumed;
        node.told.succeeded += served.full + served.resumed;
        node.told.busy_mean += busy;
        node.told.busy_max = node.told.busy_max.max(busy);
        node.told.wasted += served.wasted_s;
        self.second.full += served.full;
        self.second.resumed += served.resumed;
        self.second.succeeded += served.full + served.resumed;
        for cohort in served.gone {
            self.failed_of(place, cohort);
        }
    }

    fn close_second(&mut self) {
        let [mean, median, p99, max] = self.waits.summary_s().map(|value| (value * 1e9) as u64);
        let up = self.nodes.iter().filter(|node| node.down_since.is_none()).count();
        let waiting = self.nodes.iter().map(FarmNode::waiting).sum();
        let held: u64 = self.nodes.iter().map(|node| node.held).sum();
        let at_s = self.seconds.len() as u64;
        self.seconds.push(LoadSecond {
            at_s,
            mean_ns: mean,
            median_ns: median,
            p99_ns: p99,
            max_ns: max,
            open: waiting,
            ..self.second
        });
        let node_ticks = (up.max(1) as u64 * self.ticks_per_s) as f64;
        self.moments.push(SimulatedMoment {
            at_s,
            nodes_up: up as u32,
            busy_mean: self.busy_s / node_ticks,
            busy_max: self.busy_most,
            waiting,
            with_session: held as f64 / self.settings.clients as f64,
        });
        self.second = LoadSecond::default();
        self.waits = WaitHistogram::default();
        (self.busy_s, self.busy_most) = (0.0, 0.0);
    }

    /// Clients wherever they are: thinking, waiting, about to try again. It never changes.
    pub fn clients(&self) -> u64 {
        let retrying = self.retries.bare.iter().chain(&self.retries.held).flatten().sum::<u64>();
        let held: u64 = self.nodes.iter().map(|node| node.held).sum();
        let waiting: u64 = self.nodes.iter().map(FarmNode::waiting_clients).sum();
        self.bare + retrying + held + waiting
    }

    pub fn verdict(&self) -> CollapseVerdict {
        /// More failures than this are no accident.
        const FAILING: f64 = 0.01;
        let ends = self.script.iter().map(|line| line.end_s(self.settings.nodes));
        let over = ends.fold(0.0, f64::max);
        let is_failing =
            |it: &&LoadSecond| it.failed as f64 > FAILING * (it.succeeded + it.failed) as f64;
        let failing: Vec<&LoadSecond> = self.seconds.iter().filter(is_failing).collect();
        let after = failing.iter().filter(|it| it.at_s as f64 >= over).count() as u64;
        let sum = |of: fn(&LoadSecond) -> u64| self.seconds.iter().map(of).sum::<u64>();
        let (failed, succeeded) = (sum(|it| it.failed), sum(|it| it.succeeded));
        CollapseVerdict {
            seconds_failing: failing.len() as u64,
            seconds_after: after,
            has_recovered: self.seconds.last().is_none_or(|last| !is_failing(&last)),
            failed_share: failed as f64 / (failed + succeeded).max(1) as f64,
        }
    }

    /// All that was simulated so far, in the form of a record.
    pub fn run(&self, load: LoadRecord, resumption: Kind) -> SimulatedRun {
        let mut load = LoadRecord {
            elapsed_ns: self.seconds.len() as u64 * 1_000_000_000,
            seconds: self.seconds.clone(),
            ending: if self.is_over() { RunEnding::Completed } else { RunEnding::Interrupted },
            ..load
        };
        for second in &self.seconds {
            load.totals.attempted += second.attempted;
            load.totals.succeeded += second.succeeded;
            load.totals.failed += second.failed;
        }
        if load.totals.failed > 0 {
            load.failures.insert("gave-up".to_owned(), load.totals.failed);
        }
        let count = |of: fn(&LoadSecond) -> u64| self.seconds.iter().map(of).sum();
        let handshakes =
            |kind, count| HandshakeCounts { kind, count, ..HandshakeCounts::default() };
        load.handshakes = vec![
            handshakes(Kind::Full, count(|it| it.full)),
            handshakes(resumption, count(|it| it.resumed)),
        ];
        load.warnings.insert(0, simulated_warning(&self.settings));
        let ticks = self.tick.max(1) as f64;
        let nodes = self.nodes.iter().zip(1..).map(|(node, number)| SimulatedNode {
            node: number,
            busy_mean: node.told.busy_mean / ticks,
            seconds_down: node.told.seconds_down / self.ticks_per_s,
            wasted: node.told.wasted / (self.settings.cores * self.now_s().max(1.0)),
            ..node.told
        });
        SimulatedRun {
            load,
            moments: self.moments.clone(),
            nodes: nodes.collect(),
            script: self.script.iter().map(|line| line.text.clone()).collect(),
            verdict: self.verdict(),
            remedies: Vec::new(),
        }
    }
}

fn simulated_warning(settings: &FarmSettings) -> RunWarning {
    let each_s = settings.connections_per_s;
    RunWarning {
        seen: format!(
            "simulated: no connection was made. Clients are counted in groups; a count of {each_s} \
             per second is off by {:.1} % by chance (95 %), and waits are known to a tick",
            196.0 / each_s.max(1.0).sqrt()
        ),
        hint: "another --seed shows how much of it is chance".to_owned(),
    }
}
