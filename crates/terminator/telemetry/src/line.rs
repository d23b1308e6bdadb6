//! The lines about connections: one a connection, as text or JSON, and how many there may be.
//!
//! Owns the form. Lines are written into the caller's buffer; nothing is allocated beside it, no
//! clock is read and nothing is sent.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::outcome::{
    EarlyData, EncryptedBy, HandshakeKind, Reason, ResumptionMiss, SessionTier, Version,
};
use crate::printable;
use wire::date::put_time;

/// What is shown of one value; a longer one is cut and ends in `...`. Names and alerts are shorter;
/// the bound is for what clients may send.
const VALUE_BYTES_MAX: usize = 256;

/// All that is said of one connection. Absent values are `-` in text and `null` in JSON.
#[derive(Clone, Debug)]
pub struct ConnectionLine<'a> {
    /// When it was accepted, in microseconds since the epoch.
    pub time_us: u64,
    /// Its number, unique among the worker process's connections.
    pub id: u64,
    /// Which worker had it.
    pub worker: usize,
    /// The service's name.
    pub service: &'a str,
    /// Who connected; by the PROXY header if there was one.
    pub client: ClientAddress<'a>,
    /// The address it came in at, as configured.
    pub listener: &'a str,
    /// The name the client asked for (RFC 6066).
    pub sni: Option<&'a str>,
    /// The version agreed on.
    pub version: Option<Version>,
    /// The suite's standard name.
    pub suite: Option<&'a str>,
    /// The group's standard name.
    pub group: Option<&'a str>,
    /// How the handshake was made.
    pub handshake: Option<HandshakeKind>,
    /// Why the session that the client offered was not resumed.
    pub resumption_miss: Option<ResumptionMiss>,
    /// Where the session was found that the client offered and this host did not have.
    pub session_tier: Option<SessionTier>,
    /// What became of early data, if the client offered any.
    pub early_data: Option<EarlyData>,
    /// The protocol agreed on (RFC 7301).
    pub alpn: Option<&'a [u8]>,
    /// What encrypted the records that the client was sent, at the end.
    pub encrypted_by: Option<EncryptedBy>,
    /// The common name of the client's certificate.
    pub client_cn: Option<&'a str>,
    /// The server it was given to, as configured.
    pub server: Option<&'a str>,
    /// The version agreed on with the server, if it speaks TLS.
    pub server_version: Option<Version>,
    /// The suite agreed on with it.
    pub server_suite: Option<&'a str>,
    /// Whether a session with it was resumed.
    pub server_resumed: Option<bool>,
    /// Plaintext bytes from client to backend.
    pub bytes_up: u64,
    /// Plaintext bytes from backend to client.
    pub bytes_down: u64,
    /// From the hello's first byte to the handshake's end.
    pub handshake_us: Option<u64>,
    /// The dial that succeeded.
    pub dial_us: Option<u64>,
    /// From accept to the end.
    pub total_us: u64,
    /// Dials after the first.
    pub retries: u32,
    /// How many connections that ended alike this line stands for.
    pub sampled: u32,
    /// Why it ended.
    pub reason: Reason,
    /// What else is known: the alert's name, the library's message.
    pub detail: Option<&'a str>,
}

/// Who connected.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientAddress<'a> {
    /// Over TCP. IPv4 in IPv6 is shown as IPv4.
    Ip(SocketAddr),
    /// Anything else, as text.
    Text(&'a str),
}

/// How many lines were not written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SuppressedLine {
    /// Now, in microseconds since the epoch.
    pub time_us: u64,
    /// Whose connections they were.
    pub worker: usize,
    /// Why they ended.
    pub reason: Reason,
    /// How many.
    pub count: u64,
    /// How many connections each of them would have stood for.
    pub sampled: u32,
}

