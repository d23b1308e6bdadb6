//! The dialog of a line protocol, by its [`ProtocolWords`].
//!
//! One command is given to the server at a time until the dialog is over, so that each reply
//! belongs to that command, and an answer of our own keeps its order. Later commands of the client
//! are held meanwhile.
//!
//! Once both sides have their TLS nothing is rewritten. A server's words before its TLS never reach
//! a client, because anybody on the way may have forged them: the greeting is then our own.

use std::collections::VecDeque;

use super::capabilities::{CapabilityLists, begins, is_word, keyword, last_line};
use super::step::{
    BEGINNING_BYTES, DialogAction, Fault, HANDSHAKE, HostNames, Output, Policy, StarttlsSides,
    Steps, refusal,
};
use super::words::{ProtocolWords, ReplyFraming};
use crate::http::decimal;

/// Longest line, in bytes: RFC 9051 section 4 advises 8,000 octets, SMTP needs 512.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Limit in bytes for lines that wait for a reply, for a reply that is rewritten, and for answers
/// sent at once.
const HELD_BYTES_MAX: usize = 64 << 10;

/// Commands refused for lack of TLS before the connection is closed.
const REFUSALS_MAX: usize = 10;

/// Commands that are passed on for a client that may still ask for TLS, which needs two or three of
/// them: Postfix allows as many that lead to no message (`smtpd_junk_command_limit`).
const COMMANDS_MAX: usize = 100;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LinesPhase {
    /// Our steps before TLS: the server's greeting, its replies to our hello and our request.
    Greeting,
    Hello,
    Request,
    Tls,
    Open,
}

/// Purpose of the server's next reply.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ExpectedReply {
    Greeting,
    Capabilities,
    Other,
}

#[derive(Debug)]
pub(super) struct Lines {
    words: &'static ProtocolWords,
    sides: StarttlsSides,
    /// Name of this host, for the server.
    own_name: String,
    /// Name in a greeting of our own, for the client.
    greeting_name: String,
    phase: LinesPhase,
    has_client_tls: bool,
    /// Received bytes that are not processed yet.
    client: VecDeque<u8>,
    server: VecDeque<u8>,
    expected: Option<ExpectedReply>,
    /// Tag of the command being answered, in protocols with tags.
    tag: Vec<u8>,
    /// Code of the incomplete reply.
    code: Option<Vec<u8>>,
    is_dotted: bool,
    /// Bytes of the reply received so far, if it must be rewritten or judged.
    reply: Vec<u8>,
    /// Bytes of the server before TLS since it was last given a command: endless words are refused,
    /// even if they are passed on.
    said_bytes: usize,
    /// Commands passed on before TLS.
    commands: usize,
    refusals: usize,
    refused: Option<RefusedCommand>,
}

/// A command that is refused once it is complete: literals that the client sends without waiting
/// (RFC 7888) are a part of it, and no commands.
#[derive(Debug)]
struct RefusedCommand {
    answer: &'static str,
    /// Bytes so far, and those of the last literal that have not come yet.
    bytes: usize,
    missing_bytes: usize,
}

impl Lines {
    pub(super) fn new(
        words: &'static ProtocolWords,
        sides: StarttlsSides,
        names: HostNames<'_>,
    ) -> Self {
        let phase = if sides.back { LinesPhase::Greeting } else { LinesPhase::Open };
        Self {
            words,
            sides,
            own_name: names.own.to_owned(),
            greeting_name: names.server.unwrap_or(names.own).to_owned(),
            phase,
            has_client_tls: false,
            client: VecDeque::new(),
            server: VecDeque::new(),
            expected: Some(ExpectedReply::Greeting),
            tag: Vec::new(),
            code: None,
            is_dotted: false,
            reply: Vec::new(),
            said_bytes: 0,
            commands: 0,
            refusals: 0,
            refused: None,
        }
    }

    /// Reports whether the client may still ask for TLS.
    fn is_before_tls(&self) -> bool {
        self.sides.front.is_some() && !self.has_client_tls
    }

    fn must_use_tls(&self) -> bool {
        self.sides.front == Some(Policy::Required) && !self.has_client_tls
    }

    fn lists(&self) -> CapabilityLists {
        CapabilityLists {
            words: self.words,
            is_before_tls: self.is_before_tls(),
            must_use_tls: self.must_use_tls(),
        }
    }

