//! Keys of a front's TLS, and of its clients' certificates.

use options::row::{boolean, path, row, size};
use options::{Field, Key, Kind, Problem, Severity, Tables, Value, choice, section, table};
use proxy::options::{FrontTls, KtlsMode, KtlsOptions};
use tls::challenge::TlsChallenges;
use tls::identity::AllowedIdentity;
use tls::options::{
    BadCertificate, ClientMode, ClientVerification, ExpiredLists, Group, ReplacedCertificates,
    ResumptionGroup, ServerOptions, Tls13Sessions, UnknownName, Version,
};
use tls::server::EARLY_DATA_BYTES_MIN;

use crate::acme::{self, WrittenServiceAcme};
use crate::certificates::{self, OwnCertificates, WrittenCertificate};
use crate::resolver::FileResolver;
use crate::resumption::Tls13Choice;
use crate::tls_choices::{
    GROUP_SYNONYMS, GROUPS, PRESETS, Preset, SUITE_SYNONYMS, SUITES, VERSION_SYNONYMS, WantedSuite,
    protocol, suites, suites_fit,
};

/// Maximum of `tls`.
const EARLY_DATA_BYTES_MAX: u64 = tls::server::EARLY_DATA_BYTES_MAX as u64;

const RECORD_BYTES_MIN: u64 = tls::options::RECORD_BYTES_MIN as u64;
const RECORD_BYTES_MAX: u64 = tls::record::PLAINTEXT_BYTES_MAX as u64;

