//! The parts of a handshake's drive that are alike on both sides.

use rustls::unbuffered::{EncodeError, EncodeTlsData};

/// Appends the bytes that the library has ready.
pub(crate) fn append_encoded<Side>(
    data: &mut EncodeTlsData<'_, Side>,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let start = out.len();
    // The library tells the size by refusing an empty space.
    let size = match data.encode(&mut []) {
        Ok(written) => written,
        Err(EncodeError::InsufficientSize(size)) => size.required_size,
        Err(EncodeError::AlreadyEncoded) => 0,
    };
    out.resize(start + size, 0);
    match data.encode(&mut out[start..]) {
        Ok(_) | Err(EncodeError::AlreadyEncoded) => Ok(()),
        Err(error) => Err(error),
    }
}
