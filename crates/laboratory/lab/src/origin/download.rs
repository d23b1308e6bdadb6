//! A reply's body on its way out: which bytes come next.
//!
//! Pure. The byte at offset `o` of a body is `o mod 251`, so that one that is lost, doubled or in
//! the wrong place is seen. All bodies are slices of one pattern: nothing is made for a reply.

use std::io::IoSlice;

/// A prime: no power of two, so no buffer's size, is a multiple of it.
const PERIOD: usize = 251;

/// Data bytes of a chunk.
const CHUNK_BYTES: u64 = 1 << 16;

/// What goes before the data of a full chunk.
const CHUNK_LINE: &[u8] = b"10000\r\n";

/// A full chunk with its framing.
const FRAME_BYTES: u64 = CHUNK_LINE.len() as u64 + CHUNK_BYTES + 2;

/// From anywhere in its first period there is a whole chunk.
static PATTERN: [u8; CHUNK_BYTES as usize + PERIOD] = pattern();

const fn pattern() -> [u8; CHUNK_BYTES as usize + PERIOD] {
    let mut bytes = [0; CHUNK_BYTES as usize + PERIOD];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % PERIOD) as u8;
        at += 1;
    }
    bytes
}

/// Up to `bytes` bytes of a body from an offset on; at least one unless `bytes` is 0.
#[inline]
pub(super) fn bytes_at(offset: u64, wanted: u64) -> &'static [u8] {
    let rest = &PATTERN[(offset % PERIOD as u64) as usize..];
    &rest[..wanted.min(rest.len() as u64) as usize]
}

/// A body of which some is still to be sent, with its framing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Download {
    sent_bytes: u64,
    form: Form,
}

#[derive(Clone, Copy, Debug)]
enum Form {
    Plain { bytes: u64 },
    Chunked { bytes: u64, last: ChunkEnd },
}

/// The line before the last, partial chunk; empty if there is none.
#[derive(Clone, Copy, Debug)]
struct ChunkEnd {
    text: [u8; 6],
    length: u8,
}

/// Slices of one write. With the pattern's length that is a mebibyte, more than sockets take.
pub(super) const SLICES_MAX: usize = 16;

impl Download {
    /// A body of that many bytes.
    pub(super) fn plain(bytes: u64) -> Self {
        Self {
            sent_bytes: 0,
            form: Form::Plain { bytes },
        }
    }

    pub(super) fn chunked(bytes: u64) -> Self {
        let last = ChunkEnd::new(bytes % CHUNK_BYTES);
        Self {
            sent_bytes: 0,
            form: Form::Chunked { bytes, last },
        }
    }

    /// Counts bytes as sent.
    pub(super) fn advance(&mut self, bytes: u64) {
        self.sent_bytes += bytes;
    }

    /// Whether all of it was sent.
    pub(super) fn is_done(&self) -> bool {
        self.piece_at(self.sent_bytes).is_empty()
    }

    /// Points `slices` at what comes next, and says how many it takes.
    pub(super) fn fill<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut at = self.sent_bytes;
        for (count, slice) in slices.iter_mut().enumerate() {
            let piece = self.piece_at(at);
            if piece.is_empty() {
                return count;
            }
            at += piece.len() as u64;
            *slice = IoSlice::new(piece);
        }
        slices.len()
    }

    /// The rest of the piece in which a position of the framed body lies; empty at its end.
    fn piece_at(&self, at: u64) -> &[u8] {
        match &self.form {
            Form::Plain { bytes } => bytes_at(at, bytes - at),
            Form::Chunked { bytes, last } => {
                let (index, within) = (at / FRAME_BYTES, at % FRAME_BYTES);
                let full = bytes / CHUNK_BYTES;
                if index < full {
                    return framed(
                        CHUNK_LINE,
                        index * CHUNK_BYTES,
                        CHUNK_BYTES,
                        b"\r\n",
                        within,
                    );
                }
                let ending: &[u8] = match last.line() {
                    [] => b"0\r\n\r\n",
                    _ => b"\r\n0\r\n\r\n",
                };
                let within = at - full * FRAME_BYTES;
                let data = bytes % CHUNK_BYTES;
                framed(last.line(), full * CHUNK_BYTES, data, ending, within)
            }
        }
    }
}

