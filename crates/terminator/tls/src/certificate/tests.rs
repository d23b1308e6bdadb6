//! Loading of certificates: the accepted forms, and the words for each fault.

use base64ct::Encoding;
use pem_rfc7468::LineEnding;
use testkit::authority::Authority;
use testkit::leaf::{Key, Leaf};

use super::*;
use crate::validity::{Clock, seconds};

/// The middle of 2026, when the test authority's certificates are valid.
const NOW: i64 = 1_782_000_000;
const DAY: i64 = 24 * 60 * 60;

fn at(now: i64) -> Moment {
    Moment { since: None, now }
}

fn source(chain_pem: &str) -> CertificateSource {
    CertificateSource::whole("/certs/site.pem", chain_pem)
}

type Loaded = Result<(Certificate, Vec<CertificateConcern>), CertificateError>;

fn load(pem: &str) -> Loaded {
    load_at(&source(pem), NOW)
}

fn load_at(source: &CertificateSource, now: i64) -> Loaded {
    let (certificate, concern) = Certificate::load(source)?;
    let concerns = concern.into_iter().chain(certificate.concerns(at(now)));
    let concerns = concerns.collect();
    Ok((certificate, concerns))
}

fn fault(pem: &str) -> CertificateFault {
    load(pem).expect_err("no certificate").fault
}

fn with_ocsp(leaf: &Leaf, response: Vec<u8>) -> CertificateSource {
    let mut with_ocsp = source(&leaf.pem());
    with_ocsp.ocsp_der = Some(response);
    with_ocsp
}

fn ocsp_fault(leaf: &Leaf, response: Vec<u8>) -> Option<OcspFault> {
    match Certificate::load(&with_ocsp(leaf, response)) {
        Ok(_) => None,
        Err(error) => match error.fault {
            CertificateFault::Ocsp(fault) => Some(fault),
            other => panic!("{other:?}"),
        },
    }
}

fn leaf(names: &[&str]) -> Leaf {
    Authority::root("root").leaf(names).issue()
}

#[test]
fn the_facts_are_read() {
    let root = Authority::root("The Root");
    let leaf = root.leaf(&["A.example", "*.a.example", "127.0.0.1", "::1"]).issue();
    let (certificate, concerns) = load(&leaf.pem()).expect("a certificate");
    let names: Vec<&str> = certificate.names.iter().map(|name| &**name).collect();
    assert_eq!(names, ["a.example", "*.a.example", "127.0.0.1", "::1"]);
    assert_eq!(certificate.kind, KeyKind::EcdsaP256);
    assert_eq!(&*certificate.issuer, "CN=The Root");
    assert_eq!(certificate.signature_algorithm, "ecdsa-with-SHA256");
    assert_eq!(certificate.key_algorithm, "EC256");
    assert_eq!(&*certificate.place, "/certs/site.pem");
    // 2024 to 2049.
    let validity = Validity { from: 1_704_067_200, until: 2_524_521_600 };
    assert_eq!(certificate.validity, validity);
    assert!(!certificate.must_staple);
    assert_eq!(concerns, []);
}

#[test]
fn each_kind_of_key_is_known() {
    let kinds = [
        (Key::EcdsaP256, KeyKind::EcdsaP256, "EC256", "ECDSA P-256"),
        (Key::EcdsaP384, KeyKind::EcdsaP384, "EC384", "ECDSA P-384"),
        (Key::Ed25519, KeyKind::Ed25519, "ED25519", "Ed25519"),
        (Key::Rsa2048, KeyKind::Rsa, "RSA2048", "RSA 2048"),
    ];
    let root = Authority::root("root");
    for (key, kind, name, shown) in kinds {
        let leaf = root.leaf(&["a.example"]).key(key).issue();
        let (certificate, _) = load(&leaf.pem()).expect("a certificate");
        assert_eq!(certificate.kind, kind);
        assert_eq!(certificate.key_algorithm, name);
        assert_eq!(certificate.expiry(certificate.validity).key, shown);
    }
}

#[test]
fn a_leaf_that_is_not_first_is_put_first() {
    let intermediate = Authority::root("root").intermediate("between");
    let leaf = intermediate.leaf(&["a.example"]).issue();
    let pem = format!("{}{}{}", intermediate.pem(), leaf.certificate_pem(), leaf.key_pem());
    let (certificate, concerns) = load(&pem).expect("a certificate");
    assert_eq!(certificate.key.cert[0].as_ref(), leaf.certificate_der());
    assert_eq!(certificate.key.cert.len(), 2);
    assert_eq!(concerns, [CertificateConcern::LeafNotFirst]);
}

