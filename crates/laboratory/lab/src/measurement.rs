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
mod requests;
mod usage;
mod verdict;
mod warnings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use load::plan::{Arrival, Plan, Verification};
use measure::experiment::{Measurement, Noise, Placement, Reload};
use measure::histogram::Histogram;
use measure::kind::Kind;
use measure::record::{Counts, Second, Traffic, Warning};

use crate::load::date::Date;
use crate::process::child::{Child, first_lines};
use crate::scenario::cell::{Call, CapacityPlan, CellPlan, Client, Loading, ProgramLoad};
use crate::scenario::settings::{Launch, Settings};
use crate::target::certificates::{Certificates, site_name};
use crate::target::form::Target;
use crate::target::program::Program;
use crate::target::server::{Place, REQUEST_LOG, Server, own_folder};
use cpu_assignment::CpuAssignment;
use fetched::{Fetched, fetch};
use loaded::{Loaded, Under};
use missed::{Halt, Missed};
use origin::Origin;
use requests::Requests;
use usage::{Used, Watched};
use verdict::Evidence;
use warnings::{Capacity, of_capacity, of_client};

/// Filling a session cache takes less, or the server hangs.
const FILL_MAX: Duration = Duration::from_secs(3600);

/// Between two looks at the memory of a server that reloads.
const RELOAD_PAUSE: Duration = Duration::from_millis(1);

/// For so long after a reload its memory is looked at.
const RELOAD_AFTER: Duration = Duration::from_millis(500);

