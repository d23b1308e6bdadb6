//! The two lines of HTTP/1.1 (RFC 9112) that a check needs.

/// The bytes of a status line that decide: `HTTP/1.1 200` and what follows the number.
pub(super) const STATUS_BYTES: usize = 13;

/// The answer is no HTTP/1.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct NotHttp;

/// A request for one path, after whose answer the connection ends.
pub(super) fn request(path: &str, host: &str) -> Vec<u8> {
    let agent = concat!("lariat-check/", env!("CARGO_PKG_VERSION"));
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    )
    .into_bytes()
}

/// The status code of an answer, from its first [`STATUS_BYTES`]; `None` while they are fewer.
pub(super) fn status_of(answer: &[u8]) -> Result<Option<u16>, NotHttp> {
    let Some(line) = answer.first_chunk::<STATUS_BYTES>() else {
        return match b"HTTP/1.".starts_with(&answer[..answer.len().min(7)]) {
            true => Ok(None),
            false => Err(NotHttp),
        };
    };
    match *line {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor,
            b' ',
            a,
            b,
            c,
            b' ' | b'\r' | b'\n',
        ] if [minor, a, b, c].iter().all(u8::is_ascii_digit) => Ok(Some(
            [a, b, c]
                .iter()
                .fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0')),
        )),
        _ => Err(NotHttp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_line_is_read_as_soon_as_it_can_be() {
        let whole = b"HTTP/1.1 204 No Content\r\n";
        for length in 0..STATUS_BYTES {
            assert_eq!(status_of(&whole[..length]), Ok(None));
        }
        assert_eq!(status_of(&whole[..STATUS_BYTES]), Ok(Some(204)));
        assert_eq!(status_of(b"HTTP/1.0 503\r\n"), Ok(Some(503)));
    }

    #[test]
    fn what_is_no_status_line_is_refused_at_once() {
        for answer in [
            "S",
            "SSH-2.0-OpenSSH_9.9\r\n",
            "HTTP/2",
            "HTTP/1.1 2x0 OK",
            "HTTP/1.1 2000 ",
        ] {
            assert_eq!(status_of(answer.as_bytes()), Err(NotHttp), "{answer}");
        }
    }

    #[test]
    fn the_request_is_whole() {
        let request = String::from_utf8(request("/health?a=b", "app.example:80")).unwrap();
        assert!(request.starts_with("GET /health?a=b HTTP/1.1\r\nHost: app.example:80\r\n"));
        assert!(request.ends_with("\r\nConnection: close\r\n\r\n"));
    }
}
