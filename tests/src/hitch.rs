//! The program `hitch`, in front of a server.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::patience::until_true;
use crate::program::Running;

#[derive(Debug)]
pub struct Hitch {
    pub address: SocketAddr,
    /// The file that hitch was started with.
    pub configuration: PathBuf,
    running: Running,
    _directory: Directory,
}

impl Hitch {
    /// Terminates TLS for `server` with this certificate (chain and key in one file), and with the
    /// OCSP response in a file beside it that ends in `.ocsp`. Only one process serves, because
    /// several would each have sessions of their own.
    pub fn start(certificate: &Path, server: SocketAddr) -> Self {
        Self::start_with(certificate, server, "")
    }

    /// Starts hitch with more settings.
    pub fn start_with(certificate: &Path, server: SocketAddr, settings: &str) -> Self {
        Self::configured(|address| format!("{}{settings}\n", text(address, certificate, server)))
    }

    /// Starts hitch by the file for an address.
    pub fn configured(text: impl FnOnce(SocketAddr) -> String) -> Self {
        let address = free_address();
        let directory = Directory::new();
        let configuration = directory.write("hitch.conf", text(address));
        let mut command = Command::new("hitch");
        command.arg("--config").arg(&configuration);
        let mut running = Running::start(&mut command);
        running.wait_for_listener(address);
        // A different process may have tried the port at that moment.
        until_true("a worker of hitch", || {
            running.assert_running();
            let said = running.stdout() + &running.stderr();
            said.contains("online")
        });
        Self { address, configuration, running, _directory: directory }
    }
}

impl Drop for Hitch {
    fn drop(&mut self) {
        // SIGTERM ends its workers as well; they would outlive a killed hitch.
        if self.running.try_signal(Signal::TERM) {
            self.running.wait();
        }
    }
}

fn text(address: SocketAddr, certificate: &Path, server: SocketAddr) -> String {
    // hitch does not serve with root's rights.
    let user = if geteuid().is_root() { "user = \"nobody\"" } else { "" };
    let staple = certificate.with_extension("ocsp");
    let pem_file = if staple.exists() {
        format!("{{ cert = {certificate:?} ocsp-resp-file = {staple:?} }}")
    } else {
        format!("{certificate:?}")
    };
    format!(
        "frontend = {{ host = \"{}\" port = \"{}\" pem-file = {pem_file} }}
         backend = \"[{}]:{}\"
         workers = 1
         ocsp-dir = \"\"
         {user}\n",
        address.ip(),
        address.port(),
        server.ip(),
        server.port(),
    )
}
