//! What the kernel can do for a terminator: tried, not looked up; and why not, where it cannot.
//!
//! Opens connections to itself on loopback; nothing is sent over them.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

use measure::host::Ability;
use sys::io_uring;
use sys::ktls::{self, Cipher, Half, Version};

use super::text::{names, read, told, value};

/// The name of kernel TLS.
const KTLS: &str = "kTLS";

/// All of them.
pub(super) fn all() -> Vec<Ability> {
    let mut abilities = match connection().and_then(|pair| ktls::attach(pair.0.as_fd())) {
        Ok(()) => {
            let mut abilities = vec![able(KTLS, "the kernel took a connection over")];
            abilities.extend(CIPHERS.map(|(name, cipher)| cipher_ability(name, &halves(cipher))));
            abilities
        }
        Err(error) => vec![without_tls(&error, &Kernel::read())],
    };
    abilities.push(match io_uring::probe() {
        Ok(()) => able(URING, "the kernel made a ring"),
        Err(error) => without_rings(&error, &read(URING_SETTING), &read("/proc/self/status")),
    });
    abilities
}

fn able(name: &str, why: &str) -> Ability {
    Ability {
        name: name.to_owned(),
        is_there: true,
        why: why.to_owned(),
        remedy: None,
    }
}

fn unable(name: &str, why: impl Into<String>, remedy: Option<&str>) -> Ability {
    Ability {
        name: name.to_owned(),
        is_there: false,
        why: why.into(),
        remedy: remedy.map(str::to_owned),
    }
}

/// Both ends of a connection to ourselves.
fn connection() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (theirs, _) = listener.accept()?;
    Ok((ours, theirs))
}

const CIPHERS: [(&str, Cipher); 3] = [
    ("kTLS AES-128-GCM", Cipher::Aes128Gcm),
    ("kTLS AES-256-GCM", Cipher::Aes256Gcm),
    ("kTLS ChaCha20-Poly1305", Cipher::ChaCha20Poly1305),
];

/// A half of a version, and whether the kernel took it.
type Tried = (&'static str, io::Result<()>);

/// Each is tried on a connection of its own: a cipher that was taken cannot be taken back.
fn halves(cipher: Cipher) -> [Tried; 4] {
    let tried = |version, half| {
        let (ours, theirs) = connection()?;
        ktls::attach(ours.as_fd())?;
        ktls::offer(ours.as_fd(), version, cipher, half)?;
        drop(theirs);
        Ok(())
    };
    [
        ("TLS 1.3 to send", tried(Version::Tls13, Half::Send)),
        ("TLS 1.3 to receive", tried(Version::Tls13, Half::Receive)),
        ("TLS 1.2 to send", tried(Version::Tls12, Half::Send)),
        ("TLS 1.2 to receive", tried(Version::Tls12, Half::Receive)),
    ]
}

/// There if anything of it is.
fn cipher_ability(name: &str, tried: &[Tried]) -> Ability {
    let taken: Vec<_> = tried.iter().filter(|(_, answer)| answer.is_ok()).collect();
    let refused: Vec<String> = tried
        .iter()
        .filter_map(|(half, answer)| Some(format!("{half} ({})", answer.as_ref().err()?)))
        .collect();
    let mut why = Vec::new();
    if refused.is_empty() {
        why.push("TLS 1.2 and 1.3, to send and to receive".to_owned());
    } else {
        why.extend(taken.iter().map(|(half, _)| (*half).to_owned()));
        why.push(format!("not {}", refused.join(", ")));
    }
    let lacks_cipher = tried.iter().any(|(_, answer)| {
        answer
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::NotFound)
    });
    Ability {
        name: name.to_owned(),
        is_there: !taken.is_empty(),
        why: why.join("; "),
        remedy: lacks_cipher.then(|| {
            "the kernel's cryptography lacks it: load the cipher's module as root, as in `modprobe \
             gcm` or `modprobe chacha20poly1305`"
                .to_owned()
        }),
    }
}

/// What a kernel says of its own build.
struct Kernel {
    /// Unknown if neither the configuration nor the module can be found.
    tls: Option<Built>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Built {
    In,
    Module,
    Not,
}

impl Kernel {
    fn read() -> Self {
        let release = read("/proc/sys/kernel/osrelease");
        let beside = told(format!("/boot/config-{release}"));
        let config = beside.or_else(own_config);
        let said = config.and_then(|config| built(&config, "CONFIG_TLS"));
        let modules = names(format!("/lib/modules/{release}/kernel/net/tls"));
        let is_module = modules.iter().any(|name| name.starts_with("tls.ko"));
        Self {
            tls: said.or_else(|| is_module.then_some(Built::Module)),
        }
    }
}

/// The kernel's own copy, if it was built with one.
fn own_config() -> Option<String> {
    let file = "/proc/config.gz";
    if !Path::new(file).exists() {
        return None;
    }
    let mut unpack = Command::new("gzip");
    unpack
        .args(["-dc", file])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = unpack
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok()
}

/// `CONFIG_TLS=m`, `# CONFIG_TLS is not set`; an option that another rules out is not there.
fn built(config: &str, option: &str) -> Option<Built> {
    if !config.contains("CONFIG_NET") {
        return None;
    }
    let line = config.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        (name == option).then_some(value)
    });
    Some(match line {
        Some("y") => Built::In,
        Some("m") => Built::Module,
        _ => Built::Not,
    })
}

