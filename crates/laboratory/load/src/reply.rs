//! Reading a reply: where its head ends, how long its body is, whether it is whole.
//!
//! HTTP/1.1 (RFC 9112). Bodies are counted, not kept. Pure.

use httparse::{EMPTY_HEADER, Response, Status};

/// A head may be this long: servers refuse heads of half the size, and one that never ends must
/// not fill our memory.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Headers of a head.
const HEADERS_MAX: usize = 96;

/// Bytes of a reply that are neither head nor body: chunk extensions and trailers. Nobody sends
/// many, and a reply that consists of them never ends.
const EXTRA_BYTES_MAX: u64 = 64 * 1024;

/// Interim replies before the final one.
const INTERIM_MAX: u32 = 16;

/// A reply that is being read.
#[derive(Debug)]
pub(crate) struct Reply {
    /// What of the head has come, if it came in pieces.
    head: Vec<u8>,
    stage: Stage,
    /// Whether it answers `HEAD`, and so has no body whatever it says.
    to_head: bool,
    status: u16,
    keeps: bool,
    body_bytes: u64,
    /// Of chunk extensions and trailers.
    extra_bytes: u64,
    interim: u32,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Head,
    /// So many bytes of the body are to come.
    Length(u64),
    Chunked(Chunk),
    /// The body ends with the connection.
    UntilClose,
    Whole,
}

/// Where we are in a chunked body (RFC 9112, section 7.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Chunk {
    /// In the line with the size, of which so much is read.
    Size {
        size: u64,
        digits: u8,
        extension: bool,
    },
    /// In the data.
    Data(u64),
    /// Before the line's end behind the data.
    DataEnd,
    /// In the lines behind the last chunk; whether this one has anything in it.
    Trailer { empty: bool },
}

/// A reply that is none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Malformed;

/// What became of a reply with the bytes that came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Progress {
    /// More has to come.
    Partial,
    /// The reply is whole.
    Whole,
}

impl Reply {
    /// For the answer to a request; `to_head` if its method is `HEAD`.
    pub(crate) fn new(to_head: bool) -> Self {
        Self {
            head: Vec::new(),
            stage: Stage::Head,
            to_head,
            status: 0,
            keeps: false,
            body_bytes: 0,
            extra_bytes: 0,
            interim: 0,
        }
    }

    /// The status; 0 before the head is whole.
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Whether the server will take another request on this connection.
    pub(crate) fn keeps_connection(&self) -> bool {
        self.keeps
    }

    /// Bytes of the body so far.
    pub(crate) fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Whether nothing more has to come.
    pub(crate) fn is_whole(&self) -> bool {
        self.stage == Stage::Whole
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// [`Malformed`], also if there are more bytes than the reply has.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Progress, Malformed> {
        while !bytes.is_empty() {
            bytes = match self.stage {
                Stage::Head => self.take_head(bytes)?,
                Stage::Length(left) => self.take_length(bytes, left)?,
                Stage::Chunked(chunk) => self.take_chunked(bytes, chunk)?,
                Stage::UntilClose => {
                    self.body_bytes += bytes.len() as u64;
                    &[]
                }
                Stage::Whole => return Err(Malformed),
            };
        }
        Ok(match self.stage {
            Stage::Whole => Progress::Whole,
            _ => Progress::Partial,
        })
    }

    /// The server has closed: whether that made the reply whole.
    pub(crate) fn close(&self) -> Progress {
        match self.stage {
            Stage::UntilClose | Stage::Whole => Progress::Whole,
            _ => Progress::Partial,
        }
    }

