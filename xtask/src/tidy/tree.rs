//! The files of the work tree, read once.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::masked::Masked;

/// All that the rules look at.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) manifests: Vec<Text>,
    pub(super) data: Vec<Text>,
    pub(super) pages: Vec<Text>,
    pub(super) sources: Vec<Source>,
    /// Every path, files and directories, that a link may name.
    pub(super) paths: Vec<String>,
}

/// A file and its path from the root, with slashes.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) path: String,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) masked: Masked,
}

const SKIPPED: &[&str] = &[".git", "artifacts", "corpus", "target"];

impl Tree {
    /// Reads the tree below `root`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.enter(root, "")?;
        Ok(tree)
    }

    fn enter(&mut self, directory: &Path, above: &str) -> Result<()> {
        let place = || directory.display().to_string();
        let mut entries: Vec<_> = fs::read_dir(directory)
            .and_then(Iterator::collect)
            .with_context(place)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let path = if above.is_empty() {
                name
            } else {
                format!("{above}/{name}")
            };
            self.paths.push(path.clone());
            if entry.file_type()?.is_dir() {
                self.enter(&entry.path(), &path)?;
            } else {
                self.add(&entry.path(), path)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, file: &Path, path: String) -> Result<()> {
        let read = || fs::read_to_string(file).with_context(|| file.display().to_string());
        if path.ends_with(".rs") {
            let text = read()?;
            let masked = Masked::new(&text);
            self.sources.push(Source { path, text, masked });
            return Ok(());
        }
        let texts = match path.rsplit_once('.') {
            Some((_, "toml")) if path.ends_with("Cargo.toml") => &mut self.manifests,
            Some((_, "toml")) => &mut self.data,
            Some((_, "md")) => &mut self.pages,
            _ => return Ok(()),
        };
        let text = read()?;
        texts.push(Text { path, text });
        Ok(())
    }
}

impl Source {
    /// The folder of its package, `crates/shared/wire` or `tests`; empty if it is in none.
    pub(super) fn package(&self) -> &str {
        let depth = if self.path.starts_with("crates/") {
            3
        } else {
            1
        };
        let end = self
            .path
            .match_indices('/')
            .nth(depth - 1)
            .map_or(0, |(at, _)| at);
        &self.path[..end]
    }

    /// Whether all of it is tests.
    pub(super) fn is_test(&self) -> bool {
        let package = self.package();
        let within = self.path.get(package.len() + 1..).unwrap_or_default();
        within.starts_with("tests/") || within.starts_with("suite/")
    }
}
