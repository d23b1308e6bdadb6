//! What of TLS is offered: kinds, versions, suites, groups and signatures that fit together.

use options::Section;
use sys::process;

use super::asked::Options;
use super::files::{Files, content};
use super::rows::{TABLE, is_of_tls};
use super::url::Url;
use super::value::{Kinds, OrNone};
use crate::plan::{
    Group, Handshake, OwnCertificate, PlannedTls, Signature, Suite, Verification, Verify, Versions,
};

pub(crate) fn offer(
    options: &Options,
    url: &Url,
    files: Files<'_>,
    top: &Section<'_>,
) -> PlannedTls {
    let fitting = versions(options);
    let versions = fitting.unwrap_or(Versions::Both);
    let handshakes = handshakes(options, versions, top);
    let reach = Reach::of(&handshakes, versions);
    check_resumption(options, &handshakes, reach, top);
    let signatures = or_fitting(&options.signatures, &Signature::ALL, |_| true);
    match fitting {
        Some(_) => check_lists(options, reach, &signatures, top),
        // What each of the lists lacks would only confuse.
        None => refuse_lists(options, top),
    }
    let verification = verification(options, files, top);
    let checked = matches!(verification, Verification::Authority(_));
    PlannedTls {
        starttls: options.starttls,
        ehlo_name: top.text_if_written("ehlo-name").flatten().unwrap_or_else(process::own_name),
        versions,
        handshakes,
        suites: or_fitting(&options.suites, &Suite::ALL, |suite| {
            reach.has(suite) && can_be_signed(suite, &signatures)
        }),
        groups: or_fitting(&options.groups, &Group::ALL, |group| {
            reach.tls13 || !is_tls13_alone(group)
        }),
        signatures,
        alpn: alpn(options, top),
        server_name: server_name(options, url, checked, top),
        client_certificate: client_certificate(options, files, top),
        verification,
        tickets: options.tickets,
        session_ids: options.session_ids,
        early_data: options.early_data,
    }
}

/// What was listed; else all that fits.
fn or_fitting<T: Copy>(listed: &[T], all: &[T], fits: impl Fn(T) -> bool) -> Vec<T> {
    if listed.is_empty() {
        all.iter().copied().filter(|one| fits(*one)).collect()
    } else {
        listed.to_vec()
    }
}

/// One word for lists that leave no version.
fn refuse_lists(options: &Options, top: &Section<'_>) {
    let about = if options.suites.is_empty() { "groups" } else { "suites" };
    top.refuse(
        about,
        "suites, groups and signatures together fit no version of TLS",
        "name some of one version in all of these lists",
    );
}

