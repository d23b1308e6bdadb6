//! Threads that wait for disks, so that no worker does.
//!
//! Handles the threads and their queue, and decides when a thread is stuck: its job takes longer
//! than its limit. A stuck thread is replaced, and the source that it waits for gets no further
//! thread beyond a share, until it answers again. The jobs themselves are the callers'.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use slab::Slab;

/// Largest number of waiting jobs per source: what four threads do within some seconds where each
/// takes a disk ten milliseconds. A later job would be answered too late.
const WAITING_MAX: usize = 1024;

/// Threads in all, for each wanted one: the others are stuck.
const STUCK_FACTOR: usize = 4;

/// The threads. Clones share them.
#[derive(Clone)]
pub(crate) struct FileThreads(Arc<ThreadPoolState>);

/// The subject that jobs wait for: the files of a service. If it hangs, the other sources still
/// have threads.
#[derive(Debug, Default)]
pub(crate) struct JobSource {
    stuck: AtomicUsize,
    waiting: AtomicUsize,
}

/// Too many jobs wait, or the source does not answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct TooManyJobs;

pub(crate) struct Job {
    pub(crate) source: Arc<JobSource>,
    /// Time after which the job's thread counts as stuck.
    pub(crate) limit: Duration,
    pub(crate) work: Box<dyn FnOnce() + Send>,
}

struct ThreadPoolState {
    /// Number of threads wanted that are not stuck.
    wanted: usize,
    /// CPUs that the threads run on, because a worker that starts one is pinned.
    cpus: Vec<u16>,
    state: Mutex<ThreadsState>,
    has_work: Condvar,
}

#[derive(Default)]
struct ThreadsState {
    queue: VecDeque<Job>,
    busy: Slab<BusyThread>,
    threads: usize,
    idle: usize,
}

struct BusyThread {
    source: Arc<JobSource>,
    until: Instant,
    is_stuck: bool,
}

impl FileThreads {
    /// Makes a pool of up to `wanted` threads, each started when there is work for it. The calling
    /// thread must run on all CPUs that this process may use.
    pub(crate) fn new(wanted: usize) -> Self {
        Self(Arc::new(ThreadPoolState {
            wanted,
            cpus: sys::cpu::allowed_cpus(),
            state: Mutex::default(),
            has_work: Condvar::new(),
        }))
    }

    /// Makes a pool without threads: [`Self::perform_next`] does the jobs.
    #[cfg(test)]
    pub(crate) fn unattended() -> Self {
        let threads = Self::new(1);
        threads.0.lock().threads = 1;
        threads
    }

    /// Does the oldest job here and now; returns whether there was one.
    #[cfg(test)]
    pub(crate) fn perform_next(&self) -> bool {
        let job = self.0.lock().queue.pop_front();
        job.map(|job| {
            job.source.waiting.fetch_sub(1, Ordering::Relaxed);
            (job.work)();
        })
        .is_some()
    }

    pub(crate) fn submit(&self, job: Job) -> Result<(), TooManyJobs> {
        let mut state = self.0.lock();
        state.note_stuck(Instant::now());
        let is_full = job.source.waiting.load(Ordering::Relaxed) >= WAITING_MAX;
        if is_full || self.0.is_blocked(&job.source) {
            self.start_more(state);
            return Err(TooManyJobs);
        }
        self.add(state, job);
        Ok(())
    }

    /// Queues a job that cannot be refused: the rest of an answer that has begun. Their number is
    /// bounded as well, because each connection has at most one.
    pub(crate) fn submit_rest(&self, job: Job) {
        let mut state = self.0.lock();
        state.note_stuck(Instant::now());
        self.add(state, job);
    }

    /// Finds stuck threads and replaces them. Called when a job took too long.
    pub(crate) fn review(&self) {
        let mut state = self.0.lock();
        state.note_stuck(Instant::now());
        self.start_more(state);
    }

    fn add(&self, mut state: MutexGuard<'_, ThreadsState>, job: Job) {
        job.source.waiting.fetch_add(1, Ordering::Relaxed);
        state.queue.push_back(job);
        self.0.has_work.notify_one();
        self.start_more(state);
    }

    /// Starts a thread if more jobs wait than threads are idle.
    fn start_more(&self, mut state: MutexGuard<'_, ThreadsState>) {
        let usable = state.threads - state.stuck();
        let is_wanted = usable < self.0.wanted && state.queue.len() > state.idle;
        if !is_wanted || state.threads >= self.0.wanted * STUCK_FACTOR {
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("files".to_owned());
        if thread.spawn(move || shared.run()).is_err() {
            // Without threads, jobs end by their limits.
            self.0.lock().threads -= 1;
        }
    }
}

impl ThreadPoolState {
    fn lock(&self) -> MutexGuard<'_, ThreadsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports whether half of the threads wait for the source in vain.
    fn is_blocked(&self, source: &JobSource) -> bool {
        source.stuck.load(Ordering::Relaxed) >= self.wanted.div_ceil(2)
    }

