//! All workers: starts them, gives them orders, and drains them.
//!
//! Handles the threads and the messages to them. Each message that changes what is served is
//! answered, so the sender knows when it holds.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sys::epoll::Waker;
use telemetry::catalogue::ServiceGauge;
use telemetry::registry::Registry;

use crate::commands::{Assignment, Command, Mailbox};
pub use crate::commands::{BoundListener, ServerNews};
use crate::connection_log::{ConnectionLog, LineQueue};
use crate::file_threads::FileThreads;
use crate::files::FileContext;
use crate::plan::Plan;
use crate::sources::{Allowances, SourceTable};
use crate::worker::Worker;

/// The workers, and the way to them.
pub struct DataPlane {
    workers: Vec<Handle>,
    registry: Arc<Registry>,
    sources: Arc<SourceTable>,
    plan: Mutex<Plan>,
}

struct Handle {
    mailbox: Mailbox,
    thread: JoinHandle<io::Result<u64>>,
    /// Set when the worker ends without an error.
    is_drained: Arc<AtomicBool>,
}

impl DataPlane {
    /// Starts as many workers as the plan wants; `listeners` holds one list for each. Lines about
    /// connections go to `lines`. Unless `accepts` is set, no worker takes a connection before
    /// [`Self::accept`].
    pub fn start(
        plan: Plan,
        listeners: Vec<Vec<BoundListener>>,
        registry: Arc<Registry>,
        lines: Arc<LineQueue>,
        accepts: bool,
    ) -> io::Result<Self> {
        let count = plan.worker_count();
        assert_eq!(listeners.len(), count, "each worker has its listeners");
        let cpus = plan.workers.cpus.clone();
        let mut workers = Vec::with_capacity(count);
        let (started, starts) = channel();
        let wakers: Vec<_> =
            (0..count).map(|_| Waker::new().map(Arc::new)).collect::<io::Result<_>>()?;
        let allowances = Allowances::new(wakers.clone().into());
        let sources = Arc::clone(&allowances.sources);
        let file_threads = FileThreads::new(plan.workers.file_threads);
        let its = wakers.into_iter().zip(cpus).zip(listeners);
        for (index, ((waker, cpu), listeners)) in its.enumerate() {
            let (commands, received) = channel();
            let counters = registry.worker(index);
            let lines =
                ConnectionLog::new(plan.log, index, Arc::clone(&lines), Arc::clone(&counters));
            let assignment = assignment(&plan, index, listeners, &registry);
            let mailbox = Mailbox::new(commands, Arc::clone(&waker));
            let file_context = Arc::new(FileContext::new(file_threads.clone(), mailbox.clone()));
            let started = started.clone();
            let is_drained = Arc::<AtomicBool>::default();
            let drained = Arc::clone(&is_drained);
            let allowances = allowances.clone();
            let make = move || {
                if let Some(cpu) = cpu {
                    sys::cpu::pin_current_thread(cpu)?;
                }
                Worker::new(index, allowances, waker, received, file_context, counters, lines)
            };
            let body = move || serve(make(), started, (assignment, accepts), &drained);
            let thread = std::thread::Builder::new().name(format!("worker-{index}")).spawn(body)?;
            workers.push(Handle { mailbox, thread, is_drained });
        }
        drop(started);
        starts.into_iter().collect::<io::Result<()>>()?;
        Ok(Self { workers, registry, sources, plan: Mutex::new(plan) })
    }

