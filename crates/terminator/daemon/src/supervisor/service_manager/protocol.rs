//! The protocols of service managers: messages to them, which are datagrams to `$NOTIFY_SOCKET` as
//! in sd_notify(3), with descriptors that they keep for the next start; and listening sockets that
//! they have opened and hand over (sd_listen_fds(3)).
//!
//! Owns the messages' form and what the manager says of its watchdog. A message never fails, and
//! waits only where it is asked to: a manager that is gone, or does not read, must not end a
//! service.
//!
//! Sockets that were handed over take the place of those that would be opened at the same
//! addresses. The manager keeps them too, so that connections wait in them while nobody serves.
//! They stay ours until the end, whatever a reload does, and their paths are the manager's to
//! remove.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::time::{Duration, Instant};
use std::{io, thread};

use sys::clock;
use sys::inherited::{self, DESCRIPTORS_MAX};
use wire::address::Address;
use wire::text::is_control;

use crate::messages::warn;
use crate::supervisor::failure::Failure;

/// From one try to send to the next while the manager's queue is full. It reads in a loop of its
/// own, so that such a queue is a matter of milliseconds.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The same while somebody waits for it.
const FLUSH_PAUSE: Duration = Duration::from_millis(10);

/// How long the manager is waited for where it is to hear something before anything else happens.
/// It reads at once, unless it hangs.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);

/// Messages that wait for a place in the manager's queue; it gets each within a reload, and a
/// reload sends three. Further ones are lost.
const WAITING_MAX: usize = 16;

/// The same with those about descriptors that it keeps: of ten thousand addresses, twice. Nobody
/// has more.
const KEEPING_MAX: usize = 20_000;

/// Characters of a status: `systemctl status` shows it in one line.
const STATUS_CHARACTERS_MAX: usize = 400;

/// One thing that the manager is told.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Notice {
    /// Started, or reloaded: connections are accepted.
    Ready,
    Reloading,
    /// It ends, and takes no longer than that.
    Stopping(Duration),
    Status(String),
    Watchdog,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready => f.write_str("READY=1"),
            // The manager tells by the time whether it is the reload that it asked for.
            Self::Reloading => {
                write!(f, "RELOADING=1\nMONOTONIC_USEC={}", clock::monotonic().as_micros())
            }
            Self::Stopping(time) => {
                write!(f, "STOPPING=1\nEXTEND_TIMEOUT_USEC={}", time.as_micros())
            }
            Self::Status(text) => {
                f.write_str("STATUS=")?;
                // A line is one assignment.
                let one_line = text.chars().map(|c| if is_control(c) { ' ' } else { c });
                one_line.take(STATUS_CHARACTERS_MAX).try_for_each(|c| f.write_char(c))
            }
            Self::Watchdog => f.write_str("WATCHDOG=1"),
        }
    }
}

