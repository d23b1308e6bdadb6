//! Every file in `examples/` means something, without a warning.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::io;
use std::path::{Path, PathBuf};

use config::{Files, Source};

/// Any file below `certs/` is there; `certs/more/` is a directory.
struct AllCertificates;

impl Files for AllCertificates {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        let path = path.to_string_lossy();
        match () {
            () if path.ends_with('/') => Err(io::ErrorKind::IsADirectory.into()),
            () if path.ends_with(".ocsp") => Err(io::ErrorKind::NotFound.into()),
            () if path.ends_with("/cluster.key") => Ok(vec![7; 32]),
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
        let source = Source::File {
            place: path.display().to_string(),
            text: std::fs::read_to_string(&path).unwrap(),
        };
        match config::load(&source, &mut AllCertificates) {
            Ok(loaded) => assert_eq!(loaded.warnings, [], "{}", path.display()),
            Err(diagnostics) => panic!("{}", diagnostics[0]),
        }
    }
    assert!(seen >= 8);
}
