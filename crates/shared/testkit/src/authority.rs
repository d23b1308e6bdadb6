//! A certificate authority: issues leaves, revokes them, answers OCSP.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use rcgen::KeyUsagePurpose;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer, KeyIdMethod, KeyPair, NameConstraints,
    RevokedCertParams, SanType, SerialNumber, SigningKey, date_time_ymd,
};

use crate::directory::Directory;
use crate::leaf::{Key, Leaf};

/// Converts Unix time to a certificate's date; a macro, as the type's crate is not ours.
macro_rules! date_time {
    ($seconds:expr) => {
        date_time_ymd(1970, 1, 1) + Duration::from_secs($seconds)
    };
}

/// A root, or an intermediate below one.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate_pem: String,
    certificate_der: Vec<u8>,
    /// Certificates that a server must send above a leaf of this authority: none for a root.
    above_pem: String,
    serial: u64,
}

/// Next serial number: unique in the process, which is more than RFC 5280 asks.
static SERIAL: AtomicU64 = AtomicU64::new(0x1000);

/// An unusual property of an authority's own certificate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Trait {
    EndEntity,
    WithoutCertSign,
    CertSignAlone,
    PathLength(u8),
    /// Valid for servers only.
    ForServers,
    /// Valid from one second of Unix time to another.
    Valid(u64, u64),
    /// Number of permitted domains, each that of the names below it (RFC 5280 section 4.2.1.10).
    NameConstraints(u16),
    /// Only names below this domain are permitted, or (`Excluded`) only others.
    Permitted(&'static str),
    Excluded(&'static str),
    /// Only names of this organization are permitted.
    PermittedOrganization(&'static str),
    Extensions(u16),
    /// A critical extension that no library knows.
    CriticalExtension,
    /// Number of unknown parts of the name.
    NameParts(u16),
    /// Number of unknown extended key usages, with clientAuth behind them.
    Usages(u16),
    /// The address of the issuer's certificate.
    NamesIssuer,
}

/// Makes one AccessDescription: caIssuers (1.3.6.1.5.5.7.48.2) at the URI `http://a`.
fn issuer_access() -> CustomExtension {
    let access = *b"\x30\x16\x30\x14\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x02\x86\x08http://a";
    CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 1], access.to_vec())
}

impl Authority {
    pub fn root(name: &str) -> Self {
        Self::root_with(name, &[], &[])
    }

