//! Computes the number of hosts: operational laws for used resources, the queue for the tail.
//!
//! Forced flow law: each resource serves its visits per connection times the connections per
//! second. Utilisation law: it is busy for those times its demand. Little's law: as many are open
//! as arrive in the time that each stays. All three by Denning and Buzen, 1978.

use measure::choice::Kind;
use measure::planned::{
    CacheChoice, PlannedChange, PlannedCost, PlannedDay, PlannedFigure, PlannedResource, TargetPlan,
};
use measure::quantity::{ByteCount, RoundedCount};
use measure::record::RunWarning;

use crate::PlanFault;
use crate::cost::{BusyInflation, ConnectionCost, ConnectionKind, HostSpeeds, TargetCosts};
use crate::observation::{CoreScaling, Observation};
use crate::queue::{DurationShape, WorkerQueue};
use crate::traffic::{self, PlannedKey, Sharing, TrafficForecast};

/// Limit of hosts: a larger number is no longer one farm.
const HOSTS_MAX: u32 = 100_000;

/// Sockets of a connection: the client's and the server's.
const FILES_PER_CONNECTION: f64 = 2.0;

/// Halvings of the search for the busiest worker that keeps the limit: to within 1 %.
const HALVINGS: u32 = 7;

/// Model of a farm of one target before its size is known.
#[derive(Clone, Debug)]
pub struct FarmModel {
    forecast: TrafficForecast,
    full: ConnectionCost,
    resumed: ConnectionCost,
    /// µs of a connection besides its handshake and first small request.
    requests_us: f64,
    inflation: BusyInflation,
    scaling: CoreScaling,
    shape: DurationShape,
    /// Time that a connection spends outside of the server without queueing.
    elsewhere_s: f64,
    connection_bytes: f64,
    program_bytes: f64,
}

/// A worker that just keeps the limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkerLimit {
    /// CPU seconds per second at demands of full use.
    pub work: f64,
    pub busy: f64,
}

impl FarmModel {
    /// # Errors
    /// Fails with [`PlanFault`] if the records do not suffice.
    pub fn new(costs: &TargetCosts, forecast: &TrafficForecast) -> Result<Self, PlanFault> {
        let kind = |kind: Kind| ConnectionKind {
            kind,
            is_tls13: forecast.is_tls13,
            key: forecast.key,
            group: forecast.group.clone(),
        };
        let most = forecast.resumed_most();
        if forecast.resumed_share > most + 1e-6 {
            let resumed = forecast.resumed_share * 100.0;
            return Err(PlanFault::TooFewReturn { resumed, most: most * 100.0 });
        }
        let full = costs.connection(&kind(Kind::Full))?;
        let resumed = costs.connection(&kind(forecast.resumption()))?;
        let requests_us = costs
            .requests_us(forecast.requests_per_connection, forecast.body_bytes)
            .ok_or_else(|| PlanFault::NoCost {
                target: costs.target.clone(),
                what: "a request on a kept connection, or a byte".to_owned(),
                remedy: "`lariat-lab run terminate object-sizes` measures both".to_owned(),
            })?;
        let lightest = costs.lightest().map(|one| (&one.measurement.response, one.cpu_us));
        let elsewhere_s = lightest.map_or(0.0, |(response, cpu_us)| {
            (response.mean_ns as f64 / 1e9 - cpu_us / 1e6).max(0.0)
        });
        Ok(Self {
            forecast: forecast.clone(),
            full,
            resumed,
            requests_us,
            inflation: costs.inflation(),
            scaling: CoreScaling::default(),
            shape: lightest
                .map_or_else(DurationShape::constant, |(response, _)| DurationShape::of(response)),
            elsewhere_s,
            connection_bytes: costs.connection_bytes().map_or(0.0, |(bytes, _)| bytes),
            program_bytes: costs.program_bytes(),
        })
    }

    /// Scales with cores as the records show for the target.
    pub fn scaled_by(self, observations: &[Observation], target: &str) -> Self {
        self.with_scaling(CoreScaling::fit(observations, target).unwrap_or_default())
    }

