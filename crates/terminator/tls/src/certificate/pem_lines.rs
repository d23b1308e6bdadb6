//! Where the blocks of a PEM text begin, so that a message can name the line.
//!
//! Decodes nothing that it does not have to: which block is meant is the caller's to know.

use rustls_pki_types::pem::PemObject;

const BEGIN: &[u8] = b"-----BEGIN ";

/// A block's first line: its number, from 1, and where it begins in the text.
type Block<'a> = (usize, &'a [u8], usize);

/// The blocks of a text, in its order: line, label and offset.
fn blocks(pem: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut offset = 0;
    let lines = pem.split_inclusive(|byte| *byte == b'\n');
    lines.enumerate().filter_map(move |(index, line)| {
        let start = offset;
        offset += line.len();
        let label = line.strip_prefix(BEGIN)?;
        Some((index + 1, label, start))
    })
}

/// The line of the block of that number, from 0, among those with this label.
pub(crate) fn line_of(pem: &[u8], label: &str, number: usize) -> Option<usize> {
    let is_it = |block: &Block<'_>| block.1.starts_with(label.as_bytes());
    blocks(pem).filter(is_it).nth(number).map(|block| block.0)
}

/// The line of the private key of that number, from 0, of whatever kind.
pub(super) fn line_of_key(pem: &[u8], number: usize) -> Option<usize> {
    const KEY: &[u8] = b"PRIVATE KEY-----";
    let is_key = |block: &Block<'_>| block.1.windows(KEY.len()).any(|part| part == KEY);
    blocks(pem).filter(is_key).nth(number).map(|block| block.0)
}

/// The line of the first block that cannot be read.
pub(crate) fn line_of_damage<T: PemObject>(pem: &[u8]) -> Option<usize> {
    let starts: Vec<_> = blocks(pem).map(|(line, _, start)| (line, start)).collect();
    let ends = starts.iter().skip(1).map(|(_, start)| *start);
    let mut parts = starts.iter().zip(ends.chain([pem.len()]));
    let is_damaged = |start: usize, end: usize| {
        let mut read = T::pem_slice_iter(pem.get(start..end).unwrap_or_default());
        read.next().is_some_and(|block| block.is_err())
    };
    parts.find_map(|((line, start), end)| is_damaged(*start, end).then_some(*line))
}

#[cfg(test)]
mod tests {
    use rustls_pki_types::CertificateDer;

    use super::*;

    #[test]
    fn blocks_are_counted_by_label() {
        let pem =
            b"subject=x\r\n-----BEGIN CERTIFICATE-----\r\nAAAA\r\n-----END CERTIFICATE-----\r\n\
                    -----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n\
                    -----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
        assert_eq!(line_of(pem, "CERTIFICATE", 0), Some(2));
        assert_eq!(line_of(pem, "CERTIFICATE", 1), Some(8));
        assert_eq!(line_of(pem, "CERTIFICATE", 2), None);
        assert_eq!(line_of_key(pem, 0), Some(5));
        assert_eq!(line_of_damage::<CertificateDer<'_>>(pem), Some(8));
        let cut = &pem[..60];
        assert_eq!(line_of_damage::<CertificateDer<'_>>(cut), Some(2));
        assert_eq!(line_of_damage::<CertificateDer<'_>>(b"no PEM"), None);
    }
}
