//! The program `redis-server`, or the one that the environment names in `REDIS_SERVER`, such as
//! `valkey-server`; and a client of it that sends any bytes.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::patience::{PATIENCE, until_true};
use crate::program::Running;
use crate::site::Site;

/// A running `redis-server` that keeps nothing.
#[derive(Debug)]
pub struct Redis {
    pub address: SocketAddr,
    running: Running,
    directory: Directory,
}

pub fn command() -> Command {
    Command::new(env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into()))
}

impl Redis {
    /// Starts a server without TLS, with these options.
    pub fn start(options: &[&str]) -> Self {
        Self::start_at(free_address(), options)
    }

    /// Starts a server at an address.
    pub fn start_at(address: SocketAddr, options: &[&str]) -> Self {
        Self::start_by(&mut command(), address, options)
    }

    /// Starts a server by a command, for example one of another host.
    pub fn start_by(command: &mut Command, address: SocketAddr, options: &[&str]) -> Self {
        let directory = Directory::new();
        command
            .args(["--port", &address.port().to_string()])
            .args(["--bind", &address.ip().to_string()])
            .args(options)
            .arg("--dir")
            .arg(directory.path());
        let running = Running::start(command.args(["--save", "", "--appendonly", "no"]));
        Self { address, running, directory }.ready()
    }

    /// Starts one of the sentinels of a service, whose master is there.
    pub fn sentinel(service: &str, master: SocketAddr) -> Self {
        let (ip, port) = (master.ip().to_string(), master.port());
        Self::sentinel_by(&mut command(), service, (&ip, port), "")
    }

    /// Starts a sentinel by a command with more configuration; the master may have a name.
    pub fn sentinel_by(
        command: &mut Command,
        service: &str,
        (host, port): (&str, u16),
        more: &str,
    ) -> Self {
        let (address, directory) = (free_address(), Directory::new());
        let configuration = format!(
            "port {}\nbind {}\n{more}\nsentinel monitor {service} {host} {port} 2\nsentinel down-after-milliseconds \
             {service} 500\nsentinel failover-timeout {service} 5000\n",
            address.port(),
            address.ip(),
        );
        let file = directory.write("sentinel.conf", configuration);
        let running = Running::start(command.arg(file).arg("--sentinel"));
        Self { address, running, directory }.ready()
    }

    /// Starts a server with the site's certificate, for one version (`TLSv1.2`) and for clients
    /// whose certificates are the site's authority's.
    pub fn with_tls(site: &Site, version: &str) -> Self {
        Self::by_tls(site, &["--tls-protocols", version, "--tls-auth-clients", "yes"])
    }

    /// Starts a server with the site's certificate and these options.
    pub fn by_tls(site: &Site, options: &[&str]) -> Self {
        let address = free_address();
        let port = address.port().to_string();
        let [ca, pem] = [site.ca(), site.path("site.pem")].map(|one| one.display().to_string());
        let tls = [
            ["--port", "0"],
            ["--tls-port", &port],
            ["--tls-ca-cert-file", &ca],
            ["--tls-cert-file", &pem],
            ["--tls-key-file", &pem],
        ];
        Self::start_by(&mut command(), address, &[tls.as_flattened(), options].concat())
    }

    /// Waits until the server accepts connections; those of another host cannot be tried.
    fn ready(self) -> Self {
        if self.address.ip().is_loopback() {
            return self.listening();
        }
        until_true("redis-server to be ready", || {
            let said = self.running.stdout();
            said.contains("Ready to accept connections")
        });
        self
    }

    fn listening(mut self) -> Self {
        self.running.wait_for_listener(self.address);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.running.wait();
    }

    /// Sends a command and returns the answer without the form around it: elements of a list stand
    /// one after the other.
    pub fn ask(&self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut socket = TcpStream::connect(self.address).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("any time");
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).bytes());
            bytes.extend_from_slice(word);
            bytes.extend(b"\r\n");
        }
        socket.write_all(&bytes).expect("it reads");
        let mut answers = Vec::new();
        read_answer(&mut BufReader::new(socket), &mut answers);
        answers
    }

    /// Sends a command in words, which must not fail.
    pub fn tell(&self, command: &str) -> Vec<Vec<u8>> {
        let words: Vec<_> = command.split(' ').map(str::as_bytes).collect();
        let answers = self.ask(&words);
        let first = answers.first().map(|answer| String::from_utf8_lossy(answer));
        assert!(!first.is_some_and(|first| first.starts_with("-")), "{answers:?}");
        answers
    }

    /// Returns the stored names and values, except the users' own mark.
    pub fn contents(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let names = self.tell("KEYS *").into_iter().filter(|name| !name.ends_with(b"probe"));
        let value = |name: &Vec<u8>| self.ask(&[b"GET", name]).concat();
        names.map(|name| (name.clone(), value(&name))).collect()
    }
}

/// Reads an answer (RESP 2); an error keeps its `-`.
fn read_answer(from: &mut impl BufRead, answers: &mut Vec<Vec<u8>>) {
    let mut line = String::new();
    from.read_line(&mut line).expect("it answers in time");
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).expect("an answer has a kind");
    match kind {
        "*" => {
            let count: usize = rest.parse().expect("a number of elements");
            (0..count).for_each(|_| read_answer(from, answers));
        }
        "$" if rest != "-1" => {
            let length: usize = rest.parse().expect("a length");
            let mut bytes = vec![0; length + 2];
            from.read_exact(&mut bytes).expect("as long as it says");
            bytes.truncate(length);
            answers.push(bytes);
        }
        "$" => {}
        "-" => answers.push(line.into()),
        _ => answers.push(rest.into()),
    }
}