    /// Reports whether the rest may be relayed unchanged, at the price that a client under TLS may
    /// see an offer of TLS by a server that gets plaintext.
    fn may_relay(&self) -> bool {
        let is_lasting = self.sides.front.is_some() && self.words.lasting.is_some();
        self.phase == LinesPhase::Open && !self.is_before_tls() && !is_lasting
    }

    /// Ends the rewriting, and passes on all held bytes.
    fn relay(&mut self, out: &mut Output) {
        out.to_server.extend(std::mem::take(&mut self.client));
        out.to_client.append(&mut self.reply);
        out.to_client.extend(std::mem::take(&mut self.server));
        out.next = DialogAction::Relay;
    }

    /// Continues when TLS has come up on a side.
    fn go_on_under_tls(&mut self, out: &mut Output) {
        if self.sides.back && self.may_relay() {
            self.relay(out);
        } else {
            self.take_commands(out);
        }
    }

    // Client's side.

    fn take_commands(&mut self, out: &mut Output) {
        let (before, mut answered) = (out.to_client.len(), 0);
        while out.goes_on()
            && self.phase == LinesPhase::Open
            && self.expected.is_none()
            && answered <= HELD_BYTES_MAX
        {
            if let Some(refused) = &mut self.refused {
                let there = refused.missing_bytes.min(self.client.len());
                self.client.drain(..there);
                refused.missing_bytes -= there;
            }
            let end = self.client.iter().position(|byte| *byte == b'\n');
            if end.map_or(self.client.len(), |end| end + 1) > LINE_BYTES_MAX {
                return self.exceeded("a line longer than 8 KiB", out);
            }
            let Some(line) = take_line(&mut self.client) else {
                // A ClientHello need not contain the end of a line.
                let is_handshake = self.client.len() >= BEGINNING_BYTES
                    && self.client.iter().take(2).eq(&[HANDSHAKE, 3]);
                if self.is_before_tls() && is_handshake {
                    self.refuse_client(Fault::ClientMalformed("no line"), out);
                }
                return;
            };
            if self.is_before_tls() && has_stray(&line) {
                let fault = Fault::ClientMalformed("a CR or NUL within a line");
                return self.refuse_client(fault, out);
            }
            match self.refused.take() {
                Some(refused) => self.refuse_command(refused, &line, out),
                None => self.command(&line, out),
            }
            answered = out.to_client.len() - before;
        }
        let what = "64 KiB without waiting for an answer";
        if answered > HELD_BYTES_MAX && out.goes_on() {
            self.refuse_client(Fault::ClientMalformed(what), out);
        } else if self.client.len() > HELD_BYTES_MAX && out.goes_on() {
            self.exceeded(what, out);
        }
    }

    /// Handles a client that has sent more than any command looked for: a token for a login has
    /// 12,288 octets (RFC 4954 section 4), a line of IMAP often 64 KiB.
    fn exceeded(&mut self, what: &'static str, out: &mut Output) {
        if self.may_relay() {
            self.relay(out);
        } else {
            self.refuse_client(Fault::ClientMalformed(what), out);
        }
    }

    fn command(&mut self, line: &[u8], out: &mut Output) {
        let words = self.words;
        let mut text = line.trim_ascii();
        if words.framing == ReplyFraming::Tagged {
            let end = text.iter().position(|byte| *byte == b' ');
            let end = end.filter(|end| is_tag(&text[..*end]));
            // One without a tag is answered by an untagged line (RFC 9051 section 7.1.3).
            let (tag, command) = end.map_or((&b"*"[..], &b""[..]), |end| text.split_at(end));
            self.tag = tag.to_vec();
            text = command.trim_ascii_start();
        }
        let command = String::from_utf8_lossy(text).to_ascii_uppercase();
        let is_one_of = |all: &[&str]| all.iter().any(|one| is_command(&command, one));
        // A loose check, because a server may take something similar for a literal.
        let has_literal = words.has_literals() && command.ends_with('}');
        let answer = words.answered.iter().find(|(name, _)| is_command(&command, name));
        if self.sides.front.is_some() && is_one_of(words.start) {
            if words.start.contains(&&*command) {
                self.start_tls(out);
            } else {
                self.refuse(words.has_argument, line, out);
            }
        } else if let (true, Some((_, answer))) = (self.has_client_tls, answer) {
            self.answer(answer, out);
        } else if is_one_of(words.capabilities) && !has_literal {
            self.pass_command(line, ExpectedReply::Capabilities, out);
        } else if is_one_of(words.free) && !has_literal {
            self.pass_command(line, ExpectedReply::Other, out);
        } else if self.must_use_tls() {
            self.refusals += 1;
            let own = words.refused.iter().find(|(name, _)| is_command(&command, name));
            self.refuse(own.map_or(words.refusal, |(_, answer)| answer), line, out);
        } else if let Some(login) = words.lasting
            && !(self.is_before_tls() && is_command(&command, login))
        {
            self.pass_command(line, ExpectedReply::Other, out);
        } else {
            out.to_server.extend_from_slice(line);
            self.relay(out);
        }
    }