    fn with_scaling(self, scaling: CoreScaling) -> Self {
        Self { scaling, ..self }
    }

    /// Returns the µs of CPU time of a full and of a resumed connection, including their requests.
    pub fn connection_us(&self) -> (f64, f64) {
        (self.full.mean_us() + self.requests_us, self.resumed.mean_us() + self.requests_us)
    }

    pub fn effective_cores(&self) -> f64 {
        self.scaling.effective(self.forecast.cores)
    }

    /// Returns busy shares of workers by their offered work, each hundredth up to 1.
    pub fn busy_by_work(&self) -> Vec<f64> {
        (0..=100).map(|percent| self.inflation.busy(f64::from(percent) / 100.0)).collect()
    }

    /// Returns median, 95th and 99th percentile of a worker's responses at this work, in seconds.
    pub fn quantiles(&self, work: f64, resumed_share: f64) -> [f64; 3] {
        let responses = self.worker(work, resumed_share).responses(self.forecast.seed);
        // TCP, TLS and the request each take a round trip; TLS 1.2 takes two.
        let trips = if self.forecast.is_tls13 { 3.0 } else { 4.0 };
        let away = trips * self.forecast.round_trip_s;
        [0.5, 0.95, 0.99].map(|share| responses.quantile_ns(share) as f64 / 1e9 + away)
    }

    fn worker(&self, work: f64, resumed_share: f64) -> WorkerQueue {
        let (full, resumed) = self.connection_us();
        let mean = (1.0 - resumed_share) * full + resumed_share * resumed;
        let factor = self.inflation.factor(self.inflation.busy(work));
        WorkerQueue {
            arrivals_per_s: work / (mean / 1e6),
            demands_s: vec![
                (1.0 - resumed_share, full * factor / 1e6),
                (resumed_share, resumed * factor / 1e6),
            ],
            shape: self.shape.clone(),
            elsewhere_s: self.elsewhere_s,
            client_s: 0.0,
        }
    }

    /// Returns the busiest worker that keeps the p99 and the limit of busy time; `None` if even an
    /// idle one does not.
    pub fn worker_limit(&self, resumed_share: f64) -> Option<WorkerLimit> {
        let keeps = |work: f64| {
            self.inflation.busy(work) <= self.forecast.busy_max
                && self.quantiles(work, resumed_share)[2] <= self.forecast.p99_s
        };
        let (mut below, mut above) = (0.01, 1.0);
        if !keeps(below) {
            return None;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(below, above);
            if keeps(middle) { below = middle } else { above = middle }
        }
        Some(WorkerLimit { work: below, busy: self.inflation.busy(below) })
    }

    /// Returns the share that resumes right after `lost` of the hosts have died.
    pub fn resumed_after_loss(&self, hosts: u32, lost: u32) -> f64 {
        let share = self.forecast.resumed_share;
        match self.forecast.sharing {
            Sharing::Apart => share * f64::from(hosts - lost) / f64::from(hosts.max(1)),
            Sharing::Peers | Sharing::Store | Sharing::Tickets => share,
        }
    }

    /// Returns the work of each worker of `hosts`, of which some are lost, at these costs of full
    /// and resumed connections.
    fn work(&self, (full, resumed): (f64, f64), hosts: u32, lost: u32) -> f64 {
        let alive = hosts - lost;
        let share = self.resumed_after_loss(hosts, lost);
        let each = self.forecast.connections_per_s() / f64::from(alive);
        let us = (1.0 - share) * full + share * resumed + self.requests_us;
        let shared = traffic::cpu_share(self.forecast.sharing, alive, each * (1.0 - share));
        (each * us / 1e6 + shared) / self.effective_cores()
    }

    /// Returns the least number of hosts whose workers are within the limit on the worst day.
    fn hosts_for_cpu(&self, limit: WorkerLimit, costs: (f64, f64)) -> Option<u32> {
        let lose = self.forecast.lose;
        self.least(|hosts| self.work(costs, hosts, lose) <= limit.work)
    }