    /// Serves another plan from now on; returns when every worker does. Open connections keep what
    /// they began with. The number of workers and their CPUs stay as they are.
    pub fn replace(&self, plan: Plan, listeners: Vec<Vec<BoundListener>>) {
        assert_eq!(listeners.len(), self.workers.len(), "each worker has its listeners");
        plan.succeed(&self.plan());
        let (answer, answers) = channel();
        for (index, listeners) in listeners.into_iter().enumerate() {
            let assignment = assignment(&plan, index, listeners, &self.registry);
            self.send(index, Command::Replace(Box::new(assignment), answer.clone()));
        }
        drop(answer);
        // Ends when every worker has answered or dropped its end.
        while answers.recv().is_ok() {}
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Makes all workers accept what waits at their listeners, and then ignore those; or accept
    /// again. Returns when every worker does.
    pub fn accept(&self, accepts: bool) {
        let (answer, answers) = channel();
        self.send_all(|| Command::Accept(accepts, answer.clone()));
        drop(answer);
        // Ends when every worker has answered or dropped its end.
        while answers.recv().is_ok() {}
    }

    /// Returns the number of handshakes in progress, of all services.
    pub fn handshakes(&self) -> u64 {
        self.registry.sum(ServiceGauge::HandshakesInProgress)
    }

    /// Returns the plan that is served.
    pub fn plan(&self) -> Plan {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the number of workers.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }

    pub fn sources(&self) -> Arc<SourceTable> {
        Arc::clone(&self.sources)
    }

    /// Returns a [`Heartbeat`] that checks whether the workers are alive.
    pub fn heartbeat(&self) -> Heartbeat {
        let pulses = self
            .workers
            .iter()
            .map(|worker| WorkerLink::new(worker.mailbox.clone(), Arc::clone(&worker.is_drained)));
        Heartbeat::of(pulses)
    }

    /// Passes news about a server to all workers.
    pub fn tell(&self, service: &str, server: usize, news: &ServerNews) {
        let service: Arc<str> = service.into();
        self.send_all(|| Command::Server {
            service: Arc::clone(&service),
            server,
            news: news.clone(),
        });
    }

    /// Returns a closer of servers' sessions that outlasts a [`Self::join`].
    pub fn session_closer(&self) -> SessionCloser {
        SessionCloser(self.workers.iter().map(|worker| worker.mailbox.clone()).collect())
    }

    /// Accepts no more; connections have until the deadline to end by themselves.
    pub fn drain(&self, deadline: Duration) {
        let deadline = Instant::now() + deadline;
        self.send_all(|| Command::Drain(deadline));
    }

    /// Reports whether all workers have ended.
    pub fn is_finished(&self) -> bool {
        self.workers.iter().all(|worker| worker.thread.is_finished())
    }

    /// Waits until all workers have ended; returns how many connections a drain's deadline ended.
    pub fn join(self) -> io::Result<u64> {
        let ended = self.workers.into_iter().map(|worker| {
            // A worker that panics takes the process with it (`panic = "abort"`).
            let ended = worker.thread.join();
            ended.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
        });
        ended.sum()
    }

    fn send_all(&self, command: impl Fn() -> Command) {
        for index in 0..self.workers.len() {
            self.send(index, command());
        }
    }

    fn send(&self, index: usize, command: Command) {
        self.workers[index].mailbox.send(command);
    }
}

/// Ends sessions of servers while workers drain.
pub struct SessionCloser(Vec<Mailbox>);

impl SessionCloser {
    /// Disables the server and ends all its sessions.
    pub fn close(&self, service: &str, server: usize) {
        for (mailbox, news) in self
            .0
            .iter()
            .flat_map(|one| [ServerNews::Disabled(true), ServerNews::Close].map(|news| (one, news)))
        {
            mailbox.send(Command::Server { service: service.into(), server, news });
        }
    }
}

/// Runs a worker thread, from its first plan to the end of its drain.
fn serve(
    made: io::Result<Worker>,
    started: Sender<io::Result<()>>,
    (assignment, accepts): (Assignment, bool),
    is_drained: &AtomicBool,
) -> io::Result<u64> {
    let mut worker = match made {
        Ok(worker) => worker,
        Err(error) => {
            let _ = started.send(Err(error));
            return Ok(0);
        }
    };
    worker.accept(accepts);
    worker.apply_plan(assignment);
    // `DataPlane::start` waits for this, and for the end of the channel.
    let _ = started.send(Ok(()));
    drop(started);
    let cut = worker.run()?;
    is_drained.store(true, Ordering::Relaxed);
    Ok(cut)
}

fn assignment(
    plan: &Plan,
    worker: usize,
    listeners: Vec<BoundListener>,
    registry: &Registry,
) -> Assignment {
    let counters = plan
        .services
        .iter()
        .map(|service| registry.service(worker, &service.name, &service.server_names))
        .collect();
    Assignment {
        services: plan.services.to_vec(),
        shared: plan.shared.to_vec(),
        counters,
        listeners,
        limits: plan.limits.clone(),
        log: plan.log,
        descriptors: plan.descriptors,
    }
}

/// Checks whether the workers are alive. Clones share their questions.
#[derive(Clone)]
pub struct Heartbeat {
    workers: Arc<[WorkerLink]>,
}

/// The mailbox of a worker, and the state of its answer.
pub(crate) struct WorkerLink {
    mailbox: Mailbox,
    /// Set while the worker has not answered.
    question: Arc<AtomicBool>,
    /// Set when the worker has drained and ended: no answer follows, and nothing is wrong.
    is_drained: Arc<AtomicBool>,
}

impl WorkerLink {
    pub(crate) fn new(mailbox: Mailbox, is_drained: Arc<AtomicBool>) -> Self {
        Self { mailbox, question: Arc::default(), is_drained }
    }

    fn is_open(&self) -> bool {
        self.question.load(Ordering::Relaxed) && !self.is_drained.load(Ordering::Relaxed)
    }
}

impl Heartbeat {
    pub(crate) fn of(workers: impl Iterator<Item = WorkerLink>) -> Self {
        Self { workers: workers.collect() }
    }

    /// Asks every worker that has answered before; a stuck worker is not asked again, so that its
    /// questions do not add up.
    pub fn ask(&self) {
        for worker in self.workers.iter() {
            if !worker.question.swap(true, Ordering::Relaxed) {
                let question = Arc::clone(&worker.question);
                worker.mailbox.send(Command::Answer(question));
            }
        }
    }

    /// Returns how many workers have not answered.
    pub fn unanswered(&self) -> usize {
        self.workers.iter().filter(|worker| worker.is_open()).count()
    }

    /// Returns the number of workers.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }
}

#[cfg(test)]
mod heartbeat_tests {
    use std::sync::mpsc::channel;

    use sys::epoll::Waker;

    use super::*;

    #[test]
    fn a_worker_that_is_stuck_is_counted_and_asked_once() {
        let ((first, commands), (second, stuck)) = (channel(), channel());
        let is_drained = Arc::<AtomicBool>::default();
        let pulses = [first, second].map(|sender| {
            let mailbox = Mailbox::new(sender, Arc::new(Waker::new().unwrap()));
            WorkerLink::new(mailbox, Arc::clone(&is_drained))
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
        assert_eq!(heartbeat.unanswered(), 0, "an end by a drain is no standstill");
    }
}
