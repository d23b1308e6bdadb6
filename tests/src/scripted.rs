//! Servers and relays that treat each connection as a test says. They go on until the test's
//! process ends, because nobody else knows their addresses.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Starts a server at this address of the host that acts on one connection after the other.
pub fn serve_in_turn(host: &str, mut act: impl FnMut(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((host, 0)).expect("the address is of this host");
    let address = listener.local_addr().expect("a bound socket has an address");
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            act(stream);
        }
    });
    address
}

/// Starts a server that acts on each connection in a thread of its own.
pub fn serve(act: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let act = Arc::new(act);
    serve_in_turn("127.0.0.1", move |mut stream| {
        let act = Arc::clone(&act);
        thread::spawn(move || act(&mut stream));
    })
}

/// Starts a server that acts by the first bytes of the client.
pub fn serve_by_hello(act: impl Fn(&mut TcpStream, &[u8]) + Send + Sync + 'static) -> SocketAddr {
    serve(move |stream| {
        let mut hello = [0; 4096];
        let count = stream.read(&mut hello).unwrap_or(0);
        act(stream, &hello[..count]);
    })
}

/// Starts a server that answers the first bytes of the client with these, and waits for more.
pub fn answer(bytes: impl Into<Vec<u8>>) -> SocketAddr {
    let bytes = bytes.into();
    serve_by_hello(move |stream, _| {
        let _gone = stream.write_all(&bytes);
        let _end = stream.read(&mut [0; 4096]);
    })
}

/// Sends `first`, and then `then` until the client has gone.
pub fn say_for_ever(stream: &mut TcpStream, first: &[u8], then: &[u8]) {
    let mut said = stream.write_all(first);
    while said.is_ok() {
        said = stream.write_all(then);
    }
}

/// Relays connections to a server. The client's bytes go there unchanged; `back`, which gets the
/// server's stream and the client's, does the other direction.
pub fn relay<E>(
    server: SocketAddr,
    back: impl Fn(&mut TcpStream, &mut TcpStream) -> Result<(), E> + Send + Sync + 'static,
) -> SocketAddr {
    serve(move |client| pass_on(client, server, &back))
}

/// Relays a connection that has begun.
pub fn pass_on<E>(
    client: &mut TcpStream,
    server: SocketAddr,
    back: impl Fn(&mut TcpStream, &mut TcpStream) -> Result<(), E>,
) {
    let mut server = TcpStream::connect(server).expect("the server listens");
    let [mut from, mut to] = [&*client, &server].map(|one| one.try_clone().expect("a descriptor"));
    thread::spawn(move || {
        let _cut = io::copy(&mut from, &mut to);
        let _gone = to.shutdown(Shutdown::Write);
    });
    // Whatever ends `back` ends both connections.
    let _over = back(&mut server, client);
    // The other thread holds the client's socket too, and is woken by this.
    let _gone = client.shutdown(Shutdown::Read);
    let _gone = server.shutdown(Shutdown::Both);
}

/// Returns bytes behind their length in two bytes.
pub fn vector(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

/// Makes a hello of TLS 1.2 by hand, with this extension server_name and more extensions.
pub fn hello(server_name: &[u8], more: &[u8]) -> Vec<u8> {
    let extensions = [&[0, 0][..], &vector(server_name), more].concat();
    let fixed = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0xc0, 0x2f, 1, 0]].concat();
    let message = [&[1, 0][..], &vector(&[fixed, vector(&extensions)].concat())].concat();
    [&[22, 3, 1][..], &vector(&message)].concat()
}

/// Makes the names of an extension server_name.
pub fn names(names: &[&[u8]]) -> Vec<u8> {
    let entry = |name: &&[u8]| [&[0][..], &vector(name)].concat();
    vector(&names.iter().flat_map(entry).collect::<Vec<u8>>())
}

/// Reads the next TLS record, with its head.
///
/// # Errors
/// Fails if the stream ends or fails before the record does.
pub fn read_record(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut record = vec![0; 5];
    stream.read_exact(&mut record)?;
    let length = usize::from(u16::from_be_bytes([record[3], record[4]]));
    record.resize(5 + length, 0);
    stream.read_exact(&mut record[5..])?;
    Ok(record)
}
