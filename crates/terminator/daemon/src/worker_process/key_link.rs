//! The way to the process that holds the keys: each thread that makes handshakes has a channel of
//! its own, and waits for its signature, because the TLS library has no handshake that is resumed
//! when a signature comes.
//!
//! Owns the waits and their limit. What is signed is the other process's to judge.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use proxy::options::{BackOptions, FrontTls, Options};
use sys::packet;
use tls::key_holder::{KeyHolder, KeyId, SIGNED_BYTES_MAX, SignatureFault, SignatureSource};

use crate::held_keys::{ANSWER_BYTES_MAX, KeyCounts, SignatureRequest, SignatureStatus};

/// A signature takes a millisecond, one of a token some tens of them, and the start of another
/// process after one died as long. A thread serves nobody else meanwhile.
pub(super) const SIGNATURE_TIME_MAX: Duration = Duration::from_secs(1);

/// The first signature on a channel waits for as long: its process may just have been started for
/// a new plan, on a host that is busy.
const FIRST_SIGNATURE_TIME_MAX: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct KeyLink {
    /// For each process, one for each thread.
    ends: Vec<Vec<Mutex<LinkEnd>>>,
    /// The processes of those keys that are not in the one of all others.
    processes: HashMap<KeyId, usize>,
    /// The process of all others.
    rest: usize,
    counts: Arc<KeyCounts>,
}

#[derive(Debug)]
struct LinkEnd {
    end: OwnedFd,
    /// The number of the last request.
    number: u64,
    /// It has not been answered: nobody waits for this channel until it is.
    is_late: bool,
    /// A process has spoken on it.
    has_begun: bool,
    room: Vec<u8>,
}

impl KeyLink {
    /// One over these channels; `None` = the plan has no keys elsewhere.
    pub(super) fn new(
        groups: &[Option<Vec<KeyId>>],
        channels: Vec<(usize, OwnedFd)>,
        counts: &Arc<KeyCounts>,
    ) -> Option<Arc<Self>> {
        let mut ends: Vec<Vec<_>> = groups.iter().map(|_| Vec::new()).collect();
        for (group, end) in channels {
            let room = vec![0; ANSWER_BYTES_MAX];
            let end =
                Mutex::new(LinkEnd { end, number: 0, is_late: false, has_begun: false, room });
            ends.get_mut(group)?.push(end);
        }
        let listed = groups.iter().enumerate();
        let listed =
            listed.flat_map(|(place, ids)| ids.iter().flatten().map(move |id| (*id, place)));
        let rest = groups.iter().position(Option::is_none).unwrap_or(0);
        let link = Self { ends, processes: listed.collect(), rest, counts: Arc::clone(counts) };
        (!groups.is_empty()).then(|| Arc::new(link))
    }

    /// Lets all certificates of a plan sign by it.
    pub(super) fn join(self: &Arc<Self>, data_plane: &mut Options) {
        let holder = KeyHolder(Some(Arc::clone(self) as Arc<dyn SignatureSource>));
        for service in &mut data_plane.services {
            if let FrontTls::Terminate(terminated) = &mut service.front.tls {
                let certificates = terminated.certificates.iter_mut();
                certificates.for_each(|one| one.holder = holder.clone());
            }
            if let BackOptions::Servers(servers) = &mut service.back
                && let Some(tls) = &mut servers.tls
                && let Some(certificate) = &mut tls.client.certificate
            {
                certificate.holder = holder.clone();
            }
        }
    }
}

/// The number of this thread among those that have asked. Few others than workers do: the checks of
/// servers that ask for a certificate.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static OWN: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    OWN.with(|number| *number)
}