/// What is at a position of a line, `bytes` of the pattern from `offset` on, and an ending.
fn framed<'a>(line: &'a [u8], offset: u64, bytes: u64, ending: &'a [u8], at: u64) -> &'a [u8] {
    let Some(in_data) = at.checked_sub(line.len() as u64) else {
        return &line[at as usize..];
    };
    match in_data.checked_sub(bytes) {
        None => bytes_at(offset + in_data, bytes - in_data),
        Some(in_ending) => ending.get(in_ending as usize..).unwrap_or_default(),
    }
}

impl ChunkEnd {
    /// The line of a chunk of that many bytes, fewer than [`CHUNK_BYTES`].
    fn new(bytes: u64) -> Self {
        let mut end = Self {
            text: [0; 6],
            length: 0,
        };
        if bytes == 0 {
            return end;
        }
        for shift in [12, 8, 4, 0] {
            let digit = (bytes >> shift & 15) as u32;
            if end.length > 0 || digit > 0 {
                end.push(char::from_digit(digit, 16).expect("four bits are a digit") as u8);
            }
        }
        end.push(b'\r');
        end.push(b'\n');
        end
    }

    fn push(&mut self, byte: u8) {
        self.text[usize::from(self.length)] = byte;
        self.length += 1;
    }

    fn line(&self) -> &[u8] {
        &self.text[..usize::from(self.length)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    fn chunks(bytes: usize) -> Vec<u8> {
        let mut framed = Vec::new();
        for chunk in body(bytes).chunks(CHUNK_BYTES as usize) {
            framed.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            framed.extend(chunk);
            framed.extend(b"\r\n");
        }
        framed.extend(b"0\r\n\r\n");
        framed
    }

    /// All that a download sends if `taken` bytes of it go at a time.
    fn sent(mut download: Download, taken: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while !download.is_done() {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let count = download.fill(&mut slices);
            let offered: Vec<u8> = slices[..count]
                .iter()
                .flat_map(|slice| slice.to_vec())
                .collect();
            let taken = &offered[..taken.min(offered.len())];
            assert!(!taken.is_empty());
            all.extend(taken);
            download.advance(taken.len() as u64);
        }
        all
    }

    const SIZES: [usize; 10] = [
        0,
        1,
        15,
        16,
        250,
        4096,
        65_535,
        65_536,
        65_537,
        3 * 65_536 + 0xabc,
    ];

    #[test]
    fn each_byte_tells_its_place() {
        for bytes in SIZES {
            for taken in [1000, 65_540, usize::MAX] {
                let all = sent(Download::plain(bytes as u64), taken);
                assert_eq!(all, body(bytes), "{bytes}");
            }
        }
    }

    #[test]
    fn chunks_are_framed_wherever_a_write_ends() {
        for bytes in SIZES {
            for taken in [1001, 65_540, usize::MAX] {
                let all = sent(Download::chunked(bytes as u64), taken);
                assert!(all == chunks(bytes), "{bytes} bytes, {taken} at a time");
            }
        }
        assert_eq!(sent(Download::chunked(20), 1), chunks(20));
    }

    #[test]
    fn a_write_offers_a_mebibyte() {
        let download = Download::plain(1 << 40);
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        assert_eq!(download.fill(&mut slices), SLICES_MAX);
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        assert!(offered >= 1 << 20);
    }

    #[test]
    fn the_largest_body_has_room_for_its_framing() {
        let mut download = Download::chunked(1 << 60);
        let frames = (1u64 << 60) / CHUNK_BYTES;
        download.advance(frames * FRAME_BYTES);
        assert!(!download.is_done());
        download.advance(5);
        assert!(download.is_done());
    }
}