    /// Makes a root with alternative names and traits, as `openssl req -x509` does by default.
    pub fn root_with(name: &str, names: &[&str], traits: &[Trait]) -> Self {
        let key = Key::EcdsaP256.generate();
        let (mut params, serial) = authority_params(name, names);
        for one in traits {
            one.put_into(&mut params);
        }
        let certificate = params.self_signed(&key).expect("a root can sign itself");
        Self {
            serial,
            certificate_pem: certificate.pem(),
            certificate_der: certificate.der().to_vec(),
            above_pem: String::new(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Makes a certificate of an authority with a new key, this name and this issuer: PEM. The
    /// signature is by an unrelated key.
    pub fn forged(name: &str, issuer: &str, traits: &[Trait]) -> String {
        let key = || Key::EcdsaP256.generate_pem();
        Self::certificate(&key(), name, issuer, &key(), traits)
    }

    /// Makes such a certificate with this key, signed by `signer` (PEM).
    pub fn certificate(
        key: &str,
        name: &str,
        issuer: &str,
        signer: &str,
        traits: &[Trait],
    ) -> String {
        let [key, signer] = [key, signer].map(|one| KeyPair::from_pem(one).expect("it is a key"));
        let (mut params, _) = authority_params(name, &[]);
        for one in traits {
            one.put_into(&mut params);
        }
        let issuer = Issuer::new(authority_params(issuer, &[]).0, signer);
        let certificate = params.signed_by(&key, &issuer);
        certificate.expect("anybody can sign").pem()
    }

    /// Returns the authority's own certificate and key as a leaf.
    pub fn as_leaf(&self) -> Leaf {
        Leaf {
            certificate_pem: self.certificate_pem.clone(),
            above_pem: String::new(),
            certificate_der: self.certificate_der.clone(),
            key_pem: self.issuer.key().serialize_pem(),
            serial: self.serial,
        }
    }

    /// Makes an intermediate signed by this authority; its leaves carry it in their chains.
    pub fn intermediate(&self, name: &str) -> Self {
        self.intermediate_with(name, &[])
    }

    pub fn intermediate_with(&self, name: &str, traits: &[Trait]) -> Self {
        let key = Key::EcdsaP256.generate();
        let (mut params, serial) = authority_params(name, &[]);
        for one in traits {
            one.put_into(&mut params);
        }
        let certificate = params.signed_by(&key, &self.issuer).expect("we are an authority");
        Self {
            serial,
            certificate_der: certificate.der().to_vec(),
            above_pem: format!("{}{}", certificate.pem(), self.above_pem),
            certificate_pem: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    pub fn pem(&self) -> &str {
        &self.certificate_pem
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    pub fn write(&self, directory: &Directory, name: &str) -> PathBuf {
        directory.write(name, &self.certificate_pem)
    }

    /// Begins a leaf whose common name is the first of `names` and whose alternative names are all
    /// of them: DNS names (with wildcards), IP addresses, URIs or mail addresses.
    pub fn leaf(&self, names: &[&str]) -> LeafRequest<'_> {
        LeafRequest {
            authority: self,
            common_name: names.first().unwrap_or(&"nameless").to_string(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            unit: None,
            key: Key::EcdsaP256,
            usage: ExtendedKeyUsagePurpose::ServerAuth,
            key_usage: vec![KeyUsagePurpose::DigitalSignature],
            must_staple: false,
            validity: None,
            second_common_name: None,
            names_issuer: false,
        }
    }

    pub fn client(&self, common_name: &str) -> Leaf {
        self.leaf(&[common_name]).for_client().issue()
    }

    /// Makes chain and key of a leaf for `localhost` that our library cannot make: `openssl req`
    /// gets the arguments of the key, `openssl x509` those of the signature.
    pub fn leaf_by_openssl(&self, key: &str, signature: &str) -> String {
        let place = Directory::new();
        place.write("ca.pem", &self.certificate_pem);
        place.write("ca.key", self.issuer.key().serialize_pem());
        openssl(&place, &format!("req {key} {REQUEST} -out leaf.csr"));
        let issue =
            "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -days 300 -copy_extensions copy";
        openssl(&place, &format!("{issue} {signature} -out leaf.pem"));
        read(&place, "leaf.pem") + &self.above_pem + &read(&place, "leaf.key")
    }

    /// Makes a self-signed certificate for `localhost` with its key.
    pub fn own_issuer_by_openssl(key: &str) -> String {
        let place = Directory::new();
        openssl(&place, &format!("req -x509 {key} {REQUEST} -days 300 -out leaf.pem"));
        read(&place, "leaf.pem") + &read(&place, "leaf.key")
    }

    pub fn revocation_list(&self, revoked: &[&Leaf]) -> String {
        let serials: Vec<_> = revoked.iter().map(|leaf| leaf.serial).collect();
        // From 2024 to 2124.
        self.revocation_list_for(&serials, 1_704_153_600, 4_860_000_000)
    }

    /// Makes a PEM list that revokes these serial numbers, with thisUpdate and nextUpdate in
    /// seconds of Unix time.
    pub fn revocation_list_for(
        &self,
        serials: &[u64],
        this_update: u64,
        next_update: u64,
    ) -> String {
        let entry = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time!(this_update),
            next_update: date_time!(next_update),
            crl_number: SerialNumber::from(1u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = params.signed_by(&self.issuer).expect("we may sign lists");
        list.pem().expect("a list can be written")
    }

    /// Makes a DER-encoded OCSP response "good" about `leaf`, by `openssl ocsp`.
    pub fn ocsp_response(&self, leaf: &Leaf) -> Vec<u8> {
        self.ocsp(leaf, "V\t491231235959Z\t", "sha1")
    }

    /// Makes such a response that names the certificate by this hash of OpenSSL's.
    pub fn ocsp_response_by(&self, leaf: &Leaf, hash: &str) -> Vec<u8> {
        self.ocsp(leaf, "V\t491231235959Z\t", hash)
    }

    /// Makes an OCSP response "revoked" about `leaf`.
    pub fn ocsp_response_revoked(&self, leaf: &Leaf) -> Vec<u8> {
        self.ocsp(leaf, "R\t491231235959Z\t250101000000Z", "sha1")
    }

    /// Makes a response "good" that is valid until a second of Unix time.
    pub fn ocsp_response_until(&self, leaf: &Leaf, next_update: u64) -> Vec<u8> {
        /// AlgorithmIdentifier of ecdsa-with-SHA256.
        const ALGORITHM: [u8; 12] = *b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
        let mut response = self.ocsp_response_forged(leaf, next_update);
        let end = position(&response, &ALGORITHM);
        let is_signed_part = |start: &usize| match response[*start..] {
            [0x30, 0x81, length, ..] => start + 3 + usize::from(length) == end,
            [0x30, 0x82, high, low, ..] => {
                start + 4 + usize::from(u16::from_be_bytes([high, low])) == end
            }
            _ => false,
        };
        let start = (0..end).find(is_signed_part).expect("a SEQUENCE ends there");
        // A BIT STRING without unused bits follows.
        let signature = end + ALGORITHM.len() + 3;
        let length = usize::from(response[signature - 2]) - 1;
        // ECDSA signatures differ in length, depending on their numbers.
        let signatures = || Some(self.issuer.key().sign(&response[start..end]).expect("a key"));
        let fitting = std::iter::from_fn(signatures).find(|one| one.len() == length);
        response[signature..signature + length].copy_from_slice(&fitting.expect("it has no end"));
        response
    }

    /// Makes such a response with a signature that does not verify.
    pub fn ocsp_response_forged(&self, leaf: &Leaf, next_update: u64) -> Vec<u8> {
        /// Headers of nextUpdate: [0], and a GeneralizedTime of 15 characters.
        const HEADER: [u8; 4] = [0xa0, 0x11, 0x18, 0x0f];
        // `openssl` counts in minutes.
        let mut response = self.ocsp_response(leaf);
        let start = position(&response, &HEADER) + HEADER.len();
        let at = date_time!(next_update);
        let (month, second) = (u8::from(at.month()), at.second());
        let day = format!("{:04}{month:02}{:02}", at.year(), at.day());
        let time = format!("{day}{:02}{:02}{second:02}Z", at.hour(), at.minute());
        response[start..start + time.len()].copy_from_slice(time.as_bytes());
        response
    }

    /// Makes a response "good" that is signed by the key of another leaf, a responder.
    pub fn ocsp_response_signed_by(&self, leaf: &Leaf, responder: &Leaf) -> Vec<u8> {
        let keys = [responder.certificate_pem(), responder.key_pem()].map(str::to_owned);
        self.ocsp_by(keys, leaf, "V\t491231235959Z\t", "sha1")
    }

    fn ocsp(&self, leaf: &Leaf, status: &str, hash: &str) -> Vec<u8> {
        let keys = [self.certificate_pem.clone(), self.issuer.key().serialize_pem()];
        self.ocsp_by(keys, leaf, status, hash)
    }

    fn ocsp_by(&self, signer: [String; 2], leaf: &Leaf, status: &str, hash: &str) -> Vec<u8> {
        let place = Directory::new();
        place.write("ca.pem", &self.certificate_pem);
        for (name, text) in ["signer.pem", "signer.key"].into_iter().zip(signer) {
            place.write(name, text);
        }
        place.write("leaf.pem", leaf.certificate_pem());
        let serial = format!("{:04X}", leaf.serial);
        place.write("index", format!("{status}\t{serial}\tunknown\t/CN=leaf\n"));
        let arguments = format!(
            "ocsp -index index -CA ca.pem -rsigner signer.pem -rkey signer.key -{hash} -issuer ca.pem \
             -cert leaf.pem -ndays 30 -respout response"
        );
        openssl(&place, &arguments);
        std::fs::read(place.join("response")).expect("openssl has written it")
    }
}

fn position(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|one| one == part).expect("it is there")
}

/// Arguments of `openssl req`, except the kind of key.
const REQUEST: &str = "-nodes -keyout leaf.key -subj /CN=localhost \
                       -addext subjectAltName=DNS:localhost";

fn openssl(place: &Directory, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(place.path())
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {said}");
}

fn read(place: &Directory, name: &str) -> String {
    std::fs::read_to_string(place.join(name)).expect("openssl has written it")
}

impl Trait {
    fn put_into(self, params: &mut CertificateParams) {
        match self {
            Self::NamesIssuer => params.custom_extensions.push(issuer_access()),
            Self::EndEntity => params.is_ca = IsCa::ExplicitNoCa,
            Self::CertSignAlone => params.key_usages = vec![KeyUsagePurpose::KeyCertSign],
            Self::WithoutCertSign => params.key_usages = vec![KeyUsagePurpose::DigitalSignature],
            Self::PathLength(most) => params.is_ca = IsCa::Ca(BasicConstraints::Constrained(most)),
            Self::ForServers => {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }
            Self::Valid(from, until) => {
                params.not_before = date_time!(from);
                params.not_after = date_time!(until);
            }
            Self::NameConstraints(count) => {
                let domain = |at| GeneralSubtree::DnsName(format!("{at}.example"));
                params.name_constraints = Some(NameConstraints {
                    permitted_subtrees: (0..count).map(domain).collect(),
                    excluded_subtrees: Vec::new(),
                });
            }
            Self::Permitted(domain) => {
                params.name_constraints = Some(NameConstraints {
                    permitted_subtrees: vec![GeneralSubtree::DnsName(domain.to_owned())],
                    excluded_subtrees: Vec::new(),
                });
            }
            Self::Excluded(domain) => {
                params.name_constraints = Some(NameConstraints {
                    permitted_subtrees: Vec::new(),
                    excluded_subtrees: vec![GeneralSubtree::DnsName(domain.to_owned())],
                });
            }
            Self::PermittedOrganization(name) => {
                let mut directory = rcgen::DistinguishedName::new();
                directory.push(DnType::OrganizationName, name);
                params.name_constraints = Some(NameConstraints {
                    permitted_subtrees: vec![GeneralSubtree::DirectoryName(directory)],
                    excluded_subtrees: Vec::new(),
                });
            }
            Self::Extensions(count) => {
                let extension =
                    |at| CustomExtension::from_oid_content(&[1, 2, 3, u64::from(at)], Vec::new());
                params.custom_extensions = (0..count).map(extension).collect();
            }
            Self::CriticalExtension => {
                let mut extension = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
                extension.set_criticality(true);
                params.custom_extensions = vec![extension];
            }
            Self::NameParts(count) => {
                for at in 0..count {
                    let kind = DnType::CustomDnType(vec![1, 2, 3, u64::from(at)]);
                    params.distinguished_name.push(kind, "x");
                }
            }
            Self::Usages(count) => {
                let usage = |at| ExtendedKeyUsagePurpose::Other(vec![1, 2, 3, u64::from(at)]);
                params.extended_key_usages = (0..count).map(usage).collect();
                params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
            }
        }
    }
}

fn authority_params(name: &str, names: &[&str]) -> (CertificateParams, u64) {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let (mut params, serial) = params(name, &names);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    (params, serial)
}

fn params(common_name: &str, names: &[String]) -> (CertificateParams, u64) {
    let is_host = |name: &&String| !name.contains(['@', '/']);
    let (hosts, others): (Vec<_>, Vec<_>) = names.iter().partition(is_host);
    let hosts: Vec<String> = hosts.into_iter().cloned().collect();
    let mut params = CertificateParams::new(hosts).expect("test names are valid");
    for name in others {
        let text = name.as_str().try_into().expect("test names are ASCII");
        let kind =
            if name.contains("://") { SanType::URI(text) } else { SanType::Rfc822Name(text) };
        params.subject_alt_names.push(kind);
    }
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = date_time_ymd(2024, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    params.serial_number = Some(SerialNumber::from(serial));
    (params, serial)
}

#[derive(Debug)]
#[must_use]
pub struct LeafRequest<'a> {
    authority: &'a Authority,
    common_name: String,
    names: Vec<String>,
    unit: Option<String>,
    key: Key,
    usage: ExtendedKeyUsagePurpose,
    key_usage: Vec<KeyUsagePurpose>,
    must_staple: bool,
    validity: Option<(u64, u64)>,
    second_common_name: Option<String>,
    names_issuer: bool,
}

impl LeafRequest<'_> {
    /// Uses this kind of key instead of ECDSA on P-256.
    pub fn key(mut self, key: Key) -> Self {
        self.key = key;
        self
    }

    pub fn for_client(mut self) -> Self {
        self.usage = ExtendedKeyUsagePurpose::ClientAuth;
        self
    }

    pub fn for_responder(mut self) -> Self {
        self.usage = ExtendedKeyUsagePurpose::OcspSigning;
        self
    }

    /// Uses this key usage instead of digitalSignature; leaves it out if it is empty.
    pub fn key_usage(mut self, usage: &[KeyUsagePurpose]) -> Self {
        self.key_usage = usage.to_vec();
        self
    }

    pub fn common_name(mut self, common_name: &str) -> Self {
        common_name.clone_into(&mut self.common_name);
        self
    }

    pub fn unit(mut self, unit: &str) -> Self {
        self.unit = Some(unit.to_owned());
        self
    }

    pub fn second_common_name(mut self, common_name: &str) -> Self {
        self.second_common_name = Some(common_name.to_owned());
        self
    }

    /// Adds the address of the issuer's certificate, as public authorities do (RFC 5280 section
    /// 4.2.2.1).
    pub fn names_issuer(mut self) -> Self {
        self.names_issuer = true;
        self
    }

    pub fn expired(self) -> Self {
        self.valid(1_704_067_200, 1_735_689_600)
    }

    /// Adds the TLS feature `status_request` (RFC 7633).
    pub fn must_staple(mut self) -> Self {
        self.must_staple = true;
        self
    }

    /// Sets the validity from one second of Unix time to another, both included.
    pub fn valid(mut self, not_before: u64, not_after: u64) -> Self {
        self.validity = Some((not_before, not_after));
        self
    }

    /// Issues a leaf with a chain in which a library would search a path for seconds: its issuer
    /// has to be called `x`, as the many forged certificates above it and their issuers are.
    pub fn issue_costly(self) -> Leaf {
        static FORGED: OnceLock<String> = OnceLock::new();
        let forge = || (0..140).map(|_| Authority::forged("x", "x", &[])).collect();
        self.issue().above(FORGED.get_or_init(forge))
    }

    pub fn issue(self) -> Leaf {
        let key = self.key.generate();
        let (mut params, serial) = params(&self.common_name, &self.names);
        if let Some(unit) = self.unit {
            params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
        }
        if let Some(second) = self.second_common_name {
            // The library allows one of each kind; given by its number, it is another kind.
            let common_name = DnType::CustomDnType(vec![2, 5, 4, 3]);
            params.distinguished_name.push(common_name, second);
        }
        params.use_authority_key_identifier_extension = true;
        params.key_usages = self.key_usage;
        params.extended_key_usages = vec![self.usage];
        if self.must_staple {
            // A SEQUENCE of one INTEGER, 5.
            let feature = CustomExtension::from_oid_content(
                &[1, 3, 6, 1, 5, 5, 7, 1, 24],
                vec![0x30, 0x03, 0x02, 0x01, 0x05],
            );
            params.custom_extensions.push(feature);
        }
        if self.names_issuer {
            params.custom_extensions.push(issuer_access());
        }
        if let Some((not_before, not_after)) = self.validity {
            params.not_before = date_time!(not_before);
            params.not_after = date_time!(not_after);
        }
        let certificate =
            params.signed_by(&key, &self.authority.issuer).expect("we are an authority");
        Leaf {
            certificate_pem: certificate.pem(),
            above_pem: self.authority.above_pem.clone(),
            certificate_der: certificate.der().to_vec(),
            key_pem: key.serialize_pem(),
            serial,
        }
    }
}
