//! TLS in the kernel: a connection's keys are handed over, and what is written after that is sealed
//! by the kernel. What it is able to do is tried, not looked up.
//!
//! Owns the calls and the layout of `linux/tls.h`; when they pay is somebody else's to decide. What
//! has been handed over cannot be taken back. The try opens connections to itself on loopback.
//! Their keys are zeros; nothing is sent over them. As root the first try also loads the kernel's
//! module, which others may not.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fmt, io};

use rustix::event::PollFlags;

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

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// The reason why the kernel takes no connection; `None` = it does.
    pub lack: Option<Lack>,
    /// The outcome for each cipher; empty if it takes no connection.
    pub tried: Vec<Tried>,
    /// Whether keys of TLS 1.3 can be changed after they were handed over, as a KeyUpdate asks for
    /// (RFC 8446 section 4.6.3).
    pub rekeys: bool,
}

/// Whether the kernel does one half of a version with a cipher.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Tried {
    pub version: Version,
    pub cipher: Cipher,
    pub half: Half,
    /// The kernel's error number; `None` = it does.
    pub error: Option<i32>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lack {
    NotBuilt,
    /// The module is not loaded, and we may not load it.
    NotLoaded,
    /// One of these two: it does not say how it was built.
    NotThere,
    /// A filter of system calls or a security module forbids it.
    Forbidden,
    /// No connection on loopback could be made to try it; the error number.
    Untried(i32),
    /// It refuses; the error number.
    Refused(i32),
}

pub fn probe() -> Found {
    let lack = |lack| Found { lack: Some(lack), tried: Vec::new(), rekeys: false };
    let pair = match connection() {
        Ok(pair) => pair,
        Err(error) => return lack(Lack::Untried(number_of(&error))),
    };
    if let Err(error) = attach(pair.0.as_fd()) {
        return lack(Lack::of(&error, tls_built()));
    }
    let mut tried = Vec::new();
    for (version, cipher) in PAIRS {
        for half in [Half::Send, Half::Receive] {
            let error = offer(version, cipher, half, 1).err();
            tried.push(Tried { version, cipher, half, error: error.as_ref().map(number_of) });
        }
    }
    Found {
        lack: None,
        tried,
        rekeys: offer(Version::Tls13, Cipher::Aes128Gcm, Half::Send, 2).is_ok(),
    }
}

/// Each is tried on a connection of its own: a cipher that was taken cannot be taken back.
fn offer(version: Version, cipher: Cipher, half: Half, times: usize) -> io::Result<()> {
    let (ours, _theirs) = connection()?;
    attach(ours.as_fd())?;
    let key = vec![0; cipher.key_bytes()];
    let keys = Keys { version, cipher, key: &key, iv: [0; IV_BYTES], sequence: 0 };
    (0..times).try_for_each(|_| install(ours.as_fd(), half, &keys))
}

/// Both ends of a connection to ourselves.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (theirs, _) = listener.accept()?;
    Ok((ours, theirs))
}

fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

impl Found {
    /// Whether the kernel does that.
    pub fn takes(&self, version: Version, cipher: Cipher, half: Half) -> bool {
        self.tried.iter().any(|one| {
            (one.version, one.cipher, one.half) == (version, cipher, half) && one.error.is_none()
        })
    }

    /// The reason in one sentence without its subject and full stop: `its module is not loaded`.
    pub fn sentence(&self) -> String {
        if let Some(lack) = self.lack {
            return lack.to_string();
        }
        let rekeys = if self.rekeys {
            "changes keys"
        } else {
            "cannot change keys: a connection ends with a KeyUpdate"
        };
        let missing: Vec<String> = self
            .sending()
            .filter(|one| one.error.is_some())
            .map(|one| format!("{} by {}", one.cipher, one.version))
            .collect();
        let suites = if missing.is_empty() {
            "encrypts with all ciphers of TLS 1.2 and 1.3".to_owned()
        } else {
            format!("does not encrypt with {}", missing.join(", "))
        };
        format!("the kernel {suites}, and {rekeys}")
    }

