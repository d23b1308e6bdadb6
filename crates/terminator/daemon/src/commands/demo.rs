//! `lariat demo`: the whole thing at work, without a file or an argument.
//!
//! Makes certificates and a small server, and hands the rest to the supervisor that `serve` runs.

mod certificates;
mod server;
mod stage;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

use wire::address::Address;

use super::serve::end_of;
use crate::commands::console::Console;
use crate::commands::exit::Exit;
use crate::reader::ConfigSource;
use crate::supervisor::{self, Failure, Request, Started};

use stage::Stage;

#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoOptions {
    pub(crate) listen: SocketAddr,
    /// The address of the status page; `None` = the usual port, or another if that is taken.
    pub(crate) admin: Option<SocketAddr>,
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

pub(crate) fn run(options: DemoOptions, console: Console) -> Exit {
    match set_up(options) {
        Ok((stage, server)) => serve(options, &stage, server, console),
        Err(error) => {
            console.error(format_args!("cannot set up the demo: {error:#}"));
            Exit::Failed
        }
    }
}

fn set_up(options: DemoOptions) -> anyhow::Result<(Stage, TcpListener)> {
    let server = TcpListener::bind(loopback(0))?;
    let stage = Stage::new().map_err(no_room)?;
    let certificates = certificates::make(options.listen.ip())?;
    stage.write("ca.pem", &certificates.authority)?;
    stage.write("ecdsa.pem", &certificates.ecdsa)?;
    stage.write("rsa.pem", &certificates.rsa)?;
    let text = configuration(options, server.local_addr()?);
    stage.write("lariat.toml", &text)?;
    Ok((stage, server))
}

fn no_room(error: io::Error) -> anyhow::Error {
    let folder = std::env::temp_dir();
    let folder = folder.display();
    anyhow::anyhow!(
        "cannot make a directory in {folder}: {error}\n\
         hint: have TMPDIR name one that exists and is writable: `TMPDIR=/dev/shm lariat demo`"
    )
}

fn configuration(options: DemoOptions, server: SocketAddr) -> String {
    let admin = options.admin.unwrap_or_else(free_admin_address);
    let listen = options.listen;
    // Nothing here is anybody's.
    let insecure = !admin.ip().is_loopback();
    format!(
        r#"# What `lariat demo` serves.
[[service]]
name = "demo"
front = {{ listen = ["{listen}"], tls = {{ certificates = ["ecdsa.pem", "rsa.pem"], alpn = ["http/1.1"] }} }}
back = {{ servers = ["{server}"], send-proxy = "v2" }}

[admin]
listen = "{admin}"
insecure = {insecure}
status-socket = "status.sock"

[limits]
connections = 400

[process]
drain = "1s"
"#
    )
}

/// The usual port of the status page, if nobody has it. The demo must not fail for its second
/// port; should somebody take it in this moment, the supervisor says so.
fn free_admin_address() -> SocketAddr {
    let usual = loopback(8444);
    match TcpListener::bind(usual) {
        Ok(_) => usual,
        Err(_) => loopback(0),
    }
}

fn serve(options: DemoOptions, stage: &Stage, listener: TcpListener, console: Console) -> Exit {
    let mut waiting = Some(listener);
    let ended = supervisor::run(Request {
        config: ConfigSource::File(stage.path("lariat.toml")),
        started: &mut |started: &Started| {
            if started.is_reload {
                return;
            }
            // Threads start here, after the supervisor has blocked the signals that it reads.
            match waiting.take().map(server::start) {
                Some(Err(error)) => {
                    console.error(format_args!("the demo server cannot start: {error}"))
                }
                Some(Ok(())) | None => tell(started, options, stage.directory(), console),
            }
        },
        colour: console.colour(),
    });
    let taken = is_taken(&ended);
    let exit = end_of(ended, console);
    if taken {
        console.hint("`lariat demo --listen 127.0.0.1:0` takes a free port");
    }
    exit
}

fn is_taken(ended: &Result<(), Failure>) -> bool {
    let Err(Failure::Listen(failure)) = ended else {
        return false;
    };
    failure.error.kind() == io::ErrorKind::AddrInUse
}

fn tell(started: &Started, options: DemoOptions, directory: &Path, console: Console) {
    let address = started.listeners.iter().find_map(|(_, address)| match address {
        Address::Ip(address) => Some(*address),
        Address::Unix(_) | Address::Inherited(_) => None,
    });
    let address = address.unwrap_or(options.listen);
    let url = format!("https://{}:{}", host(address), address.port());
    let authority = directory.join("ca.pem");
    let curl = format!("curl --cacert {}", authority.display());
    let rsa = "--tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256";
    let socket = started.status_socket.display();
    console.say(format_args!(
        "\
lariat terminates TLS at {address} and relays the plaintext to a small server.

See what the server sees (TLS 1.3, and an ECDSA certificate):
    {curl} {url}/

The same address for a client that knows RSA alone:
    {curl} {rsa} {url}/

Some bytes:
    {curl} --output /dev/null {url}/64k

The worker process {}.",
        started.rights
    ));
    if let Some(admin) = started.admin {
        console.say(format_args!("Status page:    http://{admin}/"));
    }
    console.say(format_args!("Status here:    lariat status --status-socket {socket}"));
    console.say(format_args!("Configuration:  {}", directory.join("lariat.toml").display()));
    console.say("Ctrl-C stops it and removes its files. Connections:\n");
}

/// A name that is in the certificates.
fn host(address: SocketAddr) -> String {
    let ip = address.ip();
    match ip {
        _ if ip.is_loopback() || ip.is_unspecified() => "localhost".to_owned(),
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_good() {
        let certificates = certificates::make(Ipv4Addr::LOCALHOST.into()).unwrap();
        let mut files = config::Recording::default();
        files.insert("d/ecdsa.pem", certificates.ecdsa.into_bytes());
        files.insert("d/rsa.pem", certificates.rsa.into_bytes());
        let options = DemoOptions { listen: loopback(8443), admin: Some(loopback(0)) };
        let source = config::Source::of_text("d/lariat.toml", configuration(options, loopback(80)));
        let loaded = config::load(&source, &mut files).unwrap();
        assert_eq!(loaded.warnings, []);
        let terminated = loaded.settings.plane.services[0].front.terminated();
        assert_eq!(terminated.unwrap().certificates.len(), 2);
    }

    #[test]
    fn hosts_are_names_of_the_certificate() {
        assert_eq!(host(loopback(1)), "localhost");
        assert_eq!(host("0.0.0.0:1".parse().unwrap()), "localhost");
        assert_eq!(host("[2001:db8::1]:1".parse().unwrap()), "[2001:db8::1]");
    }
}
