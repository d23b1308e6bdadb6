//! What of TLS is offered: kinds, versions, suites, groups and signatures that fit together.

use super::fault::Faults;
use super::settings::{Files, Options};
use super::url::Url;
use super::value::{Kinds, OrNone, Verify};
use crate::plan::{
    ClientCertificate, Group, Handshake, Signature, Suite, Tls, Verification, Versions,
};

/// What is offered, with every contradiction noted.
pub(crate) fn offer(options: &Options, url: &Url, files: &Files, faults: &mut Faults) -> Tls {
    let fitting = versions(options);
    let versions = fitting.unwrap_or(Versions::Both);
    let handshakes = handshakes(options, versions, faults);
    let reach = Reach::of(&handshakes, versions);
    check_resumption(options, reach, faults);
    let early_data = early_data(options, &handshakes, reach, faults);
    let mut unheard = Faults::default();
    let of_lists = match fitting {
        Some(_) => &mut *faults,
        None => {
            refuse_lists(options, faults);
            &mut unheard
        }
    };
    let signatures = signatures(options, reach, of_lists);
    let suites = suites(options, reach, &signatures, of_lists);
    let groups = groups(options, reach, of_lists);
    let verification = verification(options, files, faults);
    let checked = matches!(verification, Verification::Authority(_));
    Tls {
        versions,
        handshakes,
        suites,
        groups,
        signatures,
        alpn: alpn(options, faults),
        server_name: server_name(options, url, checked, faults),
        client_certificate: client_certificate(options, files, faults),
        verification,
        tickets: options.tickets.unwrap_or(true),
        session_ids: options.session_ids.unwrap_or(true),
        early_data,
    }
}

/// One word for lists that leave no version; what each of them lacks would only confuse.
fn refuse_lists(options: &Options, faults: &mut Faults) {
    let about = match options.suites.is_empty() {
        true => "groups",
        false => "suites",
    };
    faults.add(
        about,
        "suites, groups and signatures together fit no version of TLS",
        "name some of one version in all of these lists",
    );
}

/// Refuses what only TLS has a place for.
pub(crate) fn refuse(options: &Options, of_tls: &[&'static str], faults: &mut Faults) {
    for name in of_tls.iter().filter(|name| options.is_given(name)) {
        faults.add(
            name,
            "http:// speaks no TLS",
            "write https://, or leave it out",
        );
    }
}

/// Which versions some handshake offers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Reach {
    tls12: bool,
    tls13: bool,
}