    /// Takes of the head, and returns what is behind it.
    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        if self.head.is_empty() {
            // Nearly always the head comes in one piece, and need not be copied.
            return match self.read_head(bytes)? {
                Some(length) => Ok(&bytes[length..]),
                None => {
                    self.head.extend_from_slice(bytes);
                    Ok(&[])
                }
            };
        }
        let before = self.head.len();
        let mut head = std::mem::take(&mut self.head);
        head.extend_from_slice(bytes);
        match self.read_head(&head)? {
            // It was not whole before, so it ends within what came now.
            Some(length) => Ok(&bytes[length.saturating_sub(before)..]),
            None if head.len() > HEAD_BYTES_MAX => Err(Malformed),
            None => {
                self.head = head;
                Ok(&[])
            }
        }
    }

    /// The length of the head, if it is whole.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let mut headers = [EMPTY_HEADER; HEADERS_MAX];
        let mut response = Response::new(&mut headers);
        let Status::Complete(length) = response.parse(bytes).map_err(|_| Malformed)? else {
            return Ok(None);
        };
        self.status = response.code.ok_or(Malformed)?;
        if (100..200).contains(&self.status) && self.status != 101 {
            // An interim reply (RFC 9110, section 15.2): the final one follows.
            self.status = 0;
            self.interim += 1;
            return match self.interim > INTERIM_MAX {
                true => Err(Malformed),
                false => Ok(Some(length)),
            };
        }
        self.keeps = response.version == Some(1);
        let mut framing = Framing::default();
        for header in response.headers.iter() {
            framing.take(header.name, header.value)?;
        }
        self.keeps = framing.keeps.unwrap_or(self.keeps);
        self.stage = self.body(&framing);
        Ok(Some(length))
    }

    /// How the body ends (RFC 9112, section 6.3).
    fn body(&mut self, framing: &Framing) -> Stage {
        let none = self.to_head || matches!(self.status, 101 | 204 | 304);
        match (none, framing.chunked, framing.length) {
            (true, ..) => Stage::Whole,
            (_, true, _) => Stage::Chunked(Chunk::START),
            (_, _, Some(0)) => Stage::Whole,
            (_, _, Some(length)) => Stage::Length(length),
            (_, _, None) => {
                self.keeps = false;
                Stage::UntilClose
            }
        }
    }

    fn take_length<'a>(&mut self, bytes: &'a [u8], left: u64) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = split(bytes, left);
        self.body_bytes += taken;
        self.stage = match left - taken {
            0 => Stage::Whole,
            left => Stage::Length(left),
        };
        Ok(rest)
    }

    fn take_chunked<'a>(&mut self, bytes: &'a [u8], chunk: Chunk) -> Result<&'a [u8], Malformed> {
        if let Chunk::Data(left) = chunk {
            let (taken, rest) = split(bytes, left);
            self.body_bytes += taken;
            self.stage = Stage::Chunked(match left - taken {
                0 => Chunk::DataEnd,
                left => Chunk::Data(left),
            });
            return Ok(rest);
        }
        let Some((&byte, rest)) = bytes.split_first() else {
            return Ok(bytes);
        };
        if chunk.is_extra() {
            self.extra_bytes += 1;
            if self.extra_bytes > EXTRA_BYTES_MAX {
                return Err(Malformed);
            }
        }
        self.stage = match chunk.after(byte)? {
            Some(chunk) => Stage::Chunked(chunk),
            None => Stage::Whole,
        };
        Ok(rest)
    }
}

/// As much of the bytes as is wanted, as a count, and the rest.
fn split(bytes: &[u8], wanted: u64) -> (u64, &[u8]) {
    let count = usize::try_from(wanted)
        .unwrap_or(usize::MAX)
        .min(bytes.len());
    (count as u64, &bytes[count..])
}

impl Chunk {
    const START: Self = Self::Size {
        size: 0,
        digits: 0,
        extension: false,
    };

    /// Whether what comes is neither needed nor data.
    fn is_extra(self) -> bool {
        matches!(
            self,
            Self::Trailer { .. }
                | Self::Size {
                    extension: true,
                    ..
                }
        )
    }

