//! Places at servers with a connection limit, shared by all workers.
//!
//! Handles the lock, which is held for one choice, and wake-ups across workers; `backend::places`
//! orders the turns. Both a place and a turn are given back when they are dropped.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backend::options::QueueOptions;
use backend::places::{Limit, Places, QueuePosition};
use backend::pool::{Choice, ChosenServer, PickRequest, Pool};

use sys::epoll::Waker;

/// Interval at which a waiting connection checks whether another server suits it by now: one that
/// came back up, say. Places that are given back need no check.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The places of one service, over all workers and, after a reload, over the plans of its name.
#[derive(Default)]
pub(crate) struct SharedPlaces(Mutex<Places<Caller>>);

/// A connection that can be woken.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) calls: Calls,
    pub(crate) token: u64,
}

/// The way to wake a worker's connections that have a place reserved.
#[derive(Clone)]
pub(crate) struct Calls {
    tokens: Sender<u64>,
    waker: Arc<Waker>,
}

impl Calls {
    /// Makes the way to the worker that `waker` wakes, and the end that this worker reads.
    pub(crate) fn new(waker: &Arc<Waker>) -> (Self, Receiver<u64>) {
        let (tokens, called) = channel();
        let waker = Arc::clone(waker);
        (Self { tokens, waker }, called)
    }
}

pub(crate) struct ServerSlot {
    places: Arc<SharedPlaces>,
    limit: Limit,
}

pub(crate) struct QueueTurn {
    places: Arc<SharedPlaces>,
    turn: QueuePosition,
    pub(crate) since: Instant,
    pub(crate) until: Instant,
    pub(crate) look_at: Instant,
}

pub(crate) enum Chosen {
    Picked(ChosenServer, Option<ServerSlot>),
    /// The connection has a place in the queue.
    Waits,
    /// The queue is full as well: this number of servers have all reached their limits.
    QueueFull(usize),
    Nothing,
}

impl SharedPlaces {
    /// Chooses a server that has room, or else joins the queue or stays in it. One step under the
    /// lock, because a place given back meanwhile would be missed otherwise.
    pub(crate) fn choose(
        self: &Arc<Self>,
        pool: &mut Pool,
        request: &PickRequest,
        waiting: &mut Option<Box<QueueTurn>>,
        queue: &QueueOptions,
        caller: Caller,
    ) -> Chosen {
        let mut places = self.lock();
        let turn = waiting.as_ref().map(|one| one.turn);
        let mut woken = None;
        if let Some((turn, reserved)) = turn.and_then(|turn| Some((turn, places.claim(turn)?))) {
            match pool.pick(request, |limit| limit == reserved) {
                Choice::Picked(picked) if picked.limit == Some(reserved) => {
                    drop(places);
                    return Chosen::Picked(picked, Some(self.place(reserved)));
                }
                // The server went down meanwhile.
                _ => {
                    places.stay(turn, Vec::new());
                    woken = places.give(reserved);
                }
            }
        }
        let from = turn.unwrap_or(QueuePosition::NEWCOMER);
        let chosen = match pool.pick(request, |limit| places.has_room(limit, from)) {
            Choice::Picked(picked) => {
                let place = picked.limit.map(|limit| {
                    places.take(limit);
                    self.place(limit)
                });
                Chosen::Picked(picked, place)
            }
            Choice::Full(limits) => match turn {
                Some(turn) => {
                    places.stay(turn, limits);
                    Chosen::Waits
                }
                None => {
                    let servers = limits.len();
                    let turn = places.join(caller, limits, queue.length);
                    *waiting =
                        turn.map(|turn| self.waiting(turn, request.now, queue.timeout).into());
                    waiting.as_ref().map_or(Chosen::QueueFull(servers), |_| Chosen::Waits)
                }
            },
            Choice::Nothing => Chosen::Nothing,
        };
        drop(places);
        wake(woken);
        if let Some(waiting) = waiting {
            waiting.look_at = waiting.until.min(request.now + LOOK_INTERVAL);
        }
        chosen
    }

    /// Takes a place at one server, if it has room and nobody waits for it.
    pub(crate) fn take(self: &Arc<Self>, limit: Limit) -> Option<ServerSlot> {
        let mut places = self.lock();
        let has_room = places.has_room(limit, QueuePosition::NEWCOMER);
        has_room.then(|| places.take(limit))?;
        drop(places);
        Some(self.place(limit))
    }