impl ConnectionLine<'_> {
    /// Appends `key=value` pairs and a line feed. Values with anything but printable ASCII in them
    /// are quoted, bytes outside it written `\xNN`.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        self.write(&mut Text { out });
    }

    /// Appends a JSON object and a line feed. Bytes that are not UTF-8 become U+FFFD.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write(&mut Json { out });
    }

    /// The one order of the fields.
    fn write(&self, form: &mut impl Form) {
        form.time("time", self.time_us);
        form.id("id", self.id);
        form.number("worker", self.worker as u64);
        form.string("service", Some(self.service.as_bytes()));
        self.write_client(form);
        form.string("listener", Some(self.listener.as_bytes()));
        form.string("sni", self.sni.map(str::as_bytes));
        form.word("version", self.version.map(Version::name));
        form.string("suite", self.suite.map(str::as_bytes));
        form.string("group", self.group.map(str::as_bytes));
        form.word("handshake", self.handshake.map(HandshakeKind::name));
        form.word(
            "resumption_miss",
            self.resumption_miss.map(ResumptionMiss::name),
        );
        form.word("session_tier", self.session_tier.map(SessionTier::name));
        form.word("early_data", self.early_data.map(EarlyData::name));
        form.string("alpn", self.alpn);
        form.word("encrypted_by", self.encrypted_by.map(EncryptedBy::name));
        form.string("client_cn", self.client_cn.map(str::as_bytes));
        form.string("server", self.server.map(str::as_bytes));
        form.word("server_version", self.server_version.map(Version::name));
        form.string("server_suite", self.server_suite.map(str::as_bytes));
        let word = |is_resumed| if is_resumed { "resumed" } else { "full" };
        form.word("server_handshake", self.server_resumed.map(word));
        form.number("bytes_up", self.bytes_up);
        form.number("bytes_down", self.bytes_down);
        form.optional_number("handshake_us", self.handshake_us);
        form.optional_number("dial_us", self.dial_us);
        form.number("total_us", self.total_us);
        form.number("retries", u64::from(self.retries));
        form.number("sampled", u64::from(self.sampled));
        form.word("fault", Some(self.reason.fault()));
        form.word("reason", Some(self.reason.name()));
        form.string("detail", self.detail.map(str::as_bytes));
        form.end();
    }

    fn write_client(&self, form: &mut impl Form) {
        match self.client {
            ClientAddress::Ip(address) => {
                let ip = address.ip().to_canonical();
                form.address("client", SocketAddr::new(ip, address.port()));
            }
            ClientAddress::Text(text) => form.string("client", Some(text.as_bytes())),
        }
    }
}

impl SuppressedLine {
    /// Appends `key=value` pairs and a line feed.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        self.write(&mut Text { out });
    }

    /// Appends a JSON object and a line feed.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write(&mut Json { out });
    }

    fn write(&self, form: &mut impl Form) {
        form.time("time", self.time_us);
        form.number("worker", self.worker as u64);
        form.number("suppressed", self.count);
        form.number("sampled", u64::from(self.sampled));
        form.word("fault", Some(self.reason.fault()));
        form.word("reason", Some(self.reason.name()));
        form.end();
    }
}

/// Lets through so many lines a second for each reason and counts the others.
#[derive(Clone, Debug)]
pub struct LineLimiter {
    failures_per_second: u32,
    successes_per_second: u32,
    reasons: [Allowance; Reason::ALL.len()],
}

/// One reason's second.
#[derive(Clone, Copy, Debug, Default)]
struct Allowance {
    /// `None` until the first line.
    since: Option<Instant>,
    admitted: u32,
    suppressed: u64,
    /// When the first of them was; `None` while there are none to tell of.
    suppressed_since: Option<Instant>,
}

impl LineLimiter {
    /// So many lines a second for each reason that is a failure, and for each that is none.
    pub fn new(failures_per_second: u32, successes_per_second: u32) -> Self {
        Self {
            failures_per_second,
            successes_per_second,
            reasons: [Allowance::default(); Reason::ALL.len()],
        }
    }

    /// Whether a line with this reason may be written now. If not, it has been counted.
    pub fn admit(&mut self, reason: Reason, now: Instant) -> bool {
        let allowance = &mut self.reasons[reason as usize];
        if allowance.since.is_none_or(|since| is_over(since, now)) {
            allowance.since = Some(now);
            allowance.admitted = 0;
        }
        let per_second = if reason.is_fault() {
            self.failures_per_second
        } else {
            self.successes_per_second
        };
        let admitted = allowance.admitted < per_second;
        if admitted {
            allowance.admitted += 1;
        } else {
            allowance.suppressed += 1;
            allowance.suppressed_since.get_or_insert(now);
        }
        admitted
    }

    /// Hands over, for each reason with lines not written a second ago or longer, how many these
    /// are, and forgets them. To be called about once a second, or before each [`Self::admit`].
    pub fn take_suppressed(&mut self, now: Instant, mut each: impl FnMut(Reason, u64)) {
        for (reason, allowance) in Reason::ALL.iter().zip(&mut self.reasons) {
            let since = allowance.suppressed_since;
            if since.is_some_and(|since| is_over(since, now)) {
                allowance.suppressed_since = None;
                each(*reason, std::mem::take(&mut allowance.suppressed));
            }
        }
    }
}

