//! Files as a connection's back: a conversation about a folder, and the file that is open for it.
//!
//! Handles the descriptor of the file that goes out, which is closed as soon as its response has
//! been read, and tasks of the threads that wait for disks. `static_files` answers requests, and
//! `sys::beneath` resolves paths.

use std::io;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use flow::events::ReceiveResult;
use static_files::conversation::Conversation;
use static_files::questions::{FileLookup, Output, Question};
use sys::beneath::File;
use telemetry::catalogue::{Histogram, ServiceCounter, ServiceGauge};
use telemetry::counters::ServiceCounters;
use telemetry::outcome::Reason;

use crate::commands::{Command, Mailbox, Reply};
use crate::file_threads::{FileThreads, Job, TooManyJobs};
use crate::file_work::{FileAnswer, FileWork, ResponseBuffers};
use crate::plan::Files;

/// Cost of looking for a file, as bytes that could be read and sent instead: some microseconds.
const LOOK_BYTES: usize = 16 << 10;

/// Largest cost of one turn's questions: as much as filling a large buffer.
const COST_BYTES_MAX: usize = 256 << 10;

/// Bytes of a file that one call sends: what a kernel with AES instructions encrypts in a
/// millisecond and a half, for which all others wait. With less, a long file takes more calls than
/// with nginx, which sends 2 MiB by each. Other kernels are given less (`BulkPace`).
const PASS_BYTES_MAX: usize = 3 << 20;

/// Bytes that a thread reads before the kernel sends them: some milliseconds of a disk, and a small
/// loss if the client leaves.
const FETCH_BYTES_MAX: usize = 1 << 20;

/// Time for which bytes found in the page cache count as cached: for a slow client they are looked
/// for again.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// Context that all connections of a worker share: the threads that wait for disks, and the mailbox
/// for their replies.
pub(crate) struct FileContext {
    threads: FileThreads,
    mailbox: Mailbox,
}

/// The back of a connection to a service of files.
pub(crate) struct FileBack {
    files: Arc<Files>,
    counters: Arc<ServiceCounters>,
    file_context: Arc<FileContext>,
    token: u64,
    conversation: Conversation,
    open: Option<Arc<File>>,
    /// Knowledge about the open file beyond what was sent.
    ahead: ReadAhead,
    /// Task that a thread works on, and the number of the last such task.
    waiting: Option<AwaitedWork>,
    tasks: u64,
    /// Reports whether the client asks nothing more.
    is_asked: bool,
    /// Whether the last response is complete, or could not be completed.
    is_over: bool,
    /// Request whose end is awaited, and since when.
    unfinished: Option<(u32, Instant)>,
    /// Reason why the stream ends early.
    fault: Option<Reason>,
    /// Cost of questions that was not yet charged.
    cost_bytes: usize,
}

/// A task that a thread was given.
struct AwaitedWork {
    since: Instant,
    is_wanted: Arc<AtomicBool>,
}

/// Knowledge about the open file beyond what was sent of it.
#[derive(Default)]
struct ReadAhead {
    /// Bytes that a thread has read, and how many of them have gone out.
    bytes: Vec<u8>,
    taken: usize,
    /// Offset up to which the file was in the page cache, and when that was seen.
    cached: Option<(u64, Instant)>,
    /// Whether the kernel cannot send the file by itself.
    must_read: bool,
    /// Whether nobody can tell which parts of the file are in memory.
    must_wait: bool,
}

pub(crate) struct FileRange<'a> {
    pub(crate) file: &'a Arc<File>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl FileContext {
    pub(crate) fn new(threads: FileThreads, mailbox: Mailbox) -> Self {
        Self { threads, mailbox }
    }

    /// Returns the mailbox of the worker, for the answers of other threads.
    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Releases an answer that nobody waits for any more.
    pub(crate) fn let_go(&self, reply: Reply) {
        if let FileAnswer::Found(_, Some(open)) = reply.answer {
            self.close(&reply.files, open);
        }
    }

    /// Closes a file: a remote one on a thread, because closing may take as long as reading.
    fn close(&self, files: &Files, file: Arc<File>) {
        if file.is_remote() {
            self.threads.submit_rest(Job {
                source: Arc::clone(&files.source),
                limit: files.timeouts.file,
                work: Box::new(move || drop(file)),
            });
        }
    }
}

