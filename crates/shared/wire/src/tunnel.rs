//! The dialog with a proxy that connects the client with another host: `CONNECT` of HTTP/1.1 (RFC
//! 9110 section 9.3.6) and SOCKS5 (RFC 1928, with the login of RFC 1929).
//!
//! Handles the order of the messages, and how many bytes may be read at each point so that no byte
//! behind the proxy's last message is taken: those come from the other host.

use std::fmt;
use std::net::IpAddr;

use base64ct::{Base64, Encoding};

use crate::http::{HeadFault, ResponseHead};

/// Longest head of an answer to `CONNECT`: proxies send little more than the status.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// Longest name, user and password of SOCKS5, whose lengths are one byte each.
pub const SOCKS_TEXT_BYTES_MAX: usize = 255;

const SOCKS_VERSION: u8 = 5;
const LOGIN_VERSION: u8 = 1;
const WITHOUT_LOGIN: u8 = 0;
const WITH_LOGIN: u8 = 2;
const NO_METHOD: u8 = 0xff;
const ADDRESS_IPV4: u8 = 1;
const ADDRESS_NAME: u8 = 3;
const ADDRESS_IPV6: u8 = 4;
/// Bytes of a SOCKS5 reply up to the first of its address.
const REPLY_BYTES: usize = 5;

/// Protocol of the proxy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TunnelProtocol {
    HttpConnect,
    Socks5,
}

/// The host behind the proxy, and the protocol of the request for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Tunnel {
    pub protocol: TunnelProtocol,
    /// Name, which the proxy resolves, or IP address without brackets.
    pub host: String,
    pub port: u16,
    pub login: Option<TunnelLogin>,
}

impl Tunnel {
    /// Returns the host and its port in the form of HTTP (RFC 3986 section 3.2).
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// Login: of 1 to [`SOCKS_TEXT_BYTES_MAX`] bytes each for SOCKS5; without a colon in HTTP's user.
#[derive(Clone, Eq, PartialEq)]
pub struct TunnelLogin {
    pub user: String,
    pub password: String,
}

impl fmt::Debug for TunnelLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TunnelLogin")
    }
}

/// A dialog with one proxy, which begins with [`TunnelDialog::begin`].
#[derive(Debug)]
pub struct TunnelDialog {
    expected: TunnelReply,
    received: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum TunnelReply {
    Http,
    Method,
    Login,
    /// Length of the reply, as far as it is known.
    Reply(usize),
}

#[derive(Debug, Eq, PartialEq)]
pub enum TunnelStep {
    /// More of the proxy's answer is needed.
    More,
    Send(Vec<u8>),
    /// The next byte comes from the other host.
    Up,
}

/// Fault of the proxy, or its refusal.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum TunnelFault {
    #[error("the proxy did not answer with HTTP/1: it is none, or TLS is missing before it")]
    NotHttp,
    #[error("the head of the proxy's answer has more than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    #[error("the proxy answered before it was asked")]
    TooEarly,
    #[error("the proxy wants a login, or refuses the one of `back.tunnel` (status {0})")]
    LoginWanted(u16),
    #[error("the proxy answered CONNECT with status {0}")]
    Status(u16),
    #[error("the proxy did not answer by SOCKS5 (RFC 1928)")]
    NotSocks,
    #[error("the proxy takes no way of login that `back.tunnel` offers")]
    NoMethod,
    #[error("the proxy refused the login of `back.tunnel`")]
    LoginRefused,
    #[error("the proxy refused: {text} (SOCKS5 reply {0})", text = reply_text(*.0))]
    Refused(u8),
}

/// Returns the meaning of a reply code (RFC 1928 section 6).
fn reply_text(code: u8) -> &'static str {
    match code {
        1 => "general failure",
        2 => "not allowed by its rules",
        3 => "network unreachable",
        4 => "host unreachable",
        5 => "connection refused",
        6 => "TTL expired",
        7 => "command not supported",
        8 => "address type not supported",
        _ => "unassigned",
    }
}

