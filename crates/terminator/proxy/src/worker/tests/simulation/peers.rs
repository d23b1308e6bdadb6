//! Clients and servers of a schedule: each holds the other end of a real socket, and remembers what
//! it has sent and received.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use sys::socket;
use testkit::client::Client;
use testkit::tls_server::TlsServer;

use super::host::{FrontKind, SERVERS, SERVICES, ServerKind, SimulatedHost};

/// The other end of a socket.
#[derive(Default)]
pub(super) struct PeerEnd {
    fd: Option<OwnedFd>,
    pub(super) out: Vec<u8>,
    pub(super) is_ended: bool,
    pub(super) is_reset: bool,
    is_broken: bool,
    pub(super) has_shut: bool,
}

impl PeerEnd {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd: Some(fd), ..Self::default() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.fd.is_some()
    }

    /// Reports whether something may still come.
    pub(super) fn is_readable(&self) -> bool {
        self.is_open() && !self.is_ended && !self.is_reset
    }

    /// Sends at most `most` bytes; returns how many.
    pub(super) fn write(&mut self, most: usize) -> usize {
        let count = self.out.len().min(most);
        let Some(fd) = self.fd.as_ref().filter(|_| count > 0 && !self.has_shut) else {
            return 0;
        };
        match socket::write(fd, &self.out[..count]) {
            Ok(written) => {
                self.out.drain(..written);
                written
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(_) => {
                // Nobody reads it any more, and the error is reported once.
                self.is_broken = true;
                self.out.clear();
                0
            }
        }
    }

    /// Receives at most `most` bytes.
    pub(super) fn read(&mut self, most: usize, room: &mut Vec<u8>) {
        room.clear();
        let Some(fd) = self.fd.as_ref().filter(|_| self.is_readable()) else {
            return;
        };
        room.resize(most.clamp(1, 1 << 16), 0);
        let read = socket::read(fd, room);
        room.truncate(*read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) if self.is_broken => self.is_reset = true,
            Ok(0) => self.is_ended = true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.is_reset = true,
        }
    }

    pub(super) fn shut(&mut self) {
        if let Some(fd) = self.fd.as_ref().filter(|_| !self.has_shut) {
            self.has_shut = true;
            // The socket may have been reset.
            let _ = socket::shutdown_write(fd);
        }
    }

    pub(super) fn close(&mut self) {
        self.fd = None;
    }

    pub(super) fn reset(&mut self) {
        if let Some(fd) = self.fd.take() {
            // A Unix socket resets only if bytes are unread.
            let _ = socket::reset_on_close(&fd);
        }
    }
}

/// Returns the byte of a stream at a place. The first byte names the stream.
fn byte(stream: u8, at: usize) -> u8 {
    if at == 0 {
        stream
    } else {
        (at.wrapping_mul(131) + (at >> 8) * 7 + usize::from(stream) * 17) as u8
    }
}

pub(super) fn stretch(stream: u8, from: usize, count: usize) -> impl Iterator<Item = u8> {
    (from..from + count).map(move |at| byte(stream, at))
}

/// Base of the first byte of a stream of clients or servers; their number is added.
const CLIENT: u8 = 0xc0;
const SERVER: u8 = 0xa0;

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

/// First bytes of a client with a PROXY header.
pub(super) const HEADER: &[u8] = b"PROXY TCP4 192.0.2.1 192.0.2.2 1000 443\r\n";

const SMTP_ASKED: &[u8] = b"EHLO x\r\n";
const SMTP_WITHIN: &[u8] = b"EHLO y\r\nMAIL FROM:<>\r\n";
const SMTP_ANSWER: &[u8] = b"250 mx\r\n";

enum ScriptedSpeech {
    Plain,
    Tls(Box<Client>),
    /// SMTP up to TLS: the part of the line that has come, and the step reached.
    Smtp(Vec<u8>, usize),
}

pub(super) struct SimulatedClient {
    pub(super) service: usize,
    number: u8,
    pub(super) end: PeerEnd,
    speech: ScriptedSpeech,
    tls: usize,
    /// Bytes that the client has sent, of those that it will send.
    pub(super) said: usize,
    pub(super) total: usize,
    pub(super) got: Vec<u8>,
    pub(super) fault: Option<String>,
    /// Whether the client has ended its stream as its protocol does, or by a FIN alone.
    pub(super) has_closed: bool,
    pub(super) has_truncated: bool,
    /// Whether the client neither reads nor sends any more.
    pub(super) is_dumb: bool,
    /// Whether the client did something that breaks a connection.
    pub(super) is_faulty: bool,
    pub(super) ends_first: bool,
    pub(super) was_established: bool,
    pub(super) is_odd: bool,
}

