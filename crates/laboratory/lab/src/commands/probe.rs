//! Runs `lariat-lab probe`: its arguments and messages.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueHint, value_parser};
use load::ech::EchOption;
use load::observe::TrustedRoots;
use load::options::value::OrNone;
use load::plan::{OwnCertificate, ProxyVersion};
use measure::probe::{Level, ProbeReport};
use measure::record::to_json;
use options::Report;
use probe::expect::{Expectations, FailedExpectation};
use probe::run::probe;
use probe::{ProbeOptions, WaitLimits};
use probe::{facts, points};
use sys::process;
use sys::socket::AddressWithZone;
use wire::address::{Address, AddressError, Endpoint};
use wire::starttls::Dialect;
use wire::text::line;

use super::values::{AnswerOutput, choice, give, time, value};
use crate::console::{Console, print};
use crate::fault::{Exit, LabFault, LabResult};
use crate::load::{PlanFile, ResolvedAddress, read, resolve};
use crate::pages::check_page;

/// Find out how TLS endpoints are configured, and what to change
///
/// Makes connections one after the other: which versions, suites, groups and certificates clients
/// get, whose order decides, and how often each kind of session is resumed, at the same address and
/// at each other one that the names have or that are listed. Says what is wrong or could be better,
/// and which setting of lariat, nginx, haproxy, hitch or stunnel to change. docs/guide/probe.md
/// explains how to read it.
#[derive(Args, Debug)]
pub(super) struct ProbeArguments {
    /// Hosts, with port 443 unless they have another
    #[arg(value_name = "HOST[:PORT]")]
    hosts: Vec<String>,
    /// Connect there instead of looking up the names; may be given again
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    connect: Vec<SocketAddr>,
    /// Name in SNI, which certificates are checked for [default: the first host; none: no SNI]
    #[arg(long, value_name = "NAME|none")]
    #[arg(value_parser = value(or_none(server_name), "a host name", "www.example.com"))]
    server_name: Option<OrNone<String>>,
    /// Send a PROXY header first
    #[arg(long, value_name = "VERSION", value_parser = choice(ProxyVersion::NAMED))]
    send_proxy: Option<ProxyVersion>,
    /// Ask for TLS in the words of a protocol that begins in plaintext
    #[arg(long, value_name = "KIND", value_parser = choice(Dialect::ALL))]
    starttls: Option<Dialect>,
    /// Name that servers of smtp and lmtp are told [default: this host's, fully qualified; else its
    /// address]
    #[arg(long, value_name = "NAME")]
    ehlo_name: Option<String>,
    #[command(flatten)]
    conduct: ProbeConduct,
    /// A certificate and its key, for servers that ask for one
    #[arg(long, value_name = "FILE.pem", value_hint = ValueHint::AnyPath)]
    client_certificate: Option<PathBuf>,
    /// An ECHConfigList in Base64, as DNS has it, or a file with one: also sends hellos that are
    /// encrypted by it
    #[arg(long, value_name = "CONFIG|FILE")]
    ech: Option<String>,
    /// Path of the GET that shows records and the end of a connection
    #[arg(long, value_name = "PATH|none", default_value = "/")]
    #[arg(value_parser = value(or_none(request_path), "a path", "/index.html"))]
    request: OrNone<String>,
    /// How often sessions are offered at the same address; elsewhere 4 times at the most
    #[arg(long, value_name = "N", default_value = "8")]
    #[arg(value_parser = value_parser!(u32).range(1..=100))]
    attempts: u32,
    /// Output of an earlier probe with --json: tells since when ticket keys are in use
    #[arg(long, value_name = "FILE.json", value_hint = ValueHint::AnyPath)]
    earlier: Option<PathBuf>,
    /// List the facts that may be expected, and the points
    #[arg(long)]
    facts: bool,
    #[command(flatten)]
    output: AnswerOutput,
}

