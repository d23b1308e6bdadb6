//! The words of the line protocols, which [`super::lines`] uses.
//!
//! Keywords are upper case; clients' and servers' are compared without case.

/// Form of a server's replies, which shows where one ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ReplyFraming {
    /// `250-more`, `250 last` (RFC 5321 section 4.2.1, RFC 959 section 4.2).
    Codes,
    /// A line with a code; after 100 or 101 more lines up to a dot (RFC 3977 section 3.1).
    CodesAndDot,
    /// `+OK` or `-ERR`; capabilities have more lines up to a dot (RFC 1939 section 3).
    Pop3,
    /// Untagged lines, then one with the command's tag (RFC 9051 section 2.2.2).
    Tagged,
    /// Lines up to one that begins with OK, NO or BYE (RFC 5804 section 1.2).
    Sieve,
}

#[derive(Debug)]
pub(super) struct ProtocolWords {
    pub(super) framing: ReplyFraming,
    /// Commands whose reply lists capabilities.
    pub(super) capabilities: &'static [&'static str],
    pub(super) start: &'static [&'static str],
    pub(super) go_ahead: &'static str,
    /// Answer to a second request for TLS.
    pub(super) again: &'static str,
    /// Answer to a request for TLS with an argument, which none takes.
    pub(super) has_argument: &'static str,
    /// Commands that a client may give before TLS, and that do not end the rewriting.
    pub(super) free: &'static [&'static str],
    /// Other commands with answers of their own before TLS.
    pub(super) refused: &'static [(&'static str, &'static str)],
    /// Answer to all others before TLS.
    pub(super) refusal: &'static str,
    /// Capabilities added before TLS; the second list where TLS is required.
    pub(super) offered: [&'static [&'static str]; 2],
    /// Capabilities of the server that no client sees.
    pub(super) hidden: &'static [&'static str],
    /// Capabilities hidden from a client that must use TLS first; `=` hides all that begin so.
    pub(super) hidden_before: &'static [&'static str],
    /// Commands that we answer under TLS, because the server does not know about TLS.
    pub(super) answered: &'static [(&'static str, &'static str)],
    /// Login command of a protocol whose rewriting lasts as long as the connection, unless a client
    /// gives this command in plaintext, and so decides against TLS.
    pub(super) lasting: Option<&'static str>,
    /// Whether the greeting lists capabilities, and the server greets again under TLS (RFC 5804
    /// section 2.2).
    pub(super) greets_again: bool,
    /// Last words to a client at fault; `{}` = its fault.
    pub(super) malformed: &'static str,
    /// Last words to a client if no server can be reached.
    pub(super) unavailable: &'static str,
    /// Whether all lines of a reply have its code (RFC 5321 section 4.2.1), or only the first and
    /// the last (RFC 959 section 4.2).
    pub(super) has_one_code: bool,
    /// Beginnings of a good greeting.
    pub(super) greetings: &'static [&'static str],
    /// Our own greeting for a client whose server has greeted before TLS; `{}` = a name. Empty if
    /// the server greets again.
    pub(super) greeting: &'static str,
    /// First words of a client, before its own name, to learn whether the server has TLS.
    pub(super) hello: Option<&'static str>,
    /// Request of a client for TLS, and the beginning of a good answer.
    pub(super) request: (&'static str, &'static str),
}

impl ProtocolWords {
    /// Reports whether lines may end with the length of bytes that follow (RFC 9051 section 4.3).
    pub(super) fn has_literals(&self) -> bool {
        matches!(self.framing, ReplyFraming::Tagged | ReplyFraming::Sieve)
    }
}

/// Defaults of most protocols.
const NONE: ProtocolWords = ProtocolWords {
    framing: ReplyFraming::Codes,
    capabilities: &[],
    start: &["STARTTLS"],
    go_ahead: "",
    again: "",
    has_argument: "",
    free: &[],
    refused: &[],
    refusal: "",
    offered: [&["STARTTLS"], &[]],
    hidden: &["STARTTLS"],
    hidden_before: &[],
    answered: &[],
    lasting: None,
    greets_again: false,
    malformed: "",
    unavailable: "",
    has_one_code: false,
    greetings: &[],
    greeting: "",
    hello: None,
    request: ("STARTTLS", ""),
};

/// RFC 3207.
pub(super) const SMTP: ProtocolWords = ProtocolWords {
    capabilities: &["EHLO"],
    go_ahead: "220 2.0.0 Ready to start TLS",
    again: "503 5.5.1 TLS is already active",
    has_argument: "501 5.5.4 STARTTLS takes no argument",
    free: &["HELO", "NOOP", "RSET", "QUIT"],
    refusal: "530 5.7.0 Must issue a STARTTLS command first",
    hidden_before: &["AUTH", "AUTH="],
    malformed: "554 5.5.0 Closing connection: the client sent {}",
    unavailable: "421 4.3.2 No server is available",
    has_one_code: true,
    greetings: &["220"],
    greeting: "220 {} ESMTP",
    hello: Some("EHLO"),
    request: ("STARTTLS", "220"),
    ..NONE
};

