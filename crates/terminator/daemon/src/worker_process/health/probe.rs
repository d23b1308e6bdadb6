//! One check of one server at one address: the dial and the dialog.
//!
//! Owns what counts as an answer, and how much of it is read.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backend::options::{CheckKind, CheckOptions, HttpCheck, HttpMethod};
use proxy::options::{ServerTls, Starttls};
use tls::probe::Probe;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use wire::address::{Address, Endpoint};
use wire::http::{self, Content, HeadFault, ResponseHead};
use wire::starttls::{self, Dialect, Dialog, DialogAction, HostNames, MysqlCheck, MysqlCheckStep};
use wire::tunnel::{Tunnel, TunnelDialog, TunnelStep};

use super::wording::{HEAD_BYTES_MAX, PassedStep, ProbeFault, host_of, request, server_name};
use crate::worker_process::dial::{self, READ_BYTES, Stream, shake_hands};

/// The content of an answer that is read, so that the server can finish it: it may log an error
/// if the connection ends before. A page for checks has less.
const CONTENT_BYTES_MAX: u64 = 1 << 20;

/// The answer to what a check sends that is looked through for what it expects.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// How long before the end of a check its answer is judged, so that it can be quoted.
const ANSWER_TIME_KEPT: Duration = Duration::from_millis(5);

/// How long a server may pause within its content. One that answers clients in turn, and waits for
/// the end of each connection, is not to be held up for the rest of the check's time.
const CONTENT_PAUSE_MAX: Duration = Duration::from_millis(100);

/// A limit that is noticed so late was not the server's to keep.
const STALL: Duration = Duration::from_secs(1);

/// The request to a server, made ready.
#[derive(Clone, Debug)]
pub(super) struct Target {
    preface: Vec<u8>,
    question: Question,
    /// The host that the server is asked for first.
    tunnel: Option<Arc<Tunnel>>,
    /// The TCP port in place of the server's own.
    port: Option<u16>,
    /// Whether it speaks to another door than connections: another port, or none of their TLS.
    is_apart: bool,
    /// How connections speak to the server, and which one it is.
    tls: Option<(ServerTls, usize)>,
    /// Whether it goes through TLS where connections do not, and the name that is asked for.
    any_tls: Option<Option<String>>,
    /// How it is asked for TLS.
    starttls: Option<Starttls>,
    timeout: Duration,
    /// The time in which a server of that protocol greets.
    greeting: Duration,
}

#[derive(Clone, Debug)]
enum Question {
    Http {
        request: Vec<u8>,
        check: HttpCheck,
    },
    Tcp,
    /// Bytes that are sent, and those that the answer has.
    Dialog(Vec<u8>, Option<Vec<u8>>),
    Tls {
        name: Option<String>,
    },
    /// A login that needs no user.
    Mysql,
    /// The greeting of the server of this protocol.
    Greeting(Dialect),
}

impl Target {
    /// `preface` is sent before all else, to the host behind the server if there is a `tunnel`. At
    /// another port it is the proxy itself that is checked.
    pub(super) fn new(
        check: &CheckOptions,
        endpoint: &Endpoint,
        tunnel: Option<Arc<Tunnel>>,
        preface: &[u8],
    ) -> Self {
        let tunnel = tunnel.filter(|_| check.port.is_none());
        let (question, name) = match &check.kind {
            CheckKind::Http(http) => {
                let host = http.host.clone().unwrap_or_else(|| match &tunnel {
                    Some(tunnel) => tunnel.authority(),
                    None => host_of(endpoint),
                });
                let request = request(http, &host);
                (Question::Http { request, check: http.clone() }, http.host.as_deref())
            }
            CheckKind::Tcp => (Question::Tcp, None),
            CheckKind::Dialog { send, expect, host } => {
                let expect = expect.as_ref().map(|text| text.clone().into_bytes());
                (Question::Dialog(send.clone().into_bytes(), expect), host.as_deref())
            }
            CheckKind::Tls { name } => (Question::Tls { name: name.clone() }, None),
        };
        Self {
            preface: if check.port.is_none() { preface.to_vec() } else { Vec::new() },
            question,
            tunnel,
            port: check.port,
            is_apart: check.port.is_some() || check.tls == Some(false),
            tls: None,
            any_tls: (check.tls == Some(true)).then(|| name.and_then(server_name)),
            starttls: None,
            timeout: check.timeout,
            greeting: Duration::ZERO,
        }
    }

    /// Asks through TLS, as connections of the service do.
    pub(super) fn through(mut self, tls: Option<(ServerTls, usize)>) -> Self {
        self.tls = tls.filter(|_| !self.is_apart);
        self
    }

