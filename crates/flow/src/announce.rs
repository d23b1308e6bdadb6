//! What a server is told about the client before the first byte: the PROXY header.
//!
//! Owns the choice of fields; their form on the wire is `wire::proxy_header`'s.

use tls::handshake::Agreed;
use tls::options::Version;
use tls::peer;
use wire::proxy_header::{Addresses, ClientTls, HeaderV2, kind, write_v1};

use crate::facts::{Facts, Route};
use crate::options::{CertificateForm, ProxyTlvs, SendProxy};

/// Appends the header that this service sends, if any.
pub(crate) fn write(send: &SendProxy, facts: &Facts, out: &mut Vec<u8>) {
    match send {
        SendProxy::Off => {}
        SendProxy::Pass => out.extend_from_slice(facts.proxy_header.as_deref().unwrap_or(&[])),
        SendProxy::V1 => write_v1(&addresses(facts.route), out),
        SendProxy::V2(tlvs) => write_v2(tlvs, facts, out),
    }
}

fn addresses(route: Route) -> Addresses<'static> {
    match (route.source, route.destination) {
        (Some(source), Some(destination)) => Addresses::tcp(source, destination),
        _ => Addresses::Unknown,
    }
}

fn write_v2(tlvs: &ProxyTlvs, facts: &Facts, out: &mut Vec<u8>) {
    let agreed = facts.agreed.as_ref();
    let der = agreed.and_then(|agreed| agreed.client_certificate.as_deref());
    let common_name = der.filter(|_| tlvs.ssl).and_then(peer::common_name);
    let pem = match tlvs.client_certificate {
        Some(CertificateForm::Pem) => der.and_then(peer::pem),
        _ => None,
    };
    let id = format!("{:016x}", facts.id);
    let early_bytes_max = facts.early_bytes_max.map(u32::to_be_bytes);
    let early = early_bytes_max
        .as_ref()
        .map(|bytes| (kind::EARLY_DATA, &bytes[..]));
    let header = HeaderV2 {
        addresses: addresses(facts.route),
        alpn: agreed
            .filter(|_| tlvs.alpn)
            .and_then(|agreed| agreed.alpn.as_deref()),
        authority: facts.server_name.as_deref().filter(|_| tlvs.authority),
        unique_id: tlvs.unique_id.then_some(id.as_bytes()),
        tls: agreed
            .filter(|_| tlvs.ssl)
            .map(|agreed| client_tls(agreed, facts, common_name.as_deref())),
        client_certificate: match tlvs.client_certificate {
            Some(CertificateForm::Der) => der,
            Some(CertificateForm::Pem) => pem.as_deref().map(str::as_bytes),
            None => None,
        },
        others: early.as_slice(),
        checksum: tlvs.crc32c,
        ..HeaderV2::default()
    };
    // Only fields of ours could be too long, and none but the certificate is unbounded: that one
    // is dropped by `write` itself.
    let _ = header.write(out);
}

fn client_tls<'a>(
    agreed: &Agreed,
    facts: &'a Facts,
    common_name: Option<&'a str>,
) -> ClientTls<'a> {
    let has_certificate = agreed.client_certificate.is_some();
    let certificate = facts.certificate.as_ref();
    ClientTls {
        version: match agreed.version {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        },
        cipher: agreed.suite.map(|suite| suite.openssl_name()),
        certificate_on_connection: has_certificate && !agreed.resumed,
        certificate_in_session: has_certificate,
        // A certificate that does not verify ends the handshake, so one that is there did.
        verify: u32::from(!has_certificate),
        common_name,
        signature_algorithm: certificate.map(|one| &*one.signature),
        key_algorithm: certificate.map(|one| &*one.key),
        group: agreed.group.map(|group| group.name()),
        signature_scheme: None,
    }
}
