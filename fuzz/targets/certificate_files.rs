//! Files of certificates and folders of them: known blocks, mixed, joined, cut and changed.
//!
//! For any input, nothing panics, a whole block is never lost in silence, and a folder that a
//! recorder has read gives the same when it is read from the recording.
#![no_main]

use std::sync::LazyLock;

use config::{Recorder, Recording, TypedConfiguration};
use libfuzzer_sys::fuzz_target;
use testkit::authority::Authority;
use tls::certificate::Certificate;
use tls::certificate::pem;
use tls::options::CertificateSource;

/// Blocks and the text between them, each picked by a byte.
static PARTS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let root = Authority::root("root");
    let [one, other] = ["a.example", "b.example"].map(|name| root.leaf(&[name]).issue());
    let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    let texts = [
        one.certificate_pem().to_owned(),
        one.key_pem().to_owned(),
        other.certificate_pem().to_owned(),
        other.key_pem().to_owned(),
        root.pem().to_owned(),
        block("DH PARAMETERS"),
        block("PKCS7"),
        block("ENCRYPTED PRIVATE KEY"),
        block("CERTIFICATE REQUEST"),
        "-----BEGIN CERTIFICATE-----\n".to_owned(),
        "-----END CERTIFICATE-----".to_owned(),
        "\u{feff}".to_owned(),
        "# ".to_owned(),
        "\r\n".to_owned(),
    ];
    let mut parts = texts.map(String::into_bytes).to_vec();
    parts.push(one.certificate_der().to_vec());
    parts
});

/// Decodes bytes to text: the byte after 0xff is copied, 0xfe removes the last byte, and others
/// pick a part.
fn text(bytes: &[u8]) -> Vec<u8> {
    let (mut text, mut bytes) = (Vec::new(), bytes.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            0xff => text.extend(bytes.next()),
            0xfe => drop(text.pop()),
            _ => text.extend_from_slice(&PARTS[usize::from(*byte) % PARTS.len()]),
        }
    }
    text
}

fuzz_target!(|data: &[u8]| {
    let files: Vec<_> = data.split(|byte| *byte == 0xfd).take(4).map(text).collect();
    let names = ["x.crt", "x.key", "y.pem", "z/fullchain.pem"];
    let mut folder = Recording::default();
    let path = |name: &str| format!("/d/{name}").into();
    for (name, file) in names.iter().zip(&files) {
        // A line that begins like a certificate is a block, or the file is an error.
        if let Ok(blocks) = pem::read(file) {
            let begun = file.windows(12).filter(|part| part == b"\n-----BEGIN C");
            assert!(blocks.len() >= begun.count());
        }
        let source = CertificateSource::whole(name, file.clone());
        let _ = Certificate::load(&source).map_err(|error| error.to_string());
        folder.insert(format!("/d/{name}"), file.clone());
    }
    folder.insert_list("/d", ["x.crt", "x.key", "y.pem", "z"].map(path).to_vec());
    folder.insert_list("/d/z", vec![path("z/fullchain.pem")]);
    let toml = "[[service]]\nname = 'a'\nfront = { listen = ['127.0.0.1:1'], tls = { certificates = \
                ['/d'] } }\nback = { servers = ['127.0.0.1:2'] }\n";
    let source = TypedConfiguration::of_text("/lariat.toml", toml);
    let mut recorder = Recorder::new(folder);
    let loaded = config::load(&source, &mut recorder).ok();
    let again = config::load(&source, &mut recorder.into_recording()).ok();
    let services =
        |loaded: config::LoadedConfiguration| format!("{:?}", loaded.settings.data_plane.services);
    assert_eq!(loaded.map(services), again.map(services));
});
