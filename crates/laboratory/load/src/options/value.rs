//! Values as people type them: durations, sizes, rates, names. Pure text to values.

use std::time::Duration;

use wire::address::{AddressError, Endpoint};

use crate::plan::{
    ClientSelection, ConnectionEnding, Group, Handshake, ProxyVersion, Signature, Spacing, Suite,
    Versions,
};

/// Why a text is no value of its setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ValueFault {
    /// It is not one of these names.
    Name(Vec<&'static str>),
    /// It has not the form that is wanted: what that is, and an example.
    Form(&'static str, &'static str),
    /// It has the form, but cannot be: why, and what to do instead.
    Refused(String, &'static str),
}

/// A number of things, or no bound.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    /// So often.
    Count(u32),
    /// As often as it goes.
    Unlimited,
}

impl Times {
    /// As a bound.
    #[must_use]
    pub fn bound(self) -> Option<u32> {
        match self {
            Self::Count(count) => Some(count),
            Self::Unlimited => None,
        }
    }
}

/// A value, or the word `none`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OrNone<T> {
    /// The word.
    Nothing,
    /// The value.
    This(T),
}

/// The kinds of handshake that are wanted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kinds {
    /// One.
    Only(Handshake),
    /// Full and every kind of resumption in turn.
    Mixed,
}

/// How the server's certificate is to be judged; the files come later.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verify {
    /// Not at all.
    Off,
    /// Whether it has the key.
    Signature,
    /// Whether it is who it should be.
    Full,
}

/// A rate that rises or falls evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Transactions a second at the beginning.
    pub from_per_s: f64,
    /// Transactions a second at the end.
    pub to_per_s: f64,
    /// How long it takes.
    pub time: Duration,
}

/// What a reader gives.
pub type Read<T> = Result<T, ValueFault>;

/// Longer ones are slips: a week.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Units of durations with their nanoseconds; longer names come before those that they end in.
const DURATION_UNITS: &[(&str, f64)] = &[
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// `250ms`, `1.5s`, `10m`.
pub(crate) fn duration(text: &str) -> Read<Duration> {
    let form = || ValueFault::Form("a time with its unit: us, ms, s, m or h", "10s");
    let (number, unit) = split_unit(text).ok_or_else(form)?;
    let found = DURATION_UNITS.iter().find(|(name, _)| *name == unit);
    let (_, nanoseconds) = found.ok_or_else(form)?;
    let nanoseconds = number * nanoseconds;
    if nanoseconds > LONGEST.as_nanos() as f64 {
        let why = "is longer than a week".to_owned();
        return Err(ValueFault::Refused(why, "take a shorter time"));
    }
    Ok(Duration::from_nanos(nanoseconds.round() as u64))
}

/// A duration that is not nothing.
///
/// # Errors
/// [`ValueFault`].
pub fn some_time(text: &str) -> Read<Duration> {
    let duration = duration(text)?;
    if duration.is_zero() {
        return Err(ValueFault::Refused(
            "is no time at all".to_owned(),
            "for example: 10s",
        ));
    }
    Ok(duration)
}

/// `500`, `512B`, `64k`, `1MiB`: powers of 1024, as our origin and httpterm count.
///
/// # Errors
/// [`ValueFault`].
pub fn size(text: &str) -> Read<u64> {
    let form = || ValueFault::Form("a size in bytes, or with k, m or g", "64k");
    let (number, unit) = split_unit(text).ok_or_else(form)?;
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return Err(form()),
    };
    let bytes = number * f64::from(1u32 << shift);
    if bytes.fract() != 0.0 || bytes > 2f64.powi(50) {
        return Err(form());
    }
    Ok(bytes as u64)
}

/// A number in decimal digits, and what follows it.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let number: f64 = number.parse().ok()?;
    Some((number, unit.trim_start()))
}

/// No load generator of ours does more in a second; a greater number is a slip.
const RATE_MAX: f64 = 1e7;