impl TunnelDialog {
    /// Creates the dialog, and returns the first bytes for the proxy.
    pub fn begin(tunnel: &Tunnel) -> (Self, Vec<u8>) {
        let (expected, first) = match tunnel.protocol {
            TunnelProtocol::HttpConnect => (TunnelReply::Http, connect_request(tunnel)),
            TunnelProtocol::Socks5 if tunnel.login.is_some() => {
                (TunnelReply::Method, vec![SOCKS_VERSION, 2, WITHOUT_LOGIN, WITH_LOGIN])
            }
            TunnelProtocol::Socks5 => (TunnelReply::Method, vec![SOCKS_VERSION, 1, WITHOUT_LOGIN]),
        };
        (Self { expected, received: Vec::new() }, first)
    }

    /// Returns how many bytes may be read now; at least 1. An answer to `CONNECT` is read in pieces
    /// that cannot go beyond its end, because its length is not known before.
    pub fn wants(&self) -> usize {
        match self.expected {
            // A line may end without CR (RFC 9112 section 2.2).
            TunnelReply::Http => match &*self.received {
                [.., b'\n'] | [.., b'\n', b'\r'] => 1,
                _ => 2,
            },
            TunnelReply::Method | TunnelReply::Login => 2 - self.received.len(),
            TunnelReply::Reply(bytes) => bytes - self.received.len(),
        }
    }

    /// Takes the bytes read, at most as many as it [wants](Self::wants).
    ///
    /// # Errors
    /// Fails with [`TunnelFault`], and then the dialog is over.
    pub fn received(&mut self, bytes: &[u8], tunnel: &Tunnel) -> Result<TunnelStep, TunnelFault> {
        self.received.extend_from_slice(bytes);
        if self.expected == TunnelReply::Http {
            return self.http_received();
        }
        if self.wants() > 0 {
            return Ok(TunnelStep::More);
        }
        match (self.expected, &*self.received) {
            (TunnelReply::Method, [SOCKS_VERSION, WITHOUT_LOGIN]) => Ok(self.ask(tunnel)),
            (TunnelReply::Method, [SOCKS_VERSION, WITH_LOGIN]) => {
                let login = tunnel.login.as_ref().ok_or(TunnelFault::NoMethod)?;
                let mut out = vec![LOGIN_VERSION];
                append_text(&mut out, &login.user);
                append_text(&mut out, &login.password);
                Ok(self.send(TunnelReply::Login, out))
            }
            (TunnelReply::Method, [SOCKS_VERSION, NO_METHOD]) => Err(TunnelFault::NoMethod),
            (TunnelReply::Login, [_, 0]) => Ok(self.ask(tunnel)),
            (TunnelReply::Login, _) => Err(TunnelFault::LoginRefused),
            (TunnelReply::Reply(REPLY_BYTES), [SOCKS_VERSION, 0, _, kind, length]) => {
                // The rest of the address, whose first byte is here, and the port.
                let rest = match *kind {
                    ADDRESS_IPV4 => 3 + 2,
                    ADDRESS_IPV6 => 15 + 2,
                    ADDRESS_NAME => usize::from(*length) + 2,
                    _ => return Err(TunnelFault::NotSocks),
                };
                self.expected = TunnelReply::Reply(REPLY_BYTES + rest);
                Ok(TunnelStep::More)
            }
            (TunnelReply::Reply(REPLY_BYTES), [SOCKS_VERSION, code, ..]) => {
                Err(TunnelFault::Refused(*code))
            }
            (TunnelReply::Reply(_), [SOCKS_VERSION, 0, ..]) => Ok(TunnelStep::Up),
            _ => Err(TunnelFault::NotSocks),
        }
    }

    fn http_received(&mut self) -> Result<TunnelStep, TunnelFault> {
        let head = match ResponseHead::parse(&self.received, HEAD_BYTES_MAX, true) {
            Ok(None) => return Ok(TunnelStep::More),
            Ok(Some(head)) => head,
            Err(HeadFault::TooLarge) => return Err(TunnelFault::HeadTooLong),
            // A refusal counts even if the rest of the head is malformed.
            Err(_) => return Err(self.refusal().unwrap_or(TunnelFault::NotHttp)),
        };
        match head.status {
            // No more was read than the head may have.
            _ if head.bytes < self.received.len() => Err(TunnelFault::NotHttp),
            // An interim response (RFC 9110 section 15.2) may come before the answer.
            100 | 102..200 => {
                self.received.clear();
                Ok(TunnelStep::More)
            }
            200..300 => Ok(TunnelStep::Up),
            status => Err(refusal_of(status)),
        }
    }

