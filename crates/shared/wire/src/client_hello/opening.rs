//! What a connection's very first bytes are, told from as few of them as will do.

use super::fault::HelloFault;

/// Request methods of HTTP/1 and the preface of HTTP/2, each with the space that follows it.
const HTTP_METHODS: [&[u8]; 12] = [
    b"GET ",
    b"POST ",
    b"HEAD ",
    b"PUT ",
    b"OPTIONS ",
    b"CONNECT ",
    b"PRI ",
    b"DELETE ",
    b"PATCH ",
    b"TRACE ",
    b"PROPFIND ",
    b"REPORT ",
];

/// Whether a handshake record begins here; `None` while the bytes could still become one or a
/// fault with a better name.
pub(super) fn is_handshake(bytes: &[u8]) -> Result<Option<()>, HelloFault> {
    match bytes {
        [] | [20 | 21 | 23 | 24] => Ok(None),
        [22, 3, ..] => Ok(Some(())),
        // The version is to be ignored (RFC 8446 section 5.1), so the message's type decides.
        [22, _, _, _, _, 1, ..] => Ok(Some(())),
        [22] | [22, _] | [22, _, _] | [22, _, _, _] | [22, _, _, _, _] => Ok(None),
        [20 | 21 | 23 | 24, 3, ..] => Err(HelloFault::Unexpected("another record type first")),
        [b'A'..=b'Z', ..] => http(bytes),
        [0x80..=0xff, ..] => sslv2(bytes),
        _ => Err(HelloFault::NotTls),
    }
}

fn http(bytes: &[u8]) -> Result<Option<()>, HelloFault> {
    if HTTP_METHODS.iter().any(|method| bytes.starts_with(method)) {
        return Err(HelloFault::PlainHttp);
    }
    if HTTP_METHODS.iter().any(|method| method.starts_with(bytes)) {
        return Ok(None);
    }
    Err(HelloFault::NotTls)
}

/// Two bytes of length with the high bit set, message type 1, version 0.2 or 3.x.
fn sslv2(bytes: &[u8]) -> Result<Option<()>, HelloFault> {
    match bytes {
        [_, _, 1, 3, ..] | [_, _, 1, 0, 2, ..] => Err(HelloFault::Sslv2),
        [_] | [_, _] | [_, _, 1] | [_, _, 1, 0] => Ok(None),
        _ => Err(HelloFault::NotTls),
    }
}
