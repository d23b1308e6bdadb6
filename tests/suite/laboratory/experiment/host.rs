//! `lariat-lab host`: describes the host that it runs on, to people and to programs.

use suite::lab::command;
use suite::prelude::*;

fn host(words: &str) -> Command {
    let mut command = command();
    command.arg("host").args(words.split_whitespace());
    command
}

fn said(words: &str) -> Finished {
    run(&mut host(words))
}

fn document(finished: &Finished) -> Value {
    serde_json::from_str(&finished.stdout).unwrap()
}

/// Returns the names in a list of the document.
fn names(document: &Value, list: &str) -> Vec<String> {
    let entries = document[list].as_array().unwrap().iter();
    entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns `operation algorithm size` of each row of a library whose name begins so.
fn rows(document: &Value, library: &str) -> Vec<String> {
    let rows = document["speeds"].as_array().unwrap().iter();
    rows.filter(|row| row["library"].as_str().unwrap().starts_with(library))
        .map(|row| {
            assert!(row["per_s"].as_f64().unwrap() > 0.0, "{row}");
            let size = row["size_bytes"].as_u64().map(|size| format!(" {size}"));
            let word = |key: &str| row[key].as_str().unwrap();
            let size = size.unwrap_or_default();
            format!("{} {}{size}", word("operation"), word("algorithm"))
        })
        .collect()
}

#[test]
fn text_fits_a_terminal_and_has_every_part() {
    let finished = said("--speeds none");
    assert!(finished.status.success(), "{finished:?}");
    assert_eq!(finished.stderr, "");
    for part in ["CPUs\n", "Kernel\n", "Surroundings\n", "Limits\n"] {
        assert!(finished.stdout.contains(part), "{part}{}", finished.stdout);
    }
    let longest = finished.stdout.lines().map(|line| line.chars().count());
    assert!(longest.max().unwrap() <= 80, "{}", finished.stdout);
    assert!(!finished.stdout.contains("Operations a second"));
}

#[test]
fn what_the_kernel_can_do_is_told_with_the_reason() {
    let document = document(&said("--speeds none --json"));
    let abilities = names(&document, "abilities");
    assert_eq!(abilities.first().unwrap(), "kTLS");
    assert_eq!(abilities.last().unwrap(), "io_uring");
    for ability in document["abilities"].as_array().unwrap() {
        assert!(!ability["why"].as_str().unwrap().is_empty(), "{ability}");
    }
    let cores = document["cores"].as_array().unwrap();
    assert_eq!(cores.len() as u64, document["host"]["cpus"].as_u64().unwrap());
}

#[test]
fn our_library_and_the_systems_do_the_same() {
    let finished = said("--speeds quick --seconds 0.01 --json");
    finished.assert_stderr("Measuring");
    let document = document(&finished);
    let (ours, theirs) = (rows(&document, "aws-lc-rs "), rows(&document, "OpenSSL "));
    assert_eq!(ours.len(), 11, "{ours:?}");
    assert!(theirs.iter().all(|row| ours.contains(row)), "{theirs:?}");
    for row in ["sign P-256", "agree X25519", "seal ChaCha20-Poly1305 16384"] {
        assert!(theirs.iter().any(|known| known == row), "{row} {theirs:?}");
    }
}

#[test]
fn without_openssl_our_own_library_is_measured() {
    let folder = Directory::new();
    let mut command = host("--seconds 0.01 --json");
    let document = document(&run(command.env("PATH", folder.path())));
    assert_eq!(rows(&document, "aws-lc-rs ").len(), 11);
    assert!(rows(&document, "OpenSSL").is_empty());
    let surroundings = document["surroundings"].as_array().unwrap();
    let said = surroundings.iter().find(|fact| fact["name"] == "system's OpenSSL");
    let said = said.unwrap();
    assert!(said["value"].as_str().unwrap().contains("no program `openssl`"));
    assert!(said["remedy"].as_str().unwrap().contains("install openssl"));
}

#[test]
fn an_openssl_that_says_nonsense_fails_no_report() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Directory::new();
    let program = folder.join("openssl");
    fs::write(&program, "#!/bin/sh\necho 'Quantum 9'; exit 3\n").unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let finished = run(host("--seconds 0.01 --json").env("PATH", path));
    assert!(finished.status.success(), "{finished:?}");
    assert!(finished.stdout.contains("said nothing that we know: Quantum 9"), "{finished:?}");
}

#[test]
fn slips_are_refused_before_anything_is_measured() {
    for (words, remedy) in [
        ("--speeds fast", "possible values: none, quick, full"),
        ("--seconds 0", "for example: 3"),
        ("--speeds none --seconds 1", "leave one of them out"),
        ("--jsno", "a similar argument exists: '--json'"),
        ("eth0", "unexpected argument 'eth0'"),
    ] {
        let finished = said(words);
        assert_eq!(finished.status.code(), Some(2), "{words}: {finished:?}");
        assert!(finished.stderr.contains(remedy), "{words}: {finished:?}");
        assert_eq!(finished.stdout, "");
    }
}
