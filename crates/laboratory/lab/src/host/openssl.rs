//! Speeds of the same keys and ciphers by the system's own `openssl speed`.
//!
//! Owns its command lines and its form for machines (`-mr`), which has been the same since 1.1.1.
//! It counts user time of its CPU; each row takes whole seconds.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io, process};

use load::speed::{SEAL_BYTES, SpeedRows};
use measure::host::{HostFact, Speed};

use super::text::with_remedy;
use crate::process::{GuardedChild, first_lines};

const PROGRAM: &str = "openssl";

/// Beyond the seconds of its rows: making keys, and a CPU that others want, too.
const PATIENCE: u32 = 4;

/// The reason why there are no rows, with the remedy where there is one.
fn unmeasured(why: impl Display, remedy: Option<&str>) -> HostFact {
    with_remedy("system's OpenSSL", format!("not measured: {why}"), remedy.map(str::to_owned))
}

/// Rows of `openssl speed`, each for `seconds`, on that CPU.
pub(super) fn measure(rows: SpeedRows, seconds: u32, cpu: u16) -> Result<Vec<Speed>, HostFact> {
    let program = located().ok_or_else(|| {
        let remedy = "`apt-get install openssl`, to compare with it";
        unmeasured("there is no program `openssl`", Some(remedy))
    })?;
    let run = |words: &[&str], rows: u32| {
        run(&program, words, cpu, Duration::from_secs(u64::from(seconds * rows)))
    };
    let library = library(&run(&["version"], 1)?);
    let each = seconds.to_string();
    let keys = keys(rows);
    let asked = ["speed", "-mr", "-seconds", &each];
    let mut words = asked.to_vec();
    words.extend(&keys);
    let said = run(&words, 2 * keys.len() as u32)?;
    let mut speeds = of_keys(&said, &library);
    if speeds.is_empty() {
        let said = first_lines(&said);
        let why = format_args!("`openssl speed` said nothing that we know: {said}");
        return Err(unmeasured(why, None));
    }
    for (name, cipher) in CIPHERS {
        for size in sizes(rows) {
            let (bytes, mut words) = (size.to_string(), asked.to_vec());
            words.extend(["-aead", "-bytes", &bytes, "-evp", cipher]);
            let sealed = of_cipher(&run(&words, 1)?, *size);
            speeds.extend(sealed.map(|per_s| speed(&library, "seal", name, Some(*size), per_s)));
        }
    }
    Ok(speeds)
}

/// By the names of `openssl speed`; with keys that are kept, as ours.
fn keys(rows: SpeedRows) -> Vec<&'static str> {
    let names = match rows {
        SpeedRows::Quick => "rsa2048 ecdsap256 ed25519 ecdhx25519",
        SpeedRows::Full => {
            "rsa2048 rsa3072 rsa4096 ecdsap256 ecdsap384 ed25519 ecdhx25519 ecdhp256"
        }
    };
    names.split(' ').collect()
}

const CIPHERS: [(&str, &str); 3] = [
    ("AES-128-GCM", "aes-128-gcm"),
    ("AES-256-GCM", "aes-256-gcm"),
    ("ChaCha20-Poly1305", "chacha20-poly1305"),
];

fn sizes(rows: SpeedRows) -> &'static [u32] {
    match rows {
        SpeedRows::Quick => &SEAL_BYTES[2..],
        SpeedRows::Full => &SEAL_BYTES,
    }
}

/// How many seconds its rows take, at one each.
pub(super) fn row_count(rows: SpeedRows) -> u32 {
    let keys = keys(rows);
    let exchanges = keys.iter().filter(|name| name.starts_with("ecdh")).count();
    (2 * keys.len() - exchanges + CIPHERS.len() * sizes(rows).len()) as u32
}

fn located() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(PROGRAM)).find(|file| file.is_file())
}

fn run(program: &Path, words: &[&str], cpu: u16, seconds: Duration) -> Result<String, HostFact> {
    let unusable = |error: &dyn Display| {
        let remedy = "`openssl version` must run, and TMPDIR name a folder with room";
        unmeasured(format_args!("`openssl` cannot be run: {error}"), Some(remedy))
    };
    let file = nameless().map_err(|error| unusable(&error))?;
    let output = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let words = words.iter().map(OsString::from);
    let words: Vec<OsString> = [program.into()].into_iter().chain(words).collect();
    let longest = seconds * PATIENCE + Duration::from_secs(30);
    let said = GuardedChild::run(&words, &[cpu], Path::new("/"), &output, longest);
    said.map_err(|error| unusable(&error))
}

/// A file without a name, which goes however we end.
fn nameless() -> io::Result<File> {
    let path = env::temp_dir().join(format!("lariat-lab-{}-openssl", process::id()));
    let file = File::create_new(&path)?;
    fs::remove_file(path)?;
    Ok(file)
}

