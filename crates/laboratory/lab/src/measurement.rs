//! Measurement: a cell is read once. The server is started, loaded, watched, judged, and ended.
//!
//! Owns what all cells of a run share: the origin behind the servers, and what each server was
//! found to be capable of. Knows neither the order of cells nor the file that readings go to.

mod cpu_assignment;
mod fetched;
mod figures;
mod loaded;
mod machine;
pub(crate) mod missed;
mod origin;
mod usage;
mod verdict;
mod warnings;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use load::plan::{Arrival, Plan, Verification};
use measure::experiment::{Measurement, Noise, Placement};
use measure::histogram::Histogram;
use measure::record::{Counts, Traffic, Warning};

use crate::load::date::Date;
use crate::scenario::cell::{CapacityPlan, CellPlan, Client, Loading, ProgramClient};
use crate::scenario::settings::{Launch, Settings};
use crate::target::certificates::Certificates;
use crate::target::form::Target;
use crate::target::program::Program;
use crate::target::server::{Place, Server};
use cpu_assignment::CpuAssignment;
use fetched::{Fetched, fetch};
use loaded::{Loaded, Under};
use missed::{Halt, Missed};
use origin::Origin;
use usage::{Used, Watched};
use verdict::Evidence;
use warnings::{Capacity, of_capacity, of_client};

/// What all cells of a run share.
pub(crate) struct Bench<'a> {
    certificates: &'a Certificates,
    folder: &'a Path,
    placement: &'a Placement,
    origin: Origin,
    /// Transactions a second that were found, by target, spec, load and repeat.
    capacities: BTreeMap<String, Capacity>,
}

/// What is to be read.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The cell.
    pub(crate) cell: &'a CellPlan,
    /// Its target.
    pub(crate) target: &'a Target,
    /// The target's program.
    pub(crate) program: &'a Program,
    /// From 0.
    pub(crate) repeat: u32,
}

impl<'a> Bench<'a> {
    /// Starts the origin. The folder is that of the whole run.
    ///
    /// # Errors
    /// The origin does not serve.
    pub(crate) fn start(
        certificates: &'a Certificates,
        folder: &'a Path,
        placement: &'a Placement,
    ) -> Result<Self, Missed> {
        Ok(Self {
            origin: Origin::start(&placement.client, folder)?,
            certificates,
            folder,
            placement,
            capacities: BTreeMap::new(),
        })
    }

    /// Reads a cell once. Whatever was started for it has ended when this returns.
    ///
    /// # Errors
    /// [`Missed`].
    pub(crate) fn read(
        &mut self,
        subject: Subject<'_>,
        halt: &dyn Halt,
    ) -> Result<Measurement, Missed> {
        let cpus = CpuAssignment::of(self.placement, subject.cell.spec.workers);
        if self.origin.has_ended() || self.origin.cpus() != cpus.client {
            self.origin = Origin::start(&cpus.client, self.folder)?;
        }
        // What we do ourselves meanwhile is not to be done on the server's CPUs.
        let ours = sys::cpu::allowed_cpus();
        sys::cpu::confine_current_thread(&cpus.client).map_err(Missed::failed)?;
        let read = self.read_from(subject, &cpus, halt);
        sys::cpu::confine_current_thread(&ours).map_err(Missed::failed)?;
        read
    }

    fn read_from(
        &mut self,
        subject: Subject<'_>,
        cpus: &CpuAssignment,
        halt: &dyn Halt,
    ) -> Result<Measurement, Missed> {
        let Subject {
            cell,
            target,
            program,
            ..
        } = subject;
        let place = Place {
            cpus: &cpus.server,
            folder: self.folder,
            origin: Some(self.origin.address()),
            certificates: self.certificates,
            is_given_up: &|| halt.is_asked(),
        };
        let begun = Date::of(SystemTime::now());
        let server = Server::start(target, program, &cell.spec, &place);
        let mut server = server.map_err(Missed::failed)?;
        let mut session = Session {
            watched: Watched {
                server: server.tree(),
                origin: self.origin.tree(),
                cpus: cpus.all(),
            },
            known: known(cell, self.certificates)?,
            server: &server,
            bench: self,
            subject,
            cpus,
            halt,
        };
        let read = match &cell.client {
            Client::Load(loading) => session.load(loading),
            Client::Program(client) => session.fetch(client),
        };
        // One that has ended is why whatever else failed.
        if let Some(how) = server.ended() {
            let name = &target.name;
            return Err(Missed::Failed(format!("{name} ended meanwhile: {how}")));
        }
        server.stop();
        Ok(Measurement {
            at: begun.to_string(),
            ..read?
        })
    }
}

/// The certificates that the server may show, PEM.
fn known(cell: &CellPlan, certificates: &Certificates) -> Result<Vec<u8>, Missed> {
    let mut pem = Vec::new();
    for kind in &cell.spec.certificates {
        let files = certificates.of(*kind).map_err(Missed::failed)?;
        pem.extend(fs::read(&files.chain).map_err(Missed::failed)?);
    }
    Ok(pem)
}