    fn refuse(&mut self, answer: &'static str, line: &[u8], out: &mut Output) {
        let refused = RefusedCommand { answer, bytes: 0, missing_bytes: 0 };
        self.refuse_command(refused, line, out);
    }

    /// Answers a command whose next line this is, unless a literal follows. A literal that waits
    /// for a go-ahead is never sent, because the answer comes instead (RFC 9051 section 4.3).
    fn refuse_command(&mut self, mut refused: RefusedCommand, line: &[u8], out: &mut Output) {
        let literal = literal_bytes(line).filter(|_| self.words.has_literals());
        if let Some(bytes) = literal {
            refused.bytes = (refused.bytes + line.len()).saturating_add(bytes);
            refused.missing_bytes = bytes;
            if refused.bytes > HELD_BYTES_MAX {
                let what = "a command of more than 64 KiB before TLS";
                return self.refuse_client(Fault::ClientMalformed(what), out);
            }
            self.refused = Some(refused);
            return;
        }
        self.answer(refused.answer, out);
        if self.refusals > REFUSALS_MAX {
            out.next = DialogAction::Fail(Fault::TlsRequired);
        }
    }

    fn start_tls(&self, out: &mut Output) {
        if self.has_client_tls {
            return self.answer(self.words.again, out);
        }
        if !self.client.is_empty() {
            return self.refuse_client(Fault::Injection(self.client.len()), out);
        }
        self.answer(self.words.go_ahead, out);
        out.next = DialogAction::StartClientTls;
    }

    fn pass_command(&mut self, line: &[u8], expected: ExpectedReply, out: &mut Output) {
        if self.is_before_tls() {
            self.commands += 1;
            if self.commands > COMMANDS_MAX {
                let what = "more than 100 commands before TLS";
                return self.refuse_client(Fault::ClientMalformed(what), out);
            }
        }
        self.expected = Some(expected);
        self.said_bytes = 0;
        out.to_server.extend_from_slice(line);
    }

    fn answer(&self, words: &str, out: &mut Output) {
        if self.words.framing == ReplyFraming::Tagged {
            out.to_client.extend_from_slice(&self.tag);
            out.to_client.push(b' ');
        }
        out.to_client.extend_from_slice(words.as_bytes());
        out.to_client.extend_from_slice(b"\r\n");
    }

    fn refuse_client(&self, fault: Fault, out: &mut Output) {
        let what = match &fault {
            Fault::ClientMalformed(what) => what,
            _ => "more behind its request for TLS",
        };
        let words = self.words.malformed.replace("{}", what) + "\r\n";
        out.fail(fault, words.as_bytes());
    }

    // Server's side.

    fn take_replies(&mut self, out: &mut Output) {
        while out.goes_on() && self.phase != LinesPhase::Tls {
            let Some(line) = take_line(&mut self.server) else {
                break;
            };
            if self.expected == Some(ExpectedReply::Greeting) || self.is_before_tls() {
                self.said_bytes += line.len();
            }
            if let Some(what) = self.malformation(&line) {
                return self.fail_server(what, out);
            }
            let Some(expected) = self.expected else {
                // A reply out of turn, such as the end of a transfer.
                out.to_client.append(&mut self.lists().edited(line));
                continue;
            };
            let is_final = self.is_final(&line, expected);
            let is_list = expected == ExpectedReply::Capabilities
                || expected == ExpectedReply::Greeting && self.words.greets_again;
            let is_collected = is_list && self.words.framing != ReplyFraming::Tagged;
            if self.phase == LinesPhase::Open && !is_collected {
                out.to_client.append(&mut self.lists().edited(line));
            } else {
                self.reply.extend_from_slice(&line);
            }
            if is_final {
                self.expected = None;
                self.code = None;
                self.is_dotted = false;
                let reply = std::mem::take(&mut self.reply);
                self.replied(reply, out);
            }
        }
        let held = self.reply.len().max(self.said_bytes);
        if out.goes_on() && (self.server.len() > LINE_BYTES_MAX || held > HELD_BYTES_MAX) {
            if self.may_relay() {
                return self.relay(out);
            }
            let what = "a line longer than 8 KiB, or a reply longer than 64 KiB";
            self.fail_server(what, out);
        }
    }

