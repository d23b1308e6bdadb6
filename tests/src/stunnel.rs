//! The program `stunnel` as a TLS server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use testkit::directory::Directory;
use testkit::server::free_address;

use crate::program::Running;

#[derive(Debug)]
pub struct Stunnel {
    pub address: SocketAddr,
    _running: Running,
    _directory: Directory,
}

impl Stunnel {
    /// Terminates TLS with this certificate (chain and key in one file) for a server, with more
    /// lines of the service.
    pub fn terminate(certificate: &Path, server: &str, lines: &str) -> Self {
        let address = free_address();
        let directory = Directory::new();
        let file = directory.write(
            "stunnel.conf",
            format!(
                "foreground = yes\npid =\n[test]\naccept = {address}\nconnect = {server}\n\
                 cert = {}\n{lines}\n",
                certificate.display()
            ),
        );
        let mut running = Running::start(Command::new("stunnel").arg(file));
        running.wait_for_listener(address);
        Self { address, _running: running, _directory: directory }
    }
}
