//! Reads the question of `plan` and `simulate` from flags and a TOML file.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueHint};
use measure::planned::PlannedResource;
use measure::quantity::ByteCount;
use options::quantity;
use plan::traffic::{GROUPS, PlannedKey, Sharing, TrafficForecast};
use serde::Deserialize;

use crate::fault::{LabFault, LabResult, unknown};
use crate::load::read_text;
use crate::pages::{shown, tame};

/// A value as written: text of a flag, or a text or number of a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WrittenValue(pub(super) String);

/// The written value of a key; `None` if the key is missing.
pub(super) type Written = Option<WrittenValue>;

impl<'de> Deserialize<'de> for WrittenValue {
    fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        match toml::Value::deserialize(source)? {
            toml::Value::String(text) => Ok(Self(text)),
            toml::Value::Integer(number) => Ok(Self(number.to_string())),
            toml::Value::Float(number) => Ok(Self(number.to_string())),
            _ => Err(serde::de::Error::custom("not a text or a number")),
        }
    }
}

impl FromStr for WrittenValue {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// The keys as written, before defaults.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct FarmQuestion {
    /// Requests per second of all clients, on the busiest day: 40000/s
    #[arg(long, value_name = "N/s")]
    pub(super) rate: Option<WrittenValue>,
    /// Requests on each connection, one after the other [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) requests_per_connection: Option<WrittenValue>,
    /// Share of connections that resume a session [default: as many as return within its lifetime]
    #[arg(long, value_name = "SHARE")]
    pub(super) resumed: Option<WrittenValue>,
    /// How long a session may be resumed [default: 1h]
    #[arg(long, value_name = "T")]
    pub(super) session_lifetime: Option<WrittenValue>,
    /// Version of TLS: 1.2 or 1.3 [default: 1.3]
    #[arg(long, value_name = "V")]
    pub(super) tls: Option<WrittenValue>,
    /// Key of the certificate: ecdsa-p256, ecdsa-p384, ed25519, rsa-2048, rsa-3072 or rsa-4096
    /// [default: ecdsa-p256]
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<WrittenValue>,
    /// Key exchange: x25519mlkem768, x25519, secp256r1 or secp384r1 [default: x25519]
    #[arg(long, value_name = "GROUP")]
    pub(super) group: Option<WrittenValue>,
    /// Body of a reply [default: 1KiB]
    #[arg(long, value_name = "SIZE")]
    pub(super) size: Option<WrittenValue>,
    /// Distinct clients, each of which comes back [default: 100 for each connection per second]
    #[arg(long, value_name = "N")]
    pub(super) clients: Option<WrittenValue>,
    /// How long a connection stays open [default: 10s]
    #[arg(long, value_name = "T")]
    pub(super) connection_lifetime: Option<WrittenValue>,
    /// Limit of the 99th percentile of responses [default: 50ms]
    #[arg(long, value_name = "T")]
    pub(super) p99: Option<WrittenValue>,
    /// Hosts that may fail at once, on the busiest day [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) lose: Option<WrittenValue>,
    /// How hosts know each other's sessions: peers, store, tickets or none [default: tickets]
    #[arg(long, value_name = "HOW")]
    pub(super) share: Option<WrittenValue>,
    /// Cores of each host [default: those of the records' host]
    #[arg(long, value_name = "N")]
    pub(super) cores: Option<WrittenValue>,
    /// Memory of each host [default: that of the records' host]
    #[arg(long, value_name = "SIZE")]
    pub(super) memory: Option<WrittenValue>,
    /// Open files that a process may have [default: 1048576, the kernel's fs.nr_open]
    #[arg(long, value_name = "N")]
    pub(super) files: Option<WrittenValue>,
    /// How busy a worker may be at most; beyond 80 % tails are not predicted well [default: 80%]
    #[arg(long, value_name = "SHARE")]
    pub(super) busy_max: Option<WrittenValue>,
    /// Round trip to clients, which responses include [default: 0s]
    #[arg(long, value_name = "T")]
    pub(super) round_trip: Option<WrittenValue>,
    /// Chance: the same seed gives the same bytes [default: 1]
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<WrittenValue>,
    /// Record of `lariat-lab run` with costs; may be given again
    #[arg(long, value_name = "RECORD", value_hint = ValueHint::AnyPath)]
    #[serde(default)]
    pub(super) record: Vec<PathBuf>,
    /// Speeds of the records' host, where they lack some: what `lariat-lab host --json` printed
    #[arg(long, value_name = "HOST.json", value_hint = ValueHint::AnyPath)]
    pub(super) speeds: Option<PathBuf>,
    /// Another host that is planned for: what `lariat-lab host --json` printed there
    #[arg(long, value_name = "HOST.json", value_hint = ValueHint::AnyPath)]
    pub(super) host: Option<PathBuf>,
    /// Price of a host: 0.40/h, 290/month; the answer then has the money of a month (730 h)
    #[arg(long, value_name = "PRICE/T")]
    pub(super) price_host: Option<WrittenValue>,
    /// Price of what is sent to clients: 0.05/GB
    #[arg(long, value_name = "PRICE/GB")]
    pub(super) price_traffic: Option<WrittenValue>,
    /// Programs of the records, the first of which is the one that is asked for [default: lariat]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    #[serde(default)]
    pub(super) target: Vec<String>,
}