    fn run(&self) {
        // On an error the thread shares a worker's CPU, and is only slower.
        let _ = sys::cpu::confine_current_thread(&self.cpus);
        let mut state = self.lock();
        // More threads than wanted: some were stuck and are not any more.
        while state.threads - state.stuck() <= self.wanted {
            let next = state.queue.iter().position(|job| !self.is_blocked(&job.source));
            let Some(job) = next.and_then(|place| state.queue.remove(place)) else {
                state.idle += 1;
                let waited = self.has_work.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            job.source.waiting.fetch_sub(1, Ordering::Relaxed);
            let key = state.busy.insert(BusyThread {
                source: Arc::clone(&job.source),
                until: Instant::now() + job.limit,
                is_stuck: false,
            });
            drop(state);
            (job.work)();
            state = self.lock();
            if state.busy.remove(key).is_stuck {
                job.source.stuck.fetch_sub(1, Ordering::Relaxed);
                self.has_work.notify_all();
            }
        }
        state.threads -= 1;
    }
}

impl ThreadsState {
    fn note_stuck(&mut self, now: Instant) {
        for (_, busy) in &mut self.busy {
            if !busy.is_stuck && busy.until <= now {
                busy.is_stuck = true;
                busy.source.stuck.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn stuck(&self) -> usize {
        self.busy.iter().filter(|(_, busy)| busy.is_stuck).count()
    }
}

impl fmt::Debug for FileThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileThreads").field(&self.0.wanted).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn job(source: &Arc<JobSource>, limit: Duration, work: impl FnOnce() + Send + 'static) -> Job {
        Job { source: Arc::clone(source), limit, work: Box::new(work) }
    }

    /// A job that signals its beginning, and ends when it is released.
    fn held(source: &Arc<JobSource>, limit: Duration, begun: &Sender<()>) -> (Job, Sender<()>) {
        let (release, released) = channel::<()>();
        let begun = begun.clone();
        let work = move || {
            begun.send(()).unwrap();
            let _ = released.recv();
        };
        (job(source, limit, work), release)
    }

    fn said(source: &Arc<JobSource>, word: &'static str, to: &Sender<&'static str>) -> Job {
        let to = to.clone();
        job(source, LONG, move || to.send(word).unwrap())
    }

    fn words() -> (Sender<&'static str>, Receiver<&'static str>) {
        channel()
    }

    #[test]
    fn what_hangs_keeps_its_thread_and_nobody_elses() {
        let (hung, well) = (Arc::new(JobSource::default()), Arc::new(JobSource::default()));
        let threads = FileThreads::new(1);
        let (begin, begun) = channel();
        let (to, heard) = words();
        let (first, release) = held(&hung, Duration::ZERO, &begin);
        threads.submit(first).unwrap();
        begun.recv().unwrap();
        // The hung source's time is over at once: others get a thread, and it gets none.
        threads.submit(said(&well, "well", &to)).unwrap();
        assert_eq!(heard.recv(), Ok("well"));
        assert_eq!(threads.submit(said(&hung, "refused", &to)), Err(TooManyJobs));
        // The rest of an answer waits, and holds up nobody.
        threads.submit_rest(said(&hung, "rest", &to));
        threads.submit(said(&well, "well still", &to)).unwrap();
        assert_eq!(heard.recv(), Ok("well still"));
        drop(release);
        assert_eq!(heard.recv(), Ok("rest"));
        threads.submit(said(&hung, "again", &to)).unwrap();
        assert_eq!(heard.recv(), Ok("again"));
    }

    #[test]
    fn jobs_that_wait_are_limited_for_each_source() {
        let (busy, other) = (Arc::new(JobSource::default()), Arc::new(JobSource::default()));
        let threads = FileThreads::new(1);
        let (begin, begun) = channel();
        let (to, heard) = words();
        let (first, release) = held(&busy, LONG, &begin);
        threads.submit(first).unwrap();
        begun.recv().unwrap();
        for _ in 0..WAITING_MAX {
            threads.submit(said(&busy, "waited", &to)).unwrap();
        }
        assert_eq!(threads.submit(said(&busy, "more", &to)), Err(TooManyJobs));
        threads.submit(said(&other, "other", &to)).unwrap();
        drop(release);
        let all: Vec<_> = heard.iter().take(WAITING_MAX + 1).collect();
        assert_eq!(all.last(), Some(&"other"));
    }

    #[test]
    fn no_more_threads_are_started_than_may_be() {
        let threads = FileThreads::new(2);
        let (begin, begun) = channel();
        let sources: Vec<_> = (0..9).map(|_| Arc::new(JobSource::default())).collect();
        let releases = sources.iter().map(|source| {
            let (job, release) = held(source, Duration::ZERO, &begin);
            threads.submit(job).unwrap();
            release
        });
        let releases: Vec<_> = releases.collect();
        for _ in 0..2 * STUCK_FACTOR {
            begun.recv().unwrap();
            threads.review();
        }
        assert_eq!(threads.0.lock().threads, 2 * STUCK_FACTOR);
        assert!(begun.try_recv().is_err(), "the ninth waits");
        drop(releases);
        begun.recv().unwrap();
    }
}