/// Arguments that a survey and a probe share.
#[derive(Args, Clone, Debug)]
pub(super) struct ProbeConduct {
    /// Trust these roots instead of the system's
    #[arg(long, value_name = "FILE.pem", value_hint = ValueHint::AnyPath)]
    pub(super) ca: Option<PathBuf>,
    /// Time for each connection
    #[arg(long, value_name = "T", default_value = "5s")]
    #[arg(value_parser = time((TIMEOUT_MIN, TIMEOUT_MAX), "a time from 10ms to 10m", "5s"))]
    timeout: Duration,
    /// How much longer a server of mail, news or files may take to greet
    #[arg(long, value_name = "T", default_value = "30s")]
    #[arg(value_parser = time((TIMEOUT_MIN, TIMEOUT_MAX), "a time from 10ms to 10m", "30s"))]
    greeting_timeout: Duration,
    // A probe's 60 to 200 connections take this long over a satellite: 600 ms a round trip.
    /// Time for all connections to an address together: one that takes longer is left alone
    #[arg(long, value_name = "T", default_value = "5m")]
    #[arg(value_parser = time((TIMEOUT_MIN, MAX_TIME_MAX), "a time from 10ms to 1h", "5m"))]
    max_time: Duration,
    /// Facts and the values that they should have; exit code 7 if one has another
    #[arg(long, value_name = "FILE.toml", value_hint = ValueHint::AnyPath)]
    expect: Option<PathBuf>,
    /// End with exit code 8 if a point of this level, or of a worse one, is found
    #[arg(long, value_name = "fault|advice", value_parser = choice(&FAIL_ON))]
    fail_on: Option<Level>,
}

/// Levels that `--fail-on` accepts.
const FAIL_ON: [(&str, Level); 2] = [("fault", Level::Fault), ("advice", Level::Advice)];

impl ProbeConduct {
    pub(super) fn limits(&self) -> WaitLimits {
        WaitLimits {
            connection: self.timeout,
            greeting: self.greeting_timeout,
            address: self.max_time,
        }
    }

    pub(super) fn expectations(&self, console: Console) -> LabResult<Option<Expectations>> {
        self.expect.as_deref().map(|path| expectations(path, console)).transpose()
    }

    /// Returns the exit code for printed reports: expectations take precedence, then points that
    /// count, then whether no endpoint could be probed.
    pub(super) fn conclude(
        &self,
        expected: Option<&Expectations>,
        reports: &[ProbeReport],
        console: Console,
    ) -> Exit {
        let unmet = expected.map(|all| reports.iter().flat_map(|one| all.unmet(one)));
        let unmet: Vec<_> = unmet.into_iter().flatten().collect();
        if !unmet.is_empty() {
            return tell_unmet(&unmet, console);
        }
        let mut verdicts = reports.iter().flat_map(|report| &report.verdicts);
        if self.fail_on.is_some_and(|level| verdicts.any(|verdict| verdict.level <= level)) {
            return Exit::Judged;
        }
        let nodes = || reports.iter().flat_map(|report| &report.nodes);
        let is_hostless = reports.iter().any(|report| report.nodes.is_empty());
        match nodes().filter(|node| node.trouble.is_some()).count() {
            _ if expected.is_some() => Exit::Success,
            troubles if troubles == nodes().count() => Exit::Fruitless,
            0 if !is_hostless => Exit::Success,
            _ => Exit::Partial,
        }
    }

    /// Reads the root certificates that the user named, or those of the system.
    pub(super) fn roots(&self) -> LabResult<Option<Vec<u8>>> {
        let Some(path) = &self.ca else {
            let mut places = SYSTEM_ROOTS.iter().map(Path::new);
            return Ok(places.find_map(|path| read(path).ok()));
        };
        let pem = file("ca", path)?;
        if TrustedRoots::read(&pem).is_none() {
            let text = format!("{} holds no certificate", path.display());
            return Err(LabFault::new(text, "--ca names a file of PEM with the roots"));
        }
        Ok(Some(pem))
    }
}

/// Limit of addresses: every pair is tried, and eight have 56 pairs.
const ADDRESSES_MAX: usize = 8;
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
const TIMEOUT_MAX: Duration = Duration::from_secs(600);
const MAX_TIME_MAX: Duration = Duration::from_secs(3600);

/// Paths of the system's root certificates: in Debian, Alpine and Arch, and in Fedora and SUSE.
const SYSTEM_ROOTS: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
];