    /// Returns the least number above those that may be lost that fits. More hosts do not fit
    /// worse, except for peers' traffic, so powers of two are tried before the range is halved.
    fn least(&self, fits: impl Fn(u32) -> bool) -> Option<u32> {
        let first = self.forecast.lose + 1;
        let mut above = first;
        while !fits(above) {
            above = above.checked_mul(2).filter(|hosts| *hosts <= HOSTS_MAX)?;
        }
        let mut below = (above / 2).max(first);
        if fits(below) {
            return Some(below);
        }
        while above - below > 1 {
            let middle = u32::midpoint(below, above);
            if fits(middle) { above = middle } else { below = middle }
        }
        Some(above)
    }

    /// Returns the open connections of each host when some are lost.
    fn open_connections(&self, hosts: u32, lost: u32) -> f64 {
        let each = self.forecast.connections_per_s() / f64::from(hosts - lost);
        each * self.forecast.connection_s
    }

    /// Returns the number of useful entries in each host's cache.
    fn cache_entries(&self, hosts: u32, lost: u32) -> f64 {
        let all = self.forecast.sessions_alive();
        match self.forecast.sharing {
            Sharing::Tickets => 0.0,
            Sharing::Peers => all,
            Sharing::Apart | Sharing::Store => all / f64::from(hosts - lost),
        }
    }

    fn memory_bytes(&self, hosts: u32, lost: u32) -> f64 {
        self.open_connections(hosts, lost) * self.connection_bytes
            + self.cache_entries(hosts, lost) * traffic::CACHE_BYTES
            + self.program_bytes
    }

    fn mesh_bytes(&self, hosts: u32, lost: u32) -> f64 {
        let full = 1.0 - self.resumed_after_loss(hosts, lost);
        let made = self.forecast.connections_per_s() / f64::from(hosts - lost) * full;
        traffic::bytes_per_s(self.forecast.sharing, hosts - lost, made)
    }

    /// Returns the hosts that each resource alone requires, the CPU first.
    fn bounds(&self, limit: WorkerLimit) -> Vec<(&'static str, Option<u32>)> {
        let lose = self.forecast.lose;
        let costs = (self.full.mean_us(), self.resumed.mean_us());
        let files = |hosts| {
            self.open_connections(hosts, lose) * FILES_PER_CONNECTION <= self.forecast.files as f64
        };
        let memory = |hosts| self.memory_bytes(hosts, lose) <= self.forecast.memory_bytes as f64;
        let cpu = self.hosts_for_cpu(limit, costs);
        vec![("CPU", cpu), ("memory", self.least(memory)), ("file descriptors", self.least(files))]
    }

    /// Returns the number of hosts, and the resource that decides it.
    pub fn hosts(&self, limit: WorkerLimit) -> Result<(u32, &'static str), String> {
        let bounds = self.bounds(limit);
        if let Some((name, _)) = bounds.iter().find(|(_, hosts)| hosts.is_none()) {
            return Err(match *name {
                "CPU" if self.forecast.sharing == Sharing::Peers => {
                    "what peers send each other takes more CPU than a host has: share sessions by \
                     a store or by tickets"
                        .to_owned()
                }
                name => format!("no number of hosts up to {HOSTS_MAX} has the {name}"),
            });
        }
        let most = bounds.into_iter().filter_map(|(name, hosts)| Some((hosts?, name)));
        // If two are equal, the CPU comes first.
        let (hosts, name) = most.rev().max_by_key(|bound| bound.0).unwrap_or_default();
        let mesh = self.mesh_bytes(hosts, self.forecast.lose);
        if self.forecast.sharing == Sharing::Peers && mesh > traffic::MESH_BYTES_PER_S_MAX {
            return Err(format!(
                "each host would send its peers {}/s: from some dozens of hosts on, share by a \
                 store, or by tickets",
                ByteCount(mesh as u64)
            ));
        }
        Ok((hosts, name))
    }
}

