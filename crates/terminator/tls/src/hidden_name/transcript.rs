//! The hash over a handshake's messages, in which a hidden name is as the client sent it.

use std::sync::OnceLock;

use rustls::crypto::aws_lc_rs;
use rustls::crypto::hash::{Context, Hash, HashAlgorithm, Output};
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls12CipherSuite, Tls13CipherSuite};

use crate::context;

/// The library's suite of that number, for servers.
pub(crate) fn suite(code: u16) -> Option<SupportedCipherSuite> {
    static SUITES: OnceLock<Vec<SupportedCipherSuite>> = OnceLock::new();
    let suites = SUITES.get_or_init(|| {
        let all = aws_lc_rs::ALL_CIPHER_SUITES.iter();
        all.map(|suite| restoring(*suite)).collect()
    });
    let found = suites.iter().find(|one| u16::from(one.suite()) == code);
    found.copied()
}

/// The same with our hash. The library holds suites for ever.
fn restoring(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: Box::leak(Box::new(TranscriptHash(common.hash_provider))),
        confidentiality_limit: common.confidentiality_limit,
    };
    match suite {
        SupportedCipherSuite::Tls12(suite) => {
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                common: common(&suite.common),
                prf_provider: suite.prf_provider,
                kx: suite.kx,
                sign: suite.sign,
                aead_alg: suite.aead_alg,
            })))
        }
        SupportedCipherSuite::Tls13(suite) => {
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
                common: common(&suite.common),
                hkdf_provider: suite.hkdf_provider,
                aead_alg: suite.aead_alg,
                quic: None,
            })))
        }
    }
}

struct TranscriptHash(&'static dyn Hash);

impl Hash for TranscriptHash {
    fn start(&self) -> Box<dyn Context> {
        let begun = self.0.start();
        // Other handshakes need none of this.
        if context::with(|context| context.hidden.is_some()) {
            Box::new(RestoringContext(begun))
        } else {
            begun
        }
    }

    fn hash(&self, data: &[u8]) -> Output {
        self.0.hash(data)
    }

    fn output_len(&self) -> usize {
        self.0.output_len()
    }

    fn algorithm(&self) -> HashAlgorithm {
        self.0.algorithm()
    }
}

struct RestoringContext(Box<dyn Context>);

impl Context for RestoringContext {
    fn fork_finish(&self) -> Output {
        self.0.fork_finish()
    }

    fn fork(&self) -> Box<dyn Context> {
        Box::new(Self(self.0.fork()))
    }

    fn finish(self: Box<Self>) -> Output {
        self.0.finish()
    }

    fn update(&mut self, data: &[u8]) {
        self.0.update(&context::as_sent(data));
    }
}