/// `500`, `2.5/s`, `10k`: transactions a second.
pub(crate) fn rate(text: &str) -> Read<f64> {
    let form = || ValueFault::Form("a rate: transactions a second", "500");
    let number = text.strip_suffix("/s").unwrap_or(text).trim_end();
    let (number, unit) = split_unit(number).ok_or_else(form)?;
    let rate = match unit {
        "" => number,
        "k" => number * 1000.0,
        _ => return Err(form()),
    };
    if rate > RATE_MAX {
        let why = "is more than 10,000,000 a second".to_owned();
        return Err(ValueFault::Refused(why, "take a lower rate"));
    }
    Ok(rate)
}

/// A rate that is not nothing.
pub(crate) fn some_rate(text: &str) -> Read<f64> {
    let rate = rate(text)?;
    if rate == 0.0 {
        return Err(ValueFault::Refused(
            "is no load".to_owned(),
            "for example: 500",
        ));
    }
    Ok(rate)
}

/// `100:2000:60s`.
pub(crate) fn ramp(text: &str) -> Read<Ramp> {
    let form = || ValueFault::Form("FROM:TO:TIME, two rates and a time", "100:2000:60s");
    let mut parts = text.splitn(3, ':').map(str::trim);
    let mut part = || {
        parts
            .next()
            .filter(|part| !part.is_empty())
            .ok_or_else(form)
    };
    let (from, to, time) = (part()?, part()?, part()?);
    let ramp = Ramp {
        from_per_s: rate(from)?,
        to_per_s: rate(to)?,
        time: some_time(time)?,
    };
    if ramp.from_per_s == 0.0 && ramp.to_per_s == 0.0 {
        let why = "begins and ends with no load".to_owned();
        return Err(ValueFault::Refused(why, "for example: 0:2000:60s"));
    }
    Ok(ramp)
}

/// `5%`: a share, above 0 and below 1.
pub(crate) fn percentage(text: &str) -> Read<f64> {
    let form = || ValueFault::Form("a percentage above 0 and below 100", "5%");
    let number = text.strip_suffix('%').ok_or_else(form)?.trim_end();
    let (number, rest) = split_unit(number).ok_or_else(form)?;
    if !rest.is_empty() || number <= 0.0 || number >= 100.0 {
        return Err(form());
    }
    Ok(number / 100.0)
}

/// A whole number from 1.
pub(crate) fn count(text: &str) -> Read<u64> {
    match text.parse() {
        Ok(0) => Err(ValueFault::Refused(
            "is nothing".to_owned(),
            "take 1 or more",
        )),
        Ok(count) => Ok(count),
        Err(_) => Err(ValueFault::Form("a whole number", "1000")),
    }
}

/// Clients and connections have their tables in memory, and a host has as many ports as this for
/// one address and server.
const CLIENTS_MAX: u64 = 1_000_000;

/// A number of clients or connections.
pub(crate) fn clients(text: &str) -> Read<u32> {
    bounded(count(text)?, CLIENTS_MAX, "is more than 1,000,000")
}

/// `4`, or `unlimited`.
pub(crate) fn times(text: &str) -> Read<Times> {
    if text == "unlimited" {
        return Ok(Times::Unlimited);
    }
    let number = count(text).map_err(|fault| match fault {
        ValueFault::Form(..) => ValueFault::Form("a whole number, or `unlimited`", "4"),
        other => other,
    })?;
    bounded(number, u32::MAX.into(), "is too many to count").map(Times::Count)
}

/// The kernel counts no more CPUs.
const THREADS_MAX: u64 = 1024;

/// A number of threads.
///
/// # Errors
/// [`ValueFault`].
pub fn threads(text: &str) -> Read<u16> {
    let number = bounded(count(text)?, THREADS_MAX, "is more than 1024")?;
    Ok(u16::try_from(number).unwrap_or(u16::MAX))
}

fn bounded(number: u64, max: u64, why: &str) -> Read<u32> {
    let fits = Some(number).filter(|number| *number <= max);
    fits.and_then(|number| u32::try_from(number).ok())
        .ok_or_else(|| ValueFault::Refused(why.to_owned(), "take a smaller number"))
}

/// Any number of 64 bits.
pub(crate) fn seed(text: &str) -> Read<u64> {
    let form = ValueFault::Form("a number from 0 to 18446744073709551615", "7");
    text.parse().map_err(|_| form)
}

