//! The keys of a service's front.

use std::time::Duration;

use options::{Key, Problem, Section, Value, all};
use proxy::options::{
    FrontOptions, FrontTls, KtlsMode, KtlsOptions, Liveness, SourceRules, Transport,
};
use static_files::options::Redirect;
use sys::socket::Zoned;
use tls::identity::AllowedIdentity;
use tls::options::{
    BadCertificate, ClientMode, ClientVerification, ExpiredLists, Group, ReplacedCertificates,
    ServerOptions, Suite, Suites, Tls13Sessions, UnknownName, Version,
};
use tls::server::EARLY_DATA_BYTES_MIN;
use wire::address::Address;

use crate::certificates::{self, Shelf};
use crate::host::Tls13Choice;
use crate::networks;
use crate::presets;

pub(crate) fn read(
    front: &Section<'_>,
    has_back_tls: bool,
    unacknowledged: Option<Option<Duration>>,
    tls13: Tls13Choice,
    shelf: &mut Shelf<'_>,
) -> Option<FrontOptions> {
    let listen = front.list("listen", listen_address);
    let is_local = listen.iter().flatten().all(is_of_this_host);
    let names = front.parsed_list("names");
    let protocols = alpn(front, "protocols");
    let accept_proxy = front.parsed_list("accept-proxy");
    let allow = networks::read(front, "allow", shelf);
    let deny = networks::read(front, "deny", shelf);
    let liveness = liveness(front, unacknowledged);
    let transport = transport(front);
    let defer_accept = front.boolean("defer-accept");
    let (tls, ktls) = tls_options(front, has_back_tls && is_local, tls13, shelf)?;
    Some(FrontOptions {
        listen: listen?,
        names: names?,
        protocols: protocols?,
        accept_proxy: accept_proxy?,
        sources: SourceRules {
            allow: allow?,
            deny: deny?,
        },
        liveness: liveness?,
        transport: transport?,
        defer_accept: defer_accept?,
        ktls,
        tls,
    })
}

/// Where a front with a fault listens, and nothing else of it: never to be served.
pub(crate) fn addresses(front: &Section<'_>) -> FrontOptions {
    let listen = front.list("listen", listen_address);
    // Sockets of two interfaces are apart: where they are not known, nor is what they take.
    let (listen, transport) = listen.zip(transport(front)).unwrap_or_default();
    FrontOptions {
        listen,
        names: Vec::new(),
        protocols: Vec::new(),
        accept_proxy: Vec::new(),
        sources: SourceRules::default(),
        liveness: Liveness::default(),
        transport,
        defer_accept: false,
        ktls: NO_KTLS,
        tls: FrontTls::Plain,
    }
}

/// The names by which a service manager keeps Lariat's own descriptors begin so.
pub const KEPT_NAMES: &str = "lariat/";

fn listen_address(value: &Value, key: &Key) -> Result<Address, Problem> {
    match options::parse::<Zoned<Address>>(value, key)?.0 {
        Address::Inherited(name) if name.starts_with(KEPT_NAMES) => {
            let message = format!("\"fd:{name}\" is a name that Lariat gives its own descriptors");
            Err(Problem::new(message).hint("write another FileDescriptorName= in the socket unit"))
        }
        address => Ok(address),
    }
}

/// Whether clients of other hosts cannot reach it.
fn is_of_this_host(address: &Address) -> bool {
    match address {
        Address::Ip(address) => address.ip().is_loopback(),
        Address::Unix(_) => true,
        // Only the service manager knows.
        Address::Inherited(_) => false,
    }
}

/// What is done with a client's TLS, as the words of `tls.mode`.
#[derive(Clone, Copy)]
enum Mode {
    Terminate,
    Passthrough,
    Off,
}

const NO_KTLS: KtlsOptions = KtlsOptions {
    mode: KtlsMode::Off,
    from: 0,
};