    fn fail_server(&self, what: &'static str, out: &mut Output) {
        // Before that phase, another server may greet the client.
        if self.phase == LinesPhase::Open {
            out.to_client.append(&mut self.unavailable());
        }
        out.next = DialogAction::Fail(Fault::ServerMalformed(what));
    }

    /// Returns the reason why this line is malformed here, if it is.
    fn malformation(&self, line: &[u8]) -> Option<&'static str> {
        if self.phase != LinesPhase::Open && has_stray(line) {
            return Some("a CR or NUL within a line");
        }
        let code = self.code.as_ref().filter(|_| self.words.has_one_code)?;
        let is_of_reply =
            line.starts_with(code) && matches!(line.get(3), Some(b' ' | b'-' | b'\r' | b'\n'));
        (!is_of_reply).then_some("a reply whose lines have several codes")
    }

    /// Continues behind a complete reply.
    fn replied(&mut self, reply: Vec<u8>, out: &mut Output) {
        match self.phase {
            LinesPhase::Open => {
                out.to_client.append(&mut self.lists().relisted(&reply));
                self.take_commands(out);
            }
            LinesPhase::Greeting => self.greeted(reply, out),
            LinesPhase::Hello => {
                let mut offered = reply.split(|byte| *byte == b'\n');
                if !reply.starts_with(b"2") {
                    out.next = DialogAction::Fail(refusal(&reply));
                } else if offered
                    .any(|line| is_word(keyword(line, ReplyFraming::Codes), "STARTTLS"))
                {
                    self.request_tls(out);
                } else {
                    out.next = DialogAction::Fail(Fault::ServerWithoutTls(self.words.request.0));
                }
            }
            LinesPhase::Request => {
                let last = last_line(&reply);
                let good = self.words.request.1.as_bytes();
                if begins(last, good) {
                    self.phase = LinesPhase::Tls;
                    out.next = DialogAction::after_consent(self.server.make_contiguous());
                } else {
                    out.next = DialogAction::Fail(refusal(last));
                }
            }
            LinesPhase::Tls => {}
        }
    }

    fn greeted(&mut self, reply: Vec<u8>, out: &mut Output) {
        let last = last_line(&reply);
        let mut good = self.words.greetings.iter();
        if self.words.framing == ReplyFraming::Codes && last.starts_with(b"1") {
            // The server will be ready in a while (RFC 959 section 5.4).
            self.expected = Some(ExpectedReply::Greeting);
        } else if !good.any(|good| begins(last, good.as_bytes())) {
            out.next = DialogAction::Fail(refusal(last));
        } else {
            match self.words.hello {
                None => self.request_tls(out),
                Some(hello) => {
                    self.phase = LinesPhase::Hello;
                    let hello = format!("{hello} {}", self.own_name);
                    self.say(&hello, ExpectedReply::Capabilities, out);
                }
            }
        }
    }

    fn request_tls(&mut self, out: &mut Output) {
        self.phase = LinesPhase::Request;
        self.tag = b"starttls".to_vec();
        self.say(self.words.request.0, ExpectedReply::Other, out);
    }

    fn say(&mut self, words: &str, expected: ExpectedReply, out: &mut Output) {
        self.expected = Some(expected);
        out.to_server.extend_from_slice(words.as_bytes());
        out.to_server.extend_from_slice(b"\r\n");
    }

    /// Reports whether the reply ends with this line.
    fn is_final(&mut self, line: &[u8], expected: ExpectedReply) -> bool {
        let text = line.trim_ascii_end();
        if self.is_dotted {
            return text == b".";
        }
        match self.words.framing {
            ReplyFraming::Codes => {
                let code = text.get(..3).unwrap_or(text);
                let first = self.code.get_or_insert_with(|| code.to_vec());
                code == first && text.get(3) != Some(&b'-')
            }
            ReplyFraming::CodesAndDot => {
                self.is_dotted = text.starts_with(b"100") || text.starts_with(b"101");
                !self.is_dotted
            }
            ReplyFraming::Pop3 => {
                self.is_dotted = expected == ExpectedReply::Capabilities && begins(text, b"+OK");
                !self.is_dotted
            }
            ReplyFraming::Tagged => {
                expected == ExpectedReply::Greeting
                    || text.strip_prefix(&self.tag[..]).is_some_and(|rest| rest.starts_with(b" "))
            }
            ReplyFraming::Sieve => [&b"OK"[..], b"NO", b"BYE"]
                .iter()
                .any(|word| begins(text, word) && !text[word.len()..].starts_with(b"\"")),
        }
    }
}

