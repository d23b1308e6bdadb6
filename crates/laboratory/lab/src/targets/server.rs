//! A target as a running server: configured as specified, started on its CPUs, and ended.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde::Deserialize;

use super::certificates::{CertificateFault, Certificates, Files};
use super::form::{ServerSpec, Serves, Target};
use super::program::Program;
use super::templates;
use super::templates::{TemplateFault, Tls, Values};
use crate::process::tree::Tree;
use crate::process::{Child, ChildFault, fault_lines};

#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) cpus: &'a [u16],
    pub(crate) client_cpus: &'a [u16],
    /// An existing folder of the whole run; the server makes its own in it.
    pub(crate) folder: &'a Path,
    /// The plain HTTP server behind those that do not serve themselves.
    pub(crate) origin: Option<SocketAddr>,
    pub(crate) certificates: &'a Certificates,
    /// Whether the start was cancelled.
    pub(crate) is_cancelled: &'a dyn Fn() -> bool,
}

/// A running server; it is ended on drop.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    folder: PathBuf,
    begun: Instant,
    child: Child,
    /// The clients' end of a tunnel.
    near: Option<Child>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartFault {
    #[error("{name} ended as it started ({how}){}", quoted(said))]
    Ended {
        name: String,
        /// For example `exit status: 1`.
        how: String,
        said: String,
    },
    #[error("{name} took no connection within {seconds} s{}", quoted(said))]
    Silent {
        name: String,
        seconds: u64,
        said: String,
    },
    #[error("{0} relays, and there is no origin behind it")]
    NoOrigin(String),
    #[error(transparent)]
    Template(#[from] TemplateFault),
    #[error(transparent)]
    Certificate(#[from] CertificateFault),
    #[error(transparent)]
    Child(#[from] ChildFault),
    #[error("{0}")]
    Ours(#[from] io::Error),
}

/// Longer than any start: thousands of keys are checked then, on a CPU that may be slow.
const START_MAX: Duration = Duration::from_secs(60);
/// Between two checks whether it listens.
const PAUSE: Duration = Duration::from_millis(2);
/// Another program may take a free port first, but not more often than this.
const ATTEMPTS_MAX: usize = 5;

/// The log of requests in a server's own folder.
pub(crate) const REQUEST_LOG: &str = "requests.log";

/// Descriptors that a server needs beside its connections.
const DESCRIPTORS_SPARE: u64 = 500;
/// More connections than this are not to be expected of one host; tables are made for them.
const CONNECTIONS_MAX: u64 = 200_000;

impl Server {
    /// Starts a target and waits until it takes connections.
    pub(crate) fn start(
        target: &Target,
        program: &Program,
        spec: &ServerSpec,
        place: &Place<'_>,
    ) -> Result<Self, StartFault> {
        let kinds = spec.certificates.iter();
        let certificates = kinds.map(|&kind| place.certificates.of(kind));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let certificate_folder = match spec.sites {
            0 => None,
            count => Some(place.certificates.sites(count)?),
        };
        let objects = match target.form.serves {
            Serves::Itself | Serves::Files => objects(place.folder, &spec.objects)?,
            Serves::Origin if place.origin.is_none() => {
                return Err(StartFault::NoOrigin(target.name.clone()));
            }
            Serves::Origin => place.folder.to_owned(),
        };
        let launch = Launch {
            target,
            program,
            spec,
            place,
            certificates: &certificates,
            certificate_folder: certificate_folder.as_deref(),
            authority: &place.certificates.authority()?,
            objects: &objects,
        };
        let mut attempts = 1;
        loop {
            let address = free_address()?;
            let started = launch.start(address);
            let has_ended = matches!(started, Err(StartFault::Ended { .. }));
            let is_taken = has_ended && TcpListener::bind(address).is_err();
            if !is_taken || attempts == ATTEMPTS_MAX {
                return started;
            }
            attempts += 1;
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// How long ago its process was started.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn tree(&self) -> Tree {
        self.child.tree()
    }

    /// How it ended, if it did, with its own words.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let (how, said) = self.end()?;
        Some(format!("{how}{}", quoted(&said)))
    }

    /// How it or its tunnel ended, if one did, and what it said.
    fn end(&mut self) -> Option<(String, String)> {
        let near = self.near.as_mut();
        [Some(&mut self.child), near]
            .into_iter()
            .flatten()
            .find_map(|child| {
                let how = child.ended()?.to_owned();
                Some((how, fault_lines(&child.output())))
            })
    }

    /// Ends it, and waits until all its processes are gone.
    pub(crate) fn stop(self) {
        self.near.into_iter().for_each(Child::stop);
        self.child.stop();
    }
}

struct Launch<'a> {
    target: &'a Target,
    program: &'a Program,
    spec: &'a ServerSpec,
    place: &'a Place<'a>,
    certificates: &'a [Files],
    certificate_folder: Option<&'a Path>,
    authority: &'a Path,
    objects: &'a Path,
}

impl Launch<'_> {
    fn start(&self, address: SocketAddr) -> Result<Server, StartFault> {
        let folder = own_folder(self.place.folder, &self.target.name)?;
        let values = self.values(address, &folder);
        for (name, text) in templates::files(self.target, &values)? {
            fs::write(folder.join(name), text)?;
        }
        let form = &self.target.form;
        let begun = Instant::now();
        let child = self.child(&form.start, &values, self.place.cpus, "output")?;
        let near = match &form.near[..] {
            [] => None,
            words => Some(self.child(words, &values, self.place.client_cpus, "near.output")?),
        };
        let mut server = Server {
            address,
            folder,
            begun,
            child,
            near,
        };
        self.wait_until_listening(&mut server)?;
        bring_back_strays(server.tree(), self.place.cpus)?;
        Ok(server)
    }

    /// Starts a command of the target in the server's folder.
    fn child(
        &self,
        words: &[String],
        values: &Values<'_>,
        cpus: &[u16],
        output: &str,
    ) -> Result<Child, StartFault> {
        let words = templates::command(self.target, words, values)?;
        let words = words.into_iter().map(OsString::from).collect();
        let (scratch, folder) = (self.place.folder, values.folder);
        let words = self.program.command(scratch, folder, words);
        let output = folder.join(output);
        Ok(Child::start(&words, cpus, folder, &output)?)
    }

    fn values<'v>(&'v self, address: SocketAddr, folder: &'v Path) -> Values<'v> {
        let descriptors = sys::limit::open_files();
        let spare = descriptors.saturating_sub(DESCRIPTORS_SPARE);
        Values {
            program: &self.program.path,
            is_given: self.program.is_given(),
            is_root: sys::process::is_root(),
            folder,
            listen: address.into(),
            origin: self.place.origin.map(Into::into),
            front: self.spec.front,
            back_tls: self.spec.back_tls,
            authority: self.authority,
            objects: self.objects,
            object_bytes: &self.spec.objects,
            workers: self.spec.workers,
            cpus: self.place.cpus,
            cpu_masks: templates::masks(self.place.cpus),
            connections: (spare / 2).clamp(100, CONNECTIONS_MAX),
            descriptors,
            certificates: self.certificates,
            certificate_folder: self.certificate_folder,
            request_log: self.spec.request_log,
            nodes: self.spec.nodes,
            shared_sessions: self.spec.shared_sessions,
            session_store: self.spec.session_store,
            tls: Tls::from(self.spec),
        }
    }

    fn wait_until_listening(&self, server: &mut Server) -> Result<(), StartFault> {
        let begun = Instant::now();
        loop {
            let name = || self.target.name.clone();
            if let Some((how, said)) = server.end() {
                let name = name();
                return Err(StartFault::Ended { name, how, said });
            }
            let ready = self.target.form.ready.as_ref();
            let is_ready = ready.is_none_or(|file| server.folder.join(file).exists());
            if is_ready && TcpStream::connect(server.address).is_ok() {
                return Ok(());
            }
            if begun.elapsed() > START_MAX || (self.place.is_cancelled)() {
                return Err(StartFault::Silent {
                    name: name(),
                    seconds: begun.elapsed().as_secs(),
                    said: fault_lines(&server.child.output()),
                });
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Some programs choose CPUs by their own counting, from 0: threads that left theirs go back, each
/// to another one.
fn bring_back_strays(tree: Tree, cpus: &[u16]) -> io::Result<()> {
    let mut next = cpus.iter().cycle();
    for thread in tree.threads()? {
        let Ok(its) = sys::cpu::cpus_of(thread) else {
            continue;
        };
        if its.iter().all(|cpu| cpus.contains(cpu)) {
            continue;
        }
        if let Some(&cpu) = next.next() {
            // It may have ended meanwhile.
            let _ = sys::cpu::confine(thread, &[cpu]);
        }
    }
    Ok(())
}

/// A free address on loopback.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// A new folder for one start: `NAME-1`, `NAME-2`.
pub(crate) fn own_folder(run: &Path, name: &str) -> io::Result<PathBuf> {
    for number in 1_u64.. {
        let path = run.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Files of these sizes, which all servers of a run share. Their bytes are written, not left as
/// holes: a file that is one hole takes no memory, and nothing would be read.
fn objects(run: &Path, sizes: &[u64]) -> io::Result<PathBuf> {
    let folder = run.join("objects");
    fs::create_dir_all(&folder)?;
    for &size in sizes {
        let path = folder.join(size.to_string());
        if fs::metadata(&path).is_ok_and(|there| there.len() == size) {
            continue;
        }
        let mut file = fs::File::create(&path)?;
        let mut left = size;
        while left > 0 {
            let length = left.min(BLOCK.len() as u64);
            file.write_all(&BLOCK[..length as usize])?;
            left -= length;
        }
    }
    Ok(folder)
}

static BLOCK: [u8; 1 << 16] = [b'x'; 1 << 16];

fn quoted(said: &str) -> String {
    match said {
        "" => ", and said nothing".to_owned(),
        said => format!("; it said:\n{said}"),
    }
}

/// Where a load generator's numbers are in what it prints.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Output {
    /// Operations that succeeded; it does one if it does not print how many.
    operations: Option<Number>,
    failed: Option<Number>,
    bytes: Option<Number>,
    seconds: Option<Number>,
    /// The 95th percentile of the response time, in milliseconds.
    #[serde(rename = "p95-ms")]
    p95_ms: Option<Number>,
    faults: Vec<String>,
    /// The file in its folder that it writes them to, if it does not print them.
    file: Option<String>,
}

/// A number by its neighbour in the text. The first place counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Number {
    /// Behind these, one after the other.
    After(Vec<String>),
    Before(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counted {
    pub(crate) operations: u64,
    pub(crate) failed: u64,
    pub(crate) bytes: u64,
    /// How long it took by its own clock, if it prints that.
    pub(crate) took: Option<Duration>,
    /// The 95th percentile of the response time, if it prints that.
    pub(crate) p95: Option<Duration>,
}

impl Output {
    /// The file in its folder that it writes its numbers to, if it does not print them.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// The numbers in what a program printed; `None` where one is missing, or it failed.
    pub(crate) fn read(&self, text: &str) -> Option<Counted> {
        if self.faults.iter().any(|fault| text.contains(fault)) {
            return None;
        }
        let number = |of: &Option<Number>, otherwise: f64| match of {
            None => Some(otherwise),
            Some(number) => number.find(text),
        };
        let time = |of: &Option<Number>, unit_s: f64| match of {
            None => Some(None),
            Some(number) => {
                let seconds = number.find(text)? * unit_s;
                Some(Some(Duration::try_from_secs_f64(seconds).ok()?))
            }
        };
        // The casts saturate.
        Some(Counted {
            operations: number(&self.operations, 1.0)? as u64,
            failed: number(&self.failed, 0.0)? as u64,
            bytes: number(&self.bytes, 0.0)? as u64,
            took: time(&self.seconds, 1.0)?,
            p95: time(&self.p95_ms, 1e-3)?,
        })
    }
}

impl Number {
    fn find<'t>(&self, text: &'t str) -> Option<f64> {
        let is_digit = |letter: char| letter.is_ascii_digit() || letter == '.';
        let digits = match self {
            Self::After(marks) => {
                let next = |text: &'t str, mark| text.split_once(mark).map(|(_, behind)| behind);
                let behind = marks
                    .iter()
                    .try_fold(text, |text, mark| next(text, mark.as_str()))?;
                let behind = behind.trim_start();
                &behind[..behind
                    .find(|letter| !is_digit(letter))
                    .unwrap_or(behind.len())]
            }
            Self::Before(mark) => {
                let (before, _) = text.split_once(mark)?;
                before
                    .trim_end()
                    .rsplit(|letter| !is_digit(letter))
                    .next()?
            }
        };
        digits.parse().ok()
    }
}

#[cfg(test)]
mod output_tests {
    use super::*;

    fn read(form: &str, text: &str) -> Option<Counted> {
        toml::from_str::<Output>(form).unwrap().read(text)
    }

    #[test]
    fn numbers_are_found_by_their_neighbours() {
        let counted = |operations, failed, bytes, took| Counted {
            operations,
            failed,
            bytes,
            took,
            p95: None,
        };
        let form = "operations = { before = \" requests in \" }\nfaults = [\"Non-2xx\"]";
        let said = "  90934 requests in 5.09s, 1.00MB read\n";
        assert_eq!(read(form, said), Some(counted(90934, 0, 0, None)));
        assert_eq!(read(form, &format!("{said}Non-2xx responses: 4\n")), None);
        let form = "operations = { after = [\"Complete\", \"requests:\"] }\n\
                    failed = { after = [\"Failed requests:\"] }";
        let said = "Complete requests:      300\nFailed requests:        2\n";
        assert_eq!(read(form, said), Some(counted(300, 2, 0, None)));
        let form = "bytes = { before = \" bytes\" }\nseconds = { after = [\"bytes in \"] }";
        let took = Some(Duration::from_millis(1250));
        assert_eq!(
            read(form, "1024 bytes in 1.25\n"),
            Some(counted(1, 0, 1024, took))
        );
        let form = "operations = { after = [\"queries:\"] }\np95-ms = { after = [\"95th:\"] }";
        let timed = Counted {
            p95: Some(Duration::from_micros(1640)),
            ..counted(16, 0, 0, None)
        };
        assert_eq!(read(form, "queries:   16 (4)\n 95th:  1.64\n"), Some(timed));
        assert_eq!(read(form, "queries:   16 (4)\n"), None);
    }

    #[test]
    fn what_is_no_number_is_none() {
        let form = "seconds = { after = [\"in \"] }";
        for said in ["", "in ", "in -1", "in long", "in 1.2.3"] {
            assert_eq!(read(form, said), None, "{said}");
        }
    }
}
