//! The servers under test: their configuration, their start, their end.
//!
//! Each terminates TLS for one plain backend, with a worker for each of its cores, writes no log,
//! and is otherwise as its makers ship it.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Resource, Signal, getrlimit, kill_process};

use super::arguments::Options;
use super::process::{self, Tree};

/// A program that can be put under test.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its name in the tables.
    pub(crate) name: String,
    /// Which one it is.
    pub(crate) kind: Kind,
    /// The file to run.
    pub(crate) path: PathBuf,
}

/// How a program is configured and started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Ours.
    Lariat,
    /// haproxy in `mode tcp`.
    Haproxy,
    /// nginx with its stream module.
    Nginx,
    /// hitch.
    Hitch,
}

/// What a server is to do.
#[derive(Clone, Debug)]
pub(crate) struct Site<'a> {
    /// A PEM file, or a folder of them.
    pub(crate) certificates: &'a Path,
    /// The plain server behind.
    pub(crate) backend: SocketAddr,
    /// An existing folder for configuration and output.
    pub(crate) folder: &'a Path,
    /// The cores to run on, with a worker for each.
    pub(crate) cores: &'a [usize],
    /// Further tables of Lariat's configuration; empty for its defaults.
    pub(crate) lariat: &'a str,
    /// The longest that the start may take.
    pub(crate) start_max: Duration,
}

/// A server about to start.
pub(crate) struct Launch<'a> {
    /// Its name in the tables.
    pub(crate) name: &'a str,
    /// The program and its words; where its talk goes is decided here.
    pub(crate) command: Command,
    /// Where it will listen.
    pub(crate) address: SocketAddr,
    /// An existing folder for its output.
    pub(crate) folder: &'a Path,
    /// The cores to run on.
    pub(crate) cores: &'a [usize],
    /// The longest that the start may take.
    pub(crate) start_max: Duration,
}

/// A running server; it is ended on drop.
pub(crate) struct Server {
    /// Its name in the tables.
    pub(crate) name: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// All its processes.
    pub(crate) tree: Tree,
    /// From its start until it took a connection.
    pub(crate) started_in: Duration,
    child: Child,
    status_socket: PathBuf,
}

impl Program {
    /// The program of that name.
    pub(crate) fn find(name: &str, options: &Options) -> Result<Self> {
        if let Some((label, path)) = options.haproxies.iter().find(|(label, _)| label == name) {
            let (name, path) = (label.clone(), path.clone());
            return Ok(Self {
                name,
                kind: Kind::Haproxy,
                path,
            });
        }
        let (kind, path) = match name {
            "lariat" => (Kind::Lariat, options.lariat.clone()),
            "haproxy" => (Kind::Haproxy, find_program("haproxy")?),
            "nginx" => (Kind::Nginx, find_program("nginx")?),
            "hitch" => (Kind::Hitch, find_program("hitch")?),
            _ => bail!("no server is called {name}"),
        };
        if !path.exists() {
            bail!(
                "{} does not exist; bench/run builds and installs",
                path.display()
            );
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
            path,
        })
    }

    /// The first line of what it says about its version.
    pub(crate) fn version(&self) -> Result<String> {
        let flag = match self.kind {
            Kind::Lariat | Kind::Hitch => "--version",
            Kind::Haproxy | Kind::Nginx => "-v",
        };
        let output = Command::new(&self.path).arg(flag).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// Starts it and waits until it takes connections.
    ///
    /// # Errors
    /// It ended, or took no connection in time; the message has what it wrote.
    pub(crate) fn start(&self, site: &Site<'_>) -> Result<Server> {
        let address = free_address()?;
        let folder = site.folder.join(&self.name);
        fs::create_dir_all(&folder)?;
        let command = self.command(site, address, &folder)?;
        Server::launch(Launch {
            name: &self.name,
            command,
            address,
            folder: &folder,
            cores: site.cores,
            start_max: site.start_max,
        })
    }

    fn command(&self, site: &Site<'_>, address: SocketAddr, folder: &Path) -> Result<Command> {
        let path = folder.join("configuration");
        let text = match self.kind {
            Kind::Lariat => lariat(site, address, folder),
            Kind::Haproxy => haproxy(site, address),
            Kind::Nginx => nginx(site, address, folder),
            Kind::Hitch => hitch(site, address),
        };
        fs::write(&path, text)?;
        let mut command = Command::new(&self.path);
        match self.kind {
            Kind::Lariat => command.arg("serve").arg(path),
            Kind::Haproxy => command.arg("-db").arg("-f").arg(path),
            Kind::Nginx => command.args(["-e", "stderr", "-c"]).arg(path),
            Kind::Hitch => command.arg("--config").arg(path),
        };
        Ok(command)
    }
}

