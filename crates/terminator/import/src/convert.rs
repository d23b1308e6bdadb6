//! Conversions that all importers share: words of an option to the value of a key.

use std::path::Path;

use toml::Value;

use crate::meanings::Conversion;
use crate::source::{Statement, switch};

/// The value of a key, and what is lost on the way.
#[derive(Debug, PartialEq)]
pub(crate) struct ConvertedValue {
    pub(crate) value: Value,
    pub(crate) difference: Option<String>,
}

/// A value that the key cannot have: the reason, and what to do instead.
#[derive(Debug, PartialEq)]
pub(crate) struct UnusableValue {
    pub(crate) why: String,
    pub(crate) remedy: String,
}

impl UnusableValue {
    pub(crate) fn new(why: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { why: why.into(), remedy: remedy.into() }
    }

    /// The reason to leave a service out because of an option that refuses somebody.
    pub(crate) fn refusal(guard: &Statement) -> Self {
        let Statement { place, option, .. } = guard;
        let option = format!("{option} {}", guard.value());
        let why = format!("without `{}` ({place}) more would be served or trusted", option.trim());
        let remedy = "keep it where it is; or say it by `front.allow`, `front.deny` or \
                      `client-certificates`, and take away the `#` before its lines in the file";
        Self::new(why, remedy)
    }
}

type Conversions = Result<ConvertedValue, UnusableValue>;

fn alike(value: impl Into<Value>) -> Conversions {
    Ok(ConvertedValue { value: value.into(), difference: None })
}

const SECOND: u64 = 1000;
const HOUR: u64 = 3600 * SECOND;
const DAY: u64 = 24 * HOUR;

/// The least and the most that a key takes: numbers, bytes or milliseconds.
pub(crate) type KeyRange = (u64, u64);

/// The value of a key with that range that these words stand for.
pub(crate) fn convert(range: KeyRange, conversion: Conversion, words: &[String]) -> Conversions {
    let text = words.join(" ");
    match conversion {
        Conversion::Text => alike(text),
        Conversion::Word => alike(text.to_ascii_lowercase()),
        Conversion::Path | Conversion::Paths => path(&text),
        Conversion::Number => number(range, &text),
        Conversion::Switch => match switch(&text) {
            Some(on) => alike(on),
            None => Err(UnusableValue::new(
                format!("`{text}` is neither on nor off"),
                "write on or off",
            )),
        },
        Conversion::Seconds => time(range, &text, SECOND),
        Conversion::Milliseconds => time(range, &text, 1),
        Conversion::Size => match size(&text) {
            Some(bytes) => alike(format!("{bytes}B")),
            None => Err(UnusableValue::new(format!("`{text}` is no size"), "write bytes")),
        },
        Conversion::Words => alike(array(split(words))),
        Conversion::Groups => groups(words),
        Conversion::Versions => versions(words),
        Conversion::Choice(choices) => match choices.get(&text).or_else(|| {
            let is_on = switch(&text)?;
            choices.get(if is_on { "on" } else { "off" })
        }) {
            Some(ours) => alike(ours.clone()),
            None => Err(UnusableValue::new(
                format!("`{text}` has no equal here"),
                "see the key's words",
            )),
        },
    }
}

/// A path as it was written. Programs look for relative ones elsewhere.
fn path(text: &str) -> Conversions {
    if Path::new(text).is_absolute() || text.starts_with('@') {
        return alike(text);
    }
    let place = "a relative path begins at the directory of lariat.toml";
    Ok(ConvertedValue { value: text.into(), difference: Some(format!("`{text}`: {place}")) })
}

fn number((least, most): KeyRange, text: &str) -> Conversions {
    let Ok(number) = text.parse::<u64>() else {
        return Err(UnusableValue::new(format!("`{text}` is no number"), "write a number"));
    };
    let fitting = number.clamp(least, most);
    let value = i64::try_from(fitting).unwrap_or(i64::MAX);
    let beyond = || format!("{number} is beyond what the key takes, {least} to {most}");
    Ok(ConvertedValue { value: value.into(), difference: (fitting != number).then(beyond) })
}

