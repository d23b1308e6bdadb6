//! A service as TOML: tests set what they need, the rest is the same for all.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;

use testkit::server::free_address;

use crate::lariat::Lariat;
use crate::site::Site;

/// A service that terminates TLS for one server, or for files.
#[derive(Clone, Debug)]
#[must_use]
pub struct Service {
    name: String,
    pub address: SocketAddr,
    listen: String,
    certificates: String,
    /// Key of the servers or files behind the service.
    behind: String,
    more: String,
    front: String,
    /// Mode of clients' TLS, if it is not terminated.
    mode: Option<String>,
    tls: String,
    back: String,
}

impl Service {
    /// Makes a service named `web`, on a free port, with the site's own certificate, before a
    /// server (or its address).
    pub fn new(site: &Site, server: impl Display) -> Self {
        Self::before(site, &format!("servers = {:?}", [server.to_string()]))
    }

    /// Makes such a service of the files beneath a folder.
    pub fn files(site: &Site, folder: &Path) -> Self {
        Self::before(site, &format!("files = {folder:?}"))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds keys of `files`, as in a TOML table.
    pub fn serving(mut self, keys: &str) -> Self {
        let folder = self.behind.strip_prefix("files = ");
        let folder = folder.expect("files stand behind it");
        self.behind = format!("files = {{ root = {folder}, {keys} }}");
        self
    }

    fn before(site: &Site, behind: &str) -> Self {
        let address = free_address();
        Self {
            name: "web".to_owned(),
            address,
            listen: format!("{:?}", [address.to_string()]),
            certificates: format!("[{:?}]", site.path("site.pem")),
            behind: behind.to_owned(),
            more: String::new(),
            front: String::new(),
            mode: None,
            tls: String::new(),
            back: String::new(),
        }
    }

    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    pub fn at(mut self, address: SocketAddr) -> Self {
        self.address = address;
        self.listen = format!("{:?}", [address.to_string()]);
        self
    }

    /// Sets the addresses, a TOML array.
    pub fn listen(mut self, array: &str) -> Self {
        array.clone_into(&mut self.listen);
        self
    }

    /// Sets the certificates, a TOML array.
    pub fn certificates(mut self, array: &str) -> Self {
        array.clone_into(&mut self.certificates);
        self
    }

    /// Sets the servers, a TOML array.
    pub fn servers(mut self, array: &str) -> Self {
        self.behind = format!("servers = {array}");
        self
    }

    /// Adds keys of the service itself: `timeouts`, `limits`.
    pub fn more(mut self, keys: &str) -> Self {
        add(&mut self.more, keys);
        self
    }

    /// Sets `front.tls` to one word: `passthrough` or `off`.
    pub fn mode(mut self, word: &str) -> Self {
        self.mode = Some(word.to_owned());
        self
    }

    /// Adds keys of `front`.
    pub fn front(mut self, keys: &str) -> Self {
        add(&mut self.front, keys);
        self
    }

    /// Adds keys of `front.tls`.
    pub fn tls(mut self, keys: &str) -> Self {
        add(&mut self.tls, keys);
        self
    }

    /// Adds keys of `back`.
    pub fn back(mut self, keys: &str) -> Self {
        add(&mut self.back, keys);
        self
    }

    /// Starts Lariat with only this service.
    pub fn start(&self) -> Lariat {
        self.start_with("")
    }

    /// Starts Lariat with keys of `[log]`, then tables of their own, before the service.
    pub fn start_with(&self, tables: &str) -> Lariat {
        Lariat::start(&format!("{tables}\n{}", self.toml()))
    }

    pub fn toml(&self) -> String {
        let Self { name, listen, certificates, behind, more, front, mode, tls, back, .. } = self;
        let tls = match mode {
            Some(word) => format!("tls = {word:?}\n"),
            None => format!("[service.front.tls]\ncertificates = {certificates}\n{tls}"),
        };
        format!(
            "[[service]]\nname = {name:?}\n{more}\
             [service.front]\nlisten = {listen}\n{front}{tls}\
             [service.back]\n{behind}\n{back}"
        )
    }
}

fn add(keys: &mut String, more: &str) {
    keys.push_str(more);
    keys.push('\n');
}