/// The way to the service manager, if one started us that wants to hear.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    to: Option<(UnixDatagram, OsString)>,
    /// How long the manager waits for [`Notice::Watchdog`]; `None` = for ever.
    pub(crate) watchdog: Option<Duration>,
    waiting: VecDeque<(String, Vec<OwnedFd>)>,
    /// When [`Self::send_waiting`] is worth a try.
    pub(crate) retry: Option<Instant>,
    /// The manager could not be told something.
    has_failed: bool,
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
        let opened = || match name.as_bytes() {
            [b'@' | b'/', ..] => Ok((UnixDatagram::unbound()?, name.to_owned())),
            _ => Err(io::ErrorKind::Unsupported.into()),
        };
        let mut notifier = Self::default();
        match opened() {
            Ok(to) => notifier.to = Some(to),
            Err(error) => notifier.fail(&error),
        }
        notifier
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.to.is_some()
    }

    /// Tells the manager these things at once, after all that was said before.
    pub(crate) fn send(&mut self, notices: &[Notice]) {
        let lines: Vec<_> = notices.iter().map(Notice::to_string).collect();
        let others = self.waiting.iter().filter(|(text, _)| !text.starts_with("FDSTORE"));
        if others.count() < WAITING_MAX {
            self.queue(lines.join("\n"), Vec::new());
        }
    }

    /// Asks the manager to keep these for the next start, by that name, beside those that it has by
    /// it.
    pub(crate) fn keep(&mut self, name: &str, fds: &[BorrowedFd<'_>]) {
        // It need not look whether they are still of use: they are named when they are not.
        let text = format!("FDSTORE=1\nFDPOLL=0\nFDNAME={name}");
        for batch in fds.chunks(DESCRIPTORS_MAX) {
            match batch.iter().map(BorrowedFd::try_clone_to_owned).collect() {
                Ok(batch) => self.queue(text.clone(), batch),
                Err(error) => self.fail(&error),
            }
        }
    }

    pub(crate) fn forget(&mut self, name: &str) {
        let text = format!("FDSTOREREMOVE=1\nFDNAME={name}");
        self.queue(text, Vec::new());
    }

    fn queue(&mut self, text: String, fds: Vec<OwnedFd>) {
        if self.to.is_some() {
            if self.waiting.len() < KEEPING_MAX {
                self.waiting.push_back((text, fds));
            }
            self.send_waiting();
        }
    }

    /// Waits until the manager has been told all, but not long.
    pub(crate) fn flush(&mut self) {
        let until = Instant::now() + FLUSH_TIME_MAX;
        while self.retry.is_some() && Instant::now() < until {
            thread::sleep(FLUSH_PAUSE);
            self.send_waiting();
        }
    }

    /// Sends what waits for a place in the manager's queue.
    pub(crate) fn send_waiting(&mut self) {
        self.retry = None;
        while let Some(((socket, manager), (text, fds))) =
            self.to.as_ref().zip(self.waiting.front())
        {
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match inherited::notify(socket.as_fd(), manager, text.as_bytes(), &fds) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.retry = Some(Instant::now() + RETRY_PAUSE);
                    return;
                }
                Err(error) => self.fail(&error),
                Ok(()) => {}
            }
            self.waiting.pop_front();
        }
    }

    fn fail(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            warn(format_args!(
                "the service manager does not hear what NOTIFY_SOCKET is for: {error}"
            ));
        }
    }
}

/// A socket's unit has a handful, and the descriptor store one for each address and worker.
const HANDED_OVER_MAX: u16 = 32_768;

#[derive(Debug)]
struct HandedOver {
    name: String,
    address: Address,
    fd: OwnedFd,
}

#[derive(Debug, Default)]
pub(crate) struct HandedOverSockets(Vec<HandedOver>);

/// A descriptor that was handed over, with its name.
#[derive(Debug)]
pub(crate) struct InheritedDescriptor {
    number: u16,
    pub(crate) name: String,
    pub(crate) fd: OwnedFd,
}

/// All that was handed over: `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES` say how many there
/// are, to whom, and what they are called. To be called once, before the process opens anything.
pub(crate) fn given() -> Result<Vec<InheritedDescriptor>, Failure> {
    let number = |name: &str| match std::env::var_os(name) {
        None => Ok(None),
        Some(text) => match text.to_str().and_then(|text| text.parse::<u32>().ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(Failure::HandedOver(format!(
                "{name} is {text:?}, which is no number\nhint: the service manager sets it \
                 (sd_listen_fds(3)); unset it to start lariat by hand"
            ))),
        },
    };
    if number("LISTEN_PID")? != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS")?.unwrap_or(0);
    let count = u16::try_from(count).ok().filter(|it| *it <= HANDED_OVER_MAX);
    let count = count.ok_or_else(|| {
        Failure::HandedOver(format!("LISTEN_FDS says more than {HANDED_OVER_MAX} descriptors"))
    })?;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').chain(std::iter::repeat("unknown"));
    let each = (0..count).zip(names).map(|(number, name)| {
        let taken = inherited::take(number, count).map_err(Failure::host("take a descriptor"))?;
        let fd = taken.ok_or_else(|| unusable(number, name, "is not open"))?;
        let name = name.to_owned();
        Ok(InheritedDescriptor { number, name, fd })
    });
    each.collect()
}