/// Computes the whole answer for one target.
///
/// # Errors
/// Fails with [`PlanFault`] if the records do not suffice.
pub fn plan(
    target: &str,
    observations: &[Observation],
    speeds: &HostSpeeds,
    forecast: &TrafficForecast,
) -> Result<TargetPlan, PlanFault> {
    if !observations.iter().any(|one| one.target == target) {
        return Err(PlanFault::NoTarget(target.to_owned()));
    }
    let costs = TargetCosts::new(target, observations, speeds);
    let scaling = CoreScaling::fit(observations, target);
    let model = FarmModel::new(&costs, forecast)?.with_scaling(scaling.unwrap_or_default());
    let mut warnings = costs.disagreements();
    warnings.extend(assumptions(&costs, &model, scaling));
    let mut answer = TargetPlan {
        target: target.to_owned(),
        costs: cost_lines(&costs, &model),
        cache: cache_choices(&model),
        warnings,
        ..TargetPlan::default()
    };
    let worst = model.resumed_after_loss(forecast.lose + 1, forecast.lose);
    let Some(limit) = model.worker_limit(worst.min(forecast.resumed_share)) else {
        answer.binds = "the p99: a worker that rests does not keep it".to_owned();
        return Ok(answer);
    };
    answer.busy_limit = limit.busy;
    match model.hosts(limit) {
        Err(why) => answer.binds = why,
        Ok((hosts, name)) => {
            name.clone_into(&mut answer.binds);
            answer.hosts = interval(&model, limit, hosts);
            answer.days = days(&model, hosts);
            answer.resources = resources(&model, hosts);
            answer.changes = changes(&costs, &model, hosts);
        }
    }
    Ok(answer)
}

/// Returns the interval of hosts by resampling both costs; other resources' hosts do not vary.
fn interval(model: &FarmModel, limit: WorkerLimit, hosts: u32) -> Option<PlannedFigure> {
    let reckon = |means: &[f64]| Some(f64::from(model.hosts_for_cpu(limit, (means[0], means[1]))?));
    let costs = [&model.full, &model.resumed];
    let figure = ConnectionCost::combined(&costs, model.forecast.seed, reckon)?;
    let value = f64::from(hosts);
    Some(PlannedFigure {
        value,
        low: figure.low.max(value.min(figure.low)),
        high: figure.high.max(value),
    })
}

fn days(model: &FarmModel, hosts: u32) -> Vec<PlannedDay> {
    let lose = model.forecast.lose;
    let mut days = vec![day(model, "normal", hosts, 0)];
    if lose > 0 {
        days.push(day(model, &format!("right after {lose} died"), hosts, lose));
    }
    days
}

fn day(model: &FarmModel, name: &str, hosts: u32, lost: u32) -> PlannedDay {
    let costs = [&model.full, &model.resumed];
    let reckon =
        |means: &[f64]| Some(model.inflation.busy(model.work((means[0], means[1]), hosts, lost)));
    let busy = ConnectionCost::combined(&costs, model.forecast.seed, reckon).unwrap_or_default();
    let resumed_share = model.resumed_after_loss(hosts, lost);
    let work = model.work((model.full.mean_us(), model.resumed.mean_us()), hosts, lost);
    let [p50, _, p99] = model.quantiles(work.min(0.999), resumed_share);
    PlannedDay {
        name: name.to_owned(),
        hosts: hosts - lost,
        connections_per_s: model.forecast.connections_per_s() / f64::from(hosts - lost),
        resumed_share,
        busy,
        p50_ms: p50 * 1e3,
        p99_ms: p99 * 1e3,
    }
}

