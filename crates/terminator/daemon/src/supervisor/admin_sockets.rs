//! What the supervisor keeps beside the services' listeners: the status socket, the admin
//! listener, the log and the pid file. All but the log stay as they are until it ends.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use config::LogOutput;
use sys::file;
use sys::socket::{self, ListenOptions, PeerAddress};
use wire::address::{Address, UnixName};

use super::failure::{Failure, ListenFailure};
use super::prepared::ConfigSummary;
use super::reading::remove;
use crate::handover::Role;
use crate::status_socket;

/// Operators come one at a time, scrapers a few.
const LISTEN: ListenOptions = ListenOptions {
    backlog: 64,
    fast_open: 0,
    reuse_port: false,
    unix_mode: None,
};

/// Those who may connect see the status: user and group of the supervisor.
const STATUS_MODE: u32 = 0o660;

/// The open admin_sockets. The files among them are removed when this is dropped.
pub(super) struct AdminSockets {
    status: OwnedFd,
    status_path: PathBuf,
    admin: Option<OwnedFd>,
    log: OwnedFd,
    /// What a plan wants that is not yet served.
    proposed_log: Option<OwnedFd>,
    pid_file: Option<PathBuf>,
}

impl AdminSockets {
    /// `log` is the log if it is a file; `admin` listens at the admin address if somebody has
    /// opened it before.
    pub(super) fn open(
        summary: &ConfigSummary,
        log: Option<OwnedFd>,
        admin: Option<OwnedFd>,
    ) -> Result<Self, Failure> {
        let status_path = status_socket::path(&summary.control);
        let status = open_status(&status_path)?;
        // From here on the drop removes the path.
        let mut admin_sockets = Self {
            status,
            status_path,
            admin: None,
            log: log_of(&summary.control.log, log)?,
            proposed_log: None,
            pid_file: None,
        };
        admin_sockets.admin = match (admin, summary.control.listen) {
            (None, Some(address)) => Some(open_admin(address)?),
            (admin, _) => admin,
        };
        if let Some(path) = &summary.process.pid_file {
            let pid = format!("{}\n", std::process::id());
            let written = file::replace(path, pid.as_bytes());
            written.map_err(Failure::file("write the pid file", path))?;
            admin_sockets.pid_file = Some(path.clone());
        }
        Ok(admin_sockets)
    }

    /// Lines go there: the log that is served has been renamed, or is a new file.
    pub(super) fn set_log(&mut self, log: OwnedFd) {
        self.log = log;
    }

    /// Has the log of another plan ready. `log` is the log if it is a file.
    pub(super) fn propose_log(
        &mut self,
        summary: &ConfigSummary,
        log: Option<OwnedFd>,
    ) -> Result<(), Failure> {
        self.proposed_log = Some(log_of(&summary.control.log, log)?);
        Ok(())
    }

    /// The plan is served.
    pub(super) fn accept_log(&mut self) {
        if let Some(log) = self.proposed_log.take() {
            self.log = log;
        }
    }

    /// The plan is not: the next worker process writes where this one does.
    pub(super) fn withdraw_log(&mut self) {
        self.proposed_log = None;
    }

    pub(super) fn log(&self) -> BorrowedFd<'_> {
        self.proposed_log.as_ref().unwrap_or(&self.log).as_fd()
    }

    /// Each descriptor with its role.
    pub(super) fn roles(&self) -> Vec<(Role, BorrowedFd<'_>)> {
        let mut roles = vec![
            (Role::Log, self.log()),
            (Role::StatusSocket, self.status.as_fd()),
        ];
        roles.extend(
            self.admin
                .iter()
                .map(|fd| (Role::AdminListener, fd.as_fd())),
        );
        roles
    }

    pub(super) fn status_path(&self) -> &Path {
        &self.status_path
    }

    /// Where the status page is, with the port that the kernel chose.
    pub(super) fn admin_address(&self) -> Option<SocketAddr> {
        match socket::local_address(self.admin.as_ref()?) {
            Ok(PeerAddress::Ip(address)) => Some(address),
            Ok(PeerAddress::Unix) | Err(_) => None,
        }
    }
}

impl Drop for AdminSockets {
    fn drop(&mut self) {
        let status = Some(std::mem::take(&mut self.status_path));
        remove(status.into_iter().chain(self.pid_file.take()).collect());
    }
}

fn open_status(path: &Path) -> Result<OwnedFd, Failure> {
    status_socket::make_directory(path)?;
    let address = Address::Unix(UnixName::Path(path.to_owned()));
    let options = ListenOptions {
        unix_mode: Some(STATUS_MODE),
        ..LISTEN
    };
    listen("the status socket", &address, &options)
}

fn open_admin(address: SocketAddr) -> Result<OwnedFd, Failure> {
    listen("the status page", &Address::Ip(address), &LISTEN)
}

fn listen(who: &str, address: &Address, options: &ListenOptions) -> Result<OwnedFd, Failure> {
    let failed = |error| ListenFailure {
        who: who.to_owned(),
        address: address.clone(),
        error,
        holder: String::new(),
    };
    Ok(socket::listen(address, options).map_err(failed)?)
}

/// The log if it is a file, or else the descriptor that has been ours from the start.
fn log_of(output: &LogOutput, file: Option<OwnedFd>) -> Result<OwnedFd, Failure> {
    let opened = match (output, file) {
        (LogOutput::Stdout, _) => io::stdout().as_fd().try_clone_to_owned(),
        (LogOutput::Stderr, _) => io::stderr().as_fd().try_clone_to_owned(),
        (LogOutput::File(_), Some(file)) => return Ok(file),
        (LogOutput::File(path), None) => {
            return Err(Failure::file("open the log", path)(
                io::ErrorKind::NotFound.into(),
            ));
        }
    };
    opened.map_err(Failure::host("open the log"))
}