/// One server that runs, for one reading.
struct Session<'s, 'a> {
    bench: &'s mut Bench<'a>,
    subject: Subject<'s>,
    cpus: &'s CpuAssignment,
    server: &'s Server,
    watched: Watched,
    known: Vec<u8>,
    halt: &'s dyn Halt,
}

impl Session<'_, '_> {
    /// By a load of ours.
    fn load(&mut self, loading: &Loading) -> Result<Measurement, Missed> {
        let cell = self.subject.cell;
        let settings = loading.settings.clone();
        let first = match &loading.capacity {
            None => self.plan(&settings, cell.duration)?,
            Some(capacity) => self.plan(&capacity.settings, capacity.duration)?,
        };
        loaded::probe(&first, self.halt)?;
        self.watched.usage_at_rest()?;
        let resident_bytes_before = self.resident_bytes()?;
        let capacity = loading.capacity.as_ref();
        let found = capacity
            .map(|plan| self.capacity(plan, &first))
            .transpose()?;
        let plan = match capacity.zip(found) {
            None => first,
            Some((plan, found)) => {
                let offered = settings.offering(plan.offered, found.per_s, cell.duration);
                self.plan(&offered, cell.duration)?
            }
        };
        let loaded = match found {
            None => self.run(&plan)?,
            // It can do it, as was found; that nothing comes of more is what is asked for.
            Some(_) => loaded::run(&plan, &self.watched, self.halt)?,
        };
        self.judge(&plan, &loaded)?;
        let mut reading = self.reading(loaded, &plan);
        reading.capacity_per_s = found.map(|found| found.per_s);
        reading.warnings.extend(found.and_then(of_capacity));
        reading.resident_bytes_before = resident_bytes_before;
        Ok(reading)
    }

    fn plan(&self, settings: &Settings, duration: Duration) -> Result<Plan, Missed> {
        let cell = self.subject.cell;
        let plan = settings.plan(&Launch {
            is_tls: cell.is_tls,
            address: self.server.address(),
            cpus: self.cpus.client.clone(),
            warm_up: cell.warm_up,
            duration,
        });
        let mut plan = plan.map_err(|complaints| {
            let said = complaints.into_iter().map(|one| {
                let subject = one.subject.unwrap_or_default();
                format!("{subject}: {}", one.message)
            });
            Missed::Failed(said.collect::<Vec<_>>().join("; "))
        })?;
        plan.rests = true;
        if let Some(tls) = &mut plan.tls
            && tls.verification == Verification::Off
        {
            // It costs next to nothing, and the key is a part of what a cell says.
            tls.verification = Verification::These(self.known.clone());
        }
        Ok(plan)
    }

    /// Makes a load of which something succeeds.
    fn run(&self, plan: &Plan) -> Result<Loaded, Missed> {
        let loaded = loaded::run(plan, &self.watched, self.halt)?;
        match loaded.record.totals.succeeded {
            0 => Err(loaded::fruitless(&loaded.record)),
            _ => Ok(loaded),
        }
    }

    /// What this target can do under this load, found once for each repeat.
    fn capacity(&mut self, capacity: &CapacityPlan, plan: &Plan) -> Result<Capacity, Missed> {
        let Subject { cell, repeat, .. } = self.subject;
        let load = capacity.settings.given();
        let key = format!("{repeat} {} {:?} {load:?}", cell.cell.target, cell.spec);
        if let Some(found) = self.bench.capacities.get(&key) {
            return Ok(*found);
        }
        let loaded = self.run(plan)?;
        let seconds = loaded.elapsed.as_secs_f64();
        let cpus = self.cpus.server.len();
        let found = Capacity {
            per_s: loaded.record.totals.succeeded as f64 / seconds.max(1e-9),
            server_busy: loaded.used.server_busy(loaded.elapsed, cpus),
        };
        self.bench.capacities.insert(key, found);
        Ok(found)
    }

    fn judge(&self, plan: &Plan, loaded: &Loaded) -> Result<(), Missed> {
        let record = &loaded.record;
        let evidence = Evidence {
            handshakes: &record.handshakes,
            seconds: &record.seconds,
            totals: record.totals,
            failures: &record.failures,
            is_tls: self.subject.cell.is_tls,
            is_closed: matches!(plan.arrival, Arrival::Closed { .. }),
        };
        verdict::judge(&self.subject.cell.expect, evidence)
    }

