//! Compresses certificates (RFC 8879), for clients that accept it.
//!
//! Handles the compressed forms of each certificate: each is made once, at the first handshake that
//! asks for it, and kept as long as the certificate is served. The library's own cache is not used,
//! because one for thousands of certificates would be searched from its start under one lock. The
//! library itself decompresses servers' certificates: 64 KiB at most, as without compression.

use rustls::CertificateCompressionAlgorithm as Algorithm;
use rustls::compress::{
    BROTLI_COMPRESSOR, CertCompressor, CompressionFailed, CompressionLevel, ZLIB_COMPRESSOR,
};

use crate::certificate::CompressedCertificate;
use crate::context;

/// Our compressors, most preferred first.
pub(crate) static COMPRESSORS: [&dyn CertCompressor; 2] =
    [&CachedCompressor(BROTLI_COMPRESSOR), &CachedCompressor(ZLIB_COMPRESSOR)];

/// Compressor that caches its output with the certificate of the current handshake.
#[derive(Debug)]
struct CachedCompressor(&'static dyn CertCompressor);

impl CertCompressor for CachedCompressor {
    fn compress(&self, input: Vec<u8>, _: CompressionLevel) -> Result<Vec<u8>, CompressionFailed> {
        let forms = context::with(|context| context.forms.clone()).ok_or(CompressionFailed)?;
        let (algorithm, original_bytes) = (self.0.algorithm(), input.len());
        let compressed = forms.find(algorithm, original_bytes).map_or_else(
            || {
                // No lock is held meanwhile: threads that start together each compress once. The
                // library's highest level would save 2 % and block a worker for 3 ms.
                let mut made = self.0.compress(input, CompressionLevel::Interactive)?;
                if made.len() >= original_bytes {
                    made.clear();
                }
                let compressed = made.clone().into();
                forms.keep(CompressedCertificate { algorithm, original_bytes, compressed });
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