/// `0,2-3`, or `none`.
///
/// # Errors
/// [`ValueFault`].
pub fn cpus(text: &str) -> Read<OrNone<Vec<u16>>> {
    if text == "none" {
        return Ok(OrNone::Nothing);
    }
    let form = || ValueFault::Form("CPU numbers and ranges, or `none`", "0,2-3");
    let mut cpus = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u16 = first.parse().map_err(|_| form())?;
        let last: u16 = last.parse().map_err(|_| form())?;
        if first > last || last >= 8192 {
            return Err(form());
        }
        cpus.extend(first..=last);
    }
    Ok(OrNone::This(cpus))
}

/// `on` or `off`.
pub(crate) fn on_off(text: &str) -> Read<bool> {
    one_of(
        text,
        &[
            ("on", true),
            ("off", false),
            ("true", true),
            ("false", false),
        ],
        2,
    )
}

/// What a switch holds: it is there, or `true` or `false`.
pub(crate) fn switch(text: &str) -> Read<bool> {
    one_of(text, &[("true", true), ("false", false)], 2)
}

/// One of a list of words. Those after the first `shown` are understood, but not told.
fn one_of<T: Copy>(text: &str, words: &[(&'static str, T)], shown: usize) -> Read<T> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let known = words.iter().take(shown).map(|(word, _)| *word);
        ValueFault::Name(known.collect())
    })
}

/// The kinds of handshake.
pub(crate) fn kinds(text: &str) -> Read<Kinds> {
    let words = [
        ("full", Kinds::Only(Handshake::Full)),
        ("session-id", Kinds::Only(Handshake::SessionId)),
        ("ticket", Kinds::Only(Handshake::Ticket)),
        ("psk", Kinds::Only(Handshake::Psk)),
        ("any", Kinds::Only(Handshake::Any)),
        ("mixed", Kinds::Mixed),
    ];
    one_of(text, &words, words.len())
}

/// Versions of TLS.
pub(crate) fn versions(text: &str) -> Read<Versions> {
    let words = [
        ("1.2", Versions::Tls12),
        ("1.3", Versions::Tls13),
        ("both", Versions::Both),
    ];
    one_of(text, &words, words.len())
}

/// A version of the PROXY protocol.
pub(crate) fn proxy_version(text: &str) -> Read<ProxyVersion> {
    one_of(
        text,
        &[("v1", ProxyVersion::V1), ("v2", ProxyVersion::V2)],
        2,
    )
}

/// How connections end.
pub(crate) fn ending(text: &str) -> Read<ConnectionEnding> {
    let words = [
        ("notify", ConnectionEnding::Close),
        ("reset", ConnectionEnding::Reset),
    ];
    one_of(text, &words, words.len())
}

/// Which of the free clients is next.
pub(crate) fn client_selection(text: &str) -> Read<ClientSelection> {
    let words = [
        ("round-robin", ClientSelection::RoundRobin),
        ("fewest", ClientSelection::Fewest),
    ];
    one_of(text, &words, words.len())
}

/// How instants lie.
pub(crate) fn spacing(text: &str) -> Read<Spacing> {
    let words = [
        ("constant", Spacing::Constant),
        ("poisson", Spacing::Poisson),
    ];
    one_of(text, &words, words.len())
}

/// How a certificate is judged.
pub(crate) fn verify(text: &str) -> Read<Verify> {
    let words = [
        ("off", Verify::Off),
        ("signature", Verify::Signature),
        ("full", Verify::Full),
    ];
    one_of(text, &words, words.len())
}

/// A cipher suite by its standard name, in any case.
pub(crate) fn suite(text: &str) -> Read<Suite> {
    by_name(text, Suite::ALL, Suite::name)
}

/// A group by its standard name, in any case.
pub(crate) fn group(text: &str) -> Read<Group> {
    by_name(text, Group::ALL, Group::name)
}

