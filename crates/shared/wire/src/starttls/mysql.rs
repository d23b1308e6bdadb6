//! MySQL and MariaDB: TLS begins after the server's greeting, when the client asks for it.
//!
//! Handles all packets until the server has accepted or refused the login: the offer of TLS in the
//! greeting, the client's request, sequence numbers, and the passwords of plugins that send them
//! differently with and without TLS. Nothing after the login differs, so that it is relayed.
//!
//! If one side has TLS and the other has none:
//! - a request for TLS that only one side sees shifts the sequence numbers of all later packets;
//! - `caching_sha2_password` and `sha256_password` send the password as it is under TLS, and
//!   without TLS encrypted for the server's RSA key (RSA-OAEP, after an exclusive or with the
//!   scramble). A server without TLS is asked for its key; but only `caching_sha2_password` regards
//!   a Unix socket as secure. A client without TLS that asks for the server's key gets ours.
//!
//! A later `COM_CHANGE_USER` begins at sequence number 0 and passes; only a full authentication by
//! those plugins, for a user that the server does not remember, cannot succeed there if only one
//! side has TLS.
//!
//! Sources: MySQL Internals, "Connection Phase" and "Authentication Method"; MariaDB Knowledge
//! Base, "Connection".

mod check;
mod packet;

use packet::{
    ERROR, Greeting, Login, LoginRefusal, MORE_DATA, NEXT_FACTOR, OK, PacketPeer, SWITCH,
};

pub use check::{Check, CheckStep};

use super::step::{DialogAction, Output, PasswordTask, Policy, StarttlsSides, Steps};

/// `caching_sha2_password`: the server remembers the user, and accepts the login next.
const REMEMBERED: &[u8] = &[MORE_DATA, 3];
/// `caching_sha2_password`: the server needs the password itself.
const PASSWORD_WANTED: &[u8] = &[MORE_DATA, 4];

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum LoginStage {
    #[default]
    Greeting,
    /// Waits for the client's request for TLS or its login.
    Request,
    /// Handshake with the client.
    ClientTls,
    /// Waits for the client's login, under TLS.
    Login,
    /// Handshake with the server; the login is held.
    ServerTls,
    Exchange(LoginTurn),
    /// Waits for the result of a task.
    Password(PasswordPath),
    Over,
}

/// Sender of the next packet. The server may send more at any time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LoginTurn {
    Client,
    /// The client's packet will be encrypted for our key.
    ClientEncrypts,
    Server,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum PasswordPath {
    ToServer,
    /// The password is mixed with the scramble.
    MixedToServer,
    ToClient,
}

/// A plugin whose passwords differ with TLS.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Plugin {
    CachingSha2,
    Sha256,
    #[default]
    Other,
}

impl Plugin {
    fn of(name: &[u8]) -> Self {
        match name {
            b"caching_sha2_password" => Self::CachingSha2,
            b"sha256_password" => Self::Sha256,
            _ => Self::Other,
        }
    }

    /// Returns the one-byte packet by which a client asks for the server's key.
    fn key_request(self) -> u8 {
        match self {
            Self::Sha256 => 1,
            Self::CachingSha2 | Self::Other => 2,
        }
    }
}

#[derive(Default)]
pub(super) struct Mysql {
    sides: StarttlsSides,
    /// Whether there is no client to wait for: the server is asked for TLS at once.
    is_alone: bool,
    is_server_local: bool,
    client: PacketPeer,
    server: PacketPeer,
    stage: LoginStage,
    is_greeted: bool,
    is_client_tls: bool,
    has_factors: bool,
    plugin: Plugin,
    scramble: Vec<u8>,
    /// Whether the client's next packet is its password, or a request for the key.
    is_password_due: bool,
    /// Login of the client, held during the server's handshake.
    login: Vec<u8>,
    /// Password, while the server's key is awaited.
    password: Option<Vec<u8>>,
    /// Last error packet; empty = there was none.
    refusal: Vec<u8>,
}

impl Mysql {
    /// Creates the state of a connection whose server has not greeted yet.
    pub(super) fn new(sides: StarttlsSides) -> Self {
        Self { sides, ..Self::default() }
    }

    /// Creates a dialog without a client.
    pub(super) fn asking(sides: StarttlsSides) -> Self {
        Self { is_alone: true, ..Self::new(sides) }
    }

