//! Writes one line per connection, as text or JSON, and limits their number.
//!
//! Handles the form. Lines go into the caller's buffer; nothing else is allocated, no clock is
//! read, nothing is sent.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::form;
use crate::form::{Facility, FieldWriter, Form};
use crate::outcome::{
    EarlyData, EncryptedBy, HandshakeKind, LogLevel, Reason, ResumptionMiss, SessionTier, Version,
};

/// Form of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineFormat {
    /// JSON object. Bytes that are not UTF-8 become U+FFFD.
    Json,
    /// `key=value` pairs. Values with anything but printable ASCII are quoted, other bytes written
    /// `\xNN`.
    Text,
}

/// Frame of a line, which contains its fields as well.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Envelope {
    Bare,
    /// An entry for syslog, without its origin: [`form::complete_syslog`].
    Syslog(Facility),
    /// An entry for journald, whose fields are on one line: [`form::complete_journal`].
    Journal,
}

/// Appends a line and a line feed, within its envelope.
fn put(
    (time_us, reason): (u64, Reason),
    format: LineFormat,
    envelope: Envelope,
    out: &mut Vec<u8>,
    put_fields: impl Fn(FieldWriter<'_>),
) {
    let level = level(reason);
    match envelope {
        Envelope::Bare => {}
        Envelope::Syslog(facility) => {
            form::put_syslog_start(out, (facility, level), time_us);
            out.extend_from_slice(b"connection [");
            out.extend_from_slice(form::DATA_ID);
            put_fields(FieldWriter::new(Form::StructuredData, out));
            out.extend_from_slice(b"] ");
        }
        Envelope::Journal => {
            form::put_journal_start(out, level);
            put_fields(FieldWriter::new(Form::JournalFields, out));
            out.extend_from_slice(form::JOURNAL_MESSAGE);
        }
    }
    let form = match format {
        LineFormat::Json => Form::Json,
        LineFormat::Text => Form::Text,
    };
    put_fields(FieldWriter::new(form, out));
    out.push(b'\n');
}

/// Returns the severity of an end: a fault of a server deserves attention, a fault of this host
/// means that something is broken.
fn level(reason: Reason) -> LogLevel {
    match reason.fault() {
        "host" => LogLevel::Error,
        "backend" => LogLevel::Warning,
        "client" => LogLevel::Notice,
        _ => LogLevel::Info,
    }
}

/// The facts about one connection. Absent values are `-` in text and `null` in JSON.
#[derive(Clone, Debug)]
pub struct ConnectionLine<'a> {
    /// Time of accept, in microseconds since the epoch.
    pub time_us: u64,
    /// Number, unique among the worker process's connections.
    pub id: u64,
    pub worker: usize,
    pub service: &'a str,
    /// Client address; from the PROXY header if there was one.
    pub client: ClientAddress<'a>,
    /// Address that accepted the connection, as configured.
    pub listener: &'a str,
    /// Name that the client asked for (RFC 6066).
    pub sni: Option<&'a str>,
    /// JA4 fingerprint of the client's hello.
    pub ja4: Option<&'a str>,
    pub version: Option<Version>,
    pub suite: Option<&'a str>,
    pub group: Option<&'a str>,
    /// Kind of the handshake.
    pub handshake: Option<HandshakeKind>,
    /// Reason why the session that the client offered was not resumed.
    pub resumption_miss: Option<ResumptionMiss>,
    /// Tier that had the session which the client offered and this host lacked.
    pub session_tier: Option<SessionTier>,
    /// Outcome of early data, if the client offered any.
    pub early_data: Option<EarlyData>,
    /// Protocol agreed on (RFC 7301).
    pub alpn: Option<&'a [u8]>,
    /// Encryptor of the records that the client was sent, at the end.
    pub encrypted_by: Option<EncryptedBy>,
    /// Common name of the client's certificate.
    pub client_cn: Option<&'a str>,
    /// Server that the connection was given to, as configured.
    pub server: Option<&'a str>,
    /// Version agreed on with the server, if it speaks TLS.
    pub server_version: Option<Version>,
    /// Suite agreed on with the server.
    pub server_suite: Option<&'a str>,
    /// Whether a session with the server was resumed.
    pub server_resumed: Option<bool>,
    /// Plaintext bytes from client to backend.
    pub bytes_up: u64,
    /// Plaintext bytes from backend to client.
    pub bytes_down: u64,
    /// Time from the first byte of the hello to the end of the handshake.
    pub handshake_us: Option<u64>,
    pub dial_us: Option<u64>,
    /// Time from accept to the end.
    pub total_us: u64,
    pub retries: u32,
    /// Number of connections that ended alike and that this line stands for.
    pub sampled: u32,
    pub reason: Reason,
    /// Further details: the alert's name, the library's message.
    pub detail: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ClientAddress<'a> {
    /// A TCP address. IPv4-mapped IPv6 is shown as IPv4.
    Ip(SocketAddr),
    Text(&'a str),
}

/// Number of lines that were not written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SuppressedLine {
    /// Now, in microseconds since the epoch.
    pub time_us: u64,
    pub worker: usize,
    pub reason: Reason,
    pub count: u64,
    /// Number of connections that each of the lines would have stood for.
    pub sampled: u32,
}

