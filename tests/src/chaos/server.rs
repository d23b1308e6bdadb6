//! A server that checks each byte it gets, and that stalls, resets and dies on demand.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use testkit::server::free_address;

use super::exchange::{HEAD_BYTES, Head, is_timeout, reset_on_close};
use super::journal::Journal;

/// Interval at which a thread that waits for bytes checks for a change of mood.
const LOOK: Duration = Duration::from_millis(50);

const CHUNK_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mood {
    Serve,
    /// Accepts, and neither reads nor writes.
    Stall,
    /// Resets each connection in the midst of its next answer.
    Reset,
    /// Refuses new connections and goes on with the others.
    Refuse,
    /// Refuses new connections and has reset all others, as if it had been killed.
    Dead,
    Ended,
}

impl Mood {
    fn is_listening(self) -> bool {
        matches!(self, Self::Serve | Self::Stall | Self::Reset)
    }
}

#[derive(Debug)]
pub(super) struct CheckingServer {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    mood: Mutex<Mood>,
    changed: Condvar,
    journal: Arc<Journal>,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl CheckingServer {
    pub(super) fn start(journal: &Arc<Journal>) -> Self {
        let address = free_address();
        let shared = Arc::new(Shared {
            mood: Mutex::new(Mood::Serve),
            changed: Condvar::new(),
            journal: Arc::clone(journal),
            bytes_in: AtomicU64::new(0),
            bytes_out: AtomicU64::new(0),
        });
        let listener = TcpListener::bind(address).expect("nobody else was given this address");
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || listen(listener, address, &of_thread));
        Self { address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the server's behaviour from now on.
    pub(super) fn set_mood(&self, mood: Mood) {
        *self.shared.mood() = mood;
        self.shared.changed.notify_all();
        // The listening thread waits in accept.
        let _woken = TcpStream::connect(self.address);
    }

    /// Returns the bytes read and written so far, heads included.
    pub(super) fn traffic(&self) -> [u64; 2] {
        [&self.shared.bytes_in, &self.shared.bytes_out].map(|count| count.load(Ordering::Acquire))
    }
}

impl Drop for CheckingServer {
    fn drop(&mut self) {
        self.set_mood(Mood::Ended);
    }
}

impl Shared {
    fn mood(&self) -> MutexGuard<'_, Mood> {
        self.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `wanted` accepts the mood, or the end; false at the end.
    fn wait_until(&self, wanted: impl Fn(Mood) -> bool) -> bool {
        let unwanted = |mood: &mut Mood| *mood != Mood::Ended && !wanted(*mood);
        let mood = self.changed.wait_while(self.mood(), unwanted);
        *mood.unwrap_or_else(PoisonError::into_inner) != Mood::Ended
    }
}

fn listen(first: TcpListener, address: SocketAddr, shared: &Arc<Shared>) {
    let mut listener = Some(first);
    let mut kills = shared.journal.kills();
    loop {
        let open = listener.get_or_insert_with(|| {
            TcpListener::bind(address).expect("our own address is still ours")
        });
        let accepted = accept(open, || shared.journal.kills(), &mut kills);
        if !shared.mood().is_listening() {
            listener = None;
            if !shared.wait_until(Mood::is_listening) {
                return;
            }
        } else if let Ok((socket, _)) = accepted {
            let shared = Arc::clone(shared);
            thread::spawn(move || Visit { socket, shared, kills }.serve());
        }
    }
}

/// Accepts a connection, and keeps the number of kills when none waited: a connection accepted
/// later may have been made, and broken, any time since.
fn accept(
    listener: &TcpListener,
    now: impl Fn() -> u64,
    kills: &mut u64,
) -> io::Result<(TcpStream, SocketAddr)> {
    let before = now();
    listener.set_nonblocking(true)?;
    let accepted = listener.accept();
    listener.set_nonblocking(false)?;
    if !matches!(&accepted, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        return accepted;
    }
    *kills = before;
    listener.accept()
}

struct Visit {
    socket: TcpStream,
    shared: Arc<Shared>,
    kills: u64,
}

/// A connection ended early; the details are not reported.
struct Broken;

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self
    }
}

impl Visit {
    fn serve(mut self) {
        if self.rounds().is_err() {
            reset_on_close(&self.socket);
        }
    }

    fn rounds(&mut self) -> Result<(), Broken> {
        self.socket.set_nodelay(true)?;
        self.socket.set_read_timeout(Some(LOOK))?;
        self.socket.set_write_timeout(Some(LOOK))?;
        let (mut salt, mut round) = (None, 0);
        loop {
            let mut bytes = [0; HEAD_BYTES];
            match self.read(&mut bytes)? {
                0 => return Ok(self.socket.shutdown(Shutdown::Write)?),
                HEAD_BYTES => {}
                length => return self.ended_early(&format!("{length} bytes of a head"), true),
            }
            let head = Head::decode(&bytes);
            let in_order =
                |head: &Head| head.round == round && salt.is_none_or(|salt| salt == head.salt);
            let Some(head) = head.filter(in_order) else {
                let text = format!("a server got a wrong head in round {round}: {bytes:02x?}");
                self.shared.journal.broken(&text);
                return Err(Broken);
            };
            (salt, round) = (Some(head.salt), round + 1);
            self.take(&head)?;
            self.answer(&head)?;
        }
    }