/// A signature scheme by its standard name, or all of a kind of key.
pub(crate) fn signatures(text: &str) -> Read<Vec<Signature>> {
    let of = |prefix: &str| -> Vec<Signature> {
        let all = Signature::ALL.iter().copied();
        all.filter(|one| one.name().starts_with(prefix)).collect()
    };
    match text {
        "rsa" => Ok(of("rsa_")),
        "ecdsa" => Ok(of("ecdsa_")),
        _ => match by_name(text, Signature::ALL, Signature::name) {
            Ok(one) => Ok(vec![one]),
            Err(ValueFault::Name(mut names)) => {
                names.extend(["rsa", "ecdsa"]);
                Err(ValueFault::Name(names))
            }
            Err(other) => Err(other),
        },
    }
}

fn by_name<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Read<T> {
    let found = all
        .iter()
        .find(|one| name(**one).eq_ignore_ascii_case(text));
    let names = || ValueFault::Name(all.iter().map(|one| name(*one)).collect());
    found.copied().ok_or_else(names)
}

/// An application protocol; a length of one byte bounds it (RFC 7301, section 3.1).
pub(crate) fn protocol(text: &str) -> Read<Vec<u8>> {
    if text.is_empty() || text.len() > 255 {
        return Err(ValueFault::Form("a protocol of 1 to 255 bytes", "http/1.1"));
    }
    Ok(text.as_bytes().to_vec())
}

/// A host name for SNI, or `none`.
pub(crate) fn server_name(text: &str) -> Read<OrNone<String>> {
    if text == "none" {
        return Ok(OrNone::Nothing);
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        let why =
            "is an IP address, which is never sent as a name (RFC 6066, section 3)".to_owned();
        return Err(ValueFault::Refused(why, "take a host name, or `none`"));
    }
    match format!("{text}:0").parse() {
        Ok(Endpoint::Name { host, .. }) => Ok(OrNone::This(host)),
        _ => Err(ValueFault::Form(
            "a host name, or `none`",
            "www.example.org",
        )),
    }
}

/// A place to connect to.
pub(crate) fn endpoint(text: &str) -> Read<Endpoint> {
    let wanted = "take HOST:PORT or unix:PATH";
    let refuse = |error: AddressError| ValueFault::Refused(error.to_string(), wanted);
    let endpoint: Endpoint = text.parse().map_err(refuse)?;
    let port = match &endpoint {
        Endpoint::Name { port, .. } => Some(*port),
        Endpoint::Address(wire::address::Address::Ip(address)) => Some(address.port()),
        Endpoint::Address(wire::address::Address::Unix(_)) => None,
    };
    if port == Some(0) || text.starts_with('*') {
        let why = "cannot be connected to".to_owned();
        return Err(ValueFault::Refused(
            why,
            "take HOST:PORT with a port from 1",
        ));
    }
    Ok(endpoint)
}

/// A method (RFC 9110, section 9.1): a token.
pub(crate) fn method(text: &str) -> Read<String> {
    if !is_token(text) {
        return Err(ValueFault::Form("a method", "POST"));
    }
    if text == "CONNECT" {
        let why = "makes a tunnel, not a transaction".to_owned();
        return Err(ValueFault::Refused(why, "for example: GET"));
    }
    Ok(text.to_owned())
}

/// Headers that the client writes itself, since the length of messages depends on them.
const OWN_HEADERS: [(&str, &str); 4] = [
    ("host", "put the host into the URL, and --connect elsewhere"),
    ("connection", "--requests-per-connection says how it ends"),
    ("content-length", "it is that of the body"),
    ("transfer-encoding", "bodies are sent with their length"),
];