impl ConnectionLine<'_> {
    /// Appends the line and a line feed, within its envelope.
    pub fn write(&self, format: LineFormat, envelope: Envelope, out: &mut Vec<u8>) {
        put((self.time_us, self.reason), format, envelope, out, |fields| self.put_fields(fields));
    }

    fn put_fields(&self, mut form: FieldWriter<'_>) {
        form.time("time", self.time_us);
        form.id("id", self.id);
        form.number("worker", self.worker as u64);
        form.string("service", Some(self.service.as_bytes()));
        self.write_client(&mut form);
        form.string("listener", Some(self.listener.as_bytes()));
        form.string("sni", self.sni.map(str::as_bytes));
        form.string("ja4", self.ja4.map(str::as_bytes));
        form.word("version", self.version.map(Version::name));
        form.string("suite", self.suite.map(str::as_bytes));
        form.string("group", self.group.map(str::as_bytes));
        form.word("handshake", self.handshake.map(HandshakeKind::name));
        form.word("resumption_miss", self.resumption_miss.map(ResumptionMiss::name));
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

    fn write_client(&self, form: &mut FieldWriter<'_>) {
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
    /// Appends the line and a line feed, within its envelope.
    pub fn write(&self, format: LineFormat, envelope: Envelope, out: &mut Vec<u8>) {
        put((self.time_us, self.reason), format, envelope, out, |fields| self.put_fields(fields));
    }

    fn put_fields(&self, mut form: FieldWriter<'_>) {
        form.time("time", self.time_us);
        form.number("worker", self.worker as u64);
        form.number("suppressed", self.count);
        form.number("sampled", u64::from(self.sampled));
        form.word("fault", Some(self.reason.fault()));
        form.word("reason", Some(self.reason.name()));
        form.end();
    }
}

/// Admits a number of lines per second for each reason, and counts the others.
#[derive(Clone, Debug)]
pub struct LineLimiter {
    failures_per_second: u32,
    successes_per_second: u32,
    reasons: [LineAllowance; Reason::ALL.len()],
}

/// The current second of one reason.
#[derive(Clone, Copy, Debug, Default)]
struct LineAllowance {
    /// Start of the second; `None` until the first line.
    since: Option<Instant>,
    admitted: u32,
    suppressed: u64,
    /// Time of the first suppressed line; `None` if there are none to report.
    suppressed_since: Option<Instant>,
}

impl LineLimiter {
    /// Limits the lines per second for each reason that is a failure, and for each other reason.
    pub fn new(failures_per_second: u32, successes_per_second: u32) -> Self {
        Self {
            failures_per_second,
            successes_per_second,
            reasons: [LineAllowance::default(); Reason::ALL.len()],
        }
    }

    /// Reports whether a line with this reason may be written now; counts it if not.
    pub fn admit(&mut self, reason: Reason, now: Instant) -> bool {
        let allowance = &mut self.reasons[reason as usize];
        if allowance.since.is_none_or(|since| is_over(since, now)) {
            allowance.since = Some(now);
            allowance.admitted = 0;
        }
        let per_second =
            if reason.is_fault() { self.failures_per_second } else { self.successes_per_second };
        let admitted = allowance.admitted < per_second;
        if admitted {
            allowance.admitted += 1;
        } else {
            allowance.suppressed += 1;
            allowance.suppressed_since.get_or_insert(now);
        }
        admitted
    }

    /// Passes on and forgets the number of suppressed lines, for each reason whose first one is a
    /// second old or more. Must be called about once a second, or before each [`Self::admit`].
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
            ja4: None,
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
        line.write(LineFormat::Text, Envelope::Bare, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    fn json(line: &ConnectionLine<'_>) -> String {
        let mut out = Vec::new();
        line.write(LineFormat::Json, Envelope::Bare, &mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn text_has_all_fields_in_one_order() {
        assert_eq!(
            text(&line()),
            "time=2024-02-29T00:00:00.000042Z id=00000000000000ab worker=3 service=web \
             client=192.0.2.7:40000 listener=[::]:443 sni=example.com ja4=- version=TLSv1.3 \
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
             \"sni\":\"example.com\",\"ja4\":null,\"version\":\"TLSv1.3\",\
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
        assert!(shown.contains(r#" sni="a b\x0a\"=\\\xc2\x85\xe2\x80\xae\xc3\xa9" "#), "{shown}");
        for field in [r#" alpn="\xff\x00h2" "#, r#" client_cn="-" "#] {
            assert!(shown.contains(field), "{shown}");
        }
        assert!(shown.ends_with(" detail=\"\"\n"), "{shown}");
        let shown = json(&evil);
        assert_eq!(shown.lines().count(), 1);
        assert!(shown.contains("\"sni\":\"a b\\u000a\\\"=\\\\\\u0085\\u202eé\","), "{shown}");
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
            one.write(LineFormat::Text, Envelope::Bare, &mut out);
            one.write(LineFormat::Json, Envelope::Bare, &mut out);
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
            line().write(LineFormat::Text, Envelope::Bare, &mut out);
        }
        for _ in 0..2 {
            line().write(LineFormat::Json, Envelope::Bare, &mut out);
        }
        let shown = String::from_utf8(out).unwrap();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!((lines[0], lines[2]), (lines[1], lines[3]));
    }

    #[test]
    fn entries_for_log_daemons_have_fields_and_the_line() {
        let mut one = line();
        one.reason = Reason::BackendRefused;
        one.detail = Some("a]b");
        let entry = |format, envelope| {
            let mut out = Vec::new();
            one.write(format, envelope, &mut out);
            String::from_utf8(out).unwrap()
        };
        let facility = Facility::named("local0").unwrap();
        let shown = entry(LineFormat::Text, Envelope::Syslog(facility));
        let data = concat!(
            "<132>1 2024-02-29T00:00:00.000042Z connection [lariat@32473 ",
            r#"time="2024-02-29T00:00:00.000042Z" id="00000000000000ab" worker="3" service="web" "#
        );
        assert!(shown.starts_with(data), "{shown}");
        let end =
            r#" reason="backend-refused" detail="a\]b"] time=2024-02-29T00:00:00.000042Z id="#;
        assert!(shown.contains(end), "{shown}");
        assert!(shown.ends_with(" detail=a]b\n"), "{shown}");
        // Absent values are left out.
        assert!(!shown.contains("client_cn=\""), "{shown}");

        let shown = entry(LineFormat::Json, Envelope::Journal);
        let fields: Vec<_> = shown.trim_end().split('\x1f').collect();
        assert_eq!(fields[..2], ["PRIORITY=4", "SYSLOG_IDENTIFIER=lariat"]);
        assert!(fields.contains(&"LARIAT_BYTES_DOWN=18446744073709551615"));
        assert!(fields.contains(&"LARIAT_SNI=example.com"));
        let message = fields.last().unwrap();
        assert!(message.starts_with("MESSAGE={\"time\":\"2024-"), "{shown}");
        assert!(message.ends_with("\"detail\":\"a]b\"}"), "{shown}");
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
        let admitted = (0..10).filter(|_| limiter.admit(Reason::NotTls, start)).count();
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
        line.write(LineFormat::Text, Envelope::Bare, &mut out);
        line.write(LineFormat::Json, Envelope::Bare, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "time=1970-01-01T00:00:00.000000Z worker=1 suppressed=123 sampled=1 fault=client reason=not-tls\n\
             {\"time\":\"1970-01-01T00:00:00.000000Z\",\"worker\":1,\"suppressed\":123,\"sampled\":1,\
             \"fault\":\"client\",\"reason\":\"not-tls\"}\n"
        );
    }
}
