//! Files as a connection's back: a conversation about a folder, and what of it is open.
//!
//! Owns the descriptor of the file that goes out, which is closed as soon as its response has been
//! read. What is asked and answered is `origin`'s; what a path means, `sys::beneath`'s.

use std::io::{self, IoSliceMut};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use origin::conversation::Conversation;
use origin::questions::{Entry, Found, LISTING_ENTRIES_MAX, Output, Question};
use sys::beneath::{self, Entries, File, Folder, Opened};
use telemetry::catalogue::ServiceCounter;
use telemetry::counters::ServiceCounters;
use telemetry::outcome::Reason;

use crate::driver::{PIECES_MAX, Received};
use crate::plan::Files;

/// What it costs to look for a file, in bytes that are read and sent instead: some microseconds.
const LOOK_BYTES: usize = 16 << 10;

/// What it costs to list a folder, at most: milliseconds. Others have their turn first.
const LIST_BYTES: usize = 4 << 20;

/// So many questions are answered at a time: as much as a large buffer takes to fill.
const COST_BYTES_MAX: usize = 256 << 10;

/// One connection's back where files stand behind the service.
pub(crate) struct FileBack {
    files: Arc<Files>,
    counters: Arc<ServiceCounters>,
    conversation: Conversation,
    open: Option<Open>,
    /// The client asks nothing more.
    is_asked: bool,
    /// There was nothing more to say, or it could not be said.
    is_over: bool,
    /// The kernel does not send the open file by itself.
    must_read: bool,
    /// The request whose end is awaited, and since when.
    unfinished: Option<(u32, Instant)>,
    /// Why the stream ends, if that is the client's doing.
    fault: Option<Reason>,
    /// What questions cost that have not been charged to anybody.
    cost_bytes: usize,
}

/// What of a file goes out next.
pub(crate) struct Stretch<'a> {
    pub(crate) file: &'a File,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// What the conversation has open.
enum Open {
    File(File),
    Folder(Folder),
}

impl FileBack {
    pub(crate) fn new(files: &Arc<Files>, counters: &Arc<ServiceCounters>) -> Self {
        Self {
            conversation: Conversation::new(Arc::clone(&files.serving)),
            files: Arc::clone(files),
            counters: Arc::clone(counters),
            open: None,
            is_asked: false,
            is_over: false,
            must_read: false,
            unfinished: None,
            fault: None,
            cost_bytes: 0,
        }
    }

    /// Takes note of whether a request waits for its end. `has_more` = the client has sent a part
    /// of what it will be given.
    pub(crate) fn note_request(&mut self, has_more: bool, now: Instant) {
        let unfinished = self.conversation.unfinished_request(has_more);
        let number = self.unfinished.map(|(number, _)| number);
        if unfinished != number {
            self.unfinished = unfinished.map(|number| (number, now));
        }
    }

