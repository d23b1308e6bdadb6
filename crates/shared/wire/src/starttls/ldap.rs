//! LDAP: the extended operation StartTLS (RFC 4511 section 4.14), in BER.

use super::step::{DialogAction, Fault, Output, Policy, StarttlsSides, Steps, refusal};

/// Longest message in which a request for TLS is recognized, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Operations refused for lack of TLS before the connection is closed.
const REFUSALS_MAX: usize = 10;

const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";
const NOTICE_OF_DISCONNECTION: &[u8] = b"1.3.6.1.4.1.1466.20036";

// Result codes (RFC 4511 section 4.1.9).
const PROTOCOL_ERROR: u8 = 2;
const CONFIDENTIALITY_REQUIRED: u8 = 13;
const UNAVAILABLE: u8 = 52;

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIND_REQUEST: u8 = 0x60;
const UNBIND_REQUEST: u8 = 0x42;
const ABANDON_REQUEST: u8 = 0x50;
const EXTENDED_REQUEST: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;

/// Requests and their answers (RFC 4511 sections 4.2 to 4.12).
const ANSWERS: &[(u8, u8)] = &[
    (BIND_REQUEST, 0x61),
    (0x63, 0x65),
    (0x66, 0x67),
    (0x68, 0x69),
    (0x4a, 0x6b),
    (0x6c, 0x6d),
    (0x6e, 0x6f),
    (EXTENDED_REQUEST, EXTENDED_RESPONSE),
];

#[derive(Debug, Default)]
pub(super) struct Ldap {
    sides: StarttlsSides,
    has_client_tls: bool,
    has_server_tls: bool,
    /// Whether the client's bytes are for the server.
    has_begun: bool,
    client: Vec<u8>,
    answer: Vec<u8>,
    refusals: usize,
}

impl Ldap {
    pub(super) fn new(sides: StarttlsSides) -> Self {
        Self { sides, has_server_tls: !sides.back, ..Self::default() }
    }

    /// Reports whether the client may still ask for TLS.
    fn is_before_tls(&self) -> bool {
        self.sides.front.is_some() && !self.has_client_tls
    }

    fn take_messages(&mut self, out: &mut Output) {
        while out.goes_on() && self.is_before_tls() && !self.has_begun {
            let message = match LdapMessage::read(&self.client) {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(what) => {
                    let words = notice(PROTOCOL_ERROR, what);
                    return out.fail(Fault::ClientMalformed(what), &words);
                }
            };
            let (id, operation) = (message.id.to_vec(), message.operation);
            let (value, bytes) = (message.start_tls_value(), message.bytes);
            let is_start = value.is_some();
            let has_value = value.is_some_and(|value| !value.is_empty());
            if !is_start && self.sides.front == Some(Policy::Optional) {
                // The client may not ask for TLS any more: the answer to this would come under it.
                self.has_begun = true;
                break;
            }
            self.client.drain(..bytes);
            if has_value {
                self.refuse_value(&id, out);
            } else if is_start && self.client.is_empty() {
                out.to_client.extend(response(&id, EXTENDED_RESPONSE, 0, "", Some(START_TLS)));
                out.next = DialogAction::StartClientTls;
            } else if is_start {
                let what = "more behind its request for TLS";
                out.fail(Fault::Injection(self.client.len()), &notice(PROTOCOL_ERROR, what));
            } else {
                self.refuse(&id, operation, out);
            }
        }
        if out.goes_on() && (self.has_begun || !self.is_before_tls()) {
            self.relay(out);
        }
    }

    fn relay(&mut self, out: &mut Output) {
        self.has_begun = true;
        out.to_server.append(&mut self.client);
        if self.has_server_tls {
            out.next = DialogAction::Relay;
        }
    }

    /// Refuses a request with a value (RFC 4511 section 4.14.1).
    fn refuse_value(&mut self, id: &[u8], out: &mut Output) {
        self.refusals += 1;
        if self.refusals > REFUSALS_MAX {
            out.next = DialogAction::Fail(Fault::TlsRequired);
            return;
        }
        let (code, words) = (PROTOCOL_ERROR, "StartTLS has no value");
        out.to_client.extend(response(id, EXTENDED_RESPONSE, code, words, Some(START_TLS)));
    }

    fn refuse(&mut self, id: &[u8], operation: u8, out: &mut Output) {
        self.refusals += 1;
        let answer = ANSWERS.iter().find(|(request, _)| *request == operation);
        match answer {
            _ if operation == UNBIND_REQUEST || self.refusals > REFUSALS_MAX => {
                out.next = DialogAction::Fail(Fault::TlsRequired);
            }
            Some((_, answer)) => {
                let words = "use StartTLS first";
                out.to_client.extend(response(id, *answer, CONFIDENTIALITY_REQUIRED, words, None));
            }
            None if operation == ABANDON_REQUEST => {}
            None => {
                let what = "an operation that does not exist";
                out.fail(Fault::ClientMalformed(what), &notice(PROTOCOL_ERROR, what));
            }
        }
    }
}

impl Steps for Ldap {
    fn client_sent(&mut self, bytes: &[u8], out: &mut Output) {
        self.client.extend_from_slice(bytes);
        self.take_messages(out);
        if self.client.len() > MESSAGE_BYTES_MAX {
            let what = "more than 64 KiB before TLS";
            out.fail(Fault::ClientMalformed(what), &notice(PROTOCOL_ERROR, what));
        }
    }

