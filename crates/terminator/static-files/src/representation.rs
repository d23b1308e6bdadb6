//! Selects the representation of a file (RFC 9110 section 8): its media type, by its name, and the
//! content codings that a client accepts (RFC 9110 sections 8.4.1 and 12.5.3, RFC 7932) among those
//! of files beside the original. Reads no content, and compresses nothing.

use std::fmt;

/// Coding of a file beside the original.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// All codings in our order of preference: brotli is smaller.
    pub(crate) const ALL: [Self; 2] = [Self::Brotli, Self::Gzip];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Returns the suffix of its files' names.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes())
            // RFC 9110 section 8.4.1.3.
            || (self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// Weights of a field, in thousandths; `None` for codings that it does not name.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    codings: [Option<u16>; Coding::ALL.len()],
    identity: Option<u16>,
    others: Option<u16>,
}

/// Returns the codings that the client prefers to the original or likes as well, best first.
pub(crate) fn preferred(accept_encoding: &[u8]) -> [Option<Coding>; Coding::ALL.len()] {
    let mut weights = Weights::default();
    for element in accept_encoding.split(|byte| *byte == b',') {
        weights.take(element);
    }
    let others = weights.others.unwrap_or(0);
    let [brotli, gzip] = weights.codings.map(|weight| weight.unwrap_or(others));
    let least = weights.identity.unwrap_or(others).max(1);
    let brotli_if = (brotli >= least).then_some(Coding::Brotli);
    let gzip_if = (gzip >= least).then_some(Coding::Gzip);
    if gzip > brotli { [gzip_if, brotli_if] } else { [brotli_if, gzip_if] }
}

impl Weights {
    /// Takes one element; skips a malformed one.
    fn take(&mut self, element: &[u8]) {
        let mut pieces = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = pieces.next().unwrap_or_default();
        let weight = match pieces.next() {
            Some(text) => weight(text),
            None => Some(1000),
        };
        if weight.is_none() || pieces.next().is_some() {
            return;
        }
        if name == b"*" {
            self.others = weight;
        } else if name.eq_ignore_ascii_case(b"identity") {
            self.identity = weight;
        }
        for (coding, slot) in Coding::ALL.iter().zip(&mut self.codings) {
            if coding.is_named(name) {
                *slot = weight;
            }
        }
    }
}

/// Parses `q=` and a number from 0 to 1 with up to three decimals (RFC 9110 section 12.4.2).
fn weight(text: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = text else {
        return None;
    };
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] | [whole @ (b'0' | b'1'), b'.'] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let places = decimals.iter().zip([100, 10, 1]);
    let fraction: u16 = places.map(|(digit, place)| u16::from(digit - b'0') * place).sum();
    let weight = u16::from(whole - b'0') * 1000 + fraction;
    (weight <= 1000).then_some(weight)
}

/// A media type (RFC 9110 section 8.3.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Media(&'static str);

/// Type of a file whose name tells none.
const UNKNOWN: Media = Media("application/octet-stream");

/// Media types of compressed files and archives, which grow when compressed again. All other kinds
/// may have compressed files beside them.
const COMPRESSED: &[&str] = &[
    "application/epub+zip",
    "application/gzip",
    "application/java-archive",
    "application/vnd.android.package-archive",
    "application/x-7z-compressed",
    "application/x-brotli",
    "application/x-bzip2",
    "application/x-gzip",
    "application/x-rar-compressed",
    "application/x-xz",
    "application/zip",
    "application/zstd",
    "font/woff",
    "font/woff2",
];

/// Exceptions among images, audio and video, which are otherwise compressed.
const UNCOMPRESSED: &[&str] = &[
    "audio/midi",
    "audio/wav",
    "image/bmp",
    "image/svg+xml",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "image/x-ms-bmp",
];

/// Names that the table of `mime_guess` lacks, or gives another meaning than the one usual on the
/// web.
const OURS: &[(&str, &str)] = &[
    ("br", "application/x-brotli"),
    ("mjs", "text/javascript"),
    ("ts", "video/mp2t"),
    ("zst", "application/zstd"),
];

impl Media {
    /// Returns the type of a file with this path.
    pub(crate) fn of(path: &[u8]) -> Self {
        let Some(extension) = extension(path) else {
            return UNKNOWN;
        };
        let is_ours = |(ours, _): &&(&str, _)| extension.eq_ignore_ascii_case(ours);
        if let Some((_, media)) = OURS.iter().find(is_ours) {
            return Self(media);
        }
        mime_guess::from_ext(extension).first_raw().map_or(UNKNOWN, Self)
    }

