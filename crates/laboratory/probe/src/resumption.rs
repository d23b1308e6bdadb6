//! Offers sessions of one address to the same or another one.

use std::collections::BTreeSet;

use load::observe::records::Ticket;
use load::observe::{Observed, ObservedConversation, ObservingClient};
use load::plan::Handshake;
use measure::probe::{
    HandshakeTime, ProbeTrouble, Resumes, ResumptionReport, TicketReport, TroubleKind,
};

use crate::hello;
use crate::hello::HelloAnswer;
use crate::offers::{Visit, offer};
use crate::openssl::Purpose;
use crate::reach::{ReachedAddress, malformed, trouble};

/// Findings of one kind at one address.
pub(crate) struct ResumptionFindings {
    pub(crate) resumption: ResumptionReport,
    pub(crate) tickets: Option<TicketReport>,
    pub(crate) times: Vec<HandshakeTime>,
    /// Whether a resumed connection was asked for a certificate.
    pub(crate) certificate_asked: Option<bool>,
}

/// Durations of handshakes with their round trips.
#[derive(Default)]
struct HandshakeTimes(Vec<(u64, u32)>);

impl HandshakeTimes {
    fn note(&mut self, seen: &Observed) {
        let us = u64::try_from(seen.handshake.as_micros()).unwrap_or(u64::MAX);
        self.0.push((us, seen.round_trips));
    }

    fn median(mut self, kind: String) -> Option<HandshakeTime> {
        self.0.sort_unstable();
        let (median_us, _) = *self.0.get(self.0.len() / 2)?;
        Some(HandshakeTime {
            kind,
            count: u32::try_from(self.0.len()).unwrap_or(u32::MAX),
            median_us,
            round_trips: self.0.iter().map(|(_, trips)| *trips).min()?,
        })
    }
}

fn handshake(kind: Resumes) -> Handshake {
    match kind {
        Resumes::SessionId => Handshake::SessionId,
        Resumes::Ticket => Handshake::Ticket,
        Resumes::Psk => Handshake::Psk,
    }
}

/// Indices of the addresses at which sessions begin and are offered.
#[derive(Clone, Copy)]
pub(crate) struct SessionWay {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Begins sessions at one address and offers each at another, this often. A TLS 1.2 session is
/// offered again and again; a TLS 1.3 one only once, as clients should (RFC 8446, appendix C.4).
pub(crate) fn found(
    visit: &Visit<'_>,
    to: &ReachedAddress<'_>,
    kind: Resumes,
    way: SessionWay,
) -> ResumptionFindings {
    let mut attempts = Attempts {
        visit,
        to,
        kind,
        first: None,
        resumed: None,
        key_names: BTreeSet::new(),
        full: HandshakeTimes::default(),
        short: HandshakeTimes::default(),
        found: none_offered(kind, way),
    };
    if let Err(trouble) = attempts.all() {
        attempts.found.trouble = Some(trouble);
    }
    let is_same = way.from == way.to;
    let tickets = if is_same { attempts.tickets() } else { None };
    let version = kind.version();
    let times = [
        attempts.full.median(format!("full {version}")),
        attempts.short.median(kind.name().to_owned()),
    ];
    ResumptionFindings {
        certificate_asked: attempts.resumed.map(|seen| seen.certificate_asked),
        resumption: attempts.found,
        tickets,
        times: times.into_iter().flatten().collect(),
    }
}

fn none_offered(kind: Resumes, SessionWay { from, to }: SessionWay) -> ResumptionReport {
    ResumptionReport { kind, from, to, offered: 0, resumed: 0, trouble: None }
}

struct Attempts<'v> {
    visit: &'v Visit<'v>,
    to: &'v ReachedAddress<'v>,
    kind: Resumes,
    /// The first full handshake, and the last resumed one.
    first: Option<Observed>,
    resumed: Option<Observed>,
    key_names: BTreeSet<String>,
    full: HandshakeTimes,
    short: HandshakeTimes,
    found: ResumptionReport,
}

