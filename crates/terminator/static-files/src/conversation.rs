//! One client's connection, from its first request to its last: who speaks when. Owns the bytes
//! that wait, framing, and the order of answers; what is answered is decided by others.

use std::sync::Arc;
use std::time::SystemTime;

use wire::http;

use crate::options::Options;
use crate::questions::{Found, Output, Question};
use crate::request;
use crate::request::{
    CONTENT_BYTES_MAX, CONTENT_TOO_LARGE, Extent, HEAD_BYTES_MAX, Method, NO_CHUNKS, Refusal,
    Request, Status,
};
use crate::response::Response;
use crate::search::FileSearch;

/// The interim response before a client sends content (RFC 9110 section 15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

const CONTINUE_BYTES: usize = CONTINUE.len();

/// One client's connection.
///
/// Give it bytes by [`receive`](Self::receive), and then, as long as there is one, answer its
/// [`question`](Self::question) and send its [`output`](Self::output). Between requests it holds
/// no buffer.
#[derive(Debug)]
pub struct Conversation {
    options: Arc<Options>,
    /// The bytes that came and were not read yet: a part of a head, or requests that wait for their
    /// turn.
    input: Vec<u8>,
    /// The number of its bytes that hold no end of a head.
    known: usize,
    stage: ConversationStage,
    /// An empty line before the head was passed over.
    blank: bool,
    /// No further request is read.
    last: bool,
    /// The client's stream has ended.
    ended: bool,
    started: Option<u16>,
    /// How many heads were read.
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
    /// How much of it has come, with what frames chunks.
    bytes: u64,
    /// The reason why no more of it is read.
    fault: Option<Refusal>,
    /// The rest of [`CONTINUE`] that is to be sent.
    interim: &'static [u8],
}

impl DroppedContent {
    fn is_awaited(&self) -> bool {
        !self.content.is_done() && self.fault.is_none()
    }

    /// Reads on, and returns how many of these bytes belong to it.
    fn read(&mut self, bytes: &[u8]) -> usize {
        // One more than is allowed, so that the pace of the bytes decides nothing.
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
    /// A conversation in which nothing has been said.
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

    /// Takes bytes of requests and returns how many. Requests that wait for their turn are taken up
    /// to [`HEAD_BYTES_MAX`]; 0 means not now, but after more of the output went out. What comes
    /// after the last request is taken and dropped, so that the client, which may still be sending,
    /// can read its answer.
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

    /// The client's stream has ended. What was asked is still answered; then comes
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

    /// The question that must be answered before it can go on.
    pub fn question(&self) -> Option<Question<'_>> {
        match &self.stage {
            ConversationStage::Asking(search) => Some(search.question()),
            _ => None,
        }
    }

    /// Takes the answer to the question; without a question it means nothing.
    pub fn answer(&mut self, found: Found, now: SystemTime) {
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

    /// This number of bytes of the output was sent; at most those of one piece.
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

    /// The open file gave fewer bytes than it had, or none: what was promised cannot be kept. From
    /// now on the output is [`Output::Cut`].
    pub fn file_failed(&mut self) {
        self.finish(ConversationStage::Cut);
    }

    /// The number of the request whose end is awaited, since a part of it has come: a part of its
    /// head, or the head without all of the content. `has_more` = bytes that came are not yet
    /// readable, such as a part of a TLS record.
    pub fn unfinished_request(&self, has_more: bool) -> Option<u32> {
        match &self.stage {
            ConversationStage::Head if has_more || !self.input.is_empty() => Some(self.heads),
            // Its head was counted already.
            ConversationStage::Content(content) if content.is_awaited() => {
                Some(self.heads.wrapping_sub(1))
            }
            _ => None,
        }
    }

    /// The end of a request did not come in time: the answer is 408, and then comes
    /// [`Output::End`] (RFC 9110 section 15.5.9). Without an unfinished request it means nothing.
    pub fn time_out_request(&mut self, now: SystemTime) {
        match &self.stage {
            ConversationStage::Head => {}
            ConversationStage::Content(content) if !content.is_awaited() => return,
            ConversationStage::Content(content)
                if matches!(content.interim.len(), 0 | CONTINUE_BYTES) => {}
            // Half of an interim response has gone out, and nothing can follow it.
            ConversationStage::Content(_) => return self.finish(ConversationStage::Cut),
            _ => return,
        }
        let what = "the rest of the request did not come in time";
        self.refuse((Status::RequestTimeout, what), self.names_head(), now);
    }

    /// The status of the response that began since the last call. At most one begins with each
    /// call of [`receive`](Self::receive), [`answer`](Self::answer) or [`sent`](Self::sent).
    pub fn take_started(&mut self) -> Option<u16> {
        self.started.take()
    }

    /// Takes some of the bytes, as the stage has it.
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

    /// Goes on as far as it can with what is there.
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

    /// Reads a head, if a whole one is there.
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
            // RFC 9112 section 2.2: clients of old send an empty line after content.
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

    /// A request was read: its content comes next, some of which may be there.
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

    /// Whether the request that comes or is answered names HEAD, if it is one.
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

    /// The content was read, or no more of it is: what is asked for?
    fn end_content(&mut self, now: SystemTime) {
        let names_head = self.names_head();
        let ConversationStage::Content(mut content) =
            std::mem::replace(&mut self.stage, ConversationStage::Head)
        else {
            return;
        };
        match content.fault {
            None => {}
            // It is told where to send that.
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
