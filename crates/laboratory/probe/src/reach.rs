//! Connects to an address, one connection at a time, each with a time limit, and with a limit for
//! all of them together.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use load::observe::records::CERTIFICATE;
use load::observe::{ObserveFault, TimeLimited};
use load::plan::proxy_header;
use measure::probe::{ProbeTrouble, TroubleKind};
use wire::proxy_header::Addresses;
use wire::starttls::{Dialect, Dialog, DialogAction};

use crate::ProbeOptions;
use crate::registry::{UNGREETED, is_answer, told};

/// Number of timeouts after which an address is left alone, so that a silent one costs this many
/// time limits at the most.
const TIMEOUTS_MAX: u32 = 3;

/// Tries of a connection if another address or another offer gets an answer, because a connection
/// dropped by a busy host is not a refusal.
const TRIES: u32 = 3;

/// An address, and the dialogue there before TLS.
#[derive(Debug)]
pub(crate) struct ReachedAddress<'o> {
    pub(crate) address: SocketAddr,
    options: &'o ProbeOptions,
    /// Additional time for the server's greeting, which may be late; zero after it once failed to
    /// arrive.
    greeting: Cell<Duration>,
    spent: Cell<Duration>,
    timeouts: Cell<u32>,
    /// Whether a connection was not tried.
    is_left_alone: Cell<bool>,
    /// Whether the address ever answered.
    has_answered: Cell<bool>,
    /// A question that was asked [`TRIES`] times and had no answer.
    unanswered: RefCell<Option<ProbeTrouble>>,
}

/// Timer that adds its lifetime to the time spent on an address.
#[derive(Debug)]
struct Spending<'r> {
    begun: Instant,
    spent: &'r Cell<Duration>,
}

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        self.spent.set(self.spent.get() + self.begun.elapsed());
    }
}

/// A connection whose reads and writes fail when its time is over.
#[derive(Debug)]
pub(crate) struct TimedStream<'r> {
    stream: TcpStream,
    until: Instant,
    /// Deadline of the whole address.
    last: Instant,
    _spending: Spending<'r>,
}

/// Minimum of a connection's time, because the kernel takes 0 as no limit.
const TIME_MIN: Duration = Duration::from_millis(1);

impl<'o> ReachedAddress<'o> {
    pub(crate) fn new(address: SocketAddr, options: &'o ProbeOptions) -> Self {
        Self {
            address,
            options,
            greeting: Cell::new(options.limits.greeting),
            spent: Cell::default(),
            timeouts: Cell::new(0),
            is_left_alone: Cell::new(false),
            has_answered: Cell::new(false),
            unanswered: RefCell::default(),
        }
    }

    /// Returns the time left for all further connections. The current connection's time is not yet
    /// subtracted.
    fn left(&self) -> Duration {
        self.options.limits.address.saturating_sub(self.spent.get())
    }

    /// Returns the reason why no further connection is tried; `None` if one is.
    fn exhausted(&self) -> Option<String> {
        if self.timeouts.get() >= TIMEOUTS_MAX {
            return Some(format!("{TIMEOUTS_MAX} connections before ran out of time"));
        }
        let seconds = self.options.limits.address.as_secs_f64();
        let is_over = self.left() < TIME_MIN;
        is_over.then(|| format!("its connections took the {seconds} s of --max-time"))
    }

    /// The reason why some findings are missing; `None` = all was tried.
    pub(crate) fn left_alone(&self) -> Option<ProbeTrouble> {
        if let Some(why) = self.exhausted().filter(|_| self.is_left_alone.get()) {
            let text = format!("it was left alone, and not all is known: {why}");
            return Some(trouble(TroubleKind::Timeout, text));
        }
        self.unanswered.take()
    }

    /// Asks until there is an answer, or a connection has come to nothing [`TRIES`] times. A server
    /// may refuse by closing: that is an answer if it is always so; silence is not. An address
    /// that was silent from the beginning is not asked again.
    pub(crate) fn again<T>(
        &self,
        ask: impl Fn() -> Result<T, ProbeTrouble>,
    ) -> Result<T, ProbeTrouble> {
        let mut tries = 1;
        loop {
            let found = match ask() {
                Ok(answer) => {
                    self.has_answered.set(true);
                    return Ok(answer);
                }
                Err(found) => found,
            };
            let is_silence = matches!(
                found.kind,
                TroubleKind::Connect | TroubleKind::ConnectTimeout | TroubleKind::Timeout
            );
            if !is_silence && found.kind != TroubleKind::Closed {
                return Err(found);
            }
            let is_hopeless = !self.has_answered.get() && found.kind != TroubleKind::Closed;
            if tries == TRIES || is_hopeless || self.exhausted().is_some() {
                if is_silence {
                    let text = format!("not all is known: {}, in {tries} tries", found.text);
                    *self.unanswered.borrow_mut() = Some(trouble(found.kind, text));
                }
                return Err(found);
            }
            tries += 1;
        }
    }

