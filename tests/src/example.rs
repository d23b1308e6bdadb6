//! A configuration of `examples/`, at a test's own addresses and with its own certificates.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::{fs, iter};

use testkit::server::free_address;

use crate::lariat::Lariat;
use crate::site::Site;

#[derive(Debug)]
pub struct Example(String);

impl Example {
    /// Reads an example, and writes the certificates that examples name into the site. The tables
    /// `admin` and `log` are left out, because a test has its own.
    pub fn new(site: &Site, name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        let text = fs::read_to_string(folder.join(name)).expect("an example");
        for name in ["site.pem", "db.pem", "ecdsa.pem", "more/another.pem"] {
            site.leaf(&["localhost", "127.0.0.1"]).write(&site.directory, &format!("certs/{name}"));
        }
        site.authority.write(&site.directory, "certs/internal-ca.pem");
        let mut is_kept = true;
        let lines = text.lines().filter(|line| {
            if line.starts_with('[') {
                is_kept = !["[admin]", "[log]"].contains(line);
            }
            is_kept
        });
        let text = lines.flat_map(|line| iter::once(line).chain(["\n"])).collect::<String>();
        Self(text.replace("\"certs/", &format!("\"{}/", site.path("certs").display())))
    }

    /// Replaces a value wherever it occurs.
    #[must_use]
    pub fn with(self, place: &str, value: impl Display) -> Self {
        assert!(self.0.contains(place), "{place} is not in {}", self.0);
        Self(self.0.replace(place, &value.to_string()))
    }

    /// Replaces a value by a free address.
    #[must_use]
    pub fn at_free_address(self, place: &str) -> (Self, SocketAddr) {
        let address = free_address();
        (self.with(place, address), address)
    }

    pub fn start(&self) -> Lariat {
        Lariat::start(&self.0)
    }
}
