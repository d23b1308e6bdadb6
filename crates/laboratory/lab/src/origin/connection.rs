//! Serves one client: its socket, its requests, and the unsent rest of replies.
//!
//! A turn reads, answers, and writes once, with the worker's [`Buffers`]; between two requests a
//! connection holds no buffer. `worker` handles deadlines and readiness.

use std::io::{self, ErrorKind, IoSlice};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use sys::socket;
use wire::http::{Content as Upload, ContentEnd};

use super::answer::{BodyFraming, Download, OriginReply, Persistence, SLICES_MAX, bytes_at};
use super::request;
use super::request::{HEAD_BYTES_MAX, OriginContent, OriginMethod, OriginRequest, QueryFault};

/// Largest read of an upload.
const INPUT_BYTES: usize = 64 * 1024;

/// Replies to pipelined requests are sent together up to about this size. The limit bounds memory
/// for a client that does not read.
const OUT_BYTES_MAX: usize = 16 * 1024;

/// Shorter bodies are copied behind their head, because that costs less than two slices.
const COPIED_BYTES_MAX: u64 = 4096;

/// Reads and writes of one connection before others have their turn.
const ROUNDS_MAX: usize = 16;

/// How long input is read after a refusal, so that the client gets it: closing with unread input
/// would reset the connection (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum NextStep {
    /// Wait for any event of the socket.
    Wait,
    /// Wait until the socket has room, or for another event of it.
    WaitForRoom,
    Wake(Instant),
    /// Call again after other connections, because more work is left.
    Again,
    Close,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) connections: u64,
    pub(crate) replies: u64,
    pub(crate) sent_bytes: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.replies += other.replies;
        self.sent_bytes += other.sent_bytes;
    }
}

pub(super) struct Buffers {
    input: Box<[u8]>,
    pub(super) output: OriginOutput,
}

pub(super) struct OriginOutput {
    /// Bytes to send in this turn.
    out: Vec<u8>,
    last: KnownHead,
    pub(super) totals: Totals,
}

/// The last head with its request. Clients of a load send the same bytes again and again, so that
/// the head need not be parsed again.
struct KnownHead {
    head: Vec<u8>,
    request: OriginRequest,
    answer: OriginReply,
    reply: Vec<u8>,
    download: Option<Download>,
}

pub(super) struct OriginConnection {
    socket: OwnedFd,
    stage: OriginStage,
    /// Bytes read and not yet parsed, or not yet to be answered.
    kept: Vec<u8>,
    /// Whether `kept` is the beginning of one head and no more.
    kept_is_part: bool,
    /// Bytes to send; the download comes after them.
    unsent: Vec<u8>,
    /// A body that is being sent piece by piece.
    pub(super) download: Option<Download>,
    /// Whether the socket may have input.
    readable: bool,
    /// Whether the client's end was announced.
    end_seen: bool,
    /// Whether the client's end was read.
    ended: bool,
    active_at: Instant,
}

enum OriginStage {
    Head,
    /// A body is being received.
    Upload(Upload, OriginReply),
    Delay(Instant, OriginReply),
    /// Accepts no more requests and sends the rest; `linger` if there is input to discard.
    Last {
        linger: bool,
    },
    /// All was sent; input is discarded.
    Linger,
}

enum SendResult {
    All,
    UpToTheRoom,
    UpToTheTurn,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            input: vec![0; INPUT_BYTES].into(),
            output: OriginOutput {
                out: Vec::with_capacity(2 * OUT_BYTES_MAX),
                last: KnownHead::nothing(),
                totals: Totals::default(),
            },
        }
    }
}

impl OriginConnection {
    /// Makes a connection that was just accepted. A request may have arrived already.
    pub(super) fn new(socket: OwnedFd, now: Instant) -> Self {
        Self {
            socket,
            stage: OriginStage::Head,
            kept: Vec::new(),
            kept_is_part: false,
            unsent: Vec::new(),
            download: None,
            readable: true,
            end_seen: false,
            ended: false,
            active_at: now,
        }
    }

