//! The PROXY header that a server gets before the client's first byte.
//!
//! Owns the choice of fields, and that no stream is opened without the header; its form on the wire
//! is `wire::proxy_header`'s.

use telemetry::outcome::Reason;
use tls::handshake::Agreed;
use tls::options::Version;
use tls::subject;
use wire::proxy_header::{Addresses, ClientTls, HeaderTooLong, HeaderV2, kind, write_v1};

use crate::facts::{Ending, Facts, Route};
use crate::options::{CertificateForm, ProxyTlvs, SendProxy};

/// The header that this service sends; empty if it sends none.
///
/// # Errors
/// How the connection ends if the header cannot be made. It must not reach a server without: the
/// server would read a header from the client's first bytes, which can then claim anything.
pub(crate) fn header(send: &SendProxy, facts: &Facts) -> Result<Vec<u8>, Ending> {
    let mut out = Vec::new();
    match send {
        SendProxy::Off => {}
        SendProxy::Pass => {
            let header = facts.proxy_header.as_deref();
            out.extend_from_slice(header.ok_or_else(missing_header)?);
        }
        SendProxy::V1 => write_v1(&addresses(facts.route), &mut out),
        SendProxy::V2(tlvs) => write_v2(tlvs, facts, &mut out)
            .map_err(|error| Ending::with(Reason::ProxyHeaderTooLong, error.to_string()))?,
    }
    Ok(out)
}

/// The service passes headers on, and the client has sent none since it is not trusted to.
pub(crate) fn missing_header() -> Ending {
    Ending::new(Reason::ProxyHeaderMissing)
}

fn addresses(route: Route) -> Addresses<'static> {
    match (route.source, route.destination) {
        (Some(source), Some(destination)) => Addresses::tcp(source, destination),
        _ => Addresses::Unknown,
    }
}

fn write_v2(tlvs: &ProxyTlvs, facts: &Facts, out: &mut Vec<u8>) -> Result<(), HeaderTooLong> {
    let agreed = facts.agreed.as_ref();
    let der = agreed.and_then(|agreed| agreed.client_certificate.as_deref());
    let common_name = der.filter(|_| tlvs.ssl).and_then(subject::common_name);
    let pem = match (tlvs.client_certificate, der) {
        (Some(CertificateForm::Pem), Some(der)) => Some(subject::pem(der).ok_or(HeaderTooLong)?),
        _ => None,
    };
    let id = format!("{:016x}", facts.id);
    let early_bytes_max = facts.early_bytes_max.map(u32::to_be_bytes);
    let early = early_bytes_max.as_ref().map(|bytes| (kind::EARLY_DATA, &bytes[..]));
    let ja4 = facts.ja4.as_ref().filter(|_| tlvs.ja4).map(|one| (kind::JA4, one.as_bytes()));
    let others: Vec<_> = early.into_iter().chain(ja4).collect();
    let header = HeaderV2 {
        addresses: addresses(facts.route),
        alpn: agreed
            .map_or(facts.only_protocol.as_deref(), |one| one.alpn.as_deref())
            .filter(|_| tlvs.alpn),
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
        others: &others,
        checksum: tlvs.crc32c,
        ..HeaderV2::default()
    };
    header.write(out)
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

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use std::time::Instant;

    use testkit::authority::Authority;

    use super::*;

    const TLVS: ProxyTlvs = ProxyTlvs {
        alpn: false,
        authority: true,
        ssl: true,
        crc32c: true,
        unique_id: false,
        ja4: false,
        client_certificate: None,
    };

    fn facts(common_name_bytes: usize) -> Facts {
        let leaf = Authority::root("club").client(&"n".repeat(common_name_bytes));
        let route = Route { source: None, destination: None };
        let mut facts = Facts::new(1, route, Instant::now());
        facts.agreed = Some(Agreed {
            version: Version::Tls13,
            suite: None,
            group: None,
            resumed: false,
            retried: false,
            alpn: None,
            client_certificate: Some(leaf.certificate_der().into()),
            server_certificate: None,
        });
        facts
    }

    #[test]
    fn a_header_that_cannot_be_made_whole_is_not_made() {
        let with = |client_certificate| SendProxy::V2(ProxyTlvs { client_certificate, ..TLVS });
        let pem = with(Some(CertificateForm::Pem));
        for (send, name_bytes, is_made) in [
            (with(None), 1000, true),
            (with(None), 65_600, false),
            (pem.clone(), 1000, true),
            (pem, 50_000, false),
        ] {
            let made = header(&send, &facts(name_bytes));
            let reason = made.as_ref().err().map(|ending| ending.reason);
            let wanted = (!is_made).then_some(Reason::ProxyHeaderTooLong);
            assert_eq!(reason, wanted, "{send:?} {name_bytes}");
        }
    }

    #[test]
    fn where_none_has_come_none_can_be_passed_on() {
        let reason = header(&SendProxy::Pass, &facts(1)).map_err(|ending| ending.reason);
        assert_eq!(reason, Err(Reason::ProxyHeaderMissing));
    }
}