    /// Continues as far as the received packets allow.
    fn advance(&mut self, before: Result<(), LoginRefusal>, out: &mut Output) {
        let mut step = before.map(|()| true);
        while matches!(step, Ok(true)) && out.goes_on() {
            step = self.step(out);
        }
        if let Err(refusal) = step {
            self.refusal = refusal.packet(self.is_greeted);
            // If the server's TLS is a part of the dial, another server may greet the client.
            if self.is_greeted || !self.sides.back {
                self.client.put(&self.refusal, &mut out.to_client);
            }
            out.fail(refusal.fault(), b"");
            self.stage = LoginStage::Over;
        }
        if out.next == DialogAction::Relay {
            out.to_client.extend(self.server.rest());
            out.to_server.extend(self.client.rest());
            self.stage = LoginStage::Over;
        }
    }

    /// Takes a packet; `false` if none that may come now is here.
    fn step(&mut self, out: &mut Output) -> Result<bool, LoginRefusal> {
        let (takes_server, takes_client) = match self.stage {
            LoginStage::Greeting | LoginStage::Exchange(LoginTurn::Server) => (true, false),
            LoginStage::Request | LoginStage::Login | LoginStage::Exchange(_) => (true, true),
            LoginStage::ClientTls
            | LoginStage::ServerTls
            | LoginStage::Password(_)
            | LoginStage::Over => (false, false),
        };
        if takes_server
            && let Some(payload) = self.server.take().map_err(LoginRefusal::of_server)?
        {
            self.server_said(payload, out)?;
            return Ok(true);
        }
        if takes_client
            && let Some(payload) = self.client.take().map_err(LoginRefusal::of_client)?
        {
            self.client_said(payload, out)?;
            return Ok(true);
        }
        Ok(false)
    }

    fn server_said(&mut self, payload: Vec<u8>, out: &mut Output) -> Result<(), LoginRefusal> {
        match self.stage {
            LoginStage::Greeting => self.greet(payload, out),
            LoginStage::Exchange(_) => {
                self.server_authenticates(payload, out);
                Ok(())
            }
            // Before the login only an error may come: the server gave up waiting. Its TLS has not
            // begun then, so that nothing more can be relayed.
            _ if payload.first() == Some(&ERROR) && self.sides.back => {
                Err(LoginRefusal::ServerRefused(payload))
            }
            _ if payload.first() == Some(&ERROR) => {
                self.client.put(&payload, &mut out.to_client);
                out.next = DialogAction::Relay;
                Ok(())
            }
            _ => Err(LoginRefusal::ServerPacket),
        }
    }

    fn client_said(&mut self, payload: Vec<u8>, out: &mut Output) -> Result<(), LoginRefusal> {
        match self.stage {
            LoginStage::Request => self.client_opens(payload, out),
            LoginStage::Login => self.client_logs_in(payload, out),
            _ => {
                self.client_authenticates(payload, out);
                Ok(())
            }
        }
    }

    fn greet(&mut self, payload: Vec<u8>, out: &mut Output) -> Result<(), LoginRefusal> {
        let greeting = Greeting::parse(payload)?;
        if self.sides.back && !greeting.offers_tls() {
            return Err(LoginRefusal::ServerWithoutTls);
        }
        if self.is_alone {
            return self.ask_for_tls(&check::request(true), out);
        }
        self.scramble.clone_from(&greeting.scramble);
        let payload = greeting.offering_tls(self.sides.front.is_some());
        self.client.put(&payload, &mut out.to_client);
        self.is_greeted = true;
        self.stage = LoginStage::Request;
        Ok(())
    }

    fn client_opens(&mut self, payload: Vec<u8>, out: &mut Output) -> Result<(), LoginRefusal> {
        let is_request = packet::capabilities(&payload).map(|bits| bits & packet::TLS != 0);
        match self.sides.front {
            Some(_) if is_request == Ok(true) => {
                if payload.len() != packet::REQUEST_BYTES {
                    return Err(LoginRefusal::ClientPacket);
                }
                self.stage = LoginStage::ClientTls;
                // Only here does the client not wait for an answer before it sends its hello.
                out.next = DialogAction::ClientTlsBegun(self.client.rest());
                Ok(())
            }
            Some(Policy::Required) => Err(is_request.err().unwrap_or(LoginRefusal::PlainClient)),
            Some(Policy::Optional) if !self.sides.back => {
                self.server.put(&payload, &mut out.to_server);
                out.next = DialogAction::Relay;
                Ok(())
            }
            // TLS was not offered.
            None if is_request? => Err(LoginRefusal::ClientPacket),
            Some(Policy::Optional) | None => self.client_logs_in(payload, out),
        }
    }

