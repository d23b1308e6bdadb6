//! The program `openssl`.

use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};

use testkit::server::free_address;

use crate::patience::{until, until_true};
use crate::program::{Finished, Running, run};
use crate::site::Site;

/// Makes one handshake with `address` as `localhost`, sends nothing, and closes.
pub fn s_client(site: &Site, address: SocketAddr, arguments: &[&str]) -> Finished {
    run(&mut s_client_command(site, address, arguments))
}

/// Makes one handshake with `address` as `localhost`, sends what is in a file, and closes.
pub fn s_client_sending(
    site: &Site,
    address: SocketAddr,
    arguments: &[&str],
    path: &Path,
) -> Running {
    let mut command = s_client_command(site, address, arguments);
    let file = File::open(path).expect("the test's own file");
    Running::start_with(command.arg("-nocommands"), file.into())
}

/// A connection of `openssl s_client` that the test tells line by line what to send.
#[derive(Debug)]
pub struct Talk {
    running: Running,
    input: Option<ChildStdin>,
}

impl Talk {
    /// Makes a handshake with `address` as `localhost`.
    pub fn start(site: &Site, address: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = s_client_command(site, address, arguments);
        let mut running = Running::start_with(&mut command, Stdio::piped());
        let input = running.take_input();
        Self { running, input }
    }

    /// Sends a line; some of one letter are commands: `R` renegotiates.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().expect("not yet ended");
        // In one write, because the program sends each piece as it reads it.
        let line = format!("{line}\n");
        input.write_all(line.as_bytes()).expect("the program runs");
    }

    /// Waits until the program has printed `words` `count` times.
    pub fn wait_for(&self, words: &str, count: usize) {
        until_true(&format!("{words:?} {count} times"), || {
            self.running.stdout().matches(words).count() >= count
        });
    }

    /// Updates the client's key, or asks for both. The program drops input that stands behind a
    /// command, so the function returns only after it has taken the command.
    pub fn update_keys(&mut self, wants_reply: bool) {
        let taken = |talk: &Self| talk.running.stderr().matches("KEYUPDATE").count();
        let before = taken(self);
        self.say(if wants_reply { "K" } else { "k" });
        until_true("the update", || taken(self) > before);
    }

    /// Makes a handshake; the program's output is only what the server sends.
    pub fn start_quiet(site: &Site, address: SocketAddr, arguments: &[&str]) -> Self {
        // `-quiet` alone would make it take commands for data.
        Self::start(site, address, &[arguments, &["-quiet", "-no_ign_eof"]].concat())
    }

    /// Sends words in one piece, so that they are not taken for a command.
    pub fn send(&mut self, words: &str) {
        assert!(!words.starts_with(['B', 'K', 'Q', 'R', 'k']), "{words}");
        let input = self.input.as_mut().expect("not yet ended");
        let written = input.write_all(words.as_bytes());
        written.unwrap_or_else(|error| panic!("{error}: {}", self.running.stderr()));
    }

    /// Waits until the server has sent that many bytes in all, and returns them.
    pub fn wait_for_bytes(&mut self, count: usize) -> Vec<u8> {
        let received = until(&format!("{count} bytes at openssl"), || {
            let has_ended = self.running.ended().is_some();
            let length = self.running.stdout_length();
            let said = self.running.stderr();
            assert!(length >= count || !has_ended, "{length} of {count} bytes: {said}");
            (length >= count).then(|| self.running.stdout_bytes())
        });
        assert_eq!(received.len(), count, "more than was asked for");
        received
    }

    /// Tells the client to quit, and waits for its end.
    pub fn quit(mut self) -> Finished {
        self.say("Q");
        self.wait()
    }

    /// Waits for the end that the server makes.
    pub fn wait(mut self) -> Finished {
        Finished {
            status: self.running.wait(),
            stdout: String::new(),
            stderr: self.running.stderr(),
        }
    }

    /// Ends its input, and waits for its end.
    pub fn end(mut self) -> Finished {
        self.input = None;
        Finished {
            status: self.running.wait(),
            stdout: self.running.stdout(),
            stderr: self.running.stderr(),
        }
    }
}