#[test]
fn what_is_missing_is_named() {
    let leaf = leaf(&["a.example"]);
    assert_eq!(fault("text"), CertificateFault::NoCertificate);
    assert_eq!(fault(leaf.key_pem()), CertificateFault::NoCertificate);
    assert_eq!(fault(&leaf.chain_pem()), CertificateFault::NoKey);
    let two = format!("{}{}", leaf.pem(), leaf.key_pem());
    assert_eq!(fault(&two), CertificateFault::SeveralKeys(2));
}

#[test]
fn a_certificate_is_read_in_every_form_that_has_one_meaning() {
    let between = Authority::root("root").intermediate("between");
    let leaf = between.leaf(&["a.example"]).issue();
    let (pem, key) = (leaf.pem(), leaf.key_pem());
    let packed: String = pem.replace('\n', "");
    let wide = |unit: fn(u16) -> [u8; 2], mark: &[u16]| -> Vec<u8> {
        let units = mark.iter().copied().chain(pem.encode_utf16());
        units.flat_map(unit).collect()
    };
    // OpenSSL's trust data is another element behind the certificate.
    let trusted = [leaf.certificate_der(), b"\x30\x03\x0c\x01x"].concat();
    let trusted = pem_rfc7468::encode_string("TRUSTED CERTIFICATE", LineEnding::LF, &trusted);
    let dh = "-----BEGIN DH PARAMETERS-----\nAAAA\n-----END DH PARAMETERS-----\n";
    for (form, text) in [
        ("joined without a line break", pem.replace("-----\n-----", "----------").into_bytes()),
        ("one line", packed.into_bytes()),
        ("CRLF", pem.replace('\n', "\r\n").into_bytes()),
        ("CR alone", pem.replace('\n', "\r").into_bytes()),
        ("UTF-8 with marks", format!("\u{feff}{}\u{feff}{key}", leaf.chain_pem()).into_bytes()),
        ("UTF-16LE", wide(u16::to_le_bytes, &[0xfeff])),
        ("UTF-16BE", wide(u16::to_be_bytes, &[0xfeff])),
        ("UTF-16LE without a mark", wide(u16::to_le_bytes, &[])),
        ("older label", pem.replace(" CERTIFICATE", " X509 CERTIFICATE").into_bytes()),
        ("trusted", (trusted.expect("PEM") + between.pem() + key).into_bytes()),
        ("another container's label", pem.replace(" PRIVATE", " RSA PRIVATE").into_bytes()),
        ("parameters beside", format!("{dh}{pem}").into_bytes()),
        ("indented", pem.replace('\n', "\n  ").into_bytes()),
        ("commented", format!("# -----BEGIN CERTIFICATE-----\n# x\n{pem}").into_bytes()),
        ("text around", format!("Bag Attributes\n{pem}\n# end\n").into_bytes()),
        ("a name that is no mark", format!("subject=CN = back-end.example\n{pem}").into_bytes()),
        ("punycode", format!("subject=CN = xn--endgltig-65a.example\n{pem}").into_bytes()),
        ("CR alone, commented", format!("# a\n{pem}# end").replace('\n', "\r").into_bytes()),
    ] {
        let source = CertificateSource::whole("x.pem", text);
        let loaded = Certificate::load(&source);
        let (certificate, concern) = loaded.unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(certificate.key.cert.len(), 2, "{form}");
        assert_eq!(certificate.key.cert[0].as_ref(), leaf.certificate_der(), "{form}");
        assert_eq!(concern, None, "{form}");
    }
}

#[test]
fn der_and_bare_base64_are_one_certificate_or_key() {
    let leaf = leaf(&["a.example"]);
    let bare = |pem: &str| -> String {
        let lines = pem.lines().filter(|line| !line.starts_with('-'));
        lines.collect()
    };
    let dashes = self::leaf(&["a--end.example"]);
    for (chain, key) in [
        (dashes.certificate_der().to_vec(), dashes.key_pem().into()),
        (leaf.certificate_der().to_vec(), leaf.key_pem().into()),
        (bare(leaf.certificate_pem()).into(), bare(leaf.key_pem()).into_bytes()),
    ] {
        let mut apart = CertificateSource::whole("x.cer", chain);
        apart.key_pem = Some(key);
        Certificate::load(&apart).expect("a certificate");
    }
}