impl Steps for Lines {
    fn client_sent(&mut self, bytes: &[u8], out: &mut Output) {
        self.client.extend(bytes);
        self.take_commands(out);
    }

    fn server_sent(&mut self, bytes: &[u8], out: &mut Output) {
        self.server.extend(bytes);
        self.take_replies(out);
    }

    fn client_tls_up(&mut self, out: &mut Output) {
        self.has_client_tls = true;
        if self.words.greets_again {
            self.say(self.words.capabilities[0], ExpectedReply::Capabilities, out);
        }
        self.go_on_under_tls(out);
    }

    fn server_tls_up(&mut self, out: &mut Output) {
        self.phase = LinesPhase::Open;
        if self.words.greets_again {
            self.expected = Some(ExpectedReply::Greeting);
        } else {
            let greeting = self.words.greeting.replace("{}", &self.greeting_name) + "\r\n";
            out.to_client.extend_from_slice(greeting.as_bytes());
        }
        self.go_on_under_tls(out);
    }

    fn server_connected(&mut self, _out: &mut Output) {
        if self.phase != LinesPhase::Open {
            let names = HostNames { own: &self.own_name, server: Some(&self.greeting_name) };
            *self = Self {
                has_client_tls: self.has_client_tls,
                client: std::mem::take(&mut self.client),
                ..Self::new(self.words, self.sides, names)
            };
        }
    }

    fn server_ended(&mut self) -> Vec<u8> {
        if self.phase != LinesPhase::Open {
            return Vec::new();
        }
        let mut held = std::mem::take(&mut self.reply);
        held.extend(std::mem::take(&mut self.server));
        held
    }

    fn unavailable(&self) -> Vec<u8> {
        format!("{}\r\n", self.words.unavailable).into_bytes()
    }

    fn has_refused(&self) -> bool {
        self.refusals > 0
    }

    fn expects_server(&self) -> bool {
        self.expected.is_some()
    }

    fn is_holding(&self) -> bool {
        self.expected.is_some() && self.client.contains(&b'\n')
    }
}

/// Takes the next complete line, with its end.
fn take_line(bytes: &mut VecDeque<u8>) -> Option<Vec<u8>> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = bytes.drain(..=end).collect();
    if bytes.is_empty() {
        *bytes = VecDeque::new();
    }
    Some(line)
}

/// Reports whether a line contains a byte that some servers take for its end. They would see two
/// commands, and the reply to the second would seem to come under TLS (CVE-2011-0411).
fn has_stray(line: &[u8]) -> bool {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.iter().any(|byte| matches!(byte, b'\r' | 0))
}

/// Returns the length of the literal that follows this line without waiting.
fn literal_bytes(line: &[u8]) -> Option<usize> {
    let line = line.strip_suffix(b"\n")?;
    let text = line.strip_suffix(b"\r").unwrap_or(line).strip_suffix(b"+}")?;
    let begin = text.iter().rposition(|byte| *byte == b'{')?;
    decimal(&text[begin + 1..])?.try_into().ok()
}

/// Whether a server takes it for a tag, by which it answers (RFC 9051 section 9): its answer to
/// others has none.
fn is_tag(text: &[u8]) -> bool {
    !text.iter().any(|byte| byte.is_ascii_control() || b"+(){%*\"\\".contains(byte))
}

/// Reports whether a command in upper case has this name, with arguments or without.
fn is_command(command: &str, name: &str) -> bool {
    let rest = command.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}