    fn client_logs_in(&mut self, payload: Vec<u8>, out: &mut Output) -> Result<(), LoginRefusal> {
        let login = Login::parse(&payload)?;
        self.plugin = Plugin::of(&login.plugin);
        self.has_factors = login.capabilities & packet::FACTORS != 0;
        let mut payload = packet::with_tls(payload, self.sides.back);
        // The login itself may contain the password that `sha256_password` would otherwise ask for.
        if self.plugin == Plugin::Sha256 {
            let key_request = self.plugin.key_request();
            if self.encrypts_for_server() && self.is_password(&login.answer) {
                payload = login.with_answer(&payload, key_request);
                self.password = Some(login.answer);
            } else if self.decrypts_for_server() && login.answer == [key_request] {
                return Err(LoginRefusal::Password);
            }
        }
        if !self.sides.back {
            self.send_login(&payload, out);
            return Ok(());
        }
        // Servers keep the capabilities of the request, not those of the login.
        self.ask_for_tls(&payload[..packet::REQUEST_BYTES], out)?;
        self.login = payload;
        Ok(())
    }

    fn ask_for_tls(&mut self, request: &[u8], out: &mut Output) -> Result<(), LoginRefusal> {
        if !self.server.rest().is_empty() {
            return Err(LoginRefusal::ServerPacket);
        }
        self.server.put(request, &mut out.to_server);
        self.stage = LoginStage::ServerTls;
        out.next = DialogAction::StartServerTls;
        Ok(())
    }

    fn send_login(&mut self, login: &[u8], out: &mut Output) {
        self.server.put(login, &mut out.to_server);
        self.stage = LoginStage::Exchange(LoginTurn::Server);
        // Both have TLS: all that follows is equal on both sides.
        if self.is_client_tls && self.sides.back {
            out.next = DialogAction::Relay;
        }
    }

    fn server_authenticates(&mut self, payload: Vec<u8>, out: &mut Output) {
        let password = self.password.take();
        self.is_password_due = false;
        let mut turn = LoginTurn::Client;
        match payload.first() {
            Some(&(OK | ERROR)) => out.next = DialogAction::Relay,
            Some(&SWITCH) => self.switch_plugin(&payload),
            Some(&NEXT_FACTOR) if self.has_factors => self.switch_plugin(&payload),
            Some(&MORE_DATA) => match password {
                Some(password) => return self.encrypt(&payload[1..], password, out),
                None if self.plugin == Plugin::CachingSha2 && payload == REMEMBERED => {
                    turn = LoginTurn::Server;
                }
                None => {
                    let is_wanted = payload == PASSWORD_WANTED;
                    self.is_password_due = self.plugin == Plugin::CachingSha2 && is_wanted;
                }
            },
            _ => {}
        }
        self.client.put(&payload, &mut out.to_client);
        self.stage = LoginStage::Exchange(turn);
    }

    /// Reads the plugin of either kind of packet, and its first data, here a scramble with a NUL.
    fn switch_plugin(&mut self, payload: &[u8]) {
        let mut cursor = crate::cursor::Cursor::new(&payload[1..]);
        self.plugin = Plugin::of(packet::last_text(&mut cursor));
        self.is_password_due = self.plugin == Plugin::Sha256;
        if self.plugin != Plugin::Other {
            let data = cursor.rest();
            self.scramble = data.strip_suffix(&[0]).unwrap_or(data).to_vec();
        }
    }

    fn client_authenticates(&mut self, payload: Vec<u8>, out: &mut Output) {
        let is_password_due = std::mem::take(&mut self.is_password_due);
        let turn = self.stage;
        self.stage = LoginStage::Exchange(LoginTurn::Server);
        if turn == LoginStage::Exchange(LoginTurn::ClientEncrypts) {
            self.start(PasswordTask::Decrypt(payload), PasswordPath::MixedToServer, out);
        } else if is_password_due && self.encrypts_for_server() && self.is_password(&payload) {
            let request = [self.plugin.key_request()];
            self.server.put(&request, &mut out.to_server);
            self.password = Some(payload);
        } else if is_password_due
            && self.decrypts_for_server()
            && payload == [self.plugin.key_request()]
        {
            self.start(PasswordTask::OwnKey, PasswordPath::ToClient, out);
        } else {
            self.server.put(&payload, &mut out.to_server);
        }
    }

    /// Reports whether only the client has TLS, so that it sends passwords unencrypted.
    fn encrypts_for_server(&self) -> bool {
        let is_secure = self.is_server_local && self.plugin == Plugin::CachingSha2;
        self.is_client_tls && !self.sides.back && !is_secure
    }

