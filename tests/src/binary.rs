//! The programs under test: built anew, or those that the environment names.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Returns the program that the variable names, or the one beside the tests, built anew: it belongs
/// to another package, which cargo does not build for ours.
pub(crate) fn find(variable: &str, name: &str) -> PathBuf {
    env::var_os(variable).map_or_else(|| build(name), PathBuf::from)
}

fn build(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("cargo puts tests into target/PROFILE/deps");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--workspace", "--bin", name]);
    cargo.arg("--target-dir").arg(profile.parent().expect("target"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let built = cargo.status().expect("cargo runs");
    assert!(built.success(), "{name} does not build");
    profile.join(name)
}