    /// Sets the servers' connection limits to those of these options.
    pub(crate) fn set_limits(&self, options: &backend::options::Options) {
        let woken = self.lock().set_limits(Pool::new(options, 0).limits());
        woken.into_iter().for_each(|caller| wake(Some(caller)));
    }

    fn place(self: &Arc<Self>, limit: Limit) -> ServerSlot {
        let places = Arc::clone(self);
        ServerSlot { places, limit }
    }

    fn waiting(
        self: &Arc<Self>,
        turn: QueuePosition,
        now: Instant,
        timeout: Duration,
    ) -> QueueTurn {
        QueueTurn { places: Arc::clone(self), turn, since: now, until: now + timeout, look_at: now }
    }

    /// Locks the places. Poison is ignored, because a panic ends the whole process.
    fn lock(&self) -> MutexGuard<'_, Places<Caller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(caller: Option<Caller>) {
    // A worker that has ended has no connections.
    if let Some(Caller { calls, token }) = caller
        && calls.tokens.send(token).is_ok()
    {
        calls.waker.wake();
    }
}

impl Drop for ServerSlot {
    fn drop(&mut self) {
        let woken = self.places.lock().give(self.limit);
        wake(woken);
    }
}

impl Drop for QueueTurn {
    fn drop(&mut self) {
        let woken = self.places.lock().leave(self.turn);
        wake(woken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use backend::options::{Balance, Options, PassiveOptions, ServerOptions};
    use backend::server::TriedServers;

    const QUEUE: QueueOptions = QueueOptions { length: 9, timeout: Duration::from_secs(60) };

    /// A worker with a pool of one server, which takes one connection.
    struct Worker {
        pool: Pool,
        calls: Calls,
        called: Receiver<u64>,
    }

    impl Worker {
        fn new(number: usize) -> Self {
            let server = ServerOptions {
                endpoint: "127.0.0.1:9".parse().unwrap(),
                weight: 1,
                backup: false,
                connections_max: Some(1),
            };
            let options = Options {
                servers: vec![server],
                balance: Balance::RoundRobin,
                passive: PassiveOptions { failures: 0, ejection_time: Duration::ZERO },
                check: None,
                slow_start: Duration::ZERO,
                on_down: backend::options::DownAction::Keep,
                queue: QUEUE,
            };
            let (calls, called) = Calls::new(&Arc::new(Waker::new().unwrap()));
            Self { pool: Pool::new(&options, number), calls, called }
        }

        fn choose(
            &mut self,
            places: &Arc<SharedPlaces>,
            waiting: &mut Option<Box<QueueTurn>>,
            token: u64,
        ) -> Chosen {
            let request =
                PickRequest { home: None, now: Instant::now(), key: 0, tried: TriedServers::new() };
            let caller = Caller { calls: self.calls.clone(), token };
            places.choose(&mut self.pool, &request, waiting, &QUEUE, caller)
        }

        fn called(&self) -> Vec<u64> {
            self.called.try_iter().collect()
        }
    }

    #[test]
    fn a_place_that_is_dropped_wakes_the_next_worker_and_so_does_a_turn() {
        let places = Arc::new(SharedPlaces::default());
        let [mut one, mut other] = [0, 1].map(Worker::new);
        let Chosen::Picked(_, held) = one.choose(&places, &mut None, 1) else {
            panic!("there is room");
        };
        let (mut first, mut second) = (None, None);
        assert!(matches!(other.choose(&places, &mut first, 2), Chosen::Waits));
        assert!(matches!(one.choose(&places, &mut second, 3), Chosen::Waits));
        drop(held);
        assert_eq!((one.called(), other.called()), (vec![], vec![2]));
        assert!(
            matches!(one.choose(&places, &mut second, 3), Chosen::Waits),
            "it is reserved for another"
        );
        // The connection ends before it has looked.
        drop(first);
        assert_eq!((one.called(), other.called()), (vec![3], vec![]));
        one.pool.set_disabled(0, true, Instant::now());
        let none = one.choose(&places, &mut second, 3);
        assert!(matches!(none, Chosen::Nothing), "it went down meanwhile");
        drop(second);
        let Chosen::Picked(_, Some(held)) = other.choose(&places, &mut None, 4) else {
            panic!("all have given back what they had");
        };
        drop(held);
        assert_eq!((one.called(), other.called()), (vec![], vec![]));
    }
}
