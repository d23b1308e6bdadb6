//! TLS in the kernel: a connection's keys are handed over, and what is written after that is sealed
//! by the kernel.
//!
//! Owns the calls and the layout of `linux/tls.h`; what a kernel takes is `probe`'s to find out,
//! and when it pays somebody else's to decide. What has been handed over cannot be taken back.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use rustix::event::PollFlags;

pub mod probe;

use crate::socket::set_option;
use crate::wait_for;

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// A cipher that kernels may know.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cipher {
    Aes128Gcm,
    Aes256Gcm,
    ChaCha20Poly1305,
}

/// The half of a connection that the kernel is to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Half {
    Send,
    Receive,
}

/// All that a kernel may seal.
pub const PAIRS: [(Version, Cipher); 6] = [
    (Version::Tls13, Cipher::Aes128Gcm),
    (Version::Tls13, Cipher::Aes256Gcm),
    (Version::Tls13, Cipher::ChaCha20Poly1305),
    (Version::Tls12, Cipher::Aes128Gcm),
    (Version::Tls12, Cipher::Aes256Gcm),
    (Version::Tls12, Cipher::ChaCha20Poly1305),
];

/// Bytes of an initialisation vector, in every version and cipher.
pub const IV_BYTES: usize = 12;

/// The state from which the kernel goes on where we stopped.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub version: Version,
    pub cipher: Cipher,
    pub key: &'a [u8],
    /// The initialisation vector, which the kernel combines with the sequence number. With AES-GCM
    /// in TLS 1.2: the salt, then the explicit part of the first nonce, from which the kernel
    /// counts up by one (RFC 5288 section 3).
    pub iv: [u8; IV_BYTES],
    /// The sequence number of the next record.
    pub sequence: u64,
}

impl Cipher {
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The bytes of a key.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32,
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::Aes128Gcm => libc::TLS_CIPHER_AES_GCM_128,
            Self::Aes256Gcm => libc::TLS_CIPHER_AES_GCM_256,
            Self::ChaCha20Poly1305 => libc::TLS_CIPHER_CHACHA20_POLY1305,
        }
    }
}

impl Version {
    /// The number on the wire, which the kernel uses too.
    pub fn code(self) -> u16 {
        match self {
            Self::Tls12 => libc::TLS_1_2_VERSION,
            Self::Tls13 => libc::TLS_1_3_VERSION,
        }
    }

    /// The name that people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLS 1.2",
            Self::Tls13 => "TLS 1.3",
        }
    }
}