    /// Asks in the service's own protocol: its greeting is heard, and a server of MySQL, which a
    /// connection without a login would harm, gets one.
    pub(super) fn speaking(mut self, starttls: Option<&Starttls>, greeting: Duration) -> Self {
        self.greeting = greeting;
        let Some(starttls) = starttls.filter(|_| !self.is_apart) else {
            return self;
        };
        let is_begun_plain = starttls.sides.back || self.tls.is_none();
        match (&self.question, starttls.dialect) {
            (Question::Tcp | Question::Tls { .. }, Dialect::Mysql) if is_begun_plain => {
                self.question = Question::Mysql;
            }
            (Question::Tcp, dialect) if is_begun_plain && dialect.is_greeted() => {
                self.question = Question::Greeting(dialect);
            }
            (Question::Tcp, _) => {}
            _ if starttls.sides.back => self.starttls = Some(starttls.clone()),
            _ => {}
        }
        self
    }

    /// Checks once; again if this process was stalled meanwhile.
    pub(super) async fn probe(
        &self,
        address: &Address,
        permits: &Semaphore,
    ) -> Result<PassedStep, ProbeFault> {
        loop {
            let result = self.probe_once(address, permits).await;
            if !matches!(result, Err(ProbeFault::Stalled)) {
                return result;
            }
        }
    }

    /// Dials and asks, within `timeout` from when it has one of the `permits`; but a server that
    /// may greet after a pause has `greeting` for that, if it is longer, and holds no permit
    /// meanwhile. An answer that has come in time counts, even if its content does not end in the
    /// time that is left.
    async fn probe_once(
        &self,
        address: &Address,
        permits: &Semaphore,
    ) -> Result<PassedStep, ProbeFault> {
        let (timeout, greeting) = (self.timeout, self.greeting);
        let (mut before, mut inside) = (&self.preface[..], &[][..]);
        if self.tls.as_ref().is_some_and(|(tls, _)| tls.header_inside) {
            (before, inside) = (inside, before);
        }
        let permit = permits.acquire().await;
        let until = Instant::now() + timeout;
        let mut stream = within(until, timeout, self.dial(address, before)).await?;
        let begun = Instant::now();
        let is_late = self.greets_late() && greeting > timeout;
        let (limit, end) = if is_late {
            drop(permit);
            (greeting, begun + greeting)
        } else {
            (timeout, until)
        };
        if let Question::Greeting(dialect) = &self.question {
            return within(end, limit, hear(&mut *stream, *dialect)).await;
        }
        if let Some(starttls) = &self.starttls {
            within(end, limit, ask_for_tls(&mut *stream, starttls)).await?;
        }
        let (mut until, mut _permit_again) = (until, None);
        if is_late {
            _permit_again = Some(permits.acquire().await);
            until += begun.elapsed();
        }
        let (passed, content) = within(until, timeout, self.ask(stream, inside, until)).await?;
        if let Some((answer, content)) = content {
            let _ = tokio::time::timeout_at(until, answer.finish(content)).await;
        }
        passed
    }

    /// Connects, through a proxy or not, and sends what goes before all else.
    async fn dial(&self, address: &Address, preface: &[u8]) -> Result<Box<dyn Stream>, ProbeFault> {
        let mut stream = dial::dial(&self.door(address)).await.map_err(ProbeFault::Dial)?;
        if let Some(tunnel) = &self.tunnel {
            ask_for_tunnel(&mut *stream, tunnel).await?;
        }
        if !preface.is_empty() {
            stream.write_all(preface).await?;
        }
        Ok(stream)
    }

    /// The address that is checked.
    fn door(&self, address: &Address) -> Address {
        match (address, self.port) {
            (Address::Ip(ip), Some(port)) => {
                let mut door: SocketAddr = *ip;
                door.set_port(port);
                Address::Ip(door)
            }
            _ => address.clone(),
        }
    }

    /// The handshake that comes first; `None` = it goes without TLS.
    fn client(&self) -> Result<Option<Probe>, ProbeFault> {
        Ok(match (&self.tls, &self.any_tls) {
            (Some((tls, server)), _) => Some(tls.client.probe(*server, None)?),
            (None, Some(name)) => Some(Probe::new(name.as_deref())?),
            (None, None) => None,
        })
    }

    fn greets_late(&self) -> bool {
        match (&self.question, &self.starttls) {
            (Question::Greeting(dialect), _) => dialect.greets_late(),
            (_, starttls) => starttls.as_ref().is_some_and(|one| one.dialect.greets_late()),
        }
    }

