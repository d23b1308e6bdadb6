//! Reads the TLS offer of clients: kinds, versions, suites, groups and signatures that fit.

use options::Field;
use sys::process;

use super::url::Url;
use super::value::{Files, OrNone, content, unique};
use super::written::{WrittenLoad, WrittenTls, is_of_tls};
use crate::ech::EchOption;
use crate::plan::{
    Group, Handshake, OwnCertificate, PlannedTls, Signature, Suite, Verification, Verify, Versions,
};

pub(crate) fn offer(load: &WrittenLoad<'_>, url: &Url, files: Files<'_>) -> PlannedTls {
    let tls = &load.tls;
    let listed = unique(&tls.signatures.elements().concat());
    let kind = load.clients.handshake.value.flatten();
    let fitting = versions(tls, kind, &listed);
    let versions = fitting.unwrap_or(Versions::Both);
    let handshakes = handshakes(load, kind, versions);
    let reach = Reach::of(&handshakes, versions);
    check_resumption(tls, &handshakes, reach);
    let signatures = or_fitting(&listed, &Signature::ALL, |_| true);
    match fitting {
        Some(_) => check_lists(tls, reach, &signatures),
        // Faults of the single lists would only confuse.
        None => refuse_lists(tls),
    }
    let verification = verification(tls, files);
    let checked = matches!(verification, Verification::Authority(_));
    PlannedTls {
        starttls: tls.starttls.given().copied(),
        ehlo_name: tls.ehlo_name.given().cloned().unwrap_or_else(process::own_name),
        versions,
        handshakes,
        suites: or_fitting(tls.suites.elements(), &Suite::ALL, |suite| {
            reach.has(suite) && can_be_signed(suite, &signatures)
        }),
        groups: or_fitting(tls.groups.elements(), &Group::ALL, |group| {
            reach.tls13 || !is_tls13_alone(group)
        }),
        signatures,
        alpn: alpn(load),
        server_name: server_name(tls, url, checked),
        client_certificate: client_certificate(tls, files),
        verification,
        tickets: tls.tickets.is_on(),
        session_ids: tls.session_ids.is_on(),
        early_data: tls.early_data.is_on(),
        certificate_compression: tls.certificate_compression.is_on(),
        ech: ech(tls, reach, files),
    }
}

/// Returns the listed values without repetitions; without a list, all that fit.
fn or_fitting<T: Copy + PartialEq>(listed: &[T], all: &[T], fits: impl Fn(T) -> bool) -> Vec<T> {
    if listed.is_empty() {
        all.iter().copied().filter(|one| fits(*one)).collect()
    } else {
        unique(listed)
    }
}

/// Reports once that the lists leave no version.
fn refuse_lists(tls: &WrittenTls<'_>) {
    let why = "suites, groups and signatures together fit no version of TLS";
    let hint = "name some of one version in all of these lists";
    if tls.suites.elements().is_empty() {
        tls.groups.refuse(why, hint);
    } else {
        tls.suites.refuse(why, hint);
    }
}