fn resources(model: &FarmModel, hosts: u32) -> Vec<PlannedResource> {
    let lose = model.forecast.lose;
    let bytes = |bytes: f64| ByteCount(bytes as u64).to_string();
    let resource = |name: &str, used: String, limit: String, used_share: f64| PlannedResource {
        name: name.to_owned(),
        used,
        limit,
        used_share,
    };
    let open = model.open_connections(hosts, lose);
    let memory = model.memory_bytes(hosts, lose);
    let entries = model.cache_entries(hosts, lose);
    let files = open * FILES_PER_CONNECTION;
    let (all_memory, all_files) = (model.forecast.memory_bytes as f64, model.forecast.files as f64);
    let connections = format!("{} connections open", RoundedCount(open.ceil()));
    let mut all = vec![
        resource("memory", bytes(memory), bytes(all_memory), memory / all_memory),
        resource("of it, connections", bytes(open * model.connection_bytes), connections, 0.0),
        resource(
            "of it, session cache",
            bytes(entries * traffic::CACHE_BYTES),
            format!("{} entries worth having", RoundedCount(entries.ceil())),
            0.0,
        ),
        resource(
            "file descriptors",
            RoundedCount(files.ceil()).to_string(),
            RoundedCount(all_files).to_string(),
            files / all_files,
        ),
    ];
    let mesh = model.mesh_bytes(hosts, lose);
    let most = traffic::MESH_BYTES_PER_S_MAX;
    let per_s = |value: f64| format!("{}/s", bytes(value));
    match model.forecast.sharing {
        Sharing::Peers => {
            all.push(resource("sessions to peers, sent", per_s(mesh), per_s(most), mesh / most));
        }
        Sharing::Store => {
            let full = 1.0 - model.forecast.resumed_share;
            let made = model.forecast.connections_per_s() * full;
            let limit = traffic::STORE_SESSIONS_PER_S_MAX;
            let sent = format!("{}, {} sessions/s of all hosts", per_s(mesh), RoundedCount(made));
            let most = format!("{} sessions/s for a core of the store", RoundedCount(limit));
            all.push(resource("sessions to the store", sent, most, made / limit));
        }
        Sharing::Apart | Sharing::Tickets => {
            all.push(resource("session sharing", "0 B/s".to_owned(), "–".to_owned(), 0.0));
        }
    }
    all
}

fn cost_lines(costs: &TargetCosts, model: &FarmModel) -> Vec<PlannedCost> {
    let seed = model.forecast.seed;
    let mut lines = vec![model.full.planned(seed), model.resumed.planned(seed)];
    if model.forecast.requests_per_connection > 1.0 {
        lines.extend(costs.kept_request().map(|cost| cost.planned(seed)));
    }
    if model.forecast.body_bytes > 1024 {
        lines.extend(costs.byte().map(|cost| cost.planned(seed)));
    }
    lines
}

/// Compares caches of a part of the useful entries, and of all. If clients are equal, a cache that
/// is too small by a share loses that share of resumptions (Che and others, 2002).
fn cache_choices(model: &FarmModel) -> Vec<CacheChoice> {
    let forecast = &model.forecast;
    if forecast.sharing == Sharing::Tickets {
        return Vec::new();
    }
    let worth = forecast.sessions_alive();
    let (full, resumed) = model.connection_us();
    let choice = |part: f64| {
        let share = forecast.resumed_share * part;
        let us = (1.0 - share) * full + share * resumed;
        let entries = worth * part;
        CacheChoice {
            entries: entries as u64,
            bytes: (entries * traffic::CACHE_BYTES) as u64,
            resumed_share: share,
            cores: forecast.connections_per_s() * us / 1e6,
        }
    };
    [0.0, 0.25, 0.5, 1.0].map(choice).to_vec()
}

