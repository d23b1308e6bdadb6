//! Uses keys that sign in another process, limits what they may sign, and reads and writes
//! references that replace private keys: PEM text that names a key by its public half, so that a
//! process can serve a certificate without the key.
//!
//! Handles the library's view of such a key, the check that bytes are TLS's to sign, signing with a
//! local key, and the removal of keys from text. A [`crate::key_holder::SignatureSource`] reaches
//! the key's holder.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, OtherError, SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

use crate::certificate::key::KeyKind;
use crate::certificate::pem::{self, BlockKind, PemBlock, REFERENCE_LABEL};
use crate::identity::sha256;
use crate::key_holder::{KeyHolder, KeyId, SIGNED_BYTES_MAX, SignatureFault};
use crate::options::CertificateSource;

/// Returns the id of a public key in DER.
pub fn key_id(public_key: &[u8]) -> KeyId {
    sha256(public_key)
}

/// A key of which this process knows only the public half.
pub(crate) struct RemoteKey {
    public_key: SubjectPublicKeyInfoDer<'static>,
    id: KeyId,
    kind: KeyKind,
    holder: KeyHolder,
}

impl RemoteKey {
    /// Returns `None` if this is no public key of a kind that signs.
    pub(crate) fn new(public_key: Vec<u8>, holder: KeyHolder) -> Option<Self> {
        let (_, read) = SubjectPublicKeyInfo::from_der(&public_key).ok()?;
        let kind = KeyKind::of(&read).ok()?;
        let id = key_id(&public_key);
        Some(Self { public_key: public_key.into(), id, kind, holder })
    }
}

impl Debug for RemoteKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteKey").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl SigningKey for RemoteKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *schemes(self.kind).iter().find(|one| offered.contains(one))?;
        Some(Box::new(RemoteSigner { id: self.id, scheme, holder: self.holder.clone() }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(self.public_key.as_ref()))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.kind {
            KeyKind::Rsa => SignatureAlgorithm::RSA,
            KeyKind::Ed25519 => SignatureAlgorithm::ED25519,
            KeyKind::EcdsaP256 | KeyKind::EcdsaP384 | KeyKind::EcdsaP521 => {
                SignatureAlgorithm::ECDSA
            }
        }
    }
}

/// Returns the signature schemes of a kind of key, in the order of the library's own keys.
fn schemes(kind: KeyKind) -> &'static [SignatureScheme] {
    match kind {
        KeyKind::EcdsaP256 => &[SignatureScheme::ECDSA_NISTP256_SHA256],
        KeyKind::EcdsaP384 => &[SignatureScheme::ECDSA_NISTP384_SHA384],
        KeyKind::EcdsaP521 => &[SignatureScheme::ECDSA_NISTP521_SHA512],
        KeyKind::Ed25519 => &[SignatureScheme::ED25519],
        KeyKind::Rsa => &[
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA256,
        ],
    }
}

#[derive(Debug)]
struct RemoteSigner {
    id: KeyId,
    scheme: SignatureScheme,
    holder: KeyHolder,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let holder = self.holder.0.as_ref().ok_or(SignatureFault::Nowhere);
        let signed = holder.and_then(|one| one.sign(&self.id, self.scheme.into(), message));
        signed.map_err(|fault| Error::Other(OtherError(Arc::new(fault))))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

/// Returns the fault of a remote key that an error of the library carries.
pub(crate) fn signature_fault_of(error: &Error) -> Option<SignatureFault> {
    let Error::Other(OtherError(error)) = error else {
        return None;
    };
    error.downcast_ref().copied()
}

/// A private key in this process.
#[derive(Debug)]
pub struct HeldKey(Arc<dyn SigningKey>);

impl HeldKey {
    /// Reads a key as PKCS #8, PKCS #1 or SEC 1; `None` = it is no such key.
    pub fn read(der: &[u8]) -> Option<Self> {
        let der = PrivateKeyDer::try_from(der).ok()?.clone_key();
        default_provider().key_provider.load_private_key(der).ok().map(Self)
    }

    /// Returns the public half in DER; `None` = the library does not provide it.
    pub fn public_key(&self) -> Option<Vec<u8>> {
        self.0.public_key().map(|key| key.to_vec())
    }

    /// Signs a message; `None` = the key does not support the scheme, or signing failed.
    pub fn sign(&self, scheme: u16, message: &[u8]) -> Option<Vec<u8>> {
        self.0.choose_scheme(&[scheme.into()])?.sign(message).ok()
    }
}

/// The roles in which a key may sign.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SigningRoles {
    pub server: bool,
    pub client: bool,
}