    /// Reads the client's bytes of this round.
    fn take(&mut self, head: &Head) -> Result<(), Broken> {
        let (mut offset, up) = (0, head.up as usize);
        let mut buffer = vec![0; CHUNK_BYTES.min(up)];
        while offset < up {
            let wanted = CHUNK_BYTES.min(up - offset);
            let length = self.read(&mut buffer[..wanted])?;
            if let Some(at) = head.up_stream().wrong_at(offset, &buffer[..length]) {
                let text = format!("a server got a wrong byte at {at} of {head:x?}");
                self.shared.journal.broken(&text);
                return Err(Broken);
            }
            offset += length;
            if length < wanted {
                return self.ended_early(&format!("{offset} of {head:x?}"), !head.may_break);
            }
        }
        Ok(())
    }

    /// Notes an end of the stream in the midst of a round: cut streams must not look finished.
    fn ended_early(&self, what: &str, is_honest: bool) -> Result<(), Broken> {
        if is_honest && self.shared.journal.is_unhurt_since(self.kills) {
            let text = format!("a server saw the client's end after {what}");
            self.shared.journal.broken(&text);
        }
        Err(Broken)
    }

    fn answer(&mut self, head: &Head) -> Result<(), Broken> {
        let (mut offset, down) = (0, head.down as usize);
        while offset < down {
            if offset > 0 && *self.shared.mood() == Mood::Reset {
                return Err(Broken);
            }
            let length = CHUNK_BYTES.min((down - offset).div_ceil(2));
            self.write(&head.down_stream().bytes(offset, length))?;
            offset += length;
        }
        Ok(())
    }

    /// Waits while the server is stalled; fails once it has died.
    fn look(&self) -> Result<(), Broken> {
        let goes_on = self.shared.wait_until(|mood| mood != Mood::Stall);
        if goes_on && *self.shared.mood() != Mood::Dead { Ok(()) } else { Err(Broken) }
    }

    /// Fills the buffer; fewer bytes at the stream's end.
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Broken> {
        let mut filled = 0;
        while filled < buffer.len() {
            self.look()?;
            match self.socket.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if is_timeout(&error) => {}
                Err(_) => return Err(Broken),
            }
        }
        let count = filled as u64;
        self.shared.bytes_in.fetch_add(count, Ordering::AcqRel);
        Ok(filled)
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), Broken> {
        while !bytes.is_empty() {
            self.look()?;
            match self.socket.write(bytes) {
                Ok(length) => {
                    bytes = &bytes[length..];
                    let count = length as u64;
                    self.shared.bytes_out.fetch_add(count, Ordering::AcqRel);
                }
                Err(error) if is_timeout(&error) => {}
                Err(_) => return Err(Broken),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::exchange::Stream;
    use crate::patience::until;

    /// Returns the journal of a server whose client sends this and then ends its stream.
    fn noted(bytes: &[u8]) -> Vec<String> {
        let journal = Arc::new(Journal::default());
        let server = CheckingServer::start(&journal);
        let mut socket = TcpStream::connect(server.address()).unwrap();
        // The server resets as soon as it has seen enough.
        let _it_may_be_reset = socket.write_all(bytes);
        let _it_may_be_reset = socket.shutdown(Shutdown::Write);
        let _it_may_be_reset = socket.read_to_end(&mut Vec::new());
        journal.all_broken()
    }

    #[test]
    fn wrong_and_missing_bytes_are_noted_and_right_ones_are_not() {
        let head = Head { salt: 5, round: 0, up: 40_000, down: 70_000, may_break: false };
        let right = [&head.encode()[..], &head.up_stream().bytes(0, 40_000)].concat();
        assert_eq!(noted(&right), [""; 0]);
        let mut wrong = right.clone();
        wrong[30_000] ^= 1;
        assert!(noted(&wrong)[0].contains("a wrong byte at 29968"));
        wrong.clone_from(&right);
        wrong[9] ^= 1;
        assert!(noted(&wrong)[0].contains("a wrong head"));
        assert!(noted(&right[..30_000])[0].contains("saw the client's end"));
        assert!(noted(&right[..7])[0].contains("saw the client's end"));
        let foreign = [&head.encode()[..], &Stream(7).bytes(0, 40_000)].concat();
        assert!(noted(&foreign)[0].contains("a wrong byte"));
    }

    #[test]
    fn a_server_that_refuses_or_died_comes_back_at_the_same_address() {
        let journal = Arc::new(Journal::default());
        let server = CheckingServer::start(&journal);
        for mood in [Mood::Refuse, Mood::Dead] {
            server.set_mood(mood);
            until("it to refuse", || TcpStream::connect(server.address()).err());
            server.set_mood(Mood::Serve);
            until("it to accept", || TcpStream::connect(server.address()).ok());
        }
    }
}
