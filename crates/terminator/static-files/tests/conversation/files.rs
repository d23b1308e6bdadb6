//! Tests the answers of a tree of files: folders, siblings, parts and conditions.

use std::time::Duration;

use static_files::options::Options;

use crate::client::{Reply, replies};
use crate::tree::{Node, Tree, now};

fn ask_of(tree: &Tree, options: &Options, line: &str, fields: &str) -> Reply {
    let request = format!("{line} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    let heard = tree.hear(options, request);
    let method = line.split(' ').next().expect("a method");
    let replies = replies(&heard.bytes, [method]);
    let [reply] = &replies[..] else {
        panic!("{} replies", replies.len());
    };
    reply.clone()
}

fn ask(tree: &Tree, target: &str, fields: &str) -> Reply {
    ask_of(tree, &Options::default(), &format!("GET {target}"), fields)
}

/// Checks that both addresses of a folder work: one redirects to the other.
#[test]
fn folders_have_an_address_of_their_own() {
    let tree = Tree::of(&[("a b/c/index.html", "c")]);
    let cases = [
        ("/a%20b/c", "/a%20b/c/"),
        ("/a%20b/c?x=1&y", "/a%20b/c/?x=1&y"),
        ("//a%20b", "/a%20b/"),
        ("http://evil.example/a%20b/./c", "/a%20b/c/"),
    ];
    for (target, location) in cases {
        let reply = ask(&tree, target, "");
        assert_eq!((reply.status, reply.field("Location")), (301, Some(location)), "{target}");
        assert_eq!(reply.field("Content-Length"), Some("22"));
    }
    assert_eq!(ask(&tree, "/a%20b/c/", "").text(), "c");
    assert_eq!(ask(&tree, "/a%20b/c/?x", "").text(), "c");
    assert_eq!(ask(&tree, "/a%20b/x/../c/.", "").text(), "c");
}

#[test]
fn index_files_go_by_their_order() {
    let options = Options {
        index: vec!["index.html".to_owned(), "default.txt".to_owned()],
        ..Options::default()
    };
    let tree = Tree::of(&[
        ("index.html", "one"),
        ("default.txt", "two"),
        ("a/default.txt", "two"),
        ("b/index.html/x", "a folder is no index"),
        ("b/default.txt", "two"),
        ("c/other", ""),
    ]);
    let text = |line: &str| ask_of(&tree, &options, line, "").text().to_owned();
    assert_eq!(text("GET /"), "one");
    assert_eq!(text("GET /a/"), "two");
    assert_eq!(text("GET /b/"), "two");
    let html = ask_of(&tree, &options, "GET /", "");
    assert_eq!(html.field("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(ask_of(&tree, &options, "GET /c/", "").status, 403);
    assert_eq!(ask_of(&tree, &options, "GET /d/", "").status, 404);
    assert_eq!(ask_of(&tree, &options, "GET /c/other/", "").status, 404);
}

#[test]
fn hidden_names_are_served_if_asked() {
    let tree = Tree::of(&[(".well-known/x", "known")]);
    assert_eq!(ask(&tree, "/.well-known/x", "").status, 404);
    assert_eq!(ask(&tree, "/%2ewell-known/x", "").status, 404);
    let options = Options { hidden: true, ..Options::default() };
    assert_eq!(ask_of(&tree, &options, "GET /.well-known/x", "").text(), "known");
}

#[test]
fn siblings_go_to_clients_that_take_them() {
    let tree = Tree::of(&[
        ("a.css", "plain"),
        ("a.css.br", "brotli"),
        ("a.css.gz", "gzip"),
        ("b.css", "plain"),
        ("b.css.gz", "gzip"),
        ("index.html", "plain"),
        ("index.html.gz", "gzip"),
    ]);
    let cases = [
        ("/a.css", "", "plain", None),
        ("/a.css", "gzip, br", "brotli", Some("br")),
        ("/a.css", "gzip", "gzip", Some("gzip")),
        ("/a.css", "br;q=0.1, gzip", "gzip", Some("gzip")),
        ("/a.css", "identity, *;q=0", "plain", None),
        ("/b.css", "gzip, br", "gzip", Some("gzip")),
        ("/b.css", "br", "plain", None),
        ("/", "gzip, br", "gzip", Some("gzip")),
    ];
    let original = ask(&tree, "/a.css", "");
    for (target, accepted, text, coding) in cases {
        let reply = ask(&tree, target, &format!("Accept-Encoding: {accepted}\r\n"));
        assert_eq!(reply.text(), text, "{target} {accepted}");
        assert_eq!(reply.field("Content-Encoding"), coding, "{target} {accepted}");
        assert_eq!(reply.field("Vary"), Some("Accept-Encoding"), "{target} {accepted}");
        let media = if target == "/" { "text/html" } else { "text/css" };
        let media = format!("{media}; charset=utf-8");
        assert_eq!(reply.field("Content-Type"), Some(&media[..]), "{target} {accepted}");
        if coding.is_some() {
            assert_ne!(reply.field("ETag"), original.field("ETag"), "{target} {accepted}");
        }
    }
}

#[test]
fn siblings_have_ranges_and_conditions_of_their_own() {
    let tree = Tree::of(&[("a.css", "plain"), ("a.css.gz", "gzipped")]);
    let gzip = "Accept-Encoding: gzip\r\n";
    let tag = ask(&tree, "/a.css", gzip).field("ETag").expect("a tag").to_owned();
    let part = ask(&tree, "/a.css", &format!("{gzip}Range: bytes=-3\r\n"));
    assert_eq!((part.status, part.text()), (206, "ped"));
    assert_eq!(part.field("Content-Encoding"), Some("gzip"));
    let same = ask(&tree, "/a.css", &format!("{gzip}If-None-Match: {tag}\r\n"));
    assert_eq!((same.status, same.field("Vary")), (304, Some("Accept-Encoding")));
    assert_eq!(same.field("ETag"), Some(&tag[..]));
    assert_eq!(ask(&tree, "/a.css", &format!("If-None-Match: {tag}\r\n")).status, 200);
}

#[test]
fn siblings_are_looked_for_where_they_may_be() {
    let tree = Tree::of(&[
        ("a.png", "picture"),
        ("a.png.gz", "never asked for"),
        ("backup/x", ""),
        ("backup.gz", "of another thing"),
        ("c.css", "plain"),
        ("c.css.br/x", "a folder is no sibling"),
        ("d.css.gz", "alone"),
    ]);
    let options = Options::default();
    let both = "Accept-Encoding: gzip, br\r\n";
    let asked = |target: &str, options: &Options, fields: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        tree.hear(options, request).asked
    };
    assert_eq!(asked("/c.css", &options, both), ["c.css", "c.css.br", "c.css.gz"]);
    assert_eq!(ask(&tree, "/c.css", both).text(), "plain");
    assert_eq!(asked("/c.css", &options, ""), ["c.css"]);
    assert_eq!(asked("/a.png", &options, both), ["a.png"]);
    assert_eq!(ask(&tree, "/a.png", both).field("Vary"), None);
    assert_eq!(ask(&tree, "/backup", both).status, 301);
    assert_eq!(ask(&tree, "/d.css", both).status, 404);
    let itself = ask(&tree, "/d.css.gz", both);
    assert_eq!(itself.field("Content-Type"), Some("application/gzip"));
    assert_eq!((itself.field("Content-Encoding"), itself.text()), (None, "alone"));
    let off = Options { precompressed: false, ..options };
    assert_eq!(asked("/c.css", &off, both), ["c.css"]);
    assert_eq!(ask_of(&tree, &off, "GET /c.css", both).field("Vary"), None);
}

#[test]
fn parts_are_given() {
    let tree = Tree::of(&[("a.bin", "0123456789")]);
    let cases = [
        ("bytes=0-4", 206, Some("bytes 0-4/10"), "01234"),
        ("bytes=5-", 206, Some("bytes 5-9/10"), "56789"),
        ("bytes=-2", 206, Some("bytes 8-9/10"), "89"),
        ("bytes=0-99999999999999999999", 206, Some("bytes 0-9/10"), "0123456789"),
        ("bytes=10-", 416, Some("bytes */10"), "416 Range Not Satisfiable\n"),
        ("bytes=3-1", 200, None, "0123456789"),
        ("lines=1-2", 200, None, "0123456789"),
        ("bytes=0-5,3-9", 200, None, "0123456789"),
    ];
    for (range, status, said, text) in cases {
        let reply = ask(&tree, "/a.bin", &format!("Range: {range}\r\n"));
        assert_eq!((reply.status, reply.text()), (status, text), "{range}");
        assert_eq!(reply.field("Content-Range"), said, "{range}");
        assert_eq!(reply.field("Accept-Ranges"), Some("bytes"), "{range}");
    }
    let head = ask_of(&tree, &Options::default(), "HEAD /a.bin", "Range: bytes=0-4\r\n");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("10")));
}