/// `Name: value` (RFC 9110, section 5).
pub(crate) fn header(text: &str) -> Read<(String, String)> {
    let form = || ValueFault::Form("a header: NAME: VALUE", "Accept: text/html");
    let (name, value) = text.split_once(':').ok_or_else(form)?;
    let value = value.trim_matches([' ', '\t']);
    if !is_token(name) || value.chars().any(|c| c.is_control() && c != '\t') {
        return Err(form());
    }
    let own = OWN_HEADERS
        .iter()
        .find(|(own, _)| name.eq_ignore_ascii_case(own));
    if let Some((_, hint)) = own {
        return Err(ValueFault::Refused(
            "is written by the client itself".to_owned(),
            hint,
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn is_token(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, nanoseconds) in [
            ("250ms", 250_000_000),
            ("1.5s", 1_500_000_000),
            ("10 s", 10_000_000_000),
            ("80us", 80_000),
            ("80µs", 80_000),
            ("2m", 120_000_000_000),
            ("0s", 0),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_nanos(nanoseconds)),
                "{text}"
            );
        }
        for text in [
            "", "10", "s", "-1s", "1.2.3s", "1 year", "1e3s", "nans", "infs",
        ] {
            assert!(
                matches!(duration(text), Err(ValueFault::Form(..))),
                "{text}"
            );
        }
        assert!(matches!(duration("169h"), Err(ValueFault::Refused(..))));
        assert!(some_time("0ms").is_err());
    }

    #[test]
    fn sizes_and_rates() {
        assert_eq!(size("1k"), Ok(1024));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert_eq!(size("0"), Ok(0));
        for text in ["", "k", "1.5", "1t", "99999999999g", "-1"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(rate("500"), Ok(500.0));
        assert_eq!(rate("2.5/s"), Ok(2.5));
        assert_eq!(rate("10k"), Ok(10_000.0));
        for text in ["", "/s", "-1", "1m", "99999999999"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(some_rate("0").is_err());
    }

    #[test]
    fn ramps() {
        let read = ramp("100:2k:1m").unwrap();
        assert_eq!((read.from_per_s, read.to_per_s), (100.0, 2000.0));
        assert_eq!(read.time, Duration::from_secs(60));
        for text in ["", "1:2", "1::3s", "0:0:3s", "1:2:0s", "1:2:3", "1:2:3s:4"] {
            assert!(ramp(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_begin_with_one() {
        assert_eq!(times("unlimited"), Ok(Times::Unlimited));
        assert_eq!(times("4"), Ok(Times::Count(4)));
        for text in ["0", "-1", "many", "4294967296"] {
            assert!(times(text).is_err(), "{text}");
        }
        assert!(clients("1000001").is_err() && threads("2000").is_err());
        assert_eq!(percentage("0.1%"), Ok(0.001));
        for text in ["5", "0%", "100%", "%", "5%%"] {
            assert!(percentage(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cpu_lists() {
        assert_eq!(cpus("0,2-3"), Ok(OrNone::This(vec![0, 2, 3])));
        assert_eq!(cpus("none"), Ok(OrNone::Nothing));
        for text in ["", "3-1", "a", "0-9000", "1,"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_tls() {
        assert_eq!(suite("tls_aes_128_gcm_sha256"), Ok(Suite::Aes128Gcm13));
        assert_eq!(group("x25519mlkem768"), Ok(Group::X25519MlKem768));
        assert_eq!(signatures("ecdsa").unwrap().len(), 3);
        assert_eq!(signatures("rsa").unwrap().len(), 6);
        assert_eq!(signatures("ed25519"), Ok(vec![Signature::Ed25519]));
        let Err(ValueFault::Name(names)) = signatures("dsa") else {
            panic!("there is none of that name");
        };
        assert!(names.contains(&"rsa") && names.contains(&"ed25519"));
        assert_eq!(
            server_name("A.example"),
            Ok(OrNone::This("a.example".to_owned()))
        );
        for text in ["", "::1", "192.0.2.1", "a b"] {
            assert!(server_name(text).is_err(), "{text}");
        }
    }

    #[test]
    fn requests_cannot_be_smuggled_in_a_header() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(header("X-A:  b "), pair("X-A", "b"));
        assert_eq!(header("X-A:"), pair("X-A", ""));
        for text in [
            "",
            "a",
            "a b: c",
            ": c",
            "a: b\r\nc: d",
            "Host: x",
            "content-length: 3",
        ] {
            assert!(header(text).is_err(), "{text}");
        }
        assert!(method("GET / HTTP/1.1\r\n").is_err() && method("CONNECT").is_err());
    }

    #[test]
    fn places_to_connect_to() {
        for text in [
            "127.0.0.1:8443",
            "[::1]:1",
            "unix:/run/a",
            "unix:@a",
            "localhost:443",
        ] {
            assert_eq!(endpoint(text).unwrap().to_string(), text);
        }
        for text in ["localhost", "*:443", "127.0.0.1:0", "unix:"] {
            assert!(endpoint(text).is_err(), "{text}");
        }
    }
}