/// Made by `openssl ecparam -name prime256v1 -genkey -param_enc explicit`, and `openssl req -x509`.
#[test]
fn explicit_parameters_are_named_in_few_words() {
    let error = load(include_str!("data/explicit.pem")).expect_err("no named curve").to_string();
    assert!(error.contains("explicit parameters"), "{error}");
    assert!(error.len() < 250, "{error}");
}

/// Asserts that this file's fault is described in these words.
fn assert_told(text: impl Into<Vec<u8>>, form: &str, remedy: &str) {
    let error = Certificate::load(&CertificateSource::whole("x.pem", text));
    let error = error.expect_err(form).to_string();
    assert!(error.contains(form) && error.contains(remedy), "{form}: {error}");
}

#[test]
fn files_of_other_forms_are_named_with_what_makes_pem_of_them() {
    let twice = base64ct::Base64::encode_string(leaf(&["a.example"]).pem().as_bytes());
    let secret = format!("apiVersion: v1\nkind: Secret\ndata:\n  tls.crt: {twice}\n");
    let traefik = format!("{{\"le\": {{\"Certificates\": [{{\"certificate\": \"{twice}\"}}]}}}}\n");
    let pkcs7 = b"\x30\x0b\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";
    for (text, form, remedy) in [
        (&b""[..], "x.pem: is empty", "CA"),
        (b"\n \n", "x.pem: is empty", "CA"),
        (b"\0\0\0", "x.pem: holds no certificate", "BEGIN"),
        (b"\x30\x03\x02\x01\x03", "is PKCS #12", "`-legacy`"),
        (b"\x30\x80\x02\x01\x03", "is PKCS #12", "openssl pkcs12 -in x.pem"),
        (pkcs7, "is PKCS #7", "openssl pkcs7 -inform der -in x.pem"),
        (b"\xfe\xed\xfe\xed\0", "is a Java key store", "keytool"),
        (b"PuTTY-User-Key-File-3: x", "is a key of PuTTY", "puttygen x.pem"),
        (twice.as_bytes(), "is encoded in Base64 once more", "base64 -d x.pem"),
        (secret.as_bytes(), "is a manifest of a Kubernetes Secret", "jsonpath='{.data.tls\\.crt}'"),
        (traefik.as_bytes(), "is JSON, with PEM in Base64 in it", "jq -r"),
        (b"\n<!DOCTYPE html>\n<title>404</title>\n", "is a web page", "read it"),
        (b"\x1f\x8b\x08\0\0", "is compressed", "gunzip -c x.pem"),
        (b"PK\x03\x04\0", "is compressed", "unzip -p x.pem"),
    ] {
        assert_told(text, form, remedy);
    }
}

#[test]
fn blocks_of_other_forms_are_named_with_what_makes_pem_of_them() {
    let chain = leaf(&["a.example"]).chain_pem();
    let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
    for (label, form, remedy) in [
        ("PKCS7", "x.pem:1: is PKCS #7", "openssl pkcs7 -in x.pem"),
        ("CERTIFICATE REQUEST", "x.pem:1: is a certificate request", "the CA"),
        ("ATTRIBUTE CERTIFICATE", "x.pem:1: is a certificate of a kind", "X.509"),
    ] {
        assert_told(block(label), form, remedy);
    }
    for (label, form, remedy) in [
        ("CMS", "is PKCS #7", "openssl pkcs7 -in x.pem"),
        ("OPENSSH PRIVATE KEY", "is a key of OpenSSH", "ssh-keygen -p"),
        ("PUBLIC KEY", "is a public key", "private key"),
        ("PGP PRIVATE KEY BLOCK", "is of OpenPGP", "BEGIN CERTIFICATE"),
    ] {
        assert_told(chain.clone() + &block(label), form, remedy);
    }
}