pub(super) fn run(arguments: ProbeArguments, console: Console) -> LabResult<Exit> {
    if arguments.facts {
        return print(facts_listed());
    }
    if arguments.hosts.is_empty() {
        let hint = "for example: lariat-lab probe www.example.com:443";
        return Err(LabFault::new("no host is named", hint));
    }
    check_page(arguments.output.output.as_deref(), &[])?;
    let expected = arguments.conduct.expectations(console)?;
    let (output, conduct) = (arguments.output.clone(), arguments.conduct.clone());
    let options = options(arguments)?;
    if options.addresses.is_empty() {
        for (host, reason) in &options.unresolved {
            console.fail(format_args!("{host} has no address: {reason}"), "is the name right?");
        }
        return Ok(Exit::Address);
    }
    let report = probe(&options, &|doing| {
        if io::stderr().is_terminal() {
            console.say(doing);
        }
    });
    give(&output, &report::probe::document(&report), || json_line(&report), console)?;
    Ok(conduct.conclude(expected.as_ref(), &[report], console))
}

/// Formats a report on one line. Escapes servers' text where a terminal would obey it.
pub(super) fn json_line(report: &ProbeReport) -> String {
    format!("{}\n", line(&to_json(report)))
}

fn facts_listed() -> String {
    let all = facts::all().into_iter();
    let facts = all.map(|fact| format!("  {:36} {}\n", fact.name, fact.help));
    let points = points::all().iter().map(|point| {
        let level = point.level.name();
        format!("  {:36} {level}: {}\n", point.name, point.why)
    });
    let between = "\nThe points that `faults` and `advice` may list:\n".to_owned();
    facts.chain([between]).chain(points).collect()
}

fn expectations(path: &Path, console: Console) -> LabResult<Expectations> {
    let hint = "--expect names a TOML file; `lariat-lab probe --facts` lists what it may say";
    let file = PlanFile::open(path).map_err(|text| LabFault::new(text, hint))?;
    let source = (file.path.as_str(), file.text.as_str());
    let report = Report::new(Some(source));
    let read = Expectations::read(&file.text, &report);
    let complaints = report.into_complaints();
    if !complaints.is_empty() {
        console.tell(complaints, Some(source));
    }
    match read {
        // A file that a script emptied by mistake must not pass.
        Some(read) if read.is_empty() => {
            Err(LabFault::new(format_args!("{} expects nothing", file.path), hint))
        }
        Some(read) => Ok(read),
        None => Err(LabFault::reported(Exit::Usage)),
    }
}

fn tell_unmet(unmet: &[FailedExpectation], console: Console) -> Exit {
    for one in unmet {
        let FailedExpectation { fact, address, wanted, found } = one;
        // Keeps the server's words on their line.
        let found = line(found);
        console.error(format_args!("{address}: {fact} is {found}, expected: {wanted}"));
    }
    Exit::Unmet
}

/// Reads flags and files, and resolves names.
fn options(arguments: ProbeArguments) -> LabResult<ProbeOptions> {
    let hosts = arguments.hosts;
    let endpoints = hosts.iter().map(|host| endpoint(host)).collect::<Result<Vec<_>, _>>()?;
    let (addresses, unresolved) = if arguments.connect.is_empty() {
        addresses(&hosts, &endpoints)
    } else {
        (arguments.connect, Vec::new())
    };
    if addresses.len() > ADDRESSES_MAX {
        return Err(LabFault::new(
            format!("{} addresses are more than {ADDRESSES_MAX}", addresses.len()),
            "name some of them by --connect",
        ));
    }
    let name = endpoints.first().map(host_of).unwrap_or_default();
    let server_name = match arguments.server_name {
        Some(OrNone::This(asked)) => Some(asked),
        Some(OrNone::Nothing) => None,
        None => name.parse::<std::net::IpAddr>().is_err().then(|| name.clone()),
    };
    let authority = server_name.clone().unwrap_or_else(|| name.clone());
    Ok(ProbeOptions {
        expected_name: Some(authority.clone()),
        proxy: arguments.send_proxy,
        starttls: arguments.starttls,
        ehlo_name: arguments.ehlo_name.unwrap_or_else(process::own_name),
        client_certificate: arguments
            .client_certificate
            .map(|path| client_certificate(&path))
            .transpose()?,
        ech: arguments.ech.as_deref().map(ech_configurations).transpose()?,
        roots_pem: arguments.conduct.roots()?,
        roots_of_system: arguments.conduct.ca.is_none(),
        earlier: arguments.earlier.as_deref().map(earlier).transpose()?,
        // Protocols with STARTTLS have no GET.
        request: match (arguments.starttls, arguments.request) {
            (None, OrNone::This(path)) => get(&path, &authority),
            (Some(_), _) | (None, OrNone::Nothing) => Vec::new(),
        },
        limits: arguments.conduct.limits(),
        attempts: arguments.attempts,
        now_s: now_s(),
        hosts,
        addresses,
        unresolved,
        server_name,
    })
}