    /// Returns the refusal that the answer begins with, if its version and status can be read.
    fn refusal(&self) -> Option<TunnelFault> {
        const CODE_END: usize = "HTTP/1.1 200".len();
        let (line, rest) = self.received.split_at_checked(CODE_END)?;
        rest.first().filter(|next| b" \r\n".contains(next))?;
        let line = [line, b"\r\n\r\n"].concat();
        let head = ResponseHead::parse(&line, HEAD_BYTES_MAX, true).ok()??;
        (head.status >= 300).then(|| refusal_of(head.status))
    }

    fn send(&mut self, expected: TunnelReply, bytes: Vec<u8>) -> TunnelStep {
        self.expected = expected;
        self.received.clear();
        TunnelStep::Send(bytes)
    }

    fn ask(&mut self, tunnel: &Tunnel) -> TunnelStep {
        const CONNECT: u8 = 1;
        let mut out = vec![SOCKS_VERSION, CONNECT, 0];
        match tunnel.host.parse() {
            Ok(IpAddr::V4(address)) => {
                out.push(ADDRESS_IPV4);
                out.extend(address.octets());
            }
            Ok(IpAddr::V6(address)) => {
                out.push(ADDRESS_IPV6);
                out.extend(address.octets());
            }
            Err(_) => {
                out.push(ADDRESS_NAME);
                append_text(&mut out, &tunnel.host);
            }
        }
        out.extend(tunnel.port.to_be_bytes());
        self.send(TunnelReply::Reply(REPLY_BYTES), out)
    }
}

fn refusal_of(status: u16) -> TunnelFault {
    match status {
        401 | 407 => TunnelFault::LoginWanted(status),
        _ => TunnelFault::Status(status),
    }
}

fn append_text(out: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(SOCKS_TEXT_BYTES_MAX)];
    out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(text);
}