const MODPROBE: &str = "`modprobe tls` as root, on the host itself if this is a container";

fn without_tls(error: &io::Error, kernel: &Kernel) -> Ability {
    match (error.kind(), kernel.tls) {
        (ErrorKind::NotFound, Some(Built::Not)) => unable(
            KTLS,
            "this kernel was built without it (CONFIG_TLS is not set)",
            Some("a kernel with CONFIG_TLS, as distributions have it"),
        ),
        (ErrorKind::NotFound, Some(Built::Module)) => {
            unable(KTLS, "its module is not loaded", Some(MODPROBE))
        }
        (ErrorKind::NotFound, _) => unable(
            KTLS,
            "the kernel has no TLS, or its module is not loaded",
            Some(MODPROBE),
        ),
        (ErrorKind::PermissionDenied, _) => unable(
            KTLS,
            "forbidden: by a container's seccomp filter, or a security module",
            Some("try outside of the container"),
        ),
        _ => unable(KTLS, format!("the kernel refuses it: {error}"), None),
    }
}

const URING: &str = "io_uring";
const URING_SETTING: &str = "/proc/sys/kernel/io_uring_disabled";

fn without_rings(error: &io::Error, setting: &str, status: &str) -> Ability {
    let is_filtered = value(status, "Seccomp") == Some("2");
    match (error.kind(), setting) {
        (ErrorKind::PermissionDenied, "1" | "2") => unable(
            URING,
            format!("forbidden by kernel.io_uring_disabled = {setting}"),
            Some("`sysctl -w kernel.io_uring_disabled=0`"),
        ),
        (ErrorKind::PermissionDenied, _) if is_filtered => unable(
            URING,
            "forbidden by a seccomp filter, as container runtimes have it",
            Some("try outside of the container, or with a filter that allows io_uring_setup"),
        ),
        (ErrorKind::PermissionDenied, _) => unable(URING, "forbidden, by a security module", None),
        (ErrorKind::Unsupported, _) => unable(
            URING,
            "the kernel has none: older than 5.1, built without it (CONFIG_IO_URING), or no Linux \
             beneath",
            None,
        ),
        _ => unable(URING, format!("the kernel refuses it: {error}"), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    const EPERM: i32 = 1;
    const ENOENT: i32 = 2;
    const EINVAL: i32 = 22;
    const ENOSYS: i32 = 38;

    #[test]
    fn kernels_say_how_they_were_built() {
        let config = "CONFIG_NET=y\n# CONFIG_TLS is not set\nCONFIG_TLS_DEVICE=y\n";
        assert_eq!(built(config, "CONFIG_TLS"), Some(Built::Not));
        assert_eq!(
            built("CONFIG_NET=y\nCONFIG_TLS=m\n", "CONFIG_TLS"),
            Some(Built::Module)
        );
        assert_eq!(
            built("CONFIG_NET=y\nCONFIG_TLS=y\n", "CONFIG_TLS"),
            Some(Built::In)
        );
        assert_eq!(built("", "CONFIG_TLS"), None);
    }

    #[test]
    fn what_is_not_there_has_its_reason() {
        let why = |code, tls| without_tls(&fault(code), &Kernel { tls }).why;
        assert!(why(ENOENT, Some(Built::Not)).contains("CONFIG_TLS is not set"));
        assert!(why(ENOENT, Some(Built::Module)).starts_with("its module is not loaded"));
        assert!(why(ENOENT, None).contains("or its module"));
        assert!(why(EPERM, None).contains("forbidden"));
        assert!(why(EINVAL, None).contains("Invalid argument"));
        let remedy = without_tls(&fault(ENOENT), &Kernel { tls: None }).remedy;
        assert!(remedy.unwrap().contains("modprobe tls"));
    }

    #[test]
    fn rings_are_forbidden_in_three_ways() {
        let filtered = "Name:\tx\nSeccomp:\t2\n";
        let why = |code, setting, status| without_rings(&fault(code), setting, status).why;
        assert!(why(EPERM, "2", filtered).contains("io_uring_disabled = 2"));
        assert!(why(EPERM, "0", filtered).contains("seccomp"));
        assert!(why(EPERM, "", "").contains("security module"));
        assert!(why(ENOSYS, "", "").contains("CONFIG_IO_URING"));
    }

    #[test]
    fn a_cipher_is_there_if_any_of_it_is() {
        let all = cipher_ability("x", &[("a", Ok(())), ("b", Ok(()))]);
        assert!(all.is_there && all.why.contains("to send and to receive"));
        let half = cipher_ability("x", &[("a", Ok(())), ("b", Err(fault(EINVAL)))]);
        assert!(half.is_there && half.remedy.is_none(), "{half:?}");
        assert_eq!(half.why, "a; not b (Invalid argument (os error 22))");
        let none = cipher_ability("x", &[("a", Err(fault(ENOENT)))]);
        assert!(!none.is_there && none.remedy.is_some());
    }

    #[test]
    fn this_kernel_answers() {
        let abilities = all();
        assert_eq!(abilities.first().unwrap().name, KTLS);
        assert_eq!(abilities.last().unwrap().name, URING);
        // Its ciphers are told of only where there is kernel TLS, which always has AES-128-GCM.
        let (tls, next) = (&abilities[0], &abilities[1]);
        assert_eq!(next.name == CIPHERS[0].0, tls.is_there);
        assert!(next.is_there || next.name == URING, "{next:?}");
    }
}
