//! What the service manager hears of us: datagrams to `$NOTIFY_SOCKET`, as in sd_notify(3).
//!
//! Owns the messages' form and what the manager says of its watchdog. It never waits and never
//! fails: a manager that is gone, or does not read, must not end a service.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt::{self, Write};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use sys::clock;
use wire::text::is_control;

/// From one try to send to the next while the manager's queue is full. It reads in a loop of its
/// own, so that such a queue is a matter of milliseconds.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Messages that wait for a place in the manager's queue; it gets each within a reload, and a
/// reload sends three. Further ones are lost.
const WAITING_MAX: usize = 16;

/// Characters of a status: `systemctl status` shows it in one line.
const STATUS_CHARACTERS_MAX: usize = 400;

/// One thing that the manager is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Notice {
    /// Started, or reloaded: connections are accepted.
    Ready,
    /// A reload has begun.
    Reloading,
    /// It ends, and takes no longer than that.
    Stopping(Duration),
    /// What it does, in a sentence.
    Status(String),
    /// The service is another process now, of this number.
    MainProcess(u32),
    /// It is well.
    Watchdog,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("READY=1"),
            // The manager tells by the time whether it is the reload that it asked for.
            Self::Reloading => write!(
                f,
                "RELOADING=1\nMONOTONIC_USEC={}",
                clock::monotonic().as_micros()
            ),
            Self::Stopping(time) => {
                write!(f, "STOPPING=1\nEXTEND_TIMEOUT_USEC={}", time.as_micros())
            }
            Self::Status(text) => {
                f.write_str("STATUS=")?;
                // A line is one assignment.
                let one_line = text.chars().map(|c| if is_control(c) { ' ' } else { c });
                one_line
                    .take(STATUS_CHARACTERS_MAX)
                    .try_for_each(|c| f.write_char(c))
            }
            Self::MainProcess(pid) => write!(f, "MAINPID={pid}"),
            Self::Watchdog => f.write_str("WATCHDOG=1"),
        }
    }
}

/// The way to the service manager, if one started us that wants to hear.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How long the manager waits for [`Notice::Watchdog`]; `None` = for ever.
    watchdog: Option<Duration>,
    waiting: VecDeque<String>,
    retry: Option<Instant>,
    failure: Option<io::Error>,
}

impl Notifier {
    /// As the environment says: `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`.
    pub(crate) fn of_environment() -> Self {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let Some(socket) = variable("NOTIFY_SOCKET") else {
            return Self::default();
        };
        let number = |name| variable(name)?.to_str()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|time| is_ours && *time > 0);
        let mut notifier = Self::to(&socket);
        notifier.watchdog = watchdog.map(Duration::from_micros);
        notifier
    }

    /// To the socket of that name, `/path` or `@abstract`.
    fn to(name: &OsStr) -> Self {
        let opened = || {
            let address = match name.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                [b'/', ..] => SocketAddr::from_pathname(name)?,
                _ => return Err(io::ErrorKind::Unsupported.into()),
            };
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            Ok((socket, address))
        };
        let mut notifier = Self::default();
        match opened() {
            Ok(to) => notifier.to = Some(to),
            Err(error) => notifier.failure = Some(error),
        }
        notifier
    }

    /// Whether anybody wants to hear.
    pub(crate) fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// How long the manager waits for [`Notice::Watchdog`] before it takes us for dead.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Tells the manager these things at once, after all that was said before.
    pub(crate) fn send(&mut self, notices: &[Notice]) {
        if self.to.is_none() {
            return;
        }
        let lines: Vec<_> = notices.iter().map(Notice::to_string).collect();
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(lines.join("\n"));
        }
        self.send_waiting();
    }

    /// When [`Self::send_waiting`] is worth a try.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.retry
    }

    /// Sends what waits for a place in the manager's queue.
    pub(crate) fn send_waiting(&mut self) {
        self.retry = None;
        let Some((socket, address)) = &self.to else {
            return;
        };
        while let Some(message) = self.waiting.front() {
            match socket.send_to_addr(message.as_bytes(), address) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.retry = Some(Instant::now() + RETRY_PAUSE);
                    return;
                }
                Err(error) => self.failure = Some(error),
                Ok(_) => {}
            }
            self.waiting.pop_front();
        }
    }

    /// Why the manager could not be told something, once for each time.
    pub(crate) fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(name: &str) -> UnixDatagram {
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    }

    fn received(socket: &UnixDatagram) -> Option<String> {
        let mut room = [0; 4096];
        let count = socket.recv(&mut room).ok()?;
        Some(String::from_utf8_lossy(&room[..count]).into_owned())
    }

    fn abstract_name(what: &str) -> String {
        format!("@lariat-notify-{what}-{}", std::process::id())
    }

    #[test]
    fn a_message_is_lines_of_assignments() {
        let name = abstract_name("lines");
        let manager = receiver(&name[1..]);
        let mut notifier = Notifier::to(OsStr::new(&name));
        let status = Notice::Status("serving\n\u{1b}[31mMAINPID=1".to_owned());
        notifier.send(&[Notice::Ready, status]);
        let told = received(&manager).unwrap();
        assert_eq!(told, "READY=1\nSTATUS=serving  [31mMAINPID=1");
        notifier.send(&[Notice::Stopping(Duration::from_secs(2))]);
        let told = received(&manager).unwrap();
        assert_eq!(told, "STOPPING=1\nEXTEND_TIMEOUT_USEC=2000000");
        let before = clock::monotonic().as_micros();
        notifier.send(&[Notice::Reloading]);
        let told = received(&manager).unwrap();
        let time = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u128>().unwrap() >= before, "{told}");
        assert!(notifier.take_failure().is_none() && notifier.due().is_none());
    }

    #[test]
    fn a_long_status_is_cut() {
        let text = Notice::Status("é".repeat(9000)).to_string();
        assert_eq!(text.chars().count(), 7 + STATUS_CHARACTERS_MAX);
    }

    #[test]
    fn a_manager_that_is_gone_is_named_and_costs_nothing() {
        let missing = abstract_name("gone");
        let long = format!("/{}", "x".repeat(200));
        for name in ["/no/such/socket", &missing, "vsock:2:1", "notify", &long] {
            let mut notifier = Notifier::to(OsStr::new(name));
            notifier.send(&[Notice::Ready]);
            let failure = notifier.take_failure();
            assert!(failure.is_some() && notifier.due().is_none(), "{name}");
            assert!(notifier.take_failure().is_none());
        }
    }

    #[test]
    fn what_a_full_queue_refuses_waits_in_its_order() {
        let name = abstract_name("full");
        let manager = receiver(&name[1..]);
        let mut notifier = Notifier::to(OsStr::new(&name));
        let mut sent = 0;
        while notifier.due().is_none() {
            notifier.send(&[Notice::Status(sent.to_string())]);
            sent += 1;
            assert!(sent < 100_000, "a queue has an end");
        }
        for _ in 0..2 * WAITING_MAX {
            notifier.send(&[Notice::Ready]);
        }
        let mut told = Vec::new();
        while told.len() < sent + WAITING_MAX - 1 {
            told.push(received(&manager).unwrap());
            notifier.send_waiting();
        }
        assert_eq!(told[sent - 1], format!("STATUS={}", sent - 1));
        assert!(told[sent..].iter().all(|one| one == "READY=1"));
        assert!(notifier.due().is_none() && received(&manager).is_none());
    }
}