    fn reading(&self, loaded: Loaded, plan: &Plan) -> Measurement {
        let Loaded {
            record,
            elapsed,
            busiest,
            carried,
            used,
            under,
        } = loaded;
        // A load that rests carries nothing over; of open load, the server did that work too.
        let operations = record.totals.succeeded + carried;
        let mut warnings = record.warnings.clone();
        warnings.extend(self.warning(Duration::from_nanos(record.client.cpu_ns), elapsed, used));
        Measurement {
            offered_per_s: figures::offered_per_s(plan),
            operations,
            client_cpu_ns: record.client.cpu_ns,
            response: figures::durations(&record.total_latency()),
            handshake: figures::handshake_durations(&record),
            seconds: figures::seconds(plan, &record),
            read_offs: figures::read_offs(plan, &record),
            counts: record.totals,
            failures: record.failures,
            traffic: record.traffic,
            handshakes: record.handshakes,
            steps: record.steps,
            warnings,
            ..self.frame(elapsed, used, under, busiest)
        }
    }

    fn warning(&self, load: Duration, elapsed: Duration, used: Used) -> Option<Warning> {
        let CpuAssignment {
            server,
            client,
            is_shared,
        } = self.cpus;
        let server_busy = used.server_busy(elapsed, server.len());
        let found = of_client(load + used.origin, elapsed, client.len(), server_busy);
        found.filter(|_| !is_shared)
    }

    /// What every reading has.
    fn frame(&self, elapsed: Duration, used: Used, under: Under, client_busy: f64) -> Measurement {
        let Subject { cell, repeat, .. } = self.subject;
        Measurement {
            scenario: cell.scenario.clone(),
            configuration: cell.cell.key.clone(),
            repeat,
            at: String::new(),
            elapsed_ns: nanoseconds(elapsed),
            offered_per_s: None,
            capacity_per_s: None,
            counts: Counts::default(),
            failures: BTreeMap::new(),
            operations: 0,
            server_cpu_ns: nanoseconds(used.server),
            client_cpu_ns: 0,
            origin_cpu_ns: nanoseconds(used.origin),
            resident_bytes_before: 0,
            resident_bytes_loaded: under.resident_bytes,
            open_connections: under.open_connections,
            response: figures::durations(&Histogram::default()),
            handshake: figures::durations(&Histogram::default()),
            traffic: Traffic::default(),
            handshakes: Vec::new(),
            seconds: Vec::new(),
            steps: Vec::new(),
            read_offs: None,
            noise: Noise {
                foreign: used.foreign,
                stolen: used.stolen,
                server_busy: used.server_busy(elapsed, self.cpus.server.len()),
                client_busy: client_busy.min(1.0),
                is_shared: self.cpus.is_shared,
            },
            warnings: Vec::new(),
        }
    }

    /// By another program.
    fn fetch(&self, client: &ProgramClient) -> Result<Measurement, Missed> {
        let scheme = self.server.scheme().name();
        let url = format!("{scheme}://{}{}", self.server.address(), client.path);
        let before = self.watched.usage_at_rest()?;
        let resident_bytes_before = self.resident_bytes()?;
        let mut runs = Vec::new();
        for _ in 0..client.runs {
            let place = (&self.cpus.client[..], self.bench.folder);
            let look = || self.watched.server.resident_bytes().unwrap_or(0);
            runs.push(fetch(client, &url, place, look, self.halt)?);
        }
        let used = self.watched.usage_at_rest()?.since(&before)?;
        self.judge_bytes(&runs)?;
        Ok(Measurement {
            resident_bytes_before,
            ..self.fetched(&runs, used)
        })
    }

    /// Where one object is served, each run must have fetched the whole of it.
    fn judge_bytes(&self, runs: &[Fetched]) -> Result<(), Missed> {
        let [wanted] = self.subject.cell.spec.objects[..] else {
            return Ok(());
        };
        match runs.iter().find(|run| run.bytes != wanted) {
            None => Ok(()),
            Some(run) => Err(Missed::Void(format!(
                "asked for {wanted} bytes, got {}",
                run.bytes
            ))),
        }
    }

    fn fetched(&self, runs: &[Fetched], used: Used) -> Measurement {
        let elapsed: Duration = runs.iter().map(|run| run.took).sum();
        let mut response = Histogram::default();
        for run in runs {
            response.record(run.took);
        }
        let count = runs.len() as u64;
        let under = Under {
            resident_bytes: runs.iter().map(|run| run.resident_bytes).max().unwrap_or(0),
            open_connections: 1,
        };
        let client_busy = used.ended.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        Measurement {
            counts: Counts {
                attempted: count,
                succeeded: count,
                failed: 0,
            },
            operations: count,
            client_cpu_ns: nanoseconds(used.ended),
            response: figures::durations(&response),
            traffic: Traffic {
                connections: count,
                body_bytes: runs.iter().map(|run| run.bytes).sum(),
                ..Traffic::default()
            },
            ..self.frame(elapsed, used, under, client_busy)
        }
    }

    fn resident_bytes(&self) -> Result<u64, Missed> {
        self.watched.server.resident_bytes().map_err(Missed::failed)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