#[test]
fn half_a_block_is_never_dropped_in_silence() {
    let between = Authority::root("root").intermediate("between");
    let leaf = between.leaf(&["a.example"]).issue();
    let whole = leaf.pem();
    let second = between.pem();
    let lines = whole.lines().count();
    for damaged in [
        second.replace("-----BEGIN", "----BEGIN"),
        second.replace("CERTIFICATE-----\nM", "CERTIFICATE----\nM"),
        second.replace("-----BEGIN CERTIFICATE-----", "\u{2014}BEGIN CERTIFICATE\u{2014}"),
        second.replace("-----BEGIN CERTIFICATE-----\n", ""),
        second.replace("-----END CERTIFICATE-----\n", ""),
        second.replace("END CERTIFICATE", "END CERTIFICATES"),
        second.replace("-----END", "----END"),
        second.replacen('M', "?", 1),
        second.replace('\n', "\\n"),
        second.to_lowercase(),
    ] {
        let error = load(&format!("{whole}{damaged}")).expect_err(&damaged);
        assert!(matches!(error.fault, CertificateFault::Pem(_)), "{error}");
        let line = error.line.expect("a line");
        assert!(line > lines && line <= lines + second.lines().count(), "{error}");
    }
}

#[test]
fn a_key_of_another_certificate_is_noticed() {
    let (ours, other) = (leaf(&["a.example"]), leaf(&["a.example"]));
    let pem = format!("{}{}", ours.chain_pem(), other.key_pem());
    assert_eq!(fault(&pem), CertificateFault::KeyMismatch);
}

#[test]
fn an_encrypted_key_is_no_riddle() {
    let chain = leaf(&["a.example"]).chain_pem();
    let pkcs8 =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGb\n-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_eq!(fault(&format!("{chain}{pkcs8}")), CertificateFault::EncryptedKey);
    let older = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                 DEK-Info: AES-128-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n";
    assert_eq!(fault(&format!("{chain}{older}")), CertificateFault::EncryptedKey);
}

#[test]
fn damaged_text_and_damaged_der_are_told_apart() {
    let pem = leaf(&["a.example"]).pem();
    let cut = &pem[..pem.len() / 2];
    assert!(matches!(fault(cut), CertificateFault::Pem(_)));
    let wrong = "-----BEGIN CERTIFICATE-----\nMAMCAQA=\n-----END CERTIFICATE-----\n";
    let key = leaf(&["b.example"]).key_pem().to_owned();
    assert_eq!(fault(&format!("{wrong}{key}")), CertificateFault::Malformed(0));
    let behind = leaf(&["a.example"]).pem() + wrong;
    assert_eq!(fault(&behind), CertificateFault::Malformed(1));
    let junk = "-----BEGIN PRIVATE KEY-----\nMAMCAQA=\n-----END PRIVATE KEY-----\n";
    let chain = leaf(&["a.example"]).chain_pem();
    assert_eq!(fault(&format!("{chain}{junk}")), CertificateFault::KeyUnreadable);
}

#[test]
fn an_rsa_key_of_1024_bits_is_too_small() {
    let pem = include_str!("data/rsa-1024.pem");
    assert_eq!(fault(pem), CertificateFault::KeyTooSmall(1024));
}

#[test]
fn a_key_of_an_unknown_kind_is_named() {
    let pem = include_str!("data/secp256k1.pem");
    let algorithm = "ECDSA secp256k1".to_owned();
    assert_eq!(fault(pem), CertificateFault::KeyUnsupported(algorithm));
}

#[test]
fn the_common_name_counts_only_without_alternative_names() {
    let (certificate, _) = load(include_str!("data/common-name.pem")).expect("a certificate");
    assert_eq!(certificate.names.to_vec(), ["old.example".into()]);
}

#[test]
fn validity_is_watched() {
    let pem = leaf(&["a.example"]).pem();
    let concerns = |now: i64| load_at(&source(&pem), now).expect("a certificate").1;
    use CertificateConcern::{Expired, ExpiresSoon, NotYetValid};
    let (begin, end) = (1_704_067_200, 2_524_521_600);
    assert_eq!(concerns(end - 31 * DAY), []);
    for (now, concern) in [
        (end - 29 * DAY, ExpiresSoon(Span(29 * DAY))),
        (end, ExpiresSoon(Span(0))),
        (end + 1, Expired(Span(1))),
        (end + 3 * DAY, Expired(Span(3 * DAY))),
        (begin - 2 * DAY, NotYetValid(Span(2 * DAY))),
    ] {
        assert_eq!(concerns(now), [concern]);
    }
}