fn is_over(since: Instant, now: Instant) -> bool {
    now.saturating_duration_since(since) >= Duration::from_secs(1)
}

/// How a line is written.
trait Form {
    fn key(&mut self, key: &str);
    fn absent(&mut self);
    fn value(&mut self, value: &[u8]);
    /// A value that needs no escape, as JSON quotes it and text does not.
    fn quote(&mut self);
    fn out(&mut self) -> &mut Vec<u8>;
    fn end(&mut self);

    fn string(&mut self, key: &str, value: Option<&[u8]>) {
        self.key(key);
        match value {
            Some(value) => self.value(value),
            None => self.absent(),
        }
    }

    /// One of our own words.
    fn word(&mut self, key: &str, value: Option<&str>) {
        self.key(key);
        let Some(word) = value else {
            return self.absent();
        };
        self.quote();
        self.out().extend_from_slice(word.as_bytes());
        self.quote();
    }

    fn number(&mut self, key: &str, value: u64) {
        self.key(key);
        put_number(self.out(), value);
    }

    fn optional_number(&mut self, key: &str, value: Option<u64>) {
        self.key(key);
        match value {
            Some(value) => put_number(self.out(), value),
            None => self.absent(),
        }
    }

    fn id(&mut self, key: &str, id: u64) {
        self.key(key);
        self.quote();
        let digits: [u8; 16] = std::array::from_fn(|i| hex(id >> (60 - 4 * i)));
        self.out().extend_from_slice(&digits);
        self.quote();
    }

    fn time(&mut self, key: &str, time_us: u64) {
        self.key(key);
        self.quote();
        put_time(self.out(), time_us);
        self.quote();
    }

    fn address(&mut self, key: &str, address: SocketAddr) {
        self.key(key);
        self.quote();
        write!(self.out(), "{address}").expect("a Vec takes all that is written");
        self.quote();
    }
}

struct Text<'a> {
    out: &'a mut Vec<u8>,
}

impl Form for Text<'_> {
    fn key(&mut self, key: &str) {
        if self.out.last().is_some_and(|last| *last != b'\n') {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(key.as_bytes());
        self.out.push(b'=');
    }

    fn absent(&mut self) {
        self.out.push(b'-');
    }

    fn quote(&mut self) {}

    fn value(&mut self, value: &[u8]) {
        let (shown, is_cut) = cut(value);
        let is_plain = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'=');
        if !shown.is_empty() && shown != b"-" && !is_cut && shown.iter().all(is_plain) {
            return self.out.extend_from_slice(shown);
        }
        self.out.push(b'"');
        for &b in shown {
            match b {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', b]),
                b' '..=b'~' => self.out.push(b),
                _ => {
                    let (high, low) = (hex(u64::from(b) >> 4), hex(u64::from(b)));
                    self.out.extend_from_slice(&[b'\\', b'x', high, low]);
                }
            }
        }
        self.out
            .extend_from_slice(if is_cut { b"...\"" } else { b"\"" });
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    fn end(&mut self) {
        self.out.push(b'\n');
    }
}

struct Json<'a> {
    out: &'a mut Vec<u8>,
}

impl Form for Json<'_> {
    fn key(&mut self, key: &str) {
        let is_first = self.out.last().is_none_or(|last| *last == b'\n');
        self.out
            .extend_from_slice(if is_first { b"{\"" } else { b",\"" });
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn absent(&mut self) {
        self.out.extend_from_slice(b"null");
    }

    fn quote(&mut self) {
        self.out.push(b'"');
    }

    fn value(&mut self, value: &[u8]) {
        let (shown, is_cut) = cut(value);
        self.out.push(b'"');
        for chunk in shown.utf8_chunks() {
            chunk
                .valid()
                .chars()
                .for_each(|c| put_json_char(self.out, c));
            if !chunk.invalid().is_empty() {
                self.out.extend_from_slice("\u{fffd}".as_bytes());
            }
        }
        self.out
            .extend_from_slice(if is_cut { b"...\"" } else { b"\"" });
    }

    fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    fn end(&mut self) {
        self.out.extend_from_slice(b"}\n");
    }
}

/// A whole string.
pub(crate) fn put_json_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    text.chars().for_each(|c| put_json_char(out, c));
    out.push(b'"');
}

/// RFC 8259, section 7; and what a viewer of the log would obey rather than show.
fn put_json_char(out: &mut Vec<u8>, c: char) {
    let (mut bytes, escapes) = ([0; 4], matches!(c, '"' | '\\'));
    let text = c.encode_utf8(&mut bytes);
    if printable::is_control(c) {
        write!(out, "{}", printable::line(text)).expect("a Vec takes all that is written");
    } else {
        out.extend(escapes.then_some(b'\\'));
        out.extend_from_slice(text.as_bytes());
    }
}

