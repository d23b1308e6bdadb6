//! Every file in `examples/` is valid, without a warning.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::io;
use std::path::{Path, PathBuf};

use config::{Files, TypedConfiguration};

/// Files of which any below `certs/` exists; `certs/more/` is a directory.
struct AllCertificates;

impl Files for AllCertificates {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let path = path.to_string_lossy();
        match () {
            () if path.ends_with('/') => Err(io::ErrorKind::IsADirectory.into()),
            () if path.ends_with(".ocsp") => Err(io::ErrorKind::NotFound.into()),
            () if path.ends_with("/cluster.key") => Ok((0x80..0xa0).collect()),
            () if path.contains("/certs/") => Ok(b"PEM".to_vec()),
            () => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn list(&mut self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![directory.join("a.pem")])
    }

    fn cpus(&mut self) -> Vec<u16> {
        vec![0, 1]
    }
}

#[test]
fn every_example_is_good() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        seen += 1;
        assert_good(&path, std::fs::read_to_string(&path).unwrap());
    }
    assert!(seen >= 8);
}

fn assert_good(path: &Path, text: String) {
    let place = path.display().to_string();
    match config::load(&TypedConfiguration::of_text(place, text), &mut AllCertificates) {
        Ok(loaded) => assert_eq!(loaded.warnings, [], "{}", path.display()),
        Err(diagnostics) => panic!("{}", diagnostics[0]),
    }
}

/// Returns the parts of a file between these lines, without the indentation of the first.
fn parts(path: &Path, begin: &str, end: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap();
    let parts = text.split(begin).skip(1).map(|rest| {
        let part = rest.split(end).next().unwrap();
        let indent = part.len() - part.trim_start_matches(' ').len();
        part.lines().map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n").collect()
    });
    parts.collect()
}

#[test]
fn configurations_within_guides_and_manifests_are_good() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for (path, begin, end, count) in [
        ("docs/guide/moving.md", "```toml\n", "```", 2),
        ("docs/guide/starttls.md", "```toml\n[[service]]\nname = \"postgres\"", "```", 1),
        ("examples/kubernetes/lariat.yaml", "lariat.toml: |\n", "---", 1),
    ] {
        let path = root.join(path);
        let parts = parts(&path, begin, end);
        assert_eq!(parts.len(), count, "{}", path.display());
        for part in parts {
            let part = if path.ends_with("starttls.md") {
                format!("[[service]]\nname = \"postgres\"{part}")
            } else {
                part
            };
            assert_good(&path, part);
        }
    }
}
