//! What the kernel can do for a terminator: tried, not looked up; and why not, where it cannot.
//!
//! Opens connections to itself on loopback; nothing is sent over them.

use std::io::{self, ErrorKind};

use measure::host::Ability;
use sys::epoll;
use sys::ktls::probe::{CIPHER_REMEDY, Tried, probe};
use sys::ktls::{Cipher, Half};

use super::text::{read, value};

/// The name of kernel TLS.
const KTLS: &str = "kTLS";

pub(super) fn all() -> Vec<Ability> {
    let found = probe();
    let mut abilities = match found.lack {
        None => vec![able(KTLS, found.sentence())],
        Some(lack) => vec![unable(KTLS, found.sentence(), lack.remedy())],
    };
    if found.lack.is_none() {
        abilities.extend(Cipher::ALL.map(|cipher| cipher_ability(cipher, &found.tried)));
    }
    abilities.push(match epoll::probe_io_uring() {
        Ok(()) => able(URING, "the kernel made a ring"),
        Err(error) => without_rings(&error, &read(URING_SETTING), &read("/proc/self/status")),
    });
    abilities
}

fn able(name: &str, why: impl Into<String>) -> Ability {
    Ability {
        name: name.to_owned(),
        is_there: true,
        why: why.into(),
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

/// There if anything of it is.
fn cipher_ability(cipher: Cipher, tried: &[Tried]) -> Ability {
    let tried = || tried.iter().filter(|one| one.cipher == cipher);
    let mut why: Vec<String> = tried()
        .filter(|one| one.error.is_none())
        .map(half_of)
        .collect();
    let is_there = !why.is_empty();
    let refused: Vec<String> = tried()
        .filter_map(|one| {
            let error = io::Error::from_raw_os_error(one.error?);
            Some(format!("{} ({error})", half_of(one)))
        })
        .collect();
    if refused.is_empty() {
        why = vec!["TLS 1.2 and 1.3, to send and to receive".to_owned()];
    } else {
        why.push(format!("not {}", refused.join(", ")));
    }
    let lacks_cipher = tried().any(|one| {
        let error = one.error.map(io::Error::from_raw_os_error);
        error.is_some_and(|error| error.kind() == ErrorKind::NotFound)
    });
    Ability {
        name: format!("{KTLS} {cipher}"),
        is_there,
        why: why.join("; "),
        remedy: lacks_cipher.then(|| CIPHER_REMEDY.to_owned()),
    }
}

fn half_of(tried: &Tried) -> String {
    let half = match tried.half {
        Half::Send => "to send",
        Half::Receive => "to receive",
    };
    format!("{} {half}", tried.version)
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
    use sys::ktls::Version;

    use super::*;

    fn fault(code: i32) -> io::Error {
        io::Error::from_raw_os_error(code)
    }

    const EPERM: i32 = 1;
    const ENOENT: i32 = 2;
    const EINVAL: i32 = 22;
    const ENOSYS: i32 = 38;

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
        let tried = |half, error| Tried {
            version: Version::Tls13,
            cipher: Cipher::Aes128Gcm,
            half,
            error,
        };
        let ability = |send, receive| {
            let tried = [tried(Half::Send, send), tried(Half::Receive, receive)];
            cipher_ability(Cipher::Aes128Gcm, &tried)
        };
        let all = ability(None, None);
        assert!(all.is_there && all.why.contains("to send and to receive"));
        assert_eq!(all.name, "kTLS AES-128-GCM");
        let half = ability(None, Some(EINVAL));
        assert!(half.is_there && half.remedy.is_none(), "{half:?}");
        let why = "TLS 1.3 to send; not TLS 1.3 to receive (Invalid argument (os error 22))";
        assert_eq!(half.why, why);
        let none = ability(Some(ENOENT), Some(ENOENT));
        assert!(!none.is_there && none.remedy.is_some());
    }

    #[test]
    fn this_kernel_answers() {
        let abilities = all();
        assert_eq!(abilities.first().unwrap().name, KTLS);
        assert_eq!(abilities.last().unwrap().name, URING);
        // Its ciphers are listed only where there is kernel TLS, which always has AES-128-GCM.
        let (tls, next) = (&abilities[0], &abilities[1]);
        assert_eq!(next.name == "kTLS AES-128-GCM", tls.is_there);
        assert!(next.is_there || next.name == URING, "{next:?}");
    }
}