fn tls_options(
    front: &Section<'_>,
    only_originates: bool,
    tls13: Tls13Choice,
    shelf: &mut Shelf<'_>,
) -> Option<(FrontTls, KtlsOptions)> {
    let section = front.section("tls");
    let mode = section.choice(
        "mode",
        &[
            ("terminate", Mode::Terminate),
            ("passthrough", Mode::Passthrough),
            ("off", Mode::Off),
        ],
    );
    // Flags say it in so many words: a certificate that was forgotten must not open a port to other
    // hosts.
    let may_be_plain = front.is_in_file() || front.has("redirect") || only_originates;
    let mode = if may_be_plain && !front.has("tls") {
        Mode::Off
    } else {
        mode?
    };
    let as_it_comes = match mode {
        Mode::Terminate => {
            let ktls = ktls(&section.section("ktls"));
            let tls = tls(&section, tls13, shelf);
            let (tls, ktls) = (tls?, ktls?);
            let ktls = ktls_fits(&section, ktls, &tls)?;
            return Some((FrontTls::Terminate(Box::new(tls)), ktls));
        }
        Mode::Passthrough => FrontTls::Passthrough,
        Mode::Off => FrontTls::Plain,
    };
    let mut is_alone = true;
    for key in section.written_keys().filter(|key| key.name() != "mode") {
        let message = "stands beside a `mode` that terminates no TLS";
        section.refuse(
            key.name(),
            message,
            "take it out, or write mode = \"terminate\"",
        );
        is_alone = false;
    }
    is_alone.then_some((as_it_comes, NO_KTLS))
}

/// Where requests are redirected to; nowhere, if nobody wrote so.
#[allow(clippy::option_option, reason = "left out and reported are two things")]
pub(crate) fn redirect(front: &Section<'_>) -> Option<Option<Redirect>> {
    let read = |text: &str| {
        let port = match text.strip_prefix("https") {
            Some("") => Some(443),
            Some(rest) => rest.strip_prefix(':').and_then(|port| port.parse().ok()),
            None => None,
        };
        let port = port.filter(|port| *port != 0);
        let problem = || {
            let problem = Problem::new(format!("\"{}\" is no place", text.escape_debug()));
            problem.hint("write \"https\", or \"https:PORT\" with the port of the service with TLS")
        };
        port.map(|port| Redirect { port }).ok_or_else(problem)
    };
    front.if_written("redirect", |front, key| front.read_as(key, read))
}

/// The longest name of a network interface (`IFNAMSIZ`, less the closing NUL), in bytes.
const INTERFACE_BYTES_MAX: usize = 15;

fn transport(front: &Section<'_>) -> Option<Transport> {
    let interface = front.if_written("interface", |front, key| {
        front.read_as(key, |name| {
            let is_part = |c: char| c.is_ascii_graphic() && c != '/';
            let is_name = (1..=INTERFACE_BYTES_MAX).contains(&name.len())
                && name.chars().all(is_part)
                && ![".", ".."].contains(&name);
            is_name.then(|| name.to_owned()).ok_or_else(|| {
                Problem::new(format!(
                    "\"{}\" is no name of an interface",
                    name.escape_debug()
                ))
            })
        })
    });
    let mptcp = front.boolean("mptcp");
    Some(Transport {
        interface: interface?,
        mptcp: mptcp?,
    })
}

/// How the peer of one side that is gone is noticed.
pub(crate) fn liveness(
    side: &Section<'_>,
    unacknowledged: Option<Option<Duration>>,
) -> Option<Liveness> {
    let keepalive = side.duration("keepalive");
    Some(Liveness {
        keepalive: Some(keepalive?).filter(|idle| !idle.is_zero()),
        unacknowledged: unacknowledged?,
    })
}

fn ktls(ktls: &Section<'_>) -> Option<KtlsOptions> {
    let mode = ktls.choice(
        "mode",
        &[
            ("off", KtlsMode::Off),
            ("auto", KtlsMode::Auto),
            ("require", KtlsMode::Require),
        ],
    );
    let min_size = ktls.size("min-size");
    let mode = mode?;
    if mode == KtlsMode::Off && ktls.has("min-size") {
        let problem = Problem::new("has no effect: the kernel never seals");
        ktls.warn(
            "min-size",
            problem.hint("take it out, or write mode = \"auto\""),
        );
    }
    Some(KtlsOptions {
        mode,
        from: min_size? as u64,
    })
}

/// The kernel's records have full size: where they must be shorter it seals none.
fn ktls_fits(tls: &Section<'_>, ktls: KtlsOptions, own: &ServerOptions) -> Option<KtlsOptions> {
    if own.record_bytes_max.is_none() {
        return Some(ktls);
    }
    if ktls.mode == KtlsMode::Require {
        let problem = Problem::new("makes records of full size");
        tls.error("ktls", problem.hint("take out `max-record-size`"));
        return None;
    }
    Some(KtlsOptions {
        mode: KtlsMode::Off,
        ..ktls
    })
}