impl HandedOverSockets {
    /// These. Each must be a socket that listens.
    pub(crate) fn new(given: Vec<InheritedDescriptor>) -> Result<Self, Failure> {
        let each = given.into_iter().map(|InheritedDescriptor { number, name, fd }| {
            let taken = inherited::listener(fd);
            let (fd, address) = taken.map_err(|why| unusable(number, &name, &why.to_string()))?;
            Ok(HandedOver { name, address, fd })
        });
        each.collect::<Result<_, _>>().map(Self)
    }

    /// A descriptor for each worker, and at least one of every socket, if the address was handed
    /// over. Workers share the sockets, as they do a Unix socket.
    pub(crate) fn share(&self, address: &Address, workers: usize) -> Option<Vec<OwnedFd>> {
        let here: Vec<_> = self.at(address).collect();
        if here.is_empty() {
            return None;
        }
        let each = here.iter().cycle().take(workers.max(here.len()));
        // The limit of descriptors is raised, and this is the start: if it fails, we open our own,
        // which says why it cannot.
        each.map(|one| one.fd.try_clone().ok()).collect()
    }

    fn at<'a>(&'a self, address: &'a Address) -> impl Iterator<Item = &'a HandedOver> {
        self.0.iter().filter(move |one| match address {
            Address::Inherited(name) => one.name == *name,
            address => one.address == *address,
        })
    }

    /// Takes those that the program before had of its service manager: no reload closes them, and
    /// the path is the manager's.
    pub(crate) fn inherit(&mut self, address: &Address, name: Option<&str>, fds: &[OwnedFd]) {
        // The limit of descriptors is raised, and this is the start.
        let copies = fds.iter().filter_map(|fd| fd.try_clone().ok());
        let taken = copies.filter_map(|fd| inherited::listener(fd).ok());
        let name = match address {
            Address::Inherited(name) => name,
            Address::Ip(_) | Address::Unix(_) => name.unwrap_or("of the program before"),
        };
        self.0.extend(taken.map(|(fd, address)| HandedOver { name: name.to_owned(), address, fd }));
    }

    pub(crate) fn has(&self, address: &Address) -> bool {
        self.at(address).next().is_some()
    }

    pub(crate) fn name(&self, address: &Address) -> Option<String> {
        self.at(address).next().map(|one| one.name.clone())
    }

    /// The list of the sockets handed over, as a part of a sentence.
    pub(crate) fn list(&self) -> String {
        let each = self.0.iter();
        let each: Vec<_> = each.map(|one| format!("`{}` ({})", one.name, one.address)).collect();
        match each.as_slice() {
            [] => "no socket was handed over".to_owned(),
            _ => format!("handed over: {}", each.join(", ")),
        }
    }

    /// Warns of those that nobody listens at.
    pub(crate) fn warn_of_unused(&self, wanted: impl Fn(&Address) -> bool) {
        let is_wanted = |one: &HandedOver| {
            wanted(&one.address) || wanted(&Address::Inherited(one.name.clone()))
        };
        for one in self.0.iter().filter(|one| !is_wanted(one)) {
            warn(format_args!(
                "the service manager handed over the socket {}, {}, and nothing of the \
                 configuration listens there: its clients wait for ever\n\
                 hint: name its address, or `fd:{0}`, in a `front.listen`, or take it out of the \
                 socket's unit",
                one.name, one.address
            ));
        }
    }
}

fn unusable(number: u16, name: &str, why: &str) -> Failure {
    Failure::HandedOver(format!(
        "descriptor {} ({name}), which the service manager handed over, {why}\n\
         hint: the socket's unit must have ListenStream= and Accept=no, and nothing else may be \
         handed over",
        u32::from(number) + 3
    ))
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

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
        assert!(!notifier.has_failed && notifier.retry.is_none());
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
            assert!(notifier.has_failed && notifier.retry.is_none(), "{name}");
        }
    }

    #[test]
    fn what_a_full_queue_refuses_waits_in_its_order() {
        let name = abstract_name("full");
        let manager = receiver(&name[1..]);
        let mut notifier = Notifier::to(OsStr::new(&name));
        let mut sent = 0;
        while notifier.retry.is_none() {
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
        assert!(notifier.retry.is_none() && received(&manager).is_none());
    }
}
