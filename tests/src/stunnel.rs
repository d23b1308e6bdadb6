//! The program `stunnel`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::directory::Directory;
use testkit::server::free_address;

use crate::program::Running;

#[derive(Debug)]
pub struct Stunnel {
    pub address: SocketAddr,
    /// The file that stunnel was started with.
    pub configuration: PathBuf,
    _running: Running,
    _directory: Directory,
}

impl Stunnel {
    /// Terminates TLS with this certificate (chain and key in one file) for a server, with more
    /// lines of the service.
    pub fn terminate(certificate: &Path, server: &str, lines: &str) -> Self {
        let certificate = certificate.display();
        Self::configured(&format!("connect = {server}\ncert = {certificate}\n{lines}\n"))
    }

    /// Starts stunnel by the lines of the service, and of further ones.
    pub fn configured(lines: &str) -> Self {
        Self::by_file(|address| {
            format!("foreground = yes\npid =\n[test]\naccept = {address}\n{lines}\n")
        })
    }

    /// Starts stunnel by the whole file for an address.
    pub fn by_file(text: impl FnOnce(SocketAddr) -> String) -> Self {
        let address = free_address();
        let directory = Directory::new();
        let text = text(address);
        let configuration = directory.write("stunnel.conf", text);
        let mut running = Running::start(Command::new("stunnel").arg(&configuration));
        running.wait_for_listener(address);
        Self { address, configuration, _running: running, _directory: directory }
    }
}
