//! Heads, hosts and content of messages.

use super::*;

const BYTES_MAX: usize = 16 * 1024;

fn with_head<T>(text: &str, read: impl FnOnce(&RequestHead<'_>) -> T) -> Result<T, HeadFault> {
    let head = RequestHead::parse(text.as_bytes(), BYTES_MAX, |_, _| {})?;
    let head = head.expect("a complete head");
    assert_eq!(head.bytes, text.len());
    Ok(read(&head))
}

fn request<T>(
    line: &str,
    fields: &str,
    read: impl FnOnce(&RequestHead<'_>) -> T,
) -> Result<T, HeadFault> {
    let fields = fields.split('\n').filter(|field| !field.is_empty());
    let lines: String = fields.map(|field| format!("{field}\r\n")).collect();
    with_head(&format!("{line}\r\n{lines}\r\n"), read)
}

fn response(text: &str, to_head: bool) -> Result<(ContentEnd, bool), HeadFault> {
    let text = text.replace('\n', "\r\n") + "\r\n\r\n";
    let head = ResponseHead::parse(text.as_bytes(), BYTES_MAX, to_head)?;
    let head = head.expect("a complete head");
    Ok((head.content, head.keeps_alive))
}

#[test]
fn a_request_is_read_when_it_is_complete() {
    let text = b"PUT /a?b HTTP/1.1\r\nHost: a:80\r\nA:  b \r\nContent-Length: 7\r\n\r\nGET";
    let end = text.len() - 3;
    for length in 0..end {
        let part = RequestHead::parse(&text[..length], BYTES_MAX, |_, _| {});
        assert_eq!(part, Ok(None), "{length}");
    }
    let mut other = Vec::new();
    let head = RequestHead::parse(text, BYTES_MAX, |name, value| other.push((name, value)));
    let expected = RequestHead {
        bytes: end,
        method: "PUT",
        target: "/a?b",
        is_http10: false,
        host: Some(b"a:80"),
        content: ContentEnd::Length(7),
        keeps_alive: true,
        expects_continue: false,
    };
    assert_eq!(head, Ok(Some(expected)));
    assert_eq!(other, [("A", &b"b"[..])]);
}

#[test]
fn connections_persist_as_the_version_has_it() {
    let cases = [
        ("HTTP/1.1", "", true),
        ("HTTP/1.1", "Connection: close", false),
        ("HTTP/1.1", "Connection: x, CLOSE", false),
        ("HTTP/1.1", "Connection: keep-alive\nConnection: close", false),
        ("HTTP/1.0", "", false),
        ("HTTP/1.0", "connection: Keep-Alive", true),
        ("HTTP/1.0", "Connection: keep-alive, close", false),
    ];
    for (version, fields, expected) in cases {
        let all = format!("Host: a\nContent-Length: 0\n{fields}");
        let line = format!("GET / {version}");
        assert_eq!(request(&line, &all, |head| head.keeps_alive), Ok(expected));
        let text = format!("{version} 200 OK\n{}", all.trim_end());
        assert_eq!(response(&text, false), Ok((ContentEnd::Length(0), expected)));
    }
}

#[test]
fn a_response_of_a_later_minor_version_counts_as_one_that_is_known() {
    let text = "HTTP/1.2 200 OK\nContent-Length: 7";
    assert_eq!(response(text, false), Ok((ContentEnd::Length(7), true)));
    for major in ["2.1", "0.9", "1.x"] {
        let text = format!("HTTP/{major} 200 OK\nContent-Length: 7");
        assert!(response(&text, false).is_err(), "{major}");
    }
}

#[test]
fn a_folded_line_of_a_response_counts_as_spaces() {
    let folded = "HTTP/1.1 200 OK\nContent-Length:\n 7\nA: b\n\tc\nConnection: x,\n close";
    assert_eq!(response(folded, false), Ok((ContentEnd::Length(7), false)));
    let faulty = response("HTTP/1.1 200 OK\n A: b", false);
    assert!(matches!(faulty, Err(HeadFault::Malformed(_))), "{faulty:?}");
    let length = "HTTP/1.1 200 OK\nContent-Length: 1\n 2";
    assert_eq!(response(length, false), Err(HeadFault::Length));
}

#[test]
fn requests_are_framed_in_one_way() {
    let malformed = [
        "Content-Length: 3\nContent-Length: 3",
        "Content-Length: 0\nContent-Length: 44",
        "Content-Length: 3, 3",
        "Content-Length: 0, 44",
        "Content-Length: -1",
        "Content-Length: +3",
        "Content-Length: 3,",
        "Content-Length: 0x3",
        "Content-Length:",
        "Content-Length : 3",
        " Content-Length: 3",
        "Transfer-Encoding : chunked",
        "Content-Length: 7\nTransfer-Encoding: chunked",
        "Host: b",
        "A: b\n c",
        "A: b\rc",
        "A: b\0c",
        "A",
        ": b",
        "A b: c",
    ];
    for fields in malformed {
        let fault = request("POST / HTTP/1.1", &format!("Host: a\n{fields}"), |_| ());
        assert!(matches!(fault, Err(HeadFault::Malformed(_))), "{fields:?}: {fault:?}");
    }
    let huge = "Content-Length: 99999999999999999999";
    let cases = [
        ("", Ok(ContentEnd::Length(0))),
        ("Content-Length: 7", Ok(ContentEnd::Length(7))),
        (huge, Ok(ContentEnd::Length(u64::MAX))),
        ("Transfer-Encoding: Chunked", Ok(ContentEnd::Chunked)),
        ("Transfer-Encoding: identity", Err(HeadFault::TransferCoding)),
        ("Transfer-Encoding: gzip, chunked", Err(HeadFault::TransferCoding)),
        ("Transfer-Encoding: chunked\nTransfer-Encoding: chunked", Err(HeadFault::TransferCoding)),
    ];
    for (fields, expected) in cases {
        let fields = format!("Host: a\n{fields}");
        let found = request("POST / HTTP/1.1", &fields, |head| head.content);
        assert_eq!(found, expected, "{fields}");
    }
    let old = request("POST / HTTP/1.0", "Transfer-Encoding: chunked", |_| ());
    assert!(matches!(old, Err(HeadFault::Malformed(_))));
}

#[test]
fn responses_end_as_they_say() {
    let chunked = "\nContent-Length: 5\nTransfer-Encoding: gzip, chunked";
    let cases = [
        ("200 OK", "\nContent-Length: 5", ContentEnd::Length(5), true),
        ("200 OK", chunked, ContentEnd::Chunked, true),
        ("200 OK", "\nTransfer-Encoding: gzip", ContentEnd::Close, false),
        ("200 OK", "", ContentEnd::Close, false),
        ("200", "\nContent-Length: 6, 6", ContentEnd::Length(6), true),
        ("200 ", "\nContent-Length: 6\nContent-Length: 6", ContentEnd::Length(6), true),
        ("200 OK", "\nContent-Length: x\nTransfer-Encoding: chunked", ContentEnd::Chunked, true),
        ("204 No Content", "\nContent-Length: x", ContentEnd::Length(0), true),
        ("304 Not Modified", "\nContent-Length: 9", ContentEnd::Length(0), true),
        ("100 Continue", "", ContentEnd::Length(0), true),
    ];
    for (status, fields, content, keeps_alive) in cases {
        let text = format!("HTTP/1.1 {status}{fields}");
        assert_eq!(response(&text, false), Ok((content, keeps_alive)), "{text}");
        assert_eq!(response(&text, true), Ok((ContentEnd::Length(0), true)), "{text}");
    }
    for length in ["1\nContent-Length: 2", "1, 2", "6, x", "", ",", "+1", "-1", "0x1", "1 1", "x"] {
        let text = format!("HTTP/1.1 200 OK\nContent-Length: {length}");
        assert_eq!(response(&text, false), Err(HeadFault::Length), "{length}");
        assert!(response(&text, true).is_ok(), "{length}");
    }
    let old = "HTTP/1.0 200 OK\nConnection: keep-alive\nTransfer-Encoding: chunked";
    assert_eq!(response(old, false), Ok((ContentEnd::Chunked, false)));
    let ssh = ResponseHead::parse(b"SSH-2.0-OpenSSH_9.2\r\n", BYTES_MAX, false);
    assert!(matches!(ssh, Err(HeadFault::Malformed(_))));
}

#[test]
fn expectations_are_met_or_refused() {
    let cases = [
        ("HTTP/1.1", "100-Continue", Ok(true)),
        ("HTTP/1.0", "100-continue", Ok(false)),
        ("HTTP/1.1", "a-pony", Err(HeadFault::Expectation)),
        ("HTTP/1.0", "a-pony", Ok(false)),
    ];
    for (version, expectation, expected) in cases {
        let fields = format!("Host: a\nExpect: {expectation}");
        let found = request(&format!("PUT / {version}"), &fields, |head| head.expects_continue);
        assert_eq!(found, expected, "{version} {expectation}");
    }
}

#[test]
fn bytes_that_are_no_request_are_refused() {
    let version = Err(HeadFault::Version);
    assert_eq!(request("PRI * HTTP/2.0", "", |_| ()), version);
    assert_eq!(request("GET / HTTP/0.9", "Host: a", |_| ()), version);
    let lines = [
        "hello",
        "GET / HTTP/1.1",
        "GET  / HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /",
        "GET / HTTP/x.1",
        "GET / http/1.1",
        "G(T / HTTP/1.1",
        "\x16\x03\x01\x02\0\x01",
    ];
    for line in lines {
        let fault = request(line, "", |_| ());
        assert!(matches!(fault, Err(HeadFault::Malformed(_))), "{line:?}: {fault:?}");
    }
    assert_eq!(request("GET / HTTP/1.0", "", |_| ()), Ok(()));
}

#[test]
fn a_later_minor_version_counts_as_the_one_that_is_known() {
    let text = "\r\nPOST /x HTTP/1.2\r\nHost: a\r\nA: b\r\nContent-Length: 7\r\n\r\n";
    let mut others = Vec::new();
    let mut parse = |bytes: &'static str| {
        let keep = |name, value: &[u8]| others.push((name, value.to_vec()));
        RequestHead::parse(bytes.as_bytes(), BYTES_MAX, keep)
    };
    let cut = (10..text.len()).find(|end| parse(&text[..*end]) != Ok(None));
    assert_eq!(cut, None);
    let head = parse(text).unwrap().unwrap();
    assert_eq!((head.bytes, head.method, head.target), (text.len(), "POST", "/x"));
    assert_eq!((head.is_http10, head.keeps_alive), (false, true));
    assert_eq!(head.content, ContentEnd::Length(7));
    assert_eq!(others, [("A", b"b".to_vec())]);
    let fields = |count: usize| format!("Host: a{}", "\nA: b".repeat(count - 1));
    let with = |count| request("GET / HTTP/1.9", &fields(count), |_| ());
    assert_eq!(with(FIELDS_MAX), Ok(()));
    assert_eq!(with(FIELDS_MAX + 1), Err(HeadFault::TooLarge));
    for line in ["GET / HTTP/1.2x", "GET / HTTP/1.x", "GET / HTTP/1.22"] {
        let fault = request(line, "Host: a", |_| ());
        assert!(matches!(fault, Err(HeadFault::Malformed(_))), "{line}: {fault:?}");
    }
}

#[test]
fn heads_have_limits() {
    let fields = |count: usize| format!("Host: a{}", "\nA: b".repeat(count - 1));
    let with = |count| request("GET / HTTP/1.1", &fields(count), |_| ());
    assert_eq!(with(FIELDS_MAX), Ok(()));
    assert_eq!(with(FIELDS_MAX + 1), Err(HeadFault::TooLarge));
    let mut long = b"GET / HTTP/1.1\r\nHost: a\r\nA: ".to_vec();
    long.resize(BYTES_MAX - 1, b'x');
    let parse = |bytes: &[u8]| RequestHead::parse(bytes, BYTES_MAX, |_, _| {}).map(|_| ());
    assert_eq!(parse(&long), Ok(()));
    for more in ["x", "\r\n\r\n"] {
        long.extend(more.as_bytes());
        assert_eq!(parse(&long), Err(HeadFault::TooLarge));
    }
}

#[test]
fn a_status_code_is_read_as_soon_as_it_is_there() {
    let whole = b"HTTP/1.1 204 No Content\r\n";
    for length in 0..whole.len() {
        let expected = (length > CODE_END).then_some(204);
        assert_eq!(status_code(&whole[..length]), Ok(expected), "{length}");
    }
    assert_eq!(status_code(b"HTTP/1.0 503\r\nA: b\r\n"), Ok(Some(503)));
    assert_eq!(status_code(b"HTTP/1.2 503\r\nA: b\r\n"), Ok(Some(503)));
    for other in ["S", "SSH-2.0", "HTTP/2", "HTTP/1.1 2x0 OK", "HTTP/1.1 2000 "] {
        assert!(status_code(other.as_bytes()).is_err(), "{other}");
    }
}

#[test]
fn a_host_may_have_a_port() {
    for (text, host, port) in [
        ("a.example", "a.example", None),
        ("a_b:80", "a_b", Some(80)),
        ("a:", "a", None),
        ("a%20b!:65535", "a%20b!", Some(65535)),
        ("1.2.3.4:00080", "1.2.3.4", Some(80)),
        ("[::1]", "[::1]", None),
        ("[2001:db8::1]:443", "[2001:db8::1]", Some(443)),
    ] {
        assert_eq!(host_and_port(text.as_bytes()), Some((host, port)), "{text}");
    }
}

#[test]
fn what_is_more_or_less_is_no_authority() {
    for text in [
        "",
        ":80",
        "a:65536",
        "1.2.3.4:99999",
        "a:+80",
        "a:-1",
        "a:8 0",
        "a: 80",
        "a :80",
        "a:80:80",
        "::1",
        "[::1",
        "::1]",
        "[::1]x",
        "[::1]80",
        "[]",
        "[v1.a]",
        "[::1%25lo]",
        "[127.0.0.1]",
        "a@b",
        "a:b@c",
        "@a",
        "a/b",
        "a?b",
        "a#b",
        "a\\b",
        "a b",
        "a%",
        "a%2",
        "a%zz",
        "a%+1",
        "a\0",
        "a\"b",
        "<a>",
        "\u{e4}",
    ] {
        assert_eq!(host_and_port(text.as_bytes()), None, "{text:?}");
    }
    assert_eq!(host_and_port(b"a\xff"), None);
}

/// Returns the bytes with framing, and without it, if the content is complete.
fn read(end: ContentEnd, bytes: &[u8]) -> Result<Option<(usize, u64)>, ContentFault> {
    let mut whole = Content::new(end);
    let used = whole.read(bytes)?;
    let mut pieces = Content::new(end);
    let by_bytes = bytes.iter().map(|byte| pieces.read(&[*byte])).sum();
    assert_eq!((Ok(used), whole), (by_bytes, pieces), "{bytes:?}");
    Ok(whole.is_done().then_some((used, whole.bytes())))
}

fn chunked(text: &str) -> Result<Option<(usize, u64)>, ContentFault> {
    read(ContentEnd::Chunked, text.as_bytes())
}

#[test]
fn a_length_ends_content() {
    assert_eq!(read(ContentEnd::Length(0), b"GET"), Ok(Some((0, 0))));
    assert_eq!(read(ContentEnd::Length(5), b"helloGET"), Ok(Some((5, 5))));
    assert_eq!(read(ContentEnd::Length(9), b"hello"), Ok(None));
    assert_eq!(read(ContentEnd::Close, b"hello"), Ok(None));
    let mut content = Content::new(ContentEnd::Close);
    assert_eq!((content.read(b"hello"), content.bytes()), (Ok(5), 5));
    assert!(content.may_end_by_close());
}

#[test]
fn chunks_end_content() {
    assert_eq!(chunked("0\r\n\r\nGET"), Ok(Some((5, 0))));
    assert_eq!(chunked("5\r\nhello\r\n0\r\n\r\nGET"), Ok(Some((15, 5))));
    let long = format!("A;x=y\r\n{}\r\n00\r\nT: 1\r\nU: 2\r\n\r\n", "x".repeat(10));
    assert_eq!(chunked(&long), Ok(Some((long.len(), 10))));
    assert_eq!(chunked("5\r\nhel"), Ok(None));
    assert_eq!(chunked("ffffffffffffffff\r\nx"), Ok(None));
}

#[test]
fn other_bytes_are_refused() {
    let extension = format!("5;{}", "x".repeat(EXTRA_BYTES_MAX.into()));
    let trailers = format!("0\r\n{}", "T: 1\r\n".repeat(3000));
    for text in [
        "\r\n",
        "x\r\n",
        "-1\r\n",
        "5\nhello",
        "5\r\nhelloX",
        "5\r\nhello\n",
        "00000000000000001\r\n",
        "5;a\nhello",
        &extension,
        &trailers,
    ] {
        assert_eq!(chunked(text), Err(ContentFault), "{text:?}");
    }
}