/// A time as keys write it.
fn time((least, most): KeyRange, text: &str, unit: u64) -> Conversions {
    let Some(time) = milliseconds(text, unit) else {
        return Err(UnusableValue::new(format!("`{text}` is no time"), "write it as `30s`"));
    };
    let fitting = time.clamp(least, most);
    let beyond = || {
        let [time, least, most] = [time, least, most].map(time_text);
        format!("{time} is beyond what the key takes, {least} to {most}")
    };
    let difference = (fitting != time).then(beyond);
    Ok(ConvertedValue { value: time_text(fitting).into(), difference })
}

/// A time by the words of nginx and HAProxy: `1h30m`, `500ms`, `10`, which counts `unit`s.
pub(crate) fn milliseconds(text: &str, unit: u64) -> Option<u64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (word, tail) = tail.split_at(letters);
        let number: u64 = number.parse().ok()?;
        let part = match word {
            "" => number.checked_mul(unit)?,
            "us" => number.div_ceil(1000),
            "ms" => number,
            "s" => number.checked_mul(SECOND)?,
            "m" => number.checked_mul(60 * SECOND)?,
            "h" => number.checked_mul(HOUR)?,
            "d" => number.checked_mul(DAY)?,
            "w" => number.checked_mul(7 * DAY)?,
            "M" => number.checked_mul(30 * DAY)?,
            "y" => number.checked_mul(365 * DAY)?,
            _ => return None,
        };
        sum = sum.checked_add(part)?;
        rest = tail.trim_start();
    }
    Some(sum)
}

/// A time as keys write it, in the largest unit that says it whole.
pub(crate) fn time_text(milliseconds: u64) -> String {
    let units = [(DAY, "d"), (HOUR, "h"), (60 * SECOND, "m"), (SECOND, "s")];
    let whole = |(unit, _): &&(u64, &str)| milliseconds > 0 && milliseconds.is_multiple_of(*unit);
    match units.iter().find(whole) {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None if milliseconds == 0 => "0s".to_owned(),
        None => format!("{milliseconds}ms"),
    }
}

/// A number of bytes, by the suffixes of nginx and HAProxy.
pub(crate) fn size(text: &str) -> Option<u64> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
    let (number, suffix) = lower.split_at(digits);
    let factor: u64 = match suffix {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// The parts of words between commas, colons and blanks.
pub(crate) fn split(words: &[String]) -> impl Iterator<Item = &str> {
    let parts = words.iter().flat_map(|word| word.split([',', ':', ' ', '\t']));
    parts.filter(|part| !part.is_empty())
}

/// A list as the value of a key.
pub(crate) fn array<T: Into<Value>>(items: impl IntoIterator<Item = T>) -> Value {
    Value::Array(items.into_iter().map(Into::into).collect())
}

/// Our name of a curve that OpenSSL or NIST calls so.
fn group(name: &str) -> Option<&'static str> {
    match name.trim_start_matches(['?', '*']).to_ascii_lowercase().as_str() {
        "x25519" | "curve25519" => Some("x25519"),
        "prime256v1" | "secp256r1" | "p-256" | "p256" => Some("secp256r1"),
        "secp384r1" | "p-384" | "p384" => Some("secp384r1"),
        "x25519mlkem768" => Some("X25519MLKEM768"),
        _ => None,
    }
}

fn groups(words: &[String]) -> Conversions {
    let mut known: Vec<&str> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for name in split(words) {
        match group(name) {
            Some(ours) if known.contains(&ours) => {}
            Some(ours) => known.push(ours),
            None => others.push(name),
        }
    }
    if known.is_empty() {
        let why = format!("{} are not supported", others.join(", "));
        return Err(UnusableValue::new(
            why,
            "leave it out: x25519, secp256r1 and secp384r1 are enabled",
        ));
    }
    let lost = || format!("without {}, which are not supported", others.join(", "));
    Ok(ConvertedValue { value: array(known), difference: (!others.is_empty()).then(lost) })
}

/// Versions of TLS; older ones are not spoken.
fn versions(words: &[String]) -> Conversions {
    let mut spoken: Vec<&str> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for name in split(words) {
        match version(name) {
            Some(Some(ours)) if spoken.contains(&ours) => {}
            Some(Some(ours)) => spoken.push(ours),
            Some(None) => others.push(name),
            None => {
                let remedy = "write TLSv1.2 or TLSv1.3";
                return Err(UnusableValue::new(format!("`{name}` is no version of TLS"), remedy));
            }
        }
    }
    spoken.sort_unstable();
    if spoken.is_empty() {
        let why = format!("{}: nothing older than TLS 1.2 is spoken (RFC 8996)", others.join(", "));
        return Err(UnusableValue::new(
            why,
            "both TLS 1.2 and 1.3 are enabled now; renew old clients",
        ));
    }
    let old = others.join(", ");
    let lost = || format!("without {old}: nothing older than TLS 1.2 is spoken (RFC 8996)");
    Ok(ConvertedValue { value: array(spoken), difference: (!others.is_empty()).then(lost) })
}