const SERVER_CONTEXT: &[u8] = b"TLS 1.3, server CertificateVerify\0";
const CLIENT_CONTEXT: &[u8] = b"TLS 1.3, client CertificateVerify\0";

/// Number of spaces before the context (RFC 8446 section 4.4.3).
const SPACES: usize = 64;

/// Bytes of the client's and server's random numbers (RFC 5246 section 7.4.3).
const RANDOMS: usize = 64;

impl SigningRoles {
    /// Reports whether a message has the form of a message that TLS signs in one of these roles. A
    /// certificate request, a mail or a token has none of these forms, because those are DER or
    /// text: DER is refused as such.
    pub fn allow(self, message: &[u8]) -> bool {
        let is_server = || is_verify(message, SERVER_CONTEXT) || is_key_exchange(message);
        let is_client = || is_verify(message, CLIENT_CONTEXT) || is_transcript(message);
        message.len() <= SIGNED_BYTES_MAX
            && ((self.server && is_server()) || (self.client && is_client()))
    }
}

/// Recognises a CertificateVerify of TLS 1.3: spaces, context, and a hash of the transcript.
fn is_verify(message: &[u8], context: &[u8]) -> bool {
    let Some((spaces, rest)) = message.split_at_checked(SPACES) else {
        return false;
    };
    let hash = rest.strip_prefix(context);
    spaces.iter().all(|byte| *byte == b' ')
        && hash.is_some_and(|hash| matches!(hash.len(), 32 | 48))
}

/// Recognises the signed content of a ServerKeyExchange of TLS 1.2: random numbers and the point on
/// a named curve (RFC 8422 section 5.4). The requester chooses nearly all of it and could shape a
/// certificate request so: a message that is DER as a whole is refused.
fn is_key_exchange(message: &[u8]) -> bool {
    let Some((&[3, a, b, length], point)) =
        message.get(RANDOMS..).and_then(|rest| rest.split_first_chunk())
    else {
        return false;
    };
    // secp256r1, secp384r1, secp521r1 and x25519.
    let bytes = match [a, b] {
        [0, 23] => 65,
        [0, 24] => 97,
        [0, 25] => 133,
        [0, 29] => 32,
        _ => return false,
    };
    point.len() == bytes && usize::from(length) == bytes && !is_der(message)
}

/// Reports whether a message is one SEQUENCE or SET of DER (X.690), as are all signed parts of
/// certificates, requests and mail. One honest exchange in some millions is mistaken for it.
fn is_der(message: &[u8]) -> bool {
    let Some((0x30 | 0x31, mut content, [])) = der_element(message) else {
        return false;
    };
    while !content.is_empty() {
        let Some((_, _, rest)) = der_element(content) else {
            return false;
        };
        content = rest;
    }
    true
}

