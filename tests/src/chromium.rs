//! The program `chromium`, without a screen.

use std::process::Command;

use testkit::directory::Directory;

use crate::program::run;

/// Loads a page, lets its scripts run for `budget_ms` of virtual time, and returns the document.
///
/// Certificates are not checked: the browser has no list of trusted roots for one call.
///
/// # Panics
/// If the browser fails.
#[must_use]
pub fn dump_page(url: &str, budget_ms: u32) -> String {
    let profile = Directory::new();
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--ignore-certificate-errors",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--virtual-time-budget={budget_ms}"))
        .args(["--dump-dom", url]);
    run(&mut command).success()
}
