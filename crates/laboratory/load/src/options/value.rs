//! Reads values as people type them: rates, names, shares, the limit of a search, and files, which
//! the caller of the reader opens. Pure text to values.

use std::path::{Path, PathBuf};
use std::time::Duration;

use measure::bounds::{LoadBound, LoadFigure};
use measure::quantity::nanoseconds;
use options::{Field, Problem, quantity};
use sys::socket::AddressWithZone;
use wire::address::{Address, Endpoint};

pub use measure::capacity::CapacityLimit;

/// A number of things, or unlimited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    Count(u32),
    Unlimited,
}

impl Times {
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
    Nothing,
    This(T),
}

/// A rate that rises or falls evenly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ramp {
    /// Transactions a second at the beginning.
    pub from_per_s: f64,
    /// Transactions a second at the end.
    pub to_per_s: f64,
    pub time: Duration,
}

/// Result of a reader. A problem without a hint is shown with the option's example.
pub(crate) type Read<T> = Result<T, Problem>;

/// Refuses a text that is not of the wanted form.
pub(crate) fn not<T>(text: &str, wanted: &str) -> Read<T> {
    problem(text, &format!("is not {wanted}"))
}

fn problem<T>(text: &str, why: &str) -> Read<T> {
    Err(Problem::new(format!("\"{}\" {why}", text.escape_debug())))
}

fn refused<T>(text: &str, why: &str, hint: &str) -> Read<T> {
    problem(text, why).map_err(|problem: Problem| problem.hint(hint))
}

/// Reads a duration above zero.
fn some_time(text: &str) -> Read<Duration> {
    match quantity::duration(text) {
        Some(Duration::ZERO) => problem(text, "is no time at all"),
        Some(duration) => Ok(duration),
        None => not(text, "a time with its unit: us, ms, s, m, h or d"),
    }
}

/// Limit of a rate: none of our load generators reaches it; a greater number is a typing error.
const RATE_MAX: f64 = 1e7;

/// Reads `500`, `2.5/s`, `10k`: transactions a second.
fn rate(text: &str) -> Read<f64> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim_end();
    let (number, factor) = match number.strip_suffix('k') {
        Some(thousands) => (thousands, 1000.0),
        None => (number, 1.0),
    };
    match decimal(number).map(|number| number * factor) {
        None => not(text, "a rate: transactions a second"),
        Some(rate) if rate > RATE_MAX => problem(text, "is more than 10,000,000 a second"),
        Some(rate) => Ok(rate),
    }
}

/// Reads digits, possibly with a decimal point.
fn decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_plain.then(|| text.parse().ok()).flatten()
}

/// Reads a rate above zero.
pub(crate) fn some_rate(text: &str) -> Read<f64> {
    match rate(text)? {
        0.0 => problem(text, "is no load"),
        rate => Ok(rate),
    }
}

pub(crate) fn ramp(text: &str) -> Read<Ramp> {
    let parts: Vec<_> = text.splitn(3, ':').map(str::trim).collect();
    let [from, to, time] = parts[..] else {
        return not(text, "FROM:TO:TIME, two rates and a time");
    };
    let ramp = Ramp { from_per_s: rate(from)?, to_per_s: rate(to)?, time: some_time(time)? };
    if ramp.from_per_s == 0.0 && ramp.to_per_s == 0.0 {
        return problem(text, "begins and ends with no load");
    }
    Ok(ramp)
}

/// Reads `5%`: a share, above 0 and below 1.
pub(crate) fn percentage(text: &str) -> Read<f64> {
    let number = text.strip_suffix('%').and_then(|number| decimal(number.trim_end()));
    match number.filter(|number| *number > 0.0 && *number < 100.0) {
        Some(number) => Ok(number / 100.0),
        None => not(text, "a percentage above 0% and below 100%"),
    }
}

pub(crate) fn times(text: &str) -> Read<Times> {
    match (text, text.parse()) {
        ("unlimited", _) => Ok(Times::Unlimited),
        (_, Ok(count)) if count > 0 => Ok(Times::Count(count)),
        _ => not(text, "a whole number from 1, or `unlimited`"),
    }
}