    /// Notes that there is input; `end` if the client's end follows it.
    #[inline]
    pub(super) fn note_readable(&mut self, end: bool) {
        self.readable = true;
        self.end_seen |= end;
    }

    /// Reports whether the client is to be closed as idle.
    pub(super) fn is_overdue(&self, now: Instant, idle_timeout: Duration) -> bool {
        let patience = match self.stage {
            OriginStage::Delay(..) => return false,
            OriginStage::Linger => LINGER.min(idle_timeout),
            _ => idle_timeout,
        };
        now.saturating_duration_since(self.active_at) >= patience
    }

    /// Does all work that is possible now.
    #[inline]
    pub(super) fn advance(&mut self, buffers: &mut Buffers, now: Instant) -> NextStep {
        // Errors of a client that has gone are ignored.
        self.turn(buffers, now).unwrap_or(NextStep::Close)
    }

    fn turn(&mut self, buffers: &mut Buffers, now: Instant) -> io::Result<NextStep> {
        if self.is_withheld(now) {
            return Ok(NextStep::Wait);
        }
        buffers.output.out.clear();
        buffers.output.out.append(&mut self.unsent);
        let mut rounds = 0;
        loop {
            self.end_delay(&mut buffers.output, now);
            match self.send(&mut buffers.output, now)? {
                SendResult::All => {}
                SendResult::UpToTheRoom => return Ok(NextStep::WaitForRoom),
                SendResult::UpToTheTurn => return Ok(NextStep::Again),
            }
            match self.stage {
                OriginStage::Delay(until, _) => return Ok(NextStep::Wake(until)),
                OriginStage::Last { linger } if !linger && !self.readable => {
                    return Ok(NextStep::Close);
                }
                OriginStage::Last { .. } => {
                    socket::shutdown_write(&self.socket)?;
                    self.stage = OriginStage::Linger;
                }
                OriginStage::Head | OriginStage::Upload(..) | OriginStage::Linger => {}
            }
            let waits = self.kept.is_empty() || self.kept_is_part;
            if waits && !self.readable {
                return Ok(if self.ended { NextStep::Close } else { NextStep::Wait });
            }
            if rounds == ROUNDS_MAX {
                return Ok(NextStep::Again);
            }
            rounds += 1;
            let filled = self.fill(&mut buffers.input)?;
            self.consume(&buffers.input[..filled], &mut buffers.output, now);
        }
    }

    /// Reports whether only a delayed reply is left.
    fn is_withheld(&self, now: Instant) -> bool {
        let all_sent = self.unsent.is_empty() && self.download.is_none();
        all_sent && matches!(self.stage, OriginStage::Delay(until, _) if now < until)
    }