#[test]
fn an_ocsp_response_is_stapled_if_it_is_good() {
    let root = Authority::root("root");
    let leaf = root.leaf(&["a.example"]).issue();
    let with_ocsp = with_ocsp(&leaf, root.ocsp_response(&leaf));
    // The response is valid for 30 days from now on.
    let now = seconds(Clock::default().now());
    let (certificate, concerns) = load_at(&with_ocsp, now).expect("a certificate");
    assert_eq!(concerns, []);
    let stapled = |now| certificate.key_at(now).ocsp.clone();
    let validity = certificate.staple.as_ref().expect("a staple").validity;
    assert!((29 * DAY..=30 * DAY).contains(&(validity.until - now)));
    for (now, is_stapled) in [
        (validity.from - 1, false),
        (validity.from, true),
        (validity.until, true),
        (validity.until + 1, false),
    ] {
        let expected = with_ocsp.ocsp_der.clone().filter(|_| is_stapled);
        assert_eq!(stapled(now), expected, "{now}");
    }
    let at_end = |since| {
        let now = validity.until + 1;
        let concerns = certificate.concerns(Moment { since, now });
        concerns.collect::<Vec<_>>()
    };
    let expired = CertificateConcern::OcspExpired(Span(1));
    assert_eq!(at_end(None), [expired]);
    assert_eq!(at_end(Some(validity.until)), [expired]);
    assert_eq!(at_end(Some(validity.until + 1)), [], "it was said");
    assert_eq!(certificate.next_change(validity.until), Some(validity.until + 1));
}

#[test]
fn an_ocsp_response_that_is_none_or_not_good_is_refused() {
    let between = Authority::root("root").intermediate("between");
    let [leaf, other] = ["a.example", "b.example"].map(|name| between.leaf(&[name]).issue());
    let whole = between.ocsp_response(&leaf);
    // The serial number is the same; the issuer's key and name are not.
    let of_issuer = |name| Authority::root(name).ocsp_response(&leaf);
    for (response, wanted) in [
        (whole.clone(), None),
        (between.ocsp_response(&other), Some(OcspFault::OfAnother)),
        (of_issuer("between"), Some(OcspFault::OfAnother)),
        (of_issuer("other"), Some(OcspFault::OfAnother)),
        (between.ocsp_response_revoked(&leaf), Some(OcspFault::Revoked)),
        // tryLater, RFC 6960 section 4.2.1.
        (vec![0x30, 0x03, 0x0a, 0x01, 0x03], Some(OcspFault::NotSuccessful(3))),
    ] {
        assert_eq!(ocsp_fault(&leaf, response), wanted);
    }
    for length in 0..whole.len() {
        let cut = ocsp_fault(&leaf, whole[..length].to_vec());
        assert_eq!(cut, Some(OcspFault::Malformed), "{length} bytes");
    }
}

/// RFC 6960 section 4.2.2.2: the issuer signs, or a responder authorized by id-kp-OCSPSigning.
#[test]
fn an_ocsp_response_is_signed_by_whom_the_issuer_lets() {
    let root = Authority::root("root");
    let between = root.intermediate("between");
    let leaf = between.leaf(&["a.example"]).issue();
    let now = seconds(Clock::default().now());
    let forged = between.ocsp_response_forged(&leaf, (now + DAY).unsigned_abs());
    assert_eq!(ocsp_fault(&leaf, forged), Some(OcspFault::NotSigned));
    let until = |end: i64| between.ocsp_response_until(&leaf, (now + end).unsigned_abs());
    assert_eq!(ocsp_fault(&leaf, until(DAY)), None);
    let by = |responder: Leaf| between.ocsp_response_signed_by(&leaf, &responder);
    let stranger = Authority::root("between");
    for (responder, wanted) in [
        (between.leaf(&["responder"]).for_responder().issue(), None),
        (between.leaf(&["responder"]).issue(), Some(OcspFault::NotSigned)),
        (root.leaf(&["responder"]).for_responder().issue(), Some(OcspFault::NotSigned)),
        (stranger.leaf(&["responder"]).for_responder().issue(), Some(OcspFault::NotSigned)),
    ] {
        assert_eq!(ocsp_fault(&leaf, by(responder)), wanted);
    }
    // A responder may sign as long as its certificate is valid.
    let responder = between.leaf(&["responder"]).for_responder();
    let [from, until] = [now - DAY, now + DAY].map(i64::unsigned_abs);
    let responder = responder.valid(from, until);
    let source = with_ocsp(&leaf, by(responder.issue()));
    let (certificate, _) = Certificate::load(&source).expect("a certificate");
    assert_eq!(certificate.staple.expect("a staple").validity.until, now + DAY);
}