impl SignatureSource for KeyLink {
    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, SignatureFault> {
        if message.len() > SIGNED_BYTES_MAX {
            return Err(SignatureFault::Refused);
        }
        let process = self.processes.get(key).copied().unwrap_or(self.rest);
        let ends = self.ends.get(process).ok_or(SignatureFault::Nowhere)?;
        let end = ends.get(thread_number() % ends.len().max(1)).ok_or(SignatureFault::Nowhere)?;
        // There is a channel for each thread that asks often: it is free.
        let mut end = end.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        let time_max = if end.has_begun { SIGNATURE_TIME_MAX } else { FIRST_SIGNATURE_TIME_MAX };
        let signed = end.sign(key, scheme, message, begun + time_max);
        let waited = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counts.waiting_us.fetch_add(waited, Ordering::Relaxed);
        let count = match &signed {
            Ok(_) => &self.counts.signed,
            Err(SignatureFault::Late | SignatureFault::Away) => &self.counts.late,
            Err(_) => &self.counts.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        signed
    }
}

impl LinkEnd {
    fn sign(
        &mut self,
        key: &KeyId,
        scheme: u16,
        message: &[u8],
        until: Instant,
    ) -> Result<Vec<u8>, SignatureFault> {
        if self.is_late {
            self.catch_up()?;
        }
        self.number += 1;
        let request = SignatureRequest { number: self.number, key: *key, scheme, message };
        let mut bytes = Vec::new();
        request.write(&mut bytes);
        packet::send_now(&self.end, &bytes).map_err(|_| SignatureFault::Away)?;
        loop {
            match self.receive(until)? {
                // The process before may have died with the request in its hands.
                (_, SignatureStatus::Begun, _) => {
                    packet::send_now(&self.end, &bytes).map_err(|_| SignatureFault::Away)?;
                }
                (number, status, length) if number == self.number => {
                    return match status {
                        SignatureStatus::Signed => {
                            Ok(self.room.get(length).unwrap_or_default().to_vec())
                        }
                        SignatureStatus::Unknown => Err(SignatureFault::Unknown),
                        SignatureStatus::Unopened => Err(SignatureFault::Unopened),
                        SignatureStatus::Refused => Err(SignatureFault::Refused),
                        SignatureStatus::Failed | SignatureStatus::Begun => {
                            Err(SignatureFault::Failed)
                        }
                    };
                }
                // An answer that nobody waits for any more.
                _ => {}
            }
        }
    }

    /// Sees whether what was late has come, without a wait: one request of each thread waits for a
    /// process that hangs, and not each handshake.
    fn catch_up(&mut self) -> Result<(), SignatureFault> {
        let now = Instant::now();
        while self.is_late {
            let (number, status, _) = self.receive(now).map_err(|_| SignatureFault::Away)?;
            self.is_late = status != SignatureStatus::Begun && number != self.number;
        }
        Ok(())
    }

    /// The next answer, and the place of its signature in the room.
    fn receive(
        &mut self,
        until: Instant,
    ) -> Result<(u64, SignatureStatus, std::ops::Range<usize>), SignatureFault> {
        match packet::receive_until(&self.end, &mut self.room, until) {
            Ok(Some(length)) => {
                self.has_begun = true;
                let read = self.room.get(..length).and_then(SignatureStatus::read);
                let (number, status, signature) = read.ok_or(SignatureFault::Failed)?;
                Ok((number, status, length - signature.len()..length))
            }
            Ok(None) => Err(SignatureFault::Away),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.is_late = true;
                Err(SignatureFault::Late)
            }
            Err(_) => Err(SignatureFault::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> (LinkEnd, OwnedFd) {
        let (end, theirs) = packet::pair().unwrap();
        let room = vec![0; ANSWER_BYTES_MAX];
        (LinkEnd { end, number: 0, is_late: false, has_begun: false, room }, theirs)
    }

    fn say(end: &OwnedFd, status: SignatureStatus, number: u64) {
        let mut bytes = Vec::new();
        status.write(number, b"signature", &mut bytes);
        packet::send_now(end, &bytes).unwrap();
    }

    fn asked(end: &OwnedFd) -> Option<u64> {
        let mut room = [0; 100];
        let length = packet::receive_until(end, &mut room, Instant::now()).ok()??;
        SignatureRequest::read(&room[..length]).map(|request| request.number)
    }

    const SOON: Duration = Duration::from_secs(30);

    #[test]
    fn a_process_that_hangs_is_waited_for_once() {
        let (mut link, theirs) = link();
        let mut sign = |until| link.sign(&[1; 32], 0x0403, b"m", until);
        assert_eq!(sign(Instant::now()), Err(SignatureFault::Late));
        assert_eq!(sign(Instant::now() + SOON), Err(SignatureFault::Away), "at once");
        assert_eq!((asked(&theirs), asked(&theirs)), (Some(1), None));
        // Its answer comes after all: the channel is good again, and the answer nobody's.
        say(&theirs, SignatureStatus::Signed, 1);
        say(&theirs, SignatureStatus::Signed, 2);
        assert_eq!(sign(Instant::now() + SOON).as_deref(), Ok(&b"signature"[..]));
        drop(theirs);
        assert_eq!(sign(Instant::now() + SOON), Err(SignatureFault::Away));
    }

    #[test]
    fn a_request_goes_to_the_next_process_if_one_dies_with_it() {
        let (mut link, theirs) = link();
        say(&theirs, SignatureStatus::Begun, 0);
        say(&theirs, SignatureStatus::Signed, 1);
        let signed = link.sign(&[1; 32], 0x0403, b"m", Instant::now() + SOON);
        assert_eq!(signed.as_deref(), Ok(&b"signature"[..]));
        assert_eq!((asked(&theirs), asked(&theirs)), (Some(1), Some(1)), "twice");
        say(&theirs, SignatureStatus::Refused, 2);
        let refused = link.sign(&[1; 32], 0x0403, b"m", Instant::now() + SOON);
        assert_eq!(refused, Err(SignatureFault::Refused));
    }
}
