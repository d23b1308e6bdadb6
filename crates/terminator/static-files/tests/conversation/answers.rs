//! Tests connections that persist, content that is dropped, refusals and ends.

use static_files::options::{Options, Redirect};
use static_files::questions::FileLookup;

use crate::client::{Reply, replies};
use crate::tree::{ClientView, End, Ends, Node, TestPace, Tree, modified};

fn tree() -> Tree {
    let mut tree = Tree::of(&[("a.txt", "alpha"), ("b.txt", "beta!!"), ("empty", "")]);
    tree.put("secret", Node::Fault(FileLookup::Forbidden));
    tree.put("busy", Node::Fault(FileLookup::Busy));
    tree.put("broken", Node::Fault(FileLookup::Failed));
    tree
}

fn hear(requests: &str) -> ClientView {
    tree().hear(&Options::default(), requests)
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn a_file_is_answered_word_by_word() {
    let heard = hear(&get("/a.txt"));
    let expected = "HTTP/1.1 200 OK\r\n\
        Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
        Accept-Ranges: bytes\r\n\
        Vary: Accept-Encoding\r\n\
        ETag: \"TAG\"\r\n\
        Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
        X-Content-Type-Options: nosniff\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\
        Content-Length: 5\r\n\
        \r\n\
        alpha";
    let text = String::from_utf8(heard.bytes).expect("text");
    let (before, tag) = text.split_once("ETag: \"").expect("a tag");
    let (tag, after) = tag.split_once('"').expect("its end");
    assert!(tag.len() > 10, "{tag}");
    assert_eq!(format!("{before}ETag: \"TAG\"{after}"), expected);
    assert_eq!((heard.end, heard.started), (End::Open, vec![200]));
}

/// Returns the status, the location, and whether the connection persists.
fn redirected(requests: &str) -> Vec<(u16, Option<String>, bool)> {
    let options = Options { redirect: Some(Redirect { port: 8443 }), ..Options::default() };
    let mut tree = tree();
    tree.put(".well-known/acme-challenge/t0", Node::File(b"proof".to_vec(), modified()));
    let heard = tree.hear(&options, requests);
    let methods = requests.lines().filter(|line| line.contains(" HTTP/"));
    let replies =
        replies(&heard.bytes, methods.map(|line| line.split(' ').next().expect("a method")));
    let told = |reply: &Reply| {
        let location = reply.field("Location").map(str::to_owned);
        (reply.status, location, reply.field("Connection").is_none())
    };
    replies.iter().map(told).collect()
}

#[test]
fn requests_are_redirected_but_for_challenges() {
    let to = |target: &str| Some(format!("https://a:8443{target}"));
    let chunks = |size: usize| {
        let content = "x".repeat(size);
        format!("Transfer-Encoding: chunked\r\n\r\n{size:x}\r\n{content}\r\n0\r\n")
    };
    let (few, many) = (chunks(1), chunks(70_000));
    for (line, fields, expected) in [
        ("GET /a.txt", "", (301, to("/a.txt"), true)),
        ("HEAD /?b=%2F", "", (301, to("/?b=%2F"), true)),
        ("GET http://a/x", "", (301, to("/x"), true)),
        ("POST /a", "Content-Length: 4\r\n\r\nab", (308, to("/a"), true)),
        ("POST /a", "Content-Length: 99999999\r\n", (308, to("/a"), false)),
        ("PUT /a", "Expect: 100-continue\r\nContent-Length: 3\r\n", (308, to("/a"), false)),
        ("PUT /a", &few, (308, to("/a"), true)),
        ("PUT /a", &many, (308, to("/a"), false)),
        ("PUT /a", "Transfer-Encoding: chunked\r\n\r\nx\r\n", (400, None, false)),
        ("HEAD /..", "", (400, None, false)),
        ("BREW /a", "", (308, to("/a"), true)),
        ("GET /.well-known/acme-challenge/t0", "", (200, None, true)),
        ("GET /%2ewell-known//acme-challenge/t0", "", (200, None, true)),
        (
            "GET /.well-known/acme-challenge/t1",
            "",
            (301, to("/.well-known/acme-challenge/t1"), true),
        ),
        ("GET /a", "Host: b\r\n", (400, None, false)),
        ("GET http://b/", "", (400, None, false)),
        ("GET //../a", "", (400, None, false)),
        ("OPTIONS *", "", (400, None, false)),
        ("CONNECT a:443", "", (400, None, false)),
        ("PRI * HTTP/2.0\r\n\r\nSM", "", (505, None, false)),
    ] {
        let requests = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        assert_eq!(redirected(&requests), [expected], "{line} {fields}");
    }
    assert_eq!(redirected("GET / HTTP/1.0\r\n\r\n"), [(400, None, false)]);
    let twice = get("/a") + &get("/b");
    let expected = ["/a", "/b"].map(|target| (301, to(target), true));
    assert_eq!(redirected(&twice), expected);
}

#[test]
fn an_authority_is_answered_before_files_and_redirects() {
    let of = |text: &str| text.to_owned();
    for redirect in [None, Some(Redirect { port: 443 })] {
        let options = Options { redirect, ..Options::default() };
        options.challenges.set([(of("t0"), of("t0.thumb"))]);
        let ask = |token: &str| {
            let target = format!("/.well-known/acme-challenge/{token}");
            let heard = tree().hear(&options, get(&target));
            replies(&heard.bytes, ["GET"]).remove(0)
        };
        assert_eq!((ask("t0").status, &*ask("t0").body), (200, &b"t0.thumb"[..]));
        assert_ne!(ask("t1").status, 200);
        options.challenges.set([]);
        assert_ne!(ask("t0").status, 200);
    }
}

#[test]
fn a_head_is_that_of_the_answer() {
    for target in ["/a.txt", "/empty", "/missing", "/busy"] {
        let get = hear(&get(target)).bytes;
        let head = hear(&format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n")).bytes;
        assert!(get.starts_with(&head) && head.ends_with(b"\r\n\r\n"), "{target}");
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let requests = [get("/a.txt"), get("/missing"), get("/empty"), get("/b.txt")].concat();
    let heard = hear(&requests);
    let replies = replies(&heard.bytes, ["GET"; 4]);
    let told: Vec<_> = replies.iter().map(|reply| (reply.status, reply.text())).collect();
    let missing = (404, "404 Not Found\n");
    assert_eq!(told, [(200, "alpha"), missing, (200, ""), (200, "beta!!")]);
    assert_eq!(heard.end, End::Open);
    assert_eq!(heard.started, [200, 404, 200, 200]);
}

#[test]
fn connections_end_when_they_should() {
    let cases = [
        ("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n", None),
        ("GET /a.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", Some("close")),
        ("GET /a.txt HTTP/1.0\r\n\r\n", Some("close")),
        ("GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive")),
        ("GET /missing HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Some("keep-alive")),
    ];
    for (request, said) in cases {
        let heard = hear(&request.repeat(2));
        let replies = replies(&heard.bytes, ["GET", "GET"]);
        assert_eq!(replies[0].field("Connection"), said, "{request}");
        let ends = said == Some("close");
        assert_eq!(replies.len(), if ends { 1 } else { 2 }, "{request}");
        assert_eq!(heard.end == End::Proper, ends, "{request}");
    }
}

#[test]
fn what_was_asked_is_answered_after_the_clients_end() {
    let half = "GET /b.txt HTTP/1.1\r\nHost";
    let waiting = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabc";
    for after in ["", half, waiting] {
        for ends in [Ends::AtOnce, Ends::Late] {
            let pieces = vec![usize::MAX];
            let requests = [get("/a.txt"), get("/b.txt"), after.to_owned()].concat();
            let pace = TestPace { pieces, ends };
            let heard = tree().hear_at(&Options::default(), requests.as_bytes(), &pace);
            assert_eq!(replies(&heard.bytes, ["GET", "GET"]).len(), 2, "{after}");
            assert_eq!(heard.end, End::Proper);
        }
    }
}

#[test]
fn refusals_keep_the_connection_if_they_can() {
    let long = format!("/{}", "a".repeat(300));
    let cases = [
        ("GET /missing", 404),
        ("GET /a.txt/", 404),
        ("GET /a.txt/x", 404),
        ("GET /a%2ftxt", 404),
        ("GET /.hidden", 404),
        ("GET /x/.git/config", 404),
        (&format!("GET {long}"), 404),
        ("GET /secret", 403),
        ("GET /", 403),
        ("GET /busy", 503),
        ("GET /broken", 500),
        ("POST /a.txt", 405),
        ("PUT /a.txt", 405),
        ("DELETE /a.txt", 405),
        ("OPTIONS *", 405),
        ("TRACE /", 405),
        ("BREW /a.txt", 501),
        ("get /a.txt", 501),
    ];
    for (line, status) in cases {
        let request = format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n{}", get("/a.txt"));
        let heard = hear(&request);
        let replies = replies(&heard.bytes, ["", "GET"]);
        assert_eq!(replies[0].status, status, "{line}");
        assert_eq!(replies[0].field("Connection"), None, "{line}");
        let allow = (status == 405).then_some("GET, HEAD");
        assert_eq!(replies[0].field("Allow"), allow, "{line}");
        assert_eq!(replies[1].text(), "alpha", "{line}");
    }
}

#[test]
fn what_is_no_request_ends_the_connection() {
    let cases = [
        ("GET / HTTP/1.1\r\n\r\n", 400),
        ("GET / HTTP/1.1\nHost: a\n\n", 400),
        ("GET /../a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("GET /a%00 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", 413),
        ("POST / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", 417),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
        ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("\u{16}\u{3}\u{1}\r\n\r\n", 400),
    ];
    for (request, status) in cases {
        let heard = hear(&format!("{request}{}", get("/a.txt")));
        let replies = replies(&heard.bytes, ["GET"]);
        assert_eq!(replies.len(), 1, "{request}");
        assert_eq!(replies[0].status, status, "{request}");
        assert_eq!(replies[0].field("Connection"), Some("close"), "{request}");
        assert_eq!(replies[0].field("Content-Type"), Some("text/plain; charset=utf-8"));
        assert_eq!((heard.end, heard.started), (End::Proper, vec![status]), "{request}");
    }
}

#[test]
fn a_refusal_of_head_has_no_content() {
    let long = format!("HEAD /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(4096));
    let endless = format!("HEAD / HTTP/1.1\r\nHost: a\r\nA: {}", "a".repeat(9000));
    for (request, status) in [
        ("HEAD /../x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("HEAD /%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        ("HEAD / HTTP/1.1\r\n\r\n", 400),
        ("HEAD / HTTP/1.1\nHost: a\r\n\r\n", 400),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nExpect: foo\r\n\r\n", 417),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999\r\n\r\n", 413),
        ("HEAD / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        ("HEAD / HTTP/3.0\r\nHost: a\r\n\r\n", 505),
        (&long, 414),
        (&endless, 431),
    ] {
        let heard = hear(request);
        let text = String::from_utf8(heard.bytes).unwrap();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {text}");
        assert!(text.ends_with("\r\n\r\n"), "{request}: {text}");
        assert_eq!(heard.end, End::Proper, "{request}");
    }
}

#[test]
fn chunks_are_read_and_dropped() {
    let head = "Host: a\r\nTransfer-Encoding: chunked\r\n";
    // 65536 bytes with their framing, and one more.
    let most = format!("fff3\r\n{}\r\n0\r\n\r\n", "x".repeat(0xfff3));
    let more = format!("fff4\r\n{}\r\n0\r\n\r\n", "x".repeat(0xfff4));
    for (chunks, expected) in [
        ("0\r\n\r\n", Some("alpha")),
        ("3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nT: x\r\n\r\n", Some("alpha")),
        (&most, Some("alpha")),
        (&more, None),
    ] {
        for fields in ["", "Expect: 100-continue\r\n"] {
            let first = format!("GET /b.txt HTTP/1.1\r\n{head}{fields}\r\n{chunks}");
            let heard = hear(&[&first, &get("/a.txt")].map(String::as_str).concat());
            let replies = replies(&heard.bytes, ["GET", "GET"]);
            let replies: Vec<_> = replies.iter().filter(|reply| reply.status >= 200).collect();
            let told: Vec<_> = replies.iter().map(|reply| (reply.status, reply.text())).collect();
            match expected {
                Some(next) => assert_eq!(told, [(200, "beta!!"), (200, next)], "{chunks:.9}"),
                None => assert_eq!((told.len(), told[0].0), (1, 413), "{chunks:.9}"),
            }
        }
    }
}

#[test]
fn a_later_minor_version_is_taken_for_the_one_that_is_known() {
    let later = get("/a.txt").replace("HTTP/1.1", "HTTP/1.2");
    let heard = hear(&(later + &get("/b.txt")));
    let replies = replies(&heard.bytes, ["GET", "GET"]);
    assert_eq!((replies[0].text(), replies[1].text()), ("alpha", "beta!!"));
}

#[test]
fn an_empty_line_before_a_request_is_passed_over() {
    let heard = hear(&format!("\r\n{}\r\n{}", get("/a.txt"), get("/b.txt")));
    let replies = replies(&heard.bytes, ["GET", "GET"]);
    assert_eq!((replies[0].text(), replies[1].text()), ("alpha", "beta!!"));
}

#[test]
fn content_is_read_and_dropped() {
    for length in [1, 5, 65536] {
        let content = "GET /b.txt HTTP/1.1\r\n\r\n".repeat(3000)[..length].to_owned();
        let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
        let heard = hear(&[&post, &content, &get("/a.txt")].map(String::as_str).concat());
        let replies = replies(&heard.bytes, ["POST", "GET"]);
        assert_eq!((replies[0].status, replies[1].text()), (405, "alpha"), "{length}");
    }
}

#[test]
fn content_is_invited_if_the_client_waits() {
    let request = "GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\
        Expect: 100-continue\r\n\r\nabc";
    let heard = hear(&format!("{request}{}", get("/b.txt")));
    let replies = replies(&heard.bytes, ["GET", "GET"]);
    let told: Vec<_> = replies.iter().map(|reply| (reply.status, reply.text())).collect();
    assert_eq!(told, [(100, ""), (200, "alpha"), (200, "beta!!")]);
    assert_eq!(heard.started, [200, 200]);
}
