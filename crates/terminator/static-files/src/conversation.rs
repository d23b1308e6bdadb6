//! Drives one client's connection, from its first request to its last. Handles queued bytes,
//! framing, and the order of answers; other modules decide what is answered.

use std::sync::Arc;
use std::time::SystemTime;

use wire::http;

use crate::options::Options;
use crate::questions::{FileLookup, Output, Question};
use crate::request;
use crate::request::{
    CONTENT_BYTES_MAX, CONTENT_TOO_LARGE, Extent, HEAD_BYTES_MAX, Method, NO_CHUNKS, Refusal,
    Request, Status,
};
use crate::response::Response;
use crate::search::FileSearch;

/// Interim response before a client sends content (RFC 9110 section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const CONTINUE_BYTES: usize = CONTINUE.len();

/// One client's connection.
///
/// The caller passes bytes to [`receive`](Self::receive) and then, as long as there is one, answers
/// the [`question`](Self::question) and sends the [`output`](Self::output). Between requests no
/// buffer is held.
#[derive(Debug)]
pub struct Conversation {
    options: Arc<Options>,
    /// Received bytes that are not read yet: part of a head, or queued requests.
    input: Vec<u8>,
    /// Number of its bytes that are known to hold no end of a head.
    known: usize,
    stage: ConversationStage,
    /// An empty line before the head was skipped.
    blank: bool,
    /// No further request is read.
    last: bool,
    ended: bool,
    started: Option<u16>,
    /// Number of heads read.
    heads: u32,
}

#[derive(Debug)]
enum ConversationStage {
    Head,
    Content(Box<DroppedContent>),
    Asking(Box<FileSearch>),
    Answering(Box<Response>),
    Ended,
    Cut,
}

#[derive(Debug)]
struct DroppedContent {
    request: Request,
    content: http::Content,
    /// Bytes of the content received so far, with the framing of chunks.
    bytes: u64,
    /// Reason why no more of it is read.
    fault: Option<Refusal>,
    /// Rest of [`CONTINUE`] that must be sent.
    interim: &'static [u8],
}

impl DroppedContent {
    fn is_awaited(&self) -> bool {
        !self.content.is_done() && self.fault.is_none()
    }

    /// Reads on, and returns how many of these bytes belong to the content.
    fn read(&mut self, bytes: &[u8]) -> usize {
        // One byte more than allowed, so that the split of the bytes decides nothing.
        let left = usize::try_from(CONTENT_BYTES_MAX + 1 - self.bytes).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(left)];
        let read = self.content.read(bytes);
        let count = read.unwrap_or(bytes.len());
        self.bytes += count as u64;
        self.fault = match read {
            Err(_) => Some(NO_CHUNKS),
            Ok(_) if self.bytes > CONTENT_BYTES_MAX => Some(CONTENT_TOO_LARGE),
            Ok(_) => None,
        };
        count
    }
}

