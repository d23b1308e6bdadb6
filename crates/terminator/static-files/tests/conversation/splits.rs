//! Tests with random input that the same output is sent however the input is split.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use static_files::options::Options;

use crate::client::replies;
use crate::tree::{Ends, TestPace, Tree};

fn tree() -> Tree {
    Tree::of(&[
        ("a.txt", "0123456789"),
        ("a.txt.gz", "gzipped"),
        ("b/index.html", "<p>b</p>"),
        ("b/c/d", &"d".repeat(5000)),
        ("empty", ""),
        (".hidden", "no"),
    ])
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>()).prop_map(|(hidden, precompressed)| Options {
        hidden,
        precompressed,
        ..Options::default()
    })
}

/// Generates whole requests with valid framing: a method and the text.
fn request() -> impl Strategy<Value = (&'static str, String)> {
    let methods = select(vec!["GET", "GET", "GET", "HEAD", "POST", "BREW"]);
    let targets = select(vec![
        "/a.txt", "/b", "/b/", "/b/c/", "/b/c/d", "/empty", "/.hidden", "/x", "/a%2f", "//b?q",
    ]);
    let fields = select(vec![
        "",
        "Range: bytes=1-3\r\n",
        "Range: bytes=0-0,2-3,-1\r\n",
        "Range: bytes=2-,0-0\r\nAccept-Encoding: gzip\r\n",
        "Range: bytes=99999-\r\n",
        "Accept-Encoding: gzip\r\n",
        "If-None-Match: *\r\n",
        "If-Match: \"x\"\r\n",
        "Content-Length: 4\r\n",
        "Content-Length: 4\r\nExpect: 100-continue\r\n",
    ]);
    (methods, targets, fields).prop_map(|(method, target, fields)| {
        let content = if fields.contains("Length") { "\r\n\r\n" } else { "" };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        (method, head + content)
    })
}

/// Generates pieces of requests, in any order.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![
        "GET ",
        "HEAD ",
        "/",
        "/b",
        "/a.txt",
        "%2e%2e",
        "..",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "Host: a\r\n",
        "Connection: close\r\n",
        "Range: bytes=",
        "0-1",
        ",",
        "Content-Length: ",
        "3",
        "Transfer-Encoding: chunked\r\n",
        "\r\n",
        "\r\n\r\n",
        "\n",
        "\r",
        "\0",
        " ",
        ":",
        "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n",
        "Expect: 100-continue\r\n",
    ]);
    prop_oneof![
        9 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..20),
        1 => (any::<u8>(), 1..9000_usize).prop_map(|(byte, count)| vec![byte; count]),
    ]
}

fn pace() -> impl Strategy<Value = TestPace> {
    let piece = prop_oneof![1..4_usize, 1..200_usize, 1..10_000_usize];
    let ends = select(vec![Ends::Never, Ends::Late]);
    (vec(piece, 1..6), ends).prop_map(|(pieces, ends)| TestPace { pieces, ends })
}

fn at_once(ends: Ends) -> TestPace {
    TestPace { pieces: vec![usize::MAX], ends }
}

proptest! {
    #[test]
    fn every_request_has_its_reply(requests in vec(request(), 1..8), options in options()) {
        let bytes: String = requests.iter().map(|(_, text)| text.as_str()).collect();
        let heard = tree().hear(&options, &bytes);
        let replies = replies(&heard.bytes, requests.iter().map(|(method, _)| *method));
        let statuses = replies.iter().map(|reply| reply.status);
        let last: Vec<u16> = statuses.filter(|status| *status >= 200).collect();
        prop_assert_eq!(last.len(), requests.len());
        prop_assert_eq!(last, heard.started);
    }

    #[test]
    fn replies_do_not_depend_on_the_pace(
        requests in vec(request(), 1..6),
        options in options(),
        pace in pace(),
    ) {
        let bytes: String = requests.iter().map(|(_, text)| text.as_str()).collect();
        let expected = tree().hear_at(&options, bytes.as_bytes(), &at_once(pace.ends));
        prop_assert_eq!(tree().hear_at(&options, bytes.as_bytes(), &pace), expected);
    }

    #[test]
    fn nor_do_refusals(fragments in vec(fragment(), 0..20), options in options(), pace in pace()) {
        let bytes = fragments.concat();
        let expected = tree().hear_at(&options, &bytes, &at_once(pace.ends));
        prop_assert_eq!(tree().hear_at(&options, &bytes, &pace), expected);
    }

    #[test]
    fn any_bytes_are_answered_somehow(bytes: Vec<u8>, options in options(), pace in pace()) {
        let expected = tree().hear_at(&options, &bytes, &at_once(pace.ends));
        prop_assert_eq!(tree().hear_at(&options, &bytes, &pace), expected);
    }
}
