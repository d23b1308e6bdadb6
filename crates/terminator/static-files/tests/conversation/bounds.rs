//! Tests the limits of what is held, and for how long: heads, queued requests, content, and files
//! that fail.

use std::sync::Arc;

use static_files::HEAD_BYTES_MAX;
use static_files::conversation::Conversation;
use static_files::options::Options;
use static_files::questions::{FileLookup, Output};

use crate::client::replies;
use crate::tree::{End, Tree, modified, now};

const REQUEST: &[u8] = b"GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n";

fn conversation() -> Conversation {
    Conversation::new(Arc::new(Options::default()))
}

fn file(bytes: u64) -> FileLookup {
    FileLookup::File { bytes, modified: modified(), identity: 1 }
}

/// Answers with a file of this length and sends all of it.
fn serve(conversation: &mut Conversation, bytes: u64) {
    conversation.answer(file(bytes), now());
    loop {
        let sent = match conversation.output() {
            Output::Bytes(bytes) => bytes.len() as u64,
            Output::File { bytes, .. } => bytes.div_ceil(2),
            Output::Nothing | Output::End | Output::Cut => return,
        };
        conversation.sent(sent, now());
    }
}

#[test]
fn an_idle_conversation_is_small() {
    assert!(size_of::<Conversation>() <= 200, "{}", size_of::<Conversation>());
}

#[test]
fn heads_are_bounded() {
    let tree = Tree::of(&[("a.txt", "alpha")]);
    let begin = "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: ";
    let head = |bytes: usize| format!("{begin}{}\r\n\r\n", "x".repeat(bytes - begin.len() - 4));
    let endless_line = format!("GET /{}", "a".repeat(HEAD_BYTES_MAX));
    let cases = [
        (head(HEAD_BYTES_MAX), 200),
        (head(HEAD_BYTES_MAX + 1), 431),
        (head(10 * HEAD_BYTES_MAX), 431),
        (format!("{}\r\n", &head(HEAD_BYTES_MAX + 1)[..HEAD_BYTES_MAX]), 431),
        (endless_line, 414),
    ];
    for (request, status) in cases {
        let heard = tree.hear(&Options::default(), &request);
        assert_eq!(heard.started, [status], "{} bytes", request.len());
        assert_eq!(heard.end == End::Proper, status != 200);
        assert_eq!(replies(&heard.bytes, ["GET"]).len(), 1);
    }
}

#[test]
fn waiting_requests_are_limited() {
    let many = REQUEST.repeat(10_000);
    let mut conversation = conversation();
    let taken = conversation.receive(&many, now());
    assert_eq!(taken, REQUEST.len() + HEAD_BYTES_MAX);
    assert_eq!(conversation.receive(&many[taken..], now()), 0);
    serve(&mut conversation, 5);
    assert!(conversation.question().is_some(), "the next request is read");
    assert_eq!(conversation.receive(&many[taken..], now()), REQUEST.len());
}

#[test]
fn what_comes_after_the_last_request_is_dropped() {
    let mut conversation = conversation();
    let last = b"GET /a.bin HTTP/1.0\r\n\r\n";
    assert_eq!(conversation.receive(last, now()), last.len());
    let more = vec![b'x'; 1 << 20];
    assert_eq!(conversation.receive(&more, now()), more.len());
    serve(&mut conversation, 5);
    assert_eq!(conversation.output(), Output::End);
    assert_eq!(conversation.receive(&more, now()), more.len());
    assert_eq!((conversation.output(), conversation.question()), (Output::End, None));
}

#[test]
fn a_request_that_does_not_end_is_refused() {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    // Received bytes, sent bytes of "100 Continue", and the expected output.
    let cases = [
        ("G", 0, "HTTP/1.1 408 "),
        (head, 0, "HTTP/1.1 408 "),
        (head, 25, "HTTP/1.1 408 "),
        (head, 7, "cut"),
        ("", 0, "HTTP/1.1 408 "),
    ];
    for (sent, went, heard) in cases {
        let mut conversation = conversation();
        assert_eq!(conversation.unfinished_request(false), None);
        conversation.receive(sent.as_bytes(), now());
        assert_eq!(conversation.unfinished_request(sent.is_empty()), Some(0));
        conversation.sent(went, now());
        conversation.time_out_request(now());
        match conversation.output() {
            Output::Bytes(bytes) => assert!(bytes.starts_with(heard.as_bytes()), "{sent}"),
            output => assert_eq!((output, heard), (Output::Cut, "cut")),
        }
        assert_eq!(conversation.unfinished_request(true), None);
        conversation.time_out_request(now());
    }
    let mut conversation = conversation();
    conversation.receive(REQUEST, now());
    conversation.time_out_request(now());
    assert!(conversation.question().is_some(), "a whole request is answered");
}

#[test]
fn a_file_that_fails_cuts_the_stream() {
    let mut conversation = conversation();
    conversation.receive(&REQUEST.repeat(2), now());
    conversation.answer(file(1000), now());
    let Output::Bytes(head) = conversation.output() else {
        panic!("no head");
    };
    let head_bytes = head.len() as u64;
    conversation.sent(head_bytes, now());
    conversation.sent(400, now());
    assert_eq!(conversation.output(), Output::File { offset: 400, bytes: 600 });
    conversation.file_failed();
    assert_eq!(conversation.output(), Output::Cut);
    conversation.sent(600, now());
    conversation.answer(file(1), now());
    conversation.receive(REQUEST, now());
    conversation.receive_end();
    assert_eq!((conversation.output(), conversation.question()), (Output::Cut, None));
}

#[test]
fn files_may_be_as_long_as_numbers() {
    for range in ["", "Range: bytes=1-\r\n", "Range: bytes=1-,0-0\r\n", "Range: bytes=-5\r\n"] {
        let mut conversation = conversation();
        let request = format!("GET /a.bin HTTP/1.1\r\nHost: a\r\n{range}\r\n");
        conversation.receive(request.as_bytes(), now());
        serve(&mut conversation, u64::MAX);
        assert_eq!(conversation.output(), Output::Nothing, "{range}");
        conversation.receive(REQUEST, now());
        assert!(conversation.question().is_some());
    }
}