    /// When [`Self::time_out`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (_, since) = self.unfinished?;
        Some(since + self.files.timeouts.request)
    }

    /// Takes note that the deadline has passed.
    pub(crate) fn time_out(&mut self, now: Instant) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.unfinished = None;
            self.fault = Some(Reason::RequestTimeout);
            self.conversation.time_out_request(SystemTime::now());
            self.count();
        }
    }

    /// Why the stream ends, if that is the client's doing.
    pub(crate) fn fault(&self) -> Option<Reason> {
        self.fault
    }

    /// Takes bytes of requests, in order, and says how many.
    pub(crate) fn take(&mut self, pieces: [&[u8]; 2]) -> usize {
        let now = SystemTime::now();
        let mut taken = 0;
        for piece in pieces {
            let count = self.conversation.receive(piece, now);
            self.count();
            taken += count;
            if count < piece.len() {
                break;
            }
        }
        taken
    }

    /// The client has ended its stream: what was asked is still answered.
    pub(crate) fn end_requests(&mut self) {
        self.is_asked = true;
        self.finish();
    }

    /// What was asked is still answered, and nothing that comes from now on.
    pub(crate) fn finish(&mut self) {
        self.conversation.receive_end();
    }

    /// Whether the client asks nothing more.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Whether there is something to receive.
    pub(crate) fn is_readable(&self) -> bool {
        let says = || self.conversation.output() != Output::Nothing;
        !self.is_over && (self.conversation.question().is_some() || says())
    }

    /// The stretch of a file that goes out next, unless it has to be read.
    pub(crate) fn stretch(&self) -> Option<Stretch<'_>> {
        let (Output::File { offset, bytes }, Some(Open::File(file)), false) =
            (self.conversation.output(), &self.open, self.must_read)
        else {
            return None;
        };
        Some(Stretch {
            file,
            offset,
            bytes,
        })
    }

    /// Takes note that the first `count` bytes of the stretch were sent.
    pub(crate) fn stretch_sent(&mut self, count: usize) {
        self.conversation.sent(count as u64, SystemTime::now());
        self.count();
        self.close_finished();
    }

    /// Takes note that the file is shorter than it was, or cannot be read.
    pub(crate) fn stretch_failed(&mut self) {
        self.conversation.file_failed();
    }

    /// Takes note that the kernel does not send this file by itself.
    pub(crate) fn stretch_unfit(&mut self) {
        self.must_read = true;
    }

    /// Fills the pieces with responses, in order: the bytes of a file are read right into them. It
    /// stops before a stretch of a file of at least `passing_from` bytes, which is not to be read,
    /// and when questions have cost as much as filling the pieces would.
    pub(crate) fn receive<'a>(
        &mut self,
        pieces: &mut impl Iterator<Item = &'a mut [u8]>,
        passing_from: Option<u64>,
    ) -> Received {
        let mut room = Room::of(pieces);
        while !room.is_full() && self.cost_bytes < COST_BYTES_MAX {
            self.answer_questions();
            if self.is_passing(passing_from) {
                break;
            }
            let now = SystemTime::now();
            let sent = match self.conversation.output() {
                Output::Bytes(bytes) => room.put(bytes),
                Output::File { offset, bytes } => match self.read(&mut room, offset, bytes) {
                    Some(count) => count,
                    None => {
                        self.conversation.file_failed();
                        continue;
                    }
                },
                Output::Nothing | Output::End | Output::Cut => break,
            };
            self.conversation.sent(sent as u64, now);
            self.count();
        }
        self.close_finished();
        self.rest(room.filled)
    }

    /// Whether a stretch of a file is next that is not to be read.
    fn is_passing(&self, from: Option<u64>) -> bool {
        let stretch = self.stretch();
        from.zip(stretch)
            .is_some_and(|(from, stretch)| stretch.bytes >= from)
    }

    /// What questions have cost since this was asked, in bytes that could have been moved instead.
    pub(crate) fn take_cost(&mut self) -> usize {
        std::mem::take(&mut self.cost_bytes)
    }

    fn close_finished(&mut self) {
        if !matches!(
            self.conversation.output(),
            Output::Bytes(_) | Output::File { .. }
        ) {
            // The next request opens its own.
            self.open = None;
        }
    }

    /// What is to be said after so many bytes if no more come now.
    fn rest(&mut self, filled: usize) -> Received {
        let output = self.conversation.output();
        self.is_over = match output {
            Output::End => true,
            Output::Cut => filled == 0,
            Output::Nothing | Output::Bytes(_) | Output::File { .. } => false,
        };
        match (output, filled) {
            (Output::End, 0) => Received::End,
            (Output::End, count) => Received::Last(count),
            (Output::Cut, 0) => Received::Failed,
            (_, 0) => Received::Nothing,
            (_, count) => Received::Bytes(count),
        }
    }

    fn answer_questions(&mut self) {
        while let Some(question) = self.conversation.question() {
            self.cost_bytes += match question {
                Question::Open(_) | Question::Replace(_) => LOOK_BYTES,
                Question::List => LIST_BYTES,
            };
            let found = match question {
                Question::Open(path) => {
                    self.open = None;
                    self.must_read = false;
                    self.files.find(path, &mut self.open)
                }
                Question::Replace(path) => self.files.replace(path, &mut self.open),
                Question::List => self.files.list(self.open.as_ref()),
            };
            self.conversation.answer(found, SystemTime::now());
            self.count();
        }
    }

    /// Reads a stretch of the open file, as far as there is room; `None` = the file is shorter than
    /// it was, or cannot be read.
    fn read(&self, room: &mut Room<'_>, offset: u64, bytes: u64) -> Option<usize> {
        let Some(Open::File(file)) = &self.open else {
            return None;
        };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        loop {
            match room.fill(bytes, |slices| file.read(slices, offset)) {
                Ok(0) => return None,
                Ok(count) => return Some(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    fn count(&mut self) {
        if let Some(status) = self.conversation.take_started() {
            self.counters.count(ServiceCounter::of_status(status));
        }
    }
}

impl Files {
    /// Looks what is there, and leaves it open.
    fn find(&self, path: &[u8], open: &mut Option<Open>) -> Found {
        match self.root.find(path) {
            Opened::File(file) if !self.descriptors.suffice_for_file(&file) => Found::Busy,
            Opened::File(file) => {
                let found = described(&file);
                *open = Some(Open::File(file));
                found
            }
            Opened::Folder(folder) => {
                *open = Some(Open::Folder(folder));
                Found::Folder
            }
            Opened::Other | Opened::Missing => Found::Missing,
            Opened::Forbidden => Found::Forbidden,
            Opened::Busy => Found::Busy,
            Opened::Failed => Found::Failed,
        }
    }

    /// Leaves open what was, unless a file is there.
    fn replace(&self, path: &[u8], open: &mut Option<Open>) -> Found {
        let mut other = None;
        let found = self.find(path, &mut other);
        if matches!(found, Found::File { .. }) {
            *open = other;
        }
        found
    }

    fn list(&self, open: Option<&Open>) -> Found {
        let Some(Open::Folder(folder)) = open else {
            return Found::Failed;
        };
        match self.root.entries(folder, LISTING_ENTRIES_MAX) {
            Ok(Entries { entries, is_whole }) => Found::Entries {
                entries: entries.into_iter().map(listed).collect(),
                is_whole,
            },
            Err(_) => Found::Forbidden,
        }
    }
}

fn described(file: &File) -> Found {
    Found::File {
        bytes: file.bytes,
        modified: file.modified,
        identity: file.identity.inode ^ file.identity.device.rotate_left(32),
    }
}

fn listed(entry: beneath::Entry) -> Entry {
    Entry {
        name: entry.name,
        folder: entry.is_folder,
        bytes: entry.bytes,
        modified: entry.modified,
    }
}

/// Where responses go: pieces that are filled in order.
struct Room<'a> {
    pieces: [&'a mut [u8]; PIECES_MAX],
    /// The first that has room.
    first: usize,
    filled: usize,
}

impl<'a> Room<'a> {
    fn of(pieces: &mut impl Iterator<Item = &'a mut [u8]>) -> Self {
        Self {
            pieces: std::array::from_fn(|_| pieces.next().unwrap_or_default()),
            first: 0,
            filled: 0,
        }
    }

    /// What has no room any more is empty, and what was never there is as well.
    fn is_full(&self) -> bool {
        self.pieces
            .get(self.first)
            .is_none_or(|piece| piece.is_empty())
    }

    /// Copies as many of the bytes as there is room for.
    fn put(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        while !rest.is_empty() && !self.is_full() {
            let piece = &mut self.pieces[self.first];
            let count = piece.len().min(rest.len());
            piece[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            self.advance(count);
        }
        bytes.len() - rest.len()
    }

    /// Has up to `bytes` bytes read into what is left.
    fn fill(
        &mut self,
        bytes: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (mut left, mut used) = (bytes, 0);
        let mut pieces = self.pieces[self.first..].iter_mut();
        let mut slices: [IoSliceMut<'_>; PIECES_MAX] = std::array::from_fn(|_| {
            let piece = pieces.next().map(|piece| &mut **piece).unwrap_or_default();
            let count = piece.len().min(left);
            left -= count;
            used += usize::from(count > 0);
            IoSliceMut::new(&mut piece[..count])
        });
        let count = read(&mut slices[..used])?;
        self.advance(count);
        Ok(count)
    }

    fn advance(&mut self, count: usize) {
        self.filled += count;
        let mut rest = count;
        while rest > 0 {
            let piece = &mut self.pieces[self.first];
            let step = piece.len().min(rest);
            *piece = &mut std::mem::take(piece)[step..];
            rest -= step;
            self.first += usize::from(piece.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use telemetry::registry::Registry;

    use crate::descriptors::Descriptors;
    use crate::options::FileTimeouts;

    use super::*;

    #[test]
    fn pieces_are_filled_in_order_and_to_the_last_byte() {
        let mut memory = [0; 10];
        let mut room = Room::of(&mut memory.chunks_mut(4));
        assert_eq!(room.put(b"012"), 3);
        let read = |slices: &mut [IoSliceMut<'_>]| {
            let sizes: Vec<_> = slices.iter().map(|slice| slice.len()).collect();
            assert_eq!(sizes, [1, 2]);
            slices.iter_mut().for_each(|slice| slice.fill(b'x'));
            Ok(3)
        };
        assert_eq!(room.fill(3, read).unwrap(), 3);
        assert!(!room.is_full());
        assert_eq!(room.put(b"6789abc"), 4);
        assert!(room.is_full());
        assert_eq!((room.put(b"d"), room.filled), (0, 10));
        assert_eq!(&memory, b"012xxx6789");
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn back() -> FileBack {
        let files = Files {
            root: beneath::Root::open("/proc/self".as_ref()).unwrap(),
            serving: Arc::new(origin::options::Options {
                index: Vec::new(),
                listing: true,
                ..Default::default()
            }),
            timeouts: FileTimeouts {
                request: 10 * SECOND,
            },
            descriptors: Descriptors::default(),
        };
        let counters = Registry::new(1).service(0, "files", &[]);
        FileBack::new(&Arc::new(files), &counters)
    }

    /// What comes of one call.
    fn said(back: &mut FileBack) -> (Received, String) {
        let mut memory = vec![0; 256 << 10];
        let received = back.receive(&mut memory.chunks_mut(16 << 10), None);
        let (Received::Bytes(count) | Received::Last(count)) = received else {
            return (received, String::new());
        };
        memory.truncate(count);
        (received, String::from_utf8(memory).unwrap())
    }

    /// What comes of one call after these requests, and what it cost beside.
    fn heard(request: &str, times: usize) -> (String, usize) {
        let mut back = back();
        let requests = request.repeat(times);
        assert_eq!(back.take([requests.as_bytes(), &[]]), requests.len());
        let (received, said) = said(&mut back);
        assert!(matches!(received, Received::Bytes(_)), "{received:?}");
        assert!(back.is_readable(), "there is more to answer");
        (said, back.take_cost())
    }

    #[test]
    fn a_request_has_so_long_however_its_bytes_come() {
        let request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12345678";
        let begun = Instant::now();
        let mut back = back();
        // Half of a record counts as the first byte.
        back.note_request(true, begun);
        for (number, byte) in (0..).zip(request) {
            assert_eq!(back.take([&[*byte], &[]]), 1);
            back.note_request(false, begun + SECOND * number / 7);
            assert_eq!(back.deadline(), Some(begun + 10 * SECOND));
        }
        back.time_out(begun + 9 * SECOND);
        assert!(!back.is_readable());
        back.time_out(begun + 10 * SECOND);
        let (received, said) = said(&mut back);
        assert!(matches!(received, Received::Last(_)), "{received:?}");
        assert!(
            said.starts_with("HTTP/1.1 408 Request Timeout\r\n"),
            "{said}"
        );
        assert!(said.contains("Connection: close\r\n"), "{said}");
        assert_eq!(back.fault(), Some(Reason::RequestTimeout));
        back.note_request(true, begun);
        assert_eq!(back.deadline(), None);
    }

    #[test]
    fn each_request_has_its_own_time() {
        let begun = Instant::now();
        let mut back = back();
        back.take([b"GET /none HTTP/1.1\r\nHost: a\r\n\r\nGET ", &[]]);
        back.note_request(true, begun);
        assert_eq!(back.deadline(), None, "the first is being answered");
        said(&mut back);
        back.note_request(false, begun + SECOND);
        assert_eq!(back.deadline(), Some(begun + 11 * SECOND));
        back.take([b"/none HTTP/1.1\r\nHost: a\r\n\r\nGET ", &[]]);
        said(&mut back);
        back.note_request(false, begun + 5 * SECOND);
        assert_eq!(back.deadline(), Some(begun + 15 * SECOND));
        back.take([b"/none HTTP/1.1\r\nHost: a\r\n\r\n", &[]]);
        said(&mut back);
        back.note_request(false, begun + 6 * SECOND);
        assert_eq!(back.deadline(), None, "nobody waits for a further one");
        back.time_out(begun + 3600 * SECOND);
        assert!(!back.is_readable());
    }

    #[test]
    fn questions_are_answered_some_at_a_time() {
        let (said, cost) = heard("GET /task/ HTTP/1.1\r\nHost: a\r\n\r\n", 50);
        assert_eq!(said.matches("HTTP/1.1 200 OK").count(), 1);
        assert!(cost >= LIST_BYTES);
        let (said, cost) = heard("GET /none HTTP/1.1\r\nHost: a\r\n\r\n", 50);
        assert_eq!(said.matches("HTTP/1.1 404 ").count(), 16);
        assert_eq!(cost, 16 * LOOK_BYTES);
    }

    #[test]
    fn no_room_is_full() {
        let room = Room::of(&mut std::iter::empty());
        assert!(room.is_full());
    }
}
