//! Reads hellos of real clients and made ones: their content, their cuts, their faults.

mod build;
mod captured;
mod faults;
mod ja4;
mod properties;

use wire::client_hello::{ClientHello, HelloProgress};

/// Returns the hello in these bytes, which must hold one.
fn hello(bytes: &[u8]) -> ClientHello<'_> {
    match wire::client_hello::read(bytes) {
        Ok(HelloProgress::Hello(hello)) => hello,
        other => panic!("no hello: {other:?}"),
    }
}

/// Content of a hello, for comparison.
#[derive(Debug, Eq, PartialEq)]
struct Said {
    versions: (u16, u16, Vec<u16>),
    random: [u8; 32],
    session_id: Vec<u8>,
    suites: Vec<u16>,
    name: Option<String>,
    alpn: Vec<Vec<u8>>,
    groups: (Vec<u16>, Vec<u16>),
    signatures: (Vec<u16>, Vec<u16>),
    ticket: Option<Vec<u8>>,
    identities: Vec<Vec<u8>>,
    has_early_data: bool,
    body: Vec<u8>,
}

impl From<&ClientHello<'_>> for Said {
    fn from(hello: &ClientHello<'_>) -> Self {
        Self {
            versions: (
                hello.legacy_version(),
                hello.highest_version(),
                hello.supported_versions().collect(),
            ),
            random: *hello.random(),
            session_id: hello.session_id().to_vec(),
            suites: hello.cipher_suites().collect(),
            name: hello.server_name().map(str::to_owned),
            alpn: hello.alpn_protocols().map(<[u8]>::to_vec).collect(),
            groups: (hello.supported_groups().collect(), hello.key_share_groups().collect()),
            signatures: (
                hello.signature_algorithms().collect(),
                hello.signature_algorithms_cert().collect(),
            ),
            ticket: hello.session_ticket().map(<[u8]>::to_vec),
            identities: hello.psk_identities().map(<[u8]>::to_vec).collect(),
            has_early_data: hello.offers_early_data(),
            body: hello.body().to_vec(),
        }
    }
}
