//! Hands a connection's TLS keys to the kernel, which then encrypts what is written. Tries what the
//! kernel can do instead of looking it up.
//!
//! Handles the calls and the layout of `linux/tls.h`; the caller decides when they pay. Keys that
//! the kernel has cannot be taken back. The probe connects to itself on loopback, with keys of
//! zeros, and sends nothing. As root, the first probe also loads the kernel's module, which others
//! may not.

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

/// Direction of a connection that the kernel takes over.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KtlsDirection {
    Send,
    Receive,
}

/// Every pair that a kernel may encrypt with.
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

/// State from which the kernel continues a connection.
#[derive(Clone, Copy)]
pub struct Keys<'a> {
    pub version: Version,
    pub cipher: Cipher,
    pub key: &'a [u8],
    /// Initialisation vector, which the kernel combines with the sequence number. With AES-GCM
    /// in TLS 1.2: the salt, then the explicit part of the first nonce, from which the kernel
    /// counts up by one (RFC 5288 section 3).
    pub iv: [u8; IV_BYTES],
    /// Sequence number of the next record.
    pub sequence: u64,
}

impl Cipher {
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Returns the length of a key in bytes.
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
    /// Returns the number on the wire, which the kernel uses too.
    pub fn code(self) -> u16 {
        match self {
            Self::Tls12 => libc::TLS_1_2_VERSION,
            Self::Tls13 => libc::TLS_1_3_VERSION,
        }
    }

    /// Returns the usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls12 => "TLS 1.2",
            Self::Tls13 => "TLS 1.3",
        }
    }
}

