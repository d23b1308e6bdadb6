//! XMPP (RFC 6120 section 5): a stream of XML in which the client asks for TLS.
//!
//! After TLS the client begins its stream anew, which a server without TLS would not understand as
//! the continuation of another one. Therefore the stream before TLS is answered here, and the
//! server's begins under TLS; a client that wants no TLS cannot be relayed.

use super::step::{DialogAction, Fault, Output, StarttlsSides, Steps, refusal};

/// Longest head of a stream with its features, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;

const NAMESPACE: &str = "urn:ietf:params:xml:ns:xmpp-tls";

/// The only error of a stream that no domain causes (RFC 6120 section 4.9.3.22): the server goes
/// away.
const SHUTDOWN: &str = "<system-shutdown";

/// Longest domain, in bytes (RFC 7622 section 3.2).
const DOMAIN_BYTES_MAX: usize = 1023;

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum XmppPhase {
    /// Waits for the client's stream to begin, or for the server's features.
    #[default]
    Head,
    /// TLS is requested, or will be.
    Request,
    /// TLS is up, or there is none of ours.
    Open,
}

#[derive(Debug, Default)]
pub(super) struct Xmpp {
    front: XmppPhase,
    back: XmppPhase,
    /// Domain that the server is asked for: the client's, or the configured one.
    domain: Option<String>,
    /// Whether the client has named it, or has left it out where none is configured.
    is_domain_of_client: bool,
    client: Vec<u8>,
    /// Number of complete bytes before the awaited element.
    passed: usize,
    server: Vec<u8>,
    has_refused: bool,
}

impl Xmpp {
    pub(super) fn new(sides: StarttlsSides, domain: Option<&str>) -> Self {
        let phase = |speaks| {
            if speaks { XmppPhase::Head } else { XmppPhase::Open }
        };
        Self {
            front: phase(sides.front.is_some()),
            back: phase(sides.back),
            domain: domain.map(str::to_owned),
            ..Self::default()
        }
    }

    fn take_client(&mut self, out: &mut Output) {
        if self.front == XmppPhase::Head {
            let Some((end, tag)) = element(&self.client, &mut self.passed, "stream:stream") else {
                return self.judge_client(out);
            };
            let to = attribute(&tag, "to").filter(|to| is_domain(to)).map(str::to_owned);
            self.is_domain_of_client = to.is_some() || self.domain.is_none();
            self.domain = to.or_else(|| self.domain.take());
            let namespace = attribute(&tag, "xmlns").unwrap_or("jabber:client").to_owned();
            self.client.drain(..end);
            self.passed = 0;
            self.front = XmppPhase::Request;
            // The identifier belongs to a stream that ends before it carries anything.
            out.to_client.extend(
                format!(
                    "{}<stream:features><starttls xmlns='{NAMESPACE}'><required/></starttls>\
                 </stream:features>",
                    head(&namespace, &format!("id='before-tls' from='{}'", self.domain())),
                )
                .into_bytes(),
            );
        }
        if self.front == XmppPhase::Request {
            let Some((end, tag)) = element(&self.client, &mut self.passed, "starttls") else {
                return self.judge_client(out);
            };
            const END: &[u8] = b"</starttls>";
            let mut rest = &self.client[end..];
            if !tag.ends_with('/') {
                if rest.len() < END.len() && END.starts_with(rest) {
                    // TLS begins behind the complete element.
                    return;
                }
                rest = rest.strip_prefix(END).unwrap_or(rest);
            }
            rest = rest.trim_ascii();
            if rest.is_empty() {
                self.client.clear();
                out.to_client.extend(format!("<proceed xmlns='{NAMESPACE}'/>").into_bytes());
                out.next = DialogAction::StartClientTls;
            } else {
                let fault = Fault::Injection(rest.len());
                out.fail(fault, &stream_error("policy-violation"));
            }
        }
        if self.front == XmppPhase::Open {
            out.to_server.append(&mut self.client);
        }
    }

    fn domain(&self) -> &str {
        self.domain.as_deref().unwrap_or("localhost")
    }

