//! Clients that are silent, slow, rude, wrong or too many: each for a short while, on few sockets.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::client::{Client, Connection};
use crate::patience::pause;
use testkit::chance::Chance;

use super::exchange::{Head, Stream, reset_on_close};
use super::honest::{connect, finish, receive};
use super::journal::Journal;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Hostility {
    Silent,
    /// Sends the beginning of a hello, byte by byte.
    Dribbling,
    /// Closes TCP in the midst of its bytes, without close_notify.
    Truncating,
    Resetting,
    /// Sends no TLS, or breaks off TLS with garbage.
    Garbage,
    /// Connects many times at once and leaves.
    Flood,
    /// Asks for much and reads it slowly.
    SlowReader,
    /// Ends its stream at once and reads the answer then.
    HalfClosing,
    /// Asks for much and never reads it.
    NeverReading,
}

type Act = fn(&Client, SocketAddr, &mut Chance) -> io::Result<()>;

pub(super) const ALL: [(Hostility, Act); 9] = [
    (Hostility::Silent, silent),
    (Hostility::Dribbling, dribble),
    (Hostility::Truncating, truncate),
    (Hostility::Resetting, reset),
    (Hostility::Garbage, garbage),
    (Hostility::Flood, flood),
    (Hostility::SlowReader, read_slowly),
    (Hostility::HalfClosing, half_close),
    (Hostility::NeverReading, never_read),
];

/// Sockets of one flood: less than a listener's queue holds.
const FLOOD: usize = 100;

/// Time for which the patient ones go on.
const SPELL: Duration = Duration::from_millis(1500);

const MUCH: u32 = 2 << 20;

/// Acts once against an exchange behind this address. The act may fail.
pub(super) fn act(
    hostility: Hostility,
    journal: &Journal,
    client: &Client,
    address: SocketAddr,
    chance: &mut Chance,
) {
    let (_, act) = ALL.iter().find(|(one, _)| *one == hostility).expect("all are there");
    if let Err(error) = act(client, address, chance) {
        // The client is rude, but the bytes that it gets must be right all the same.
        journal.check(error.kind() != io::ErrorKind::Other, || {
            format!("a {hostility:?} client: {error}")
        });
    }
}

fn head(chance: &mut Chance, up: u32, down: u32) -> Head {
    Head { salt: chance.number(), round: 0, up, down, may_break: true }
}

fn silent(_: &Client, address: SocketAddr, _: &mut Chance) -> io::Result<()> {
    let _socket = TcpStream::connect(address)?;
    pause(SPELL);
    Ok(())
}

fn dribble(_: &Client, address: SocketAddr, _: &mut Chance) -> io::Result<()> {
    let mut socket = TcpStream::connect(address)?;
    // The beginning of a handshake record with a ClientHello of 252 bytes.
    for byte in b"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03".iter().chain(&[7; 20]) {
        socket.write_all(&[*byte])?;
        pause(SPELL / 31);
    }
    Ok(())
}

/// Connects and sends a part of what its head announces.
fn begin(client: &Client, address: SocketAddr, chance: &mut Chance) -> io::Result<Connection> {
    let mut connection = connect(client, address)?;
    let head = head(chance, 50_000, 1000);
    connection.write_all(&head.encode())?;
    connection.write_all(&head.up_stream().bytes(0, chance.below(50_000)))?;
    connection.flush()?;
    Ok(connection)
}

fn truncate(client: &Client, address: SocketAddr, chance: &mut Chance) -> io::Result<()> {
    begin(client, address, chance).map(drop)
}

fn reset(client: &Client, address: SocketAddr, chance: &mut Chance) -> io::Result<()> {
    let connection = begin(client, address, chance)?;
    reset_on_close(connection.socket());
    Ok(())
}

fn garbage(client: &Client, address: SocketAddr, chance: &mut Chance) -> io::Result<()> {
    let noise = Stream(chance.number()).bytes(0, 1 + chance.below(2000));
    let mut socket = match chance.below(3) {
        0 => begin(client, address, chance)?.socket().try_clone()?,
        1 => TcpStream::connect(address)?,
        _ => {
            let mut socket = TcpStream::connect(address)?;
            socket.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
            socket
        }
    };
    socket.set_read_timeout(Some(SPELL))?;
    socket.write_all(&noise)?;
    let _until_it_is_closed = socket.read(&mut [0; 100]);
    Ok(())
}

fn flood(_: &Client, address: SocketAddr, _: &mut Chance) -> io::Result<()> {
    let sockets: io::Result<Vec<_>> = (0..FLOOD).map(|_| TcpStream::connect(address)).collect();
    drop(sockets?);
    pause(SPELL);
    Ok(())
}

fn ask_much(
    client: &Client,
    address: SocketAddr,
    chance: &mut Chance,
) -> io::Result<(Connection, Stream)> {
    let mut connection = connect(client, address)?;
    let head = head(chance, 0, MUCH);
    connection.write_all(&head.encode())?;
    connection.flush()?;
    Ok((connection, head.down_stream()))
}

fn read_slowly(client: &Client, address: SocketAddr, chance: &mut Chance) -> io::Result<()> {
    const STEP: usize = 4000;
    let (mut connection, stream) = ask_much(client, address, chance)?;
    let (begun, mut got) = (Instant::now(), 0);
    while begun.elapsed() < SPELL {
        receive(&mut connection, stream, got, STEP)?;
        got += STEP;
        pause(SPELL / 50);
    }
    receive(&mut connection, stream, got, MUCH as usize - got)?;
    finish(&mut connection)
}

fn half_close(client: &Client, address: SocketAddr, chance: &mut Chance) -> io::Result<()> {
    let mut connection = connect(client, address)?;
    let head = head(chance, 3000, 200_000);
    connection.write_all(&head.encode())?;
    connection.write_all(&head.up_stream().bytes(0, 3000))?;
    connection.try_end()?;
    receive(&mut connection, head.down_stream(), 0, 200_000)?;
    finish(&mut connection)
}

fn never_read(client: &Client, address: SocketAddr, chance: &mut Chance) -> io::Result<()> {
    let _connection = ask_much(client, address, chance)?;
    pause(SPELL);
    Ok(())
}
