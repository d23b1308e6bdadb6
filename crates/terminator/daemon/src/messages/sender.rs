//! The way of messages to a log daemon, on which nobody waits.
//!
//! A thread sends what is queued. Owns what becomes of messages that the daemon does not take: they
//! go to the standard error instead, so that none is lost while somebody reads that.
//!
//! A [`Collector`] is the daemon as one process reaches it: it says which errors mean what and
//! never waits itself; what is done about them is its callers', none of whom may wait for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use config::LogDaemon;
use sys::{log_socket, process};
use telemetry::form::{Facility, Origin, complete_journal, complete_syslog};
use telemetry::message::{LogLevel, Message};

/// Messages that wait for the thread. A reload says a few; a host whose servers all go down says
/// some hundred at once.
const WAITING_MAX: usize = 1024;

/// How long the thread waits for room in a daemon's queue: one that reads makes some within this.
const ROOM_TIME_MAX: Duration = Duration::from_secs(1);

/// How long a daemon's host may take to refuse a message: within that it is known which one it is.
const CONFIRM_TIME_MAX: Duration = Duration::from_millis(100);

/// The pause between looks for a place in a full queue.
const FLUSH_PAUSE: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) struct LogMessage {
    pub(crate) time_us: u64,
    pub(crate) level: LogLevel,
    pub(crate) text: String,
}

impl LogMessage {
    pub(crate) fn message(&self) -> Message<'_> {
        Message { time_us: self.time_us, level: self.level, text: &self.text }
    }
}

/// The thread's other end. The thread ends when this is dropped and all has been sent.
#[derive(Debug)]
pub(crate) struct MessageSender {
    pub(crate) daemon: LogDaemon,
    queue: SyncSender<Item>,
}

#[derive(Debug)]
enum Item {
    Said(LogMessage),
    /// To be dropped once all before it is sent.
    Flush(SyncSender<()>),
}