/// Our name of a version, `Some(None)` = an older one, `None` = no version.
pub(crate) fn version(name: &str) -> Option<Option<&'static str>> {
    match name.to_ascii_lowercase().as_str() {
        "tlsv1.2" | "tlsv12" | "tls1.2" | "1.2" => Some(Some("1.2")),
        "tlsv1.3" | "tlsv13" | "tls1.3" | "1.3" => Some(Some("1.3")),
        "sslv2" | "sslv3" | "tlsv1" | "tlsv1.0" | "tlsv10" | "tlsv1.1" | "tlsv11" => Some(None),
        _ => None,
    }
}

/// An address with a port as keys write it: all of IPv6 and IPv4 for `*` and for no host.
pub(crate) fn address(host: &str, port: &str) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host {
        "" | "*" | "::" => format!("[::]:{port}"),
        host if host.contains(':') => format!("[{host}]:{port}"),
        host => format!("{host}:{port}"),
    }
}

/// Facilities of syslog that the key takes.
pub(crate) const FACILITIES: &str = "\
    user mail daemon auth syslog lpr news uucp cron authpriv ftp ntp local0 local1 local2 \
    local3 local4 local5 local6 local7";

/// Whether a word is in a list with blanks between its words.
pub(crate) fn is_among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

/// Host and port of `[HOST]:PORT` or `HOST:PORT`; of a text without a colon, it is the port.
pub(crate) fn split_endpoint(text: &str) -> (String, String) {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.trim_start_matches(':')),
        None => text.rsplit_once(':').unwrap_or(("", text)),
    };
    (host.to_owned(), port.to_owned())
}

/// Whether a name fits a pattern of `*` and `?`.
pub(crate) fn glob_fits(pattern: &str, name: &str) -> bool {
    let name: Vec<_> = name.chars().collect();
    // Which first characters of the name fit the part of the pattern so far, by their number.
    let mut fits = vec![false; name.len() + 1];
    fits[0] = true;
    for sign in pattern.chars() {
        let mut next = vec![sign == '*' && fits[0]];
        for (place, one) in name.iter().enumerate() {
            next.push(match sign {
                '*' => fits[place + 1] || next[place],
                '?' => fits[place],
                sign => fits[place] && *one == sign,
            });
        }
        fits = next;
    }
    fits[name.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(conversion: Conversion, text: &str) -> Conversions {
        convert((0, HOUR), conversion, &[text.to_owned()])
    }

    #[test]
    fn times() {
        assert_eq!(converted(Conversion::Seconds, "1800"), alike("30m"));
        assert_eq!(converted(Conversion::Milliseconds, "1500"), alike("1500ms"));
        assert_eq!(converted(Conversion::Seconds, "30m 30s"), alike("1830s"));
        assert!(converted(Conversion::Seconds, "99999999999999999999").is_err());
        assert!(converted(Conversion::Seconds, "soon").is_err());
        let clamped = converted(Conversion::Seconds, "2h").unwrap();
        assert_eq!(clamped.value, Value::from("1h"));
        assert!(clamped.difference.is_some());
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let groups = converted(Conversion::Groups, "X25519:P-256:X448").unwrap();
        assert_eq!(groups.value, array(["x25519", "secp256r1"]));
        assert!(groups.difference.unwrap().contains("X448"));
        let versions = converted(Conversion::Versions, "TLSv1.3 TLSv1.2 TLSv1.1").unwrap();
        assert_eq!(versions.value, array(["1.2", "1.3"]));
        assert!(versions.difference.unwrap().contains("TLSv1.1"));
        assert!(converted(Conversion::Versions, "SSLv3").is_err());
        assert!(converted(Conversion::Groups, "X448").is_err());
    }

    #[test]
    fn addresses() {
        assert_eq!(address("*", "443"), "[::]:443");
        assert_eq!(address("[::1]", "443"), "[::1]:443");
        assert_eq!(address("app", "80"), "app:80");
    }
}
