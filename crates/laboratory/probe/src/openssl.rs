//! Uses an installed OpenSSL as the client of servers with which `load` makes no handshake: CBC,
//! RSA key exchange, TLS 1.0 and 1.1.
//!
//! `openssl s_client` connects to a loopback socket of ours, and its bytes are relayed to the
//! address and back. The dialogue before TLS and all limits are thus those of other connections,
//! and the result is read from the server's bytes: the program's output is ignored.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use load::observe::TimeLimited;
use load::observe::records::{
    self, ALERT, CHANGE_CIPHER_SPEC, HANDSHAKE, RecordFindings, Ticket, opaque,
};
use measure::probe::{NodeReport, ProbeTrouble, Resumes, TroubleKind};
use wire::alert;

use crate::hello::{HelloChoice, flight_so_far};
use crate::offers::Visit;
use crate::reach::{ReachedAddress, TimedStream, trouble};
use crate::registry::GROUPS;

/// Number of connections with `-reconnect`: the first and five more.
const CONVERSATIONS_MAX: usize = 6;
/// Maximum bytes to receive from a server: 1 MiB. Chains are a few KiB.
const RECEIVED_BYTES_MAX: usize = 1 << 20;
/// How long to read from a server after its handshake, if it has something to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(1);
/// How long the program may take to connect, or to exit: it does both at once on any host.
const PROGRAM_WAIT: Duration = Duration::from_secs(5);
/// Pause between two checks whether the program has connected.
const PROGRAM_STEP: Duration = Duration::from_millis(2);

/// Options of the program for each version that it may support.
const VERSIONS: [(&str, &str); 3] =
    [("TLSv1.2", "-tls1_2"), ("TLSv1.1", "-tls1_1"), ("TLSv1.0", "-tls1")];

/// Groups that the program offers by default.
const USUAL_GROUPS: [&str; 5] = ["x25519", "secp256r1", "x448", "secp521r1", "secp384r1"];

/// A connection of the program, as read from the server's bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct CarriedHandshake {
    pub(crate) choice: HelloChoice,
    /// Whether ServerHelloDone is missing, as in an abbreviated flight (RFC 5246, section 7.3).
    pub(crate) is_resumed: bool,
    session_id: Vec<u8>,
    pub(crate) tickets: Vec<Ticket>,
}

impl CarriedHandshake {
    /// Reports whether the server issues something to resume with.
    pub(crate) fn gives(&self, kind: Resumes) -> bool {
        match kind {
            Resumes::SessionId => !self.session_id.is_empty(),
            Resumes::Ticket | Resumes::Psk => !self.tickets.is_empty(),
        }
    }
}

/// Purpose of a run of the program.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// One handshake.
    Once,
    /// One handshake, then the same session again and again: by ticket, or by ID.
    Resume { tickets: bool },
    /// One handshake, and a second one on the same connection, started by the client.
    Renegotiate,
}

impl Purpose {
    fn options(self) -> &'static [&'static str] {
        match self {
            Self::Once => &["-status"],
            Self::Resume { tickets: true } => &["-reconnect"],
            Self::Resume { tickets: false } => &["-reconnect", "-no_ticket"],
            Self::Renegotiate => &[],
        }
    }
}