    /// Reports whether compressed files beside it are worth looking for.
    pub(crate) fn compresses(self) -> bool {
        let mut in_general = ["image/", "audio/", "video/"].iter();
        if in_general.any(|kind| self.0.starts_with(kind)) {
            return UNCOMPRESSED.contains(&self.0);
        }
        !COMPRESSED.contains(&self.0)
    }
}

/// Formats the value of `Content-Type`. Text is declared UTF-8, as nearly all of it is.
impl fmt::Display for Media {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)?;
        if self.0.starts_with("text/") {
            formatter.write_str("; charset=utf-8")?;
        }
        Ok(())
    }
}

fn extension(path: &[u8]) -> Option<&str> {
    let name = path.rsplit(|byte| *byte == b'/').next()?;
    let dot = name.iter().rposition(|byte| *byte == b'.')?;
    std::str::from_utf8(&name[dot + 1..]).ok()
}

#[cfg(test)]
mod tests {
    use Coding::{Brotli, Gzip};

    use super::*;

    #[test]
    fn the_client_chooses() {
        let both = [Some(Brotli), Some(Gzip)];
        let cases = [
            ("", [None, None]),
            ("gzip, deflate, br, zstd", both),
            ("gzip", [None, Some(Gzip)]),
            ("x-gzip", [None, Some(Gzip)]),
            ("GZIP;Q=1.0", [None, Some(Gzip)]),
            ("br;q=0.5, gzip;q=0.8", [Some(Gzip), Some(Brotli)]),
            ("br;q=0, gzip", [Some(Gzip), None]),
            ("*", both),
            ("*;q=0.5", both),
            ("*, br;q=0", [Some(Gzip), None]),
            ("*;q=0, gzip;q=0.001", [Some(Gzip), None]),
            ("identity;q=1, *;q=0", [None, None]),
            ("identity, gzip;q=0.5", [None, None]),
            ("identity;q=0.5, gzip;q=0.5", [Some(Gzip), None]),
            ("identity;q=0, br", [Some(Brotli), None]),
            ("deflate, zstd", [None, None]),
            ("gzip;q=2", [None, None]),
            ("gzip;q=1.001", [None, None]),
            ("gzip;q=0.1234", [None, None]),
            ("gzip;q=-1", [None, None]),
            ("gzip;q=", [None, None]),
            ("gzip;level=9", [None, None]),
            ("gzip;q=1;x", [None, None]),
            (";;,,;q=1,br;q=0.", [None, None]),
        ];
        for (field, expected) in cases {
            let mut found = preferred(field.as_bytes());
            let mut expected = expected;
            if found.iter().flatten().count() < 2 {
                // If one is missing, its place does not matter.
                found.sort_unstable_by_key(|coding| coding.is_none());
                expected.sort_unstable_by_key(|coding| coding.is_none());
            }
            assert_eq!(found, expected, "{field}");
        }
    }

    #[test]
    fn kinds_by_name() {
        let cases = [
            ("index.html", "text/html; charset=utf-8", true),
            ("a.b/style.CSS", "text/css; charset=utf-8", true),
            ("app.js", "text/javascript; charset=utf-8", true),
            ("app.mjs", "text/javascript; charset=utf-8", true),
            ("notes.txt", "text/plain; charset=utf-8", true),
            ("data.json", "application/json", true),
            ("a.wasm", "application/wasm", true),
            ("a.svg", "image/svg+xml", true),
            ("a.png", "image/png", false),
            ("a.webp", "image/webp", false),
            ("a.avif", "image/avif", false),
            ("a.mp4", "video/mp4", false),
            ("a.webm", "video/webm", false),
            ("a.ts", "video/mp2t", false),
            ("a.woff2", "font/woff2", false),
            ("a.pdf", "application/pdf", true),
            ("a.tar.gz", "application/gzip", false),
            ("a.html.br", "application/x-brotli", false),
            ("a.zip", "application/zip", false),
            ("README", "application/octet-stream", true),
            ("a.b/README", "application/octet-stream", true),
            ("a.", "application/octet-stream", true),
            ("", "application/octet-stream", true),
        ];
        for (path, media, compresses) in cases {
            let found = Media::of(path.as_bytes());
            assert_eq!(found.to_string(), media, "{path}");
            assert_eq!(found.compresses(), compresses, "{path}");
        }
        assert_eq!(Media::of(b"a.\xff"), UNKNOWN);
    }
}
