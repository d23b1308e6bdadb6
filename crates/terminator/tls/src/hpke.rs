//! The receiver's half of HPKE (RFC 9180) in base mode: DHKEM(X25519, HKDF-SHA256) with
//! HKDF-SHA256.
//!
//! The code is our own, because the library's opener takes no key that was derived from a secret.
//! The primitives are those of its cryptography.

use aws_lc_rs::aead::{self, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, PrivateKey, UnparsedPublicKey, X25519};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use wire::ech::{
    AEAD_AES_128_GCM, AEAD_CHACHA20_POLY1305, KDF_SHA256, KEM_X25519, PUBLIC_KEY_BYTES,
};
use zeroize::Zeroizing;

const VERSION: &[u8] = b"HPKE-v1";
const SECRET_BYTES: usize = 32;

/// The key of a receiver.
pub(crate) struct ReceiverKey {
    private: PrivateKey,
    public: [u8; PUBLIC_KEY_BYTES],
}

impl ReceiverKey {
    /// Any 32 bytes are a key of X25519 (RFC 7748 section 5).
    pub(crate) fn new(bytes: &[u8; SECRET_BYTES]) -> Option<Self> {
        let private = PrivateKey::from_private_key(&X25519, bytes).ok()?;
        let public = private.compute_public_key().ok()?;
        Some(Self { public: public.as_ref().try_into().ok()?, private })
    }

    /// From PKCS #8 in its first version, as OpenSSL writes it (RFC 8410 section 7).
    pub(crate) fn from_der(der: &[u8]) -> Option<Self> {
        const HEAD: [u8; 16] =
            [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];
        Self::new(der.strip_prefix(&HEAD)?.try_into().ok()?)
    }

    pub(crate) fn public(&self) -> &[u8; PUBLIC_KEY_BYTES] {
        &self.public
    }

    /// The context of what a sender sealed with `encapsulated`; `None` = the cipher or the sender's
    /// key is none.
    pub(crate) fn receive(
        &self,
        (kdf, aead): (u16, u16),
        encapsulated: &[u8],
        info: &[u8],
    ) -> Option<OpenContext> {
        let algorithm = algorithm_of(aead).filter(|_| kdf == KDF_SHA256)?;
        let shared = self.decapsulate(encapsulated)?;
        let suite =
            [b"HPKE", &KEM_X25519.to_be_bytes()[..], &kdf.to_be_bytes(), &aead.to_be_bytes()]
                .concat();
        let suite = SuiteId(&suite);
        const BASE: u8 = 0;
        let psk_id = suite.extract(&[], b"psk_id_hash", &[]);
        let info = suite.extract(&[], b"info_hash", info);
        let context = [&[BASE][..], psk_id.as_ref(), info.as_ref()].concat();
        let secret = suite.extract(&*shared, b"secret", &[]);
        let mut key = Zeroizing::new([0; 32]);
        let key = &mut key[..algorithm.key_len()];
        suite.expand(secret.as_ref(), b"key", &context, key);
        let mut base_nonce = [0; NONCE_LEN];
        suite.expand(secret.as_ref(), b"base_nonce", &context, &mut base_nonce);
        let key = UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)?;
        Some(OpenContext { key, base_nonce, sequence: 0 })
    }

    /// The shared secret of the KEM (RFC 9180 section 4.1). A key that makes it zero is refused.
    fn decapsulate(&self, encapsulated: &[u8]) -> Option<Zeroizing<[u8; SECRET_BYTES]>> {
        let peer = UnparsedPublicKey::new(&X25519, encapsulated);
        let suite = [b"KEM", &KEM_X25519.to_be_bytes()[..]].concat();
        let suite = SuiteId(&suite);
        let context = [encapsulated, &self.public[..]].concat();
        let agreed = agreement::agree(&self.private, peer, (), |secret| {
            let root = suite.extract(&[], b"eae_prk", secret);
            let mut shared = Zeroizing::new([0; SECRET_BYTES]);
            suite.expand(root.as_ref(), b"shared_secret", &context, &mut *shared);
            Ok(shared)
        });
        agreed.ok()
    }
}

fn algorithm_of(aead: u16) -> Option<&'static aead::Algorithm> {
    match aead {
        AEAD_AES_128_GCM => Some(&aead::AES_128_GCM),
        AEAD_CHACHA20_POLY1305 => Some(&aead::CHACHA20_POLY1305),
        _ => None,
    }
}

/// Opens what one sender seals, in its order.
pub(crate) struct OpenContext {
    key: LessSafeKey,
    base_nonce: [u8; NONCE_LEN],
    sequence: u64,
}

