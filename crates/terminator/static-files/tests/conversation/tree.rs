//! Provides files in memory, and runs a conversation with a client that requests them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use static_files::conversation::Conversation;
use static_files::options::Options;
use static_files::questions::{FileLookup, Output, Question};

pub(crate) fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// Modification time of every file, unless a test sets another.
pub(crate) fn modified() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    File(Vec<u8>, SystemTime),
    Folder,
    Fault(FileLookup),
}

#[derive(Clone, Debug)]
pub(crate) struct Tree(BTreeMap<Vec<u8>, Node>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum End {
    Open,
    Proper,
    Cut,
}

/// Everything that a client received.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ClientView {
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: End,
    pub(crate) started: Vec<u16>,
    /// Paths that were asked for.
    pub(crate) asked: Vec<String>,
}

/// Splitting of a client's bytes and of the answers.
#[derive(Clone, Debug)]
pub(crate) struct TestPace {
    /// Lengths of pieces, used in a cycle, for bytes of the client and of the output alike.
    pub(crate) pieces: Vec<usize>,
    pub(crate) ends: Ends,
}

/// Moment at which the client ends its stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ends {
    Never,
    /// The stream ends with its last byte, while answers are pending.
    AtOnce,
    /// The stream ends after the client has received everything.
    Late,
}

impl Tree {
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self(BTreeMap::new());
        tree.0.insert(b".".to_vec(), Node::Folder);
        for (path, content) in files {
            tree.put(path, Node::File(content.as_bytes().to_vec(), modified()));
        }
        tree
    }

    pub(crate) fn put(&mut self, path: &str, node: Node) {
        let slashes = path.char_indices().filter(|(_, letter)| *letter == '/');
        for (slash, _) in slashes {
            self.0.insert(path[..slash].into(), Node::Folder);
        }
        self.0.insert(path.into(), node);
    }

    /// Returns the whole response to these requests, sent at once by a client that then waits.
    pub(crate) fn hear(&self, options: &Options, requests: impl AsRef<[u8]>) -> ClientView {
        let pace = TestPace { pieces: vec![usize::MAX], ends: Ends::Never };
        self.hear_at(options, requests.as_ref(), &pace)
    }

    pub(crate) fn hear_at(
        &self,
        options: &Options,
        requests: &[u8],
        pace: &TestPace,
    ) -> ClientView {
        let mut talk = Talk {
            tree: self,
            conversation: Conversation::new(Arc::new(options.clone())),
            open: None,
            heard: ClientView {
                bytes: Vec::new(),
                end: End::Open,
                started: Vec::new(),
                asked: Vec::new(),
            },
        };
        let mut pieces = pace.pieces.iter().copied().cycle();
        let mut rest = requests;
        while !rest.is_empty() && talk.heard.end == End::Open {
            let piece = &rest[..rest.len().min(pieces.next().expect("a pace").max(1))];
            let taken = talk.conversation.receive(piece, now());
            talk.note_started();
            rest = &rest[taken..];
            if rest.is_empty() && pace.ends == Ends::AtOnce {
                talk.conversation.receive_end();
            }
            let went = talk.pump(&mut pieces);
            assert!(taken > 0 || went, "nothing goes in or out");
        }
        if pace.ends == Ends::Late {
            talk.conversation.receive_end();
        }
        talk.pump(&mut pieces);
        talk.heard
    }

    fn found(&self, path: &[u8]) -> FileLookup {
        match self.0.get(path) {
            Some(Node::File(content, modified)) => FileLookup::File {
                bytes: content.len() as u64,
                modified: *modified,
                identity: path.len() as u64,
            },
            Some(Node::Folder) => FileLookup::Folder,
            Some(Node::Fault(found)) => found.clone(),
            None => FileLookup::Missing,
        }
    }
}

struct Talk<'a> {
    tree: &'a Tree,
    conversation: Conversation,
    open: Option<Vec<u8>>,
    heard: ClientView,
}

impl Talk<'_> {
    /// Answers questions and takes output until there is neither. Reports whether there was any.
    fn pump(&mut self, pieces: &mut impl Iterator<Item = usize>) -> bool {
        let mut went = false;
        loop {
            if self.answer() {
                went = true;
                continue;
            }
            let bytes = match self.conversation.output() {
                Output::Nothing => return went,
                Output::End => {
                    self.heard.end = End::Proper;
                    return went;
                }
                Output::Cut => {
                    self.heard.end = End::Cut;
                    return went;
                }
                Output::Bytes(bytes) => bytes.to_vec(),
                Output::File { offset, bytes } => {
                    let open = self.open.as_ref().expect("an open file");
                    let Some(Node::File(content, _)) = self.tree.0.get(open) else {
                        panic!("what is open is no file");
                    };
                    content[offset as usize..][..bytes as usize].to_vec()
                }
            };
            assert!(!bytes.is_empty());
            let piece = &bytes[..bytes.len().min(pieces.next().expect("a pace").max(1))];
            self.heard.bytes.extend(piece);
            self.conversation.sent(piece.len() as u64, now());
            self.note_started();
            went = true;
        }
    }

    fn answer(&mut self) -> bool {
        let Some(question) = self.conversation.question() else {
            return false;
        };
        let (Question::Open(path) | Question::Replace(path)) = question;
        check_path(path);
        let asked = String::from_utf8_lossy(path).into_owned();
        self.heard.asked.push(asked);
        let found = self.tree.found(path);
        if matches!(found, FileLookup::File { .. }) {
            self.open = Some(path.to_vec());
        }
        self.conversation.answer(found, now());
        self.note_started();
        true
    }

    fn note_started(&mut self) {
        self.heard.started.extend(self.conversation.take_started());
    }
}

/// Asserts that no path leaves the root.
fn check_path(path: &[u8]) {
    if path != b"." {
        for name in path.split(|byte| *byte == b'/') {
            assert!(!matches!(name, b"" | b"." | b".."), "{path:?}");
            assert!(!name.contains(&0), "{path:?}");
        }
    }
}
