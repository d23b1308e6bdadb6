//! Makes each fault, and mends it.

use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};

use crate::patience::within;

use super::rig::{Choice, Rig};
use super::script::Fault;
use super::server::Mood;

/// Time within which a worker process that died is replaced, and the next one serves. Deaths in a
/// minute are few here, so that the supervisor's own pauses are short.
const REPLACED_MAX: Duration = Duration::from_secs(20);

/// Descriptors of a starving process: enough to start and to serve some clients.
const FEW: u32 = 100;

/// Jump of the clock: further than any session lives, and each ticket key with it.
const JUMP_SECONDS: i64 = 8 * 86_400;

#[derive(Debug)]
pub(super) struct Faults {
    frozen: Option<Pid>,
    crowd: Vec<TcpStream>,
    /// Whether each reload must end as it should, because nothing else prevents it.
    is_reload_sure: bool,
}

impl Faults {
    /// Makes an empty set. `is_reload_sure` = nothing else will prevent a reload.
    pub(super) fn new(is_reload_sure: bool) -> Self {
        Self { frozen: None, crowd: Vec::new(), is_reload_sure }
    }

    pub(super) fn begin(&mut self, rig: &mut Rig, fault: Fault) {
        match fault {
            Fault::Kill => kill(rig),
            Fault::Freeze => self.freeze(rig),
            Fault::Restart => self.restart(rig, None),
            Fault::Reload => {
                rig.renew_certificate();
                rig.choice.is_other = true;
                rig.configure(rig.choice);
                self.reload(rig, 0);
            }
            Fault::Hangup => rig.lariat.signal(Signal::HUP),
            Fault::BadReload => {
                let is_broken = true;
                rig.configure(Choice { is_broken, ..rig.choice });
                self.reload(rig, REFUSED);
                rig.configure(rig.choice);
            }
            Fault::BadCertificate => {
                rig.damage_certificate();
                self.reload(rig, REFUSED);
                rig.renew_certificate();
            }
            Fault::ServersDie => set_moods(rig, Mood::Dead),
            Fault::ServersRefuse => set_moods(rig, Mood::Refuse),
            Fault::ServersStall => set_moods(rig, Mood::Stall),
            Fault::ServersReset => set_moods(rig, Mood::Reset),
            Fault::BlockLog => rig.log.set_paused(true),
            Fault::BlockTalk => block_talk(rig),
            Fault::FillDisk => {
                rig.choice.is_disk_full = true;
                rig.configure(rig.choice);
                self.reload(rig, 0);
            }
            Fault::StarveDescriptors => self.starve(rig),
            Fault::JumpClock => jump(rig, JUMP_SECONDS),
        }
    }

    pub(super) fn end(&mut self, rig: &mut Rig, fault: Fault) {
        match fault {
            Fault::Freeze => {
                if let Some(process) = self.frozen.take() {
                    // The process may have been killed meanwhile.
                    let _ = kill_process(process, Signal::CONT);
                }
            }
            Fault::Reload | Fault::FillDisk => {
                rig.choice = match fault {
                    Fault::Reload => Choice { is_other: false, ..rig.choice },
                    _ => Choice { is_disk_full: false, ..rig.choice },
                };
                rig.configure(rig.choice);
                self.reload(rig, 0);
            }
            Fault::ServersDie
            | Fault::ServersRefuse
            | Fault::ServersStall
            | Fault::ServersReset => set_moods(rig, Mood::Serve),
            Fault::BlockLog => rig.log.set_paused(false),
            Fault::BlockTalk => rig.talk.set_paused(false),
            Fault::StarveDescriptors => {
                self.crowd.clear();
                rig.restart(None);
            }
            Fault::Kill
            | Fault::Restart
            | Fault::Hangup
            | Fault::BadReload
            | Fault::BadCertificate => {}
            Fault::JumpClock => jump(rig, 0),
        }
    }

    /// Reloads by the command and checks its exit code; where something keeps the processes from
    /// answering, only by the signal.
    fn reload(&self, rig: &Rig, expected: i32) {
        if !self.is_reload_sure {
            return rig.lariat.signal(Signal::HUP);
        }
        let finished = rig.lariat.reload();
        let text = || format!("a reload should have ended with {expected}: {finished:?}");
        rig.journal.check(finished.status.code() == Some(expected), text);
    }

    fn freeze(&mut self, rig: &Rig) {
        let process = rig.lariat.worker_process();
        if kill_process(process, Signal::STOP).is_ok() {
            self.frozen = Some(process);
        }
    }

    /// Starts Lariat again. The supervisor kills a frozen worker process, because it cannot end its
    /// connections; the kernel then closes them as if they had come to their end.
    fn restart(&self, rig: &mut Rig, descriptors: Option<u32>) {
        let is_killed = self.frozen.is_some();
        if is_killed {
            rig.journal.kill();
        }
        rig.restart(descriptors);
        if is_killed {
            rig.journal.kill();
        }
    }

    /// Starts Lariat again with few descriptors, and connects more clients than these.
    fn starve(&mut self, rig: &mut Rig) {
        self.restart(rig, Some(FEW));
        let address = rig.services.exchange.address;
        let crowd = (0..FEW).filter_map(|_| TcpStream::connect(address).ok());
        self.crowd = crowd.collect();
    }
}

const REFUSED: i32 = 5;

fn skip(rig: &Rig, why: &str) {
    rig.journal.step(&format!("skipped: {why}"));
}

fn jump(rig: &Rig, seconds: i64) {
    match &rig.clock {
        Some(clock) => clock.set(seconds),
        None => skip(rig, "it is the host's clock"),
    }
}

fn set_moods(rig: &Rig, mood: Mood) {
    for server in &rig.servers {
        server.set_mood(mood);
    }
}

/// Kills the worker process and waits for the next one.
fn kill(rig: &mut Rig) {
    let process = rig.lariat.worker_process();
    rig.journal.kill();
    rig.kills += 1;
    if let Err(error) = kill_process(process, Signal::KILL) {
        let text = format!("the worker process could not be killed: {error}");
        return rig.journal.broken(&text);
    }
    let old = process.as_raw_nonzero().get();
    let next = within(REPLACED_MAX, || {
        let status = rig.status()?;
        (status["process"]["pid"].as_i64()? != i64::from(old)).then_some(())
    });
    rig.journal.kill();
    rig.journal.check(next.is_some(), || {
        format!("no other worker process serves {REPLACED_MAX:?} after {old} was killed")
    });
}

/// Fills the pipe of the supervisor's messages, which is not read any more.
fn block_talk(rig: &Rig) {
    rig.talk.set_paused(true);
    let path = format!("/proc/{}/fd/2", rig.lariat.supervisor().as_raw_nonzero());
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    match options.open(path) {
        // Until it would block.
        Ok(mut pipe) => while pipe.write_all(b"\n").is_ok() {},
        Err(error) => skip(rig, &error.to_string()),
    }
}
