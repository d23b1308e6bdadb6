//! The compressed forms of a certificate (RFC 8879), kept with it.
//!
//! Who makes them is `compression`.

use std::sync::{PoisonError, RwLock};

use rustls::CertificateCompressionAlgorithm as Algorithm;

/// As many as there are: by Brotli and zlib, with and without an OCSP response.
const FORMS_MAX: usize = 4;

/// The compressed forms of one certificate's message.
#[derive(Debug, Default)]
pub(crate) struct CompressedForms(RwLock<Vec<Form>>);

#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) algorithm: Algorithm,
    /// Tells the message with an OCSP response from the one without.
    pub(crate) original_bytes: usize,
    /// Empty = no shorter than the original, which is sent then.
    pub(crate) compressed: Box<[u8]>,
}

impl CompressedForms {
    pub(crate) fn find(&self, algorithm: Algorithm, original_bytes: usize) -> Option<Vec<u8>> {
        let forms = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |form: &&Form| form.algorithm == algorithm && form.original_bytes == original_bytes;
        forms.iter().find(is_it).map(|form| form.compressed.to_vec())
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn keep(&self, form: Form) {
        let mut forms = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if forms.len() < FORMS_MAX {
            forms.push(form);
        }
    }
}
