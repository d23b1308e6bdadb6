//! Settings and errors of TCP sockets on both sides.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Makes the kernel send RST as soon as the socket is closed, whatever waits to be sent.
pub(super) fn reset_on_close(socket: &TcpStream) {
    // It fails on a socket that is reset already.
    let _ = set_socket_linger(socket, Some(Duration::ZERO));
}

/// Whether a call has only waited long enough.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