    /// A connection on which nothing was said but a PROXY header.
    fn connect(&self) -> Result<TimedStream<'_>, ProbeTrouble> {
        if let Some(why) = self.exhausted() {
            self.is_left_alone.set(true);
            return Err(trouble(TroubleKind::Timeout, format!("not tried: {why}")));
        }
        let left = self.left();
        let limit = self.options.limits.connection.min(left);
        let spending = Spending { begun: Instant::now(), spent: &self.spent };
        let stream = TcpStream::connect_timeout(&self.address, limit);
        let stream = stream.map_err(|error| self.not_connected(&error))?;
        let _slower_without = stream.set_nodelay(true);
        let (until, last) = (spending.begun + limit, spending.begun + left);
        let mut wire = TimedStream { stream, until, last, _spending: spending };
        let header = self.header(&wire.stream);
        match header.and_then(|header| wire.write_all(&header)) {
            Err(error) => Err(self.broken(&error, "the PROXY header")),
            Ok(()) => Ok(wire),
        }
    }

    /// A connection on which TLS may begin.
    pub(crate) fn open(&self) -> Result<TimedStream<'_>, ProbeTrouble> {
        let mut wire = self.connect()?;
        self.ask_for_tls(&mut wire)?;
        Ok(wire)
    }

    /// Finds out whether a server that is silent at a ClientHello speaks a protocol in which the
    /// client has to ask; returns its name and dialect. One connection for each such protocol.
    pub(crate) fn named_by_asking(&self) -> Option<(Dialect, &'static str)> {
        let answers = |dialect| -> Option<bool> {
            let mut wire = self.connect().ok()?;
            let mut dialog = Dialog::asking(dialect, self.options.names());
            let asked = dialog.server_connected().to_server;
            wire.write_all(&asked).ok()?;
            let mut chunk = [0; 512];
            let count = match wire.read(&mut chunk) {
                Err(error) if is_timeout(&error) => {
                    self.timeouts.set(self.timeouts.get() + 1);
                    return None;
                }
                read => read.ok()?,
            };
            Some(is_answer(dialect, chunk.get(..count)?))
        };
        let is_silent = self.options.starttls.is_none();
        let mut known = UNGREETED.into_iter().filter(|_| is_silent);
        known.find(|(dialect, _)| answers(*dialect) == Some(true))
    }

    /// The dialog of a protocol that begins in plaintext, up to the server's consent.
    fn ask_for_tls(&self, wire: &mut TimedStream<'_>) -> Result<(), ProbeTrouble> {
        let Some(dialect) = self.options.starttls else {
            return Ok(());
        };
        let doing = format!("STARTTLS ({})", dialect.name());
        let failed = |error: io::Error| self.broken(&error, &doing);
        let mut dialog = Dialog::asking(dialect, self.options.names());
        let mut step = dialog.server_connected();
        let (begun, limit) = (Instant::now(), wire.until);
        if dialect.greets_late() {
            wire.until = (wire.until + self.greeting.get()).min(wire.last);
        }
        let mut is_unheard = true;
        loop {
            wire.write_all(&step.to_server).map_err(failed)?;
            match step.next {
                DialogAction::StartServerTls => {
                    // The pause is no part of what the rest may take.
                    wire.until = wire.until.min(limit + begun.elapsed());
                    return Ok(());
                }
                DialogAction::More => {}
                DialogAction::Fail(fault) => {
                    return Err(trouble(TroubleKind::NoStarttls, format!("{doing}: {fault}")));
                }
                other => {
                    let text = format!("{doing}: the dialog does not lead to TLS ({other:?})");
                    return Err(trouble(TroubleKind::Malformed, text));
                }
            }
            let mut chunk = [0; 4096];
            let count = match wire.read(&mut chunk) {
                Err(error) if is_timeout(&error) && is_unheard && dialect.is_greeted() => {
                    return Err(self.not_greeted(&doing));
                }
                read => read.map_err(failed)?,
            };
            if count == 0 {
                return Err(failed(ErrorKind::UnexpectedEof.into()));
            }
            is_unheard = false;
            step = dialog.server_sent(chunk.get(..count).unwrap_or_default());
        }
    }

    fn header(&self, stream: &TcpStream) -> io::Result<Vec<u8>> {
        let addresses =
            Addresses::Tcp { source: stream.local_addr()?, destination: stream.peer_addr()? };
        Ok(self.options.proxy.map(|it| proxy_header(it, addresses)).unwrap_or_default())
    }

    fn not_connected(&self, error: &io::Error) -> ProbeTrouble {
        if is_timeout(error) {
            self.timeouts.set(self.timeouts.get() + 1);
            let text = format!("no connection {}", self.within());
            return trouble(TroubleKind::ConnectTimeout, text);
        }
        trouble(TroubleKind::Connect, format!("no connection: {error}"))
    }

    /// The meaning of a connection's failure while something was done.
    pub(crate) fn broken(&self, error: &io::Error, doing: &str) -> ProbeTrouble {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.timed_out(doing),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
                trouble(TroubleKind::Closed, format!("it reset the connection at {doing}"))
            }
            ErrorKind::UnexpectedEof => {
                trouble(TroubleKind::Closed, format!("it closed the connection at {doing}"))
            }
            _ => trouble(TroubleKind::Malformed, format!("{error} at {doing}")),
        }
    }

    fn not_greeted(&self, doing: &str) -> ProbeTrouble {
        let mut trouble = self.timed_out(doing);
        if self.options.starttls.is_some_and(Dialect::greets_late) {
            let more = self.greeting.take().as_secs_f64();
            trouble.text += &format!(", and {more} s more for a greeting,");
        }
        trouble.text += " as no greeting came: TLS may begin there at once, or another protocol";
        trouble
    }

    fn timed_out(&self, doing: &str) -> ProbeTrouble {
        self.timeouts.set(self.timeouts.get() + 1);
        let text = format!("{doing} was not over {}", self.within());
        trouble(TroubleKind::Timeout, text)
    }

    /// Describes the time limit of the current connection.
    fn within(&self) -> String {
        let limits = self.options.limits;
        let (timeout, all) = (limits.connection.as_secs_f64(), limits.address.as_secs_f64());
        let left = self.left();
        if left < limits.connection {
            let left = left.as_secs_f64();
            return format!("within {left:.3} s, what was left of the {all} s of --max-time");
        }
        format!("within {timeout} s")
    }

    /// The meaning of a handshake's failure.
    pub(crate) fn failed(&self, fault: &ObserveFault) -> ProbeTrouble {
        match fault {
            ObserveFault::Timeout => self.timed_out("the handshake"),
            ObserveFault::NotTls(bytes) => trouble(TroubleKind::NotTls, told(bytes)),
            ObserveFault::Alert(_) | ObserveFault::EchRejected { .. } => {
                trouble(TroubleKind::Refused, fault.to_string())
            }
            ObserveFault::Closed(_) => trouble(TroubleKind::Closed, fault.to_string()),
            ObserveFault::TooLong { message: CERTIFICATE, bytes } => long_chain(*bytes),
            ObserveFault::TooLong { .. } | ObserveFault::Protocol(_) => {
                trouble(TroubleKind::Malformed, fault.to_string())
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

pub(crate) fn trouble(kind: TroubleKind, text: impl Into<String>) -> ProbeTrouble {
    ProbeTrouble { kind, text: text.into() }
}

/// First words of the finding that clients refuse a chain for its size.
pub(crate) const LONG_CHAIN: &str = "its chain takes ";

pub(crate) fn long_chain(bytes: usize) -> ProbeTrouble {
    malformed(format!("{LONG_CHAIN}{} KiB", bytes.div_ceil(1024)))
}

/// An answer that makes no sense.
pub(crate) fn malformed(text: impl Display) -> ProbeTrouble {
    trouble(TroubleKind::Malformed, text.to_string())
}

impl TimedStream<'_> {
    /// Returns the connection itself, for a thread that writes.
    pub(crate) fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// Runs an action that fails after this time, or at the connection's deadline.
    pub(crate) fn within<T>(&mut self, limit: Duration, act: impl FnOnce(&mut Self) -> T) -> T {
        let until = self.until;
        self.shorten(limit);
        let done = act(self);
        self.until = until;
        done
    }

    /// Returns the time left; fails if there is none.
    fn remaining(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left < TIME_MIN {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

impl TimeLimited for TimedStream<'_> {
    fn shorten(&mut self, limit: Duration) {
        self.until = self.until.min(Instant::now() + limit);
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer)
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
