//! The program `haproxy`, before and behind Lariat.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::directory::Directory;
use testkit::server::free_address;

use crate::program::Running;

#[derive(Debug)]
pub struct Haproxy {
    pub address: SocketAddr,
    pub configuration: PathBuf,
    _running: Running,
    _directory: Directory,
}

impl Haproxy {
    /// Starts an HTTP server that takes a PROXY header and answers by a haproxy log format.
    pub fn receive_proxy(body: &str) -> Self {
        Self::start_with(
            "",
            "accept-proxy",
            &format!(
                "mode http\n http-request return status 200 content-type text/plain lf-string {body:?}\n"
            ),
        )
    }

    /// Starts a TCP forwarder that sends a PROXY header: `send-proxy` or `send-proxy-v2`.
    pub fn send_proxy(target: SocketAddr, how: &str) -> Self {
        Self::start_with("", "", &format!("mode tcp\n server target {target} {how}\n"))
    }

    /// Starts an HTTPS server with this certificate (chain and key in one file) and more options of
    /// its `bind` line, that answers with `ok`.
    pub fn terminate(certificate: &Path, bind: &str) -> Self {
        Self::terminate_with(certificate, bind, "")
    }

    /// Starts such a server with lines of the section `global`.
    pub fn terminate_with(certificate: &Path, bind: &str, global: &str) -> Self {
        Self::start_with(
            global,
            &format!("ssl crt {} {bind}", certificate.display()),
            "mode http\n http-request return status 200 content-type text/plain string ok\n",
        )
    }

    /// Starts haproxy with the whole configuration, for an address.
    pub fn configured(text: impl Fn(SocketAddr) -> String) -> Self {
        let address = free_address();
        let directory = Directory::new();
        let configuration = directory.write("haproxy.cfg", text(address));
        let mut command = Command::new("haproxy");
        command.arg("-db").arg("-f").arg(&configuration);
        let mut running = Running::start(&mut command);
        running.wait_for_listener(address);
        Self { address, configuration, _running: running, _directory: directory }
    }

    fn start_with(global: &str, bind: &str, rest: &str) -> Self {
        Self::configured(|address| {
            format!(
                "global\n{global}\ndefaults\n timeout connect 10s\n timeout client 60s\n timeout server 60s\n\
             listen test\n bind {address} {bind}\n {rest}"
            )
        })
    }
}