impl SimulatedClient {
    pub(super) fn new(
        host: &SimulatedHost,
        (service, number): (usize, u8),
        fd: OwnedFd,
        mut total: usize,
        tls: usize,
    ) -> Self {
        let kind = &SERVICES[service];
        let mut end = PeerEnd::new(fd);
        if kind.is_files {
            // The request is all that it sends.
            total = 0;
        }
        if kind.takes_header {
            end.out.extend_from_slice(HEADER);
        }
        let speech = match kind.front {
            FrontKind::Plain => ScriptedSpeech::Plain,
            FrontKind::Passthrough => {
                end.out.extend_from_slice(&host.hello);
                ScriptedSpeech::Plain
            }
            FrontKind::Terminate => {
                let choice = if kind.is_fetched {
                    host.with_foreign_session()
                } else {
                    host.choices[tls].clone()
                };
                let mut client = choice.connect("localhost");
                if kind.is_files {
                    client.send(REQUEST);
                }
                end.out.extend(client.take_wire());
                ScriptedSpeech::Tls(Box::new(client))
            }
            FrontKind::Smtp => ScriptedSpeech::Smtp(Vec::new(), 0),
        };
        Self {
            service,
            number,
            end,
            speech,
            tls,
            said: 0,
            total,
            got: Vec::new(),
            fault: None,
            has_closed: false,
            has_truncated: false,
            is_dumb: false,
            is_faulty: false,
            ends_first: false,
            was_established: false,
            is_odd: false,
        }
    }