fn ech_configurations(text: &str) -> LabResult<Vec<u8>> {
    match EchOption::read(text, &read) {
        Ok(EchOption::Configurations(list)) => Ok(list),
        Ok(EchOption::Grease) => {
            let hint = "leave --ech out, or give it an ECHConfigList";
            Err(LabFault::new("--ech: GREASE is sent by every probe", hint))
        }
        Err(why) => {
            let hint =
                "an ECHConfigList in Base64, or a file with one; `lariat ech show` prints it";
            Err(LabFault::new(format!("--ech: {why}"), hint))
        }
    }
}

/// Reads an earlier probe from its printed form.
fn earlier(path: &Path) -> LabResult<ProbeReport> {
    let text = String::from_utf8(file("earlier", path)?).unwrap_or_default();
    ProbeReport::read(&text).map_err(|error| {
        let message = format!("{} is not what a probe printed: {error}", path.display());
        LabFault::new(message, "--earlier names a file that `lariat-lab probe --json` made")
    })
}

pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Parses `HOST`, `HOST:PORT`, `[V6]:PORT`, a bare IPv6 address, or a URL.
pub(super) fn endpoint(text: &str) -> LabResult<Endpoint> {
    let of_url = text.strip_prefix("https://");
    let text = of_url.map_or(text, |url| url.split('/').next().unwrap_or_default());
    let host = text.split('%').next().unwrap_or_default();
    let with_port = match host.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(_)) => format!("[{text}]:{HTTPS}"),
        _ => text.replacen("%25", "%", 1),
    };
    let parsed = match with_port.parse::<AddressWithZone<Endpoint>>() {
        Err(AddressError::PortMissing) => format!("{with_port}:{HTTPS}").parse(),
        parsed => parsed,
    };
    let hint = "write HOST or HOST:PORT, as in www.example.com:8443";
    let shown = text.escape_debug();
    match parsed {
        Ok(AddressWithZone(Endpoint::Address(Address::Unix(_)))) => {
            Err(LabFault::new(format!("`{shown}` is a Unix socket"), hint))
        }
        Ok(AddressWithZone(Endpoint::Service { .. })) => {
            Err(LabFault::new(format!("`{shown}` stands for several servers"), hint))
        }
        Ok(AddressWithZone(endpoint)) => Ok(endpoint),
        Err(error) => Err(LabFault::new(format!("`{shown}` {error}"), hint)),
    }
}

const HTTPS: u16 = 443;

pub(super) fn host_of(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Name { host, .. } | Endpoint::Service { host, .. } => host.clone(),
        Endpoint::Address(Address::Ip(address)) => address.ip().to_string(),
        Endpoint::Address(other) => other.to_string(),
    }
}

/// Returns all addresses of all hosts, each once, and hosts without an address.
pub(super) fn addresses(
    hosts: &[String],
    endpoints: &[Endpoint],
) -> (Vec<SocketAddr>, Vec<(String, String)>) {
    let (mut found, mut unresolved) = (Vec::new(), Vec::new());
    for (host, endpoint) in hosts.iter().zip(endpoints) {
        match resolve(endpoint) {
            Err(reason) => unresolved.push((host.clone(), reason)),
            Ok(ResolvedAddress { address, others }) => {
                let first = match address {
                    Address::Ip(address) => Some(address),
                    Address::Unix(_) | Address::Inherited(_) => None,
                };
                for address in first.into_iter().chain(others) {
                    if !found.contains(&address) {
                        found.push(address);
                    }
                }
            }
        }
    }
    (found, unresolved)
}