impl OpenContext {
    /// Opens the next one; `None` = it was sealed otherwise, and is still awaited.
    pub(crate) fn open(&mut self, additional_data: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = self.base_nonce;
        for (byte, count) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        let nonce = Nonce::assume_unique_for_key(nonce);
        let mut bytes = sealed.to_vec();
        let opened = self.key.open_in_place(nonce, Aad::from(additional_data), &mut bytes).ok()?;
        let length = opened.len();
        bytes.truncate(length);
        self.sequence += 1;
        Some(bytes)
    }
}

/// LabeledExtract and LabeledExpand of a suite (RFC 9180 section 4).
struct SuiteId<'s>(&'s [u8]);

impl SuiteId<'_> {
    fn extract(&self, salt: &[u8], label: &[u8], secret: &[u8]) -> hmac::Tag {
        let labelled = Zeroizing::new([VERSION, self.0, label, secret].concat());
        hmac::sign(&hmac::Key::new(HMAC_SHA256, salt), &labelled)
    }

    /// HKDF-Expand (RFC 5869 section 2.3), of one block: nothing here is longer.
    fn expand(&self, root: &[u8], label: &[u8], info: &[u8], out: &mut [u8]) {
        let bytes = u16::try_from(out.len()).expect("keys are short");
        let labelled = [&bytes.to_be_bytes()[..], VERSION, self.0, label, info, &[1]].concat();
        let block = hmac::sign(&hmac::Key::new(HMAC_SHA256, root), &labelled);
        out.copy_from_slice(&block.as_ref()[..out.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digits: &str) -> Vec<u8> {
        let digits = digits.as_bytes().chunks(2);
        let byte = |pair| u8::from_str_radix(str::from_utf8(pair).expect("ASCII"), 16);
        digits.map(|pair| byte(pair).expect("digits")).collect()
    }

    const INFO: &str = "4f6465206f6e2061204772656369616e2055726e";
    const PLAIN: &str = "4265617574792069732074727574682c20747275746820626561757479";

    /// RFC 9180 appendices A.1.1 and A.2.1: the first two messages of each.
    #[test]
    fn messages_of_the_rfc_open_in_their_order() {
        for (aead, private, encapsulated, first, second) in VECTORS {
            let key = ReceiverKey::new(&hex(private).try_into().expect("32 bytes")).expect("key");
            let context = || key.receive((1, aead), &hex(encapsulated), &hex(INFO));
            let mut opener = context().expect("a cipher that is known");
            assert_eq!(opener.open(b"Count-1", &hex(first)), None, "other data");
            assert_eq!(opener.open(b"Count-0", &hex(second)), None, "not in order");
            assert_eq!(opener.open(b"Count-0", &hex(first)), Some(hex(PLAIN)));
            assert_eq!(opener.open(b"Count-0", &hex(first)), None, "a replay");
            assert_eq!(opener.open(b"Count-1", &hex(second)), Some(hex(PLAIN)));
            let mut other = key.receive((1, aead), &hex(encapsulated), b"").expect("a cipher");
            assert_eq!(other.open(b"Count-0", &hex(first)), None, "other info");
        }
    }

    #[test]
    fn keys_and_ciphers_that_are_none_have_no_context() {
        let key = ReceiverKey::new(&[7; 32]).expect("key");
        for (suite, encapsulated) in [
            ((1, 2), vec![9; 32]),
            ((2, 1), vec![9; 32]),
            ((1, 1), vec![9; 31]),
            ((1, 1), Vec::new()),
            // The shared secret would be zero (RFC 7748 section 6.1).
            ((1, 1), vec![0; 32]),
        ] {
            assert!(key.receive(suite, &encapsulated, b"").is_none(), "{suite:?} {encapsulated:?}");
        }
    }

    const VECTORS: [(u16, &str, &str, &str, &str); 2] = [
        (
            AEAD_AES_128_GCM,
            "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
            "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
            "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c\
             512a",
            "af2d7e9ac9ae7e270f46ba1f975be53c09f8d875bdc8535458c2494e8a6eab251c03d0c22a56b8ca42c206\
             3b84",
        ),
        (
            AEAD_CHACHA20_POLY1305,
            "8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb",
            "1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a",
            "1c5250d8034ec2b784ba2cfd69dbdb8af406cfe3ff938e131f0def8c8b60b4db21993c62ce81883d2dd1b5\
             1a28",
            "6b53c051e4199c518de79594e1c4ab18b96f081549d45ce015be002090bb119e85285337cc95ba5f59992d\
             c98c",
        ),
    ];
}
