//! Clients that behave well, and check each byte that they get.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use crate::client::{Client, Connection};
use crate::site::Site;
use testkit::chance::Chance;

use super::exchange::{HEAD_BYTES, Head, Stream, is_timeout};
use super::journal::Journal;

/// Length of the served file: more than the kernel needs to encrypt it, and no round number.
pub(super) const FILE_BYTES: usize = (1 << 20) + 77;

pub(super) const FILE: Stream = Stream(0xf11e);

/// Longest wait of an honest client for a byte: our stalls are shorter, and so is the replacement
/// of a worker process.
const SILENCE_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// Rounds with a checking server behind this address.
    Exchange(SocketAddr),
    /// Parts of the file behind this address.
    File(SocketAddr),
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) visits: u64,
    pub(super) whole: u64,
    pub(super) handshakes: u64,
    pub(super) up: u64,
    pub(super) down: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.visits += other.visits;
        self.whole += other.whole;
        self.handshakes += other.handshakes;
        self.up += other.up;
        self.down += other.down;
    }
}

/// A visitor that runs one client after the other, by seed.
pub(super) struct Visitor<'a> {
    journal: &'a Journal,
    clients: [Client; 3],
    chance: Chance,
    is_calm: bool,
    tally: Tally,
}

impl<'a> Visitor<'a> {
    /// Makes a visitor whose clients trust the site.
    pub(super) fn new(journal: &'a Journal, site: &Site, seed: u64, is_calm: bool) -> Self {
        Self {
            journal,
            clients: [Client::new(site), Client::tls12(site), Client::without_tickets(site)],
            chance: Chance::new(seed),
            is_calm,
            tally: Tally::default(),
        }
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    pub(super) fn visit(&mut self, target: Target) {
        self.tally.visits += 1;
        let client = self.chance.pick(&self.clients).clone();
        let result = match target {
            Target::Exchange(address) => self.exchange(&client, address),
            Target::File(address) => self.files(&client, address),
        };
        match result {
            Ok(()) => self.tally.whole += 1,
            Err(error) => self.judge(target, &error),
        }
    }

    /// Notes an error that an honest client must not see, even while servers and processes die.
    fn judge(&self, target: Target, error: &io::Error) {
        let is_forbidden = match error.kind() {
            io::ErrorKind::ConnectionRefused => !self.journal.is_down(),
            // The library's error kind for a record that does not decrypt, and for alerts.
            io::ErrorKind::InvalidData => !error.to_string().contains("received fatal alert"),
            io::ErrorKind::Other => true,
            _ => is_timeout(error),
        };
        self.journal.check(!self.is_calm && !is_forbidden, || {
            format!("a client of {target:?} failed: {:?} {error}", error.kind())
        });
    }

    fn exchange(&mut self, client: &Client, address: SocketAddr) -> io::Result<()> {
        let mut connection = connect(client, address)?;
        self.tally.handshakes += 1;
        let salt = self.chance.number();
        for round in 0..1 + self.chance.below(5) as u32 {
            let head = Head {
                salt,
                round,
                up: length(&mut self.chance),
                down: length(&mut self.chance),
                may_break: false,
            };
            self.round(&mut connection, &head)?;
        }
        finish(&mut connection)
    }

    fn round(&mut self, connection: &mut Connection, head: &Head) -> io::Result<()> {
        connection.write_all(&head.encode())?;
        connection.write_all(&head.up_stream().bytes(0, head.up as usize))?;
        connection.flush()?;
        self.tally.up += HEAD_BYTES as u64 + u64::from(head.up);
        receive(connection, head.down_stream(), 0, head.down as usize)?;
        self.tally.down += u64::from(head.down);
        Ok(())
    }

    fn files(&mut self, client: &Client, address: SocketAddr) -> io::Result<()> {
        let mut connection = connect(client, address)?;
        for _ in 0..1 + self.chance.below(3) {
            let most = *self.chance.pick(&[2000, FILE_BYTES]);
            let length = 1 + self.chance.below(most);
            let first = self.chance.below(FILE_BYTES - length + 1);
            let last = first + length - 1;
            let ask = format!(
                "GET /file HTTP/1.1\r\nHost: localhost\r\nRange: bytes={first}-{last}\r\n\r\n"
            );
            connection.write_all(ask.as_bytes())?;
            connection.flush()?;
            let head = head(&mut connection)?;
            if head.starts_with("HTTP/1.1 5") && !self.is_calm {
                return Ok(());
            }
            if !head.starts_with("HTTP/1.1 206 ") {
                return Err(io::Error::other(format!("an unexpected answer: {head}")));
            }
            receive(&mut connection, FILE, first, length)?;
        }
        finish(&mut connection)
    }
}

/// Returns a length: mostly short, at times long enough for all buffers to be full.
fn length(chance: &mut Chance) -> u32 {
    let most = *chance.pick(&[100, 3000, 20_000, 20_000, 300_000]);
    chance.below(most) as u32
}

/// Connects, with limits on the time of any call.
pub(super) fn connect(client: &Client, address: SocketAddr) -> io::Result<Connection> {
    let connection = client.try_connect(address)?;
    connection.socket().set_read_timeout(Some(SILENCE_MAX))?;
    connection.socket().set_write_timeout(Some(SILENCE_MAX))?;
    Ok(connection)
}

/// Reads bytes that must be those of a stream from an offset on.
pub(super) fn receive(
    connection: &mut Connection,
    stream: Stream,
    first: usize,
    length: usize,
) -> io::Result<()> {
    let mut buffer = vec![0; length.min(32 << 10)];
    let mut got = 0;
    while got < length {
        let room = buffer.len().min(length - got);
        let count = connection.read(&mut buffer[..room])?;
        if count == 0 {
            let text = format!("a proper end of the stream after {got} of {length} bytes");
            return Err(io::Error::other(text));
        }
        if let Some(at) = stream.wrong_at(first + got, &buffer[..count]) {
            let text = format!("a wrong byte at {at} of {first}+{length}");
            return Err(io::Error::other(text));
        }
        got += count;
    }
    Ok(())
}

/// Ends our stream and reads to the other's end, which must bring nothing more.
pub(super) fn finish(connection: &mut Connection) -> io::Result<()> {
    connection.try_end()?;
    let mut byte = [0];
    match connection.read(&mut byte)? {
        0 => Ok(()),
        _ => Err(io::Error::other("a byte that nobody asked for")),
    }
}

fn head(connection: &mut Connection) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match connection.read(&mut byte)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => head.push(byte[0]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