/// CertID, RFC 6960 section 4.1.1: many certificates share a serial number.
#[test]
fn an_ocsp_response_names_its_certificate_by_a_hash_that_can_be_compared() {
    let between = Authority::root("root").intermediate("between");
    let leaf = between.leaf(&["a.example"]).issue();
    let other = Authority::root("other");
    for (hash, is_known) in
        [("sha256", true), ("sha384", true), ("sha512", true), ("sha224", false)]
    {
        let own = ocsp_fault(&leaf, between.ocsp_response_by(&leaf, hash));
        assert_eq!(own, (!is_known).then_some(OcspFault::OfAnother), "{hash}");
        let of_other = ocsp_fault(&leaf, other.ocsp_response_by(&leaf, hash));
        assert_eq!(of_other, Some(OcspFault::OfAnother), "{hash}");
    }
}

#[test]
fn a_certificate_that_must_be_stapled_is_reported_when_it_is_not() {
    let root = Authority::root("root");
    let leaf = root.leaf(&["a.example"]).must_staple().issue();
    let missing = CertificateConcern::StapleMissing;
    let (certificate, concerns) = load(&leaf.pem()).expect("a certificate");
    assert!(certificate.must_staple);
    assert_eq!(concerns, [missing]);

    let end = seconds(Clock::default().now()) + 3 * DAY;
    let ocsp = root.ocsp_response_until(&leaf, end.unsigned_abs());
    let (certificate, _) = Certificate::load(&with_ocsp(&leaf, ocsp)).expect("a certificate");
    let from = certificate.staple.as_ref().expect("a staple").validity.from;
    let concerns = |since, now| {
        let concerns = certificate.concerns(Moment { since, now });
        concerns.filter(|one| *one == missing).count()
    };
    assert_eq!(concerns(None, from), 0);
    assert_eq!(concerns(Some(end), end + 1), 1);
    assert_eq!(concerns(Some(end + 1), end + 2), 0, "it was said");
}

#[test]
fn a_key_in_the_place_of_the_chain_is_told_to_change_places() {
    let leaf = leaf(&["a.example"]);
    let mut swapped = source(leaf.key_pem());
    swapped.key_pem = Some(leaf.chain_pem().into());
    swapped.key_place = Some("/certs/site.key".into());
    let error = Certificate::load(&swapped).expect_err("swapped").to_string();
    let wanted = "/certs/site.pem: is the key, and /certs/site.key the certificate; let them";
    assert!(error.starts_with(wanted), "{error}");
}

#[test]
fn every_sentence_names_the_place_and_no_key() {
    let mut apart = source(&leaf(&["a.example"]).chain_pem());
    apart.key_pem = Some(leaf(&["b.example"]).key_pem().into());
    apart.key_place = Some("/certs/site.key".into());
    let error = Certificate::load(&apart).expect_err("another's key").to_string();
    assert!(error.starts_with("/certs/site.pem:1: "), "{error}");
    assert!(error.contains("/certs/site.key"), "{error}");
    apart.key_pem = Some(b"-----BEGIN PRIVATE KEY-----\nSECRET!\n".to_vec());
    let error = Certificate::load(&apart).expect_err("cut").to_string();
    assert!(error.starts_with("/certs/site.key:1: "), "{error}");
    assert!(!error.contains("SECRET"), "{error}");
}

#[test]
fn a_key_of_each_kind_is_paired_with_its_certificate_alone() {
    let root = Authority::root("root");
    let kinds = [Key::EcdsaP256, Key::EcdsaP384, Key::Ed25519, Key::Rsa2048];
    let both = kinds.map(|kind| {
        let leaf = root.leaf(&["a.example"]).key(kind).issue();
        let of = |pem: &str| PemContents::of(pem.as_bytes()).expect("PEM");
        (of(&leaf.chain_pem()), of(leaf.key_pem()))
    });
    for (at, (chain, _)) in both.iter().enumerate() {
        let leaf = chain.leaf.as_ref().expect("a leaf");
        assert!(!chain.is_of_authority && !chain.has_key);
        for (other, (_, key)) in both.iter().enumerate() {
            assert_eq!(key.keys == [leaf.1.clone()], at == other, "{at} {other}");
        }
    }
}