    /// Where we are after a byte that is no data; `None` = at the end of the body.
    fn after(self, byte: u8) -> Result<Option<Self>, Malformed> {
        Ok(Some(match (self, byte) {
            (Self::Size { digits: 0, .. }, b'\r' | b'\n' | b';') => return Err(Malformed),
            (Self::Size { .. }, b'\r') => self,
            (Self::Size { size: 0, .. }, b'\n') => Self::Trailer { empty: true },
            (Self::Size { size, .. }, b'\n') => Self::Data(size),
            (
                Self::Size {
                    extension: true, ..
                },
                _,
            ) => self,
            (Self::Size { size, digits, .. }, b';' | b' ' | b'\t') => Self::Size {
                size,
                digits,
                extension: true,
            },
            (Self::Size { size, digits, .. }, _) => Self::digit(size, digits, byte)?,
            (Self::DataEnd, b'\r') => self,
            (Self::DataEnd, b'\n') => Self::START,
            (Self::Trailer { empty: true }, b'\n') => return Ok(None),
            (Self::Trailer { .. }, b'\r') => self,
            (Self::Trailer { .. }, byte) => Self::Trailer {
                empty: byte == b'\n',
            },
            (Self::DataEnd | Self::Data(_), _) => return Err(Malformed),
        }))
    }

    fn digit(size: u64, digits: u8, byte: u8) -> Result<Self, Malformed> {
        let digit = char::from(byte).to_digit(16).ok_or(Malformed)?;
        // 16 digits are 64 bits.
        if digits >= 16 {
            return Err(Malformed);
        }
        Ok(Self::Size {
            size: size << 4 | u64::from(digit),
            digits: digits + 1,
            extension: false,
        })
    }
}

/// The headers that say where a body ends and whether the connection stays.
#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    keeps: Option<bool>,
}

impl Framing {
    fn take(&mut self, name: &str, value: &[u8]) -> Result<(), Malformed> {
        if name.eq_ignore_ascii_case("content-length") {
            let text = std::str::from_utf8(value).map_err(|_| Malformed)?;
            let length = text.trim().parse().map_err(|_| Malformed)?;
            if self.length.is_some_and(|before| before != length) {
                return Err(Malformed);
            }
            self.length = Some(length);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            self.chunked = has_word(value, "chunked");
        } else if name.eq_ignore_ascii_case("connection") {
            if has_word(value, "close") {
                self.keeps = Some(false);
            } else if has_word(value, "keep-alive") {
                self.keeps = Some(true);
            }
        }
        Ok(())
    }
}