impl FileBack {
    pub(crate) fn new(
        files: &Arc<Files>,
        counters: &Arc<ServiceCounters>,
        file_context: &Arc<FileContext>,
        token: u64,
    ) -> Self {
        Self {
            conversation: Conversation::new(Arc::clone(&files.serving)),
            files: Arc::clone(files),
            counters: Arc::clone(counters),
            file_context: Arc::clone(file_context),
            token,
            open: None,
            ahead: ReadAhead::default(),
            waiting: None,
            tasks: 0,
            is_asked: false,
            is_over: false,
            unfinished: None,
            fault: None,
            cost_bytes: 0,
        }
    }

    /// Notes whether a request is incomplete. `has_more` = the client has sent a part of what will
    /// be passed on.
    pub(crate) fn note_request(&mut self, has_more: bool, now: Instant) {
        let unfinished = self.conversation.unfinished_request(has_more);
        let number = self.unfinished.map(|(number, _)| number);
        if unfinished != number {
            self.unfinished = unfinished.map(|number| (number, now));
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timeouts = &self.files.timeouts;
        let request = self.unfinished.map(|(_, since)| since + timeouts.request);
        let file = self.waiting.as_ref().map(|task| task.since + timeouts.file);
        request.into_iter().chain(file).min()
    }

    /// Handles that the deadline may have passed.
    pub(crate) fn time_out(&mut self, now: Instant) {
        let timeouts = self.files.timeouts;
        let is_due = |since: Instant, limit: Duration| since + limit <= now;
        if self.unfinished.is_some_and(|(_, since)| is_due(since, timeouts.request)) {
            self.unfinished = None;
            self.fault = Some(Reason::RequestTimeout);
            self.conversation.time_out_request(SystemTime::now());
            self.count();
        }
        let task = self.waiting.take_if(|task| is_due(task.since, timeouts.file));
        if let Some(task) = task {
            task.give_up(&self.counters);
            self.counters.count(ServiceCounter::FileTasksTimedOut);
            self.file_context.threads.review();
            self.go_without(Reason::FileTimeout);
        }
    }

    /// Returns why the stream ends, if it ends early.
    pub(crate) fn fault(&self) -> Option<Reason> {
        self.fault
    }

    /// Gives up what a thread was asked for: answers with 503, or breaks the response off.
    fn go_without(&mut self, reason: Reason) {
        if self.conversation.question().is_some() {
            self.answer(FileLookup::Busy);
        } else {
            self.fault = Some(reason);
            self.conversation.file_failed();
        }
    }

    /// Handles a thread's reply, if it is still awaited.
    pub(crate) fn replied(&mut self, reply: Reply) {
        let is_awaited = |_: &mut AwaitedWork| reply.task == self.tasks;
        let Some(task) = self.waiting.take_if(is_awaited) else {
            return self.file_context.let_go(reply);
        };
        task.give_up(&self.counters);
        self.counters.observe(Histogram::FileTask, task.since.elapsed());
        match reply.answer {
            FileAnswer::Found(found, open) => self.take_found(found, open),
            FileAnswer::Read(Ok(bytes)) if !bytes.is_empty() => {
                (self.ahead.bytes, self.ahead.taken) = (bytes, 0);
            }
            FileAnswer::Fetched(Ok(bytes)) if bytes > 0 => {
                if let Output::File { offset, .. } = self.conversation.output() {
                    self.ahead.cached = Some((offset + bytes as u64, crate::clock::now()));
                }
            }
            // The file is shorter than it was, or cannot be read.
            FileAnswer::Read(_) | FileAnswer::Fetched(_) => self.conversation.file_failed(),
        }
    }

    /// Reports whether a thread's answer is awaited.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Takes bytes of requests, in order, and returns how many.
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

    /// Handles the end of the client's stream: requests already made are still answered.
    pub(crate) fn end_requests(&mut self) {
        self.is_asked = true;
        self.finish();
    }

    /// Takes no further request; requests already made are still answered.
    pub(crate) fn finish(&mut self) {
        self.conversation.receive_end();
    }

    /// Finishes likewise, unless a part of a request has come.
    pub(crate) fn finish_if_asked(&mut self) {
        if self.conversation.unfinished_request(false).is_none() {
            self.finish();
        }
    }

    /// Reports whether the client asks nothing more.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Reports whether there is something to receive.
    pub(crate) fn is_readable(&self) -> bool {
        let says = || self.conversation.output() != Output::Nothing;
        !self.is_over && !self.is_waiting() && (self.conversation.question().is_some() || says())
    }

    /// Returns the range of a file that goes out next, unless it has to be read, or waited for.
    pub(crate) fn range(&self) -> Option<FileRange<'_>> {
        let (Output::File { offset, bytes }, Some(file), false) =
            (self.conversation.output(), &self.open, self.ahead.must_read)
        else {
            return None;
        };
        (!self.is_waiting()).then_some(FileRange { file, offset, bytes })
    }