/// Lines of a failed reload in a message.
const RELOAD_LINES_MAX: usize = 4;

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
    /// The server.
    pub(crate) target: &'a Target,
    /// The program of the server.
    pub(crate) program: &'a Program,
    /// What makes the load in place of us, and its program.
    pub(crate) client: Option<(&'a Target, &'a Program)>,
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
            Client::Program(load) => session.call(load),
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
    if let Some(last) = cell.spec.sites.checked_sub(1) {
        let folder = certificates
            .sites(cell.spec.sites)
            .map_err(Missed::failed)?;
        let path = folder.join(format!("{}.pem", site_name(last)));
        return fs::read(path).map_err(Missed::failed);
    }
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
        let start_ns = nanoseconds(self.server.age());
        self.watched.usage_at_rest()?;
        let resident_bytes_before = self.resident_bytes()?;
        self.fill(&settings)?;
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
        reading.start_ns = start_ns;
        reading.reload = self.reload()?;
        Ok(reading)
    }

    fn launch(&self, duration: Duration) -> Launch {
        let cell = self.subject.cell;
        Launch {
            is_tls: cell.is_tls,
            address: self.server.address(),
            cpus: self.cpus.client.clone(),
            warm_up: cell.warm_up,
            duration,
        }
    }

    fn plan(&self, settings: &Settings, duration: Duration) -> Result<Plan, Missed> {
        let settings = match self.subject.cell.spec.sites.checked_sub(1) {
            None => settings,
            Some(last) => &settings.clone().with("server-name", &site_name(last)),
        };
        let plan = settings.plan(&self.launch(duration));
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
            full_handshakes: self.subject.cell.fill + figures::full_handshakes(&record),
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
            start_ns: 0,
            full_handshakes: 0,
            client_resident_bytes_max: 0,
            reload: None,
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
    fn call(&self, load: &ProgramLoad) -> Result<Measurement, Missed> {
        let Subject { cell, client, .. } = self.subject;
        let (client, program) =
            client.ok_or_else(|| Missed::failed("no program makes the load"))?;
        let folder = own_folder(self.bench.folder, &client.name).map_err(Missed::failed)?;
        let call = Call {
            program: &program.path,
            folder: &folder,
            address: &self.server.address().to_string(),
            spec: &cell.spec,
        };
        let values = load.values(call, &self.launch(cell.duration));
        let before = self.watched.usage_at_rest()?;
        let resident_bytes_before = self.resident_bytes()?;
        let look = || self.watched.server.resident_bytes().unwrap_or(0);
        let fetched = fetch(client, &values, &self.cpus.client, look, self.halt)?;
        let used = self.watched.usage_at_rest()?.since(&before)?;
        let requests = self.requests()?;
        self.judge_call(&fetched, requests.as_ref(), values.connections)?;
        Ok(Measurement {
            resident_bytes_before,
            handshakes: requests.map(|one| one.handshakes).unwrap_or_default(),
            ..self.called(&fetched, used)
        })
    }

    /// What the server logged, if it was asked to.
    fn requests(&self) -> Result<Option<Requests>, Missed> {
        let cell = self.subject.cell;
        if !cell.spec.request_log || !cell.is_tls {
            return Ok(None);
        }
        let path = self.server.folder().join(REQUEST_LOG);
        let log = fs::read_to_string(&path);
        let log = log.map_err(|fault| Missed::Failed(format!("{}: {fault}", path.display())))?;
        // It grows by megabytes, and the run's folder stays until its end.
        let _ = fs::remove_file(&path);
        let requests = requests::parse(&log, &cell.spec);
        let strange = || Missed::Failed(format!("a line of {} is strange", path.display()));
        requests.map(Some).ok_or_else(strange)
    }

    /// The whole of what was asked for must have come, and the server must have seen as much, and
    /// what was expected. It may have seen more: what was in progress when the program ended.
    fn judge_call(
        &self,
        fetched: &Fetched,
        requests: Option<&Requests>,
        connections: u64,
    ) -> Result<(), Missed> {
        let cell = self.subject.cell;
        let counted = fetched.counted;
        let void = |why| Err(Missed::Void(why));
        if let ([wanted], 1..) = (&cell.spec.objects[..], counted.bytes)
            && counted.bytes != *wanted
        {
            return void(format!("asked for {wanted} bytes, got {}", counted.bytes));
        }
        let Some(requests) = requests else {
            return Ok(());
        };
        let (seen, claimed) = (requests.succeeded, counted.operations);
        if !(claimed..=claimed + connections + 1).contains(&seen) {
            return void(format!("it counted {claimed} requests, the server {seen}"));
        }
        let count = |is_full| {
            let rows = requests.handshakes.iter();
            let rows = rows.filter(move |row| (row.kind == Kind::Full) == is_full);
            rows.map(|row| row.count).sum()
        };
        let second = Second {
            full: count(true),
            resumed: count(false),
            ..Second::default()
        };
        let evidence = Evidence {
            handshakes: &requests.handshakes,
            seconds: &[second],
            totals: figures::counts(counted),
            failures: &BTreeMap::new(),
            is_tls: cell.is_tls,
            is_closed: true,
        };
        verdict::judge(&cell.expect, evidence)
    }

    fn called(&self, fetched: &Fetched, used: Used) -> Measurement {
        let counted = fetched.counted;
        let elapsed = fetched.took;
        let mut response = Histogram::default();
        if counted.operations == 1 {
            response.record(elapsed);
        }
        let under = Under {
            resident_bytes: fetched.server_bytes,
            open_connections: 0,
        };
        let client_busy = used.ended.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        Measurement {
            counts: figures::counts(counted),
            operations: counted.operations,
            client_cpu_ns: nanoseconds(used.ended),
            client_resident_bytes_max: fetched.client_bytes,
            response: figures::durations(&response),
            traffic: Traffic {
                body_bytes: counted.bytes,
                ..Traffic::default()
            },
            ..self.frame(elapsed, used, under, client_busy)
        }
    }

    /// Full handshakes, each of which stores a session.
    fn fill(&self, settings: &Settings) -> Result<(), Missed> {
        let count = self.subject.cell.fill;
        if count == 0 {
            return Ok(());
        }
        let settings = settings.clone().without("clients");
        let settings = settings.with("handshake", "full").with("tls", "1.2");
        let mut plan = self.plan(&settings.with("tickets", "off"), FILL_MAX)?;
        plan.warm_up = Duration::ZERO;
        plan.rests = false;
        plan.count_max = Some(count);
        let loaded = self.run(&plan)?;
        match loaded.record.totals.failed {
            0 => Ok(()),
            failed => Err(Missed::Failed(format!(
                "{failed} of {count} sessions failed"
            ))),
        }
    }

    /// A server that reads its configuration again, and its memory meanwhile.
    fn reload(&self) -> Result<Option<Reload>, Missed> {
        let Subject {
            cell,
            target,
            program,
            ..
        } = self.subject;
        if !cell.reloads || target.form.reload.is_empty() {
            return Ok(None);
        }
        let (path, folder) = (program.path.to_string_lossy(), self.server.folder());
        let own = folder.to_string_lossy();
        let words = target.form.reload.iter();
        let words = words.map(|word| {
            word.replace("{{program}}", &path)
                .replace("{{folder}}", &own)
        });
        let mut words = words.map(OsString::from);
        let first = words.next().unwrap_or_default();
        let words: Vec<_> = words.collect();
        let begun = Instant::now();
        let output = folder.join("reload.output");
        let child = Child::start(&first, &words, &self.cpus.client, folder, &output);
        let mut child = child.map_err(Missed::failed)?;
        let mut reload = Reload::default();
        let mut over: Option<Instant> = None;
        while over.is_none_or(|over| over.elapsed() < RELOAD_AFTER) {
            if self.halt.is_asked() {
                return Err(Missed::Interrupted);
            }
            reload.resident_bytes_max = reload.resident_bytes_max.max(self.resident_bytes()?);
            if over.is_none() && child.ended().is_some() {
                over = Some(Instant::now());
                reload.took_ns = nanoseconds(begun.elapsed());
            }
            thread::sleep(RELOAD_PAUSE);
        }
        if child.ended().is_none_or(|how| !how.ends_with(" 0")) {
            let said = first_lines(&child.said(), RELOAD_LINES_MAX);
            return Err(Missed::Failed(format!("the reload failed: {said}")));
        }
        self.watched.usage_at_rest()?;
        reload.resident_bytes_after = self.resident_bytes()?;
        Ok(Some(reload))
    }

    fn resident_bytes(&self) -> Result<u64, Missed> {
        self.watched.server.resident_bytes().map_err(Missed::failed)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