    /// Refuses bytes that do not begin a stream.
    fn judge_client(&mut self, out: &mut Output) {
        let text = self.client.trim_ascii_start();
        let is_markup = text.is_empty() || text.starts_with(b"<");
        if !is_markup || self.client.len() > HEAD_BYTES_MAX {
            let what = "no stream of XMPP, or one with a head of more than 16 KiB";
            // A stream error needs a stream, which has a head (RFC 6120 section 4.9.1.2).
            let head = match self.front {
                XmppPhase::Head => head("jabber:client", "id='refused'").into_bytes(),
                XmppPhase::Request | XmppPhase::Open => Vec::new(),
            };
            let words = [head, stream_error("not-well-formed")].concat();
            return out.fail(Fault::ClientMalformed(what), &words);
        }
        let is_other = self.front == XmppPhase::Request && text.contains(&b'>');
        if is_other {
            self.has_refused = true;
            let words = if text.starts_with(b"</stream:stream") {
                b"</stream:stream>".to_vec()
            } else {
                stream_error("policy-violation")
            };
            out.fail(Fault::TlsRequired, &words);
        }
    }

    fn take_server(&mut self, out: &mut Output) {
        match self.back {
            XmppPhase::Open => self.relay_features(out),
            XmppPhase::Head => {
                let Some(features) = features(&self.server) else {
                    return self.judge_server(out);
                };
                let features = String::from_utf8_lossy(&self.server[features]).into_owned();
                if !features.contains(NAMESPACE) {
                    out.next = DialogAction::Fail(Fault::ServerWithoutTls("starttls"));
                    return;
                }
                self.server.clear();
                self.back = XmppPhase::Request;
                out.to_server.extend(format!("<starttls xmlns='{NAMESPACE}'/>").into_bytes());
            }
            XmppPhase::Request => {
                let Some((end, _)) = element(&self.server, &mut 0, "proceed") else {
                    return self.judge_server(out);
                };
                let rest = self.server[end..].trim_ascii();
                out.next =
                    DialogAction::after_consent(rest.strip_prefix(b"</proceed>").unwrap_or(rest));
            }
        }
    }

    fn judge_server(&self, out: &mut Output) {
        let text = String::from_utf8_lossy(&self.server);
        let is_error = text.contains("<stream:error");
        let is_failure = is_error || text.contains("<failure");
        let is_whole = is_failure && text.trim_end().ends_with('>');
        // Clients name any domain, even one that servers refuse, and that makes no server down.
        let is_of_client = is_error && self.is_domain_of_client && !text.contains(SHUTDOWN);
        if is_whole && is_of_client {
            let what = "a domain that the server refuses";
            let head = head("jabber:client", "id='refused'").into_bytes();
            let words = [head, stream_error("host-unknown")].concat();
            out.fail(Fault::ClientMalformed(what), &words);
        } else if is_whole {
            out.next = DialogAction::Fail(refusal(text.as_bytes()));
        } else {
            self.limit_head(out);
        }
    }

    fn limit_head(&self, out: &mut Output) {
        if self.server.len() > HEAD_BYTES_MAX {
            let what = "no features of a stream within 16 KiB";
            out.next = DialogAction::Fail(Fault::ServerMalformed(what));
        }
    }

    /// Relays the first features under TLS, without the server's own offer of TLS; later bytes are
    /// not inspected.
    fn relay_features(&mut self, out: &mut Output) {
        let Some(place) = features(&self.server) else {
            let text = String::from_utf8_lossy(&self.server);
            let is_over = ["<stream:error", "</stream:stream"].iter().any(|end| text.contains(end));
            if is_over || self.server.len() > HEAD_BYTES_MAX {
                out.next = DialogAction::Relay;
            }
            if out.next == DialogAction::Relay || !self.server.trim_ascii_start().starts_with(b"<")
            {
                out.to_client.append(&mut self.server);
            }
            return;
        };
        let features = String::from_utf8_lossy(&self.server[place.clone()]).into_owned();
        let without = match features.find("<starttls") {
            Some(begin) => {
                let rest = &features[begin..];
                let tag_end = rest.find('>').unwrap_or(rest.len() - 1);
                let end = if rest[..tag_end].ends_with('/') {
                    tag_end + 1
                } else {
                    rest.find("</starttls>").map_or(rest.len(), |at| at + "</starttls>".len())
                };
                [&features[..begin], &rest[end..]].concat()
            }
            None => features,
        };
        out.to_client.extend_from_slice(&self.server[..place.start]);
        out.to_client.extend_from_slice(without.as_bytes());
        out.to_client.extend_from_slice(&self.server[place.end..]);
        self.server.clear();
        out.next = DialogAction::Relay;
    }
}

impl Steps for Xmpp {
    fn client_sent(&mut self, bytes: &[u8], out: &mut Output) {
        self.client.extend_from_slice(bytes);
        // Awaited elements all end with `>`: a head that comes byte by byte is read once.
        let has_tag = self.front == XmppPhase::Request && self.client.contains(&b'>');
        if self.front == XmppPhase::Open || has_tag || bytes.contains(&b'>') {
            self.take_client(out);
        } else {
            self.judge_client(out);
        }
        if self.client.len() > 64 << 10 {
            let what = "more than 64 KiB before the server was connected";
            out.fail(Fault::ClientMalformed(what), &stream_error("policy-violation"));
        }
    }