    pub(super) fn tag(number: usize) -> u8 {
        CLIENT + number as u8
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.speech, ScriptedSpeech::Tls(_) | ScriptedSpeech::Smtp(..))
    }

    /// Returns the bytes that the server is to get before the client's own.
    pub(super) fn beginning(&self, host: &SimulatedHost) -> Vec<u8> {
        match SERVICES[self.service].front {
            FrontKind::Passthrough => host.hello.clone(),
            FrontKind::Smtp => [SMTP_ASKED, SMTP_WITHIN].concat(),
            FrontKind::Plain | FrontKind::Terminate => Vec::new(),
        }
    }

    /// Adds bytes to be sent.
    pub(super) fn say(&mut self, count: usize) {
        let count = count.min(self.total - self.said);
        // The dialog holds little of what is sent ahead.
        let is_asked =
            SERVICES[self.service].front != FrontKind::Smtp || self.smtp_answered().is_some();
        if self.end.has_shut || self.has_closed || count == 0 || !is_asked {
            return;
        }
        let bytes = stretch(self.number, self.said, count);
        match &mut self.speech {
            ScriptedSpeech::Plain => self.end.out.extend(bytes),
            ScriptedSpeech::Tls(tls) => {
                tls.send(&bytes.collect::<Vec<u8>>());
                self.end.out.extend(tls.take_wire());
            }
            ScriptedSpeech::Smtp(..) => return,
        }
        self.said += count;
    }

    pub(super) fn read(&mut self, host: &SimulatedHost, most: usize, room: &mut Vec<u8>) -> usize {
        self.end.read(most, room);
        if room.is_empty() {
            return 0;
        }
        match &mut self.speech {
            ScriptedSpeech::Plain => self.got.extend_from_slice(room),
            ScriptedSpeech::Tls(tls) => {
                if self.fault.is_none() {
                    self.fault = tls.receive(room, &mut self.got).err();
                }
                let is_new = tls.is_established() && !self.was_established;
                self.was_established |= is_new;
                if is_new && self.is_odd && SERVICES[self.service].front == FrontKind::Smtp {
                    // The client asks once more, in one packet with new keys.
                    if self.tls == 1 {
                        tls.update_keys().expect("TLS 1.3");
                    }
                    tls.send(b"STARTTLS\r\n");
                }
                if is_new && SERVICES[self.service].front == FrontKind::Smtp {
                    tls.send(SMTP_WITHIN);
                }
                self.end.out.extend(tls.take_wire());
            }
            ScriptedSpeech::Smtp(lines, step) => {
                lines.extend_from_slice(room);
                let (expected, answer): (&[u8], &[u8]) = match step {
                    0 => (b"\r\n", SMTP_ASKED),
                    1 => (b"250 STARTTLS\r\n", b"STARTTLS\r\n"),
                    _ => (b"start TLS\r\n", b""),
                };
                if lines.ends_with(expected) {
                    lines.clear();
                    self.end.out.extend_from_slice(answer);
                    *step += 1;
                    if *step == 3 {
                        let mut client = host.choices[self.tls].connect("localhost");
                        self.end.out.extend(client.take_wire());
                        self.speech = ScriptedSpeech::Tls(Box::new(client));
                    }
                }
            }
        }
        room.len()
    }

    /// Returns the bytes that came from the server.
    pub(super) fn got_of_server(&self) -> &[u8] {
        if SERVICES[self.service].front == FrontKind::Smtp {
            return self.smtp_answered().unwrap_or(&[]);
        }
        &self.got
    }

    /// Returns the bytes behind the answer to the request under TLS.
    fn smtp_answered(&self) -> Option<&[u8]> {
        let mut got = &self.got[..];
        if self.is_odd {
            let line = got.windows(2).position(|end| end == b"\r\n")?;
            got = got[line + 2..].as_ref();
        }
        got.strip_prefix(SMTP_ANSWER)
    }

    /// Changes the client's keys, as TLS 1.3 can at any time.
    pub(super) fn update_keys(&mut self) {
        if let ScriptedSpeech::Tls(tls) = &mut self.speech
            && self.tls == 1
            && tls.is_established()
            && !self.has_closed
            && tls.update_keys().is_ok()
        {
            self.end.out.extend(tls.take_wire());
        }
    }

    /// Ends the client's stream by close_notify, where it has one.
    pub(super) fn close_notify(&mut self) {
        if let ScriptedSpeech::Tls(tls) = &mut self.speech
            && tls.is_established()
            && !self.has_closed
        {
            tls.close();
            self.end.out.extend(tls.take_wire());
            self.has_closed = true;
        }
    }

    /// Ends the client's stream as its protocol does, once all has been sent.
    pub(super) fn finish(&mut self) -> bool {
        if self.end.has_shut || !self.end.is_open() {
            return false;
        }
        self.close_notify();
        if !self.end.out.is_empty() {
            return false;
        }
        self.has_closed |= matches!(self.speech, ScriptedSpeech::Plain);
        self.end.shut();
        true
    }

    /// Shuts the sending side down at once; unsent bytes are lost.
    pub(super) fn fin(&mut self) {
        if !self.end.has_shut && self.end.is_open() {
            let unsent = self.end.out.len();
            let is_whole = unsent <= self.said && matches!(self.speech, ScriptedSpeech::Plain);
            if is_whole {
                self.said -= unsent;
            }
            self.has_truncated |= !is_whole && (!self.has_closed || unsent > 0);
            self.has_closed |= is_whole;
            self.is_faulty |= !is_whole;
            self.end.out.clear();
            self.end.shut();
        }
    }

    /// Reports whether the server's close_notify has come.
    pub(super) fn is_closed_by_server(&mut self) -> bool {
        match &mut self.speech {
            ScriptedSpeech::Tls(tls) => self.fault.is_none() && tls.is_closed_by_server(),
            ScriptedSpeech::Plain | ScriptedSpeech::Smtp(..) => false,
        }
    }
}

pub(super) struct SimulatedServer {
    pub(super) at: usize,
    number: u8,
    pub(super) end: PeerEnd,
    tls: Option<TlsServer>,
    request: Vec<u8>,
    pub(super) said: usize,
    pub(super) total: usize,
    pub(super) got: Vec<u8>,
    pub(super) fault: Option<String>,
    pub(super) is_closed_by_client: bool,
    pub(super) has_closed: bool,
    pub(super) is_dumb: bool,
    pub(super) is_faulty: bool,
    pub(super) ends_first: bool,
}

impl SimulatedServer {
    pub(super) fn new(
        host: &SimulatedHost,
        (at, kind): (usize, ServerKind),
        number: usize,
        fd: OwnedFd,
    ) -> Self {
        let mut end = PeerEnd::new(fd);
        if matches!(kind, ServerKind::Smtp | ServerKind::SmtpTls) {
            end.out.extend_from_slice(b"220 mx\r\n");
        }
        Self {
            at,
            number: SERVER + number as u8,
            end,
            tls: (kind == ServerKind::Tls).then(|| host.server_tls.accept()),
            request: Vec::new(),
            said: 0,
            total: 0,
            got: Vec::new(),
            fault: None,
            is_closed_by_client: false,
            has_closed: false,
            is_dumb: false,
            is_faulty: false,
            ends_first: false,
        }
    }