fn has_word(value: &[u8], word: &str) -> bool {
    value
        .split(|byte| *byte == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply's progress, whole in one piece and byte by byte: they must not differ.
    fn read(text: &str, to_head: bool) -> (Result<Progress, Malformed>, Reply) {
        let mut whole = Reply::new(to_head);
        let progress = whole.take(text.as_bytes());
        let mut pieces = Reply::new(to_head);
        let by_bytes = text
            .bytes()
            .map(|byte| pieces.take(&[byte]))
            .find(|progress| progress.is_err())
            .unwrap_or_else(|| pieces.take(&[]));
        assert_eq!(progress, by_bytes, "{text:?}");
        if progress.is_ok() {
            assert_eq!(whole.body_bytes(), pieces.body_bytes(), "{text:?}");
        }
        (progress, whole)
    }

    #[test]
    fn a_body_of_known_length() {
        let (progress, reply) = read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false);
        assert_eq!(progress, Ok(Progress::Whole));
        assert_eq!((reply.status(), reply.body_bytes()), (200, 5));
        assert!(reply.keeps_connection());
        let (progress, _) = read("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", false);
        assert_eq!(progress, Ok(Progress::Partial));
        let (progress, _) = read("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello", false);
        assert_eq!(progress, Err(Malformed), "more than it said");
    }

    #[test]
    fn a_chunked_body() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    5\r\nhello\r\nA;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        let (progress, reply) = read(text, false);
        assert_eq!(progress, Ok(Progress::Whole));
        assert_eq!(reply.body_bytes(), 15);
        for bad in ["\r\n", "x\r\n", "5\r\nhelloX", "11111111111111111\r\n"] {
            let text = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{bad}");
            assert_eq!(read(&text, false).0, Err(Malformed), "{bad:?}");
        }
    }

    #[test]
    fn a_body_until_the_end() {
        let (progress, reply) = read("HTTP/1.0 200 OK\r\n\r\nhello", false);
        assert_eq!(progress, Ok(Progress::Partial));
        assert!(!reply.keeps_connection());
        assert_eq!(reply.close(), Progress::Whole);
        let (_, cut) = read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", false);
        assert_eq!(cut.close(), Progress::Partial);
    }

    #[test]
    fn replies_without_a_body() {
        for text in [
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        ] {
            assert_eq!(read(text, false).0, Ok(Progress::Whole), "{text:?}");
        }
        let (progress, _) = read("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", true);
        assert_eq!(progress, Ok(Progress::Whole), "to HEAD");
    }

    #[test]
    fn who_closes_says_so() {
        let keeps = |head: &str| {
            let text = format!("{head}\r\nContent-Length: 0\r\n\r\n");
            read(&text, false).1.keeps_connection()
        };
        assert!(keeps("HTTP/1.1 200 OK"));
        assert!(!keeps("HTTP/1.1 200 OK\r\nConnection: Close"));
        assert!(!keeps("HTTP/1.0 200 OK"));
        assert!(keeps("HTTP/1.0 200 OK\r\nConnection: keep-alive"));
    }

    #[test]
    fn what_is_no_reply() {
        assert_eq!(read("SSH-2.0-OpenSSH_9.2\r\n", false).0, Err(Malformed));
        let twice = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n";
        assert_eq!(read(twice, false).0, Err(Malformed));
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "a".repeat(HEAD_BYTES_MAX));
        let mut reply = Reply::new(false);
        assert_eq!(reply.take(endless.as_bytes()), Ok(Progress::Partial));
        assert_eq!(reply.take(b"aaa"), Err(Malformed), "an endless head");
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let trailers = format!("{chunked}0\r\n{}", "a: b\r\n".repeat(20_000));
        assert_eq!(read(&trailers, false).0, Err(Malformed));
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(17);
        assert_eq!(read(&interim, false).0, Err(Malformed));
    }

    const REPLIES: &[&str] = &[
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nT: x\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 404 Not Found\r\nConnection: keep-alive\r\n\r\nuntil the end",
    ];

    /// What a reply comes to if it is cut at these places.
    fn cut(bytes: &[u8], lengths: &[usize]) -> (Result<Progress, Malformed>, u16, u64) {
        let mut reply = Reply::new(false);
        let mut progress = Ok(Progress::Partial);
        let mut rest = bytes;
        let mut lengths = lengths.iter().copied().chain(std::iter::once(bytes.len()));
        while !rest.is_empty() && progress.is_ok() {
            let length = lengths.next().unwrap_or(rest.len()).clamp(1, rest.len());
            let (piece, more) = rest.split_at(length);
            progress = reply.take(piece);
            rest = more;
        }
        match progress {
            // Where a fault is found within a reply depends on the cut; that it is does not.
            Err(fault) => (Err(fault), 0, 0),
            progress => (progress, reply.status(), reply.body_bytes()),
        }
    }

    proptest::proptest! {
        #[test]
        fn altered_replies_read_the_same_however_they_are_cut(
            which in 0..REPLIES.len(),
            alterations in proptest::collection::vec((0usize..90, proptest::num::u8::ANY), 0..4),
            lengths in proptest::collection::vec(1usize..20, 0..20),
        ) {
            let mut bytes = REPLIES[which].as_bytes().to_vec();
            for (at, byte) in alterations {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            proptest::prop_assert_eq!(cut(&bytes, &lengths), cut(&bytes, &[]));
        }
    }
}
