//! The rig: Lariat with its three services, the servers behind them, and its pipes.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::clock::Clock;
use crate::configuration::Service;
use crate::footprint::Footprint;
use crate::lab::Origin;
use crate::lariat::{self, Lariat};
use crate::patience::within;
use crate::site::Site;

use super::honest::{FILE, FILE_BYTES};
use super::journal::Journal;
use super::log_book::PipeReader;
use super::server::CheckingServer;

/// Time of Lariat's drain, in seconds.
const DRAIN_SECONDS: u64 = 3;

/// Largest number of threads that read files from disk.
pub(super) const FILE_THREADS: u32 = 4;

/// Time within which a supervisor ends after its signal: its drain, the worker process's time to
/// go, and room for a loaded machine.
const END_MAX: Duration = Duration::from_secs(DRAIN_SECONDS + 5 + 20);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Choice {
    /// Whether the log goes to a full disk.
    pub(super) is_disk_full: bool,
    /// Whether servers are chosen another way, with one service more.
    pub(super) is_other: bool,
    /// Whether the text is no configuration.
    pub(super) is_broken: bool,
}

#[derive(Debug)]
pub(super) struct Rig {
    pub(super) journal: Arc<Journal>,
    pub(super) lariat: Lariat,
    pub(super) log: PipeReader,
    pub(super) talk: PipeReader,
    pub(super) site: Site,
    pub(super) servers: [CheckingServer; 2],
    pub(super) choice: Choice,
    /// Worker processes of this supervisor that we have killed.
    pub(super) kills: u64,
    pub(super) services: Services,
    /// Socket whose status is asked for all the time; `None` while Lariat is being started again.
    pub(super) watched: Arc<Mutex<Option<PathBuf>>>,
    /// Clock of Lariat's processes; `None` if it is the host's.
    pub(super) clock: Option<Clock>,
    _origin: Origin,
    _folder: Directory,
}

/// The services, each before another kind of back.
#[derive(Clone, Debug)]
pub(super) struct Services {
    /// Service of the servers that check each byte.
    pub(super) exchange: Service,
    pub(super) web: Service,
    pub(super) files: Service,
    /// A service that comes and goes with reloads.
    extra: Service,
}

impl Rig {
    pub(super) fn start(journal: &Arc<Journal>) -> Self {
        let (site, folder, origin) = (Site::new(), Directory::new(), Origin::start());
        folder.write("file", FILE.bytes(0, FILE_BYTES));
        let servers = [(); 2].map(|()| CheckingServer::start(journal));
        let addresses: Vec<SocketAddr> = servers.iter().map(CheckingServer::address).collect();
        let services = Services::new(&site, &folder, &addresses, origin.address);
        let (choice, clock) = (Choice::default(), Clock::prepare());
        if let Err(why) = &clock {
            journal.step(&format!("skipped in this run: the clock cannot jump: {why}"));
        }
        let clock = clock.ok();
        let (lariat, log, talk) = launch(&services.toml(choice), clock.as_ref(), None);
        let watched = Arc::new(Mutex::new(Some(lariat.status_socket())));
        Self {
            journal: Arc::clone(journal),
            lariat,
            log,
            talk,
            site,
            servers,
            choice,
            kills: 0,
            services,
            watched,
            clock,
            _origin: origin,
            _folder: folder,
        }
    }

    /// Writes the configuration of this choice, without a reload.
    pub(super) fn configure(&self, choice: Choice) {
        self.lariat.configure(&self.services.toml(choice));
    }

    /// Ends Lariat by SIGTERM and checks that it ends in time, in order, and without a panic.
    pub(super) fn end(&mut self) {
        self.watch(None);
        self.journal.set_down(true);
        self.lariat.signal(Signal::TERM);
        let Some(status) = within(END_MAX, || self.lariat.ended()) else {
            let text = format!("Lariat still runs {END_MAX:?} after SIGTERM");
            return self.journal.broken(&text);
        };
        let talk = self.talk.take().join("\n");
        self.journal.check(status.success(), || format!("Lariat ended with {status}: {talk}"));
        self.check_talk(&talk);
    }