impl Visit<'_> {
    /// Makes full handshakes with the program in this version; at least one.
    pub(crate) fn carried_handshakes(
        &self,
        version: &str,
        purpose: Purpose,
    ) -> Result<Vec<CarriedHandshake>, ProbeTrouble> {
        let all = self.carried(version, purpose)?;
        let whole: Vec<_> = all.iter().filter_map(|received| handshake(received)).collect();
        if whole.is_empty() {
            let received = all.first().map_or(&[][..], Vec::as_slice);
            return Err(failure(received));
        }
        Ok(whole)
    }

    /// Reports whether a client may renegotiate; `None` if no client could try. Tries once.
    pub(crate) fn client_renegotiation(&self, version: &str) -> Option<bool> {
        let all = self.carried(version, Purpose::Renegotiate).ok()?;
        let received = all.first()?;
        handshake(received)?;
        Some(after_handshake(received) == Some(HANDSHAKE))
    }

    fn carried(&self, version: &str, purpose: Purpose) -> Result<Vec<Vec<u8>>, ProbeTrouble> {
        let failed = |error: std::io::Error| {
            let text = match error.kind() {
                ErrorKind::NotFound => "no `openssl` is installed, which could".to_owned(),
                _ => format!("`openssl` cannot be run: {error}"),
            };
            trouble(TroubleKind::Refused, text)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let mut command = command(version, purpose).ok_or_else(|| {
            trouble(TroubleKind::Refused, format!("no client here speaks {version}"))
        })?;
        if let Some(groups) = &*self.openssl_groups.borrow() {
            command.args(["-groups", groups]);
        }
        match &self.options.server_name {
            Some(name) => command.args(["-servername", name]),
            None => command.arg("-noservername"),
        };
        let near = listener.local_addr().map_err(failed)?.to_string();
        let mut program =
            RunningProgram(command.args(["-connect", &near]).spawn().map_err(failed)?);
        let input = program.0.stdin.take();
        let mut input = input.filter(|_| purpose == Purpose::Renegotiate);
        if let Some(input) = &mut input {
            // The program reads this after the handshake.
            input.write_all(b"R\n").map_err(failed)?;
        }
        let mut all = Vec::new();
        while all.len() < CONVERSATIONS_MAX {
            let Some(near) = program.connection(&listener) else { break };
            let far = self.reach.open()?;
            all.push(carry(self.reach, &near, far, purpose)?);
            if purpose == Purpose::Renegotiate {
                break;
            }
        }
        Ok(all)
    }
}

/// Returns the server's groups and the curve of its key if the program does not offer them by
/// default: a build without such groups does not start.
pub(crate) fn unusual_groups(node: &NodeReport) -> Option<String> {
    let key = node.plaintext_certificate.as_ref().and_then(|one| one.key.strip_prefix("ECDSA "));
    let is_unusual = |curve: &&str| GROUPS.iter().any(|(_, name)| name == curve);
    let groups: BTreeSet<&str> =
        node.versions.iter().flat_map(|one| &one.groups).map(String::as_str).collect();
    let is_usual = groups.is_empty() || groups.iter().any(|group| USUAL_GROUPS.contains(group));
    // The curve must be offered too (RFC 8422, section 5.1.1).
    let curve = key.filter(|curve| curve.starts_with("P-") || is_unusual(curve));
    let all = groups.into_iter().chain(curve).collect::<Vec<_>>().join(":");
    (curve.as_ref().is_some_and(is_unusual) || !is_usual).then_some(all)
}

fn command(version: &str, purpose: Purpose) -> Option<Command> {
    let (_, option) = VERSIONS.iter().find(|(name, _)| *name == version)?;
    let mut command = Command::new("openssl");
    command.args(["s_client", option, "-legacy_server_connect"]);
    command.args(["-cipher", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]).args(purpose.options());
    // The host's settings may forbid the offer under test.
    command.env("OPENSSL_CONF", "/dev/null");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(command)
}

/// The running program, killed when this value is dropped.
struct RunningProgram(Child);

impl RunningProgram {
    /// Accepts the program's next connection; `None` if it makes no more.
    fn connection(&mut self, listener: &TcpListener) -> Option<TcpStream> {
        let until = Instant::now() + PROGRAM_WAIT;
        while Instant::now() < until {
            match listener.accept() {
                Ok((near, _)) => {
                    near.set_nonblocking(false).ok()?;
                    return Some(near);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
            if !matches!(self.0.try_wait(), Ok(None)) {
                return None;
            }
            thread::sleep(PROGRAM_STEP);
        }
        None
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ended_before = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Relays bytes both ways until one side closes, and returns the server's.
fn carry(
    reach: &ReachedAddress<'_>,
    near: &TcpStream,
    mut far: TimedStream<'_>,
    purpose: Purpose,
) -> Result<Vec<u8>, ProbeTrouble> {
    let to_far = far.socket().try_clone();
    let to_far = to_far.map_err(|error| reach.broken(&error, "a connection for openssl"))?;
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut from, mut to) = (near, &to_far);
            let _ended = std::io::copy(&mut from, &mut to);
            // Nobody is left to read an answer.
            let _gone = to_far.shutdown(Shutdown::Both);
        });
        let received = received(reach, near, &mut far, purpose);
        let _gone = (near.shutdown(Shutdown::Both), far.socket().shutdown(Shutdown::Both));
        received
    })
}

