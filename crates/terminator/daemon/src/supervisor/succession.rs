//! Handing over to a successor: what a running supervisor does for one that takes over from it.
//!
//! The successor gets the sockets and the secrets, and builds its plan while this one serves. When
//! it is ready, the worker process here pauses and the one there begins; only then this one drains
//! and ends. Whatever goes wrong before that, this one goes on and says what it was.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sys::signal::{self, Signal};
use telemetry::message::Level;
use telemetry::printable::line;

use super::Supervisor;
use super::admin_sockets::temporary_paths;
use super::failure::Failure;
use super::messages::{printable, say, warn};
use super::phase::{Next, Phase};
use super::successor::{Stage, Taking, Trial};
use super::takeover_socket::{Asked, Link};
use super::trial::END_TIME_MAX;
use crate::handover::Order;
use crate::observations::Observations;
use crate::takeover::{
    Hello, Offer, PREDECESSOR_BYTES_MAX, Predecessor, Successor, encode, release,
};

/// From its start to its first word: it reads its configuration meanwhile.
pub(super) const START_TIME_MAX: Duration = Duration::from_secs(90);

/// From the offer to the word that it is ready: it builds its plan meanwhile.
const READY_TIME_MAX: Duration = Duration::from_secs(150);

/// From there to the word that it serves: nobody accepts meanwhile.
const SWITCH_TIME_MAX: Duration = Duration::from_secs(10);

/// Why there is no taking over: nobody is to serve.
const TOLD_TO_STOP: &str = "the running one was told to stop";