impl Attempts<'_> {
    fn all(&mut self) -> Result<(), ProbeTrouble> {
        let tls = offer(handshake(self.kind), self.visit.options);
        let client = ObservingClient::new(&tls).map_err(malformed)?;
        for _ in 0..self.visit.attempts {
            if self.kind == Resumes::Psk || !client.has_session() {
                self.begin(&client)?;
                if !client.has_session() {
                    let text = format!("no {} is given", noun(self.kind));
                    return Err(trouble(TroubleKind::Refused, text));
                }
            }
            self.offer(&client)?;
        }
        Ok(())
    }

    fn begin(&mut self, client: &ObservingClient) -> Result<(), ProbeTrouble> {
        client.forget();
        let seen = self.visit.converse(self.visit.reach, client)?;
        self.full.note(&seen);
        self.key_names.extend(key_names(&seen.tickets));
        // A session without a ticket may still have an ID, which is another kind.
        let is_given = match self.kind {
            Resumes::SessionId => !seen.session_id.is_empty(),
            _ => !seen.tickets.is_empty(),
        };
        if !is_given {
            client.forget();
        }
        self.first.get_or_insert(seen);
        Ok(())
    }

    fn offer(&mut self, client: &ObservingClient) -> Result<(), ProbeTrouble> {
        let seen = self.visit.converse(self.to, client)?;
        if seen.offered != Some(handshake(self.kind)) {
            // For example a ticket of length 0, or one that has expired at once.
            let text = format!("its {} is not one to offer", noun(self.kind));
            return Err(malformed(text));
        }
        self.found.offered += 1;
        if seen.resumed {
            self.found.resumed += 1;
            self.short.note(&seen);
            self.resumed = Some(seen);
        }
        // The client offers the old session, not its replacement.
        client.offer_again();
        Ok(())
    }

    fn tickets(&self) -> Option<TicketReport> {
        let first = self.first.as_ref()?;
        let is_id = self.kind == Resumes::SessionId;
        let count =
            if is_id { usize::from(!first.session_id.is_empty()) } else { first.tickets.len() };
        let report = ticket_report(self.kind, &first.tickets);
        Some(TicketReport {
            count: u32::try_from(count).unwrap_or(u32::MAX),
            key_names: self.key_names.iter().take(KEY_NAMES_MAX).cloned().collect(),
            single_use: self.is_single_use(),
            early_data_accepted: (report.early_data_max > 0).then(|| self.takes_early_data()),
            ..report
        })
    }

    /// Sends the hello that resumed a session again, byte for byte: the answer shows whether the
    /// server accepts the PSK. In TLS 1.2, all attempts have offered the same session.
    fn is_single_use(&self) -> Option<bool> {
        let resumed = self.resumed.as_ref()?;
        match self.kind {
            Resumes::Psk => {
                let mut refused = 0;
                for _ in 0..REPLAYS {
                    match hello::ask(self.to, &resumed.hello).ok()? {
                        HelloAnswer::Choice(choice) if choice.psk => return Some(false),
                        _ => refused += 1,
                    }
                }
                Some(refused == REPLAYS)
            }
            Resumes::SessionId | Resumes::Ticket => match self.found.resumed {
                1 => (self.found.offered > 1).then_some(true),
                _ => Some(false),
            },
        }
    }

    fn takes_early_data(&self) -> bool {
        let attempt = || -> Option<bool> {
            let tls = offer(Handshake::Psk, self.visit.options);
            let client = ObservingClient::new(&tls).ok()?;
            self.visit.converse(self.visit.reach, &client).ok()?;
            let conversation = ObservedConversation {
                request: Some(&self.visit.options.request),
                early: Some(&self.visit.options.request),
                linger: self.visit.linger.get(),
            };
            let seen = self.visit.converse_so(self.to, &client, conversation).ok()?;
            seen.early_data_accepted
        };
        attempt().unwrap_or(false)
    }
}

/// Maximum of key names: servers have few keys, but tickets without key names all differ.
const KEY_NAMES_MAX: usize = 16;

/// Returns the first bytes of tickets, in hexadecimal.
fn key_names(tickets: &[Ticket]) -> impl Iterator<Item = String> {
    tickets.iter().map(|ticket| ticket.beginning.iter().map(|byte| format!("{byte:02x}")).collect())
}

impl Visit<'_> {
    /// Tests resumption with a server that refuses `load`'s client, by the version that another
    /// client negotiated.
    pub(crate) fn older_resumption(&self, version: &str, index: usize) -> Vec<ResumptionFindings> {
        let kinds = [Resumes::SessionId, Resumes::Ticket].into_iter();
        let found = |kind| {
            let mut resumption = none_offered(kind, SessionWay { from: index, to: index });
            let tickets = kind == Resumes::Ticket;
            let all = self.carried_handshakes(version, Purpose::Resume { tickets });
            let mut report = None;
            match all.as_deref() {
                Err(trouble) => resumption.trouble = Some(trouble.clone()),
                Ok([first, others @ ..]) if first.gives(kind) => {
                    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
                    resumption.offered = count(others.len());
                    resumption.resumed = count(others.iter().filter(|one| one.is_resumed).count());
                    report = Some(ticket_report(kind, &first.tickets));
                }
                Ok(_) => {
                    let text = format!("no {} is given", noun(kind));
                    resumption.trouble = Some(trouble(TroubleKind::Refused, text));
                }
            }
            ResumptionFindings {
                resumption,
                tickets: report,
                times: Vec::new(),
                certificate_asked: None,
            }
        };
        kinds.map(found).collect()
    }
}

/// Returns the facts that are visible in a ticket.
fn ticket_report(kind: Resumes, tickets: &[Ticket]) -> TicketReport {
    let last = tickets.last();
    TicketReport {
        kind,
        count: 1,
        lifetime_s: last.map(|ticket| ticket.lifetime_s),
        bytes: last.map_or(0, |ticket| u32::try_from(ticket.bytes).unwrap_or(u32::MAX)),
        key_names: key_names(tickets).collect(),
        key_since_s: None,
        single_use: None,
        early_data_max: last.map_or(0, |ticket| ticket.early_data_max),
        early_data_accepted: None,
    }
}

/// Number of replays: servers with a cache per worker refuse by chance, so several must refuse.
const REPLAYS: u32 = 4;

fn noun(kind: Resumes) -> &'static str {
    match kind {
        Resumes::SessionId => "session id",
        Resumes::Ticket => "ticket of TLS 1.2",
        Resumes::Psk => "ticket of TLS 1.3",
    }
}
