//! Each `bad/NAME.toml` gets exactly the diagnostics in `bad/NAME.txt`.
//!
//! `BLESS=1` in the environment rewrites the expected diagnostics, to be read in the diff.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::path::{Path, PathBuf};

use config::{Diagnostic, Recording, TypedConfiguration};

/// Files that those in `bad/` include, each with errors of its own.
const INCLUDED: [(&str, &str); 3] = [
    ("conf.d/a.toml", "include = \"b.toml\"\n[log]\nconnections = \"all\"\n"),
    ("conf.d/b.toml", "\n[[service]]\nname = \"b\"\nfront.lisen = 1\n"),
    ("conf.d/broken.toml", "[[service]\n"),
];

/// Returns the files that those in `bad/` may name.
fn files() -> Recording {
    let mut files = Recording::default();
    for name in ["site.pem", "site.key", "certs/a.pem"] {
        files.insert(name, b"PEM".to_vec());
    }
    files.insert("token", vec![b't'; 16]);
    files.insert("cluster.key", (0x80..0xa0).collect());
    let list = (0..30).map(|number| format!("10.0.0.0/{}\n", 20 + number));
    let list = format!("\u{feff}# two\n\n::1 # host\n{}so \"odd\"\n", list.collect::<String>());
    files.insert("deny.txt", list.into_bytes());
    files.insert_list("empty/", Vec::new());
    files.insert_list("certs/", vec!["certs/a.pem".into()]);
    for (name, text) in INCLUDED {
        files.insert(name, text.as_bytes().to_vec());
    }
    files.insert_list("conf.d", INCLUDED.map(|(name, _)| name.into()).to_vec());
    files
}

fn answer(path: &Path) -> String {
    let (mut files, name) = (files(), Path::new(path.file_name().unwrap()));
    files.insert(name, std::fs::read(path).unwrap());
    let loaded =
        TypedConfiguration::read(name, &mut files).and_then(|one| config::load(&one, &mut files));
    let diagnostics = match loaded {
        Ok(loaded) => loaded.warnings,
        Err(diagnostics) => diagnostics,
    };
    let texts: Vec<_> = diagnostics.iter().map(Diagnostic::to_string).collect();
    texts.join("\n\n") + "\n"
}

fn bad_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let entries = std::fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect()
}

#[test]
fn every_bad_file_gets_its_answer() {
    let paths = bad_files();
    assert!(paths.len() >= 12);
    for path in paths {
        let (answer, golden) = (answer(&path), path.with_extension("txt"));
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&golden, &answer).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap();
        assert_eq!(answer, expected, "{}", path.display());
    }
}