    /// Asks a server that is greeted, and has agreed to TLS, where it has to be. `inside` goes
    /// before all else, in TLS.
    async fn ask(
        &self,
        mut stream: Box<dyn Stream>,
        inside: &[u8],
        until: Instant,
    ) -> Result<Asked, ProbeFault> {
        let passed = match (&self.question, &self.tls) {
            (Question::Mysql, tls) => {
                let answer = CheckReply { stream, probe: None, bytes: Vec::new() };
                answer.log_in(tls.as_ref(), inside).await
            }
            (Question::Tcp | Question::Greeting(_), _) => Ok(PassedStep::Connected),
            (Question::Http { .. } | Question::Dialog(..), _) => {
                let (mut probe, mut bytes) = (self.client()?, Vec::new());
                if let Some(probe) = &mut probe {
                    shake_hands(&mut *stream, probe).await?;
                    // A server that speaks first may have done so already.
                    probe.data(&[], &mut bytes)?;
                }
                let answer = CheckReply { stream, probe, bytes };
                return match &self.question {
                    Question::Http { request, check } => {
                        answer.ask(&[inside, request].concat(), check).await
                    }
                    Question::Dialog(send, expect) => {
                        let send = [inside, send].concat();
                        Ok((answer.talk(&send, expect.as_deref(), until).await, None))
                    }
                    _ => unreachable!("it is one of the two"),
                };
            }
            (Question::Tls { name }, tls) => {
                let name = name.as_deref();
                let mut probe = match tls {
                    Some((tls, server)) => tls.client.probe(*server, name)?,
                    None => Probe::new(name)?,
                };
                shake_hands(&mut *stream, &mut probe).await?;
                probe.send(inside);
                CheckReply { stream, probe: Some(probe), bytes: Vec::new() }.close().await;
                Ok(PassedStep::Handshake)
            }
        };
        Ok((passed, None))
    }
}

/// The result, and the answer whose content is still to be read.
type Asked = (Result<PassedStep, ProbeFault>, Option<(CheckReply, Content)>);

struct CheckReply {
    stream: Box<dyn Stream>,
    /// The TLS that it comes through.
    probe: Option<Probe>,
    /// Bytes that have come and were not used.
    bytes: Vec<u8>,
}

impl CheckReply {
    async fn send(&mut self, bytes: &[u8]) -> Result<(), ProbeFault> {
        match &mut self.probe {
            Some(probe) => {
                probe.send(bytes);
                self.stream.write_all(&probe.output()).await?;
            }
            None => self.stream.write_all(bytes).await?,
        }
        Ok(())
    }

    /// Sends that, and reads until what is expected has come, or something else and no more of it
    /// shortly before the time is over.
    async fn talk(
        mut self,
        send: &[u8],
        expect: Option<&[u8]>,
        until: Instant,
    ) -> Result<PassedStep, ProbeFault> {
        self.send(send).await?;
        let mut passed = PassedStep::Connected;
        if let Some(expect) = expect {
            let mut looked = 0;
            while !has(&self.bytes, &mut looked, expect) {
                let before = until - ANSWER_TIME_KEPT;
                let is_ended = match tokio::time::timeout_at(before, self.read()).await {
                    Err(_) | Ok(Err(ProbeFault::Closed)) if !self.bytes.is_empty() => true,
                    Err(_) => self.read().await.map(|()| false)?,
                    Ok(read) => read.map(|()| false)?,
                };
                if is_ended || self.bytes.len() > ANSWER_BYTES_MAX {
                    let answer = String::from_utf8_lossy(&self.bytes);
                    return Err(ProbeFault::Unexpected(answer.chars().take(80).collect()));
                }
            }
            passed = PassedStep::Expected;
        }
        self.close().await;
        Ok(passed)
    }

