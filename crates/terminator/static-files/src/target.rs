//! Decodes the target of a request (RFC 9112 section 3.2) into a path beneath the root. Handles
//! percent-encoding and dot segments, and never returns a path that climbs. Knows no file system;
//! the code that opens the path stays beneath the root too, so this is the first of two barriers.

use wire::http::host_and_port;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TargetFault {
    /// Malformed target, with the reason.
    Malformed(&'static str),
    /// The path climbs above the root.
    Outside,
    /// No file can have this name.
    Impossible,
}

/// A path beneath the root, and the other parts of the target.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct RequestTarget {
    /// Decoded segments with one `/` between them, none of them empty, `.` or `..`. Empty = the
    /// root.
    pub(crate) path: Vec<u8>,
    /// Whether it was written as a folder, with a `/` at its end.
    pub(crate) folder: bool,
    /// Query behind the `?`, as written.
    pub(crate) query: Option<Vec<u8>>,
}

impl RequestTarget {
    /// Parses a target in origin-form or absolute-form.
    ///
    /// # Errors
    /// Fails with a [`TargetFault`].
    pub(crate) fn read(text: &[u8]) -> Result<Self, TargetFault> {
        let (_, text) = split(text).map_err(TargetFault::Malformed)?;
        let (text, query) = cut(text, b'?');
        let mut target = Self { query: query.map(<[u8]>::to_vec), ..Self::default() };
        // An absolute-form without a path means the root, as `/` does.
        let segments = text.strip_prefix(b"/").unwrap_or_default();
        for segment in segments.split(|byte| *byte == b'/') {
            target.enter(segment)?;
        }
        Ok(target)
    }

    fn enter(&mut self, segment: &[u8]) -> Result<(), TargetFault> {
        let parent_bytes = self.path.len();
        if parent_bytes > 0 {
            self.path.push(b'/');
        }
        let begin = self.path.len();
        decode_percent(segment, &mut self.path)
            .ok_or(TargetFault::Malformed("a % without two hexadecimal digits"))?;
        let name = &self.path[begin..];
        if name.contains(&0) {
            return Err(TargetFault::Malformed("a NUL in the target"));
        }
        if name.contains(&b'/') {
            return Err(TargetFault::Impossible);
        }
        self.folder = matches!(name, b"" | b"." | b"..");
        if self.folder {
            let climbs = name == b"..";
            self.path.truncate(parent_bytes);
            if climbs {
                self.climb()?;
            }
        }
        Ok(())
    }

    fn climb(&mut self) -> Result<(), TargetFault> {
        if self.path.is_empty() {
            return Err(TargetFault::Outside);
        }
        let slash = self.path.iter().rposition(|byte| *byte == b'/');
        self.path.truncate(slash.unwrap_or(0));
        Ok(())
    }

    /// Reports whether a name in the path begins with a dot.
    pub(crate) fn is_hidden(&self) -> bool {
        let mut names = self.path.split(|byte| *byte == b'/');
        names.any(|name| name.starts_with(b"."))
    }

    /// Returns its location as a folder: an absolute path on this server, with the query. It cannot
    /// be read as the name of another server, because names are not empty and `/` and `\` in them
    /// are encoded.
    pub(crate) fn location_of_folder(&self) -> Vec<u8> {
        let mut location = vec![b'/'];
        if !self.path.is_empty() {
            for name in self.path.split(|byte| *byte == b'/') {
                encode_percent(name, &mut location);
                location.push(b'/');
            }
        }
        if let Some(query) = &self.query {
            location.push(b'?');
            for byte in query {
                match byte {
                    b'!'..=b'~' => location.push(*byte),
                    _ => encode_percent(&[*byte], &mut location),
                }
            }
        }
        location
    }
}

/// Splits a target into the authority, if any, and the rest. For files the authority is ignored: a
/// service has one folder, whatever its host names.
///
/// # Errors
/// Fails with the reason why the target is malformed.
pub(crate) fn split(text: &[u8]) -> Result<(Option<&[u8]>, &[u8]), &'static str> {
    if text.contains(&b'#') {
        return Err("the target has a fragment");
    }
    if text.starts_with(b"/") {
        return Ok((None, text));
    }
    let hierarchical = ["http://", "https://"]
        .iter()
        .find_map(|scheme| {
            let (begin, rest) = text.split_at_checked(scheme.len())?;
            begin.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
        })
        .ok_or("the target is no path")?;
    let end = hierarchical.iter().position(|byte| b"/?".contains(byte));
    let (authority, rest) = hierarchical.split_at(end.unwrap_or(hierarchical.len()));
    if host_and_port(authority).is_none() {
        return Err("the target's host is malformed");
    }
    Ok((Some(authority), rest))
}

fn cut(text: &[u8], at: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == at) {
        Some(place) => (&text[..place], Some(&text[place + 1..])),
        None => (text, None),
    }
}

/// Appends the decoded text. It is decoded once: `%2541` becomes `%41`. `None` if two hexadecimal
/// digits do not follow a `%`; then part of the text has been appended.
fn decode_percent(text: &[u8], decoded: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let (digits, after) = rest.split_first_chunk::<2>()?;
        let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
        decoded.push(u8::try_from(high? << 4 | low?).ok()?);
        rest = after;
    }
    Some(())
}