fn connect_request(tunnel: &Tunnel) -> Vec<u8> {
    let (target, login) = (tunnel.authority(), tunnel.login.as_ref());
    // Basic authentication (RFC 7617 section 2).
    let login = login.map_or_else(String::new, |TunnelLogin { user, password }| {
        let pair = Base64::encode_string(format!("{user}:{password}").as_bytes());
        format!("Proxy-Authorization: Basic {pair}\r\n")
    });
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{login}\r\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tunnel(protocol: TunnelProtocol, host: &str, has_login: bool) -> Tunnel {
        let login = TunnelLogin { user: "me".to_owned(), password: "secret".to_owned() };
        let login = has_login.then_some(login);
        Tunnel { protocol, host: host.to_owned(), port: 443, login }
    }

    /// Gives the dialog the proxy's bytes as it wants them, then the host's, which must not be
    /// taken. Returns the bytes that were sent, and the end.
    fn talk(tunnel: &Tunnel, proxy: &[u8]) -> (Vec<Vec<u8>>, Result<usize, TunnelFault>) {
        let (mut dialog, first) = TunnelDialog::begin(tunnel);
        let (mut sent, mut taken) = (vec![first], 0);
        loop {
            let next = &proxy[taken..];
            let count = next.len().min(dialog.wants());
            assert!(count > 0, "it waits for more than the proxy said");
            taken += count;
            match dialog.received(&next[..count], tunnel) {
                Ok(TunnelStep::More) => {}
                Ok(TunnelStep::Send(bytes)) => sent.push(bytes),
                Ok(TunnelStep::Up) => return (sent, Ok(taken)),
                Err(fault) => return (sent, Err(fault)),
            }
        }
    }

    #[test]
    fn connect_asks_and_leaves_what_follows_the_answer() {
        let plain = tunnel(TunnelProtocol::HttpConnect, "a.example", false);
        let answer = b"HTTP/1.0 200 Connection established\r\nVia: x\r\n\r\n";
        let (sent, end) = talk(&plain, &[&answer[..], b"220 hi\r\n\r\n"].concat());
        let request = b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n";
        assert_eq!((sent, end), (vec![request.to_vec()], Ok(answer.len())));
        let login = tunnel(TunnelProtocol::HttpConnect, "::1", true);
        let answer = b"HTTP/1.1 100 Continue\n\nHTTP/1.1 204 x\r\n\n";
        let (sent, end) = talk(&login, answer);
        let request = "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n\
                       Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n";
        assert_eq!((sent, end), (vec![request.as_bytes().to_vec()], Ok(answer.len())));
        let long = [b"HTTP/1.1 200 x\r\n".to_vec(), b"A: b\r\n".repeat(2000)].concat();
        for (answer, fault) in [
            (
                &b"HTTP/1.1 407 x\r\nProxy-Authenticate: Basic\r\n\r\n"[..],
                TunnelFault::LoginWanted(407),
            ),
            (b"HTTP/1.1 503 x\r\n\r\n", TunnelFault::Status(503)),
            (b"HTTP/1.1 101 x\r\n\r\n", TunnelFault::Status(101)),
            (b"HTTP/1.1 403 \x07\r\n", TunnelFault::Status(403)),
            (b"HTTP/1.1 407 x\r\nA: \x01\r\n\r\n", TunnelFault::LoginWanted(407)),
            (b"HTTP/1.1 200 x\r\nA: \x01\r\n\r\n", TunnelFault::NotHttp),
            (b"HTTP/1.1 4031 \x07\r\n", TunnelFault::NotHttp),
            (b"\x05\x00\x00\x00", TunnelFault::NotHttp),
            (b"SSH-2.0-OpenSSH\r\n", TunnelFault::NotHttp),
            (&long, TunnelFault::HeadTooLong),
        ] {
            let (_, end) = talk(&plain, answer);
            assert_eq!(end, Err(fault), "{}", answer.escape_ascii());
        }
    }

    #[test]
    fn socks_asks_and_leaves_what_follows_the_reply() {
        let plain = tunnel(TunnelProtocol::Socks5, "a.example", false);
        let login = tunnel(TunnelProtocol::Socks5, "192.0.2.7", true);
        let reply = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50";
        let named = b"\x05\x00\x00\x03\x02ab\x00\x50";
        let (sent, end) = talk(&plain, &[b"\x05\x00", &named[..], b"later"].concat());
        let asked = [&b"\x05\x01\x00\x03\x09a.example"[..], &[1, 187]].concat();
        assert_eq!((sent, end), (vec![vec![5, 1, 0], asked], Ok(2 + named.len())));
        let (sent, end) = talk(&login, &[b"\x05\x02\x01\x00", &reply[..], b"later"].concat());
        let said = vec![
            vec![5, 2, 0, 2],
            b"\x01\x02me\x06secret".to_vec(),
            vec![5, 1, 0, 1, 192, 0, 2, 7, 1, 187],
        ];
        assert_eq!((sent, end), (said, Ok(4 + reply.len())));
        for (tunnel, answer, fault) in [
            (&plain, &b"\x05\xff"[..], TunnelFault::NoMethod),
            (&plain, b"\x05\x02", TunnelFault::NoMethod),
            (&plain, b"HTTP/1.1", TunnelFault::NotSocks),
            (&login, b"\x05\x02\x01\x01", TunnelFault::LoginRefused),
            (&plain, b"\x05\x00\x05\x05\x00\x01\x00", TunnelFault::Refused(5)),
            (&plain, b"\x05\x00\x05\x00\x00\x09\x00", TunnelFault::NotSocks),
            (&plain, b"\x05\x00\x04\x00\x00\x01\x00", TunnelFault::NotSocks),
        ] {
            let (_, end) = talk(tunnel, answer);
            assert_eq!(end, Err(fault), "{}", answer.escape_ascii());
        }
    }
}
