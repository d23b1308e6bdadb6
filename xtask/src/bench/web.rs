//! The web server that clients are measured against: Debian's nginx with one worker.
//!
//! It has a door for each way of resuming, so that what was resumed is certain, and each door
//! twice: one that writes no log, for measuring, and one that logs every request, for checking.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::arguments::{Group, Options, Suite};
use super::server::{Launch, Server, connections_max, find_program, free_address};

/// The path that clients ask for, with a reply of [`BODY_BYTES`].
pub(crate) const PATH: &str = "/1k";
/// Bytes of the body of a reply.
pub(crate) const BODY_BYTES: usize = 1024;
const START_MAX: Duration = Duration::from_secs(15);
const STATUS_WAIT_MAX: Duration = Duration::from_secs(10);
/// Of a line of the log; [`Logged`] has the fields.
const LOG_FORMAT: &str = "$ssl_protocol|$ssl_cipher|$ssl_curve|$ssl_session_reused|$status";

/// A listener by what it resumes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Door {
    /// Session ids and tickets.
    Both,
    /// Session ids alone.
    Ids,
    /// Tickets alone.
    Tickets,
    /// Nothing: every handshake is full.
    Neither,
    /// No TLS.
    Plain,
}

const DOORS: [Door; 5] = [
    Door::Both,
    Door::Ids,
    Door::Tickets,
    Door::Neither,
    Door::Plain,
];

/// Where a door is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Listener {
    door: Door,
    /// Without a log, for measuring.
    pub(crate) measured: SocketAddr,
    /// With a log, for checking.
    pub(crate) logged: SocketAddr,
}

/// The running server.
pub(crate) struct Web {
    /// Its processes.
    pub(crate) server: Server,
    listeners: Vec<Listener>,
    status: SocketAddr,
    log: PathBuf,
}

/// What the server has counted since its start.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Counts {
    /// Connections that it accepted.
    pub(crate) connections: u64,
    /// Requests that it answered.
    pub(crate) requests: u64,
}

/// A request as the log tells it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Logged {
    /// `TLSv1.3`, for instance.
    pub(crate) version: String,
    /// The suite by OpenSSL's name.
    pub(crate) suite: String,
    /// The group of the key exchange, if there was one.
    pub(crate) group: String,
    /// Whether a session was resumed.
    pub(crate) resumed: bool,
    /// The status of the reply.
    pub(crate) status: String,
}

/// What it says about its version.
pub(crate) fn version() -> Result<String> {
    let output = Command::new(find_program("nginx")?).arg("-v").output()?;
    Ok(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

impl Web {
    /// Starts it on a core, with a certificate and key in one PEM file.
    pub(crate) fn start(
        options: &Options,
        certificate: &Path,
        folder: &Path,
        core: usize,
    ) -> Result<Self> {
        let folder = folder.join("nginx");
        fs::create_dir_all(&folder)?;
        let listeners = DOORS
            .into_iter()
            .map(Listener::choose)
            .collect::<Result<Vec<_>>>()?;
        let status = free_address()?;
        let log = folder.join("requests.log");
        let text = configuration(options, certificate, &folder, &listeners, status);
        let path = folder.join("configuration");
        fs::write(&path, text)?;
        let mut command = Command::new(find_program("nginx")?);
        command.args(["-e", "stderr", "-c"]).arg(path);
        let server = Server::launch(Launch {
            name: "nginx",
            command,
            address: status,
            folder: &folder,
            cores: &[core],
            start_max: START_MAX,
        })?;
        Ok(Self {
            server,
            listeners,
            status,
            log,
        })
    }

    /// Where a door is.
    pub(crate) fn listener(&self, door: Door) -> Listener {
        let found = self.listeners.iter().find(|listener| listener.door == door);
        *found.expect("every door has a listener")
    }

    /// What it has counted by now, this question included.
    pub(crate) fn counts(&self) -> Result<Counts> {
        let mut stream = TcpStream::connect(self.status)?;
        stream.set_read_timeout(Some(STATUS_WAIT_MAX))?;
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        parse_counts(&reply).with_context(|| format!("nginx's status is strange: {reply}"))
    }

    /// The requests that were logged since the last look.
    ///
    /// A line is written before the worker answers anything else, so a question first.
    pub(crate) fn take_log(&self) -> Result<Vec<Logged>> {
        self.counts()?;
        let text = fs::read_to_string(&self.log)
            .with_context(|| format!("cannot read {}", self.log.display()))?;
        // nginx appends, so what comes next lands at the beginning.
        fs::write(&self.log, "")?;
        let lines = text.lines().map(Logged::parse).collect::<Option<Vec<_>>>();
        let lines = lines.context("a line of nginx's log is strange")?;
        let refused = lines.iter().find(|line| line.status != "200");
        ensure!(refused.is_none(), "nginx refused a request: {refused:?}");
        Ok(lines)
    }
}

impl Listener {
    fn choose(door: Door) -> Result<Self> {
        Ok(Self {
            door,
            measured: free_address()?,
            logged: free_address()?,
        })
    }
}

impl Counts {
    /// What was counted after `before`, without the second question itself.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections - before.connections - 1,
            requests: self.requests - before.requests - 1,
        }
    }
}

