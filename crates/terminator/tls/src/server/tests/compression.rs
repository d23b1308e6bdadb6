//! Compressed certificates (RFC 8879).

use rustls::compress::{BROTLI_DECOMPRESSOR, CertDecompressor, ZLIB_DECOMPRESSOR};

use super::*;

/// Returns the bytes that a server sends in a handshake to a client that accepts these forms, and
/// the OCSP response received.
fn sent(server: &Server, takes: &[&'static dyn CertDecompressor]) -> (usize, Vec<u8>) {
    let (config, witness) = client("a.example").config();
    let mut config = ClientConfig::clone(&config);
    config.cert_decompressors = takes.to_vec();
    let mut client = client_connection(&Arc::new(config), "a.example");
    let hello = written(&mut client);
    let selected = server.select(&read_hello(&hello)).expect("selected");
    drop(context::enter(HandshakeContext::default()));
    let mut served = ServerConnection::new(selected).expect("a connection");
    feed(&mut served, &hello).expect("a hello");
    let flight = written(&mut served);
    feed(&mut client, &flight).expect("the server's flight");
    assert!(!client.is_handshaking());
    (flight.len(), witness.ocsp.lock().expect("no panic").clone())
}

#[test]
fn certificates_are_compressed_once_for_clients_that_take_them_so() {
    let issuing = root().intermediate("issuing");
    let leaf = issuing.leaf(&["a.example"]).key(Key::Rsa2048).issue();
    let mut stapled = source(&leaf);
    stapled.ocsp_der = Some(issuing.ocsp_response(&leaf));
    let mut options = options(vec![stapled]);
    let taking = build(&options);
    options.certificate_compression = false;
    let off = build(&options);
    let (whole, response) = sent(&taking, &[]);
    for takes in [BROTLI_DECOMPRESSOR, ZLIB_DECOMPRESSOR] {
        let first = sent(&taking, &[takes]);
        assert!(first.0 + 200 < whole, "{} of {whole} bytes", first.0);
        assert_eq!((&first.1, response.is_empty()), (&response, false));
        assert_eq!(sent(&taking, &[takes]).0, first.0);
        assert!(sent(&off, &[takes]).0 + 200 > whole);
    }
    sent(&taking, &[ZLIB_DECOMPRESSOR, BROTLI_DECOMPRESSOR]);
    assert_eq!(taking.certificates()[0].forms.count(), 2);
}
