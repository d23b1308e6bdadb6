//! Runs a target as a server: configures it as specified, starts it on its CPUs, and ends it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::certificates::{TargetCertificateFiles, TargetCertificates};
use super::form::{ServerSpec, Serves, TestTarget};
use super::program::TargetProgram;
use super::templates::{self, TemplateTls, Values};
use crate::process::scratch::first_free;
use crate::process::{GuardedChild, ProcessTree, fault_lines};

#[derive(Clone, Copy)]
pub(crate) struct ServerPlace<'a> {
    pub(crate) cpus: &'a [u16],
    pub(crate) client_cpus: &'a [u16],
    /// An existing folder of the whole run; the server makes its own in it.
    pub(crate) folder: &'a Path,
    /// The plain HTTP server behind targets that do not answer requests themselves.
    pub(crate) origin: Option<SocketAddr>,
    pub(crate) certificates: &'a TargetCertificates,
    /// Whether the start was cancelled.
    pub(crate) is_cancelled: &'a dyn Fn() -> bool,
}

/// A running server, ended on drop.
#[derive(Debug)]
pub(crate) struct TargetServer {
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    /// Start time of its process.
    pub(crate) begun: Instant,
    child: GuardedChild,
    /// The clients' end of a tunnel.
    near: Option<GuardedChild>,
}

/// Time limit of a start, longer than any usual one: it may check thousands of keys, or make a
/// database's tables, on a slow CPU.
const START_MAX: Duration = Duration::from_secs(180);
/// Additional time limit for each certificate or service beyond the usual ones.
const START_MORE: Duration = Duration::from_millis(10);
/// Pause between two checks whether it listens.
const PAUSE: Duration = Duration::from_millis(2);
/// Tries of a start, because another program may take the chosen free port first.
const ATTEMPTS_MAX: usize = 5;

/// The log of requests in a server's own folder.
pub(crate) const REQUEST_LOG: &str = "requests.log";

/// Descriptors that a server needs besides its connections.
const DESCRIPTORS_SPARE: u64 = 500;
/// Limit of connections, because tables are made for them; only a scenario may set more.
const CONNECTIONS_MAX: u64 = 200_000;

impl TargetServer {
    /// Starts a target and waits until it accepts connections.
    pub(crate) fn start(
        target: &TestTarget,
        program: &TargetProgram,
        spec: &ServerSpec,
        place: &ServerPlace<'_>,
    ) -> io::Result<Self> {
        let certificates = spec.certificates.iter().map(|&kind| place.certificates.of(kind));
        let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
        let certificate_folder = match spec.sites {
            0 => None,
            count => Some(place.certificates.sites(count)?),
        };
        let objects = match target.form.serves {
            Serves::Itself | Serves::Files => objects(place.folder, &spec.objects)?,
            Serves::Origin if place.origin.is_none() => {
                let why = format!("{} relays, and there is no origin behind it", target.name);
                return Err(io::Error::other(why));
            }
            Serves::Origin => place.folder.to_owned(),
        };
        let launch = ServerLaunch {
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
            let is_taken = started.is_err() && TcpListener::bind(address).is_err();
            if !is_taken || attempts == ATTEMPTS_MAX {
                return started;
            }
            attempts += 1;
        }
    }

    pub(crate) fn tree(&self) -> ProcessTree {
        self.child.tree()
    }

    /// Returns how the server ended, if it did, and its own words.
    pub(crate) fn ended(&mut self) -> Option<String> {
        let (how, said) = self.end()?;
        Some(format!("{how}{}", quoted(&said)))
    }

    /// Returns how the server or its tunnel ended, if one did, and its output.
    fn end(&mut self) -> Option<(String, String)> {
        let near = self.near.as_mut();
        [Some(&mut self.child), near]
            .into_iter()
            .flatten()
            .find_map(|child| Some((child.ended()?.to_owned(), fault_lines(&child.output()))))
    }

