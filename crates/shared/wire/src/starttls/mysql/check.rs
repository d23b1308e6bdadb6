//! A health check of a server: the greeting, and a login as an unknown user.
//!
//! A connection that is closed before its login counts against `max_connect_errors` of the server
//! (100 by default; table `host_cache`), which then blocks the host. A refused login does not.
//! Therefore a check logs in as [`USER`] with an empty password, and a server that does not know
//! the user is up. To keep these refusals out of the server's log, create the user without rights.

use super::packet::{
    COUNTED_ANSWER, ERROR, Greeting, LoginRefusal, OK, PLUGIN, PROTOCOL_41, PacketPeer,
    REQUEST_BYTES, SWITCH, TLS, error,
};

/// User of a check.
const USER: &[u8] = b"lariat";

const QUIT: &[u8] = &[1];

/// utf8mb4_general_ci, which all servers know.
const CHARACTER_SET: u8 = 45;

/// Login errors that mean that no client is served: too many connections, shutdown, host blocked,
/// host not allowed, TLS required.
const DOWN: [u16; 5] = [1040, 1053, 1129, 1130, 3159];

#[derive(Debug, Eq, PartialEq)]
pub enum CheckStep {
    More,
    Send(Vec<u8>),
    /// Send this in plaintext, and make a TLS handshake.
    StartTls(Vec<u8>),
    /// The server is up: send this, and close.
    Up(Vec<u8>),
    /// The server is down: its error, or the reason.
    Down(String),
}

/// A check of one server.
pub struct Check {
    server: PacketPeer,
    is_tls: bool,
    stage: CheckStage,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum CheckStage {
    Greeting,
    Tls,
    Login,
}

impl Check {
    /// Creates the state of a new connection; TLS is started if wanted.
    pub fn new(is_tls: bool) -> Self {
        Self { server: PacketPeer::default(), is_tls, stage: CheckStage::Greeting }
    }

    /// Takes bytes of the server.
    pub fn from_server(&mut self, bytes: &[u8]) -> CheckStep {
        let received = self.server.receive(bytes);
        let payload = received.and_then(|()| self.server.take());
        match (payload, self.stage) {
            (Ok(None), _) => CheckStep::More,
            (Err(_), _) | (_, CheckStage::Tls) => down(&LoginRefusal::ServerPacket),
            (Ok(Some(payload)), CheckStage::Greeting) => self.greeted(payload),
            (Ok(Some(payload)), CheckStage::Login) => self.answered(&payload),
        }
    }

    /// Continues after the handshake. Returns the bytes to send.
    pub fn tls_up(&mut self) -> Vec<u8> {
        self.log_in()
    }

    fn greeted(&mut self, payload: Vec<u8>) -> CheckStep {
        let message = error(&payload);
        match Greeting::parse(payload) {
            Err(refusal) => {
                message.map_or_else(|| down(&refusal), |(_, words)| CheckStep::Down(words))
            }
            Ok(greeting) if self.is_tls && !greeting.offers_tls() => {
                down(&LoginRefusal::ServerWithoutTls)
            }
            Ok(_) if self.is_tls => {
                self.stage = CheckStage::Tls;
                CheckStep::StartTls(self.packet(&request(true)))
            }
            Ok(_) => CheckStep::Send(self.log_in()),
        }
    }

    fn log_in(&mut self) -> Vec<u8> {
        self.stage = CheckStage::Login;
        // User, the length of an empty answer, plugin.
        let mut payload = request(self.is_tls);
        payload.extend_from_slice(USER);
        payload.extend_from_slice(b"\0\0mysql_native_password\0");
        self.packet(&payload)
    }

    fn answered(&mut self, payload: &[u8]) -> CheckStep {
        match payload.first() {
            Some(&SWITCH) => CheckStep::Send(self.packet(&[])),
            Some(&ERROR) => match error(payload) {
                Some((number, words)) if DOWN.contains(&number) => CheckStep::Down(words),
                Some(_) => CheckStep::Up(Vec::new()),
                None => down(&LoginRefusal::ServerPacket),
            },
            Some(&OK) => {
                self.server = PacketPeer::default();
                CheckStep::Up(self.packet(QUIT))
            }
            // A further step of the authentication.
            Some(_) => CheckStep::Up(Vec::new()),
            None => down(&LoginRefusal::ServerPacket),
        }
    }

    fn packet(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.server.put(payload, &mut out);
        out
    }
}

/// Makes the beginning of a login, which alone is a request for TLS.
pub(super) fn request(is_tls: bool) -> Vec<u8> {
    let tls = if is_tls { TLS } else { 0 };
    let capabilities = PROTOCOL_41 | COUNTED_ANSWER | PLUGIN | tls;
    let mut payload = capabilities.to_le_bytes().to_vec();
    payload.extend_from_slice(&(1_u32 << 24).to_le_bytes());
    payload.push(CHARACTER_SET);
    payload.resize(REQUEST_BYTES, 0);
    payload
}

fn down(refusal: &LoginRefusal) -> CheckStep {
    CheckStep::Down(refusal.fault().to_string())
}