fn tls(tls: &Section<'_>, tls13: Tls13Choice, shelf: &mut Shelf<'_>) -> Option<ServerOptions> {
    let bad_certificate = tls.choice(
        "bad-certificate",
        &[
            ("refuse", BadCertificate::Refuse),
            ("skip", BadCertificate::Skip),
        ],
    );
    let bad = bad_certificate.unwrap_or(BadCertificate::Refuse);
    let certificates = certificates::certificates(tls, bad, shelf);
    let alpn = alpn(tls, "alpn");
    let preset = presets::read(tls);
    let versions = match preset.flatten() {
        Some(preset) if !tls.has("versions") => Some(preset.versions.to_vec()),
        _ => versions(tls),
    };
    let suites = suites(tls);
    let groups = groups(tls);
    let unknown_name = tls.choice(
        "unknown-name",
        &[
            ("default", UnknownName::Default),
            ("refuse", UnknownName::Refuse),
        ],
    );
    let client = client(tls, shelf);
    let resumption = tls.boolean("resumption");
    let early_data = early_data(tls, tls13, versions.as_deref(), resumption);
    let replaced = replaced_certificates(tls, shelf);
    let record_bytes_max = tls.if_written("max-record-size", Section::size);
    let both = versions.as_ref().zip(suites.as_ref());
    let fit = both.and_then(|(versions, suites)| suites_fit(tls, versions, suites));
    let versions = versions?;
    let (certificates, skipped) = certificates?;
    let options = ServerOptions {
        certificates,
        bad_certificate: bad_certificate?,
        skipped,
        unknown_name: unknown_name?,
        version_min: *versions.iter().min()?,
        version_max: *versions.iter().max()?,
        suites: suites?,
        groups: groups?,
        alpn: alpn?,
        client: client?,
        resumption: resumption?,
        tls13_sessions: tls13_sessions(tls13, early_data?),
        replaced: replaced?,
        record_bytes_max: record_bytes_max?,
    };
    if let (Some(preset), Some(_)) = (preset?, shelf.inspector) {
        preset.departures(tls, &options);
    }
    fit.and(Some(options))
}

/// The early data that is taken, in bytes; 0 = none.
fn early_data(
    tls: &Section<'_>,
    tls13: Tls13Choice,
    versions: Option<&[Version]>,
    resumption: Option<bool>,
) -> Option<u32> {
    if !tls.has("early-data") {
        return Some(0);
    }
    let bytes_max = u32::try_from(tls.size("early-data")?).unwrap_or(u32::MAX);
    let fault = if resumption == Some(false) {
        Some((
            "is taken from clients that resume",
            "take out resumption = false",
        ))
    } else if versions.is_some_and(|versions| !versions.contains(&Version::Tls13)) {
        Some(("is part of TLS 1.3", "add \"1.3\" to `versions`"))
    } else if tls13 == Tls13Choice::Tickets {
        Some((
            "needs sessions that resume once, which tickets do not",
            "write resumption.tls13 = \"auto\" or \"cache\"",
        ))
    } else {
        None
    };
    let Some((words, hint)) = fault else {
        return Some(bytes_max);
    };
    tls.error("early-data", Problem::new(words).hint(hint));
    None
}

fn tls13_sessions(tls13: Tls13Choice, early_data_bytes_max: u32) -> Tls13Sessions {
    match (tls13, early_data_bytes_max) {
        (Tls13Choice::Auto | Tls13Choice::Tickets, 0) => Tls13Sessions::Tickets,
        _ => Tls13Sessions::Cache {
            early_data_bytes_max: match early_data_bytes_max {
                0 => 0,
                some => some.max(EARLY_DATA_BYTES_MIN),
            },
        },
    }
}

