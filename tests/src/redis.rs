//! The program `redis-server` with TLS.

use std::net::SocketAddr;
use std::process::Command;

use testkit::directory::Directory;
use testkit::server::free_address;

use crate::program::Running;
use crate::site::Site;

/// A running `redis-server` that keeps nothing.
#[derive(Debug)]
pub struct Redis {
    /// Where it listens for TLS.
    pub address: SocketAddr,
    _running: Running,
    _directory: Directory,
}

impl Redis {
    /// Starts it with the site's certificate, for one version (`TLSv1.2`) and for clients whose
    /// certificates are the site's authority's.
    pub fn with_tls(site: &Site, version: &str) -> Self {
        let address = free_address();
        let directory = Directory::new();
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", &address.ip().to_string(), "--port", "0"])
            .args(["--tls-port", &address.port().to_string()])
            .args(["--tls-protocols", version, "--tls-auth-clients", "yes"])
            .arg("--tls-ca-cert-file")
            .arg(site.ca())
            .arg("--dir")
            .arg(directory.path())
            .args(["--save", "", "--appendonly", "no"]);
        for option in ["--tls-cert-file", "--tls-key-file"] {
            command.arg(option).arg(site.path("site.pem"));
        }
        let mut running = Running::start(&mut command);
        running.wait_for_listener(address);
        Self {
            address,
            _running: running,
            _directory: directory,
        }
    }
}
