//! The demo's certificate authority and its two leaves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, RsaKeySize, SanType, date_time_ymd,
};

/// The demo is over long before.
const LIFETIME: Duration = Duration::from_secs(30 * 86_400);

const SLACK: Duration = Duration::from_secs(3600);

pub(super) struct Certificates {
    pub(super) authority: String,
    /// A leaf and its key.
    pub(super) ecdsa: String,
    /// A leaf and its key.
    pub(super) rsa: String,
}

/// Makes all of them, with new keys, for localhost and that address.
pub(super) fn make(address: IpAddr) -> anyhow::Result<Certificates> {
    let authority = authority()?;
    let key = KeyPair::generate()?;
    let pem = authority.self_signed(&key)?.pem();
    let issuer = Issuer::new(authority, key);
    let ecdsa = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    Ok(Certificates {
        authority: pem,
        ecdsa: leaf(address, &ecdsa, &issuer)?,
        rsa: leaf(address, &rsa, &issuer)?,
    })
}

fn authority() -> anyhow::Result<CertificateParams> {
    let mut params = dated(CertificateParams::default())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, "Lariat demo authority");
    Ok(params)
}

fn leaf(address: IpAddr, key: &KeyPair, issuer: &Issuer<'_, KeyPair>) -> anyhow::Result<String> {
    let mut params = dated(CertificateParams::new(vec!["localhost".to_owned()])?)?;
    let mut addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if !address.is_unspecified() && !addresses.contains(&address) {
        addresses.push(address);
    }
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(key, issuer)?;
    Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
}

fn dated(mut params: CertificateParams) -> anyhow::Result<CertificateParams> {
    let now = date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH)?;
    params.not_before = now - SLACK;
    params.not_after = now + LIFETIME;
    Ok(params)
}