    fn server_sent(&mut self, bytes: &[u8], out: &mut Output) {
        self.server.extend_from_slice(bytes);
        // Awaited elements always end with `>`.
        if self.back == XmppPhase::Open || bytes.contains(&b'>') {
            self.take_server(out);
        } else {
            self.limit_head(out);
        }
    }

    fn client_tls_up(&mut self, out: &mut Output) {
        self.front = XmppPhase::Open;
        self.take_client(out);
    }

    fn server_tls_up(&mut self, _out: &mut Output) {
        self.back = XmppPhase::Open;
        self.server.clear();
    }

    fn server_connected(&mut self, out: &mut Output) {
        if self.back != XmppPhase::Open {
            self.back = XmppPhase::Head;
            self.server.clear();
            let to = format!("to='{}'", self.domain());
            out.to_server.extend(head("jabber:client", &to).into_bytes());
        }
    }

    fn server_ended(&mut self) -> Vec<u8> {
        if self.back == XmppPhase::Open { std::mem::take(&mut self.server) } else { Vec::new() }
    }

    fn unavailable(&self) -> Vec<u8> {
        let error = stream_error("remote-connection-failed");
        [head("jabber:client", "id='unavailable'").into_bytes(), error].concat()
    }

    fn has_refused(&self) -> bool {
        self.has_refused
    }

    fn expects_server(&self) -> bool {
        self.back != XmppPhase::Open
    }
}

fn head(namespace: &str, attributes: &str) -> String {
    format!(
        "<?xml version='1.0'?><stream:stream xmlns='{namespace}' \
         xmlns:stream='http://etherx.jabber.org/streams' {attributes} version='1.0'>"
    )
}

fn stream_error(condition: &str) -> Vec<u8> {
    format!(
        "<stream:error><{condition} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>\
         </stream:stream>"
    )
    .into_bytes()
}

/// Returns the end of the start tag with this name, and the tag, if it is the first element. `at`
/// is where to search from: behind complete parts that come before it.
fn element(bytes: &[u8], at: &mut usize, name: &str) -> Option<(usize, String)> {
    loop {
        let begin = *at + bytes.get(*at..)?.iter().position(|byte| *byte == b'<')?;
        let end = begin + bytes[begin..].iter().position(|byte| *byte == b'>')?;
        let tag = String::from_utf8_lossy(&bytes[begin + 1..end]).into_owned();
        if tag.starts_with('?') {
            *at = end + 1;
            continue;
        }
        let rest = tag.strip_prefix(name)?;
        let is_it = rest.is_empty() || rest.starts_with([' ', '/', '\t', '\r', '\n']);
        return is_it.then_some((end + 1, tag));
    }
}

/// Returns the value of an attribute, if nothing in it could end one of ours.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut parts = tag.match_indices(name);
    parts.find_map(|(at, _)| {
        let before = tag[..at].chars().next_back()?;
        let value = tag[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|quote| ['\'', '"'].contains(quote))?;
        let (value, _) = value[1..].split_once(quote)?;
        let ends = |c: char| c.is_control() || ['\'', '"', '<', '&'].contains(&c);
        (before.is_whitespace() && !value.contains(ends)).then_some(value)
    })
}

/// Reports whether a text has only characters of domains and addresses (RFC 7622 section 3.2, RFC
/// 5952): no server accepts other characters, and XML does not allow all of them.
fn is_domain(text: &str) -> bool {
    // Combining marks, which some scripts need, are no letters; signs begin at U+2000.
    let is_of_script = |c: char| ('\u{300}'..'\u{2000}').contains(&c) && !c.is_whitespace();
    let may_stand = |c: char| c.is_alphanumeric() || "-._:[]".contains(c) || is_of_script(c);
    (1..=DOMAIN_BYTES_MAX).contains(&text.len()) && text.chars().all(may_stand)
}

/// Returns the range of the first complete features of a stream.
fn features(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let find = |text: &[u8], from: usize| {
        let mut parts = bytes.get(from..)?.windows(text.len());
        parts.position(|part| part == text).map(|at| at + from)
    };
    let begin = find(b"<stream:features", 0)?;
    let tag_end = find(b">", begin)?;
    if bytes[..tag_end].ends_with(b"/") {
        return Some(begin..tag_end + 1);
    }
    const END: &[u8] = b"</stream:features>";
    Some(begin..find(END, tag_end)? + END.len())
}