/// Appends the bytes so that they can stand in one segment of a path, in a header field and in an
/// attribute of HTML: all but letters, digits and `-._~` are encoded.
pub(crate) fn encode_percent(bytes: &[u8], encoded: &mut Vec<u8>) {
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

    fn path(text: &str) -> Result<String, TargetFault> {
        let target = RequestTarget::read(text.as_bytes())?;
        let slash = if target.folder { "/" } else { "" };
        Ok(String::from_utf8_lossy(&target.path).into_owned() + slash)
    }

    #[test]
    fn paths_are_normalized() {
        let cases = [
            ("/", "/"),
            ("/a", "a"),
            ("/a/", "a/"),
            ("/a/b.html?x=/../y", "a/b.html"),
            ("//a///b", "a/b"),
            ("/./a/./b/.", "a/b/"),
            ("/a/../b", "b"),
            ("/a/b/..", "a/"),
            ("/a/..", "/"),
            ("/a/%2e%2E/b", "b"),
            ("/a%20b", "a b"),
            ("/...", "..."),
            ("/..a/b..", "..a/b.."),
            ("/a\\..\\b", "a\\..\\b"),
            ("/%5c..%5c", "\\..\\"),
            ("/%252e%252e/", "%2e%2e/"),
            ("/?", "/"),
        ];
        for (text, expected) in cases {
            assert_eq!(path(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn absolute_form_is_a_path_too() {
        for text in ["http://host", "HTTPS://host:1", "http://[::1]:1/", "http://h?q"] {
            assert_eq!(path(text).as_deref(), Ok("/"), "{text}");
        }
        assert_eq!(path("http://host/a/b").as_deref(), Ok("a/b"));
        assert_eq!(path("http://evil//a").as_deref(), Ok("a"));
    }

    #[test]
    fn what_climbs_is_outside() {
        for text in [
            "/..",
            "/../etc/passwd",
            "/a/../../b",
            "/%2e%2e/b",
            "/.%2e/",
            "/./..",
            "//..",
            "http://host/..",
        ] {
            assert_eq!(path(text), Err(TargetFault::Outside), "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_malformed() {
        for text in [
            "",
            "*",
            "a",
            "host:443",
            "/%",
            "/%0",
            "/%zz",
            "/%00",
            "/a%00.html",
            "/a#b",
            "ftp://host/a",
            "http://",
            "http:///a",
            "http://:80/a",
            "http://a:99999/",
            "http://a@b/c",
            "http://a b/",
            "http:/a",
        ] {
            let fault = path(text);
            assert!(matches!(fault, Err(TargetFault::Malformed(_))), "{text}: {fault:?}");
        }
    }

    #[test]
    fn an_encoded_slash_is_in_no_name() {
        for text in ["/a%2fb", "/%2F", "/..%2f..%2fetc/passwd", "/%2e%2e%2f"] {
            assert_eq!(path(text), Err(TargetFault::Impossible), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_bytes() {
        let target = RequestTarget::read(b"/%c0%ae%c0%ae/\xe4").expect("a target");
        assert_eq!(target.path, b"\xc0\xae\xc0\xae/\xe4");
    }

    #[test]
    fn dots_hide_at_any_depth() {
        let hidden =
            |text: &str| RequestTarget::read(text.as_bytes()).expect("a target").is_hidden();
        assert!(hidden("/.git/config") && hidden("/a/.htaccess") && hidden("/%2egit"));
        assert!(hidden("/..."));
        assert!(!hidden("/a.b/c.") && !hidden("/") && !hidden("/.git/../a"));
    }

    #[test]
    fn locations_stay_on_this_server() {
        let cases = [
            ("/a", "/a/"),
            ("/", "/"),
            ("//evil.example/a", "/evil.example/a/"),
            ("/\\evil.example", "/%5Cevil.example/"),
            ("/%0d%0aSet-Cookie:x", "/%0D%0ASet-Cookie%3Ax/"),
            ("/a b?<\u{e4}>\"", "/a%20b/?<%C3%A4>\""),
            ("http://evil.example/a?", "/a/?"),
        ];
        for (text, expected) in cases {
            let location =
                RequestTarget::read(text.as_bytes()).expect("a target").location_of_folder();
            assert_eq!(String::from_utf8_lossy(&location), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn nothing_climbs(text in "/([./%ab\\\\]|%2e|%2f|%5c|%25|\\.\\./){0,40}") {
            if let Ok(target) = RequestTarget::read(text.as_bytes()) {
                check(&target);
            }
        }

        #[test]
        fn any_bytes_are_read(text: Vec<u8>) {
            if let Ok(target) = RequestTarget::read(&text) {
                check(&target);
            }
        }
    }

    fn check(target: &RequestTarget) {
        let names = || target.path.split(|byte| *byte == b'/');
        let whole = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
        assert!(target.path.is_empty() || names().all(whole));
        let location = target.location_of_folder();
        assert!(location.starts_with(b"/") && !location.starts_with(b"//"));
        let again = RequestTarget::read(&location).expect("our own location");
        assert_eq!((&again.path, again.folder), (&target.path, true));
    }
}

#[cfg(test)]
mod percent_tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        decode_percent(text, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn is_decoded_once() {
        assert_eq!(decoded(b"a%2Fb%2f%2541%00+"), Some(b"a/b/%41\0+".to_vec()));
        assert_eq!(decoded(b"\xe4%c0%af"), Some(b"\xe4\xc0\xaf".to_vec()));
    }

    #[test]
    fn needs_two_digits() {
        for text in [&b"%"[..], b"%4", b"a%", b"%zz", b"%+1", b"%4g", b"%%41"] {
            assert_eq!(decoded(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_harmless_and_decoded_again(bytes: Vec<u8>) {
            let mut encoded = Vec::new();
            encode_percent(&bytes, &mut encoded);
            prop_assert!(encoded.iter().all(|b| b.is_ascii_alphanumeric() || b"%-._~".contains(b)));
            prop_assert_eq!(decoded(&encoded), Some(bytes));
        }
    }
}