pub(crate) fn cpus(text: &str) -> Read<OrNone<Vec<u16>>> {
    match (text, quantity::cpu_list(text)) {
        ("none", _) => Ok(OrNone::Nothing),
        (_, Some(cpus)) => Ok(OrNone::This(cpus)),
        _ => not(text, "CPU numbers and ranges, or `none`"),
    }
}

/// Reads one of our own addresses with a port.
pub(crate) fn listener(text: &str) -> Read<std::net::SocketAddr> {
    text.parse().or_else(|_| not(text, "an IP address and a port"))
}

/// Reads one of our own addresses.
pub(crate) fn source(text: &str) -> Read<std::net::IpAddr> {
    text.parse().or_else(|_| not(text, "an IP address"))
}

/// Reads a time, in seconds since 1970.
pub(crate) fn moment(text: &str) -> Read<u64> {
    wire::date::seconds_of(text).map_or_else(|| not(text, "a time as in 2026-12-01T09:30:00Z"), Ok)
}

/// Returns a list without repetition.
pub(crate) fn unique<T: Clone + PartialEq>(list: &[T]) -> Vec<T> {
    let mut all = Vec::new();
    for one in list {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    all
}

/// Reads a path for the record, or `none`.
pub(crate) fn record(text: &str) -> Read<OrNone<PathBuf>> {
    Ok(if text == "none" { OrNone::Nothing } else { OrNone::This(text.into()) })
}

/// Reads an application protocol; a length of one byte bounds it (RFC 7301, section 3.1).
pub(crate) fn protocol(text: &str) -> Read<Vec<u8>> {
    match text.len() {
        1..=255 => Ok(text.as_bytes().to_vec()),
        _ => not(text, "a protocol of 1 to 255 bytes"),
    }
}

/// Reads a host name for SNI, or `none`.
pub(crate) fn server_name(text: &str) -> Read<OrNone<String>> {
    if text == "none" {
        return Ok(OrNone::Nothing);
    }
    if text.parse::<std::net::IpAddr>().is_ok() {
        let why = "is an IP address, which is never sent as a name (RFC 6066, section 3)";
        return refused(text, why, "take a host name, or `none`");
    }
    match format!("{text}:0").parse() {
        Ok(Endpoint::Name { host, .. }) => Ok(OrNone::This(host)),
        _ => not(text, "a host name, or `none`"),
    }
}

/// Reads an address to connect to.
pub(crate) fn endpoint(text: &str) -> Read<Endpoint> {
    let wanted = "take HOST:PORT or unix:PATH";
    let endpoint = match text.parse() {
        Ok(AddressWithZone(endpoint)) => endpoint,
        Err(error) => {
            return refused(text, &wire::address::AddressError::to_string(&error), wanted);
        }
    };
    let port = match &endpoint {
        Endpoint::Name { port, .. } => Some(*port),
        Endpoint::Address(Address::Ip(address)) => Some(address.port()),
        Endpoint::Address(Address::Unix(_) | Address::Inherited(_)) => None,
        Endpoint::Service { .. } => return refused(text, "stands for several servers", wanted),
    };
    if port == Some(0) || text.starts_with('*') {
        return refused(text, "cannot be connected to", wanted);
    }
    Ok(endpoint)
}

/// Reads a method (RFC 9110, section 9.1): a token.
pub(crate) fn method(text: &str) -> Read<String> {
    match text {
        "CONNECT" => problem(text, "makes a tunnel, not a transaction"),
        _ if is_token(text) => Ok(text.to_owned()),
        _ => not(text, "a method"),
    }
}

/// Headers that the client writes itself, since the length of messages depends on them.
const OWN_HEADERS: [(&str, &str); 4] = [
    ("host", "put the host into the URL, and --connect elsewhere"),
    ("connection", "--requests-per-connection says how it ends"),
    ("content-length", "it is that of the body"),
    ("transfer-encoding", "bodies are sent with their length"),
];

/// Reads `Name: value` (RFC 9110, section 5).
pub(crate) fn header(text: &str) -> Read<(String, String)> {
    let (name, value) = text.split_once(':').unwrap_or_default();
    let value = value.trim_matches([' ', '\t']);
    if !is_token(name) || value.chars().any(|c| c.is_control() && c != '\t') {
        return not(text, "a header: NAME: VALUE");
    }
    let own = OWN_HEADERS.iter().find(|(own, _)| name.eq_ignore_ascii_case(own));
    if let Some((_, hint)) = own {
        return refused(text, "is written by the client itself", hint);
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn is_token(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

/// A search for the greatest rate that keeps a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    pub limit: CapacityLimit,
    /// Relative distance of the rates that broke and kept the limit at which the search ends.
    pub precision: f64,
    /// First rate, in transactions a second.
    pub first_per_s: f64,
    /// Duration of each trial.
    pub step: Duration,
}

pub(super) fn parse(text: &str) -> Read<CapacityLimit> {
    let mut limit = CapacityLimit { mean_below_ns: None, ..CapacityLimit::default() };
    let time_ns = |bound| some_time(bound).map(nanoseconds);
    let mut error_rate_named = false;
    for part in text.split(',') {
        let Some((name, bound)) = part.split_once('<') else {
            return not(text, "bounds of mean, error-rate, p50, p99 and the like");
        };
        let (name, bound) = (name.trim(), bound.trim());
        let named_before = match name {
            "mean" => limit.mean_below_ns.replace(time_ns(bound)?).is_some(),
            "error-rate" => {
                limit.error_rate_below = percentage(bound)?;
                std::mem::replace(&mut error_rate_named, true)
            }
            _ => {
                let quantile = (quantile(name)?, time_ns(bound)?);
                limit.quantile_below_ns.replace(quantile).is_some()
            }
        };
        if named_before {
            return not(text, "one bound each, and of one percentile");
        }
    }
    Ok(limit)
}

/// Reads bounds of a whole load: `p99<50ms,resumed>90%`.
pub(super) fn bounds(text: &str) -> Read<Vec<LoadBound>> {
    let each = text.split(',').map(|part| {
        let Some(at) = part.find(['<', '>']) else {
            return not(text, "bounds of mean, p50, p99, error-rate, resumed and rate");
        };
        let (name, bound) = part.split_at(at);
        let (name, is_below) = (name.trim(), bound.starts_with('<'));
        let bound = bound.get(1..).unwrap_or_default().trim();
        let time = || some_time(bound).map(|time| nanoseconds(time) as f64);
        let (figure, bound) = match name {
            "mean" => (LoadFigure::Mean, time()?),
            "error-rate" => (LoadFigure::ErrorRate, percentage(bound)?),
            "resumed" => (LoadFigure::Resumed, percentage(bound)?),
            "rate" => (LoadFigure::Rate, some_rate(bound)?),
            _ => (LoadFigure::Quantile(quantile(name)?), time()?),
        };
        Ok(LoadBound { figure, is_below, bound })
    });
    each.collect()
}

fn quantile(name: &str) -> Read<f64> {
    let digits = name.strip_prefix('p').unwrap_or_default();
    let wanted =
        "one of: mean, error-rate, p50, p90, p99, p99.9; of a whole load also resumed, rate";
    percentage(&format!("{digits}%")).or_else(|_| not(name, wanted))
}

/// Reads a file that an option names, or explains why it cannot.
pub type Files<'f> = &'f dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// Returns the content of the file that an option names; reports an unreadable file.
pub(crate) fn content(path: &Field<'_, Option<String>>, files: Files<'_>) -> Option<Vec<u8>> {
    files(Path::new(path.given()?)).map_err(|why| path.refuse(why, "a file that we may read")).ok()
}

#[cfg(test)]
mod tests {
    use measure::record::{LoadRecord, LoadSecond, TransactionCounts};

    use super::*;

    fn refuses<T>(read: fn(&str) -> Read<T>, texts: &[&str]) {
        for text in texts {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates_ramps_and_shares() {
        assert_eq!(rate("500"), Ok(500.0));
        assert_eq!(rate("2.5/s"), Ok(2.5));
        assert_eq!(rate("10k"), Ok(10_000.0));
        refuses(rate, &["", "/s", "-1", "1m", "1e3", "inf", "99999999999"]);
        refuses(some_rate, &["0"]);
        refuses(some_time, &["0ms", "10", ""]);
        let read = ramp("100:2k:1m").unwrap();
        assert_eq!((read.from_per_s, read.to_per_s), (100.0, 2000.0));
        assert_eq!(read.time, Duration::from_secs(60));
        refuses(ramp, &["", "1:2", "1::3s", "0:0:3s", "1:2:0s", "1:2:3", "1:2:3s:4"]);
        assert_eq!(percentage("0.1%"), Ok(0.001));
        refuses(percentage, &["5", "0%", "100%", "%", "5%%"]);
    }

    #[test]
    fn counts_begin_with_one() {
        assert_eq!(times("unlimited"), Ok(Times::Unlimited));
        assert_eq!(times("4"), Ok(Times::Count(4)));
        refuses(times, &["0", "-1", "many", "4294967296"]);
        assert_eq!(cpus("0,2-3"), Ok(OrNone::This(vec![0, 2, 3])));
        assert_eq!(cpus("none"), Ok(OrNone::Nothing));
        refuses(cpus, &["", "3-1", "a", "0-9000", "1,"]);
    }

    #[test]
    fn names_of_tls() {
        assert_eq!(server_name("A.example"), Ok(OrNone::This("a.example".to_owned())));
        refuses(server_name, &["", "::1", "192.0.2.1", "a b"]);
    }

    #[test]
    fn requests_cannot_be_smuggled_in_a_header() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(header("X-A:  b "), pair("X-A", "b"));
        assert_eq!(header("X-A:"), pair("X-A", ""));
        let smuggled = ["a: b\r\nc: d", "Host: x", "content-length: 3"];
        refuses(header, &smuggled);
        refuses(header, &["", "a", "a b: c", ": c"]);
        refuses(method, &["GET / HTTP/1.1\r\n", "CONNECT", ""]);
    }

    #[test]
    fn places_to_connect_to() {
        for text in ["127.0.0.1:8443", "[::1]:1", "unix:/run/a", "unix:@a", "localhost:443"] {
            assert_eq!(endpoint(text).unwrap().to_string(), text);
        }
        refuses(endpoint, &["localhost", "*:443", "127.0.0.1:0", "unix:"]);
    }

    fn read(text: &str) -> CapacityLimit {
        parse(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    #[test]
    fn limits_read_and_show() {
        assert_eq!(read("mean<100ms,error-rate<0.1%"), CapacityLimit::default());
        assert_eq!(CapacityLimit::default().to_string(), "mean < 100 ms, error rate < 0.1 %");
        let limit = read("p99.9 < 20ms, error-rate < 0.01 %");
        assert_eq!(limit.to_string(), "p99.9 < 20.0 ms, error rate < 0.01 %");
        assert_eq!(limit.mean_below_ns, None);
        assert_eq!(read("p50<1ms").error_rate_below, CapacityLimit::default().error_rate_below);
    }

    #[test]
    fn bounds_of_a_load_read_and_hold() {
        let record = LoadRecord {
            totals: TransactionCounts { attempted: 200, succeeded: 199, failed: 1 },
            seconds: vec![LoadSecond { resumed: 150, full: 50, ..LoadSecond::default() }],
            elapsed_ns: 2_000_000_000,
            ..LoadRecord::default()
        };
        let unmet = |text: &str| {
            let all = bounds(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
            all.iter().filter_map(|one| one.unmet(&record)).collect::<Vec<_>>()
        };
        assert_eq!(unmet("error-rate<1%, resumed > 70 %,rate>99/s,resumed<76%"), [""; 0]);
        assert_eq!(unmet("error-rate<0.5%"), ["error-rate is 0.5 %, expected: < 0.5 %"]);
        assert_eq!(unmet("resumed>90%"), ["resumed is 75 %, expected: > 90 %"]);
        assert_eq!(unmet("rate>100/s").len(), 1);
        // There were no times.
        let unknown = "p99.9 is not known, since nothing succeeded, expected: < 50.0 ms";
        assert_eq!(unmet("p99.9<50ms"), [unknown]);
        for text in ["", "p99", "p99=5ms", "resumed>90", "rate<0", "speed>3", "mean<5ms,"] {
            assert!(bounds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_no_limit() {
        let texts = "mean mean>3ms mean<3 error-rate<3ms error-rate<0% p0<1ms \
            p100<1ms median<1ms mean<1ms,mean<2ms \
            error-rate<1%,error-rate<2% p50<1ms,p99<2ms mean<0s";
        for text in texts.split(' ').chain([""]) {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