/// Splits off the first element: tag, content, and the remaining bytes.
fn der_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (number, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (number.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Recognises the signed content of a client's CertificateVerify of TLS 1.2: whole handshake
/// messages, the first of them a ClientHello (RFC 5246 section 7.4.8).
fn is_transcript(message: &[u8]) -> bool {
    const CLIENT_HELLO: u8 = 1;
    let mut rest = message;
    let mut count = 0;
    while let [_, a, b, c, behind @ ..] = rest {
        let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let Some(next) = behind.get(length..) else {
            return false;
        };
        (rest, count) = (next, count + 1);
    }
    // ClientHello; the server's hello, certificate, key exchange and done; the client's two.
    rest.is_empty() && count >= 5 && message.first() == Some(&CLIENT_HELLO)
}

/// Returns a message with which a key proves that it belongs to a public key. Its signature is
/// useless to anybody else, because no transcript has this hash.
pub fn trial() -> Vec<u8> {
    [&[b' '; SPACES], SERVER_CONTEXT, &[0; 32]].concat()
}

/// Returns a scheme that every key of a public key's kind supports; `None` = no key of TLS.
pub fn trial_scheme(public_key: &[u8]) -> Option<u16> {
    let (_, read) = SubjectPublicKeyInfo::from_der(public_key).ok()?;
    let schemes = schemes(KeyKind::of(&read).ok()?);
    schemes.last().map(|scheme| (*scheme).into())
}

/// Reports whether a signature of a message verifies by a public key in DER.
pub fn verifies(public_key: &[u8], scheme: u16, message: &[u8], signature: &[u8]) -> bool {
    let Ok((_, read)) = SubjectPublicKeyInfo::from_der(public_key) else {
        return false;
    };
    let algorithms = default_provider().signature_verification_algorithms;
    let fitting = algorithms.mapping.iter().filter(|(one, _)| u16::from(*one) == scheme);
    let bits = &read.subject_public_key.data;
    let verified = |one: &dyn rustls_pki_types::SignatureVerificationAlgorithm| {
        one.verify_signature(bits, message, signature).is_ok()
    };
    fitting.flat_map(|(_, all)| all.iter()).any(|one| verified(*one))
}

/// Returns a reference to the key with that public half (DER).
pub fn reference(public_key: &[u8]) -> String {
    block(REFERENCE_LABEL, public_key)
}

/// Returns a reference to the key of the first certificate in a text, and that public half; `None`
/// = the text holds no certificate.
pub fn reference_to_leaf(chain_pem: &[u8]) -> Option<(String, Vec<u8>)> {
    let blocks = pem::read(chain_pem).ok()?;
    let der = CertificateDer::from(pem::all_of(blocks, BlockKind::Certificate).next()?);
    let (_, leaf) = X509Certificate::from_der(&der).ok()?;
    let public_key = leaf.public_key().raw.to_vec();
    Some((reference(&public_key), public_key))
}

/// Returns the private key of a certificate in DER; `None` = there is none, or only a reference.
pub fn key_of(source: &CertificateSource) -> Option<Zeroizing<Vec<u8>>> {
    let blocks = pem::read(source.key_pem.as_ref().unwrap_or(&source.chain_pem)).ok()?;
    pem::all_of(blocks, BlockKind::PrivateKey).next().map(Zeroizing::new)
}

/// Returns a file's text with references instead of private keys; `None` = it holds no key.
/// Unusable keys and all text around blocks are left out.
pub fn without_keys(text: &[u8]) -> Option<Vec<u8>> {
    let Ok(blocks) = pem::read(text) else {
        // A damaged block may be most of a key.
        let is_key = text.windows(KEY_WORDS.len()).any(|part| part == KEY_WORDS);
        return is_key.then(Vec::new);
    };
    let is_key =
        |one: &PemBlock| matches!(one.kind, BlockKind::PrivateKey | BlockKind::EncryptedKey);
    if !blocks.iter().any(is_key) {
        return None;
    }
    let kept = blocks.iter().filter_map(|one| match one.kind {
        BlockKind::PrivateKey => {
            let public_key = HeldKey::read(&one.der)?.public_key()?;
            Some(reference(&public_key))
        }
        BlockKind::Certificate => Some(block("CERTIFICATE", &one.der)),
        BlockKind::RevocationList => Some(block("X509 CRL", &one.der)),
        BlockKind::KeyReference => Some(reference(&one.der)),
        BlockKind::EncryptedKey | BlockKind::Parameters | BlockKind::Other => None,
    });
    Some(kept.collect::<String>().into_bytes())
}

const KEY_WORDS: &[u8] = b"PRIVATE KEY";

fn block(label: &str, der: &[u8]) -> String {
    let encoded = Base64::encode_string(der);
    format!("-----BEGIN {label}-----\n{encoded}\n-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use testkit::authority::Authority;
    use testkit::leaf::Key;

    use super::*;

    const SERVER: SigningRoles = SigningRoles { server: true, client: false };
    const CLIENT: SigningRoles = SigningRoles { server: false, client: true };

    fn key_exchange(point: usize) -> Vec<u8> {
        [&[b' '; RANDOMS][..], &[3, 0, 29, point as u8], &vec![7; point]].concat()
    }

    /// Returns a SEQUENCE of two strings; the second one looks like a point on P-256 at its place.
    fn request() -> Vec<u8> {
        let first = [&[4, 40][..], &[b'a'; 40]].concat();
        let point = [&[b'b'; 17][..], &[3, 0, 23, 65], &[4; 65]].concat();
        let second = [&[4, point.len() as u8][..], &point].concat();
        let content = [first, second].concat();
        [&[0x30, 0x81, content.len() as u8][..], &content].concat()
    }

    fn transcript(count: usize) -> Vec<u8> {
        [&[1, 0, 0, 2, 3, 3][..], &[2, 0, 0, 1, 9].repeat(count - 1)].concat()
    }

    #[test]
    fn a_request_is_told_by_its_form_alone() {
        let request = request();
        assert_eq!(request[RANDOMS..][..4], [3, 0, 23, 65], "else it would be refused anyway");
        assert!(is_der(&request) && !is_der(&request[1..]) && !is_der(&key_exchange(32)));
    }

    #[test]
    fn each_role_signs_what_tls_has_it_sign_and_no_more() {
        let client_verify = [&[b' '; SPACES], CLIENT_CONTEXT, &[0; 48]].concat();
        for (message, by_server, by_client) in [
            (trial(), true, false),
            (client_verify, false, true),
            (key_exchange(32), true, false),
            (key_exchange(31), false, false),
            (request(), false, false),
            (transcript(6), false, true),
            // A hash of another length, a point cut short, half a message, too few messages.
            ([trial(), vec![0]].concat(), false, false),
            (key_exchange(32)[..99].to_vec(), false, false),
            (transcript(6)[..20].to_vec(), false, false),
            (transcript(4), false, false),
            // Bytes that begin as DER, and text.
            ([&[0x30, 0x82, 1, 0][..], &[0; 256]].concat(), false, false),
            (b"eyJhbGciOiJFUzI1NiJ9.e30".repeat(4), false, false),
            (Vec::new(), false, false),
            (transcript(SIGNED_BYTES_MAX), false, false),
        ] {
            assert_eq!(SERVER.allow(&message), by_server, "{message:x?}");
            assert_eq!(CLIENT.allow(&message), by_client, "{message:x?}");
            assert!(!SigningRoles::default().allow(&message));
        }
    }

    #[test]
    fn a_held_key_signs_what_its_public_half_verifies() {
        use testkit::authority::Authority;
        use testkit::leaf::Key;
        let root = Authority::root("root");
        for kind in [Key::EcdsaP256, Key::EcdsaP384, Key::Ed25519, Key::Rsa2048] {
            let leaf = root.leaf(&["a.example"]).key(kind).issue();
            let block = pem::read(leaf.key_pem().as_bytes()).unwrap();
            let key = HeldKey::read(&block[0].der).unwrap();
            let public = key.public_key().unwrap();
            for scheme in schemes(RemoteKey::new(public.clone(), KeyHolder(None)).unwrap().kind) {
                let scheme = u16::from(*scheme);
                let signature = key.sign(scheme, &trial()).unwrap();
                assert!(verifies(&public, scheme, &trial(), &signature));
                assert!(!verifies(&public, scheme, b"other", &signature));
            }
            assert_eq!(key.sign(0x0201, &trial()), None);
        }
    }

    #[test]
    fn a_text_without_its_key_still_says_whose_it_is() {
        let root = Authority::root("root");
        for kind in [Key::EcdsaP256, Key::Ed25519, Key::Rsa2048] {
            let leaf = root.leaf(&["a.example"]).key(kind).issue();
            let whole = CertificateSource::whole("x", leaf.pem());
            let key = key_of(&whole).expect("a key");
            let without = without_keys(leaf.pem().as_bytes()).expect("changed");
            let text = String::from_utf8(without.clone()).expect("text");
            assert!(!text.contains("PRIVATE KEY"), "{text}");
            let part = Base64::encode_string(&key[key.len() - 24..]);
            assert!(!text.contains(&part), "no part of it is left");
            let (wanted, _) = reference_to_leaf(leaf.chain_pem().as_bytes()).expect("a leaf");
            assert!(text.ends_with(&wanted), "{text}");
            assert_eq!(without_keys(&without), None, "nothing is left to take out");
            let source = CertificateSource::whole("x", without);
            assert!(key_of(&source).is_none());
            let (certificate, _) = crate::certificate::Certificate::load(&source).expect("loads");
            assert_eq!(&*certificate.names, [Box::from("a.example")]);
        }
        assert_eq!(without_keys(root.pem().as_bytes()), None);
        assert_eq!(without_keys(b"-----BEGIN PRIVATE KEY-----\nMC4C"), Some(Vec::new()));
    }

    #[test]
    fn a_reference_to_another_key_is_a_mismatch() {
        let root = Authority::root("root");
        let (one, other) = (root.leaf(&["a"]).issue(), root.leaf(&["b"]).issue());
        let (wrong, _) = reference_to_leaf(other.chain_pem().as_bytes()).expect("a leaf");
        let source = CertificateSource::whole("x", one.chain_pem() + &wrong);
        let loaded = crate::certificate::Certificate::load(&source);
        let fault = loaded.expect_err("another's").fault;
        assert_eq!(fault, crate::certificate::CertificateFault::KeyMismatch);
    }
}
