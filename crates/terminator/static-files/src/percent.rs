//! Percent-encoding (RFC 3986 section 2.1): bytes to what may stand in a path, and back. What a
//! path means is `target`'s.

/// A `%` that two hexadecimal digits do not follow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

/// Appends what the text stands for. It is decoded once: `%2541` is `%41`.
///
/// # Errors
/// [`Malformed`]; then a part of it has been appended.
pub(crate) fn decode(text: &[u8], decoded: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>().ok_or(Malformed)?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        let value = high.ok_or(Malformed)? << 4 | low.ok_or(Malformed)?;
        decoded.push(u8::try_from(value).map_err(|_| Malformed)?);
        rest = after;
    }
    Ok(())
}

/// Appends the bytes so that they can stand in one segment of a path, in a header field and in an
/// attribute of HTML: whatever is more than a letter, a digit or one of `-._~` is encoded.
pub(crate) fn encode(bytes: &[u8], encoded: &mut Vec<u8>) {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            encoded.push(*byte);
        } else {
            let digit = |value: u8| b"0123456789ABCDEF"[usize::from(value & 15)];
            encoded.extend([b'%', digit(byte >> 4), digit(*byte)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(text: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut bytes = Vec::new();
        decode(text, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn is_decoded_once() {
        assert_eq!(decoded(b"a%2Fb%2f%2541%00+"), Ok(b"a/b/%41\0+".to_vec()));
        assert_eq!(decoded(b"\xe4%c0%af"), Ok(b"\xe4\xc0\xaf".to_vec()));
    }

    #[test]
    fn needs_two_digits() {
        for text in [&b"%"[..], b"%4", b"a%", b"%zz", b"%+1", b"%4g", b"%%41"] {
            assert_eq!(decoded(text), Err(Malformed), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_harmless_and_decoded_again(bytes: Vec<u8>) {
            let mut encoded = Vec::new();
            encode(&bytes, &mut encoded);
            prop_assert!(encoded.iter().all(|b| b.is_ascii_alphanumeric() || b"%-._~".contains(b)));
            prop_assert_eq!(decoded(&encoded), Ok(bytes));
        }
    }
}