fn replaced_certificates(tls: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<ReplacedCertificates> {
    let revoked = certificates::pem_files(tls, "revoked", shelf);
    let resume = tls.choice(
        "replaced-certificates",
        &[("resume", true), ("refuse", false)],
    );
    Some(ReplacedCertificates {
        revoked: revoked?,
        resume: resume?,
    })
}

pub(crate) fn versions(tls: &Section<'_>) -> Option<Vec<Version>> {
    let meanings = [("1.2", Version::Tls12), ("1.3", Version::Tls13)];
    tls.choices("versions", &meanings)
}

pub(crate) fn groups(tls: &Section<'_>) -> Option<Vec<Group>> {
    let meanings: Vec<_> = Group::ALL.iter().map(|g| (g.name(), *g)).collect();
    tls.choices("groups", &meanings)
}

/// Protocols by their names (RFC 7301).
pub(crate) fn alpn(section: &Section<'_>, name: &str) -> Option<Vec<Vec<u8>>> {
    section.list(name, |value, _| match value {
        Value::Text(name) if (1..=255).contains(&name.len()) => Ok(name.clone().into_bytes()),
        Value::Text(_) => Err(Problem::new("holds a name that has not 1 to 255 bytes")),
        other => Err(Problem::new(format!(
            "is {}, but a string is wanted",
            other.kind()
        ))),
    })
}

/// A listed suite, or the word for all of them.
#[derive(Clone, Copy)]
enum Wanted {
    Auto,
    One(Suite),
}

pub(crate) fn suites(tls: &Section<'_>) -> Option<Suites> {
    let mut meanings = vec![("auto", Wanted::Auto)];
    meanings.extend(
        Suite::ALL
            .iter()
            .map(|suite| (suite.name(), Wanted::One(*suite))),
    );
    let wanted = tls.choices("suites", &meanings)?;
    let listed: Vec<_> = wanted
        .iter()
        .filter_map(|one| match one {
            Wanted::Auto => None,
            Wanted::One(suite) => Some(*suite),
        })
        .collect();
    match (listed.is_empty(), listed.len() == wanted.len()) {
        (true, _) => Some(Suites::Auto),
        (false, true) => Some(Suites::Listed(listed)),
        (false, false) => {
            let problem = Problem::new("mixes \"auto\" with names");
            tls.error(
                "suites",
                problem.hint("write \"auto\" alone, or names alone"),
            );
            None
        }
    }
}

/// Every version that is spoken needs a suite.
pub(crate) fn suites_fit(tls: &Section<'_>, versions: &[Version], suites: &Suites) -> Option<()> {
    let Suites::Listed(suites) = suites else {
        return Some(());
    };
    let mut fit = Some(());
    for (version, name) in [(Version::Tls12, "1.2"), (Version::Tls13, "1.3")] {
        let fits = |suite: &Suite| (suite.code() >> 8 == 0x13) == (version == Version::Tls13);
        if versions.contains(&version) && !suites.iter().any(fits) {
            let problem = Problem::new(format!("has no suite for TLS {name}"));
            let hint = format!("add one, or take \"{name}\" out of `versions`");
            tls.error("suites", problem.hint(hint));
            fit = None;
        }
    }
    fit
}

fn client(tls: &Section<'_>, shelf: &mut Shelf<'_>) -> Option<ClientVerification> {
    let Some(section) = tls.section_if_written("client-certificates") else {
        return Some(ClientVerification::default());
    };
    let mode = section.choice(
        "mode",
        &[
            ("none", ClientMode::None),
            ("optional", ClientMode::Optional),
            ("required", ClientMode::Required),
        ],
    );
    let authorities = certificates::pem_files(&section, "ca", shelf);
    let crls = certificates::pem_files(&section, "crl", shelf);
    let expired_lists = section.choice(
        "crl-expired",
        &[
            ("refuse", ExpiredLists::Refuse),
            ("accept", ExpiredLists::Accept),
        ],
    );
    let allow = allow(&section);
    let omits_names = section.choice("ca-names", &[("send", false), ("omit", true)]);
    let client = ClientVerification {
        mode: mode?,
        authorities: authorities?,
        crls: crls?,
        expired_lists: expired_lists?,
        allow: allow?,
        omits_names: omits_names?,
    };
    if client.mode != ClientMode::None && client.authorities.is_empty() {
        let problem = Problem::new("asks for certificates, but no `ca` says who may issue them");
        section.error("mode", problem.hint("add ca = [\"clients-ca.pem\"]"));
        return None;
    }
    if client.mode == ClientMode::None && section.has("ca") {
        let problem = Problem::new("asks for no certificate, so `ca` has no effect");
        section.warn(
            "mode",
            problem.hint("write mode = \"required\" or \"optional\""),
        );
    }
    if client.mode == ClientMode::None && section.has("allow") {
        let problem = "lists who may enter, but mode = \"none\" asks for no certificate";
        section.refuse("allow", problem, "write mode = \"required\"");
        return None;
    }
    if client.crls.is_empty() && section.has("crl-expired") {
        let problem = Problem::new("has no effect: there is no `crl`");
        section.warn("crl-expired", problem.hint("add crl = [\"clients.crl\"]"));
    }
    Some(client)
}

/// The identities that may enter. A list that was written and allows nothing was meant otherwise.
fn allow(client: &Section<'_>) -> Option<Vec<AllowedIdentity>> {
    let Some(section) = client.section_if_written("allow") else {
        return Some(Vec::new());
    };
    let read = AllowedIdentity::KINDS.map(|(kind, read)| {
        section.read_all_as(kind, |text| {
            read(text).map_err(|fault| Problem::new(format!("\"{text}\" {fault}")))
        })
    });
    let allowed: Vec<_> = all(read.into_iter())?.into_iter().flatten().collect();
    if allowed.is_empty() {
        let hint = "list an identity, or take it out to allow every certificate that verifies";
        client.refuse("allow", "lists no identity", hint);
        return None;
    }
    Some(allowed)
}