/// Refuses what only TLS has a place for.
pub(crate) fn refuse(top: &Section<'_>) {
    let of_tls = TABLE.keys.iter().filter(|key| is_of_tls(key));
    for key in of_tls.filter(|key| top.has(key.path)) {
        top.refuse(key.path, "http:// speaks no TLS", "write https://, or leave it out");
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Reach {
    tls12: bool,
    tls13: bool,
}

impl Reach {
    fn of_versions(versions: Versions) -> Self {
        Self { tls12: versions != Versions::Tls13, tls13: versions != Versions::Tls12 }
    }

    /// A kind whose version is not offered has been refused, and changes nothing here.
    fn of(handshakes: &[Handshake], versions: Versions) -> Self {
        let all = Self::of_versions(versions);
        let of_kind = |kind: &Handshake| match kind {
            Handshake::SessionId | Handshake::Ticket if all.tls12 => {
                Self::of_versions(Versions::Tls12)
            }
            Handshake::Psk if all.tls13 => Self::of_versions(Versions::Tls13),
            _ => all,
        };
        Self {
            tls12: handshakes.iter().any(|kind| of_kind(kind).tls12),
            tls13: handshakes.iter().any(|kind| of_kind(kind).tls13),
        }
    }

    fn versions(self) -> Option<Versions> {
        match (self.tls12, self.tls13) {
            (true, true) => Some(Versions::Both),
            (true, false) => Some(Versions::Tls12),
            (false, true) => Some(Versions::Tls13),
            (false, false) => None,
        }
    }

    fn has(self, suite: Suite) -> bool {
        if suite.is_tls13() { self.tls13 } else { self.tls12 }
    }
}

/// The versions that were asked for; else those that the lists leave, and of them the one that
/// the kind of handshake needs. `None` = the lists leave none.
fn versions(options: &Options) -> Option<Versions> {
    if options.versions.is_some() {
        return options.versions;
    }
    let of_lists = Reach {
        tls12: allow(&options.suites, |suite| !suite.is_tls13())
            && allow(&options.groups, |group| !is_tls13_alone(group)),
        tls13: allow(&options.suites, Suite::is_tls13)
            && allow(&options.signatures, signs_in_tls13),
    };
    let left = of_lists.versions()?;
    Some(match (options.kinds, left) {
        (Kinds::Only(Handshake::SessionId | Handshake::Ticket), Versions::Both) => Versions::Tls12,
        (Kinds::Only(Handshake::Psk), Versions::Both) => Versions::Tls13,
        _ => left,
    })
}

/// Whether a list, if there is one, holds such an element.
fn allow<T: Copy>(list: &[T], fits: impl Fn(T) -> bool) -> bool {
    list.is_empty() || list.iter().any(|one| fits(*one))
}

fn is_tls13_alone(group: Group) -> bool {
    group == Group::X25519MlKem768
}

/// PKCS#1 v1.5 signs certificates there, but no handshake (RFC 8446, section 4.2.3).
fn signs_in_tls13(signature: Signature) -> bool {
    !matches!(signature, Signature::RsaPkcs256 | Signature::RsaPkcs384 | Signature::RsaPkcs512)
}

const LEAVE_ONE: &str = "--tickets on, --session-ids on or --tls 1.3";

fn handshakes(options: &Options, versions: Versions, top: &Section<'_>) -> Vec<Handshake> {
    let reach = Reach::of_versions(versions);
    match options.kinds {
        Kinds::Only(kind) => {
            check_kind(options, kind, reach, top);
            vec![kind]
        }
        Kinds::Mixed => {
            let mut kinds = vec![Handshake::Full];
            let may = [
                (reach.tls12 && options.session_ids, Handshake::SessionId),
                (reach.tls12 && options.tickets, Handshake::Ticket),
                (reach.tls13, Handshake::Psk),
            ];
            kinds.extend(may.iter().filter(|(may, _)| *may).map(|(_, kind)| kind));
            top.refuse_if(
                kinds.len() == 1,
                "handshake",
                "no kind of resumption is left to mix with full handshakes",
                LEAVE_ONE,
            );
            kinds
        }
    }
}

fn check_kind(options: &Options, kind: Handshake, reach: Reach, top: &Section<'_>) {
    const TLS12: &str = "--tls 1.2; or --handshake psk, which is TLS 1.3's resumption";
    const TLS13: &str =
        "--tls 1.3; or --handshake ticket or session-id, which are TLS 1.2's resumptions";
    let cause = match options.versions {
        Some(_) => "which --tls does not offer",
        None => "which the lists of --suites, --groups and --signatures do not allow",
    };
    let none = !reach.tls13 && !options.tickets && !options.session_ids;
    let (is_offered, resumption, hint) = match kind {
        Handshake::Full => return,
        Handshake::Any => {
            let why = "any kind may be resumed, but --tickets and --session-ids leave none";
            return top.refuse_if(none, "handshake", why, LEAVE_ONE);
        }
        Handshake::SessionId => (reach.tls12, "session id is of TLS 1.2", TLS12),
        Handshake::Ticket => (reach.tls12, "ticket is of TLS 1.2", TLS12),
        Handshake::Psk => (reach.tls13, "PSK is of TLS 1.3", TLS13),
    };
    let why = format!("resumption by {resumption}, {cause}");
    top.refuse_if(!is_offered, "handshake", why, hint);
}

/// Settings that would lull, or leave nothing to resume.
fn check_resumption(options: &Options, kinds: &[Handshake], reach: Reach, top: &Section<'_>) {
    for (name, is_on, kind) in [
        ("tickets", options.tickets, Handshake::Ticket),
        ("session-ids", options.session_ids, Handshake::SessionId),
    ] {
        let is_needed = kinds == [kind];
        let remedy = format!("--{name} on, or another --handshake");
        let why = format!("off leaves nothing to resume by --handshake {}", kind.name());
        top.refuse_if(!is_on && is_needed, name, why, remedy);
        top.refuse_if(
            !is_on && !is_needed && !reach.tls12,
            name,
            "is about TLS 1.2, which is not offered; TLS 1.3 resumes by PSK alone",
            "--handshake full resumes nothing",
        );
    }
    let by_psk = |kind: &Handshake| match kind {
        Handshake::Psk => true,
        Handshake::Any => reach.tls13,
        _ => false,
    };
    top.refuse_if(
        options.early_data && !kinds.iter().any(by_psk),
        "early-data",
        "only a connection that resumes by PSK can send it (RFC 8446, section 2.3)",
        "--handshake psk",
    );
}

/// Lists whose elements have no use, or that lack what a version needs.
fn check_lists(options: &Options, reach: Reach, signatures: &[Signature], top: &Section<'_>) {
    top.refuse_if(
        reach.tls13 && !allow(signatures, signs_in_tls13),
        "signatures",
        "no scheme is of TLS 1.3: PKCS#1 v1.5 signs no handshake there (RFC 8446, section 4.2.3)",
        "add rsa_pss_rsae_sha256, or offer --tls 1.2 alone",
    );
    for suite in &options.suites {
        let name = suite.name();
        let version = if suite.is_tls13() { "1.3" } else { "1.2" };
        top.refuse_if(
            !reach.has(*suite),
            "suites",
            format!("{name} is of TLS {version}, which is not offered"),
            format!("leave it out, or offer --tls {version}"),
        );
        top.refuse_if(
            !can_be_signed(*suite, signatures),
            "suites",
            format!("{name} needs a signature of its kind, and --signatures has none"),
            "leave it out, or add such a signature",
        );
    }
    for (is_reached, tls13, version) in [(reach.tls12, false, "1.2"), (reach.tls13, true, "1.3")] {
        top.refuse_if(
            is_reached && !allow(&options.suites, |suite| suite.is_tls13() == tls13),
            "suites",
            format!("TLS {version} is offered, but no suite of it"),
            format!("add one, or do not offer TLS {version}"),
        );
    }
    let hybrid = options.groups.iter().find(|group| is_tls13_alone(**group));
    if let Some(hybrid) = hybrid.filter(|_| !reach.tls13) {
        let why = format!("{} is of TLS 1.3, which is not offered", hybrid.name());
        top.refuse("groups", why, "leave it out, or offer --tls 1.3");
    } else {
        top.refuse_if(
            reach.tls12 && !allow(&options.groups, |group| !is_tls13_alone(group)),
            "groups",
            "TLS 1.2 is offered, but no group of it",
            "add x25519, or offer --tls 1.3 alone",
        );
    }
}

/// TLS 1.2's suites name the kind of the server's key; TLS 1.3's do not.
fn can_be_signed(suite: Suite, signatures: &[Signature]) -> bool {
    let is_rsa = |signature: &Signature| signature.name().starts_with("rsa_");
    match suite {
        _ if suite.is_tls13() => true,
        Suite::RsaAes128Gcm | Suite::RsaAes256Gcm | Suite::RsaChaCha20Poly1305 => {
            signatures.iter().any(is_rsa)
        }
        _ => !signatures.iter().all(is_rsa),
    }
}

fn alpn(options: &Options, top: &Section<'_>) -> Vec<Vec<u8>> {
    top.refuse_if(
        !options.no_request && options.alpn.iter().any(|protocol| protocol == b"h2"),
        "alpn",
        "h2 would be agreed on, and requests are HTTP/1.1",
        "--alpn http/1.1, or --no-request",
    );
    options.alpn.clone()
}

/// What is sent, and what a certificate is checked for: an address is checked, but never sent.
fn server_name(options: &Options, url: &Url, checked: bool, top: &Section<'_>) -> Option<String> {
    let address = || url.host_address().filter(|_| checked);
    match &options.server_name {
        Some(OrNone::This(name)) => Some(name.clone()),
        Some(OrNone::Nothing) if checked && address().is_none() => {
            top.refuse(
                "server-name",
                "none leaves no name that the certificate could be checked for",
                "a name, or --verify signature",
            );
            None
        }
        Some(OrNone::Nothing) => address().map(|address| address.to_string()),
        None => match url.host_name() {
            // A name is sent without the dot at its end (RFC 6066, section 3).
            Some(name) => Some(name.trim_end_matches('.').to_owned()),
            None => address().map(|address| address.to_string()),
        },
    }
}

const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";
const ENCRYPTED_KEY: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";

fn client_certificate(
    options: &Options,
    files: Files<'_>,
    top: &Section<'_>,
) -> Option<OwnCertificate> {
    let chain = options.client_certificate.as_ref()?;
    let chain_pem = content("client-certificate", chain, files, top)?;
    let (key_name, key_pem) = match &options.client_key {
        Some(key) => ("client-key", content("client-key", key, files, top)?),
        None => ("client-certificate", chain_pem.clone()),
    };
    top.refuse_if(
        !holds(&chain_pem, CERTIFICATE),
        "client-certificate",
        "the file holds no certificate as PEM",
        "a PEM file with the chain, leaf first",
    );
    if holds(&key_pem, ENCRYPTED_KEY) {
        top.refuse(key_name, "the key is encrypted", "`openssl pkey` writes it without");
    } else if !holds(&key_pem, PRIVATE_KEY) {
        top.refuse(key_name, "the file holds no private key as PEM", "--client-key PATH names it");
    }
    Some(OwnCertificate { chain_pem, key_pem })
}

fn verification(options: &Options, files: Files<'_>, top: &Section<'_>) -> Verification {
    let wrong = |why: &str, hint: &str| {
        top.refuse("verify", why, hint);
        Verification::Off
    };
    match (options.verify, &options.ca) {
        (Some(Verify::Full) | None, Some(ca)) => {
            let ca_pem = content("ca", ca, files, top);
            top.refuse_if(
                ca_pem.as_ref().is_some_and(|pem| !holds(pem, CERTIFICATE)),
                "ca",
                "the file holds no certificate as PEM",
                "a PEM file with the certificates of authorities",
            );
            Verification::Authority(ca_pem.unwrap_or_default())
        }
        (Some(Verify::Full), None) => wrong(
            "full needs to know who issues certificates",
            "--ca PATH names their certificates",
        ),
        (Some(Verify::Off | Verify::Signature), Some(_)) => wrong(
            "--ca stands beside a verification that does not look at it",
            "--verify full, or no --ca",
        ),
        (Some(Verify::Signature), None) => Verification::Signature,
        (Some(Verify::Off) | None, None) => Verification::Off,
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