    pub(super) fn number_of(tag: u8) -> usize {
        usize::from(tag.wrapping_sub(SERVER))
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    fn is_smtp(&self) -> bool {
        matches!(SERVERS[self.at], ServerKind::Smtp | ServerKind::SmtpTls)
    }

    fn send(&mut self, bytes: &[u8]) {
        match &mut self.tls {
            Some(tls) => {
                tls.send(bytes);
                self.end.out.extend(tls.take_wire());
            }
            None => self.end.out.extend_from_slice(bytes),
        }
    }

    /// Takes the lines that ask for TLS.
    fn hear_request(&mut self, host: &SimulatedHost, bytes: &[u8]) {
        self.request.extend_from_slice(bytes);
        if !self.request.ends_with(b"\r\n") {
            return;
        }
        if self.request.starts_with(b"EHLO") {
            self.end.out.extend_from_slice(b"250-mx\r\n250 STARTTLS\r\n");
        } else {
            self.end.out.extend_from_slice(b"220 go\r\n");
            self.tls = Some(host.server_tls.accept());
        }
        self.request.clear();
    }

    /// Reports whether the server's own bytes may begin.
    pub(super) fn may_say(&self) -> bool {
        !self.is_smtp() || self.got.starts_with(&[SMTP_ASKED, SMTP_WITHIN].concat())
    }

    pub(super) fn say(&mut self, count: usize) {
        let count = count.min(self.total - self.said);
        let may_say = !self.end.has_shut && !self.has_closed && self.may_say();
        if count == 0 || !may_say {
            return;
        }
        let bytes = stretch(self.number, self.said, count);
        match &mut self.tls {
            Some(tls) => {
                tls.send(&bytes.collect::<Vec<u8>>());
                self.end.out.extend(tls.take_wire());
            }
            None => self.end.out.extend(bytes),
        }
        self.said += count;
    }

    pub(super) fn read(&mut self, host: &SimulatedHost, most: usize, room: &mut Vec<u8>) -> usize {
        self.end.read(most, room);
        if room.is_empty() {
            return 0;
        }
        let before = self.got.len();
        match &mut self.tls {
            Some(tls) => {
                if self.fault.is_none() {
                    self.fault = tls.hear(room, &mut self.got).err();
                }
                self.end.out.extend(tls.take_wire());
                self.is_closed_by_client |= self.fault.is_none() && tls.is_closed_by_client();
            }
            None if SERVERS[self.at] == ServerKind::SmtpTls => self.hear_request(host, room),
            None => self.got.extend_from_slice(room),
        }
        // Each of the two greetings is answered.
        for end in [1, 2].map(|count| count * SMTP_ASKED.len()) {
            if self.is_smtp() && before < end && self.got.len() >= end {
                self.send(SMTP_ANSWER);
            }
        }
        room.len()
    }

    pub(super) fn update_keys(&mut self) {
        if let Some(tls) = self.tls.as_mut()
            && !tls.is_handshaking()
            && !self.has_closed
        {
            tls.change_keys();
            self.end.out.extend(tls.take_wire());
        }
    }

    /// Ends the server's stream, once all has been sent; with `close_notify` where it speaks TLS.
    pub(super) fn finish(&mut self) -> bool {
        if self.end.has_shut || !self.end.is_open() {
            return false;
        }
        if let Some(tls) = self.tls.as_mut() {
            if tls.is_handshaking() {
                return false;
            }
            tls.close();
            self.end.out.extend(tls.take_wire());
        }
        self.has_closed = true;
        if !self.end.out.is_empty() {
            return false;
        }
        self.end.shut();
        true
    }

    /// Shuts the sending side down at once.
    pub(super) fn fin(&mut self) {
        if !self.end.has_shut && self.end.is_open() {
            let unsent = self.end.out.len();
            if self.tls.is_none() && unsent <= self.said {
                self.said -= unsent;
                self.has_closed = true;
            }
            self.end.out.clear();
            self.is_faulty = true;
            self.end.shut();
        }
    }
}

pub(super) fn smtp_beginning() -> Vec<u8> {
    [SMTP_ASKED, SMTP_WITHIN].concat()
}