/// What is shown of a value, and whether that is not all.
fn cut(value: &[u8]) -> (&[u8], bool) {
    match value.split_at_checked(VALUE_BYTES_MAX) {
        Some((shown, rest)) => (shown, !rest.is_empty()),
        None => (value, false),
    }
}

/// The lowest four bits as a digit.
fn hex(bits: u64) -> u8 {
    b"0123456789abcdef"[(bits & 15) as usize]
}

fn put_number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> ConnectionLine<'static> {
        ConnectionLine {
            time_us: 1_709_164_800_000_042,
            id: 0xab,
            worker: 3,
            service: "web",
            client: ClientAddress::Ip("[::ffff:192.0.2.7]:40000".parse().unwrap()),
            listener: "[::]:443",
            sni: Some("example.com"),
            version: Some(Version::Tls13),
            suite: Some("TLS_AES_128_GCM_SHA256"),
            group: Some("x25519"),
            handshake: Some(HandshakeKind::Full),
            resumption_miss: Some(ResumptionMiss::KeyTooOld),
            session_tier: Some(SessionTier::Peers),
            early_data: Some(EarlyData::Refused),
            alpn: Some(b"h2"),
            encrypted_by: Some(EncryptedBy::UserSpace),
            client_cn: None,
            server: Some("10.0.0.3:80"),
            server_version: Some(Version::Tls12),
            server_suite: None,
            server_resumed: Some(true),
            bytes_up: 0,
            bytes_down: u64::MAX,
            handshake_us: Some(1234),
            dial_us: None,
            total_us: 10,
            retries: 1,
            sampled: 10,
            reason: Reason::ClientClosed,
            detail: None,
        }
    }

    fn text(line: &ConnectionLine<'_>) -> String {
        let mut out = Vec::new();
        line.write_text(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    fn json(line: &ConnectionLine<'_>) -> String {
        let mut out = Vec::new();
        line.write_json(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn text_has_all_fields_in_one_order() {
        assert_eq!(
            text(&line()),
            "time=2024-02-29T00:00:00.000042Z id=00000000000000ab worker=3 service=web \
             client=192.0.2.7:40000 listener=[::]:443 sni=example.com version=TLSv1.3 \
             suite=TLS_AES_128_GCM_SHA256 group=x25519 handshake=full resumption_miss=key-too-old \
             session_tier=peers early_data=refused alpn=h2 encrypted_by=user-space client_cn=- \
             server=10.0.0.3:80 server_version=TLSv1.2 server_suite=- server_handshake=resumed \
             bytes_up=0 \
             bytes_down=18446744073709551615 handshake_us=1234 dial_us=- total_us=10 retries=1 \
             sampled=10 fault=none reason=client-closed detail=-\n"
        );
    }

    #[test]
    fn json_has_the_same_fields() {
        assert_eq!(
            json(&line()),
            "{\"time\":\"2024-02-29T00:00:00.000042Z\",\"id\":\"00000000000000ab\",\"worker\":3,\
             \"service\":\"web\",\"client\":\"192.0.2.7:40000\",\"listener\":\"[::]:443\",\
             \"sni\":\"example.com\",\"version\":\"TLSv1.3\",\
             \"suite\":\"TLS_AES_128_GCM_SHA256\",\"group\":\"x25519\",\"handshake\":\"full\",\
             \"resumption_miss\":\"key-too-old\",\"session_tier\":\"peers\",\"early_data\":\"refused\",\"alpn\":\"h2\",\
             \"encrypted_by\":\"user-space\",\
             \"client_cn\":null,\"server\":\"10.0.0.3:80\",\
             \"server_version\":\"TLSv1.2\",\"server_suite\":null,\
             \"server_handshake\":\"resumed\",\"bytes_up\":0,\
             \"bytes_down\":18446744073709551615,\"handshake_us\":1234,\"dial_us\":null,\
             \"total_us\":10,\"retries\":1,\"sampled\":10,\"fault\":\"none\",\"reason\":\"client-closed\",\
             \"detail\":null}\n"
        );
    }

    #[test]
    fn no_value_breaks_out_of_its_field() {
        let mut evil = line();
        evil.sni = Some("a b\n\"=\\\u{85}\u{202e}é");
        evil.alpn = Some(b"\xff\0h2");
        evil.client_cn = Some("-");
        evil.detail = Some("");
        let shown = text(&evil);
        assert_eq!(shown.lines().count(), 1);
        assert!(
            shown.contains(r#" sni="a b\x0a\"=\\\xc2\x85\xe2\x80\xae\xc3\xa9" "#),
            "{shown}"
        );
        for field in [r#" alpn="\xff\x00h2" "#, r#" client_cn="-" "#] {
            assert!(shown.contains(field), "{shown}");
        }
        assert!(shown.ends_with(" detail=\"\"\n"), "{shown}");
        let shown = json(&evil);
        assert_eq!(shown.lines().count(), 1);
        assert!(
            shown.contains("\"sni\":\"a b\\u000a\\\"=\\\\\\u0085\\u202eé\","),
            "{shown}"
        );
        assert!(shown.contains("\"alpn\":\"\u{fffd}\\u0000h2\","), "{shown}");
    }

    #[test]
    fn every_byte_stays_in_its_line() {
        let all: Vec<u8> = (0..=255).collect();
        for b in &all {
            let mut one = line();
            let value = [*b];
            one.alpn = Some(&value);
            let mut out = Vec::new();
            one.write_text(&mut out);
            one.write_json(&mut out);
            assert_eq!(out.iter().filter(|b| **b == b'\n').count(), 2);
            assert!(std::str::from_utf8(&out).is_ok());
        }
    }

    #[test]
    fn long_values_are_cut() {
        let long = "x".repeat(10_000);
        let mut one = line();
        one.detail = Some(&long);
        assert!(text(&one).len() < 1000);
        assert!(text(&one).ends_with("x...\"\n"));
        assert!(json(&one).ends_with("x...\"}\n"));
    }

    #[test]
    fn lines_follow_each_other() {
        let mut out = Vec::new();
        for _ in 0..2 {
            line().write_text(&mut out);
        }
        for _ in 0..2 {
            line().write_json(&mut out);
        }
        let shown = String::from_utf8(out).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!((lines[0], lines[2]), (lines[1], lines[3]));
    }

    #[test]
    fn a_fault_names_its_side() {
        let mut one = line();
        one.reason = Reason::BackendRefused;
        assert!(text(&one).contains(" fault=backend reason=backend-refused "));
    }

    #[test]
    fn lines_beyond_the_limit_are_counted_and_told_when_the_second_is_over() {
        let start = Instant::now();
        let mut limiter = LineLimiter::new(2, 3);
        let admitted = (0..10)
            .filter(|_| limiter.admit(Reason::NotTls, start))
            .count();
        assert_eq!(admitted, 2);
        assert!(limiter.admit(Reason::ClientReset, start));
        let well = (0..10).filter(|_| limiter.admit(Reason::ClientClosed, start));
        assert_eq!(well.count(), 3);
        let mut told = Vec::new();
        limiter.take_suppressed(start, |reason, count| told.push((reason, count)));
        assert!(told.is_empty());

        let later = start + Duration::from_secs(1);
        assert!(limiter.admit(Reason::ClientReset, later));
        limiter.take_suppressed(later, |reason, count| told.push((reason, count)));
        limiter.take_suppressed(later, |reason, count| told.push((reason, count)));
        assert_eq!(told, [(Reason::ClientClosed, 7), (Reason::NotTls, 8)]);
        assert!(limiter.admit(Reason::NotTls, later));
    }

    #[test]
    fn a_flood_that_goes_on_is_told_each_second() {
        let start = Instant::now();
        let mut limiter = LineLimiter::new(0, 1);
        let mut told = Vec::new();
        for tick in 0..25 {
            let now = start + Duration::from_millis(100 * tick);
            assert!(!limiter.admit(Reason::NotTls, now));
            limiter.take_suppressed(now, |_, count| told.push(count));
        }
        assert_eq!(told, [11, 11]);
        let end = start + Duration::from_secs(9);
        limiter.take_suppressed(end, |_, count| told.push(count));
        assert_eq!(told, [11, 11, 3]);
    }

    #[test]
    fn suppressed_lines_name_count_and_reason() {
        let line = SuppressedLine {
            time_us: 0,
            worker: 1,
            reason: Reason::NotTls,
            count: 123,
            sampled: 1,
        };
        let mut out = Vec::new();
        line.write_text(&mut out);
        line.write_json(&mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "time=1970-01-01T00:00:00.000000Z worker=1 suppressed=123 sampled=1 fault=client reason=not-tls\n\
             {\"time\":\"1970-01-01T00:00:00.000000Z\",\"worker\":1,\"suppressed\":123,\"sampled\":1,\
             \"fault\":\"client\",\"reason\":\"not-tls\"}\n"
        );
    }
}
