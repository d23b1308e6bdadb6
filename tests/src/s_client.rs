//! A connection of `openssl s_client` that changes keys in the middle of much data.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{ChildStdin, ExitStatus, Stdio};

use crate::openssl::s_client_command;
use crate::patience::{until, until_true};
use crate::program::Running;
use crate::site::Site;

/// A connection of `openssl s_client` that obeys its commands: `K` and `k` change keys, `Q` ends.
#[derive(Debug)]
pub struct Session {
    running: Running,
    input: ChildStdin,
    key_updates: usize,
}

impl Session {
    pub fn start(site: &Site, address: SocketAddr, arguments: &[&str]) -> Self {
        let mut command = s_client_command(site, address, arguments);
        // Quiet, so that only what the server sends is on its output; that alone would have it
        // take commands for data.
        command.args(["-quiet", "-no_ign_eof"]);
        let mut running = Running::start_with(&mut command, Stdio::piped());
        let input = running.take_input();
        Self { running, input: input.expect("it was piped"), key_updates: 0 }
    }

    /// Sends this, in one piece and therefore not taken for a command.
    pub fn send(&mut self, words: &str) {
        assert!(!words.starts_with(['B', 'K', 'Q', 'R', 'k']), "{words}");
        self.write(words);
    }

    /// Changes its keys, and has the server change its own if `both`. Returns when it has sent the
    /// KeyUpdate.
    pub fn change_keys(&mut self, both: bool) {
        self.write(if both { "K\n" } else { "k\n" });
        self.key_updates += 1;
        let wanted = self.key_updates;
        until_true("openssl to change its keys", || {
            let has_ended = self.running.ended().is_some();
            let said = self.running.stderr();
            let count = said.matches("KEYUPDATE").count();
            assert!(count == wanted || !has_ended, "{said}");
            count == wanted
        });
    }

    /// Asks for a renegotiation (TLS 1.2).
    pub fn renegotiate(&mut self) {
        self.write("R\n");
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

    pub fn quit(mut self) -> (ExitStatus, String) {
        self.write("Q\n");
        self.wait()
    }

    /// Waits for its end: how it ended, and what it had to say.
    pub fn wait(mut self) -> (ExitStatus, String) {
        (self.running.wait(), self.running.stderr())
    }

    fn write(&mut self, words: &str) {
        let written = self.input.write_all(words.as_bytes());
        written.unwrap_or_else(|error| panic!("{error}: {}", self.running.stderr()));
    }
}
