//! Lariat on a kernel that has TLS, and that kernel's own counts.
//!
//! The counts are those of the whole network namespace, so one test runs at a time.

use std::fmt::Display;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use testkit::directory::Directory;

use crate::client::Client;
use crate::configuration::Service;
use crate::lariat::Lariat;
use crate::patience::{until, until_true};
use crate::process::open_files;
use crate::site::Site;

const COUNTS: &str = "/proc/net/tls_stat";

/// Length of the file that is small whatever the settings.
pub const SMALL: usize = 600;

/// Length of the file that the kernel encrypts by default.
pub const LARGE: usize = (4 << 20) + 123;

/// The kernel's counts of its TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KernelCounts {
    /// Open connections that the kernel encrypts.
    pub sealing: u64,
    /// Connections whose sending the kernel took over since its start.
    pub taken: u64,
    /// Changes of their keys; `None` = this kernel cannot.
    pub rekeys: Option<u64>,
}

impl KernelCounts {
    /// Reads the counts. Panics if the kernel has no TLS, because these tests are for kernels that
    /// have.
    pub fn read() -> Self {
        let text = fs::read_to_string(COUNTS);
        let text = text.unwrap_or_else(|error| {
            panic!("{COUNTS}: {error}: no TLS in this kernel; CONTRIBUTING.md says how to run this")
        });
        let count = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            line.map(|count: u64| count)
        };
        Self {
            sealing: count("TlsCurrTxSw").expect("a count of this name"),
            taken: count("TlsTxSw").expect("a count of this name"),
            rekeys: count("TlsTxRekeyOk"),
        }
    }
}

/// One test's turn: a site, files, a service and a running Lariat.
#[derive(Debug)]
pub struct Bench {
    pub lariat: Lariat,
    pub site: Site,
    /// The files `small`, `large` and, if the test makes them, others.
    pub folder: Directory,
    pub service: Service,
    before: KernelCounts,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    /// Starts Lariat in front of the files, with one worker.
    pub fn files(adjust: impl FnOnce(Service) -> Service) -> Self {
        Self::start(Directory::new(), |site, folder| adjust(Service::files(site, folder)))
    }

    /// Starts Lariat with the files on a file system in memory, so that no thread reads ahead of
    /// the kernel.
    pub fn files_in_memory() -> Self {
        Self::start(Directory::in_memory(), Service::files)
    }

    /// Starts Lariat in front of a server, with one worker.
    pub fn relay(server: impl Display, adjust: impl FnOnce(Service) -> Service) -> Self {
        Self::start(Directory::new(), |site, _| adjust(Service::new(site, server)))
    }

    fn start(folder: Directory, service: impl FnOnce(&Site, &Path) -> Service) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let site = Site::new();
        for (name, length) in [("small", SMALL), ("large", LARGE)] {
            let path = folder.write(name, pattern(length));
            // Long ago, so that all responses have the same head.
            let file = File::options().write(true).open(path);
            let settled = file.and_then(|file| file.set_modified(SystemTime::UNIX_EPOCH));
            settled.expect("our own file");
        }
        let service = service(&site, folder.path());
        let lariat = Lariat::start(&format!("[workers]\nthreads = 1\n{}", service.toml()));
        let before = until("the kernel to forget the last test", || {
            let counts = KernelCounts::read();
            (counts.sealing == 0).then_some(counts)
        });
        Self { lariat, site, folder, service, before, _turn: turn }
    }

    /// Returns the kernel's counts since Lariat was started.
    pub fn counts(&self) -> KernelCounts {
        let now = KernelCounts::read();
        KernelCounts {
            sealing: now.sealing,
            taken: now.taken - self.before.taken,
            rekeys: now.rekeys.zip(self.before.rekeys).map(|(now, then)| now - then),
        }
    }

    /// Waits until Lariat and the kernel both report that this many connections were handed over,
    /// and that none of them is open any more.
    pub fn wait_for_end_of(&self, connections: u32) {
        let wanted = f64::from(connections);
        let metric = "lariat_ktls_connections_total";
        self.lariat.wait_for_metric(metric, &[], wanted);
        self.lariat.wait_for_metric("lariat_ktls_connections_open", &[], 0.0);
        until_true("the kernel's count of open connections to be 0", || self.counts().sealing == 0);
        assert_eq!(self.counts().taken, u64::from(connections));
        assert_eq!(self.lariat.metrics().sum(metric, &[]), wanted, "no more");
    }

    pub fn wait_for_taken(&self, connections: u64) {
        until_true("the kernel to take a connection", || self.counts().taken == connections);
    }

    /// Returns the plaintext bytes sent to clients on this path: `sendfile`, `splice`, `kernel`,
    /// `user-space`.
    pub fn sent(&self, path: &str) -> f64 {
        let metrics = self.lariat.metrics();
        metrics.sum("lariat_sent_bytes_total", &[("path", path)])
    }

    /// Returns the length of the response head of this file, which is the same each time.
    pub fn head_length(&self, path: &str) -> usize {
        let mut connection = Client::new(&self.site).connect(self.service.address);
        let head = format!("HEAD /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        connection.send(head.as_bytes());
        connection.head().len()
    }

    /// Returns the descriptors of the worker process, as the kernel names them.
    pub fn descriptors(&self) -> Vec<PathBuf> {
        open_files(self.lariat.worker_process())
    }
}

/// Returns bytes in which a lost or moved one shows; shorter patterns are prefixes.
pub fn pattern(length: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut bytes = Vec::with_capacity(length + 4);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