section! {
    table("service.front.tls").group("TLS")
        .absent("clients speak no TLS, which is warned of unless `off` is written")
        .shorthand("mode")
        .example(r#"tls = { certificates = ["certs/"], alpn = ["h2", "http/1.1"] }"#);
    /// The TLS of clients.
    pub(crate) struct WrittenFrontTls<'a> {
        /// `terminate` decrypts TLS; `passthrough` reads the ClientHello and leaves TLS to the
        /// servers; `off` is plain TCP. Flags without certificates mean `off` if only this host can
        /// connect and servers get TLS.
        mode: FrontTlsMode = choice![
            "terminate" => FrontTlsMode::Terminate,
            "passthrough" => FrontTlsMode::Passthrough,
            "off" => FrontTlsMode::Off,
        ].default("terminate").flag("tls").example(r#"mode = "passthrough""#),
        certificates: Tables<'a, WrittenCertificate<'a>>,
        /// Whether a certificate that cannot be served fails the start or reload (`refuse`), or the
        /// others are served (`skip`).
        bad_certificate: BadCertificate = choice![
            "refuse" => BadCertificate::Refuse,
            "skip" => BadCertificate::Skip,
        ].default("refuse").flag("bad-certificate").example(r#"bad-certificate = "skip""#),
        /// Application protocols (RFC 7301), the preferred one first. Servers must support all;
        /// clients that offer only others are refused.
        alpn: Vec<Vec<u8>> = row(Kind::Text("PROTOCOL"), protocol)
            .many().absent("no protocol is negotiated; `http/1.1` and `http/1.0` for files")
            .flag("alpn").example(r#"alpn = ["h2", "http/1.1"]"#),
        /// Versions, suites and groups that Mozilla recommends (Server Side TLS 6.0):
        /// `intermediate` has TLS 1.2 and 1.3, `modern` 1.3 alone. The three keys override it.
        versions_and_suites: Option<&'static Preset> = choice!(of &Preset: PRESETS)
            .absent("the defaults of `versions`, `suites` and `groups`").flag("versions-and-suites")
            .example(r#"versions-and-suites = "modern""#),
        /// Enabled versions of TLS.
        versions: Vec<Version> = choice![
            "1.2" => Version::Tls12,
            "1.3" => Version::Tls13,
        ].many().default("1.2,1.3").flag("versions").synonyms(VERSION_SYNONYMS)
            .example(r#"versions = ["1.3"]"#),
        /// Cipher suites, the preferred one first. `auto`: all, AES first if the CPU has
        /// instructions for it; a cluster of different CPUs needs a list.
        suites: Vec<WantedSuite> = choice!(of WantedSuite: &SUITES)
            .many().default("auto").flag("suites").synonyms(SUITE_SYNONYMS)
            .example(r#"suites = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"]"#),
        /// Key exchange groups, the preferred one first; those of the client's key shares come
        /// before others.
        groups: Vec<Group> = choice!(of Group: &GROUPS)
            .many().default("X25519MLKEM768,x25519,secp256r1,secp384r1").flag("groups")
            .synonyms(GROUP_SYNONYMS).example(r#"groups = ["x25519", "secp256r1"]"#),
        /// The answer to a hello without a name, or with one of no certificate: the first
        /// certificate, or the alert `unrecognized_name` (`refuse-named`: only to a name).
        unknown_name: UnknownName = choice![
            "default" => UnknownName::Default,
            "refuse" => UnknownName::Refuse,
            "refuse-named" => UnknownName::RefuseNamed,
        ].default("default").flag("unknown-name").example(r#"unknown-name = "refuse""#),
        client_certificates: Option<WrittenClientCertificates<'a>>,
        /// Whether sessions are resumed.
        resumption: bool = boolean()
            .default("true").flag("resumption").example("resumption = false"),
        /// Bytes of early data that clients may send (0-RTT, RFC 8446, 2.3), at least a full
        /// record's 16,640. It needs `send-proxy` version 2 or `early-data-safe`
        /// (docs/guide/resumption.md).
        early_data: Option<u32> = size(1, EARLY_DATA_BYTES_MAX)
            .absent("none is taken").flag("early-data").example(r#"early-data = "16KiB""#),
        /// PEM files with the service's revoked certificates, whose sessions are not resumed.
        revoked: Vec<String> = path()
            .many().absent("no certificate is known to be revoked").flag("revoked-certificate")
            .example(r#"revoked = ["site-until-may.pem"]"#),
        /// Whether sessions are resumed whose certificate has been replaced.
        replaced_certificates: bool = choice!["resume" => true, "refuse" => false]
            .default("resume").flag("replaced-certificates")
            .example(r#"replaced-certificates = "refuse""#),
        /// The most plaintext in a record to clients, for devices with little memory. It excludes
        /// kernel TLS.
        max_record_size: Option<usize> = size(RECORD_BYTES_MIN, RECORD_BYTES_MAX)
            .absent("records carry up to 16,384 bytes, fewer at the start of a connection")
            .flag("max-record-size").example("max-record-size = 512"),
        /// Whether clients of TLS 1.3 may get compressed certificates (RFC 8879, Brotli or zlib).
        certificate_compression: bool = boolean().default("true").flag("certificate-compression")
            .example("certificate-compression = false"),
        ktls: WrittenKtls<'a>,
        acme: Option<WrittenServiceAcme<'a>>,
    }
}

section! {
    table("service.front.tls.client-certificates")
        .absent("none are asked for")
        .example(r#"client-certificates = { mode = "required", ca = ["clients.pem"] }"#);
    /// Certificates of clients. See docs/guide/access.md.
    pub(crate) struct WrittenClientCertificates<'a> {
        /// Whether clients are asked for a certificate. `optional` serves those without; one that
        /// does not verify is always refused.
        mode: ClientMode = choice![
            "none" => ClientMode::None,
            "optional" => ClientMode::Optional,
            "required" => ClientMode::Required,
        ].flag("client-certificates").example(r#"mode = "required""#),
        /// PEM files with the authorities of clients' certificates, or these themselves
        /// (docs/guide/servers-tls.md).
        ca: Vec<String> = path()
            .many().absent("only with mode none").flag("client-ca")
            .example(r#"ca = ["clients-ca.pem"]"#),
        /// PEM files with revocation lists, on which no certificate of a client's chain may be. The
        /// issuer of the client's own must have one.
        crl: Vec<String> = path()
            .many().absent("revocation is not checked").flag("client-crl")
            .example(r#"crl = ["clients.crl"]"#),
        /// Past a list's nextUpdate, clients with its issuer in their chain are refused, or the old
        /// list is used; both warn.
        crl_expired: ExpiredLists = choice![
            "refuse" => ExpiredLists::Refuse,
            "accept" => ExpiredLists::Accept,
        ].default("refuse").flag("client-crl-expired").example(r#"crl-expired = "accept""#),
        /// Whether clients are told the names in `ca`, by which browsers choose a certificate;
        /// beyond 60,000 bytes never.
        ca_names: bool = choice!["send" => true, "omit" => false]
            .default("send").flag("client-ca-names").example(r#"ca-names = "omit""#),
        allow: Option<WrittenIdentities<'a>>,
    }
}

section! {
    table("service.front.tls.client-certificates.allow")
        .absent("every certificate that verifies")
        .example(r#"allow = { uri = ["spiffe://example.org/web/*"], cn = ["ops"] }"#);
    /// Identities of which a client's certificate must have one.
    pub(crate) struct WrittenIdentities<'a> {
        /// DNS names (subjectAltName); `*.` at the start is one label.
        dns: Vec<AllowedIdentity> = row(Kind::Text("NAME"), identity)
            .repeated().absent("none").flag("client-allow-dns")
            .example(r#"dns = ["web.internal", "*.batch.internal"]"#),
        /// URIs (subjectAltName), such as SPIFFE IDs, byte by byte; `/*` at the end is one or more
        /// segments.
        uri: Vec<AllowedIdentity> = row(Kind::Text("URI"), identity)
            .repeated().absent("none").flag("client-allow-uri")
            .example(r#"uri = ["spiffe://example.org/web/*"]"#),
        /// Mail addresses (subjectAltName, not the subject).
        email: Vec<AllowedIdentity> = row(Kind::Text("ADDRESS"), identity)
            .repeated().absent("none").flag("client-allow-email")
            .example(r#"email = ["ops@example.org"]"#),
        /// Common names of the subject, byte by byte.
        cn: Vec<AllowedIdentity> = row(Kind::Text("NAME"), identity)
            .repeated().absent("none").flag("client-allow-cn")
            .example(r#"cn = ["backup client"]"#),
        /// Organizational units of the subject, byte by byte.
        ou: Vec<AllowedIdentity> = row(Kind::Text("NAME"), identity)
            .repeated().absent("none").flag("client-allow-ou").example(r#"ou = ["Operations"]"#),
        /// SHA-256 fingerprints of whole certificates, as `openssl x509 -fingerprint -sha256`
        /// prints them.
        fingerprint: Vec<AllowedIdentity> = row(Kind::Text("SHA256"), identity)
            .repeated().absent("none").flag("client-allow-fingerprint")
            .example("fingerprint = \
             [\"b7d1e0a2c3f4958677869504132231405f6e7d8c9bab0c1d2e3f405162738495\"]"),
    }
}

section! {
    table("service.front.tls.ktls")
        .absent("`auto`").shorthand("mode")
        .example(r#"ktls = { mode = "auto", min-size = "1MiB" }"#);
    /// Whether the kernel encrypts long transfers. See docs/guide/kernel.md.
    pub(crate) struct WrittenKtls<'a> {
        /// `auto` uses the kernel if it can; `require` refuses to start unless it can for every
        /// version and suite of the service.
        mode: KtlsMode = choice![
            "off" => KtlsMode::Off,
            "auto" => KtlsMode::Auto,
            "require" => KtlsMode::Require,
        ].default("auto").flag("ktls").example(r#"mode = "require""#),
        /// The shortest static file that the kernel encrypts; a server's response takes eight times
        /// as much.
        min_size: u64 = size(1, 1 << 40)
            .default("128KiB").flag("ktls-min-size").example(r#"min-size = "1MiB""#),
    }
}

/// Words of `tls.mode`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FrontTlsMode {
    Terminate,
    Passthrough,
    Off,
}

const NO_KTLS: KtlsOptions = KtlsOptions { mode: KtlsMode::Off, from: 0 };

pub(crate) fn front_tls_options(
    tls: &WrittenFrontTls<'_>,
    may_be_plain: bool,
    tls13: Tls13Choice,
    resolver: &mut FileResolver<'_>,
) -> Option<(FrontTls, KtlsOptions)> {
    let mode =
        if may_be_plain && !tls.at.is_written() { FrontTlsMode::Off } else { tls.mode.value? };
    let as_it_comes = match mode {
        FrontTlsMode::Terminate => {
            let ktls = ktls_options(&tls.ktls);
            let options = server_options(tls, tls13, resolver)?;
            let ktls = ktls_fits(&tls.ktls, ktls?, &options)?;
            return Some((FrontTls::Terminate(Box::new(options)), ktls));
        }
        FrontTlsMode::Passthrough => FrontTls::Passthrough,
        FrontTlsMode::Off => FrontTls::Plain,
    };
    let mut is_alone = true;
    let others = tls.at.table().written_keys();
    for place in others.filter(|place| place.key.path != tls.mode.key.path) {
        let message = "stands beside a `mode` that terminates no TLS";
        place.refuse(message, "take it out, or write mode = \"terminate\"");
        is_alone = false;
    }
    is_alone.then_some((as_it_comes, NO_KTLS))
}

fn ktls_options(ktls: &WrittenKtls<'_>) -> Option<KtlsOptions> {
    let mode = ktls.mode.value?;
    let message = "has no effect: the kernel never seals";
    let hint = "take it out, or write mode = \"auto\"";
    ktls.min_size.warn_unless(mode != KtlsMode::Off, message, hint);
    Some(KtlsOptions { mode, from: ktls.min_size.value? })
}

/// Turns off kernel TLS where records are limited, because the kernel makes full-size records.
fn ktls_fits(
    written: &WrittenKtls<'_>,
    ktls: KtlsOptions,
    own: &ServerOptions,
) -> Option<KtlsOptions> {
    if own.record_bytes_max.is_none() {
        return Some(ktls);
    }
    if ktls.mode == KtlsMode::Require {
        let hint = "take out `max-record-size`";
        return written.at.fail("makes records of full size", hint);
    }
    Some(KtlsOptions { mode: KtlsMode::Off, ..ktls })
}

fn server_options(
    tls: &WrittenFrontTls<'_>,
    tls13: Tls13Choice,
    resolver: &mut FileResolver<'_>,
) -> Option<ServerOptions> {
    let bad_certificate = tls.bad_certificate.value;
    let bad = bad_certificate.unwrap_or(BadCertificate::Refuse);
    let certificates = own_certificates(tls, bad, resolver);
    let preset = tls.versions_and_suites.value;
    let versions = match preset.flatten() {
        Some(preset) if !tls.versions.is_written() => Some(preset.versions.to_vec()),
        _ => tls.versions.value.clone(),
    };
    let suites = suites(&tls.suites);
    let client = client_verification(tls.client_certificates.as_ref(), resolver);
    let early_data = early_data(tls, tls13, versions.as_deref());
    let revoked = resolver.pem_files(&tls.revoked);
    let both = versions.as_ref().zip(suites.as_ref());
    let fit = both.and_then(|(versions, suites)| suites_fit(&tls.suites, versions, suites));
    let versions = versions?;
    let OwnCertificates { certificates, skipped, placeholder } = certificates?;
    let options = ServerOptions {
        certificates,
        placeholder,
        challenges: TlsChallenges::default(),
        bad_certificate: bad_certificate?,
        skipped,
        unknown_name: tls.unknown_name.value?,
        version_min: *versions.iter().min()?,
        version_max: *versions.iter().max()?,
        suites: suites?,
        groups: tls.groups.value.clone()?,
        alpn: tls.alpn.value.clone()?,
        client: client?,
        resumption: tls.resumption.value?,
        tls13_sessions: tls13_sessions(tls13, early_data?),
        // Placeholder; the value for all services is set later.
        resumption_group: ResumptionGroup::Session,
        replaced: ReplacedCertificates {
            revoked: revoked?,
            resume: tls.replaced_certificates.value?,
        },
        record_bytes_max: tls.max_record_size.value?,
        key_log: false,
        certificate_compression: tls.certificate_compression.value?,
    };
    if let (Some(preset), Some(_)) = (preset?, resolver.inspector) {
        departures(preset, tls, &options);
    }
    fit.and(Some(options))
}

/// Reads the certificates of a front: those in files, and those from ACME.
fn own_certificates(
    tls: &WrittenFrontTls<'_>,
    bad: BadCertificate,
    resolver: &mut FileResolver<'_>,
) -> Option<OwnCertificates> {
    let Some(acme) = &tls.acme else {
        return certificates::certificates(&tls.certificates, bad, resolver);
    };
    let of_files = if tls.certificates.is_written() {
        certificates::certificates(&tls.certificates, bad, resolver)
    } else {
        Some(OwnCertificates::default())
    };
    let (by_acme, placeholder) = acme::certificates(acme, resolver)?;
    let mut own = of_files?;
    own.certificates.extend(by_acme);
    own.placeholder = own.certificates.is_empty().then_some(placeholder);
    Some(own)
}

/// Notes the departures of a service from a preset.
fn departures(preset: &Preset, tls: &WrittenFrontTls<'_>, options: &ServerOptions) {
    let say = |place: &options::KeyPlace<'_>, message: String| {
        let message = format!("departs from \"{}\": {message}", preset.name);
        let problem = Problem::new(message).hint("take one of both out unless it is meant");
        place.say(Severity::Note, problem);
    };
    for (place, message) in [
        (&*tls.versions, preset.other_versions(options)),
        (&*tls.suites, preset.other_suites(options)),
        (&*tls.groups, preset.other_groups(options)),
    ] {
        if let Some(message) = message {
            say(place, message);
        }
    }
    for place in preset.certificates_of_rsa(options) {
        say(&tls.certificates, format!("{place} has an RSA key"));
    }
}

/// Returns the accepted early data, in bytes; 0 = none.
fn early_data(
    tls: &WrittenFrontTls<'_>,
    tls13: Tls13Choice,
    versions: Option<&[Version]>,
) -> Option<u32> {
    let Some(bytes_max) = tls.early_data.value? else { return Some(0) };
    let (message, hint) = if tls.resumption.value == Some(false) {
        ("is taken from clients that resume", "take out resumption = false")
    } else if versions.is_some_and(|versions| !versions.contains(&Version::Tls13)) {
        ("is part of TLS 1.3", "add \"1.3\" to `versions`")
    } else if tls13 == Tls13Choice::Tickets {
        (
            "needs sessions that resume once, which tickets do not",
            "write resumption.tls13 = \"auto\" or \"cache\"",
        )
    } else {
        return Some(bytes_max);
    };
    tls.early_data.fail(message, hint)
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

fn client_verification(
    written: Option<&WrittenClientCertificates<'_>>,
    resolver: &mut FileResolver<'_>,
) -> Option<ClientVerification> {
    let Some(written) = written else { return Some(ClientVerification::default()) };
    let authorities = resolver.pem_files(&written.ca);
    let crls = resolver.pem_files(&written.crl);
    let client = ClientVerification {
        mode: written.mode.value?,
        authorities: authorities?,
        crls: crls?,
        expired_lists: written.crl_expired.value?,
        allow: allowed_identities(written.allow.as_ref())?,
        omits_names: !written.ca_names.value?,
    };
    if client.mode != ClientMode::None && client.authorities.is_empty() {
        let message = "asks for certificates, but no `ca` says who may issue them";
        return written.mode.fail(message, "add ca = [\"clients-ca.pem\"]");
    }
    if client.mode == ClientMode::None && written.ca.is_written() {
        let message = "asks for no certificate, so `ca` has no effect";
        written.mode.warn(message, "write mode = \"required\" or \"optional\"");
    }
    if let (ClientMode::None, Some(allow)) = (client.mode, &written.allow) {
        let message = "lists who may enter, but mode = \"none\" asks for no certificate";
        return allow.at.fail(message, "write mode = \"required\"");
    }
    let message = "has no effect: there is no `crl`";
    let hint = "add crl = [\"clients.crl\"]";
    written.crl_expired.warn_unless(!client.crls.is_empty(), message, hint);
    Some(client)
}

/// Reads the allowed identities. Refuses a written list without any, because it is a mistake.
fn allowed_identities(written: Option<&WrittenIdentities<'_>>) -> Option<Vec<AllowedIdentity>> {
    let Some(allow) = written else { return Some(Vec::new()) };
    let lists: [&Field<'_, Vec<AllowedIdentity>>; 6] =
        [&allow.dns, &allow.uri, &allow.email, &allow.cn, &allow.ou, &allow.fingerprint];
    let lists = options::all(lists.into_iter().map(|list| list.value.clone()))?;
    let allowed: Vec<_> = lists.into_iter().flatten().collect();
    if allowed.is_empty() {
        let hint = "list an identity, or take it out to allow every certificate that verifies";
        return allow.at.fail("lists no identity", hint);
    }
    Some(allowed)
}

/// Reads an identity of the kind that its key names.
fn identity(value: &Value, key: &Key) -> Result<AllowedIdentity, Problem> {
    let text = options::as_text(value)?;
    let mut kinds = AllowedIdentity::KINDS.into_iter();
    let problem = |why: &dyn std::fmt::Display| {
        Problem::new(format!("\"{text}\" {why}")).hint(key.for_example())
    };
    match kinds.find(|(kind, _)| *kind == key.name()) {
        Some((_, read)) => read(text).map_err(|fault| problem(&fault)),
        None => Err(problem(&"is of no known kind")),
    }
}