fn received(
    reach: &ReachedAddress<'_>,
    mut near: &TcpStream,
    far: &mut TimedStream<'_>,
    purpose: Purpose,
) -> Result<Vec<u8>, ProbeTrouble> {
    let (mut received, mut is_whole) = (Vec::new(), false);
    let mut chunk = [0; 4096];
    while received.len() < RECEIVED_BYTES_MAX {
        let count = match far.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => count,
            // A peer that is silent after a handshake has completed it.
            Err(_) if is_whole => break,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => return Err(reach.broken(&error, "the handshake with openssl")),
        };
        let came = chunk.get(..count).unwrap_or_default();
        received.extend_from_slice(came);
        if near.write_all(came).is_err() {
            break;
        }
        if !is_whole && handshake(&received).is_some() {
            is_whole = true;
            far.shorten(ANSWER_WAIT);
        }
        let is_answered = purpose == Purpose::Renegotiate && after_handshake(&received).is_some();
        if is_answered {
            break;
        }
    }
    Ok(received)
}

/// Returns the handshake in a server's bytes if it is complete: up to its encrypted Finished.
fn handshake(received: &[u8]) -> Option<CarriedHandshake> {
    let mut kinds = records::all(received).map(|(kind, _)| kind);
    kinds.find(|kind| *kind == CHANGE_CIPHER_SPEC)?;
    kinds.find(|kind| *kind == HANDSHAKE)?;
    let (choice, is_full) = flight_so_far(&records::clear(received)).ok()?;
    let RecordFindings { session_id, tickets, .. } = opaque(received, None);
    Some(CarriedHandshake { choice: choice?, is_resumed: !is_full, session_id, tickets })
}

/// Returns the type of the first record behind the server's Finished.
fn after_handshake(received: &[u8]) -> Option<u8> {
    let mut kinds = records::all(received).map(|(kind, _)| kind);
    kinds.by_ref().find(|kind| *kind == CHANGE_CIPHER_SPEC)?;
    kinds.nth(1)
}

fn failure(received: &[u8]) -> ProbeTrouble {
    let alert = records::all(received).find_map(|record| match record {
        (ALERT, [2, description]) => Some(alert::label(*description)),
        _ => None,
    });
    let text = alert.map(|alert| format!("it refused openssl by the alert {alert}"));
    trouble(TroubleKind::Refused, text.as_deref().unwrap_or("openssl gets no handshake either"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, fragment: &[u8]) -> Vec<u8> {
        [&[kind, 3, 1, 0, u8::try_from(fragment.len()).unwrap()], fragment].concat()
    }

    #[test]
    fn a_handshake_is_whole_with_its_finished() {
        let hello = [&[2, 0, 0, 38, 3, 1][..], &[7; 32], &[0, 0, 0x2f, 0], &[14, 0, 0, 0]].concat();
        let flight = [record(22, &hello), record(20, &[1])].concat();
        assert!(handshake(&flight).is_none() && after_handshake(&flight).is_none());
        let whole = [flight, record(22, &[9; 40])].concat();
        let found = handshake(&whole).unwrap();
        assert_eq!((found.choice.version, found.choice.suite), (0x0301, 0x002f));
        assert!(!found.is_resumed);
        assert_eq!(after_handshake(&whole), None);
        for (kind, is_renegotiated) in [(HANDSHAKE, true), (ALERT, false)] {
            let more = [whole.clone(), record(kind, &[9; 40])].concat();
            assert_eq!(after_handshake(&more) == Some(HANDSHAKE), is_renegotiated);
        }
        for length in 0..whole.len() {
            assert!(handshake(&whole[..length]).is_none(), "{length}");
        }
        let refused = failure(&record(21, &[2, 40]));
        assert!(refused.text.contains("handshake_failure"), "{refused:?}");
    }
}