    /// Moves kept bytes and new input into `input`, and returns their number.
    fn fill(&mut self, input: &mut [u8]) -> io::Result<usize> {
        let kept = mem::take(&mut self.kept);
        input[..kept.len()].copy_from_slice(&kept);
        if !kept.is_empty() && !self.kept_is_part {
            return Ok(kept.len());
        }
        // No more than can be kept if the input turns out to be requests.
        let limit = match self.stage {
            OriginStage::Upload(upload, _) => {
                let left = upload.bytes_left().unwrap_or(0);
                left.clamp(HEAD_BYTES_MAX as u64, INPUT_BYTES as u64) as usize
            }
            _ => HEAD_BYTES_MAX,
        };
        let room = &mut input[kept.len()..limit];
        match socket::read(&self.socket, room) {
            Ok(0) => {
                self.ended = true;
                self.readable = false;
                Ok(kept.len())
            }
            Ok(count) => {
                // A short read took all input, but perhaps not the end.
                self.readable = count == room.len() || self.end_seen;
                Ok(kept.len() + count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readable = false;
                Ok(kept.len())
            }
            Err(error) => Err(error),
        }
    }

    /// Answers the requests in `input`, and keeps bytes that must wait.
    fn consume(&mut self, input: &[u8], output: &mut OriginOutput, now: Instant) {
        let mut rest = input;
        self.kept_is_part = false;
        while !rest.is_empty() && !self.kept_is_part {
            let is_full = output.out.len() >= OUT_BYTES_MAX || self.download.is_some();
            rest = match &mut self.stage {
                OriginStage::Head if !is_full => self.take_head(rest, output, now),
                OriginStage::Upload(..) => self.take_body(rest, output, now),
                OriginStage::Last { linger } => {
                    *linger = true;
                    return;
                }
                OriginStage::Linger => return,
                OriginStage::Head | OriginStage::Delay(..) => break,
            };
        }
        self.kept.extend_from_slice(rest);
    }

    /// Takes a head off, and returns the bytes behind it.
    #[inline]
    fn take_head<'b>(
        &mut self,
        bytes: &'b [u8],
        output: &mut OriginOutput,
        now: Instant,
    ) -> &'b [u8] {
        if !output.last.is_of(bytes) {
            match request::parse(bytes) {
                Ok(Some((length, request))) => output.last.learn(&bytes[..length], request),
                Ok(None) => {
                    self.kept_is_part = true;
                    return bytes;
                }
                Err(fault) => {
                    self.refuse(&OriginReply::to_fault(fault), output);
                    return bytes;
                }
            }
        }
        self.active_at = now;
        let rest = &bytes[output.last.head.len()..];
        self.begin(rest.is_empty(), output, now);
        rest
    }

    /// Takes available bytes of a body off, and returns the bytes behind it.
    fn take_body<'b>(
        &mut self,
        bytes: &'b [u8],
        output: &mut OriginOutput,
        now: Instant,
    ) -> &'b [u8] {
        let OriginStage::Upload(upload, answer) = &mut self.stage else {
            return bytes;
        };
        self.active_at = now;
        let answer = *answer;
        let Ok(used) = upload.read(bytes) else {
            self.refuse(&OriginReply::refusal(400, "No well-formed chunks.\n"), output);
            return bytes;
        };
        if upload.is_done() {
            self.reply(&answer, output, now);
        }
        &bytes[used..]
    }

    /// Starts to answer the last head. `is_alone`: no bytes came behind it.
    #[inline]
    fn begin(&mut self, is_alone: bool, output: &mut OriginOutput, now: Instant) {
        let KnownHead { request, answer, .. } = output.last;
        let upload = Upload::new(request.content);
        if upload.is_done() {
            if answer.delay.is_zero() {
                self.reply_known(output);
            } else {
                self.reply(&answer, output, now);
            }
        } else if request.expects_continue && answer.code >= 400 {
            // The client waits for the reply first, and whether it still sends the body is unknown.
            self.refuse(&answer, output);
        } else {
            if request.expects_continue && is_alone {
                output.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
            self.stage = OriginStage::Upload(upload, answer);
        }
    }

    /// Replies to the last head at once.
    #[inline]
    fn reply_known(&mut self, output: &mut OriginOutput) {
        output.totals.replies += 1;
        output.out.extend_from_slice(&output.last.reply);
        self.download = output.last.download;
        if output.last.answer.persistence == Persistence::Close {
            self.stage = OriginStage::Last { linger: false };
        }
    }

    /// Replies, after the delay if there is one.
    fn reply(&mut self, answer: &OriginReply, output: &mut OriginOutput, now: Instant) {
        if !answer.delay.is_zero() {
            let undelayed = OriginReply { delay: Duration::ZERO, ..*answer };
            self.stage = OriginStage::Delay(now + answer.delay, undelayed);
            return;
        }
        output.totals.replies += 1;
        self.download = write_beginning(answer, &mut output.out);
        self.stage = match answer.persistence {
            Persistence::Close => OriginStage::Last { linger: false },
            Persistence::Keep | Persistence::KeepSaid => OriginStage::Head,
        };
    }

    /// Replies before the request was read to its end, and reads no further one.
    fn refuse(&mut self, answer: &OriginReply, output: &mut OriginOutput) {
        output.totals.replies += 1;
        let answer = OriginReply { persistence: Persistence::Close, ..*answer };
        self.download = write_beginning(&answer, &mut output.out);
        self.stage = OriginStage::Last { linger: true };
    }

    fn end_delay(&mut self, output: &mut OriginOutput, now: Instant) {
        if let OriginStage::Delay(until, answer) = self.stage
            && until <= now
        {
            self.active_at = now;
            self.reply(&answer, output, now);
        }
    }

    fn send(&mut self, output: &mut OriginOutput, now: Instant) -> io::Result<SendResult> {
        if output.out.is_empty() && self.download.is_none() {
            return Ok(SendResult::All);
        }
        let (written, offered) = self.write(&output.out);
        let written = match written {
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            written => written?,
        };
        self.note_sent(written, output, now);
        if output.out.is_empty() && self.download.is_none() {
            return Ok(SendResult::All);
        }
        self.unsent.append(&mut output.out);
        // A socket that takes less than it was offered is full; epoll reports when it has room.
        Ok(if written < offered { SendResult::UpToTheRoom } else { SendResult::UpToTheTurn })
    }

    /// Writes once; returns the result and the number of bytes offered.
    #[inline]
    fn write(&self, out: &[u8]) -> (io::Result<usize>, usize) {
        let Some(download) = &self.download else {
            return (socket::write(&self.socket, out), out.len());
        };
        let mut slices = [IoSlice::new(out); SLICES_MAX + 1];
        let count = download.fill(&mut slices[1..]);
        let slices = &slices[..=count];
        let offered = slices.iter().map(|slice| slice.len()).sum();
        (socket::write_vectored(&self.socket, slices), offered)
    }

    /// Removes sent bytes from the buffers.
    #[inline]
    fn note_sent(&mut self, written: usize, output: &mut OriginOutput, now: Instant) {
        if written > 0 {
            self.active_at = now;
        }
        output.totals.sent_bytes += written as u64;
        let of_out = written.min(output.out.len());
        if of_out == output.out.len() {
            output.out.clear();
        } else {
            output.out.drain(..of_out);
        }
        if let Some(download) = &mut self.download {
            download.advance((written - of_out) as u64);
            if download.is_done() {
                self.download = None;
            }
        }
    }
}

