//! Whether the workers go on: each is asked, and answers in its next turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::commands::{Command, Mailbox};

/// Asks the workers whether they go on. Clones ask the same questions.
#[derive(Clone)]
pub struct Heartbeat {
    workers: Arc<[(Mailbox, Question)]>,
}

/// Set while the worker has not answered.
type Question = Arc<AtomicBool>;

impl Heartbeat {
    pub(crate) fn of(mailboxes: impl Iterator<Item = Mailbox>) -> Self {
        let workers = mailboxes.map(|mailbox| (mailbox, Question::default()));
        Self {
            workers: workers.collect(),
        }
    }

    /// Asks every worker that has answered before; one that is stuck is not asked again, so that
    /// its questions do not add up.
    pub fn ask(&self) {
        for (mailbox, question) in self.workers.iter() {
            if !question.swap(true, Ordering::Relaxed) {
                mailbox.send(Command::Answer(Arc::clone(question)));
            }
        }
    }

    /// How many workers have not answered.
    pub fn unanswered(&self) -> usize {
        let open = self.workers.iter();
        open.filter(|(_, question)| question.load(Ordering::Relaxed))
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
        let mailboxes =
            [first, second].map(|sender| Mailbox::new(sender, Arc::new(Waker::new().unwrap())));
        let heartbeat = Heartbeat::of(mailboxes.into_iter());
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
    }
}