#[test]
fn several_parts_are_one_answer() {
    let tree = Tree::of(&[("a.txt", "0123456789")]);
    let reply = ask(&tree, "/a.txt", "Range: bytes=8-, 0-0,2-4,40-50\r\n");
    assert_eq!((reply.status, reply.field("Content-Range")), (206, None));
    let expected = [("bytes 8-9/10", "89"), ("bytes 0-0/10", "0"), ("bytes 2-4/10", "234")];
    let expected = expected.map(|(range, text)| (range.to_owned(), text.as_bytes().to_vec()));
    assert_eq!(reply.parts(), expected);
    assert!(reply.text().contains("\r\nContent-Type: text/plain; charset=utf-8\r\n"));
    let head = ask_of(&tree, &Options::default(), "HEAD /a.txt", "Range: bytes=0-1,3-4\r\n");
    assert_eq!((head.status, head.field("Content-Length")), (200, Some("10")));
}

#[test]
fn parts_are_of_the_version_that_is_meant() {
    let mut tree = Tree::of(&[("a.bin", "0123456789")]);
    let whole = ask(&tree, "/a.bin", "");
    let tag = whole.field("ETag").expect("a tag");
    let date = whole.field("Last-Modified").expect("a date");
    let status = |tree: &Tree, if_range: &str| {
        let fields = format!("Range: bytes=2-\r\nIf-Range: {if_range}\r\n");
        ask(tree, "/a.bin", &fields).status
    };
    assert_eq!(status(&tree, tag), 206);
    assert_eq!(status(&tree, date), 206);
    assert_eq!(status(&tree, "\"other\""), 200);
    assert_eq!(status(&tree, "Sun, 06 Nov 1994 08:49:36 GMT"), 200);
    let fresh = now() - Duration::from_millis(500);
    tree.put("a.bin", Node::File(b"abcdefghij".to_vec(), fresh));
    let changed = ask(&tree, "/a.bin", "");
    let weak = changed.field("ETag").expect("a tag");
    assert!(weak.starts_with("W/\"") && weak != tag);
    assert_eq!(status(&tree, tag), 200);
    assert_eq!(status(&tree, weak), 200);
}

#[test]
fn conditions_are_judged_before_parts() {
    let tree = Tree::of(&[("a.bin", "0123456789")]);
    let whole = ask(&tree, "/a.bin", "");
    let tag = whole.field("ETag").expect("a tag");
    let date = whole.field("Last-Modified").expect("a date");
    let cases = [
        (format!("If-None-Match: {tag}\r\n"), 304),
        (format!("If-Modified-Since: {date}\r\nRange: bytes=0-1\r\n"), 304),
        (format!("If-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"), 412),
        ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n".to_owned(), 412),
        (format!("If-Match: {tag}\r\nRange: bytes=0-1\r\n"), 206),
        (format!("If-Match: {tag}\r\nRange: bytes=10-\r\n"), 416),
    ];
    for (fields, status) in cases {
        let reply = ask(&tree, "/a.bin", &fields);
        assert_eq!(reply.status, status, "{fields}");
        if status == 304 {
            assert_eq!(reply.field("ETag"), Some(tag), "{fields}");
            assert_eq!(reply.field("Content-Length"), None, "{fields}");
        }
    }
}