    /// The step by which the host's owner lets it encrypt with all.
    pub fn remedy(&self) -> Option<&'static str> {
        if let Some(lack) = self.lack {
            return lack.remedy();
        }
        self.sending().any(|one| one.error == Some(libc::ENOENT)).then_some(CIPHER_REMEDY)
    }

    fn sending(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().filter(|one| one.half == Half::Send)
    }
}

/// The remedy where the kernel's cryptography lacks a cipher (`ENOENT`).
pub const CIPHER_REMEDY: &str = "the kernel's cryptography lacks it: load the cipher's module as \
     root, as in `modprobe gcm` or `modprobe chacha20poly1305`";

impl Lack {
    fn of(error: &io::Error, built: Option<TlsBuild>) -> Self {
        match (error.kind(), built) {
            (io::ErrorKind::NotFound, Some(TlsBuild::Not)) => Self::NotBuilt,
            (io::ErrorKind::NotFound, Some(TlsBuild::Module)) => Self::NotLoaded,
            (io::ErrorKind::NotFound, _) => Self::NotThere,
            (io::ErrorKind::PermissionDenied, _) => Self::Forbidden,
            _ => Self::Refused(number_of(error)),
        }
    }

    pub fn remedy(self) -> Option<&'static str> {
        match self {
            Self::NotBuilt => Some("a kernel with CONFIG_TLS, as distributions have it"),
            Self::NotLoaded | Self::NotThere => {
                Some("`modprobe tls` as root, on the host itself if this is a container")
            }
            Self::Forbidden => Some("try outside of the container"),
            Self::Untried(_) => Some("bring the loopback interface up"),
            Self::Refused(_) => None,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = |number| io::Error::from_raw_os_error(number);
        match *self {
            Self::NotBuilt => {
                formatter.write_str("this kernel was built without it (CONFIG_TLS is not set)")
            }
            Self::NotLoaded => formatter.write_str("its module is not loaded"),
            Self::NotThere => {
                formatter.write_str("the kernel has no TLS, or its module is not loaded")
            }
            Self::Forbidden => formatter
                .write_str("forbidden: by a container's seccomp filter, or a security module"),
            Self::Untried(number) => {
                write!(formatter, "no connection to try it on: {}", error(number))
            }
            Self::Refused(number) => write!(formatter, "the kernel refuses it: {}", error(number)),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        })
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TlsBuild {
    In,
    Module,
    Not,
}

/// The build of the kernel's TLS by its own words. `None` = neither its configuration nor the
/// module is there.
fn tls_built() -> Option<TlsBuild> {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let config = read(&format!("/boot/config-{release}")).or_else(own_config);
    let said = config.and_then(|config| built(&config, "CONFIG_TLS"));
    let is_module = || Path::new(&format!("/lib/modules/{release}/kernel/net/tls")).exists();
    said.or_else(|| is_module().then_some(TlsBuild::Module))
}

fn read(file: &str) -> Option<String> {
    std::fs::read_to_string(file).ok()
}

/// The kernel's own copy, if it was built with one.
fn own_config() -> Option<String> {
    let file = "/proc/config.gz";
    if !Path::new(file).exists() {
        return None;
    }
    // By its full name: the caller may be root.
    let output = Command::new("/bin/gzip")
        .args(["-dc", file])
        .env_clear()
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// `CONFIG_TLS=m`, `# CONFIG_TLS is not set`; an option that another rules out is not there.
fn built(config: &str, option: &str) -> Option<TlsBuild> {
    if !config.contains("CONFIG_NET") {
        return None;
    }
    let line = config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name == option).then_some(value)
    });
    Some(match line {
        Some("y") => TlsBuild::In,
        Some("m") => TlsBuild::Module,
        _ => TlsBuild::Not,
    })
}

#[cfg(test)]
mod tests;