/// `OpenSSL 3.0.19 27 Jan 2026 (Library: …)`: name and version.
fn library(said: &str) -> String {
    let words: Vec<_> = said.split_whitespace().take(2).collect();
    words.join(" ")
}

fn speed(library: &str, operation: &str, name: &str, size: Option<u32>, per_s: f64) -> Speed {
    Speed {
        library: library.to_owned(),
        operation: operation.to_owned(),
        algorithm: name.to_owned(),
        size_bytes: size,
        per_s,
    }
}

/// `+F2:2:2048:3904.1:61745.5` is RSA, `+F4:3:256:…` ECDSA, `+F5:22:253:32117.2:0.00003` ECDH,
/// `+F6:0:253:Ed25519:…` EdDSA; each with operations a second.
fn of_keys(said: &str, library: &str) -> Vec<Speed> {
    let rows = said.lines().flat_map(|line| {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
        let (signs, verifies, agrees) = match (fields[0], fields.get(2)) {
            ("+F2" | "+F4", _) => (number(3), number(4), None),
            ("+F6", _) => (number(4), number(5), None),
            ("+F5", _) => (None, None, number(3)),
            _ => (None, None, None),
        };
        let name = name(fields[0], fields.get(2).copied().unwrap_or_default());
        let operations = [("sign", signs), ("verify", verifies), ("agree", agrees)];
        operations.into_iter().filter_map(move |(operation, per_s)| {
            let per_s: f64 = per_s?;
            Some((operation, name.clone()?, per_s))
        })
    });
    rows.filter(|(_, _, per_s)| per_s.is_finite() && *per_s > 0.0)
        .map(|(operation, name, per_s)| speed(library, operation, &name, None, per_s))
        .collect()
}

fn name(kind: &str, bits: &str) -> Option<String> {
    match (kind, bits) {
        ("+F2", bits) => Some(format!("RSA {bits}")),
        ("+F4" | "+F5", "256" | "384") => Some(format!("P-{bits}")),
        ("+F5", "253") => Some("X25519".to_owned()),
        ("+F6", "253") => Some("Ed25519".to_owned()),
        _ => None,
    }
}

/// `+F:25:AES-128-GCM:4467900250.51`, bytes a second.
fn of_cipher(said: &str, size_bytes: u32) -> Option<f64> {
    let line = said.lines().find(|line| line.starts_with("+F:"))?;
    let bytes_per_s: f64 = line.trim().rsplit(':').next()?.parse().ok()?;
    let is_number = bytes_per_s.is_finite() && bytes_per_s > 0.0;
    is_number.then(|| bytes_per_s / f64::from(size_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "+DTP:2048:private:rsa:1\n\
        +R1:3904:2048:1.00\n\
        +F2:2:2048:3904.081633:61745.454545\n\
        +F4:3:256:51033.333333:17032.323232\n\
        +F5:22:253:32117.171717:0.000031\n\
        +F6:0:253:Ed25519:27633.333333:9827.272727\n";

    #[test]
    fn keys_are_read() {
        let rows: Vec<_> = of_keys(SAID, "OpenSSL 3")
            .into_iter()
            .map(|row| (row.operation, row.algorithm, row.per_s.round()))
            .collect();
        let row =
            |operation: &str, name: &str, per_s| (operation.to_owned(), name.to_owned(), per_s);
        assert_eq!(
            rows,
            [
                row("sign", "RSA 2048", 3904.0),
                row("verify", "RSA 2048", 61745.0),
                row("sign", "P-256", 51033.0),
                row("verify", "P-256", 17032.0),
                row("agree", "X25519", 32117.0),
                row("sign", "Ed25519", 27633.0),
                row("verify", "Ed25519", 9827.0),
            ]
        );
    }

    #[test]
    fn what_is_no_row_is_none() {
        assert!(
            of_keys("speed: Unknown algorithm rsa2048\n\n+F2\n+F2:2:x:inf:-1\n", "x").is_empty()
        );
        assert_eq!(of_cipher("+H:64\n", 64), None);
        assert_eq!(of_cipher("+F:25:AES-128-GCM:nan\n", 64), None);
    }

    #[test]
    fn bytes_become_operations() {
        let said = "+DT:AES-128-GCM:1:64\n+H:64\n+F:25:AES-128-GCM:640000.00\n";
        assert_eq!(of_cipher(said, 64), Some(10_000.0));
    }

    #[test]
    fn rows_are_counted() {
        assert_eq!(row_count(SpeedRows::Quick), 3 * 2 + 1 + 3);
        assert_eq!(row_count(SpeedRows::Full), 6 * 2 + 2 + 9);
    }
}
