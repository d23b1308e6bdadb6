//! The kernel's abilities for TLS: tried, not looked up; and the reason where it has none.
//!
//! Opens connections to itself on loopback. Their keys are zeros; nothing is sent over them. As
//! root the first try also loads the kernel's module, which others may not.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Cipher, Half, IV_BYTES, Keys, PAIRS, Version, attach, install};

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
mod tests {
    use super::*;

    fn fault(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    #[test]
    fn kernels_say_how_they_were_built() {
        let config = "CONFIG_NET=y\n# CONFIG_TLS is not set\nCONFIG_TLS_DEVICE=y\n";
        assert_eq!(built(config, "CONFIG_TLS"), Some(TlsBuild::Not));
        let said = |line: &str| built(&format!("CONFIG_NET=y\n{line}\n"), "CONFIG_TLS");
        assert_eq!(said("CONFIG_TLS=m"), Some(TlsBuild::Module));
        assert_eq!(said("CONFIG_TLS=y"), Some(TlsBuild::In));
        assert_eq!(built("", "CONFIG_TLS"), None);
    }

    #[test]
    fn what_is_not_there_has_its_reason() {
        let lack = |code, built| Lack::of(&fault(code), built);
        assert_eq!(lack(libc::ENOENT, Some(TlsBuild::Not)), Lack::NotBuilt);
        assert_eq!(lack(libc::ENOENT, Some(TlsBuild::Module)), Lack::NotLoaded);
        assert_eq!(lack(libc::ENOENT, None), Lack::NotThere);
        assert_eq!(lack(libc::EPERM, None), Lack::Forbidden);
        let refused = lack(libc::EINVAL, None);
        assert!(refused.to_string().contains("Invalid argument"));
        assert!(Lack::NotThere.remedy().unwrap().contains("modprobe tls"));
    }

    fn found(error_of_chacha_12: Option<i32>, rekeys: bool) -> Found {
        let tried = |version, cipher, error| Tried { version, cipher, half: Half::Send, error };
        Found {
            lack: None,
            tried: vec![
                tried(Version::Tls13, Cipher::Aes128Gcm, None),
                tried(Version::Tls12, Cipher::ChaCha20Poly1305, error_of_chacha_12),
            ],
            rekeys,
        }
    }

    #[test]
    fn what_was_found_is_one_sentence() {
        let all = found(None, true);
        let sentence = "the kernel encrypts with all ciphers of TLS 1.2 and 1.3, and changes keys";
        assert_eq!(all.sentence(), sentence);
        assert_eq!(all.remedy(), None);
        let some = found(Some(libc::ENOENT), false);
        let sentence = "the kernel does not encrypt with ChaCha20-Poly1305 by TLS 1.2, and cannot \
                        change keys: a connection ends with a KeyUpdate";
        assert_eq!(some.sentence(), sentence);
        assert_eq!(some.remedy(), Some(CIPHER_REMEDY));
    }

    #[test]
    fn what_was_tried_is_known() {
        let some = found(Some(libc::ENOENT), false);
        assert!(some.takes(Version::Tls13, Cipher::Aes128Gcm, Half::Send));
        assert!(!some.takes(Version::Tls13, Cipher::Aes128Gcm, Half::Receive));
        assert!(!some.takes(Version::Tls12, Cipher::ChaCha20Poly1305, Half::Send));
    }

    #[test]
    fn this_kernel_answers() {
        let found = probe();
        assert_eq!(found.tried.is_empty(), found.lack.is_some());
        // AES-128-GCM by TLS 1.2 is what kernel TLS began with.
        let first = found.takes(Version::Tls12, Cipher::Aes128Gcm, Half::Send);
        assert_eq!(first, found.lack.is_none(), "{found:?}");
    }
}
