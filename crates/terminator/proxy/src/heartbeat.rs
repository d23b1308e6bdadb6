//! Whether the workers go on: each is asked, and answers in its next turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::commands::{Command, Mailbox};

/// Asks the workers whether they go on. Clones ask the same questions.
#[derive(Clone)]
pub struct Heartbeat {
    workers: Arc<[Pulse]>,
}

/// The way to a worker, and what is known of it.
pub(crate) struct Pulse {
    mailbox: Mailbox,
    /// Set while the worker has not answered.
    question: Arc<AtomicBool>,
    /// Set when the worker has drained and ended: nobody is there to answer, and nothing is wrong.
    is_drained: Arc<AtomicBool>,
}

impl Pulse {
    pub(crate) fn new(mailbox: Mailbox, is_drained: Arc<AtomicBool>) -> Self {
        Self {
            mailbox,
            question: Arc::default(),
            is_drained,
        }
    }

    fn is_open(&self) -> bool {
        self.question.load(Ordering::Relaxed) && !self.is_drained.load(Ordering::Relaxed)
    }
}

impl Heartbeat {
    pub(crate) fn of(workers: impl Iterator<Item = Pulse>) -> Self {
        Self {
            workers: workers.collect(),
        }
    }

    /// Asks every worker that has answered before; one that is stuck is not asked again, so that
    /// its questions do not add up.
    pub fn ask(&self) {
        for worker in self.workers.iter() {
            if !worker.question.swap(true, Ordering::Relaxed) {
                let question = Arc::clone(&worker.question);
                worker.mailbox.send(Command::Answer(question));
            }
        }
    }

    /// How many workers have not answered.
    pub fn unanswered(&self) -> usize {
        self.workers
            .iter()
            .filter(|worker| worker.is_open())
            .count()
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use sys::wake::Waker;

    use super::*;

    #[test]
    fn a_worker_that_is_stuck_is_counted_and_asked_once() {
        let ((first, commands), (second, stuck)) = (channel(), channel());
        let is_drained = Arc::<AtomicBool>::default();
        let pulses = [first, second].map(|sender| {
            let mailbox = Mailbox::new(sender, Arc::new(Waker::new().unwrap()));
            Pulse::new(mailbox, Arc::clone(&is_drained))
        });
        let heartbeat = Heartbeat::of(pulses.into_iter());
        assert_eq!((heartbeat.unanswered(), heartbeat.worker_count()), (0, 2));
        for _ in 0..3 {
            heartbeat.clone().ask();
            assert_eq!(heartbeat.unanswered(), 2);
            let Command::Answer(question) = commands.try_recv().unwrap() else {
                panic!("another command");
            };
            question.store(false, Ordering::Relaxed);
            assert_eq!(heartbeat.unanswered(), 1);
        }
        assert_eq!(stuck.try_iter().count(), 1);
        is_drained.store(true, Ordering::Relaxed);
        assert_eq!(
            heartbeat.unanswered(),
            0,
            "an end by a drain is no standstill"
        );
    }
}