/// Makes an established TCP connection ready for [`install`] (tcp(7), `TCP_ULP`); nothing else
/// changes yet. `NotFound` = the kernel has no TLS, or its module is not loaded and may not be
/// loaded by us.
pub fn attach(connection: BorrowedFd<'_>) -> io::Result<()> {
    Ok(set_option(connection, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")?)
}

/// Gives an attached connection the keys of a half. From now on what is written is the plaintext of
/// application data.
///
/// A second time it changes the keys, in TLS 1.3 and where the kernel can (6.14 or so): `EBUSY` =
/// it cannot. What was written before is sealed already.
pub fn install(connection: BorrowedFd<'_>, half: Half, keys: &Keys<'_>) -> io::Result<()> {
    let option = match half {
        Half::Send => libc::TLS_TX,
        Half::Receive => libc::TLS_RX,
    };
    let info = layout(keys)?;
    Ok(set_option(connection, libc::SOL_TLS, option, info.bytes())?)
}

/// `struct tls12_crypto_info_*` of linux/tls.h, which both versions have; erased when it goes.
struct Info {
    bytes: [u8; INFO_BYTES_MAX],
    used: usize,
}

/// Two numbers, then IV, key, salt and record number.
const INFO_BYTES_MAX: usize = 2 * 2 + IV_BYTES + 32 + 8;

impl Info {
    fn add(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        self.bytes[self.used..end].copy_from_slice(bytes);
        self.used = end;
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

impl Drop for Info {
    fn drop(&mut self) {
        for byte in &mut self.bytes {
            // SAFETY: a byte of ours, by its own reference. Volatile, since nobody reads it again.
            unsafe { std::ptr::write_volatile(byte, 0) };
        }
    }
}

fn layout(keys: &Keys<'_>) -> io::Result<Info> {
    if keys.key.len() != keys.cipher.key_bytes() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let salt_bytes = match keys.cipher {
        Cipher::Aes128Gcm | Cipher::Aes256Gcm => 4,
        Cipher::ChaCha20Poly1305 => 0,
    };
    let (salt, iv) = keys.iv.split_at(salt_bytes);
    let mut info = Info { bytes: [0; INFO_BYTES_MAX], used: 0 };
    info.add(&keys.version.code().to_ne_bytes());
    info.add(&keys.cipher.number().to_ne_bytes());
    info.add(iv);
    info.add(keys.key);
    info.add(salt);
    info.add(&keys.sequence.to_be_bytes());
    Ok(info)
}

/// Room for the type of a record, as a control message.
#[repr(C)]
struct TypeMessage {
    header: libc::cmsghdr,
    kind: u8,
    /// Control messages are padded to a whole number of words.
    padding: [u8; size_of::<usize>() - 1],
}

/// Makes the kernel seal `content` as one record of that type (RFC 8446 section 5.1), behind all
/// that was written before. To be called with at most 16 KiB.
///
/// It is whole or not at all: `WouldBlock` = the connection takes nothing now. Success means that
/// the kernel has it; like written data it may wait there for room in the connection's queue, and
/// closing the connection then would lose it: see [`has_room`].
pub fn send_record(connection: impl AsFd, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut part =
        libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    // SAFETY: all zeros is a control message without contents. The C library musl pads it.
    let mut control: TypeMessage = unsafe { std::mem::zeroed() };
    // The type of lengths is the C library's own.
    control.header.cmsg_len = (size_of::<libc::cmsghdr>() + 1) as _;
    control.header.cmsg_level = libc::SOL_TLS;
    control.header.cmsg_type = libc::TLS_SET_RECORD_TYPE;
    control.kind = kind;
    // SAFETY: all zeros is a message without address, parts and control.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<TypeMessage>() as _;
    // SAFETY: `message` points to `part` and `control`, and `part` to `content`, whose lengths it
    // gives and which all outlive the call; the kernel only reads them.
    let sent = unsafe {
        libc::sendmsg(
            connection.as_fd().as_raw_fd(),
            &raw const message,
            libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        )
    };
    match usize::try_from(sent) {
        Err(_) => Err(io::Error::last_os_error()),
        // Little as it is, it fits one record, and the kernel takes records whole.
        Ok(sent) if sent == content.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Whether a third of the connection's queue is free (`POLLOUT`).
///
/// The kernel seals a record before it knows whether the queue takes all of it, keeps the rest, and
/// forgets it when the connection is closed or its stream ended. So the last record of a stream
/// must be sent only when there is room: then it takes along all that waited before it.
pub fn has_room(connection: impl AsFd) -> io::Result<bool> {
    Ok(!wait_for(connection, PollFlags::OUT, Some(Duration::ZERO))?.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(cipher: Cipher, key: &[u8]) -> Keys<'_> {
        Keys {
            version: Version::Tls13,
            cipher,
            key,
            iv: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
            sequence: 0x0102,
        }
    }

    #[test]
    fn keys_are_as_long_as_the_kernel_wants_them() {
        let length = |cipher: Cipher| {
            let key = vec![0; cipher.key_bytes()];
            layout(&keys(cipher, &key)).unwrap().bytes().len()
        };
        assert_eq!(length(Cipher::Aes128Gcm), size_of::<libc::tls12_crypto_info_aes_gcm_128>());
        assert_eq!(length(Cipher::Aes256Gcm), size_of::<libc::tls12_crypto_info_aes_gcm_256>());
        assert_eq!(
            length(Cipher::ChaCha20Poly1305),
            size_of::<libc::tls12_crypto_info_chacha20_poly1305>()
        );
    }

    #[test]
    fn keys_lie_where_the_kernel_looks_for_them() {
        let key = [9; 32];
        let laid = layout(&keys(Cipher::Aes128Gcm, &key[..16])).unwrap();
        let info = laid.bytes();
        let iv = [5, 6, 7, 8, 9, 10, 11, 12];
        let sequence = [0, 0, 0, 0, 0, 0, 1, 2];
        assert_eq!(info[4..], [&iv[..], &[9; 16], &[1, 2, 3, 4], &sequence].concat());
        let laid = layout(&keys(Cipher::ChaCha20Poly1305, &key)).unwrap();
        let info = laid.bytes();
        assert_eq!(info[4..16], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(info[info.len() - 8..], sequence);
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        assert!(layout(&keys(Cipher::Aes256Gcm, &[9; 16])).is_err());
    }

    #[test]
    fn what_is_not_connected_cannot_be_handed_over() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(attach(listener.as_fd()).is_err());
    }
    /// On a kernel with TLS, what one end writes arrives at the other as records of their types.
    #[test]
    fn the_kernel_seals_what_is_written() {
        use std::io::{Read, Write};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let keys = keys(Cipher::Aes128Gcm, &[9; 16]);
        let handed = attach(server.as_fd())
            .and_then(|()| install(server.as_fd(), Half::Send, &keys))
            .and_then(|()| attach(client.as_fd()))
            .and_then(|()| install(client.as_fd(), Half::Receive, &keys));
        let found = probe::probe();
        assert_eq!(handed.is_ok(), found.lack.is_none(), "{handed:?} {found:?}");
        if handed.is_err() {
            assert!(send_record(&server, 21, &[1, 0]).is_err() || found.lack.is_some());
            return;
        }
        assert!(has_room(&server).unwrap());
        server.write_all(b"some words").unwrap();
        send_record(&server, 21, &[1, 0]).unwrap();
        let again = install(server.as_fd(), Half::Send, &keys);
        assert_eq!(again.is_ok(), found.rekeys);
        let mut room = [0; 32];
        let count = client.read(&mut room).unwrap();
        assert_eq!(&room[..count], b"some words");
        // A record that is no data cannot be read without asking for its type.
        let error = client.read(&mut room).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
}