    /// Ends Lariat and starts it again, with at most this number of descriptors.
    pub(super) fn restart(&mut self, descriptors: Option<u32>) {
        self.end();
        let configuration = self.services.toml(self.choice);
        let (lariat, log, talk) = launch(&configuration, self.clock.as_ref(), descriptors);
        (self.lariat, self.log, self.talk) = (lariat, log, talk);
        self.kills = 0;
        self.journal.set_down(false);
        self.watch(Some(self.lariat.status_socket()));
    }

    /// Checks that the program's messages contain no panic.
    pub(super) fn check_talk(&self, talk: &str) {
        self.journal.check(!talk.contains("panicked"), || format!("a panic: {talk}"));
    }

    pub(super) fn renew_certificate(&self) {
        let leaf = self.site.leaf(&["localhost", "127.0.0.1"]);
        leaf.write(&self.site.directory, "site.pem");
    }

    /// Truncates the file with the site's certificate and key.
    pub(super) fn damage_certificate(&self) {
        let path = self.site.path("site.pem");
        let whole = fs::read(&path).expect("our own file");
        fs::write(&path, &whole[..whole.len() / 3]).expect("our own file");
    }

    /// Returns the footprints of supervisor and worker process; `None` if we may not look.
    pub(super) fn footprints(&self) -> Option<[Footprint; 2]> {
        let supervisor = Footprint::of(self.lariat.supervisor())?;
        Some([supervisor, Footprint::of(self.lariat.worker_process())?])
    }

    pub(super) fn status(&self) -> Option<Value> {
        lariat::try_status(&self.lariat.status_socket())
    }

    fn watch(&self, socket: Option<PathBuf>) {
        *self.watched.lock().unwrap_or_else(PoisonError::into_inner) = socket;
    }
}

impl Services {
    fn new(site: &Site, folder: &Directory, exchange: &[SocketAddr], web: SocketAddr) -> Self {
        let list = |addresses: &[SocketAddr]| {
            let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            format!("{texts:?}")
        };
        // Servers that come back are used again soon.
        let passive = "passive = { failures = 3, ejection-time = '500ms' }";
        let files = Service::files(site, folder.path());
        let web_service = files.clone().named("web").at(free_address());
        Self {
            exchange: files
                .clone()
                .named("exchange")
                .at(free_address())
                .servers(&list(exchange))
                .back(passive),
            web: web_service
                .servers(&list(&[web]))
                .tls("early-data = '16KiB'")
                .back("early-data-safe = true"),
            extra: files.clone().named("extra").at(free_address()),
            files: files.named("files"),
        }
    }

    fn toml(&self, choice: Choice) -> String {
        let (output, balance) = match (choice.is_disk_full, choice.is_other) {
            (true, _) => ("/dev/full", "round-robin"),
            (false, true) => ("stdout", "least-connections"),
            (false, false) => ("stdout", "round-robin"),
        };
        let exchange = self.exchange.clone().back(&format!("balance = '{balance}'"));
        let mut services = vec![exchange, self.web.clone(), self.files.clone()];
        if choice.is_other {
            services.push(self.extra.clone());
        }
        let services: String = services.iter().map(Service::toml).collect();
        let broken = if choice.is_broken { "[nonsense\n" } else { "" };
        // The first keys are of the table of the log, with which the text before this one ends.
        format!(
            "output = '{output}'\nfailures-per-second = 1000000\n\
             [workers]\nthreads = 2\nfile-threads = {FILE_THREADS}\n\
             [process]\ndrain = '{DRAIN_SECONDS}s'\n\
             [resumption]\nsession-cache = {{ entries = 1000, bytes = '512KiB' }}\n\
             {broken}{services}"
        )
    }
}

fn launch(
    configuration: &str,
    clock: Option<&Clock>,
    descriptors: Option<u32>,
) -> (Lariat, PipeReader, PipeReader) {
    let mut words = vec![lariat::command().get_program().to_owned()];
    if let Some(clock) = clock {
        words.splice(0..0, clock.words());
    }
    if let Some(descriptors) = descriptors {
        let limit = format!("--nofile={descriptors}:{descriptors}");
        words.splice(0..0, ["prlimit".into(), limit.into()]);
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    let (lariat, stdout, stderr) = Lariat::start_piped(command, configuration);
    (lariat, PipeReader::start(stdout), PipeReader::start(stderr))
}
