//! The program `chromium`, without a screen.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::directory::Directory;

use crate::program::{Running, run};

/// Loads a page, lets its scripts run for `budget_ms` of virtual time, and returns the document.
///
/// Certificates are not checked, because the browser cannot be given trusted roots for one call.
pub fn dump_page(url: &str, budget_ms: u32) -> String {
    let profile = Directory::new();
    let mut command = dumping(url, budget_ms, &profile);
    run(command.arg("--ignore-certificate-errors")).success()
}

/// Reports whether [`draw`] keeps pictures, in the folder that `PICTURES` names.
pub fn keeps_pictures() -> bool {
    env::var_os("PICTURES").is_some()
}

/// Draws a page in a light window of 1280 times 900 pixels, as a picture of that name for the docs;
/// returns its bytes as PNG.
pub fn draw(url: &str, name: &str) -> Vec<u8> {
    let profile = Directory::new();
    let picture = profile.join("picture.png");
    let mut command = command(url, 3000, &profile);
    command
        .args(["--hide-scrollbars", "--window-size=1280,900"])
        .arg("--blink-settings=preferredColorScheme=1")
        .arg(format!("--screenshot={}", picture.display()));
    run(&mut command).success();
    let bytes = fs::read(&picture).expect("a picture");
    if let Some(folder) = env::var_os("PICTURES") {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let to = root.join(folder).join(format!("{name}.png"));
        fs::write(&to, &bytes).unwrap_or_else(|error| panic!("{}: {error}", to.display()));
    }
    bytes
}

/// Checks that a picture has the size of its window, and more on it than an empty page, which takes
/// 6 kB as PNG.
pub fn assert_drawn(png: &[u8]) {
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"), "another form: {:?}", png.get(..8));
    let number = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"));
    assert_eq!([number(16), number(20)], [1280, 900]);
    assert!(png.len() > 30_000, "an empty page: {} bytes", png.len());
}

/// Returns the number in `data-value` of the element with this id.
pub fn value(page: &str, id: &str) -> f64 {
    let at = page.find(&format!(" id=\"{id}\""));
    let tag = &page[at.unwrap_or_else(|| panic!("no element {id}"))..];
    let (tag, _) = tag.split_once('>').expect("an end of the tag");
    let (_, text) = tag.split_once("data-value=\"").expect("a value");
    let (text, _) = text.split_once('"').expect("an end of the value");
    text.parse().expect("a number")
}

/// A browser that loads a page as [`dump_page`] does, beside the test; killed on drop.
#[derive(Debug)]
pub struct Browser {
    running: Running,
    _profile: Directory,
}

impl Browser {
    /// Starts a browser that accepts the certificate whose public key has this SHA-256 (in base64).
    pub fn start(url: &str, budget_ms: u32, key_hash: &str) -> Self {
        let profile = Directory::new();
        let mut command = dumping(url, budget_ms, &profile);
        command.arg(format!("--ignore-certificate-errors-spki-list={key_hash}"));
        Self { running: Running::start(&mut command), _profile: profile }
    }

    pub fn running(&mut self) -> &mut Running {
        &mut self.running
    }

    pub fn document(mut self) -> String {
        assert!(self.running.wait().success());
        self.running.stdout()
    }
}

/// Makes a command that prints the document.
fn dumping(url: &str, budget_ms: u32, profile: &Directory) -> Command {
    let mut command = command(url, budget_ms, profile);
    command.arg("--dump-dom");
    command
}

/// Makes a command without a browser's own activities. Flags may follow the URL.
fn command(url: &str, budget_ms: u32, profile: &Directory) -> Command {
    let mut command = Command::new("chromium");
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--disable-quic", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--virtual-time-budget={budget_ms}"))
        .arg(url);
    command
}