    /// Ends the server, and waits until all its processes are gone.
    pub(crate) fn stop(self) {
        drop((self.near, self.child));
    }
}

struct ServerLaunch<'a> {
    target: &'a TestTarget,
    program: &'a TargetProgram,
    spec: &'a ServerSpec,
    place: &'a ServerPlace<'a>,
    certificates: &'a [TargetCertificateFiles],
    certificate_folder: Option<&'a Path>,
    authority: &'a Path,
    objects: &'a Path,
}

impl ServerLaunch<'_> {
    fn start(&self, address: SocketAddr) -> io::Result<TargetServer> {
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
        let mut server = TargetServer { address, folder, begun, child, near };
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
    ) -> io::Result<GuardedChild> {
        let words = templates::command(self.target, words, values)?;
        let words = words.into_iter().map(OsString::from).collect();
        let (scratch, folder) = (self.place.folder, values.folder);
        let words = self.program.command(scratch, folder, words);
        let output = folder.join(output);
        GuardedChild::start(&words, cpus, folder, &output)
    }

    fn values<'v>(&'v self, address: SocketAddr, folder: &'v Path) -> Values<'v> {
        let descriptors = sys::usage::open_files();
        let spare = descriptors.saturating_sub(DESCRIPTORS_SPARE);
        Values {
            program: &self.program.path,
            is_given: self.program.is_given,
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
            connections: match self.spec.connections {
                0 => (spare / 2).clamp(100, CONNECTIONS_MAX),
                asked => asked + DESCRIPTORS_SPARE,
            },
            descriptors,
            certificates: self.certificates,
            certificate_folder: self.certificate_folder,
            request_log: self.spec.request_log,
            nodes: self.spec.nodes,
            shared_sessions: self.spec.shared_sessions,
            session_store: self.spec.session_store,
            tls: TemplateTls::from(self.spec),
        }
    }

    fn wait_until_listening(&self, server: &mut TargetServer) -> io::Result<()> {
        let begun = Instant::now();
        let start_max = START_MAX + START_MORE * (self.spec.sites + self.spec.services);
        loop {
            let name = &self.target.name;
            if let Some((how, said)) = server.end() {
                let said = quoted(&said);
                return Err(io::Error::other(format!("{name} ended as it started ({how}){said}")));
            }
            let ready = self.target.form.ready.as_ref();
            let is_ready = ready.is_none_or(|file| server.folder.join(file).exists());
            if is_ready && TcpStream::connect(server.address).is_ok() {
                return Ok(());
            }
            if begun.elapsed() > start_max || (self.place.is_cancelled)() {
                let seconds = begun.elapsed().as_secs();
                let said = quoted(&fault_lines(&server.child.output()));
                let why = format!("{name} took no connection within {seconds} s{said}");
                return Err(io::Error::other(why));
            }
            thread::sleep(PAUSE);
        }
    }
}

/// Moves threads that left their CPUs back, each to another CPU, because some programs choose CPUs
/// by their own numbers, from 0.
fn bring_back_strays(tree: ProcessTree, cpus: &[u16]) -> io::Result<()> {
    let mut next = cpus.iter().cycle();
    for thread in tree.threads()? {
        let Ok(its) = sys::cpu::cpus_of(thread) else {
            continue;
        };
        if its.iter().all(|cpu| cpus.contains(cpu)) {
            continue;
        }
        if let Some(&cpu) = next.next() {
            // The thread may have ended meanwhile.
            let _ = sys::cpu::confine(thread, &[cpu]);
        }
    }
    Ok(())
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Makes a new folder for one start: `NAME-1`, `NAME-2`.
pub(crate) fn own_folder(run: &Path, name: &str) -> io::Result<PathBuf> {
    let paths = (1_u64..).map(|number| run.join(format!("{name}-{number}")));
    first_free(paths, |path| fs::create_dir(path)).map(|(path, ())| path)
}

/// Makes files of these sizes, which all servers of a run share. Writes their bytes instead of
/// holes: a sparse file takes no memory, and nothing would be read.
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