    /// Sends a request, and reads up to the head of the final response, or up to what its content
    /// must have.
    async fn ask(mut self, request: &[u8], check: &HttpCheck) -> Result<Asked, ProbeFault> {
        self.send(request).await?;
        let (mut left, to_head) = (HEAD_BYTES_MAX, check.method == HttpMethod::Head);
        loop {
            match ResponseHead::parse(&self.bytes, left, to_head) {
                Ok(Some(head)) => {
                    self.bytes.drain(..head.bytes);
                    left = left.saturating_sub(head.bytes);
                    if head.status != 101 && head.status < 200 {
                        continue;
                    }
                    let mut content = Content::new(head.content);
                    let passed = judge(check, head.status);
                    if let (Ok(_), Some(wanted)) = (&passed, &check.content)
                        && !self.has_content(&mut content, wanted.as_bytes()).await?
                    {
                        return Ok((Err(ProbeFault::Content(head.status)), Some((self, content))));
                    }
                    return Ok((passed, Some((self, content))));
                }
                Ok(None) => self.read().await?,
                Err(HeadFault::TooLarge) => return Err(ProbeFault::HeadTooLong),
                // No client may take such a response (RFC 9112 section 6.3).
                Err(HeadFault::Length) => return Err(ProbeFault::Length),
                // Clients are the judges of its fields; but without them no content begins.
                Err(_) => match http::status_code(&self.bytes) {
                    Ok(Some(code)) => {
                        let passed = judge(check, code);
                        let is_cut = passed.is_ok() && check.content.is_some();
                        return Ok((if is_cut { Err(ProbeFault::NotHttp) } else { passed }, None));
                    }
                    Ok(None) => self.read().await?,
                    Err(_) => return Err(ProbeFault::NotHttp),
                },
            }
        }
    }

    /// Reads the content until it has that.
    async fn has_content(
        &mut self,
        content: &mut Content,
        wanted: &[u8],
    ) -> Result<bool, ProbeFault> {
        let (mut text, mut looked) = (Vec::new(), 0);
        loop {
            for byte in self.bytes.drain(..) {
                let before = content.bytes();
                content.read(&[byte]).map_err(|_| ProbeFault::NotHttp)?;
                text.extend((content.bytes() > before).then_some(byte));
            }
            if has(&text, &mut looked, wanted) {
                return Ok(true);
            }
            if content.is_done() || content.bytes() >= CONTENT_BYTES_MAX {
                return Ok(false);
            }
            // The limit above is this one's.
            self.probe.iter_mut().for_each(Probe::answered);
            match self.read().await {
                Err(ProbeFault::Closed) if content.may_end_by_close() => return Ok(false),
                read => read?,
            }
        }
    }

    async fn read(&mut self) -> Result<(), ProbeFault> {
        let mut buffer = [0; READ_BYTES];
        if let Some(probe) = &mut self.probe {
            self.stream.write_all(&probe.output()).await?;
        }
        let before = self.bytes.len();
        let count = self.stream.read(&mut buffer).await?;
        match &mut self.probe {
            Some(probe) => probe.data(&buffer[..count], &mut self.bytes)?,
            None => self.bytes.extend_from_slice(&buffer[..count]),
        }
        let is_ended = count == 0 || self.probe.as_ref().is_some_and(Probe::is_ended);
        if is_ended && self.bytes.len() == before {
            return Err(ProbeFault::Closed);
        }
        Ok(())
    }

    /// Reads the content, as much as there may be of it, and closes.
    async fn finish(mut self, mut content: Content) {
        while content.read(&self.bytes).is_ok()
            && !content.is_done()
            && content.bytes() < CONTENT_BYTES_MAX
        {
            self.bytes.clear();
            let more = tokio::time::timeout(CONTENT_PAUSE_MAX, self.read()).await;
            if !matches!(more, Ok(Ok(()))) {
                break;
            }
        }
        self.close().await;
    }

    /// Logs in as nobody, and hears whether the server would have it.
    async fn log_in(
        mut self,
        tls: Option<&(ServerTls, usize)>,
        inside: &[u8],
    ) -> Result<PassedStep, ProbeFault> {
        let mut check = MysqlCheck::new(tls.is_some());
        loop {
            self.read().await?;
            let received = std::mem::take(&mut self.bytes);
            let (bytes, is_up) = match (check.from_server(&received), tls) {
                (MysqlCheckStep::More, _) => continue,
                (MysqlCheckStep::Send(bytes), _) => (bytes, false),
                (MysqlCheckStep::StartTls(request), Some((tls, server))) => {
                    self.send(&request).await?;
                    let probe = self.probe.insert(tls.client.probe(*server, None)?);
                    shake_hands(&mut *self.stream, probe).await?;
                    probe.send(inside);
                    (check.tls_up(), false)
                }
                (MysqlCheckStep::StartTls(_), None) => {
                    unreachable!("it is asked for with TLS alone")
                }
                (MysqlCheckStep::Up(bytes), _) => (bytes, true),
                (MysqlCheckStep::Down(why), _) => return Err(ProbeFault::Mysql(why)),
            };
            let sent = self.send(&bytes).await;
            if is_up {
                // What is sent now is a courtesy.
                return Ok(PassedStep::Login);
            }
            sent?;
        }
    }

