//! Certificates in fewer bytes (RFC 8879), for clients that take them so.
//!
//! Owns the compressed forms of each certificate: each is made once, at the first handshake that
//! asks for it, and kept as long as the certificate is served. The library's own cache is not used,
//! because one for thousands of certificates would be searched from its start under one lock. What
//! servers send compressed is the library's to read: 64 KiB at most, as without compression.

use std::sync::{PoisonError, RwLock};

use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::compress::{
    BROTLI_COMPRESSOR, CertCompressor, CompressionFailed, CompressionLevel, ZLIB_COMPRESSOR,
};

use crate::context;

/// Ours, most preferred first.
pub(crate) static COMPRESSORS: [&dyn CertCompressor; 2] =
    [&Kept(BROTLI_COMPRESSOR), &Kept(ZLIB_COMPRESSOR)];

/// As many as there are algorithms, with and without an OCSP response.
const FORMS_MAX: usize = 2 * COMPRESSORS.len();

/// The compressed forms of one certificate's message.
#[derive(Debug, Default)]
pub(crate) struct CompressedForms(RwLock<Vec<Form>>);

#[derive(Debug)]
struct Form {
    algorithm: Algorithm,
    /// Tells the message with an OCSP response from the one without.
    original_bytes: usize,
    /// Empty = no shorter than the original, which is sent then.
    compressed: Box<[u8]>,
}

impl CompressedForms {
    fn find(&self, algorithm: Algorithm, original_bytes: usize) -> Option<Vec<u8>> {
        let forms = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |form: &&Form| form.algorithm == algorithm && form.original_bytes == original_bytes;
        forms.iter().find(is_it).map(|form| form.compressed.to_vec())
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn keep(&self, form: Form) {
        let mut forms = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if forms.len() < FORMS_MAX {
            forms.push(form);
        }
    }
}

/// Compresses what is not kept of the certificate that the handshake in progress shows.
#[derive(Debug)]
struct Kept(&'static dyn CertCompressor);

impl CertCompressor for Kept {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let forms = context::with(|context| context.forms.clone()).ok_or(CompressionFailed)?;
        let (algorithm, original_bytes) = (self.0.algorithm(), input.len());
        let compressed = forms.find(algorithm, original_bytes).map_or_else(
            || {
                // No lock is held meanwhile: threads that begin at once do it once each. The
                // library's highest level would win 2 % and hold a worker up for 3 ms.
                let mut made = self.0.compress(input, CompressionLevel::Interactive)?;
                if made.len() >= original_bytes {
                    made.clear();
                }
                let compressed = made.clone().into();
                forms.keep(Form { algorithm, original_bytes, compressed });
                Ok(made)
            },
            Ok,
        )?;
        if compressed.is_empty() { Err(CompressionFailed) } else { Ok(compressed) }
    }

    fn algorithm(&self) -> Algorithm {
        self.0.algorithm()
    }
}