pub(super) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    let why = match text.parse() {
        Ok(AddressWithZone(Address::Ip(address))) => return Ok(address),
        Ok(_) => "no ADDRESS:PORT".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!("{why}\nhint: for example: 127.0.0.1:8443"))
}

/// Wraps a parser so that it also accepts `none`.
fn or_none(read: fn(&str) -> Option<String>) -> impl Fn(&str) -> Option<OrNone<String>> + Clone {
    move |text| match text {
        "none" => Some(OrNone::Nothing),
        text => read(text).map(OrNone::This),
    }
}

fn server_name(name: &str) -> Option<String> {
    wire::client_hello::host_name(name).map(|_| name.to_owned())
}

fn request_path(path: &str) -> Option<String> {
    let is_path = path.starts_with('/') && !path.contains(|c: char| c.is_control() || c == ' ');
    is_path.then(|| path.to_owned())
}

fn file(flag: &str, path: &Path) -> LabResult<Vec<u8>> {
    let hint = format!("--{flag} names a file of PEM that we may read");
    read(path).map_err(|text| LabFault::new(text, hint))
}

fn client_certificate(path: &Path) -> LabResult<OwnCertificate> {
    let pem = file("client-certificate", path)?;
    Ok(OwnCertificate { chain_pem: pem.clone(), key_pem: pem })
}

/// Builds a request that HTTP servers answer before they close the connection.
pub(super) fn get(path: &str, authority: &str) -> Vec<u8> {
    let agent = concat!("lariat-lab/", env!("CARGO_PKG_VERSION"));
    format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: {agent}\r\n\
         Connection: close\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<ProbeOptions, String> {
        let arguments = crate::commands::values::read(line)?;
        options(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn hosts_have_ports_and_names() {
        for (text, shown) in [
            ("127.0.0.1", "127.0.0.1:443"),
            ("::1", "[::1]:443"),
            ("[::1]:8443", "[::1]:8443"),
            ("127.0.0.1:8443", "127.0.0.1:8443"),
            ("https://127.0.0.1:8443/page", "127.0.0.1:8443"),
        ] {
            assert_eq!(read(text).unwrap().addresses, [shown.parse().unwrap()]);
        }
        let named = read("localhost:9 --connect 127.0.0.1:8443").unwrap();
        assert_eq!(named.server_name.as_deref(), Some("localhost"));
        assert_eq!(named.addresses, ["127.0.0.1:8443".parse().unwrap()]);
        let bare = read("127.0.0.1 --server-name none --request none --send-proxy v2").unwrap();
        assert_eq!((bare.server_name, bare.request.len()), (None, 0));
        assert_eq!(bare.expected_name.as_deref(), Some("127.0.0.1"));
    }

    #[test]
    fn slips_have_remedies() {
        for (line, words) in [
            ("http://127.0.0.1/", "write HOST or HOST:PORT"),
            ("unix:/run/a", "is a Unix socket"),
            ("srv:_a._tcp.example", "stands for several servers"),
            ("127.0.0.1 --starttls smpt", "a similar value exists: 'smtp'"),
            ("127.0.0.1 --timeout 0", "not a time from 10ms to 10m"),
            ("127.0.0.1 --attempts 0", "0 is not in 1..=100"),
            ("127.0.0.1 --send-proxy v3", "possible values: v1, v2"),
            ("127.0.0.1 --connect localhost", "has no port"),
            ("127.0.0.1 --request a", "not a path"),
            ("127.0.0.1 --ca /nowhere", "--ca names a file"),
        ] {
            let fault = read(line).unwrap_err();
            assert!(fault.contains(words), "{fault}");
        }
        let many: Vec<_> = (1..=9).map(|port| format!("127.0.0.1:{port}")).collect();
        assert!(read(&many.join(" ")).unwrap_err().contains("more than 8"));
    }

    #[test]
    fn json_holds_no_marks_that_a_terminal_obeys() {
        let report = ProbeReport {
            server_name: Some("a\u{9b}\u{202e}\u{1b}\"".to_owned()),
            ..ProbeReport::default()
        };
        let text = json_line(&report);
        assert!(text.contains(r#""a\u009b\u202e\u001b\"""#), "{text}");
        assert!(text.ends_with("}\n") && text.lines().count() == 1);
    }
}