    /// Reports whether only the server has TLS, so that it expects passwords unencrypted.
    fn decrypts_for_server(&self) -> bool {
        !self.is_client_tls && self.sides.back
    }

    /// Reports whether the answer is neither a request for the key nor an empty password.
    fn is_password(&self, answer: &[u8]) -> bool {
        !matches!(answer, [] | [0]) && answer != [self.plugin.key_request()]
    }

    fn encrypt(&mut self, key: &[u8], mut password: Vec<u8>, out: &mut Output) {
        mix(&mut password, &self.scramble);
        let key = key.to_vec();
        let task = PasswordTask::Encrypt { key, password };
        self.start(task, PasswordPath::ToServer, out);
    }

    fn start(&mut self, task: PasswordTask, answer: PasswordPath, out: &mut Output) {
        self.stage = LoginStage::Password(answer);
        out.next = DialogAction::Password(task);
    }

    fn send_result(&mut self, mut bytes: Vec<u8>, out: &mut Output) {
        let LoginStage::Password(answer) = self.stage else {
            unreachable!("the task was given");
        };
        let turn = match answer {
            PasswordPath::ToClient => {
                bytes.insert(0, MORE_DATA);
                self.client.put(&bytes, &mut out.to_client);
                LoginTurn::ClientEncrypts
            }
            PasswordPath::MixedToServer | PasswordPath::ToServer => {
                if answer == PasswordPath::MixedToServer {
                    mix(&mut bytes, &self.scramble);
                }
                self.server.put(&bytes, &mut out.to_server);
                LoginTurn::Server
            }
        };
        self.stage = LoginStage::Exchange(turn);
    }
}

impl Steps for Mysql {
    fn client_sent(&mut self, bytes: &[u8], out: &mut Output) {
        let received = self.client.receive(bytes).map_err(LoginRefusal::of_client);
        self.advance(received, out);
    }

    fn server_sent(&mut self, bytes: &[u8], out: &mut Output) {
        let received = self.server.receive(bytes).map_err(LoginRefusal::of_server);
        self.advance(received, out);
    }

    fn client_tls_up(&mut self, _: &mut Output) {
        self.is_client_tls = true;
        self.stage = LoginStage::Login;
    }

    fn server_tls_up(&mut self, out: &mut Output) {
        let login = std::mem::take(&mut self.login);
        self.send_login(&login, out);
        self.advance(Ok(()), out);
    }

    fn password_done(&mut self, result: Option<Vec<u8>>, out: &mut Output) {
        let result = result.ok_or(LoginRefusal::Password);
        let done = result.map(|bytes| self.send_result(bytes, out));
        self.advance(done, out);
    }

    fn server_is_local(&mut self, is_local: bool) {
        self.is_server_local = is_local;
    }

    fn server_connected(&mut self, out: &mut Output) {
        self.server = PacketPeer::default();
        // The client answers the greeting of the previous server.
        let goes_on = if self.is_greeted {
            Err(LoginRefusal::ServerLost)
        } else {
            self.stage = LoginStage::Greeting;
            Ok(())
        };
        self.advance(goes_on, out);
    }

    fn server_ended(&mut self) -> Vec<u8> {
        let is_of_client = !self.sides.back || matches!(self.stage, LoginStage::Exchange(_));
        let held = if is_of_client { self.server.rest() } else { Vec::new() };
        self.client.renumbered(held)
    }

    fn unavailable(&self) -> Vec<u8> {
        let mut words = Vec::new();
        if self.refusal.is_empty() {
            let packet = packet::error_packet(packet::NO_SERVER, self.is_greeted);
            self.client.write(&packet, &mut words);
        } else {
            self.client.write(&self.refusal, &mut words);
        }
        words
    }

    fn expects_server(&self) -> bool {
        matches!(self.stage, LoginStage::Greeting | LoginStage::Exchange(LoginTurn::Server))
    }

    fn is_holding(&self) -> bool {
        self.expects_server() && (self.password.is_some() || self.client.has_packet())
    }

    fn is_login_due(&self) -> bool {
        self.stage == LoginStage::Login
    }
}

/// Combines with the scramble by exclusive or, repeated (`xor_string` of MySQL), so that encrypted
/// bytes cannot be replayed to a server with another scramble.
fn mix(password: &mut [u8], scramble: &[u8]) {
    for (byte, scramble) in password.iter_mut().zip(scramble.iter().cycle()) {
        *byte ^= scramble;
    }
}
