//! RFC requirements on a server whose client breaks the rules: which alert is sent, and that one is
//! sent at all.
//!
//! Each case names its rule.

mod handshake;
mod hello;
mod traffic;

use telemetry::outcome::Reason;
use testkit::client::ClientChoice;

use crate::simulation::{Run, Stage};

/// Decodes hexadecimal digits; spaces are ignored.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
    let byte = |pair: &[u32]| (pair[0] << 4 | pair[1]) as u8;
    digits.chunks_exact(2).map(byte).collect()
}

/// A connection whose client sends chosen bytes.
struct Talk {
    run: Run,
    heard: Vec<u8>,
}

impl Talk {
    fn new(stage: &Stage, seed: u64) -> Self {
        Self::with(stage, &stage.choice(true, &[]), seed)
    }

    fn with(stage: &Stage, choice: &ClientChoice, seed: u64) -> Self {
        Self { run: Run::new(stage, choice, seed, Vec::new()), heard: Vec::new() }
    }

    /// Sends bytes of the client, cut randomly, and collects the answer.
    fn say(&mut self, bytes: &[u8]) {
        self.run.to_flow.extend(bytes);
        while !self.run.to_flow.is_empty() && !self.run.flow.is_over() {
            self.run.client_to_flow();
            self.run.act();
            self.run.flow_to_backend();
            self.listen();
        }
    }

    fn listen(&mut self) {
        while !self.run.flow.front_pending().is_empty() {
            self.run.flow_to_client();
        }
        self.heard.extend(self.run.from_flow.drain(..));
    }

    /// Returns all bytes that the server has sent.
    fn heard(&self) -> &[u8] {
        &self.heard
    }

    /// Returns the fatal alert at the end of the answer, if it is not encrypted.
    fn plain_alert(&self) -> Option<u8> {
        match self.heard.last_chunk() {
            Some(&[21, 3, 3, 0, 2, 2, description]) => Some(description),
            _ => None,
        }
    }

    fn reason(&self) -> Option<Reason> {
        self.run.reason()
    }

    fn detail(&self) -> &str {
        let ending = self.run.flow.ending();
        ending.and_then(|ending| ending.detail.as_deref()).unwrap_or_default()
    }
}