    /// Ends TLS: a courtesy, which spares the server an error in its log.
    async fn close(mut self) {
        if let Some(probe) = self.probe {
            let _ = self.stream.write_all(&probe.close()).await;
        }
    }
}

/// Whether the text has that; `looked` bytes were looked through before.
fn has(text: &[u8], looked: &mut usize, wanted: &[u8]) -> bool {
    let begin = looked.saturating_sub(wanted.len());
    *looked = text.len();
    let mut windows = text.get(begin..).unwrap_or_default().windows(wanted.len().max(1));
    windows.any(|part| part == wanted)
}

/// Waits until then at the longest, which is this long. An end that comes much later says only that
/// this process was stopped, or got no time: the answer may have come meanwhile.
async fn within<T>(
    until: Instant,
    limit: Duration,
    step: impl Future<Output = Result<T, ProbeFault>>,
) -> Result<T, ProbeFault> {
    let done = tokio::time::timeout_at(until, step).await;
    let is_stalled = done.is_err() && Instant::now() >= until + STALL;
    let late = if is_stalled { ProbeFault::Stalled } else { ProbeFault::TimedOut(limit) };
    done.unwrap_or(Err(late))
}

/// Reads some bytes, at least one.
async fn read(stream: &mut dyn Stream, buffer: &mut [u8]) -> Result<usize, ProbeFault> {
    match stream.read(buffer).await? {
        0 => Err(ProbeFault::Closed),
        count => Ok(count),
    }
}

/// Leads the dialog with a proxy up to the first byte of the host behind it.
async fn ask_for_tunnel(stream: &mut dyn Stream, tunnel: &Tunnel) -> Result<(), ProbeFault> {
    let (mut dialog, first) = TunnelDialog::begin(tunnel);
    stream.write_all(&first).await?;
    let mut buffer = [0; READ_BYTES];
    loop {
        let room = dialog.wants().min(buffer.len());
        let count = read(stream, &mut buffer[..room]).await?;
        match dialog.received(&buffer[..count], tunnel)? {
            TunnelStep::More => {}
            TunnelStep::Send(bytes) => stream.write_all(&bytes).await?,
            TunnelStep::Up => return Ok(()),
        }
    }
}

fn judge(check: &HttpCheck, status: u16) -> Result<PassedStep, ProbeFault> {
    if check.statuses.iter().any(|range| range.contains(&status)) {
        return Ok(PassedStep::Status(status));
    }
    Err(ProbeFault::Status(status))
}

/// Waits for a greeting that is no error. That the server offers no TLS is no fault: connections
/// may need none, or those of another check.
async fn hear(stream: &mut dyn Stream, dialect: Dialect) -> Result<PassedStep, ProbeFault> {
    // It is told nothing.
    let names = HostNames { own: "", server: None };
    let mut dialog = Dialog::asking(dialect, names);
    let mut out = dialog.server_connected();
    let mut buffer = [0; READ_BYTES];
    loop {
        match out.next {
            DialogAction::Fail(starttls::Fault::ServerWithoutTls(_)) => {
                return Ok(PassedStep::Greeted);
            }
            DialogAction::Fail(fault) => return Err(ProbeFault::Starttls(fault)),
            // It has been greeted, and asks.
            _ if !out.to_server.is_empty() => return Ok(PassedStep::Greeted),
            _ => {}
        }
        let count = read(stream, &mut buffer).await?;
        out = dialog.server_sent(&buffer[..count]);
    }
}

/// Leads the conversation of a protocol up to where TLS begins.
async fn ask_for_tls(stream: &mut dyn Stream, starttls: &Starttls) -> Result<(), ProbeFault> {
    let mut dialog = Dialog::asking(starttls.dialect, starttls.names());
    let mut out = dialog.server_connected();
    let mut buffer = [0; READ_BYTES];
    loop {
        stream.write_all(&out.to_server).await?;
        match out.next {
            DialogAction::StartServerTls => return Ok(()),
            DialogAction::Fail(fault) => return Err(ProbeFault::Starttls(fault)),
            _ => {}
        }
        let count = read(stream, &mut buffer).await?;
        out = dialog.server_sent(&buffer[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_pieces() {
        let (mut text, mut looked) = (Vec::new(), 0);
        for (piece, is_there) in [("ro", false), ("le: pri", false), ("mary", true)] {
            text.extend_from_slice(piece.as_bytes());
            assert_eq!(has(&text, &mut looked, b"role: primary"), is_there, "{piece}");
        }
    }
}