/// Refuses options that need TLS.
pub(crate) fn refuse(load: &WrittenLoad<'_>) {
    let of_tls = load.at.table().written_keys().filter(|place| is_of_tls(place.key));
    of_tls
        .for_each(|place| place.refuse("http:// speaks no TLS", "write https://, or leave it out"));
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

    /// Computes the reach; a kind without its version has been refused, and has no effect here.
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

/// Returns the requested versions; else those that the lists leave, and of them the one that the
/// kind of handshake needs. `None` if the lists leave none.
fn versions(
    tls: &WrittenTls<'_>,
    kind: Option<Handshake>,
    signatures: &[Signature],
) -> Option<Versions> {
    if let Some(versions) = tls.tls.given() {
        return Some(*versions);
    }
    let of_lists = Reach {
        tls12: !tls.ech.is_written()
            && allow(tls.suites.elements(), |suite| !suite.is_tls13())
            && allow(tls.groups.elements(), |group| !is_tls13_alone(group)),
        tls13: allow(tls.suites.elements(), Suite::is_tls13) && allow(signatures, signs_in_tls13),
    };
    let left = of_lists.versions()?;
    Some(match (kind, left) {
        (Some(Handshake::SessionId | Handshake::Ticket), Versions::Both) => Versions::Tls12,
        (Some(Handshake::Psk), Versions::Both) => Versions::Tls13,
        _ => left,
    })
}

/// Reports whether a list, if there is one, contains such an element.
fn allow<T: Copy>(list: &[T], fits: impl Fn(T) -> bool) -> bool {
    list.is_empty() || list.iter().any(|one| fits(*one))
}

fn is_tls13_alone(group: Group) -> bool {
    group == Group::X25519MlKem768
}

/// TLS 1.3 allows PKCS#1 v1.5 in certificates, but not in handshakes (RFC 8446, section 4.2.3).
fn signs_in_tls13(signature: Signature) -> bool {
    !matches!(signature, Signature::RsaPkcs256 | Signature::RsaPkcs384 | Signature::RsaPkcs512)
}

const LEAVE_ONE: &str = "--tickets on, --session-ids on or --tls 1.3";

/// Returns the one requested kind; without one, full handshakes and every kind of resumption.
fn handshakes(
    load: &WrittenLoad<'_>,
    kind: Option<Handshake>,
    versions: Versions,
) -> Vec<Handshake> {
    let reach = Reach::of_versions(versions);
    match kind {
        Some(kind) => {
            check_kind(load, kind, reach);
            vec![kind]
        }
        None => {
            let mut kinds = vec![Handshake::Full];
            let may = [
                (reach.tls12 && load.tls.session_ids.is_on(), Handshake::SessionId),
                (reach.tls12 && load.tls.tickets.is_on(), Handshake::Ticket),
                (reach.tls13, Handshake::Psk),
            ];
            kinds.extend(may.iter().filter(|(may, _)| *may).map(|(_, kind)| kind));
            load.clients.handshake.refuse_if(
                kinds.len() == 1,
                "no kind of resumption is left to mix with full handshakes",
                LEAVE_ONE,
            );
            kinds
        }
    }
}

fn check_kind(load: &WrittenLoad<'_>, kind: Handshake, reach: Reach) {
    const TLS12: &str = "--tls 1.2; or --handshake psk, which is TLS 1.3's resumption";
    const TLS13: &str =
        "--tls 1.3; or --handshake ticket or session-id, which are TLS 1.2's resumptions";
    let (tls, key) = (&load.tls, &load.clients.handshake);
    let cause = match tls.tls.given() {
        Some(_) => "which --tls does not offer",
        None if tls.ech.is_written() => "which --ech does not offer",
        None => "which the lists of --suites, --groups and --signatures do not allow",
    };
    let none = !reach.tls13 && !tls.tickets.is_on() && !tls.session_ids.is_on();
    let (is_offered, resumption, hint) = match kind {
        Handshake::Full => return,
        Handshake::Any => {
            let why = "any kind may be resumed, but --tickets and --session-ids leave none";
            return key.refuse_if(none, why, LEAVE_ONE);
        }
        Handshake::SessionId => (reach.tls12, "session id is of TLS 1.2", TLS12),
        Handshake::Ticket => (reach.tls12, "ticket is of TLS 1.2", TLS12),
        Handshake::Psk => (reach.tls13, "PSK is of TLS 1.3", TLS13),
    };
    key.refuse_if(!is_offered, format!("resumption by {resumption}, {cause}"), hint);
}

/// Refuses settings that would mislead, or leave nothing to resume.
fn check_resumption(tls: &WrittenTls<'_>, kinds: &[Handshake], reach: Reach) {
    let check = |key: &Field<'_, bool>, kind: Handshake| {
        let is_needed = kinds == [kind];
        key.refuse_if(
            !key.is_on() && is_needed,
            format!("off leaves nothing to resume by --handshake {}", kind.name()),
            format!("--{} on, or another --handshake", key.key.path),
        );
        key.refuse_if(
            !key.is_on() && !is_needed && !reach.tls12,
            "is about TLS 1.2, which is not offered; TLS 1.3 resumes by PSK alone",
            "--handshake full resumes nothing",
        );
    };
    check(&tls.tickets, Handshake::Ticket);
    check(&tls.session_ids, Handshake::SessionId);
    let by_psk = |kind: &Handshake| match kind {
        Handshake::Psk => true,
        Handshake::Any => reach.tls13,
        _ => false,
    };
    tls.early_data.refuse_if(
        tls.early_data.is_on() && !kinds.iter().any(by_psk),
        "only a connection that resumes by PSK can send it (RFC 8446, section 2.3)",
        "--handshake psk",
    );
}