    fn server_sent(&mut self, bytes: &[u8], out: &mut Output) {
        if self.has_server_tls {
            return out.to_client.extend_from_slice(bytes);
        }
        self.answer.extend_from_slice(bytes);
        let message = match LdapMessage::read(&self.answer) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(_) => {
                let what = "something that is no LDAP message";
                out.next = DialogAction::Fail(Fault::ServerMalformed(what));
                return;
            }
        };
        out.next = match (message.operation, message.result()) {
            (EXTENDED_RESPONSE, Some((0, _))) => {
                DialogAction::after_consent(&self.answer[message.bytes..])
            }
            (EXTENDED_RESPONSE, Some((code, words))) => {
                let text = format!("result {code}: {}", String::from_utf8_lossy(words));
                DialogAction::Fail(refusal(text.as_bytes()))
            }
            _ => DialogAction::Fail(Fault::ServerMalformed("no answer to the request for TLS")),
        };
    }

    fn client_tls_up(&mut self, out: &mut Output) {
        self.has_client_tls = true;
        self.take_messages(out);
    }

    fn server_tls_up(&mut self, out: &mut Output) {
        self.has_server_tls = true;
        if self.has_begun {
            out.next = DialogAction::Relay;
        }
    }

    fn server_connected(&mut self, out: &mut Output) {
        if !self.has_server_tls {
            self.answer.clear();
            let request = element(0x80, START_TLS);
            out.to_server.extend(envelope(&[1], &element(EXTENDED_REQUEST, &request)));
        }
    }

    fn server_ended(&mut self) -> Vec<u8> {
        // Only the answer to our own request is held until it is complete.
        Vec::new()
    }

    fn unavailable(&self) -> Vec<u8> {
        notice(UNAVAILABLE, "no server is available")
    }

    fn has_refused(&self) -> bool {
        self.refusals > 0
    }

    fn expects_server(&self) -> bool {
        !self.has_server_tls
    }
}

struct LdapMessage<'a> {
    /// Bytes of the message number, which the answer repeats.
    id: &'a [u8],
    /// Tag of the operation, and its content.
    operation: u8,
    content: &'a [u8],
    /// Length of the message with its head.
    bytes: usize,
}

impl<'a> LdapMessage<'a> {
    /// Reads the first message of these bytes; `None` if it is incomplete.
    fn read(bytes: &'a [u8]) -> Result<Option<Self>, &'static str> {
        if bytes.first().is_some_and(|tag| *tag != SEQUENCE) {
            return Err("something that is no LDAP message");
        }
        let Some((tag, content, rest)) = take(bytes)? else {
            return Ok(None);
        };
        let (SEQUENCE, Some((INTEGER, id, body))) = (tag, take(content)?) else {
            return Err("something that is no LDAP message");
        };
        let Some((operation, content, _)) = take(body)? else {
            return Err("an LDAP message without an operation");
        };
        if !(1..=4).contains(&id.len()) {
            return Err("an LDAP message with an odd number");
        }
        Ok(Some(Self { id, operation, content, bytes: bytes.len() - rest.len() }))
    }

    /// Returns the value in a request for TLS, which should be empty; `None` if it is another
    /// request.
    fn start_tls_value(&self) -> Option<&'a [u8]> {
        let (tag, name, value) = take(self.content).ok()??;
        let is_start = self.operation == EXTENDED_REQUEST && tag == 0x80 && name == START_TLS;
        is_start.then_some(value)
    }

    /// Returns the code and text of a result.
    fn result(&self) -> Option<(u8, &'a [u8])> {
        let (_, code, rest) = take(self.content).ok()??;
        let (_, _, rest) = take(rest).ok()??;
        let (_, words, _) = take(rest).ok()??;
        Some((*code.last()?, words))
    }
}

type Element<'a> = (u8, &'a [u8], &'a [u8]);

/// Reads the first element of these bytes: its tag, its content, and the rest; `None` if it is
/// incomplete. LDAP allows only the definite form of lengths (RFC 4511 section 5.1).
fn take(bytes: &[u8]) -> Result<Option<Element<'_>>, &'static str> {
    let [tag, first, rest @ ..] = bytes else {
        return Ok(None);
    };
    let (length, rest) = match usize::from(*first) {
        short @ 0..=0x7f => (short, rest),
        long @ 0x81..=0x84 => {
            let Some((length, rest)) = rest.split_at_checked(long - 0x80) else {
                return Ok(None);
            };
            let length = length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            (length, rest)
        }
        _ => return Err("an element of an impossible length"),
    };
    if tag & 0x1f == 0x1f || length > MESSAGE_BYTES_MAX {
        return Err("an element that is too long or has an odd tag");
    }
    let parts = rest.split_at_checked(length);
    Ok(parts.map(|(content, rest)| (*tag, content, rest)))
}

/// Makes an element of less than 256 bytes, as all of ours are.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("our own elements are short");
    let head: &[u8] = if length < 0x80 { &[tag, length] } else { &[tag, 0x81, length] };
    [head, content].concat()
}

fn envelope(id: &[u8], operation: &[u8]) -> Vec<u8> {
    element(SEQUENCE, &[&element(INTEGER, id), operation].concat())
}

fn response(id: &[u8], tag: u8, code: u8, words: &str, name: Option<&[u8]>) -> Vec<u8> {
    let mut content = element(0x0a, &[code]);
    content.extend(element(0x04, b""));
    content.extend(element(0x04, words.as_bytes()));
    content.extend(name.map_or(Vec::new(), |name| element(0x8a, name)));
    envelope(id, &element(tag, &content))
}

/// Makes a server's notice that it ends a connection (RFC 4511 section 4.4.1).
fn notice(code: u8, words: &str) -> Vec<u8> {
    response(&[0], EXTENDED_RESPONSE, code, words, Some(NOTICE_OF_DISCONNECTION))
}
