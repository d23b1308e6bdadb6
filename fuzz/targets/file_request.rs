//! Any bytes as requests for files: no panic, no path outside of the root, no range outside of the
//! file, every response as long as it declares, and the same responses for every cut of input and
//! output.
//!
//! The first byte of the input chooses the options, the second the pace; the rest are requests.
#![no_main]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use libfuzzer_sys::fuzz_target;
use static_files::HEAD_BYTES_MAX;
use static_files::conversation::Conversation;
use static_files::options::{Options, Redirect};
use static_files::questions::{FileLookup, Output, Question};
use wire::http::{ContentEnd, ResponseHead};

/// Lengths of files; the last is longer than any.
const LENGTHS: [u64; 5] = [0, 1, 10, 5000, u64::MAX];

/// Bytes that may come between two responses, and are taken for the end of the former.
const INVITATION: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Parts of a response as it was sent.
#[derive(Debug, Default, Eq, PartialEq)]
struct Response {
    status: u16,
    bytes: Vec<u8>,
    /// Ranges of files: start and length of each. Adjacent ones are joined.
    ranges: Vec<(u64, u64)>,
}

#[derive(Debug, Default, Eq, PartialEq)]
struct Heard {
    responses: Vec<Response>,
    ended: bool,
}

struct Talk {
    conversation: Conversation,
    file_bytes: Option<u64>,
    heard: Heard,
}

fuzz_target!(|bytes: &[u8]| {
    let [choice, pace, requests @ ..] = bytes else { return };
    let options = Options {
        index: vec!["index.html".to_owned(), "index.txt".to_owned()],
        hidden: choice & 2 != 0,
        precompressed: choice & 4 != 0,
        redirect: (choice & 8 != 0).then_some(Redirect { port: 8443 }),
        ..Options::default()
    };
    let options = Arc::new(options);
    let at_once = Talk::hold(&options, requests, &mut Pace(None));
    let paced = Talk::hold(&options, requests, &mut Pace(Some(u32::from(*pace))));
    assert_eq!(at_once, paced);
    at_once.responses.iter().for_each(check);
});

/// Number of bytes moved at once: all of them, or a random number.
struct Pace(Option<u32>);

impl Pace {
    fn of(&mut self, whole: u64) -> u64 {
        let Some(state) = &mut self.0 else { return whole };
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let chance = u64::from(*state >> 16);
        let part = match chance % 4 {
            0 => 1,
            1 => chance % 64,
            2 => whole / 2,
            _ => whole,
        };
        part.clamp(1, whole.max(1))
    }
}

impl Talk {
    fn hold(options: &Arc<Options>, requests: &[u8], pace: &mut Pace) -> Heard {
        let mut talk = Self {
            conversation: Conversation::new(Arc::clone(options)),
            file_bytes: None,
            heard: Heard::default(),
        };
        let mut rest = requests;
        while !rest.is_empty() && !talk.heard.ended {
            let piece = pace.of(rest.len() as u64) as usize;
            let taken = talk.conversation.receive(&rest[..piece], now());
            talk.note_started();
            let went = talk.pump(pace);
            assert!(taken <= piece && (taken > 0 || went));
            rest = &rest[taken..];
        }
        talk.conversation.receive_end();
        talk.pump(pace);
        assert!(talk.heard.ended);
        talk.heard
    }

    fn pump(&mut self, pace: &mut Pace) -> bool {
        let mut went = false;
        loop {
            while self.answer() {
                went = true;
            }
            let sent = match self.conversation.output() {
                Output::Nothing => return went,
                Output::End => {
                    self.heard.ended = true;
                    return went;
                }
                Output::Cut => panic!("no file has failed"),
                Output::Bytes(bytes) => {
                    let sent = pace.of(bytes.len() as u64);
                    let bytes = &bytes[..sent as usize];
                    // An interim response may precede the first response.
                    if let Some(response) = self.heard.responses.last_mut() {
                        response.bytes.extend(bytes);
                    }
                    sent
                }
                Output::File { offset, bytes } => {
                    let file_bytes = self.file_bytes.expect("an open file");
                    let end = offset.checked_add(bytes);
                    assert!(bytes > 0 && end.is_some_and(|end| end <= file_bytes));
                    let sent = if bytes > 10_000 { bytes - 5000 } else { pace.of(bytes) };
                    self.note_range(offset, sent);
                    sent
                }
            };
            self.conversation.sent(sent, now());
            self.note_started();
            went = true;
        }
    }

    fn answer(&mut self) -> bool {
        let Some(question) = self.conversation.question() else { return false };
        let (Question::Open(path) | Question::Replace(path)) = question;
        let found = found_at(path);
        match (&found, question) {
            (FileLookup::File { bytes, .. }, _) => self.file_bytes = Some(*bytes),
            (_, Question::Open(_)) => self.file_bytes = None,
            _ => {}
        }
        self.conversation.answer(found, now());
        self.note_started();
        true
    }

    fn note_started(&mut self) {
        if let Some(status) = self.conversation.take_started() {
            self.heard.responses.push(Response { status, ..Response::default() });
        }
    }

    fn note_range(&mut self, offset: u64, bytes: u64) {
        let response = self.heard.responses.last_mut().expect("a response");
        match response.ranges.last_mut() {
            Some((first, length)) if *first + *length == offset => *length += bytes,
            _ => response.ranges.push((offset, bytes)),
        }
    }
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// The finding at a path, by its bytes. Nothing is asked for that could be outside of the root.
fn found_at(path: &[u8]) -> FileLookup {
    assert!(path.len() < HEAD_BYTES_MAX);
    if path != b"." {
        for name in path.split(|byte| *byte == b'/') {
            assert!(!matches!(name, b"" | b"." | b"..") && !name.contains(&0));
        }
    }
    let sum: usize = path.iter().map(|byte| usize::from(*byte)).sum();
    match sum % 12 {
        0 => FileLookup::Missing,
        1 => FileLookup::Forbidden,
        2 => FileLookup::Busy,
        3 => FileLookup::Failed,
        4..=6 => FileLookup::Folder,
        _ => FileLookup::File {
            bytes: LENGTHS[sum % LENGTHS.len()],
            modified: now() - Duration::from_secs(sum as u64 % 3),
            identity: path.len() as u64,
        },
    }
}

/// Checks that a response is as long as it declares, or is a head alone.
fn check(response: &Response) {
    let Ok(Some(head)) = ResponseHead::parse(&response.bytes, usize::MAX, false) else {
        panic!("no head: {response:?}");
    };
    assert_eq!(head.status, response.status);
    let content = &response.bytes[head.bytes..];
    let content = content.strip_suffix(INVITATION).unwrap_or(content);
    let ranges = response.ranges.iter().map(|(_, bytes)| bytes);
    let content_bytes = content.len() as u64 + ranges.sum::<u64>();
    let is_whole = head.content == ContentEnd::Length(content_bytes);
    assert!(is_whole || content_bytes == 0, "{response:?}");
}