impl AsFd for OriginConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl KnownHead {
    /// Empty, because it is never looked up.
    fn nothing() -> Self {
        let request = OriginRequest {
            method: OriginMethod::Other,
            query: Err(QueryFault::Unknown),
            content: ContentEnd::Length(0),
            is_http10: false,
            keeps_alive: false,
            expects_continue: false,
        };
        Self {
            head: Vec::new(),
            request,
            answer: OriginReply::to(&request),
            reply: Vec::new(),
            download: None,
        }
    }

    fn is_of(&self, bytes: &[u8]) -> bool {
        !self.head.is_empty() && bytes.starts_with(&self.head)
    }

    fn learn(&mut self, head: &[u8], request: OriginRequest) {
        self.head.clear();
        self.head.extend_from_slice(head);
        self.request = request;
        self.answer = OriginReply::to(&request);
        self.reply.clear();
        self.download = write_beginning(&self.answer, &mut self.reply);
    }
}

/// Writes the head and a short body; returns a body that is to be sent separately.
fn write_beginning(answer: &OriginReply, out: &mut Vec<u8>) -> Option<Download> {
    answer.write_head(out);
    match (answer.framing, answer.content) {
        (BodyFraming::Absent | BodyFraming::Forbidden, _) => None,
        (_, OriginContent::Text(text)) => {
            out.extend_from_slice(text.as_bytes());
            None
        }
        (BodyFraming::Chunked, OriginContent::Pattern(bytes)) => Some(Download::chunked(bytes)),
        (_, OriginContent::Pattern(bytes)) if bytes <= COPIED_BYTES_MAX => {
            out.extend_from_slice(bytes_at(0, bytes));
            None
        }
        (_, OriginContent::Pattern(bytes)) => Some(Download::plain(bytes)),
    }
}