    /// Returns how many bytes of the range the kernel can send by one call without waiting for a
    /// disk. 0 = a thread reads them first, or they cannot be sent like that.
    pub(crate) fn cached_bytes(&mut self) -> usize {
        let Some(FileRange { file, offset, bytes }) = self.range() else {
            return 0;
        };
        let bytes = usize::try_from(bytes).map_or(PASS_BYTES_MAX, |all| all.min(PASS_BYTES_MAX));
        let now = crate::clock::now();
        if let Some((end, at)) = self.ahead.cached
            && end > offset
            && now.saturating_duration_since(at) < CACHED_FOR
        {
            return usize::try_from(end - offset).unwrap_or(usize::MAX).min(bytes);
        }
        let cached = match file.cached_bytes(offset, bytes) {
            // overlayfs does not tell what is in memory. Bytes that were just read are.
            Err(error) if error.kind() == ErrorKind::Unsupported && !file.is_remote() => Ok(0),
            cached => cached,
        };
        match cached {
            Ok(0) => {
                let task = FileWork::Fetch(Arc::clone(file), offset, bytes.min(FETCH_BYTES_MAX));
                self.ask_rest(task);
            }
            Ok(count) => {
                self.ahead.cached = Some((offset + count as u64, now));
                return count;
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                (self.ahead.must_read, self.ahead.must_wait) = (true, true);
            }
            Err(_) => self.conversation.file_failed(),
        }
        0
    }

    /// Notes that the first `count` bytes of the range were sent.
    pub(crate) fn range_sent(&mut self, count: usize) {
        self.ahead.bytes = Vec::new();
        self.conversation.sent(count as u64, SystemTime::now());
        self.count();
        self.close_finished();
    }

    /// Notes that the file is shorter than it was, or cannot be read.
    pub(crate) fn range_failed(&mut self) {
        self.conversation.file_failed();
    }

    /// Notes that the kernel does not send this file by itself.
    pub(crate) fn range_unfit(&mut self) {
        self.ahead.must_read = true;
    }

