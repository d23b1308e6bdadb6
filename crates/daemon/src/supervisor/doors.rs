//! What the supervisor keeps beside the services' listeners: the status socket, the admin
//! listener, the log and the pid file. All but the log stay as they are until it ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use config::LogOutput;
use sys::socket::{self, ListenOptions, PeerAddress};
use wire::address::{Address, UnixName};

use super::failure::{Failure, ListenFailure};
use super::prepared::Outline;
use crate::handover::Role;
use crate::place;

/// Operators come one at a time, scrapers a few.
const LISTEN: ListenOptions = ListenOptions {
    backlog: 64,
    fast_open: 0,
    reuse_port: false,
    unix_mode: None,
};

/// Whoever may connect sees the status; user and group of the supervisor may.
const STATUS_MODE: u32 = 0o660;

/// Addresses of clients are in the log: others need not read it.
const LOG_MODE: u32 = 0o640;

/// The open doors. The files among them are removed when this is dropped.
pub(super) struct Doors {
    status: OwnedFd,
    status_path: PathBuf,
    admin: Option<OwnedFd>,
    log: OwnedFd,
    pid_file: Option<PathBuf>,
}

impl Doors {
    pub(super) fn open(outline: &Outline) -> Result<Self, Failure> {
        let status_path = place::status_socket(&outline.control);
        let status = open_status(&status_path)?;
        // From here on the drop removes the path.
        let mut doors = Self {
            status,
            status_path,
            admin: None,
            log: open_log(&outline.control.log)?,
            pid_file: None,
        };
        doors.admin = outline.control.listen.map(open_admin).transpose()?;
        if let Some(path) = &outline.process.pid_file {
            write_pid(path).map_err(Failure::file("write the pid file", path))?;
            doors.pid_file = Some(path.clone());
        }
        Ok(doors)
    }

    /// Opens the log anew, as `outline` says: it may have been renamed, or be another one.
    pub(super) fn reopen_log(&mut self, outline: &Outline) -> Result<(), Failure> {
        self.log = open_log(&outline.control.log)?;
        Ok(())
    }

    pub(super) fn log(&self) -> BorrowedFd<'_> {
        self.log.as_fd()
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

impl Drop for Doors {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.status_path);
        if let Some(path) = &self.pid_file {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn open_status(path: &Path) -> Result<OwnedFd, Failure> {
    place::make_directory(path)?;
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
    };
    Ok(socket::listen(address, options).map_err(failed)?)
}

fn open_log(output: &LogOutput) -> Result<OwnedFd, Failure> {
    let opened = match output {
        LogOutput::Stdout => io::stdout().as_fd().try_clone_to_owned(),
        LogOutput::Stderr => io::stderr().as_fd().try_clone_to_owned(),
        LogOutput::File(path) => {
            let file = append(path).map_err(Failure::file("open the log", path))?;
            return Ok(file.into());
        }
    };
    opened.map_err(Failure::host("open the log"))
}

fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(LOG_MODE).open(path)
}

fn write_pid(path: &Path) -> io::Result<()> {
    std::fs::write(path, format!("{}\n", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_cannot_be_opened_is_named() {
        let failure = open_log(&LogOutput::File("/nonexistent/x.log".into())).unwrap_err();
        let text = failure.to_string();
        assert!(
            text.starts_with("cannot open the log /nonexistent/x.log: "),
            "{text}"
        );
        assert!(text.contains("\nhint: "), "{text}");
    }
}