/// Prepares an established TCP connection for [`install`] (tcp(7), `TCP_ULP`); nothing else changes
/// yet. Fails with `NotFound` if the kernel has no TLS, or its module is not loaded and we may not
/// load it.
pub fn attach(connection: BorrowedFd<'_>) -> io::Result<()> {
    Ok(set_option(connection, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")?)
}

/// Installs the keys of one direction of an attached connection. Everything written from now on is
/// plaintext of application data.
///
/// A second call changes the keys, in TLS 1.3 and if the kernel can (6.14 or so); `EBUSY` if it
/// cannot. Data written before is encrypted already.
pub fn install(connection: BorrowedFd<'_>, half: KtlsDirection, keys: &Keys<'_>) -> io::Result<()> {
    let option = match half {
        KtlsDirection::Send => libc::TLS_TX,
        KtlsDirection::Receive => libc::TLS_RX,
    };
    let info = layout(keys)?;
    Ok(set_option(connection, libc::SOL_TLS, option, info.bytes())?)
}

/// `struct tls12_crypto_info_*` of linux/tls.h, for both versions; erased on drop.
struct Info {
    bytes: [u8; INFO_BYTES_MAX],
    used: usize,
}

/// Version and cipher numbers, then IV, key, salt and record number.
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

/// Control message that carries the type of a record.
#[repr(C)]
struct TypeMessage {
    header: libc::cmsghdr,
    kind: u8,
    /// Control messages are padded to a whole number of words.
    padding: [u8; size_of::<usize>() - 1],
}

/// Makes the kernel encrypt `content`, at most 16 KiB, as one record of that type (RFC 8446 section
/// 5.1), after everything that was written before.
///
/// Sends all or nothing: fails with `WouldBlock` if the connection takes nothing now. After success
/// the kernel has the record, but like written data it may wait for room in the connection's queue,
/// and closing the connection then would lose it: see [`has_room`].
pub fn send_record(connection: impl AsFd, kind: u8, content: &[u8]) -> io::Result<()> {
    let mut part =
        libc::iovec { iov_base: content.as_ptr().cast_mut().cast(), iov_len: content.len() };
    // SAFETY: all zeros is a control message without contents. The C library musl pads it.
    let mut control: TypeMessage = unsafe { std::mem::zeroed() };
    // The type of these lengths depends on the C library.
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
        // Content of this size fits one record, and the kernel takes records whole.
        Ok(sent) if sent == content.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
    }
}

/// Reports whether a third of the connection's queue is free (`POLLOUT`).
///
/// The kernel encrypts a record before it knows whether all of it fits the queue, keeps the rest,
/// and drops it when the connection is closed or its stream ends. Therefore the last record of a
/// stream must be sent only when there is room: then it flushes everything that waited before it.
pub fn has_room(connection: impl AsFd) -> io::Result<bool> {
    Ok(!wait_for(connection, PollFlags::OUT, Some(Duration::ZERO))?.is_empty())
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KtlsProbe {
    /// Reason why the kernel takes no connection; `None` if it does.
    pub lack: Option<KtlsLack>,
    /// Outcome for each cipher; empty if the kernel takes no connection.
    pub tried: Vec<KtlsTrial>,
    /// Whether keys of TLS 1.3 can be changed after they were installed, as a KeyUpdate requires
    /// (RFC 8446 section 4.6.3).
    pub rekeys: bool,
}

/// Outcome of trying one direction of a version with a cipher.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KtlsTrial {
    pub version: Version,
    pub cipher: Cipher,
    pub half: KtlsDirection,
    /// The kernel's error number; `None` on success.
    pub error: Option<i32>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KtlsLack {
    NotBuilt,
    /// The module is not loaded, and we may not load it.
    NotLoaded,
    /// Not built or not loaded: the kernel does not tell how it was built.
    NotThere,
    /// A seccomp filter or a security module forbids it.
    Forbidden,
    /// No connection on loopback could be opened for the probe; the error number.
    Untried(i32),
    /// The kernel refuses; the error number.
    Refused(i32),
}

pub fn probe() -> KtlsProbe {
    let lack = |lack| KtlsProbe { lack: Some(lack), tried: Vec::new(), rekeys: false };
    let pair = match connection() {
        Ok(pair) => pair,
        Err(error) => return lack(KtlsLack::Untried(number_of(&error))),
    };
    if let Err(error) = attach(pair.0.as_fd()) {
        return lack(KtlsLack::of(&error, tls_built()));
    }
    let mut tried = Vec::new();
    for (version, cipher) in PAIRS {
        for half in [KtlsDirection::Send, KtlsDirection::Receive] {
            let error = offer(version, cipher, half, 1).err();
            tried.push(KtlsTrial { version, cipher, half, error: error.as_ref().map(number_of) });
        }
    }
    KtlsProbe {
        lack: None,
        tried,
        rekeys: offer(Version::Tls13, Cipher::Aes128Gcm, KtlsDirection::Send, 2).is_ok(),
    }
}

/// Uses a new connection for each try, because installed keys cannot be taken back.
fn offer(version: Version, cipher: Cipher, half: KtlsDirection, times: usize) -> io::Result<()> {
    let (ours, _theirs) = connection()?;
    attach(ours.as_fd())?;
    let key = vec![0; cipher.key_bytes()];
    let keys = Keys { version, cipher, key: &key, iv: [0; IV_BYTES], sequence: 0 };
    (0..times).try_for_each(|_| install(ours.as_fd(), half, &keys))
}

/// Opens a connection to ourselves and returns both ends.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (theirs, _) = listener.accept()?;
    Ok((ours, theirs))
}

fn number_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

impl KtlsProbe {
    /// Reports whether the kernel supports this combination.
    pub fn takes(&self, version: Version, cipher: Cipher, half: KtlsDirection) -> bool {
        self.tried.iter().any(|one| {
            (one.version, one.cipher, one.half) == (version, cipher, half) && one.error.is_none()
        })
    }

    /// Returns the reason as a clause without a full stop: `its module is not loaded`.
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

    /// Returns what the host's owner must do so that the kernel encrypts with all ciphers.
    pub fn remedy(&self) -> Option<&'static str> {
        if let Some(lack) = self.lack {
            return lack.remedy();
        }
        self.sending().any(|one| one.error == Some(libc::ENOENT)).then_some(CIPHER_REMEDY)
    }

    fn sending(&self) -> impl Iterator<Item = &KtlsTrial> {
        self.tried.iter().filter(|one| one.half == KtlsDirection::Send)
    }
}

/// Remedy if the kernel's cryptography lacks a cipher (`ENOENT`).
pub const CIPHER_REMEDY: &str = "the kernel's cryptography lacks it: load the cipher's module as \
     root, as in `modprobe gcm` or `modprobe chacha20poly1305`";

impl KtlsLack {
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

impl fmt::Display for KtlsLack {
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

/// Returns how the kernel's TLS was built; `None` if neither its configuration nor the module is
/// found.
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

/// Reads the kernel's embedded configuration, if it was built with one.
fn own_config() -> Option<String> {
    let file = "/proc/config.gz";
    if !Path::new(file).exists() {
        return None;
    }
    // Called by its full path, because we may be root.
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

/// Parses `CONFIG_TLS=m` or `# CONFIG_TLS is not set`; an option that another excludes is missing.
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