impl MessageSender {
    /// Starts to send. `otherwise` gets what the daemon does not take, and what is said of it.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(
        daemon: LogDaemon,
        otherwise: impl FnMut(&LogMessage) + Send + 'static,
    ) -> io::Result<Self> {
        let (queue, items) = sync_channel(WAITING_MAX);
        let mut way = LogRoute {
            daemon: daemon.clone(),
            collector: None,
            last: None,
            diverted: 0,
            otherwise,
        };
        let work = move || way.send_all(&items);
        thread::Builder::new().name("messages".to_owned()).spawn(work)?;
        Ok(Self { daemon, queue })
    }

    /// Leaves a message to the thread; `false` = it finds no place.
    pub(crate) fn send(&self, said: LogMessage) -> bool {
        self.queue.try_send(Item::Said(said)).is_ok()
    }

    /// Waits until all is sent, but not long.
    pub(crate) fn flush(&self, time_max: Duration) {
        let until = Instant::now() + time_max;
        let (done, is_done) = sync_channel(0);
        let mut item = Item::Flush(done);
        while let Err(TrySendError::Full(back)) = self.queue.try_send(item) {
            if Instant::now() >= until {
                return;
            }
            item = back;
            thread::sleep(FLUSH_PAUSE);
        }
        let _ = is_done.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

struct LogRoute<F> {
    daemon: LogDaemon,
    collector: Option<Collector>,
    last: Option<LogMessage>,
    /// Messages that went elsewhere since the daemon took one.
    diverted: u64,
    otherwise: F,
}

impl<F: FnMut(&LogMessage)> LogRoute<F> {
    fn send_all(&mut self, items: &Receiver<Item>) {
        loop {
            let item = items.try_recv().or_else(|_| {
                // Nothing follows at once that would hear that the last one was refused.
                self.confirm_last();
                items.recv()
            });
            match item {
                Ok(Item::Said(said)) => self.deliver(said),
                Ok(Item::Flush(done)) => {
                    self.confirm_last();
                    drop(done);
                }
                Err(_) => return,
            }
        }
    }

    fn deliver(&mut self, said: LogMessage) {
        match self.send(&said) {
            Ok(()) => {
                self.say_diverted(said.time_us);
                self.last = Some(said);
            }
            Err(why) => self.divert(&said, &why),
        }
    }

    fn confirm_last(&mut self) {
        let Some(last) = self.last.take() else {
            return;
        };
        let Some(collector) = self.collector.take() else {
            return;
        };
        match collector.confirm(CONFIRM_TIME_MAX) {
            Err(Refusal::Away { why, .. }) => self.divert(&last, &why.to_string()),
            _ => self.collector = Some(collector),
        }
    }

    fn divert(&mut self, said: &LogMessage, why: &str) {
        if self.diverted == 0 {
            let daemon = &self.daemon;
            (self.otherwise)(&LogMessage {
                time_us: said.time_us,
                level: LogLevel::Warning,
                text: format!(
                    "messages go to the standard error until {daemon} takes them again: {why}\n\
                     hint: see whether it runs; `log.syslog` and `log.journald` say where it is"
                ),
            });
        }
        self.diverted += 1;
        (self.otherwise)(said);
    }

    /// Once it takes messages again.
    fn say_diverted(&mut self, time_us: u64) {
        let diverted = std::mem::take(&mut self.diverted);
        if diverted > 0 {
            let text = format!("{diverted} messages went to the standard error: it was away");
            // That they did has been said there.
            let _ = self.send(&LogMessage { time_us, level: LogLevel::Notice, text });
        }
    }

    /// Sends to the daemon, or to the one that has taken its place.
    fn send(&mut self, said: &LogMessage) -> Result<(), String> {
        match self.send_over(said) {
            Err(Refusal::Away { why, is_late }) => {
                self.collector = None;
                if let Some(last) = self.last.take().filter(|_| is_late) {
                    self.divert(&last, &why.to_string());
                    // It is not known whether it is there now.
                    return Err(why.to_string());
                }
            }
            sent => return sent.map_err(sentence),
        }
        let again = self.send_over(said);
        if matches!(again, Err(Refusal::Away { .. })) {
            self.collector = None;
        }
        again.map_err(sentence)
    }

    fn send_over(&mut self, said: &LogMessage) -> Result<(), Refusal> {
        let collector = match self.collector.take() {
            Some(collector) => collector,
            None => connect(&self.daemon)?,
        };
        // One that had no room just now is not waited for again.
        let time_max = if self.diverted == 0 { ROOM_TIME_MAX } else { Duration::ZERO };
        let until = Instant::now() + time_max;
        let mut sent = loop {
            let sent = collector.send_message(&said.message());
            let left = until.saturating_duration_since(Instant::now());
            if !matches!(sent, Err(Refusal::Full)) || left.is_zero() {
                break sent;
            }
            let _ = log_socket::wait_for_room(&collector, left);
        };
        if sent.is_ok() && self.diverted > 0 {
            // Else it would be said to be back whenever a network takes a message.
            sent = collector.confirm(CONFIRM_TIME_MAX).map_err(not_late);
        }
        self.collector = Some(collector);
        sent
    }
}

fn connect(daemon: &LogDaemon) -> Result<Collector, Refusal> {
    let connected = log_socket::open(&daemon.address()).and_then(|(socket, connected)| {
        connected?;
        Ok(Collector::new(daemon, socket))
    });
    connected.map_err(|why| Refusal::Away { why, is_late: false })
}

/// The refusal of the message itself, not of an earlier one.
fn not_late(refusal: Refusal) -> Refusal {
    match refusal {
        Refusal::Away { why, .. } => Refusal::Away { why, is_late: false },
        other => other,
    }
}

fn sentence(refusal: Refusal) -> String {
    match refusal {
        Refusal::Full => format!("it has read nothing for {ROOM_TIME_MAX:?}"),
        Refusal::Away { why, .. } | Refusal::TooLarge(why) => why.to_string(),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;
    use std::sync::mpsc;
    use testkit::directory::Directory;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn start(path: &Path) -> (MessageSender, Receiver<String>) {
        let (sender, others) = mpsc::channel();
        let otherwise = move |said: &LogMessage| sender.send(said.text.clone()).unwrap();
        let daemon = LogDaemon::Journal(path.to_owned());
        (MessageSender::start(daemon, otherwise).unwrap(), others)
    }

    fn say(sender: &MessageSender, text: &str) -> bool {
        sender.send(LogMessage { time_us: 0, level: LogLevel::Notice, text: text.to_owned() })
    }

    fn received(socket: &UnixDatagram) -> String {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut room = vec![0; 1 << 16];
        let count = socket.recv(&mut room).unwrap();
        String::from_utf8(room[..count].to_vec()).unwrap()
    }

    #[test]
    fn what_a_daemon_does_not_take_goes_elsewhere_until_it_is_back() {
        let directory = Directory::new();
        let path = directory.join("socket");
        let (sender, others) = start(&path);
        assert!(say(&sender, "one"));
        let next = || others.recv_timeout(PATIENCE).unwrap();
        assert!(next().starts_with("messages go to the standard error until journald at unix:"));
        assert_eq!(next(), "one");
        assert!(say(&sender, "two"));
        assert_eq!(next(), "two");
        let socket = UnixDatagram::bind(&path).unwrap();
        assert!(say(&sender, "three"));
        assert!(received(&socket).ends_with("MESSAGE=three\n"));
        let diverted = received(&socket);
        assert!(diverted.contains("MESSAGE=2 messages went to the standard error"));
        assert!(diverted.starts_with("PRIORITY=5\n"), "{diverted}");
        // Another takes its place.
        drop(socket);
        std::fs::remove_file(&path).unwrap();
        let socket = UnixDatagram::bind(&path).unwrap();
        assert!(say(&sender, "four"));
        assert!(received(&socket).ends_with("MESSAGE=four\n"));
        sender.flush(PATIENCE);
        others.try_recv().unwrap_err();
    }

    #[test]
    fn a_daemon_that_reads_nothing_holds_nobody() {
        let directory = Directory::new();
        let path = directory.join("socket");
        let _socket = UnixDatagram::bind(&path).unwrap();
        let (sender, others) = start(&path);
        // The kernel's queue holds less, and so does ours.
        assert!((0..20 * WAITING_MAX).any(|_| !say(&sender, "much")));
        let said = others.recv_timeout(PATIENCE).unwrap();
        assert!(said.contains("it has read nothing for 1s"), "{said}");
    }
}