/// Size of the records' host, or of the host that is planned for.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostSize {
    pub(super) cores: u32,
    pub(super) memory_bytes: u64,
}

/// Greatest accepted values: beyond them a key was probably mistyped.
const RATE_MAX: f64 = 1e9;
const CLIENTS_MAX: f64 = 1e11;
const CORES_MAX: f64 = 8192.0;
const YEAR_S: f64 = 366.0 * 86_400.0;

/// Default number of clients for each connection per second.
const CLIENTS_PER_CONNECTION: f64 = 100.0;

const OPEN_FILES: f64 = 1_048_576.0;

impl FarmQuestion {
    /// Fills keys that no flag sets from a file. Relative paths in it begin at its folder.
    pub(super) fn with_file(self, path: Option<&Path>) -> LabResult<Self> {
        let Some(path) = path else {
            return Ok(self);
        };
        let text = read_text(path).map_err(|error| {
            LabFault::new(format!("cannot read `{}`: {error}", shown(path)), "name a TOML file")
        })?;
        let mut file: Self = toml::from_str(&text).map_err(|error| {
            let before = error.span().and_then(|at| text.get(..at.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            LabFault::new(
                format!("{}:{line}: {}", shown(path), tame(error.message())),
                "its keys are the flags of `lariat-lab plan`, without the dashes before them",
            )
        })?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        let paths = file.record.iter_mut().chain(&mut file.speeds).chain(&mut file.host);
        paths.for_each(|path| *path = folder.join(&path));
        Ok(self.over(file))
    }

    fn over(mut self, file: Self) -> Self {
        macro_rules! over {
            ($($key:ident)*) => {
                $(self.$key = self.$key.or(file.$key);)*
            };
        }
        over!(rate requests_per_connection resumed session_lifetime tls key group size clients);
        over!(connection_lifetime p99 lose share cores memory files busy_max round_trip seed);
        over!(speeds host price_host price_traffic);
        if self.record.is_empty() {
            self.record = file.record;
        }
        if self.target.is_empty() {
            self.target = file.target;
        }
        self
    }

    /// Converts all keys to a forecast.
    pub(super) fn meant(&self, host: HostSize) -> LabResult<TrafficForecast> {
        if self.rate.is_none() {
            return Err(LabFault::new(
                "--rate is missing",
                "how many requests per second are there on the busiest day? --rate 40000/s",
            ));
        }
        let requests_per_s = number("rate", &self.rate, 0.0, (1e-6, RATE_MAX))?;
        let each = &self.requests_per_connection;
        let requests_per_connection = number("requests-per-connection", each, 1.0, (1.0, 1e9))?;
        let connections = requests_per_s / requests_per_connection;
        let usual = (connections * CLIENTS_PER_CONNECTION).max(1.0);
        let clients = number("clients", &self.clients, usual, (1.0, CLIENTS_MAX))?;
        let stays = &self.connection_lifetime;
        let lose = number("lose", &self.lose, 1.0, (0.0, 10_000.0))?;
        let cores = number("cores", &self.cores, f64::from(host.cores), (1.0, CORES_MAX))?;
        let seed = number("seed", &self.seed, 1.0, (0.0, 2f64.powi(53)))?;
        let mut forecast = TrafficForecast {
            requests_per_s,
            requests_per_connection,
            resumed_share: 0.0,
            lifetime_s: time("session-lifetime", &self.session_lifetime, 3600.0, (1.0, YEAR_S))?,
            is_tls13: named("tls", &self.tls, "1.3", &[("1.3", true), ("1.2", false)])?,
            key: named("key", &self.key, "ecdsa-p256", &PlannedKey::named())?,
            group: named("group", &self.group, "x25519", &GROUPS.map(|it| (it.0, it.0)))?
                .to_owned(),
            body_bytes: bytes("size", &self.size, 1024, 1 << 40)?,
            clients,
            connection_s: time("connection-lifetime", stays, 10.0, (1e-3, YEAR_S))?,
            p99_s: time("p99", &self.p99, 0.05, (1e-6, 3600.0))?,
            lose: whole("lose", lose)?,
            sharing: named("share", &self.share, "tickets", &Sharing::NAMED)?,
            cores: whole("cores", cores)?,
            memory_bytes: bytes("memory", &self.memory, host.memory_bytes, u64::MAX)?,
            files: number("files", &self.files, OPEN_FILES, (16.0, 1e12))? as u64,
            busy_max: busy_max(&self.busy_max)?,
            round_trip_s: time("round-trip", &self.round_trip, 0.0, (0.0, 60.0))?,
            seed: seed as u64,
        };
        let usual = forecast.resumed_most();
        forecast.resumed_share = share("resumed", &self.resumed, usual)?;
        Ok(forecast)
    }

    /// Returns the prices for a monthly cost, if a price was given.
    pub(super) fn money(
        &self,
        forecast: &TrafficForecast,
        hosts: Option<f64>,
    ) -> LabResult<Vec<PlannedResource>> {
        let per_hour = [("h", 1.0), ("month", 1.0 / MONTH_H)];
        let host = price("price-host", &self.price_host, &per_hour)?;
        let traffic = price("price-traffic", &self.price_traffic, &TRAFFIC_UNITS)?;
        let sent_gb = forecast.sent_bytes_per_s() * MONTH_H * 3600.0 / 1e9;
        let host = hosts.zip(host).map(|(hosts, price)| (hosts * price * MONTH_H, "hosts"));
        let traffic = traffic.map(|price| (sent_gb * price, "traffic, at this rate all the time"));
        let of_traffic = format!("{sent_gb:.0} GB");
        let of_hosts = format!("{} × {MONTH_H:.0} h", hosts.unwrap_or_default());
        let rows = [host.map(|it| (it, of_hosts)), traffic.map(|it| (it, of_traffic))];
        let row = |((money, name), limit): ((f64, &str), String)| PlannedResource {
            name: format!("money of a month: {name}"),
            used: format!("{money:.2}"),
            limit,
            used_share: 0.0,
        };
        Ok(rows.into_iter().flatten().map(row).collect())
    }

    pub(super) fn targets(&self) -> Vec<String> {
        if self.target.is_empty() { vec!["lariat".to_owned()] } else { self.target.clone() }
    }
}

/// Hours of a month, as hosting providers count them.
const MONTH_H: f64 = 730.0;

/// Units of traffic, in GB.
const TRAFFIC_UNITS: [(&str, f64); 2] = [("GB", 1.0), ("TB", 1e-3)];

/// Parses `0.40/h`: an amount per unit, in any currency.
fn price(name: &str, written: &Written, units: &[(&str, f64)]) -> LabResult<Option<f64>> {
    let names: Vec<_> = units.iter().map(|(known, _)| format!("0.40/{known}")).collect();
    let wanted = format_args!("a price, as {}", names.join(" or "));
    meant(name, written, None, wanted, |text| {
        let (amount, unit) = text.split_once('/')?;
        let (_, scale) = units.iter().find(|(known, _)| *known == unit.trim())?;
        let amount = amount.trim().parse::<f64>().ok()?;
        (0.0..=1e9).contains(&amount).then_some(Some(amount * scale))
    })
}

/// Lists the keys with their values, for the head of an answer.
pub(super) fn asked(forecast: &TrafficForecast) -> Vec<(String, String)> {
    let seconds = |value: f64| quantity::show_duration(std::time::Duration::from_secs_f64(value));
    let percent = |value: f64| format!("{:.1} %", value * 100.0);
    let tls = if forecast.is_tls13 { "1.3" } else { "1.2" };
    [
        ("rate", format!("{} requests/s", forecast.requests_per_s)),
        ("requests per connection", forecast.requests_per_connection.to_string()),
        ("connections", format!("{}/s", forecast.connections_per_s())),
        ("resumed", percent(forecast.resumed_share)),
        ("session lifetime", seconds(forecast.lifetime_s)),
        ("TLS", format!("{tls}, {}, {}", forecast.key.name(), forecast.group)),
        ("size", quantity::show_size(forecast.body_bytes)),
        ("clients", forecast.clients.to_string()),
        ("connection lifetime", seconds(forecast.connection_s)),
        ("p99", seconds(forecast.p99_s)),
        ("lose", forecast.lose.to_string()),
        ("share", forecast.sharing.name().to_owned()),
        ("host", format!("{} cores, {}", forecast.cores, ByteCount(forecast.memory_bytes))),
        ("busy at most", percent(forecast.busy_max)),
        ("round trip", seconds(forecast.round_trip_s)),
        ("seed", forecast.seed.to_string()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .to_vec()
}

fn wrong(name: &str, text: &str, wanted: impl Display) -> LabFault {
    LabFault::new(
        format!("--{name} `{}` is not {wanted}", tame(text)),
        format!("see `--{name}` of --help"),
    )
}

/// Parses the value of a key, or returns the default if the key is missing.
fn meant<T>(
    name: &str,
    written: &Written,
    usual: T,
    wanted: impl Display,
    read: impl FnOnce(&str) -> Option<T>,
) -> LabResult<T> {
    let Some(WrittenValue(text)) = written else {
        return Ok(usual);
    };
    read(text).ok_or_else(|| wrong(name, text, wanted))
}

/// Parses `40000`, `40000/s` or `2e6`, within bounds.
pub(super) fn number(
    name: &str,
    written: &Written,
    usual: f64,
    (least, most): (f64, f64),
) -> LabResult<f64> {
    meant(name, written, usual, format_args!("a number from {least} to {most}"), |text| {
        let value = text.strip_suffix("/s").unwrap_or(text).trim().parse().ok();
        value.filter(|value| (least..=most).contains(value))
    })
}

pub(super) fn whole(name: &str, value: f64) -> LabResult<u32> {
    let is_whole = value.fract() == 0.0;
    if is_whole { Ok(value as u32) } else { Err(wrong(name, &value.to_string(), "a whole number")) }
}

pub(super) fn time(
    name: &str,
    written: &Written,
    usual: f64,
    (least, most): (f64, f64),
) -> LabResult<f64> {
    let wanted =
        format_args!("a time with its unit, as 50ms, 2s or 1h, from {least} s to {most} s");
    meant(name, written, usual, wanted, |text| {
        let value = quantity::duration(text).map(|time| time.as_secs_f64());
        value.filter(|value| (least..=most).contains(value))
    })
}

fn bytes(name: &str, written: &Written, usual: u64, most: u64) -> LabResult<u64> {
    let size = |text: &str| quantity::size(text).filter(|value| *value <= most);
    meant(name, written, usual, "a size, as 8KiB or 64GiB", size)
}

/// Parses `70%` or `0.7`.
fn part(text: &str, least: f64) -> Option<f64> {
    let percent = text.strip_suffix('%');
    let value: f64 = percent.unwrap_or(text).trim().parse().ok()?;
    let value = if percent.is_some() { value / 100.0 } else { value };
    (least..=1.0).contains(&value).then_some(value)
}

pub(super) fn share(name: &str, written: &Written, usual: f64) -> LabResult<f64> {
    meant(name, written, usual, "a share, as 70% or 0.7", |text| part(text, 0.0))
}

/// Parses the limit of a worker's utilization; 0 is refused because no number of hosts would do.
fn busy_max(written: &Written) -> LabResult<f64> {
    meant("busy-max", written, 0.8, "a share from 1% to 100%", |text| part(text, 0.01))
}

fn named<T: Copy>(name: &str, written: &Written, usual: &str, known: &[(&str, T)]) -> LabResult<T> {
    let text = written.as_ref().map_or(usual, |written| written.0.as_str());
    let found = known.iter().find(|(it, _)| it.eq_ignore_ascii_case(text));
    let names = known.iter().map(|it| it.0);
    found.map(|it| it.1).ok_or_else(|| unknown(name, text, names))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::values::parsed;

    const HOST: HostSize = HostSize { cores: 2, memory_bytes: 1 << 30 };

    fn meant(line: &str) -> Result<TrafficForecast, String> {
        let question: FarmQuestion = parsed(line);
        question.meant(HOST).map_err(|fault| fault.to_string())
    }

    #[test]
    fn keys_mean_what_they_say() {
        let forecast = meant("--rate 40000/s --requests-per-connection 4 --resumed 70%").unwrap();
        assert_eq!(forecast.connections_per_s(), 10_000.0);
        assert_eq!((forecast.resumed_share, forecast.cores), (0.7, 2));
        let reckoned = meant("--rate 10 --clients 36000 --session-lifetime 1h").unwrap();
        assert!((reckoned.resumed_share - (1.0 - (-1.0f64).exp())).abs() < 1e-9);
    }

    #[test]
    fn absurd_values_are_refused_by_name() {
        for (line, said) in [
            ("", "--rate is missing"),
            ("--rate=-5", "--rate `-5` is not a number from"),
            ("--rate 1e99", "--rate"),
            ("--rate 1 --resumed 170%", "--resumed `170%` is not a share"),
            ("--rate 1 --p99 50", "--p99 `50` is not a time with its unit"),
            ("--rate 1 --lose 1.5", "--lose `1.5` is not a whole number"),
            ("--rate 1 --key rsa-1024", "there is no key `rsa-1024`"),
            ("--rate 1 --share friends", "there is no share `friends`"),
            ("--rate NaN", "--rate"),
        ] {
            let fault = meant(line).unwrap_err();
            assert!(fault.contains(said) && fault.contains("hint: "), "{line}: {fault}");
        }
    }

    #[test]
    fn money_is_hosts_and_bytes_by_the_prices_of_the_reader() {
        let money = |line: &str, hosts| {
            let question: FarmQuestion = parsed(line);
            let rows = question.money(&question.meant(HOST).unwrap(), hosts);
            rows.map(|rows| rows.into_iter().map(|row| row.used).collect::<Vec<_>>())
        };
        assert!(money("--rate 9", Some(3.0)).unwrap().is_empty());
        // 1,000 replies of 1 MiB and as many handshakes for 730 hours, in GB.
        let line = "--rate 1000 --size 1MiB --resumed 0% --price-host 0.40/h --price-traffic 5/TB";
        let gb = 1000.0 * (1_048_576.0 + 1793.0) * 730.0 * 3600.0 / 1e9;
        let both = [format!("{:.2}", 3.0 * 0.4 * 730.0), format!("{:.2}", gb * 0.005)];
        assert_eq!(money(line, Some(3.0)).unwrap(), both);
        assert_eq!(money("--rate 9 --price-host 292/month", Some(2.0)).unwrap(), ["584.00"]);
        assert!(money("--rate 9 --price-host 292/month", None).unwrap().is_empty());
        for absurd in ["--price-host 0.4", "--price-host 1/GB", "--price-traffic -1/GB"] {
            let fault = money(&format!("--rate 9 {}", absurd.replace(' ', "=")), Some(1.0));
            let fault = fault.unwrap_err().to_string();
            assert!(fault.contains("is not a price, as 0.40/"), "{fault}");
        }
    }

    #[test]
    fn a_file_has_the_same_keys_and_flags_stand_above_it() {
        let file: FarmQuestion =
            toml::from_str("rate = 40_000\nresumed = '70%'\nrecord = ['a.jsonl']\n").unwrap();
        let question: FarmQuestion = parsed("--rate 5");
        let both = question.over(file);
        let forecast = both.meant(HOST).unwrap();
        assert_eq!((forecast.requests_per_s, forecast.resumed_share), (5.0, 0.7));
        assert!(toml::from_str::<FarmQuestion>("rat = 5").is_err());
    }
}