impl Server {
    /// Starts a program and waits until it takes connections.
    ///
    /// # Errors
    /// It ended, or took no connection in time; the message has what it wrote.
    pub(crate) fn launch(launch: Launch<'_>) -> Result<Self> {
        let output = launch.folder.join("output");
        let mut command = launch.command;
        let log = File::create(&output)?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let begun = Instant::now();
        let child = spawn_pinned(&mut command, launch.cores)
            .with_context(|| format!("cannot start {}", launch.name))?;
        let mut server = Self {
            name: launch.name.to_owned(),
            address: launch.address,
            tree: Tree::of(child.id()),
            started_in: Duration::ZERO,
            child,
            status_socket: launch.folder.join("status.sock"),
        };
        server
            .wait_until_listening(begun, launch.start_max)
            .with_context(|| fs::read_to_string(&output).unwrap_or_default())?;
        server.started_in = begun.elapsed();
        Ok(server)
    }

    fn wait_until_listening(&mut self, begun: Instant, max: Duration) -> Result<()> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended: {status}", self.name);
            }
            match TcpStream::connect(self.address) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() != io::ErrorKind::ConnectionRefused => {
                    return Err(error.into());
                }
                Err(_) if begun.elapsed() > max => {
                    bail!("{} did not listen within {max:?}", self.name);
                }
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    }

    /// Lariat's status socket.
    pub(crate) fn status_socket(&self) -> &Path {
        &self.status_socket
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended by itself.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    /// Asks the first process to end and waits; the others end with it. One that will not is
    /// killed.
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let members = self.tree.members().unwrap_or_default();
        for pid in members
            .into_iter()
            .filter_map(|pid| Pid::from_raw(pid.try_into().ok()?))
        {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// Connections that each server is told to expect: two descriptors each, and some to spare.
pub(crate) fn connections_max() -> u64 {
    let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    descriptors.saturating_sub(500).clamp(200, 200_000) / 2
}

fn lariat(site: &Site<'_>, address: SocketAddr, folder: &Path) -> String {
    let (certificates, backend) = (site.certificates, site.backend);
    let (workers, more) = (site.cores.len(), site.lariat);
    let status = folder.join("status.sock");
    let connections = connections_max();
    format!(
        r#"log = {{ connections = "none" }}
workers = {{ threads = {workers} }}
limits = {{ connections = {connections} }}
admin = {{ status-socket = {status:?} }}
process = {{ drain = "1s" }}
{more}
[[service]]
front = {{ listen = ["{address}"], tls = {{ certificates = [{certificates:?}] }} }}
back = {{ servers = ["{backend}"] }}
"#
    )
}

fn haproxy(site: &Site<'_>, address: SocketAddr) -> String {
    let (certificates, backend) = (site.certificates.display(), site.backend);
    let (workers, connections) = (site.cores.len(), connections_max() - 200);
    format!(
        "global
    nbthread {workers}
    maxconn {connections}
    ssl-default-bind-options ssl-min-ver TLSv1.2
defaults
    mode tcp
    timeout connect 5s
    timeout client 300s
    timeout server 300s
frontend front
    bind {address} ssl crt {certificates}
    default_backend back
backend back
    server one {backend}
"
    )
}

fn nginx(site: &Site<'_>, address: SocketAddr, folder: &Path) -> String {
    let (certificates, backend) = (site.certificates.display(), site.backend);
    let pid = folder.join("pid");
    let (workers, connections) = (site.cores.len(), connections_max() * 2);
    let module = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
    let load = match module.exists() {
        true => format!("load_module {};\n", module.display()),
        false => String::new(),
    };
    format!(
        "{load}daemon off;
worker_processes {workers};
pid {};
error_log stderr crit;
worker_rlimit_nofile {connections};
events {{ worker_connections {connections}; }}
stream {{
    access_log off;
    server {{
        listen {address} ssl;
        ssl_certificate {certificates};
        ssl_certificate_key {certificates};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:bench:32m;
        ssl_session_timeout 5m;
        proxy_connect_timeout 5s;
        proxy_timeout 300s;
        proxy_pass {backend};
    }}
}}
",
        pid.display()
    )
}

fn hitch(site: &Site<'_>, address: SocketAddr) -> String {
    let certificates = match site.certificates.is_dir() {
        true => format!("pem-dir = {:?}", site.certificates),
        false => format!("pem-file = {:?}", site.certificates),
    };
    // Started as root, it insists on another user.
    let user = match rustix::process::geteuid().is_root() {
        true => "user = \"nobody\"\n",
        false => "",
    };
    format!(
        "frontend = \"[{}]:{}\"
backend = \"[{}]:{}\"
{certificates}
workers = {}
daemon = off
syslog = off
log-level = 0
ocsp-dir = \"\"
{user}",
        address.ip(),
        address.port(),
        site.backend.ip(),
        site.backend.port(),
        site.cores.len(),
    )
}

/// Starts a process on some cores: it inherits what the thread that starts it may use.
pub(crate) fn spawn_pinned(command: &mut Command, cores: &[usize]) -> Result<Child> {
    let spawn = || {
        process::pin_thread_to(cores)?;
        Ok(command.spawn()?)
    };
    thread::scope(|scope| scope.spawn(spawn).join())
        .unwrap_or_else(|_| bail!("the thread that starts processes panicked"))
}

/// An address on loopback that nobody listens at.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The program of that name on PATH, or where Debian keeps servers.
pub(crate) fn find_program(name: &str) -> Result<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not installed; bench/run installs it"))
}
