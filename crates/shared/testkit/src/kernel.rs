//! The sending half of a kTLS connection, in memory: encrypts records as Linux does.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};

const SALT_BYTES: usize = 4;
const TAG_BYTES: usize = 16;

/// The keys for a kernel (`struct tls12_crypto_info_*` of linux/tls.h).
#[derive(Clone, Copy, Debug)]
pub struct KernelKeys<'a> {
    /// Whether the version is TLS 1.3, else 1.2.
    pub is_tls13: bool,
    pub is_chacha: bool,
    /// The key; its length tells which AES.
    pub key: &'a [u8],
    pub iv: [u8; NONCE_LEN],
    pub sequence: u64,
}

pub struct KernelSealer {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
    is_tls13: bool,
    is_chacha: bool,
}

impl KernelSealer {
    pub fn new(handed: &KernelKeys<'_>) -> Self {
        let algorithm = match (handed.is_chacha, handed.key.len()) {
            (true, _) => &CHACHA20_POLY1305,
            (false, 16) => &AES_128_GCM,
            (false, _) => &AES_256_GCM,
        };
        let key = UnboundKey::new(algorithm, handed.key).expect("a key of that length");
        Self {
            key: LessSafeKey::new(key),
            iv: handed.iv,
            sequence: handed.sequence,
            is_tls13: handed.is_tls13,
            is_chacha: handed.is_chacha,
        }
    }

    /// Encrypts one record of this type.
    pub fn seal(&mut self, kind: u8, content: &[u8]) -> Vec<u8> {
        let sealed = if self.is_tls13 {
            let inner = [content, &[kind]].concat();
            let header = header(23, inner.len() + TAG_BYTES);
            [&header[..], &self.encrypt(&header, &inner)].concat()
        } else {
            let sequence = self.sequence.to_be_bytes();
            let aad = [&sequence[..], &header(kind, content.len())].concat();
            let explicit = if self.is_chacha { Vec::new() } else { self.iv[SALT_BYTES..].to_vec() };
            let body = [explicit, self.encrypt(&aad, content)].concat();
            [&header(kind, body.len())[..], &body].concat()
        };
        self.advance();
        sealed
    }

    fn encrypt(&self, aad: &[u8], plain: &[u8]) -> Vec<u8> {
        let nonce = Nonce::assume_unique_for_key(self.nonce());
        let mut sealed = plain.to_vec();
        self.key.seal_in_place_append_tag(nonce, Aad::from(aad), &mut sealed).expect("sealed");
        sealed
    }

    fn is_counting(&self) -> bool {
        !self.is_tls13 && !self.is_chacha
    }

    /// Returns the nonce. AES-GCM in TLS 1.2 uses the IV as it is; all others combine it with the
    /// record's number (`tls_do_encryption`, net/tls/tls_sw.c).
    fn nonce(&self) -> [u8; NONCE_LEN] {
        let mut nonce = self.iv;
        if !self.is_counting() {
            let sequence = self.sequence.to_be_bytes();
            for (byte, number) in nonce[SALT_BYTES..].iter_mut().zip(sequence) {
                *byte ^= number;
            }
        }
        nonce
    }

    /// Advances the record's number and the IV (`tls_advance_record_sn`, include/net/tls.h).
    fn advance(&mut self) {
        self.sequence += 1;
        if self.is_counting() {
            let explicit = &mut self.iv[SALT_BYTES..];
            for byte in explicit.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    return;
                }
            }
        }
    }
}

fn header(kind: u8, length: usize) -> [u8; 5] {
    let [high, low] = u16::try_from(length).expect("a short record").to_be_bytes();
    [kind, 3, 3, high, low]
}