impl Reach {
    fn of_versions(versions: Versions) -> Self {
        Self {
            tls12: versions != Versions::Tls13,
            tls13: versions != Versions::Tls12,
        }
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
        match suite.is_tls13() {
            true => self.tls13,
            false => self.tls12,
        }
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
        (Some(Kinds::Only(Handshake::SessionId | Handshake::Ticket)), Versions::Both) => {
            Versions::Tls12
        }
        (Some(Kinds::Only(Handshake::Psk)), Versions::Both) => Versions::Tls13,
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
    !matches!(
        signature,
        Signature::RsaPkcs256 | Signature::RsaPkcs384 | Signature::RsaPkcs512
    )
}

fn handshakes(options: &Options, versions: Versions, faults: &mut Faults) -> Vec<Handshake> {
    let reach = Reach::of_versions(versions);
    match options.kinds.unwrap_or(Kinds::Only(Handshake::Full)) {
        Kinds::Only(kind) => {
            check_kind(options, kind, reach, faults);
            vec![kind]
        }
        Kinds::Mixed => {
            let mut kinds = vec![Handshake::Full];
            let may = [
                (
                    reach.tls12 && options.session_ids != Some(false),
                    Handshake::SessionId,
                ),
                (
                    reach.tls12 && options.tickets != Some(false),
                    Handshake::Ticket,
                ),
                (reach.tls13, Handshake::Psk),
            ];
            kinds.extend(may.iter().filter(|(may, _)| *may).map(|(_, kind)| kind));
            faults.add_if(
                kinds.len() == 1,
                "handshake",
                "no kind of resumption is left to mix with full handshakes",
                "--tickets on, --session-ids on or --tls 1.3",
            );
            kinds
        }
    }
}

fn check_kind(options: &Options, kind: Handshake, reach: Reach, faults: &mut Faults) {
    let cause = match options.versions {
        Some(_) => "which --tls does not offer",
        None => "which the lists of --suites, --groups and --signatures do not allow",
    };
    match kind {
        Handshake::Full => {}
        Handshake::Any => faults.add_if(
            !reach.tls13 && options.tickets == Some(false) && options.session_ids == Some(false),
            "handshake",
            "any kind may be resumed, but --tickets and --session-ids leave none",
            "--tickets on, --session-ids on or --tls 1.3",
        ),
        Handshake::SessionId => {
            faults.add_if(
                !reach.tls12,
                "handshake",
                format!("resumption by session id is of TLS 1.2, {cause}"),
                "--tls 1.2; or --handshake psk, which is TLS 1.3's resumption",
            );
            faults.add_if(
                options.session_ids == Some(false),
                "session-ids",
                "off leaves nothing to resume by --handshake session-id",
                "--session-ids on, or another --handshake",
            );
        }
        Handshake::Ticket => {
            faults.add_if(
                !reach.tls12,
                "handshake",
                format!("resumption by ticket is of TLS 1.2, {cause}"),
                "--tls 1.2; or --handshake psk, which is TLS 1.3's resumption",
            );
            faults.add_if(
                options.tickets == Some(false),
                "tickets",
                "off leaves nothing to resume by --handshake ticket",
                "--tickets on, or another --handshake",
            );
        }
        Handshake::Psk => faults.add_if(
            !reach.tls13,
            "handshake",
            format!("resumption by PSK is of TLS 1.3, {cause}"),
            "--tls 1.3; or --handshake ticket or session-id, which are TLS 1.2's resumptions",
        ),
    }
}

/// Settings about TLS 1.2 that would lull where only TLS 1.3 is offered.
fn check_resumption(options: &Options, reach: Reach, faults: &mut Faults) {
    for (name, value) in [
        ("tickets", options.tickets),
        ("session-ids", options.session_ids),
    ] {
        faults.add_if(
            value == Some(false) && !reach.tls12,
            name,
            "is about TLS 1.2, which is not offered; TLS 1.3 resumes by PSK alone",
            "--handshake full resumes nothing",
        );
    }
}

fn signatures(options: &Options, reach: Reach, faults: &mut Faults) -> Vec<Signature> {
    if options.signatures.is_empty() {
        return Signature::ALL.to_vec();
    }
    faults.add_if(
        reach.tls13 && !allow(&options.signatures, signs_in_tls13),
        "signatures",
        "no scheme is of TLS 1.3: PKCS#1 v1.5 signs no handshake there (RFC 8446, section 4.2.3)",
        "add rsa_pss_rsae_sha256, or offer --tls 1.2 alone",
    );
    options.signatures.clone()
}

fn suites(
    options: &Options,
    reach: Reach,
    signatures: &[Signature],
    faults: &mut Faults,
) -> Vec<Suite> {
    if options.suites.is_empty() {
        let all = Suite::ALL.iter().copied();
        return all
            .filter(|suite| reach.has(*suite) && can_be_signed(*suite, signatures))
            .collect();
    }
    for suite in &options.suites {
        let name = suite.name();
        let version = if suite.is_tls13() { "1.3" } else { "1.2" };
        faults.add_if(
            !reach.has(*suite),
            "suites",
            format!("{name} is of TLS {version}, which is not offered"),
            format!("leave it out, or offer --tls {version}"),
        );
        faults.add_if(
            !can_be_signed(*suite, signatures),
            "suites",
            format!("{name} needs a signature of its kind, and --signatures has none"),
            "leave it out, or add such a signature",
        );
    }
    for (is_reached, tls13, version) in [(reach.tls12, false, "1.2"), (reach.tls13, true, "1.3")] {
        faults.add_if(
            is_reached && !allow(&options.suites, |suite| suite.is_tls13() == tls13),
            "suites",
            format!("TLS {version} is offered, but no suite of it"),
            format!("add one, or do not offer TLS {version}"),
        );
    }
    options.suites.clone()
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

fn groups(options: &Options, reach: Reach, faults: &mut Faults) -> Vec<Group> {
    if options.groups.is_empty() {
        let all = Group::ALL.iter().copied();
        return all
            .filter(|group| reach.tls13 || !is_tls13_alone(*group))
            .collect();
    }
    let hybrid = options.groups.iter().find(|group| is_tls13_alone(**group));
    if let Some(hybrid) = hybrid.filter(|_| !reach.tls13) {
        faults.add(
            "groups",
            format!("{} is of TLS 1.3, which is not offered", hybrid.name()),
            "leave it out, or offer --tls 1.3",
        );
    } else {
        faults.add_if(
            reach.tls12 && !allow(&options.groups, |group| !is_tls13_alone(group)),
            "groups",
            "TLS 1.2 is offered, but no group of it",
            "add x25519, or offer --tls 1.3 alone",
        );
    }
    options.groups.clone()
}

fn alpn(options: &Options, faults: &mut Faults) -> Vec<Vec<u8>> {
    faults.add_if(
        !options.no_request && options.alpn.iter().any(|protocol| protocol == b"h2"),
        "alpn",
        "h2 would be agreed on, and requests are HTTP/1.1",
        "--alpn http/1.1, or --no-request",
    );
    options.alpn.clone()
}

/// What is sent, and what a certificate is checked for: an address is checked, but never sent.
fn server_name(options: &Options, url: &Url, checked: bool, faults: &mut Faults) -> Option<String> {
    let address = || url.host_address().filter(|_| checked);
    match &options.server_name {
        Some(OrNone::This(name)) => Some(name.clone()),
        Some(OrNone::Nothing) if checked && address().is_none() => {
            faults.add(
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
    files: &Files,
    faults: &mut Faults,
) -> Option<ClientCertificate> {
    faults.add_if(
        options.client_key.is_some() && options.client_certificate.is_none(),
        "client-key",
        "is a key without a certificate",
        "--client-certificate PATH names it",
    );
    options.client_certificate.as_ref()?;
    let chain_pem = content("client-certificate", files, faults)?;
    let key_name = match options.client_key {
        Some(_) => "client-key",
        None => "client-certificate",
    };
    let key_pem = match options.client_key {
        Some(_) => content("client-key", files, faults)?,
        None => chain_pem.clone(),
    };
    faults.add_if(
        !holds(&chain_pem, CERTIFICATE),
        "client-certificate",
        "the file holds no certificate as PEM",
        "a PEM file with the chain, leaf first",
    );
    if holds(&key_pem, ENCRYPTED_KEY) {
        faults.add(
            key_name,
            "the key is encrypted",
            "`openssl pkey` writes it without",
        );
    } else if !holds(&key_pem, PRIVATE_KEY) {
        faults.add(
            key_name,
            "the file holds no private key as PEM",
            "--client-key PATH names it",
        );
    }
    Some(ClientCertificate { chain_pem, key_pem })
}

fn verification(options: &Options, files: &Files, faults: &mut Faults) -> Verification {
    let default = match options.ca {
        Some(_) => Verify::Full,
        None => Verify::Off,
    };
    match (options.verify.unwrap_or(default), &options.ca) {
        (Verify::Full, Some(_)) => {
            let ca_pem = content("ca", files, faults);
            faults.add_if(
                ca_pem.as_ref().is_some_and(|pem| !holds(pem, CERTIFICATE)),
                "ca",
                "the file holds no certificate as PEM",
                "a PEM file with the certificates of authorities",
            );
            Verification::Authority(ca_pem.unwrap_or_default())
        }
        (Verify::Full, None) => {
            faults.add(
                "verify",
                "full needs to know who issues certificates",
                "--ca PATH names their certificates",
            );
            Verification::Off
        }
        (Verify::Off | Verify::Signature, Some(_)) => {
            faults.add(
                "verify",
                "--ca stands beside a verification that does not look at it",
                "--verify full, or no --ca",
            );
            Verification::Off
        }
        (Verify::Off, None) => Verification::Off,
        (Verify::Signature, None) => Verification::Signature,
    }
}

/// What a named file holds; that it cannot be read is noted.
fn content(name: &'static str, files: &Files, faults: &mut Faults) -> Option<Vec<u8>> {
    match files.get(name)? {
        Ok(bytes) => Some(bytes.clone()),
        Err(why) => {
            faults.add(name, why.clone(), "a file that we may read");
            None
        }
    }
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn early_data(
    options: &Options,
    handshakes: &[Handshake],
    reach: Reach,
    faults: &mut Faults,
) -> bool {
    let resumes_by_psk = handshakes
        .iter()
        .any(|kind| *kind == Handshake::Psk || *kind == Handshake::Any && reach.tls13);
    faults.add_if(
        options.early_data && !resumes_by_psk,
        "early-data",
        "only a connection that resumes by PSK can send it (RFC 8446, section 2.3)",
        "--handshake psk",
    );
    options.early_data
}