/// Refuses lists whose elements have no use, or that lack an element required by a version.
fn check_lists(tls: &WrittenTls<'_>, reach: Reach, signatures: &[Signature]) {
    let (suites, groups) = (tls.suites.elements(), tls.groups.elements());
    tls.signatures.refuse_if(
        reach.tls13 && !allow(signatures, signs_in_tls13),
        "no scheme is of TLS 1.3: PKCS#1 v1.5 signs no handshake there (RFC 8446, section 4.2.3)",
        "add rsa_pss_rsae_sha256, or offer --tls 1.2 alone",
    );
    for suite in suites {
        let name = suite.name();
        let version = if suite.is_tls13() { "1.3" } else { "1.2" };
        tls.suites.refuse_if(
            !reach.has(*suite),
            format!("{name} is of TLS {version}, which is not offered"),
            format!("leave it out, or offer --tls {version}"),
        );
        tls.suites.refuse_if(
            !can_be_signed(*suite, signatures),
            format!("{name} needs a signature of its kind, and --signatures has none"),
            "leave it out, or add such a signature",
        );
    }
    for (is_reached, tls13, version) in [(reach.tls12, false, "1.2"), (reach.tls13, true, "1.3")] {
        tls.suites.refuse_if(
            is_reached && !allow(suites, |suite| suite.is_tls13() == tls13),
            format!("TLS {version} is offered, but no suite of it"),
            format!("add one, or do not offer TLS {version}"),
        );
    }
    let hybrid = groups.iter().find(|group| is_tls13_alone(**group));
    if let Some(hybrid) = hybrid.filter(|_| !reach.tls13) {
        let why = format!("{} is of TLS 1.3, which is not offered", hybrid.name());
        tls.groups.refuse(why, "leave it out, or offer --tls 1.3");
    } else {
        tls.groups.refuse_if(
            reach.tls12 && !allow(groups, |group| !is_tls13_alone(group)),
            "TLS 1.2 is offered, but no group of it",
            "add x25519, or offer --tls 1.3 alone",
        );
    }
}

/// Checks a suite's key: TLS 1.2's suites name the kind of the server's key; TLS 1.3's do not.
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

fn alpn(load: &WrittenLoad<'_>) -> Vec<Vec<u8>> {
    let alpn = unique(load.tls.alpn.elements());
    load.tls.alpn.refuse_if(
        !load.request.no_request.is_on() && alpn.iter().any(|protocol| protocol == b"h2"),
        "h2 would be agreed on, and requests are HTTP/1.1",
        "--alpn http/1.1, or --no-request",
    );
    alpn
}

/// Returns the server name to send, and to check in a certificate. An address is checked, but never
/// sent.
fn server_name(tls: &WrittenTls<'_>, url: &Url, checked: bool) -> Option<String> {
    let address = || url.host_address().filter(|_| checked);
    match tls.server_name.given() {
        Some(OrNone::This(name)) => Some(name.clone()),
        Some(OrNone::Nothing) if checked && address().is_none() => {
            tls.server_name.refuse(
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

fn ech(tls: &WrittenTls<'_>, reach: Reach, files: Files<'_>) -> Option<EchOption> {
    tls.ech.refuse_if(
        tls.ech.is_written() && reach.tls12,
        "is of TLS 1.3 alone, and TLS 1.2 is offered",
        "--tls 1.3",
    );
    let read = EchOption::read(tls.ech.given()?, files);
    let hint = "`GREASE`, an ECHConfigList in Base64, or a file with one";
    read.map_err(|why| tls.ech.refuse(why, hint)).ok()
}

const CERTIFICATE: &[u8] = b"-----BEGIN CERTIFICATE-----";
const PRIVATE_KEY: &[u8] = b"PRIVATE KEY-----";
const ENCRYPTED_KEY: &[u8] = b"-----BEGIN ENCRYPTED PRIVATE KEY-----";

fn client_certificate(tls: &WrittenTls<'_>, files: Files<'_>) -> Option<OwnCertificate> {
    let chain_pem = content(&tls.client_certificate, files)?;
    let (key, key_pem) = match tls.client_key.given() {
        Some(_) => (&tls.client_key, content(&tls.client_key, files)?),
        None => (&tls.client_certificate, chain_pem.clone()),
    };
    tls.client_certificate.refuse_if(
        !holds(&chain_pem, CERTIFICATE),
        "the file holds no certificate as PEM",
        "a PEM file with the chain, leaf first",
    );
    if holds(&key_pem, ENCRYPTED_KEY) {
        key.refuse("the key is encrypted", "`openssl pkey` writes it without");
    } else if !holds(&key_pem, PRIVATE_KEY) {
        key.refuse("the file holds no private key as PEM", "--client-key PATH names it");
    }
    Some(OwnCertificate { chain_pem, key_pem })
}

fn verification(tls: &WrittenTls<'_>, files: Files<'_>) -> Verification {
    let wrong = |why: &str, hint: &str| {
        tls.verify.refuse(why, hint);
        Verification::Off
    };
    match (tls.verify.given(), tls.ca.given()) {
        (Some(Verify::Full) | None, Some(_)) => {
            let ca_pem = content(&tls.ca, files);
            tls.ca.refuse_if(
                ca_pem.as_ref().is_some_and(|pem| !holds(pem, CERTIFICATE)),
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
