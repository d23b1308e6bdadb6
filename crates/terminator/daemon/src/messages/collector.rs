//! A log daemon as one process reaches it: a socket, and what an entry looks like there.
//!
//! Owns which of its errors mean what; what is done about them is the callers', none of whom may
//! wait for it. It never waits itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use config::LogDaemon;
use sys::{log_socket, process};
use telemetry::log_entry::{Facility, Origin, complete_journal, complete_syslog};
use telemetry::message::Message;

/// A log daemon, by a socket that is connected to it or was.
#[derive(Debug)]
pub(crate) struct Collector {
    socket: OwnedFd,
    protocol: Protocol,
    /// Whether an error may be the answer to an entry before (ICMP, RFC 1122, 4.1.3.3).
    hears_late: bool,
}

#[derive(Debug)]
enum Protocol {
    Syslog(Facility, Origin),
    Journal,
}

#[derive(Debug)]
pub(crate) enum Refusal {
    Full,
    Away {
        why: io::Error,
        /// Whether that is the answer to the entry before, which did not arrive either. The socket
        /// can still be used.
        is_late: bool,
    },
    /// It can never be sent.
    TooLarge(io::Error),
}

impl Collector {
    /// By a socket of [`log_socket::open`].
    pub(crate) fn new(daemon: &LogDaemon, socket: OwnedFd) -> Self {
        let (protocol, hears_late) = match daemon {
            LogDaemon::Syslog { address, facility } => {
                let origin = Origin::new(&process::host_name(), std::process::id());
                let is_ip = matches!(address, wire::address::Address::Ip(_));
                (Protocol::Syslog(*facility, origin), is_ip)
            }
            LogDaemon::Journal(_) => (Protocol::Journal, false),
        };
        Self { socket, protocol, hears_late }
    }

    /// Sends a line about a connection, without its line feed. `space` is for what is sent.
    pub(crate) fn send_line(&self, line: &[u8], space: &mut Vec<u8>) -> Result<(), Refusal> {
        match &self.protocol {
            Protocol::Syslog(facility, origin) => complete_syslog(line, *facility, origin, space),
            Protocol::Journal => complete_journal(line, space),
        }
        // It is far shorter than a datagram may be. The worker process could make no file.
        let sent = log_socket::send_entry(&self.socket, space);
        sent.map_err(|error| self.refusal(error))
    }

    /// Waits so long whether the entry that was just sent is refused late.
    pub(crate) fn confirm(&self, time_max: Duration) -> Result<(), Refusal> {
        if !self.hears_late {
            return Ok(());
        }
        let refused = log_socket::late_error(&self.socket, time_max);
        refused.map_err(|error| self.refusal(error))
    }

    /// Sends something that is said. If it has several entries, some may have been sent before an
    /// error.
    pub(crate) fn send_message(&self, message: &Message<'_>) -> Result<(), Refusal> {
        let sent = match &self.protocol {
            Protocol::Syslog(facility, origin) => {
                let entries = message.syslog(*facility, origin);
                for (number, entry) in entries.iter().enumerate() {
                    if let Err(error) = log_socket::send_entry(&self.socket, entry) {
                        let mut refusal = self.refusal(error);
                        if let Refusal::Away { is_late, .. } = &mut refusal {
                            // Later ones answer to those of this message.
                            *is_late &= number == 0;
                        }
                        return Err(refusal);
                    }
                }
                Ok(())
            }
            Protocol::Journal => {
                let entry = message.journal();
                match log_socket::send_entry(&self.socket, &entry) {
                    Err(error) if log_socket::is_too_large(&error) => {
                        log_socket::send_large_entry(&self.socket, &entry)
                    }
                    sent => sent,
                }
            }
        };
        sent.map_err(|error| self.refusal(error))
    }

    fn refusal(&self, error: io::Error) -> Refusal {
        if error.kind() == io::ErrorKind::WouldBlock {
            return Refusal::Full;
        }
        if log_socket::is_too_large(&error) {
            return Refusal::TooLarge(error);
        }
        let is_late = self.hears_late && error.kind() == io::ErrorKind::ConnectionRefused;
        Refusal::Away { why: error, is_late }
    }
}

impl AsFd for Collector {
    /// Writable when it may take another entry.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
