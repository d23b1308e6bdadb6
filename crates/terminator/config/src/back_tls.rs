//! Keys of a service's TLS towards its servers.

use backend::options::ServerOptions;
use options::row::{boolean, path, row, text};
use options::{Key, Kind, Problem, Severity, Value, choice, section, table};
use proxy::options::BackTlsOptions;
use tls::client::{is_server_name, parse_pin};
use tls::options::{
    CertificateSource, ClientOptions, ExpectedName, ExpiredLists, Group, OfferedAlpn,
    ServerVerification, Version,
};
use wire::address::{Address, Endpoint};

use crate::certificates::{Passphrase, holds_key, is_in_token, note_token_key, shown, word};
use crate::resolver::{FileResolver, PemUse};
use crate::tls_choices::{
    GROUP_SYNONYMS, GROUPS, SUITE_SYNONYMS, SUITES, VERSION_SYNONYMS, WantedSuite, protocol,
    suites, suites_fit,
};

/// Word that stands for the client's server name.
const OF_CLIENT: &str = "client";

section! {
    table("service.back.tls").group("TLS to servers")
        .absent("servers get plaintext").shorthand("mode")
        .example(r#"tls = { ca = ["internal-ca.pem"], name = "api.internal" }"#);
    /// TLS to servers. See docs/guide/servers-tls.md.
    pub(crate) struct WrittenBackTls<'a> {
        /// Whether servers get TLS. The flag without a value means `on`.
        mode: bool = choice!["on" => true, "off" => false]
            .default("on").flag("backend-tls").alone("on").example(r#"mode = "on""#),
        /// Whether servers' certificates must lead to an authority and have the right name. With
        /// `off`, anyone on the way can pose as a server, unless there are `pins`.
        verify: bool = choice!["on" => true, "off" => false]
            .default("on").flag("backend-verify").example(r#"verify = "off""#),
        /// PEM files with the authorities of servers' certificates, or these themselves.
        ca: Vec<String> = path()
            .many().absent("the authorities that this host trusts").flag("backend-ca")
            .example(r#"ca = ["internal-ca.pem"]"#),
        /// The DNS name or IP address that a server's certificate must have; `client` is the name
        /// that the client asked for.
        name: Option<String> = text("NAME")
            .absent("the host of the server's address").flag("backend-name")
            .example(r#"name = "api.internal""#),
        /// Public keys of which a server must have one, beside what `verify` asks: `sha256//` and
        /// the Base64 of the SubjectPublicKeyInfo's SHA-256, as curl has them.
        pins: Vec<[u8; 32]> = row(Kind::Text("PIN"), pin)
            .many().absent("any key").flag("backend-pin")
            .example(r#"pins = ["sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="]"#),
        /// PEM files with revocation lists, as of `client-certificates`.
        crl: Vec<String> = path()
            .many().absent("revocation is not checked").flag("backend-crl")
            .example(r#"crl = ["internal.crl"]"#),
        /// Whether servers are refused past their list's nextUpdate, or the old list is used.
        crl_expired: ExpiredLists = choice![
            "refuse" => ExpiredLists::Refuse,
            "accept" => ExpiredLists::Accept,
        ].default("refuse").flag("backend-crl-expired").example(r#"crl-expired = "accept""#),
        /// The certificate for servers that ask for one, as PEM, leaf first.
        certificate: Option<String> = path()
            .absent("servers are shown no certificate").flag("backend-certificate")
            .example(r#"certificate = "lariat-client.pem""#),
        /// The private key of `certificate` as PEM, which may be encrypted (PKCS #8).
        key: Option<String> = path()
            .absent("it is in the certificate's file").flag("backend-key")
            .example(r#"key = "lariat-client.key""#),
        /// A file whose first line is the key's passphrase.
        key_passphrase_file: Option<String> = path()
            .absent("it is not encrypted").flag("backend-key-passphrase-file")
            .example(r#"key-passphrase-file = "/run/lariat/client.passphrase""#),
        /// A program with arguments that prints the passphrase.
        key_passphrase_command: Vec<String> = row(Kind::Text("PROGRAM"), word)
            .many().absent("none is run").flag("backend-key-passphrase-command")
            .example(r#"key-passphrase-command = ["/usr/bin/pass", "show", "client-key"]"#),
        /// Application protocols that servers are offered; `[]` = none.
        alpn: Vec<Vec<u8>> = row(Kind::Text("PROTOCOL"), protocol)
            .many().absent("the protocol that was negotiated with the client")
            .flag("backend-alpn").example(r#"alpn = ["http/1.1"]"#),
        /// Enabled versions of TLS towards servers.
        versions: Vec<Version> = choice![
            "1.2" => Version::Tls12,
            "1.3" => Version::Tls13,
        ].many().default("1.2,1.3").flag("backend-versions").synonyms(VERSION_SYNONYMS)
            .example(r#"versions = ["1.3"]"#),
        /// Cipher suites, as in `front.tls.suites`.
        suites: Vec<WantedSuite> = choice!(of WantedSuite: &SUITES)
            .many().default("auto").flag("backend-suites").synonyms(SUITE_SYNONYMS)
            .example(r#"suites = ["TLS_AES_128_GCM_SHA256"]"#),
        /// Key exchange groups; servers are sent a share for the first.
        groups: Vec<Group> = choice!(of Group: &GROUPS)
            .many().default("X25519MLKEM768,x25519,secp256r1,secp384r1").flag("backend-groups")
            .synonyms(GROUP_SYNONYMS).example(r#"groups = ["x25519", "secp256r1"]"#),
        /// Whether sessions with servers are resumed, for an hour at most.
        resumption: bool = boolean()
            .default("true").flag("backend-resumption").example("resumption = false"),
        /// Whether servers may compress their certificates (RFC 8879).
        certificate_compression: bool = boolean()
            .default("true").flag("backend-certificate-compression")
            .example("certificate-compression = false"),
    }
}

/// Reads `service.back.tls`; `Some(None)` if TLS is off, and servers get plaintext.
pub(crate) fn back_tls_options(
    tls: &WrittenBackTls<'_>,
    header_inside: Option<bool>,
    servers: &[ServerOptions],
    resolver: &mut FileResolver<'_>,
) -> Option<Option<Box<BackTlsOptions>>> {
    if !tls.mode.value? {
        return Some(None);
    }
    let verification = verification(tls, resolver);
    let certificate = certificate(tls, resolver);
    let alpn = tls.alpn.value.clone();
    let (versions, suites) = (tls.versions.value.as_ref()?, suites(&tls.suites)?);
    let fit = suites_fit(&tls.suites, versions, &suites);
    let client = ClientOptions {
        verification: verification?,
        pins: tls.pins.value.clone()?,
        name: expected_name(tls)?,
        certificate: certificate?,
        version_min: *versions.iter().min()?,
        version_max: *versions.iter().max()?,
        suites,
        groups: tls.groups.value.clone()?,
        alpn: if tls.alpn.is_written() { OfferedAlpn::Fixed(alpn?) } else { OfferedAlpn::OfClient },
        resumption: tls.resumption.value?,
        key_log: false,
        certificate_compression: tls.certificate_compression.value?,
    };
    name_is_known(tls, &client, servers)?;
    is_proved(tls, &client);
    fit?;
    Some(Some(Box::new(BackTlsOptions { client, header_inside: header_inside? })))
}

fn expected_name(tls: &WrittenBackTls<'_>) -> Option<ExpectedName> {
    Some(match tls.name.value.clone()? {
        Some(name) if name == OF_CLIENT => ExpectedName::OfClient,
        Some(name) if !is_server_name(&name) => {
            let message = format!("\"{}\" is no host name or IP address", name.escape_debug());
            let hint = "write the name that the certificate has, or \"client\"";
            return tls.name.fail(message, hint);
        }
        Some(name) => ExpectedName::Fixed(name),
        None => ExpectedName::OfServer,
    })
}

fn pin(value: &Value, key: &Key) -> Result<[u8; 32], Problem> {
    let text = options::as_text(value)?;
    let problem = || Problem::new(format!("\"{}\" is no pin", text.escape_debug()));
    parse_pin(text).ok_or_else(|| problem().hint(key.for_example()))
}

fn verification(
    tls: &WrittenBackTls<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<Option<ServerVerification>> {
    if !tls.verify.value? {
        for list in [&tls.ca, &tls.crl] {
            let message = "has no effect: servers are not verified";
            list.warn_unless(false, message, "take out verify = \"off\"");
        }
        return Some(None);
    }
    let authorities = resolver.authorities(&tls.ca);
    let crls = resolver.pem_files(&tls.crl);
    Some(Some(ServerVerification {
        authorities: authorities?,
        are_of_host: !tls.ca.is_written(),
        crls: crls?,
        expired_lists: tls.crl_expired.value?,
    }))
}

/// Reads the certificate for authentication to servers; `Some(None)` if there is none.
fn certificate(
    tls: &WrittenBackTls<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<Option<CertificateSource>> {
    let Some(chain) = tls.certificate.value.as_ref()? else { return Some(None) };
    let chain = resolver.base.join(chain);
    let mut passphrase = Passphrase::new(&tls.key_passphrase_file, &tls.key_passphrase_command)?;
    let mut chain_pem = resolver.read(&tls.certificate, &chain);
    let key = tls.key.value.as_ref()?;
    let uri = key.as_deref().filter(|place| is_in_token(place));
    let key = key.as_ref().filter(|_| uri.is_none()).map(|path| resolver.base.join(path));
    let key_pem = match &key {
        _ if let Some(uri) = uri => {
            let pin_keys = (&tls.key_passphrase_file, &tls.key_passphrase_command);
            let place = chain.display().to_string();
            let chain = (place.as_str(), chain_pem.as_deref()?);
            Some(note_token_key(&tls.key, uri, chain, pin_keys, true, resolver)?)
        }
        Some(path) => {
            let pem = resolver.read(&tls.key, path)?;
            Some(passphrase.open(path, pem, resolver)?)
        }
        None => {
            chain_pem = Some(passphrase.open(&chain, chain_pem?, resolver)?);
            None
        }
    };
    let source = CertificateSource {
        place: chain.display().to_string(),
        chain_pem: chain_pem?,
        key_pem,
        key_place: uri.map(shown).or_else(|| Some(key.as_ref()?.display().to_string())),
        ocsp_der: None,
        holder: tls::key_holder::KeyHolder::default(),
    };
    if uri.is_none() && holds_key(&source) {
        match &key {
            Some(path) => resolver.is_private(&tls.key, path),
            None => resolver.is_private(&tls.certificate, &chain),
        }
    }
    if let Some(inspector) = resolver.inspector {
        let usage = (PemUse::ToServers, Severity::Error);
        let key = tls.key.is_written().then_some(&*tls.key);
        inspector.certificate((&tls.certificate, key), &source, usage);
    }
    Some(Some(source))
}

/// Checks that the name in a server's certificate is known: a server at a Unix socket has no host.
/// A server from SRV records has one, but anybody who can forge the records would choose it.
fn name_is_known(
    tls: &WrittenBackTls<'_>,
    client: &ClientOptions,
    servers: &[ServerOptions],
) -> Option<()> {
    let is_nameless = |server: &&ServerOptions| {
        matches!(server.endpoint, Endpoint::Address(Address::Unix(_)) | Endpoint::Service { .. })
    };
    let Some(server) = servers.iter().find(is_nameless) else { return Some(()) };
    if client.verification.is_none() || matches!(client.name, ExpectedName::Fixed(_)) {
        return Some(());
    }
    let message = format!("is missing: {} has no known name", server.endpoint);
    tls.name.fail(message, "write the name that its certificate has")
}

fn is_proved(tls: &WrittenBackTls<'_>, client: &ClientOptions) {
    if client.verification.is_none() && client.pins.is_empty() {
        let message = "is off: anyone on the way to the servers can pose as one";
        let hint = "name their authorities in `ca`, or their keys in `pins`";
        tls.verify.warn(message, hint);
    }
    let message = "has no effect: there is no `certificate`";
    let hint = "add certificate = \"client.pem\"";
    tls.key.warn_unless(tls.certificate.is_written(), message, hint);
    let message = "has no effect: there is no `crl`";
    tls.crl_expired.warn_unless(tls.crl.is_written(), message, "add crl = [\"servers.crl\"]");
}