impl Logged {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('|').map(str::to_owned);
        Some(Self {
            version: fields.next()?,
            suite: fields.next()?,
            group: fields.next()?,
            resumed: fields.next()? == "r",
            status: fields.next()?,
        })
    }
}

/// The third line has connections accepted, connections handled, requests.
fn parse_counts(reply: &str) -> Option<Counts> {
    let (_, rest) = reply.split_once("server accepts handled requests")?;
    let mut numbers = rest.split_whitespace().map(str::parse);
    let connections = numbers.next()?.ok()?;
    let _handled = numbers.next()?;
    let requests = numbers.next()?.ok()?;
    Some(Counts {
        connections,
        requests,
    })
}

fn configuration(
    options: &Options,
    certificate: &Path,
    folder: &Path,
    listeners: &[Listener],
    status: SocketAddr,
) -> String {
    let connections = connections_max() * 2;
    let (suite_13, suite_12) = suites(options.suite.unwrap_or(Suite::Aes128));
    let (folder, certificate) = (folder.display(), certificate.display());
    let groups = groups(options.group);
    let servers: String = listeners.iter().map(Listener::configuration).collect();
    format!(
        "daemon off;
worker_processes 1;
pid {folder}/pid;
error_log stderr crit;
worker_rlimit_nofile {connections};
events {{ worker_connections {connections}; }}
http {{
    log_format handshakes '{LOG_FORMAT}';
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    default_type application/octet-stream;
    ssl_certificate {certificate};
    ssl_certificate_key {certificate};
    ssl_protocols TLSv1.2 TLSv1.3;
    ssl_ciphers {suite_12};
    ssl_conf_command Ciphersuites {suite_13};
    ssl_ecdh_curve {groups};
    ssl_session_timeout 1h;
    server {{ listen {status}; location / {{ stub_status; }} }}
{servers}}}
"
    )
    .replace("LOG", &format!("{folder}/requests.log"))
}

impl Listener {
    /// The two servers of a door; `LOG` stands for the path of the log.
    fn configuration(&self) -> String {
        let resumption = match self.door {
            Door::Both => "ssl_session_cache shared:bench:32m; ssl_session_tickets on;",
            Door::Ids => "ssl_session_cache shared:bench:32m; ssl_session_tickets off;",
            Door::Tickets => "ssl_session_cache off; ssl_session_tickets on;",
            Door::Neither => "ssl_session_cache off; ssl_session_tickets off;",
            Door::Plain => "",
        };
        let tls = if self.door == Door::Plain { "" } else { " ssl" };
        let body = "x".repeat(BODY_BYTES);
        let server = |address: SocketAddr, log: &str| {
            format!(
                "    server {{ listen {address}{tls}; {resumption} {log}
        location = {PATH} {{ return 200 \"{body}\"; }} }}\n"
            )
        };
        let logged = "access_log LOG handshakes;";
        server(self.measured, "") + &server(self.logged, logged)
    }
}

/// The only suites of TLS 1.3 and 1.2, by OpenSSL's names.
fn suites(suite: Suite) -> (&'static str, &'static str) {
    match suite {
        Suite::Aes128 => ("TLS_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        Suite::Aes256 => ("TLS_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        Suite::ChaCha20 => (
            "TLS_CHACHA20_POLY1305_SHA256",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
    }
}

/// The groups that clients and server have, by OpenSSL's names. The first is what is used; P-256 is
/// there for TLS 1.2, whose clients must have the certificate's curve among their groups.
pub(crate) fn groups(group: Group) -> &'static str {
    match group {
        Group::X25519 => "X25519:P-256",
        Group::Secp256r1 => "P-256",
        Group::X25519MlKem768 => "X25519MLKEM768:P-256",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let reply = "HTTP/1.1 200 OK\r\n\r\nActive connections: 1 \n\
                     server accepts handled requests\n 17 16 15 \nReading: 0\n";
        let counts = parse_counts(reply).expect("a status");
        assert_eq!((counts.connections, counts.requests), (17, 15));
        assert_eq!(parse_counts("HTTP/1.1 404 Not Found\r\n\r\n"), None);
    }

    #[test]
    fn a_question_does_not_count_itself() {
        let counts = |connections, requests| Counts {
            connections,
            requests,
        };
        assert_eq!(counts(12, 25).since(counts(10, 10)), counts(1, 14));
    }

    #[test]
    fn a_line_of_the_log_is_read() {
        let line = Logged::parse("TLSv1.3|TLS_AES_128_GCM_SHA256|X25519|r|200").expect("a line");
        assert!(line.resumed);
        assert_eq!(
            (line.group.as_str(), line.status.as_str()),
            ("X25519", "200")
        );
        let full = Logged::parse("TLSv1.2|x||.|200").expect("a line");
        assert!(!full.resumed);
        assert_eq!(Logged::parse("rubbish"), None);
    }
}
