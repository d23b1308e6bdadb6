//! TLS in the kernel: what a connection is offered, to see whether the kernel takes it.
//!
//! Owns the two calls that a probe needs. The keys are zeros: nothing is ever sent with them.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A version of TLS.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// A cipher that kernels may know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

/// Which half of a connection the kernel is to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Half {
    /// Sealing what is sent.
    Send,
    /// Opening what is received.
    Receive,
}

/// Hands an established TCP connection to the kernel's TLS (tcp(7), `TCP_ULP`). `NotFound` = the
/// kernel has no TLS, or its module is not loaded and may not be loaded by us.
pub fn attach(connection: BorrowedFd<'_>) -> io::Result<()> {
    set(connection, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
}

/// Gives an attached connection a cipher with a key of zeros. An error = the kernel does not take
/// it. The connection is good for nothing afterwards.
pub fn offer(
    connection: BorrowedFd<'_>,
    version: Version,
    cipher: Cipher,
    half: Half,
) -> io::Result<()> {
    let option = match half {
        Half::Send => libc::TLS_TX,
        Half::Receive => libc::TLS_RX,
    };
    set(connection, libc::SOL_TLS, option, &keys(version, cipher))
}

/// `struct tls12_crypto_info_*` of linux/tls.h, which both versions have: two numbers, then IV,
/// key, salt and record number.
fn keys(version: Version, cipher: Cipher) -> Vec<u8> {
    let version: u16 = match version {
        Version::Tls12 => libc::TLS_1_2_VERSION,
        Version::Tls13 => libc::TLS_1_3_VERSION,
    };
    let (number, bytes): (u16, usize) = match cipher {
        Cipher::Aes128Gcm => (libc::TLS_CIPHER_AES_GCM_128, 8 + 16 + 4 + 8),
        Cipher::Aes256Gcm => (libc::TLS_CIPHER_AES_GCM_256, 8 + 32 + 4 + 8),
        Cipher::ChaCha20Poly1305 => (libc::TLS_CIPHER_CHACHA20_POLY1305, 12 + 32 + 8),
    };
    let mut info = Vec::with_capacity(4 + bytes);
    info.extend(version.to_ne_bytes());
    info.extend(number.to_ne_bytes());
    info.resize(4 + bytes, 0);
    info
}

fn set(
    connection: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> io::Result<()> {
    // SAFETY: the kernel reads `value.len()` bytes at `value`, which outlives the call.
    let answer = unsafe {
        libc::setsockopt(
            connection.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if answer == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn keys_are_as_long_as_the_kernel_wants_them() {
        use std::mem::size_of;
        let length = |cipher| keys(Version::Tls13, cipher).len();
        assert_eq!(
            length(Cipher::Aes128Gcm),
            size_of::<libc::tls12_crypto_info_aes_gcm_128>()
        );
        assert_eq!(
            length(Cipher::Aes256Gcm),
            size_of::<libc::tls12_crypto_info_aes_gcm_256>()
        );
        assert_eq!(
            length(Cipher::ChaCha20Poly1305),
            size_of::<libc::tls12_crypto_info_chacha20_poly1305>()
        );
    }

    #[test]
    fn a_cipher_is_taken_only_where_there_is_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _accepted = listener.accept().unwrap();
        let socket = stream.as_fd();
        let offered = |socket| offer(socket, Version::Tls12, Cipher::Aes128Gcm, Half::Send);
        match attach(socket) {
            // AES-128-GCM by TLS 1.2 is what kernel TLS began with.
            Ok(()) => offered(socket).unwrap(),
            Err(_) => assert!(offered(socket).is_err()),
        }
    }

    #[test]
    fn what_is_not_connected_cannot_be_handed_over() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(attach(listener.as_fd()).is_err());
    }
}
