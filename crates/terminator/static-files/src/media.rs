//! The media type of a file, by its name. Looks at no content.

use std::fmt;

/// A media type (RFC 9110 section 8.3.1).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Media(&'static str);

/// The type of a file whose name shows none.
const UNKNOWN: Media = Media("application/octet-stream");

/// The media types of compressed files, and of what holds them: compressed again they grow. All
/// other kinds may have compressed files beside them.
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

/// The exceptions among pictures, sounds and films, which are compressed in general.
const UNCOMPRESSED: &[&str] = &[
    "audio/midi",
    "audio/wav",
    "image/bmp",
    "image/svg+xml",
    "image/vnd.microsoft.icon",
    "image/x-icon",
    "image/x-ms-bmp",
];

/// Names that the table of `mime_guess` does not know, or knows for something else than what is
/// found on the web under them.
const OURS: &[(&str, &str)] = &[
    ("br", "application/x-brotli"),
    ("mjs", "text/javascript"),
    ("ts", "video/mp2t"),
    ("zst", "application/zstd"),
];

impl Media {
    /// That of a file with this path.
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

    /// Whether compressed files beside it are worth looking for.
    pub(crate) fn compresses(self) -> bool {
        let mut in_general = ["image/", "audio/", "video/"].iter();
        if in_general.any(|kind| self.0.starts_with(kind)) {
            return UNCOMPRESSED.contains(&self.0);
        }
        !COMPRESSED.contains(&self.0)
    }
}

/// As the `Content-Type` field has it. Text is said to be UTF-8, which nearly all of it is.
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
    use super::*;

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