/// Computes the hosts with one choice changed, as far as the records suffice.
fn changes(costs: &TargetCosts, model: &FarmModel, hosts: u32) -> Vec<PlannedChange> {
    let forecast = &model.forecast;
    let mut all = Vec::new();
    let mut with = |change: String, changed: TrafficForecast| {
        all.push(changed_to(change, costs, &changed, model.scaling));
    };
    for key in [PlannedKey::P256, PlannedKey::Rsa2048, PlannedKey::Rsa4096] {
        if key != forecast.key {
            with(format!("key {}", key.name()), TrafficForecast { key, ..forecast.clone() });
        }
    }
    for (name, resumed_share) in [("none", 0.0), ("as many as return", forecast.resumed_most())] {
        let percent = format!("resumed: {name} ({:.0} %)", resumed_share * 100.0);
        with(percent, TrafficForecast { resumed_share, ..forecast.clone() });
    }
    for (name, sharing) in Sharing::NAMED {
        if sharing != forecast.sharing {
            let change = format!("sessions shared: {name}");
            with(change, TrafficForecast { sharing, ..forecast.clone() });
        }
    }
    let requests_per_connection = forecast.requests_per_connection * 2.0;
    let change = format!("{requests_per_connection} requests per connection");
    with(change, TrafficForecast { requests_per_connection, ..forecast.clone() });
    with(
        "twice the cores".to_owned(),
        TrafficForecast { cores: forecast.cores * 2, ..forecast.clone() },
    );
    let more = day(model, "", hosts + 1, 0);
    all.push(PlannedChange {
        change: "one host more".to_owned(),
        hosts: Some(hosts + 1),
        busy_normal: more.busy.value,
        p99_ms: more.p99_ms,
        note: String::new(),
    });
    all
}

fn changed_to(
    change: String,
    costs: &TargetCosts,
    forecast: &TrafficForecast,
    scaling: CoreScaling,
) -> PlannedChange {
    let refused =
        |note: String| PlannedChange { change: change.clone(), note, ..PlannedChange::default() };
    let model = match FarmModel::new(costs, forecast) {
        Ok(model) => model.with_scaling(scaling),
        Err(fault) => return refused(fault.to_string()),
    };
    let Some(limit) = model.worker_limit(forecast.resumed_share) else {
        return refused("the p99 is not kept".to_owned());
    };
    match model.hosts(limit) {
        Err(why) => refused(why),
        Ok((hosts, binds)) => {
            let day = day(&model, "", hosts, 0);
            PlannedChange {
                hosts: Some(hosts),
                busy_normal: day.busy.value,
                p99_ms: day.p99_ms,
                note: if binds == "CPU" { String::new() } else { format!("{binds} binds") },
                change,
            }
        }
    }
}

/// Returns the limits of the records as warnings.
fn assumptions(
    costs: &TargetCosts,
    model: &FarmModel,
    scaling: Option<CoreScaling>,
) -> Vec<RunWarning> {
    let mut all = Vec::new();
    let mut warn = |seen: String, hint: &str| {
        all.push(RunWarning { seen, hint: hint.to_owned() });
    };
    let (target, cores) = (&costs.target, model.forecast.cores);
    if !model.inflation.is_known() {
        warn(
            format!(
                "no record says what less load costs {target}: each connection costs as in full use"
            ),
            "`lariat-lab run part-load` measures it; a third to two thirds more are usual",
        );
    }
    match scaling {
        None if cores > 1 => warn(
            format!("no record says how {target} scales: {cores} cores count as {cores} times one"),
            "`lariat-lab run cores` measures it, with as many levels as the host has cores",
        ),
        Some(scaling) if cores > scaling.measured_cores => warn(
            format!("{cores} cores are outside of what was measured ({})", scaling.measured_cores),
            "`lariat-lab run cores` with more levels, on such a host",
        ),
        _ => {}
    }
    for cost in [&model.full, &model.resumed].into_iter().filter(|cost| !cost.is_measured) {
        warn(
            format!("outside of what was measured: {}: {}", cost.name, cost.source),
            "a scenario of your own with this key, group and version measures it: docs/guide/lab.md",
        );
    }
    let byte = costs.byte().filter(|byte| !byte.is_measured && model.forecast.body_bytes > 1024);
    if let Some(byte) = byte {
        warn(
            format!("outside of what was measured: {}: {}", byte.name, byte.source),
            "`lariat-lab run object-sizes` measures bodies",
        );
    }
    if costs.connection_bytes().is_none() {
        warn(
            format!("no record says what memory a connection of {target} takes: none is counted"),
            "`lariat-lab run idle` measures it",
        );
    }
    if costs.lightest().is_none() {
        warn(
            format!(
                "no record says how responses of {target} vary: the tail is that of equal demands"
            ),
            "`lariat-lab run part-load` measures it",
        );
    }
    all
}