    /// Fills the pieces with responses, in order; bytes of a file are read right into them. Stops
    /// before a range of a file of at least `passing_from` bytes, because the kernel sends it, and
    /// when questions have cost as much as filling the pieces would.
    pub(crate) fn receive<'a>(
        &mut self,
        pieces: &mut impl Iterator<Item = &'a mut [u8]>,
        passing_from: Option<u64>,
    ) -> ReceiveResult {
        let mut room = ResponseBuffers::of(pieces);
        while !room.is_full() && self.cost_bytes < COST_BYTES_MAX {
            self.answer_questions();
            if self.is_passing(passing_from) {
                break;
            }
            let now = SystemTime::now();
            let sent = match self.conversation.output() {
                Output::Bytes(bytes) => room.put(bytes),
                Output::File { offset, bytes } => match self.read(&mut room, offset, bytes) {
                    Ok(0) if self.is_waiting() => break,
                    Ok(count) => count,
                    Err(_) => {
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

    /// Reports whether a range of a file is next that the kernel is to send.
    fn is_passing(&self, from: Option<u64>) -> bool {
        let range = self.range();
        from.zip(range).is_some_and(|(from, range)| range.bytes >= from)
    }

    /// Takes the cost of questions since the last call, in bytes that could have been moved
    /// instead.
    pub(crate) fn take_cost(&mut self) -> usize {
        std::mem::take(&mut self.cost_bytes)
    }

    fn close_finished(&mut self) {
        let is_sent =
            matches!(self.conversation.output(), Output::Nothing | Output::End | Output::Cut);
        if is_sent && self.conversation.question().is_none() {
            // The next request opens its own.
            self.open_instead(None);
        }
    }

    fn open_instead(&mut self, open: Option<Arc<File>>) {
        self.ahead = ReadAhead::default();
        if let Some(before) = std::mem::replace(&mut self.open, open) {
            self.file_context.close(&self.files, before);
        }
    }

    /// Returns the result of receiving this number of bytes.
    fn rest(&mut self, filled: usize) -> ReceiveResult {
        let output = self.conversation.output();
        self.is_over = output == Output::End || output == Output::Cut && filled == 0;
        match (output, filled) {
            (Output::End, 0) => ReceiveResult::End,
            (Output::End, count) => ReceiveResult::Last(count),
            (Output::Cut, 0) => ReceiveResult::Failed,
            (_, 0) => ReceiveResult::Nothing,
            (_, count) => ReceiveResult::Bytes(count),
        }
    }

    /// Answers questions at once where possible; a thread is asked for the rest.
    fn answer_questions(&mut self) {
        while !self.is_waiting()
            && let Some(question) = self.conversation.question()
        {
            self.cost_bytes += LOOK_BYTES;
            let (Question::Open(path) | Question::Replace(path)) = question;
            match self.files.find_cached(path) {
                Some((found, open)) => self.take_found(found, open),
                None => {
                    let task = FileWork::Find(path.to_vec());
                    self.ask(task);
                }
            }
        }
    }

    /// Answers a question with the result of a search.
    fn take_found(&mut self, found: FileLookup, open: Option<Arc<File>>) {
        match self.conversation.question() {
            Some(Question::Open(_)) => self.open_instead(open),
            // Unless a file was found, the open one stays.
            Some(Question::Replace(_)) if matches!(found, FileLookup::File { .. }) => {
                self.open_instead(open);
            }
            _ => {}
        }
        self.answer(found);
    }

    fn answer(&mut self, found: FileLookup) {
        self.conversation.answer(found, SystemTime::now());
        self.count();
    }

    /// Reads a range of the open file that is in memory, as far as there is room; 0 = a thread
    /// reads it.
    fn read(
        &mut self,
        room: &mut ResponseBuffers<'_>,
        offset: u64,
        bytes: u64,
    ) -> io::Result<usize> {
        let Some(file) = &self.open else {
            return Err(ErrorKind::NotFound.into());
        };
        let ahead = &mut self.ahead;
        if let Some(rest) = ahead.bytes.get(ahead.taken..).filter(|rest| !rest.is_empty()) {
            let count = room.put(rest);
            ahead.taken += count;
            return Ok(count);
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        while !ahead.must_wait {
            match room.fill(bytes, |slices| file.read_cached(slices, offset)) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted => {}
                    ErrorKind::WouldBlock => break,
                    ErrorKind::Unsupported => ahead.must_wait = true,
                    _ => return Err(error),
                },
                read => return read,
            }
        }
        let task = FileWork::Read(Arc::clone(file), offset, bytes.min(room.left()));
        self.ask_rest(task);
        Ok(0)
    }

    /// Gives a thread the task, for a request that is not yet answered.
    fn ask(&mut self, task: FileWork) {
        let job = self.job(task);
        if let Err(TooManyJobs) = self.file_context.threads.submit(job) {
            self.counters.count(ServiceCounter::FileTasksRefused);
            self.waiting.take().into_iter().for_each(|task| task.give_up(&self.counters));
            self.answer(FileLookup::Busy);
        }
    }

    /// Gives a thread the task, for an answer that has begun.
    fn ask_rest(&mut self, task: FileWork) {
        let job = self.job(task);
        self.file_context.threads.submit_rest(job);
    }

    /// Makes a job of the task, and waits for its reply.
    fn job(&mut self, task: FileWork) -> Job {
        let files = Arc::clone(&self.files);
        let mailbox = self.file_context.mailbox.clone();
        let is_wanted = Arc::new(AtomicBool::new(true));
        self.tasks += 1;
        self.counters.count(match task {
            FileWork::Find(_) => ServiceCounter::FileTasksFind,
            FileWork::Read(..) | FileWork::Fetch(..) => ServiceCounter::FileTasksRead,
        });
        self.counters.raise(ServiceGauge::FileTasksWaiting);
        self.waiting =
            Some(AwaitedWork { since: crate::clock::now(), is_wanted: Arc::clone(&is_wanted) });
        let (token, number) = (self.token, self.tasks);
        let work = move || {
            if is_wanted.load(Ordering::Relaxed) {
                let answer = files.perform(task);
                mailbox.send(Command::Replied(Box::new(Reply {
                    token,
                    task: number,
                    files,
                    answer,
                })));
            }
        };
        Job {
            source: Arc::clone(&self.files.source),
            limit: self.files.timeouts.file,
            work: Box::new(work),
        }
    }

    fn count(&mut self) {
        if let Some(status) = self.conversation.take_started() {
            self.counters.count(ServiceCounter::of_status(status));
        }
    }
}

impl Drop for FileBack {
    fn drop(&mut self) {
        if let Some(task) = self.waiting.take() {
            task.give_up(&self.counters);
        }
        self.open_instead(None);
    }
}

impl AwaitedWork {
    /// Marks the task as no longer awaited.
    fn give_up(&self, counters: &ServiceCounters) {
        self.is_wanted.store(false, Ordering::Relaxed);
        counters.lower(ServiceGauge::FileTasksWaiting);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use sys::beneath::Root;
    use sys::epoll::Waker;
    use telemetry::registry::Registry;

    use crate::descriptors::Descriptors;
    use crate::file_work::IS_COLD;
    use crate::options::FileTimeouts;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A connection to the files beneath a folder, and the channel of the threads' replies.
    fn back_of(folder: &str) -> (FileBack, Receiver<Command>) {
        let files = Files {
            root: Some(Root::open(folder.as_ref()).unwrap()),
            serving: Arc::new(static_files::options::Options {
                index: Vec::new(),
                ..Default::default()
            }),
            timeouts: FileTimeouts { request: 10 * SECOND, file: 20 * SECOND, rate_min: None },
            descriptors: Descriptors::default(),
            source: Arc::default(),
        };
        let counters = Registry::new(1).service(0, "files", &[]);
        let (commands, replies) = channel();
        let mailbox = Mailbox::new(commands, Arc::new(Waker::new().unwrap()));
        let file_context = Arc::new(FileContext::new(FileThreads::new(1), mailbox));
        (FileBack::new(&Arc::new(files), &counters, &file_context, 7), replies)
    }

    /// Files that are always in memory.
    fn back() -> FileBack {
        back_of("/proc/self").0
    }

    fn reply(replies: &Receiver<Command>) -> Reply {
        match replies.recv().unwrap() {
            Command::Replied(reply) => *reply,
            _ => panic!("nobody else tells anything"),
        }
    }

    fn said(back: &mut FileBack) -> (ReceiveResult, String) {
        let mut memory = vec![0; 256 << 10];
        let received = back.receive(&mut memory.chunks_mut(16 << 10), None);
        let (ReceiveResult::Bytes(count) | ReceiveResult::Last(count)) = received else {
            return (received, String::new());
        };
        memory.truncate(count);
        (received, String::from_utf8(memory).unwrap())
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
        assert!(matches!(received, ReceiveResult::Last(_)), "{received:?}");
        assert!(said.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{said}");
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
        let mut back = back();
        let requests = "GET /none HTTP/1.1\r\nHost: a\r\n\r\n".repeat(50);
        assert_eq!(back.take([requests.as_bytes(), &[]]), requests.len());
        let (_, text) = said(&mut back);
        assert_eq!(text.matches("HTTP/1.1 404 ").count(), 16);
        assert_eq!(back.take_cost(), 16 * LOOK_BYTES);
    }

    #[test]
    fn what_does_not_come_in_time_is_not_waited_for() {
        IS_COLD.set(true);
        let (mut back, replies) = back_of("/proc/self");
        let request = b"GET /comm HTTP/1.1\r\nHost: a\r\n\r\n";
        back.take([request, request]);
        assert_eq!(said(&mut back).0, ReceiveResult::Nothing);
        let late = reply(&replies);
        back.time_out(back.deadline().unwrap());
        let (_, text) = said(&mut back);
        assert!(text.starts_with("HTTP/1.1 503 "), "{text}");
        // The next request waits for its own answer.
        assert!(back.is_waiting());
        back.replied(late);
        assert!(back.is_waiting());
        back.replied(reply(&replies));
        assert!(said(&mut back).1.starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!((back.deadline(), back.is_readable()), (None, false));
        IS_COLD.set(false);
    }
}
