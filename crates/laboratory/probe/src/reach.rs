//! How an address is reached: one connection at a time, each with a time limit.

use std::cell::Cell;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use load::observe::{Fault, Limited};
use load::plan::ProxyVersion;
use measure::probe::{Trouble, TroubleKind};
use wire::proxy_header::{Addresses, HeaderV2, write_v1};
use wire::starttls::{Dialect, Dialog, Next};

use crate::plain_text::{UNGREETED, is_answer, told};

/// After this many connections that ran out of time, an address is left alone: what is found out
/// of a tarpit takes this many time limits at the most.
const TIMEOUTS_MAX: u32 = 3;

/// An address, and what is said there before TLS.
#[derive(Debug)]
pub(crate) struct Reach {
    pub(crate) address: SocketAddr,
    before: BeforeTls,
    /// Of one connection from its beginning to its end.
    pub(crate) timeout: Duration,
    timeouts: Cell<u32>,
}

/// What comes before TLS on each connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct BeforeTls {
    pub(crate) proxy: Option<ProxyVersion>,
    pub(crate) starttls: Option<Dialect>,
    /// The name that the server goes by, where a dialect tells it one.
    pub(crate) server_name: Option<String>,
}

/// A connection whose reads and writes fail when its time is over.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    until: Instant,
}

impl Reach {
    pub(crate) fn new(address: SocketAddr, before: BeforeTls, timeout: Duration) -> Self {
        Self {
            address,
            before,
            timeout,
            timeouts: Cell::new(0),
        }
    }

    /// A connection on which nothing was said but a PROXY header.
    fn connect(&self) -> Result<Wire, Trouble> {
        if self.timeouts.get() >= TIMEOUTS_MAX {
            let text = format!("not tried: {TIMEOUTS_MAX} connections before it ran out of time");
            return Err(trouble(TroubleKind::Timeout, text));
        }
        let until = Instant::now() + self.timeout;
        let stream = TcpStream::connect_timeout(&self.address, self.timeout);
        let stream = stream.map_err(|error| self.not_connected(&error))?;
        let _slower_without = stream.set_nodelay(true);
        let mut wire = Wire { stream, until };
        let header = self.header(&wire.stream);
        match header.and_then(|header| wire.write_all(&header)) {
            Err(error) => Err(self.broken(&error, "the PROXY header")),
            Ok(()) => Ok(wire),
        }
    }

    /// A connection on which TLS may begin.
    pub(crate) fn open(&self) -> Result<Wire, Trouble> {
        let mut wire = self.connect()?;
        self.ask_for_tls(&mut wire)?;
        Ok(wire)
    }

    /// Whether a server that was silent at a ClientHello speaks a protocol in which the client has
    /// to ask: what it is, and its dialect. One connection for each such protocol.
    pub(crate) fn named_by_asking(&self) -> Option<(Dialect, &'static str)> {
        let answers = |dialect| -> Option<bool> {
            let mut wire = self.connect().ok()?;
            let mut dialog = Dialog::asking(dialect, self.before.server_name.as_deref());
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
        let is_silent = self.before.starttls.is_none();
        let mut known = UNGREETED.into_iter().filter(|_| is_silent);
        known.find(|(dialect, _)| answers(*dialect) == Some(true))
    }

    /// The dialog of a protocol that begins in plaintext, up to the server's consent.
    fn ask_for_tls(&self, wire: &mut Wire) -> Result<(), Trouble> {
        let Some(dialect) = self.before.starttls else {
            return Ok(());
        };
        let doing = format!("STARTTLS ({})", dialect.name());
        let failed = |error: io::Error| self.broken(&error, &doing);
        let mut dialog = Dialog::asking(dialect, self.before.server_name.as_deref());
        let mut step = dialog.server_connected();
        let mut is_unheard = true;
        loop {
            wire.write_all(&step.to_server).map_err(failed)?;
            match step.next {
                Next::StartServerTls => return Ok(()),
                Next::More => {}
                Next::Fail(fault) => {
                    return Err(trouble(TroubleKind::Refused, format!("{doing}: {fault}")));
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
        let mut header = Vec::new();
        let addresses = Addresses::Tcp {
            source: stream.local_addr()?,
            destination: stream.peer_addr()?,
        };
        match self.before.proxy {
            None => {}
            Some(ProxyVersion::V1) => write_v1(&addresses, &mut header),
            Some(ProxyVersion::V2) => {
                let v2 = HeaderV2 {
                    addresses,
                    ..HeaderV2::default()
                };
                v2.write(&mut header).map_err(io::Error::other)?;
            }
        }
        Ok(header)
    }

    fn not_connected(&self, error: &io::Error) -> Trouble {
        if is_timeout(error) {
            self.timeouts.set(self.timeouts.get() + 1);
            let text = format!("no connection within {} s", self.timeout.as_secs_f64());
            return trouble(TroubleKind::ConnectTimeout, text);
        }
        trouble(TroubleKind::Connect, format!("no connection: {error}"))
    }

    /// What it means that a connection failed while something was done.
    pub(crate) fn broken(&self, error: &io::Error, doing: &str) -> Trouble {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.timed_out(doing),
            ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => trouble(
                TroubleKind::Closed,
                format!("it reset the connection at {doing}"),
            ),
            ErrorKind::UnexpectedEof => trouble(
                TroubleKind::Closed,
                format!("it closed the connection at {doing}"),
            ),
            _ => trouble(TroubleKind::Malformed, format!("{error} at {doing}")),
        }
    }

    fn not_greeted(&self, doing: &str) -> Trouble {
        let mut trouble = self.timed_out(doing);
        trouble.text += " as no greeting came: TLS may begin there at once, or another protocol";
        trouble
    }

    fn timed_out(&self, doing: &str) -> Trouble {
        self.timeouts.set(self.timeouts.get() + 1);
        let seconds = self.timeout.as_secs_f64();
        let text = format!("{doing} was not over within {seconds} s");
        trouble(TroubleKind::Timeout, text)
    }

    /// What it means that a handshake came to nothing.
    pub(crate) fn failed(&self, fault: &Fault) -> Trouble {
        match fault {
            Fault::Timeout => self.timed_out("the handshake"),
            Fault::NotTls(bytes) => trouble(TroubleKind::NotTls, told(bytes)),
            Fault::Alert(_) => trouble(TroubleKind::Refused, fault.to_string()),
            Fault::Closed(_) => trouble(TroubleKind::Closed, fault.to_string()),
            Fault::Protocol(_) => trouble(TroubleKind::Malformed, fault.to_string()),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

pub(crate) fn trouble(kind: TroubleKind, text: impl Into<String>) -> Trouble {
    Trouble {
        kind,
        text: text.into(),
    }
}

impl Wire {
    /// What is left of its time; no time at all is an error, since the kernel takes 0 for ever.
    fn remaining(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left < Duration::from_millis(1) {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(left)
    }
}

impl Limited for Wire {
    fn shorten(&mut self, limit: Duration) {
        self.until = self.until.min(Instant::now() + limit);
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