/// RFC 2033: SMTP with another hello.
pub(super) const LMTP: ProtocolWords = ProtocolWords {
    capabilities: &["LHLO"],
    free: &["NOOP", "RSET", "QUIT"],
    greeting: "220 {} LMTP",
    hello: Some("LHLO"),
    ..SMTP
};

/// RFC 9051, and RFC 2595 for LOGINDISABLED.
pub(super) const IMAP: ProtocolWords = ProtocolWords {
    framing: ReplyFraming::Tagged,
    capabilities: &["CAPABILITY"],
    go_ahead: "OK Begin TLS negotiation now",
    again: "BAD TLS is already active",
    has_argument: "BAD STARTTLS takes no argument",
    free: &["NOOP", "LOGOUT", "ID"],
    refusal: "NO [PRIVACYREQUIRED] Use STARTTLS first",
    refused: &[("", "BAD A command has a tag before it")],
    offered: [&["STARTTLS"], &["LOGINDISABLED"]],
    hidden_before: &["AUTH=", "LOGINDISABLED"],
    malformed: "* BYE The client sent {}",
    unavailable: "* BYE [UNAVAILABLE] No server is available",
    greetings: &["* OK"],
    greeting: "* OK Ready",
    request: ("starttls STARTTLS", "starttls OK"),
    ..NONE
};

/// RFC 2595 section 4.
pub(super) const POP3: ProtocolWords = ProtocolWords {
    framing: ReplyFraming::Pop3,
    capabilities: &["CAPA"],
    start: &["STLS"],
    go_ahead: "+OK Begin TLS negotiation now",
    again: "-ERR TLS is already active",
    has_argument: "-ERR STLS takes no argument",
    free: &["NOOP", "QUIT"],
    refusal: "-ERR [AUTH] Use STLS first",
    offered: [&["STLS"], &[]],
    hidden: &["STLS"],
    hidden_before: &["USER", "SASL"],
    malformed: "-ERR [SYS/PERM] The client sent {}",
    unavailable: "-ERR [SYS/TEMP] No server is available",
    greetings: &["+OK"],
    greeting: "+OK Ready",
    request: ("STLS", "+OK"),
    ..NONE
};

/// RFC 4217, for the control connection. The data connections are the server's own, in plaintext,
/// so that their protection is refused (RFC 2228 section 3).
pub(super) const FTP: ProtocolWords = ProtocolWords {
    capabilities: &["FEAT"],
    start: &["AUTH TLS", "AUTH SSL", "AUTH TLS-C"],
    go_ahead: "234 Proceed with negotiation",
    again: "503 TLS is already active",
    has_argument: "501 AUTH TLS takes no argument",
    free: &["NOOP", "HELP", "QUIT"],
    refusal: "530 Use AUTH TLS first",
    refused: &[
        ("AUTH TLS-P", "534 Data connections are not protected: use AUTH TLS"),
        ("AUTH", "504 Use AUTH TLS"),
    ],
    offered: [&[" AUTH TLS", " PBSZ", " PROT"], &[]],
    hidden: &["AUTH", "PBSZ", "PROT"],
    answered: &[
        ("PBSZ", "200 PBSZ=0"),
        ("PROT C", "200 Data connections are not protected"),
        ("PROT", "536 Only the control connection is protected: use PROT C"),
        ("CCC", "534 The control connection stays protected"),
        // REIN would end TLS (RFC 4217 section 11).
        ("REIN", "502 The control connection stays protected"),
    ],
    lasting: Some("USER"),
    malformed: "421 The client sent {}",
    unavailable: "421 No server is available",
    greetings: &["220"],
    greeting: "220 Ready",
    request: ("AUTH TLS", "234"),
    ..NONE
};

/// RFC 5804 section 2.2.
pub(super) const SIEVE: ProtocolWords = ProtocolWords {
    framing: ReplyFraming::Sieve,
    capabilities: &["CAPABILITY"],
    go_ahead: "OK \"Begin TLS negotiation now\"",
    again: "NO \"TLS is already active\"",
    has_argument: "NO \"STARTTLS takes no argument\"",
    free: &["NOOP", "LOGOUT"],
    refusal: "NO (ENCRYPT-NEEDED) \"Use STARTTLS first\"",
    offered: [&["\"STARTTLS\""], &["\"SASL\" \"\""]],
    hidden_before: &["SASL"],
    greets_again: true,
    malformed: "BYE \"The client sent {}\"",
    unavailable: "BYE (TRYLATER) \"No server is available\"",
    greetings: &["OK"],
    request: ("STARTTLS", "OK"),
    ..NONE
};

/// RFC 4642.
pub(super) const NNTP: ProtocolWords = ProtocolWords {
    framing: ReplyFraming::CodesAndDot,
    capabilities: &["CAPABILITIES"],
    go_ahead: "382 Continue with TLS negotiation",
    again: "502 TLS is already active",
    has_argument: "501 STARTTLS takes no argument",
    free: &["MODE", "HELP", "DATE", "QUIT"],
    refusal: "483 Use STARTTLS first",
    hidden_before: &["AUTHINFO", "SASL"],
    malformed: "400 The client sent {}",
    unavailable: "400 No server is available",
    greetings: &["200", "201"],
    greeting: "200 Ready",
    request: ("STARTTLS", "382"),
    ..NONE
};