/// A running `openssl s_server`: by default it prints what comes and sends what the test says.
#[derive(Debug)]
pub struct SServer {
    pub address: SocketAddr,
    running: Running,
    input: ChildStdin,
}

impl SServer {
    /// Starts it with the site's file of this name, chain and key.
    pub fn start(site: &Site, certificate: &str, arguments: &[&str]) -> Self {
        Self::start_at(free_address(), site, certificate, arguments)
    }

    /// Starts it at an address.
    pub fn start_at(
        address: SocketAddr,
        site: &Site,
        certificate: &str,
        arguments: &[&str],
    ) -> Self {
        let path = site.path(certificate);
        let mut command = Command::new("openssl");
        command
            .args(["s_server", "-accept", &address.to_string(), "-cert"])
            .arg(&path)
            .arg("-cert_chain")
            .arg(&path)
            .args(arguments);
        let mut running = Running::start_with(&mut command, Stdio::piped());
        until_true("openssl to listen", || {
            running.assert_running();
            running.stdout().contains("ACCEPT")
        });
        let input = running.take_input().expect("it was piped");
        Self { address, running, input }
    }

    /// Sends a line; some of one letter are commands: `r` renegotiates, `K` changes keys.
    pub fn say(&mut self, line: &str) {
        let line = format!("{line}\n");
        self.input.write_all(line.as_bytes()).expect("it runs");
    }

    pub fn said(&self) -> String {
        self.running.stdout() + &self.running.stderr()
    }

    pub fn wait_for(&self, words: &str) {
        until_true(&format!("{words:?} of openssl"), || self.said().contains(words));
    }
}

/// Makes the command that connects to `address` as `localhost`, unless arguments name another.
fn s_client_command(site: &Site, address: SocketAddr, arguments: &[&str]) -> Command {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-connect", &address.to_string(), "-CAfile"]).arg(site.ca());
    if !arguments.iter().any(|one| one.ends_with("servername")) {
        command.args(["-servername", "localhost"]);
    }
    command.args(arguments);
    command
}

/// Returns the SHA-256 of the public key in a certificate of the site's, in base64.
pub fn key_hash(site: &Site, certificate: &str) -> String {
    let path = |name: &str| site.path(name).display().to_string();
    let (pem, der, hash) = (path("key.pem"), path("key.der"), path("key.sha256"));
    let openssl = |words: &[&str]| run(Command::new("openssl").args(words)).success();
    let key = openssl(&["x509", "-noout", "-pubkey", "-in", &path(certificate)]);
    fs::write(&pem, key).expect("the site's own directory");
    openssl(&["pkey", "-pubin", "-in", &pem, "-outform", "DER", "-out", &der]);
    openssl(&["dgst", "-sha256", "-binary", "-out", &hash, &der]);
    openssl(&["base64", "-in", &hash]).trim().to_owned()
}

/// Returns the master secret in a file of `-keylogfile` (TLS 1.2).
pub fn master_secret(key_log: &Path) -> Vec<u8> {
    let log = fs::read_to_string(key_log).expect("openssl has written it");
    let line = log.lines().find(|line| line.starts_with("CLIENT_RANDOM "));
    let (_, secret) = line.expect("TLS 1.2").rsplit_once(' ').expect("NAME RANDOM SECRET");
    let secret = bytes_of(secret);
    assert_eq!(secret.len(), 48, "a master secret");
    secret
}

pub fn bytes_of(hexadecimal: &str) -> Vec<u8> {
    let pairs = (0..hexadecimal.len()).step_by(2).map(|at| &hexadecimal[at..at + 2]);
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("digits")).collect()
}

/// Returns the SHA-256 fingerprint of the certificate in a file, as it is printed: with colons.
pub fn fingerprint(path: &Path) -> String {
    let mut openssl = Command::new("openssl");
    let print = ["x509", "-noout", "-fingerprint", "-sha256", "-in"];
    let printed = run(openssl.args(print).arg(path)).success();
    let (_, digits) = printed.trim().split_once('=').expect("NAME=DIGITS");
    digits.to_owned()
}