impl Conversation {
    /// Starts a conversation without any bytes.
    pub fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            input: Vec::new(),
            known: 0,
            stage: ConversationStage::Head,
            blank: false,
            last: false,
            ended: false,
            started: None,
            heads: 0,
        }
    }

    /// Takes bytes of requests and returns how many. Requests that wait for their turn are queued
    /// up to [`HEAD_BYTES_MAX`]; 0 means that more of the output must be sent first. Bytes after
    /// the last request are taken and dropped, so that a client which is still sending can read its
    /// answer.
    pub fn receive(&mut self, bytes: &[u8], now: SystemTime) -> usize {
        let mut rest = bytes;
        loop {
            let taken = self.take(rest);
            if taken == 0 {
                break;
            }
            rest = &rest[taken..];
            self.advance(now);
        }
        bytes.len() - rest.len()
    }

    /// Handles the end of the client's stream. Complete requests are still answered; then comes
    /// [`Output::End`].
    pub fn receive_end(&mut self) {
        self.ended = true;
        let unfinished = match &self.stage {
            ConversationStage::Head => true,
            ConversationStage::Content(content) => content.is_awaited(),
            _ => false,
        };
        if unfinished {
            self.finish(ConversationStage::Ended);
        }
    }

    /// Returns the question that must be answered before the conversation can continue.
    pub fn question(&self) -> Option<Question<'_>> {
        match &self.stage {
            ConversationStage::Asking(search) => Some(search.question()),
            _ => None,
        }
    }

    /// Takes the answer to the question; does nothing without a question.
    pub fn answer(&mut self, found: FileLookup, now: SystemTime) {
        let ConversationStage::Asking(search) = &mut self.stage else {
            return;
        };
        if let Some(outcome) = search.answer(found, &self.options) {
            let response = Response::to(&search.request, outcome, now);
            self.start(response);
        }
    }

    pub fn output(&self) -> Output<'_> {
        match &self.stage {
            ConversationStage::Content(content) if !content.interim.is_empty() => {
                Output::Bytes(content.interim)
            }
            ConversationStage::Head
            | ConversationStage::Content(_)
            | ConversationStage::Asking(_) => Output::Nothing,
            ConversationStage::Answering(response) => response.output(),
            ConversationStage::Ended => Output::End,
            ConversationStage::Cut => Output::Cut,
        }
    }

    /// Notes that this number of bytes of the output was sent; at most those of one piece.
    pub fn sent(&mut self, bytes: u64, now: SystemTime) {
        match &mut self.stage {
            ConversationStage::Content(content) => {
                let went = usize::try_from(bytes).unwrap_or(usize::MAX);
                content.interim = content.interim.get(went..).unwrap_or_default();
            }
            ConversationStage::Answering(response) => response.advance(bytes),
            _ => return,
        }
        self.advance(now);
    }

    /// Notes that the open file gave fewer bytes than promised, or none, so that the response
    /// cannot be finished. From now on the output is [`Output::Cut`].
    pub fn file_failed(&mut self) {
        self.finish(ConversationStage::Cut);
    }

    /// Returns the number of the request that has begun and not ended: part of its head has come,
    /// or the head without all of the content. `has_more` = bytes were received that are not
    /// readable yet, such as part of a TLS record.
    pub fn unfinished_request(&self, has_more: bool) -> Option<u32> {
        match &self.stage {
            ConversationStage::Head if has_more || !self.input.is_empty() => Some(self.heads),
            // The head was counted already.
            ConversationStage::Content(content) if content.is_awaited() => {
                Some(self.heads.wrapping_sub(1))
            }
            _ => None,
        }
    }

    /// Answers 408 because the rest of a request did not arrive in time; then comes [`Output::End`]
    /// (RFC 9110 section 15.5.9). Does nothing without an unfinished request.
    pub fn time_out_request(&mut self, now: SystemTime) {
        match &self.stage {
            ConversationStage::Head => {}
            ConversationStage::Content(content) if !content.is_awaited() => return,
            ConversationStage::Content(content)
                if matches!(content.interim.len(), 0 | CONTINUE_BYTES) => {}
            // Part of an interim response was sent, and nothing can follow it.
            ConversationStage::Content(_) => return self.finish(ConversationStage::Cut),
            _ => return,
        }
        let what = "the rest of the request did not come in time";
        self.refuse((Status::RequestTimeout, what), self.names_head(), now);
    }

    /// Returns the status of the response that began since the last call. At most one begins with
    /// each call of [`receive`](Self::receive), [`answer`](Self::answer) or [`sent`](Self::sent).
    pub fn take_started(&mut self) -> Option<u16> {
        self.started.take()
    }

    /// Takes some of the bytes, as the stage allows.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if let ConversationStage::Content(content) = &mut self.stage
            && content.is_awaited()
        {
            return content.read(bytes);
        }
        if self.last {
            return bytes.len();
        }
        let taken = bytes.len().min(HEAD_BYTES_MAX - self.input.len());
        self.input.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Advances as far as the received bytes allow.
    fn advance(&mut self, now: SystemTime) {
        loop {
            match &self.stage {
                ConversationStage::Head => {
                    if !self.read_head(now) {
                        return;
                    }
                }
                ConversationStage::Content(content)
                    if !content.is_awaited() && content.interim.is_empty() =>
                {
                    self.end_content(now);
                }
                ConversationStage::Answering(response) if response.output() == Output::Nothing => {
                    self.turn();
                }
                _ => return,
            }
        }
    }

    /// Reads a head, if a whole one was received.
    fn read_head(&mut self, now: SystemTime) -> bool {
        match request::extent(&self.input, self.known) {
            Extent::Whole(bytes) => {
                let request = Request::read(&self.input[..bytes], self.options.redirect);
                let names_head = self.names_head();
                self.drop_input(bytes);
                self.blank = false;
                self.heads = self.heads.wrapping_add(1);
                match request {
                    Ok(request) => self.read_content(request),
                    Err(refusal) => self.refuse(refusal, names_head, now),
                }
            }
            // RFC 9112 section 2.2: old clients send an empty line after content.
            Extent::Blank(bytes) if !self.blank => {
                self.drop_input(bytes);
                self.blank = true;
            }
            Extent::Blank(_) => {
                self.refuse(request::malformed("no request line"), false, now);
            }
            Extent::BareLineFeed => {
                let what = "a line does not end with CR and LF";
                self.refuse(request::malformed(what), self.names_head(), now);
            }
            Extent::Open(bytes) if bytes >= HEAD_BYTES_MAX => {
                let refusal = request::refuse_endless(&self.input);
                self.refuse(refusal, self.names_head(), now);
            }
            Extent::Open(bytes) => {
                self.known = bytes;
                if self.ended {
                    self.finish(ConversationStage::Ended);
                }
                return false;
            }
        }
        true
    }

    /// Reads the content after a request, some of which may have been received.
    fn read_content(&mut self, request: Request) {
        self.last = !request.persistent;
        let mut content = DroppedContent {
            content: http::Content::new(request.content),
            bytes: 0,
            fault: None,
            interim: if request.expects_continue { CONTINUE } else { &[] },
            request,
        };
        let there = content.read(&self.input);
        self.drop_input(there);
        if self.last {
            self.input = Vec::new();
        }
        if self.ended && content.is_awaited() {
            return self.finish(ConversationStage::Ended);
        }
        self.stage = ConversationStage::Content(Box::new(content));
    }

    /// Reports whether the request that is being received or answered uses HEAD.
    fn names_head(&self) -> bool {
        match &self.stage {
            ConversationStage::Content(content) => content.request.method == Method::Head,
            _ => self.input.starts_with(b"HEAD "),
        }
    }

    fn drop_input(&mut self, bytes: usize) {
        self.known = 0;
        if bytes >= self.input.len() {
            self.input = Vec::new();
        } else {
            self.input.drain(..bytes);
        }
    }

    /// Answers the request once its content was read, or no more of it is read.
    fn end_content(&mut self, now: SystemTime) {
        let names_head = self.names_head();
        let ConversationStage::Content(mut content) =
            std::mem::replace(&mut self.stage, ConversationStage::Head)
        else {
            return;
        };
        match content.fault {
            None => {}
            // The redirect tells the client where to send the content.
            Some(CONTENT_TOO_LARGE) if content.request.location.is_some() => {
                content.request.persistent = false;
                self.last = true;
                self.input = Vec::new();
            }
            Some(refusal) => return self.refuse(refusal, names_head, now),
        }
        match FileSearch::known_at_once(&content.request, &self.options) {
            Some(outcome) => self.start(Response::to(&content.request, outcome, now)),
            None => {
                let search = FileSearch::begin(content.request, &self.options);
                self.stage = ConversationStage::Asking(Box::new(search));
            }
        }
    }

    fn refuse(&mut self, refusal: Refusal, names_head: bool, now: SystemTime) {
        self.last = true;
        self.input = Vec::new();
        self.start(Response::to_fault(refusal, names_head, now));
    }

    fn start(&mut self, response: Response) {
        self.started = Some(response.status());
        self.stage = ConversationStage::Answering(Box::new(response));
    }

    fn turn(&mut self) {
        if self.last {
            self.finish(ConversationStage::Ended);
        } else {
            self.stage = ConversationStage::Head;
        }
    }

    fn finish(&mut self, stage: ConversationStage) {
        self.last = true;
        self.input = Vec::new();
        self.stage = stage;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_kept_between_requests() {
        let now = SystemTime::UNIX_EPOCH;
        let mut conversation = Conversation::new(Arc::default());
        let head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
        for piece in [&head[..7], &head[7..], b"abcd"] {
            assert_eq!(conversation.receive(piece, now), piece.len());
        }
        while let Output::Bytes(bytes) = conversation.output() {
            let count = bytes.len() as u64;
            conversation.sent(count, now);
        }
        assert_eq!(conversation.take_started(), Some(405));
        assert!(matches!(conversation.stage, ConversationStage::Head));
        assert_eq!(conversation.input.capacity(), 0);
    }
}