impl Supervisor<'_> {
    /// Somebody asked something at the takeover socket.
    pub(super) fn asked(&mut self, asked: Asked) -> Result<Next, Failure> {
        match asked {
            Asked::Said(number, said) if self.is_on_trial(number) => Ok(self.trial_said(said)),
            Asked::Gone(number) if self.is_on_trial(number) => self.trial_failed(),
            // Those have no rights to gain by it, but their user may be ours.
            Asked::TakeOver(link, _) | Asked::Upgrade(link) if self.may_be_own(&link) => {
                self.turn_away(&link, "it has ended, or is a part of the running one")
            }
            Asked::TakeOver(link, hello) => self.take_over_asked(link, hello),
            Asked::Upgrade(link) => {
                self.upgrade(Some(link));
                Ok(Next::Continue)
            }
            Asked::Failed(link, why) if self.is_on_trial(link.number) => {
                self.trial_fails(why);
                Ok(Next::Continue)
            }
            Asked::Failed(link, why) if self.is_awaited(link.pid) => {
                self.takeover_failed(link.pid, &why)
            }
            Asked::Failed(link, why) => {
                warn(format_args!(
                    "process {} failed: {}",
                    link.pid,
                    printable(&why)
                ));
                Ok(Next::Continue)
            }
            Asked::Said(number, said) if self.is_successor(number) => self.successor_said(said),
            Asked::Gone(number) if self.is_successor(number) => {
                self.successor_failed("ended, or ended the connection")
            }
            Asked::Gone(number) => {
                self.succession.askers.retain(|one| one.number != number);
                let is_it = |(link, _): &mut (Link, Hello)| link.number == number;
                match self.succession.waiting.take_if(is_it) {
                    Some((link, _)) => self.takeover_failed(link.pid, "it ended while it waited"),
                    None => Ok(Next::Continue),
                }
            }
            Asked::Ended(pid, how)
                if self
                    .succession
                    .expected
                    .is_some_and(|(_, ours)| ours == pid) =>
            {
                self.successor_failed(&format!("ended: {how}"))
            }
            Asked::TurnedAway(why) => {
                say(format_args!("warning: {}", printable(&why)));
                Ok(Next::Continue)
            }
            Asked::Said(..) | Asked::Ended(..) => Ok(Next::Continue),
        }
    }

    /// Whether that may be our worker process, or another that we have started and no successor.
    fn may_be_own(&self, link: &Link) -> bool {
        let expected = self.succession.expected.map(|(_, pid)| pid);
        expected != Some(link.pid) && !link.is_foreign()
    }

    fn turn_away(&self, link: &Link, why: &str) -> Result<Next, Failure> {
        let (pid, why) = (link.pid, why.to_owned());
        warn(format_args!("process {pid} may not take over: {why}"));
        let _ = link.send(&Predecessor::Refused { why }, &[]);
        Ok(Next::Continue)
    }

    fn is_successor(&self, number: u64) -> bool {
        let taking = self.succession.successor.as_ref();
        taking.is_some_and(|taking| taking.link.number == number)
    }

    /// Whether that process takes over, or has been started to.
    fn is_awaited(&self, pid: u32) -> bool {
        let taking = self.succession.successor.as_ref();
        let taking = taking.map(|taking| taking.link.pid);
        let expected = self.succession.expected.map(|(_, pid)| pid);
        [taking, expected].contains(&Some(pid))
    }

    fn take_over_asked(&mut self, link: Link, hello: Hello) -> Result<Next, Failure> {
        if let Err(why) = self.may_take_over(&link, &hello) {
            let is_expected = |(_, pid)| pid == link.pid;
            self.turn_away(&link, &why)?;
            if self.succession.expected.is_some_and(is_expected) {
                // Who asked for it hears why, and not only that it ended.
                return self.takeover_failed(link.pid, &why);
            }
            return Ok(Next::Continue);
        }
        self.succession.expected = None;
        // The status may be there before the word of the worker process that it serves.
        if self.pending.is_some() || self.is_reading || self.phase == Phase::Starting {
            self.succession.waiting = Some((link, hello));
            return Ok(Next::Continue);
        }
        self.offer(link, &hello)
    }

    /// An error is a sentence without a full stop.
    fn may_take_over(&self, link: &Link, hello: &Hello) -> Result<(), String> {
        // It could not be ended if it does not come to serve, nor a service manager told of it.
        if link.pid == 0 || link.process.is_none() {
            return Err(
                "its process cannot be seen from here: it has ended, or is of another PID \
                 namespace, such as another container's"
                    .to_owned(),
            );
        }
        let own = &self.succession.own;
        if !hello.has_configuration_of(own) {
            return Err(format!(
                "the new process is for {}, the running lariat {} for {}\nhint: to serve both, \
                 give each a status socket of its own: `admin.status-socket`, or --status-socket; \
                 one of the same configuration takes over from the running one",
                line(&hello.configuration),
                own.program,
                own.configuration,
            ));
        }
        hello.format()?;
        let waiting = self.succession.waiting.as_ref().map(|(link, _)| link.pid);
        let taking = self.succession.successor.as_ref();
        if let Some(pid) = taking.map(|taking| taking.link.pid).or(waiting) {
            return Err(format!("process {pid} is taking over already"));
        }
        match self.phase {
            Phase::Starting | Phase::Serving | Phase::Restarting if self.stop_asked => {
                Err(TOLD_TO_STOP.to_owned())
            }
            Phase::Starting | Phase::Serving | Phase::Restarting => Ok(()),
            Phase::Draining if self.succession.is_replacing => Ok(()),
            Phase::Draining => Err("the running one drains, and has closed its sockets".to_owned()),
        }
    }

    /// Hands over to who waited for the start, or the end of a reload.
    pub(super) fn offer_if_asked(&mut self) -> Result<Next, Failure> {
        match self.succession.waiting.take() {
            Some((link, hello)) => self.offer(link, &hello),
            None => Ok(Next::Continue),
        }
    }

    fn offer(&mut self, link: Link, hello: &Hello) -> Result<Next, Failure> {
        let pid = link.pid;
        let program = line(&hello.program).to_string();
        say(format_args!(
            "process {pid}, lariat {program}, begins to take over"
        ));
        // The successor's worker process has the next number, which no other may have.
        self.last_number += 1;
        self.keep_descriptors();
        let listeners = self.listeners.offers();
        let sessions = self.sessions.offer();
        let mut fds: Vec<_> = sessions.iter().map(|(_, fd)| *fd).collect();
        fds.extend(listeners.iter().flat_map(|(_, fds)| fds.iter().copied()));
        let admin = self.admin_sockets.admin();
        fds.extend(admin);
        let cluster = self.cluster_socket.offer();
        fds.extend(cluster.iter().map(|(_, fd)| *fd));
        let listen = self.served.summary.control.listen;
        let offer = Offer {
            format: hello.format().unwrap_or_default(),
            listeners: listeners.into_iter().map(|(offer, _)| offer).collect(),
            admin: admin.and(listen).map(|address| address.to_string()),
            cluster: cluster.map(|(name, _)| name),
            watches: self.watches(),
            ..self.state(self.last_number - 1)
        };
        let sent = link.send(&Predecessor::Offer(Box::new(offer)), &fds);
        self.succession.successor = Some(Taking {
            link,
            program,
            stage: Stage::Offered,
            until: Instant::now() + READY_TIME_MAX,
            has_reload: false,
        });
        match sent {
            Ok(()) => Ok(Next::Continue),
            Err(error) => self.successor_failed(&format!("takes no offer: {error}")),
        }
    }

    /// What is handed over beside sockets, of worker processes up to that number.
    pub(super) fn state(&self, last_number: u64) -> Offer {
        let (version, [_, newest]) = release();
        Offer {
            format: newest,
            program: version.to_owned(),
            must_understand: Vec::new(),
            secret: self.sessions.secret(),
            last_number,
            disabled: self.disabled.iter().cloned().collect(),
            listeners: Vec::new(),
            admin: None,
            cluster: None,
            watches: false,
            sessions: self.sessions.offer().map(|(offer, _)| offer),
        }
    }

    fn successor_said(&mut self, said: Successor) -> Result<Next, Failure> {
        match (self.succession.stage(), said) {
            (Some(Stage::Offered), Successor::Ready) => {
                self.reach_stage(Stage::Pausing);
                match (&self.child, self.phase) {
                    (Some(_), Phase::Serving) => self.tell(&Order::Pause),
                    // There is none to pause: it has died, or has not begun.
                    _ => return self.paused(Observations::default()),
                }
                Ok(Next::Continue)
            }
            (Some(Stage::Given), Successor::Serving { kept, addresses }) => {
                Ok(self.handed_over(kept, &addresses))
            }
            _ => self.successor_failed("speaks out of turn"),
        }
    }

    fn reach_stage(&mut self, stage: Stage) {
        if let Some(taking) = &mut self.succession.successor {
            taking.stage = stage;
            taking.until = Instant::now() + SWITCH_TIME_MAX;
        }
    }

    /// The worker process has paused, or there is none.
    pub(super) fn paused(&mut self, observations: Observations) -> Result<Next, Failure> {
        if self.succession.stage() != Some(Stage::Pausing) {
            return Ok(Next::Continue);
        }
        self.reach_stage(Stage::Given);
        if self.phase != Phase::Draining {
            self.admin_sockets.keep_places();
        }
        let reload = std::mem::take(&mut self.reload_asked);
        let taking = self.succession.successor.as_mut();
        // One that was taken over may say what is far longer as JSON.
        let is_sound = |all: &Observations| encode(all).bytes().len() < PREDECESSOR_BYTES_MAX / 2;
        let yours = Predecessor::Yours {
            reload,
            observations: Some(observations).filter(is_sound).unwrap_or_default(),
        };
        let sent = taking.map(|taking| {
            taking.has_reload = reload;
            taking.link.send(&yours, &[])
        });
        match sent {
            Some(Err(error)) => self.successor_failed(&format!("takes no word: {error}")),
            Some(Ok(())) | None => Ok(Next::Continue),
        }
    }

    /// Whether a successor is about to serve, so that no worker process is started here.
    pub(super) fn is_given_away(&self) -> bool {
        matches!(self.succession.stage(), Some(Stage::Pausing | Stage::Given))
    }

    /// The successor serves: this one is done when its connections are.
    fn handed_over(&mut self, kept: Vec<PathBuf>, addresses: &[String]) -> Next {
        let Some(Taking { link, program, .. }) = self.succession.successor.take() else {
            return Next::Continue;
        };
        let pid = link.pid;
        let watches = self.watches() && !addresses.is_empty() && !self.succession.stop_asked;
        self.manager.hand_over(pid);
        // One that is older does not know the word, and needs it not.
        let _ = link.send(&Predecessor::Released, &[]);
        say(format_args!(
            "process {pid}, lariat {program}, has taken over; this one drains"
        ));
        for asker in self.succession.askers.drain(..) {
            let program = program.clone();
            let _ = asker.send(&Predecessor::Upgraded { pid, program }, &[]);
        }
        self.admin_sockets.leave(&kept);
        self.listeners.lend(kept);
        let pending = match std::mem::take(&mut self.reload_asked) {
            _ if self.succession.stop_asked => Some(Signal::Terminate),
            // Since it was told that it may serve.
            true => Some(Signal::Hangup),
            false => None,
        };
        if let (Some(signal), Some(process)) = (pending, &link.process) {
            let _ = process.signal(signal);
        }
        self.settled();
        if std::mem::take(&mut self.succession.is_replacing) {
            return self.end_trial();
        }
        if watches {
            self.listeners.leave_others(addresses);
            self.succession.trial = Some(Trial::begin(link, program));
        }
        if self.child.is_none() || self.phase != Phase::Serving {
            self.phase = Phase::Draining;
            return self.end();
        }
        self.phase = Phase::Draining;
        self.drain(true)
    }

    pub(super) fn takeover_is_late(&mut self) -> Result<Next, Failure> {
        if self.succession.trial.is_some() {
            return Ok(self.end_trial());
        }
        let (what, time) = match (self.succession.stage(), self.succession.expected) {
            (Some(Stage::Offered), _) => ("was not ready to serve", READY_TIME_MAX),
            (Some(_), _) => ("did not serve", SWITCH_TIME_MAX),
            (None, Some((_, pid))) => {
                let _ = signal::kill(pid);
                (
                    "was killed, since it did not ask for the sockets",
                    START_TIME_MAX,
                )
            }
            (None, None) => return Ok(Next::Continue),
        };
        self.successor_failed(&format!("{what} in {} s", time.as_secs()))
    }

    /// By what it did. Who hears of it elsewhere knows neither its number nor its program.
    fn successor_failed(&mut self, what: &str) -> Result<Next, Failure> {
        let succession = &self.succession;
        let taking = succession.successor.as_ref();
        let started_as = succession.program.as_ref();
        let (pid, who) = match (taking, succession.expected, started_as) {
            (Some(Taking { link, program, .. }), ..) => (
                link.pid,
                format!("process {}, lariat {program}, ", link.pid),
            ),
            (None, Some((_, pid)), Some(started_as)) => {
                let program = started_as.program.display();
                (pid, format!("process {pid} ({program}) "))
            }
            _ => return Ok(Next::Continue),
        };
        self.takeover_failed(pid, &(who + what))
    }

    /// That successor does not come to it: this one goes on.
    fn takeover_failed(&mut self, pid: u32, why: &str) -> Result<Next, Failure> {
        let why = printable(why.trim_end());
        let succession = &mut self.succession;
        succession
            .expected
            .take_if(|(_, expected)| *expected == pid);
        let taking = succession.successor.take_if(|one| one.link.pid == pid);
        // As it stands on its standard error.
        let why = Level::split(&why).map_or(&*why, |(_, text)| text);
        let what_now = match self.phase {
            Phase::Draining => "nobody serves",
            Phase::Starting | Phase::Serving | Phase::Restarting => "this one goes on",
        };
        say(format_args!(
            "error: the successor (pid {pid}) has not taken over, and {what_now}: {why}"
        ));
        let why = why.to_owned();
        self.refuse_askers(&why);
        let Some(taking) = taking else {
            return Ok(self.end_replacing());
        };
        self.reload_asked |= taking.has_reload;
        let Taking { link, stage, .. } = taking;
        let _ = link.send(&Predecessor::Refused { why }, &[]);
        if stage != Stage::Offered {
            // It may hold on to what it was given, and only one may serve.
            let _ = link.process.as_ref().map(|process| process.kill());
        }
        if stage == Stage::Given && self.phase != Phase::Draining {
            let process = link.process.as_ref();
            let _ = process.map(|process| process.has_ended_within(END_TIME_MAX));
            self.admin_sockets.take_back_places(&self.served.summary);
        }
        super::reading::remove(temporary_paths(self.admin_sockets.status_path(), link.pid));
        if std::mem::take(&mut self.succession.stop_asked) {
            return self.stop();
        }
        match self.phase {
            Phase::Draining => return Ok(self.end_replacing()),
            Phase::Serving if stage != Stage::Offered => {
                self.tell(&Order::Accept(Observations::default()))
            }
            Phase::Restarting if stage != Stage::Offered => {
                self.start_again()?;
            }
            Phase::Starting | Phase::Serving | Phase::Restarting => {}
        }
        self.reload_if_asked()
    }

    /// It is to stop. `true` = the successor is about to serve, and is told when it does.
    pub(super) fn stops_with_successor(&mut self) -> bool {
        let is_given = self.succession.stage() == Some(Stage::Given);
        self.succession.stop_asked |= is_given;
        if let Some((_, pid)) = self.succession.expected.take() {
            // It would find nobody to ask when this one has ended, and serve.
            let _ = signal::kill(pid);
        }
        let others = (!is_given).then(|| self.succession.successor.take());
        let why = || TOLD_TO_STOP.to_owned();
        let waiting = self.succession.waiting.take().map(|(link, _)| link);
        let taking = others.flatten().map(|taking| taking.link);
        for link in taking.into_iter().chain(waiting) {
            let _ = link.send(&Predecessor::Refused { why: why() }, &[]);
        }
        if !is_given {
            self.refuse_askers(TOLD_TO_STOP);
        }
        is_given
    }

    /// Nothing comes of the upgrade that they asked for.
    fn refuse_askers(&mut self, why: &str) {
        for asker in self.succession.askers.drain(..) {
            let why = why.to_owned();
            let _ = asker.send(&Predecessor::Refused { why }, &[]);
        }
    }

    /// Starts the program again, to take over.
    pub(super) fn upgrade(&mut self, asker: Option<Link>) {
        let succession = &mut self.succession;
        succession.askers.extend(asker);
        if succession.expected.is_some()
            || succession.waiting.is_some()
            || succession.successor.is_some()
        {
            // They hear what comes of that one.
            return;
        }
        let socket = self.succession.program.as_ref().map(|it| &it.socket);
        if socket.is_some_and(|path| !path.exists()) && self.phase != Phase::Draining {
            // Somebody has removed it; the successor could not find this one.
            self.open_takeover_socket();
        }
        let started = match self.phase {
            Phase::Draining => Err("the running one drains".to_owned()),
            _ if self.stop_asked => Err(TOLD_TO_STOP.to_owned()),
            _ => self.start_successor(None),
        };
        match started {
            Ok(pid) => self.expect(pid),
            Err(why) => {
                let why = format!("cannot start a successor: {why}");
                say(format_args!("error: {why}"));
                self.refuse_askers(&why);
            }
        }
    }

    /// That one was started to take over.
    pub(super) fn expect(&mut self, pid: u32) {
        say(format_args!("started process {pid} to take over"));
        self.succession.expected = Some((Instant::now() + START_TIME_MAX, pid));
    }
}
