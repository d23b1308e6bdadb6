//! Manages the clients of a thread: which are free, and their sessions and connections.
//!
//! With session arrivals a client is a slot: a new client takes a free slot, and leaves it when all
//! its requests have succeeded or one has failed. Pure: no socket, no clock.

use std::collections::VecDeque;
use std::time::Instant;

use crate::plan::{ClientSelection, Clients, Handshake, LoadPlan};

/// Maximum number of phases, which tell how far sessions are used.
const PHASES_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct ClientPool {
    rules: Clients,
    clients: Vec<PooledClient>,
    /// Free clients by address, and at each address by how far their session is used; each in the
    /// order in which they became free.
    free: Vec<VecDeque<u32>>,
    /// Address to serve next. Addresses have turns because clients of one that is down never have a
    /// session: if those with one are preferred, it would hardly be tried.
    address: usize,
    /// Phase of each address to serve next. Round-robin among them mixes full handshakes and
    /// resumptions evenly; one queue for all would send every client's full handshake in one wave.
    /// Without a limit on sessions there are at most two: clients with one, and without.
    turns: Vec<usize>,
    /// Resting clients, in the order in which they will be free; with session arrivals, until their
    /// next requests are due.
    resting: VecDeque<(Instant, u32)>,
    /// `None` if clients stay for the whole load.
    arrivals: Option<Arrivals>,
}

#[derive(Debug)]
struct Arrivals {
    requests_each: u32,
    /// Kinds of handshake that arriving clients want, in turn.
    kinds: Vec<Handshake>,
    /// Number of the next client, among those of all threads.
    next: u32,
    /// Distance from one of this thread's numbers to its next.
    step: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct PooledClient {
    /// Handshake of every connection but the first of a session.
    pub(crate) wants: Handshake,
    /// Requests with the current session; 0 without one, or if it is used up.
    session_requests: u32,
    /// Key of the open connection.
    pub(crate) connection: Option<usize>,
    connection_requests: u32,
    /// Requests that an arrived client has yet to make.
    left: u32,
}

impl PooledClient {
    fn new(wants: Handshake, left: u32) -> Self {
        Self { wants, session_requests: 0, connection: None, connection_requests: 0, left }
    }
}

impl ClientPool {
    /// Makes the pool of a plan; see [`Self::new`].
    pub(crate) fn of_plan(plan: &LoadPlan, first: u32, step: u32) -> Self {
        let kinds = match &plan.tls {
            Some(tls) => &tls.handshakes[..],
            None => &[Handshake::Full],
        };
        let pool = match plan.requests_per_arrival() {
            None => Self::new(plan.clients, kinds, first, step),
            Some(each) => Self::with_arrivals(plan.clients, each, kinds, first, step),
        };
        // A client whose sessions move visits all addresses by itself.
        let moves = plan.target.moves_sessions;
        pool.on_addresses(if moves { 1 } else { plan.target.addresses.len() }, first)
    }

    /// Assigns the clients to this many addresses, in turn.
    fn on_addresses(mut self, count: usize, first: u32) -> Self {
        let queues = std::mem::take(&mut self.free);
        let phases = queues.len();
        self.turns = vec![0; count.max(1)];
        self.address = first as usize % self.turns.len();
        self.free = vec![VecDeque::new(); phases * self.turns.len()];
        for (phase, client) in
            queues.iter().enumerate().flat_map(|(phase, all)| all.iter().map(move |it| (phase, it)))
        {
            let place = self.place(*client, phase);
            self.free[place].push_back(*client);
        }
        self
    }

    /// Returns the index of a queue among those of all addresses and phases.
    fn place(&self, client: u32, phase: usize) -> usize {
        client as usize % self.turns.len() * self.phases() + phase
    }

    fn phases(&self) -> usize {
        self.free.len() / self.turns.len()
    }

    /// Makes the clients with the indices `first`, `first + step`, … of all; the kinds of handshake
    /// alternate by index.
    fn new(rules: Clients, kinds: &[Handshake], first: u32, step: u32) -> Self {
        let clients: Vec<_> = (first..rules.count)
            .step_by(step.max(1) as usize)
            .map(|index| PooledClient::new(kind_of(kinds, index), 0))
            .collect();
        let phases = match (rules.requests_per_session, rules.selection) {
            (Some(requests), _) => (requests as usize).clamp(1, PHASES_MAX),
            (None, ClientSelection::RoundRobin) => 1,
            (None, ClientSelection::Fewest) => 2,
        };
        let mut free = vec![VecDeque::new(); phases];
        let all = (0..clients.len() as u32).collect();
        // Clients without a session come last if as few as possible are wanted.
        let fresh = match rules.requests_per_session {
            Some(_) => 0,
            None => phases - 1,
        };
        free[fresh] = all;
        Self {
            rules,
            clients,
            free,
            address: 0,
            turns: vec![0],
            resting: VecDeque::new(),
            arrivals: None,
        }
    }

    /// Makes slots for arriving clients, each with this number of requests.
    fn with_arrivals(
        rules: Clients,
        requests_each: u32,
        kinds: &[Handshake],
        first: u32,
        step: u32,
    ) -> Self {
        let mut client_pool = Self::new(rules, kinds, first, step);
        client_pool.arrivals =
            Some(Arrivals { requests_each, kinds: kinds.to_vec(), next: first, step });
        client_pool
    }

    pub(crate) fn has_arrivals(&self) -> bool {
        self.arrivals.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    /// Takes a free client, if there is one; with session arrivals, a newly arrived one.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let client = self.take_free();
        let Some(arrivals) = &mut self.arrivals else {
            return client;
        };
        // A client that finds no slot has arrived, too.
        let kind = kind_of(&arrivals.kinds, arrivals.next);
        let new = PooledClient::new(kind, arrivals.requests_each);
        arrivals.next = arrivals.next.wrapping_add(arrivals.step);
        *self.client_mut(client?) = new;
        client
    }

    fn take_free(&mut self) -> Option<u32> {
        let (addresses, phases) = (self.turns.len(), self.phases());
        for address in (self.address..addresses).chain(0..self.address) {
            let turn = self.turns[address];
            for phase in (turn..phases).chain(0..turn) {
                let Some(client) = self.free[address * phases + phase].pop_front() else {
                    continue;
                };
                self.address = (address + 1) % addresses;
                if self.rules.requests_per_session.is_some() {
                    self.turns[address] = (phase + 1) % phases;
                }
                return Some(client);
            }
        }
        None
    }

    /// Lets a client that finished a request rest, until then at least. With session arrivals, a
    /// client without further requests leaves; the next request of any other is due after the rest.
    pub(crate) fn release(&mut self, client: u32, now: Instant, until: Option<Instant>) {
        let rested = now + self.rules.think;
        let until = until.map_or(rested, |until| until.max(rested));
        let is_over = match self.arrivals {
            Some(_) => self.is_leaving(client),
            None => until <= now,
        };
        if is_over {
            return self.set_free(client);
        }
        // The rest nearly always is as long as that of the client before.
        let later = self.resting.iter().rev().take_while(|(at, _)| *at > until);
        let place = self.resting.len() - later.count();
        self.resting.insert(place, (until, client));
    }

    /// Frees the clients that have rested. With session arrivals they go on instead.
    pub(crate) fn wake(&mut self, now: Instant) {
        if self.arrivals.is_some() {
            return;
        }
        while let Some((until, client)) = self.resting.front().copied() {
            if until > now {
                return;
            }
            self.resting.pop_front();
            self.set_free(client);
        }
    }

    /// Returns when the next resting client will be free.
    pub(crate) fn next_rested(&self) -> Option<Instant> {
        match self.arrivals {
            Some(_) => None,
            None => self.resting.front().map(|(until, _)| *until),
        }
    }

    /// Returns when the next request of a resting client is due, with session arrivals.
    pub(crate) fn next_to_go_on(&self) -> Option<Instant> {
        self.arrivals.as_ref()?;
        self.resting.front().map(|(due, _)| *due)
    }

    /// Returns the client of that request.
    pub(crate) fn go_on(&mut self) -> Option<u32> {
        self.arrivals.as_ref()?;
        self.resting.pop_front().map(|(_, client)| client)
    }

    /// Ends the requests of a client after a failure, with session arrivals.
    pub(crate) fn give_up(&mut self, client: u32) {
        self.client_mut(client).left = 0;
    }

    /// Reports whether a client that arrived has no request left.
    pub(crate) fn is_leaving(&self, client: u32) -> bool {
        self.arrivals.is_some() && self.client(client).left == 0
    }

    fn set_free(&mut self, client: u32) {
        let phase = match self.arrivals {
            // The next client in this slot has no session.
            Some(_) => 0,
            None => self.phase(client),
        };
        let place = self.place(client, phase);
        self.free[place].push_back(client);
    }

    fn phase(&self, client: u32) -> usize {
        let used = self.client(client).session_requests as usize;
        match self.rules.requests_per_session {
            Some(requests) => used * self.phases() / (requests as usize).max(1),
            None if used == 0 => usize::MAX,
            None => 0,
        }
        .min(self.phases() - 1)
    }

    pub(crate) fn client(&self, client: u32) -> &PooledClient {
        &self.clients[client as usize]
    }

    pub(crate) fn client_mut(&mut self, client: u32) -> &mut PooledClient {
        &mut self.clients[client as usize]
    }

    /// Reports whether the next connection of a client begins a session, instead of resuming one.
    pub(crate) fn begins_session(&self, client: u32) -> bool {
        self.client(client).session_requests == 0
    }

    /// Reports whether a request that begins now is the last one of its connection.
    pub(crate) fn is_last_of_connection(&self, client: u32) -> bool {
        let state = self.client(client);
        if self.arrivals.is_some() && state.left <= 1 {
            return true;
        }
        let is_full = |limit: Option<u32>, used: u32| limit.is_some_and(|limit| used + 1 >= limit);
        is_full(self.rules.requests_per_connection, state.connection_requests)
            || is_full(self.rules.requests_per_session, state.session_requests)
    }

    /// Counts a reply to a client, complete or not.
    pub(crate) fn count_request(&mut self, client: u32) {
        let limit = self.rules.requests_per_session;
        let state = self.client_mut(client);
        state.connection_requests += 1;
        state.left = state.left.saturating_sub(1);
        // The counter cannot overflow: without a limit it only tells whether there was a request.
        state.session_requests = match limit {
            Some(limit) if state.session_requests + 1 >= limit => 0,
            Some(_) => state.session_requests + 1,
            None => 1,
        };
    }

    /// Drops a client's session: its next handshake is full.
    pub(crate) fn begin_anew(&mut self, client: u32) {
        self.client_mut(client).session_requests = 0;
    }

    /// Notes that a client's connection is gone.
    pub(crate) fn disconnect(&mut self, client: u32) {
        let state = self.client_mut(client);
        state.connection = None;
        state.connection_requests = 0;
    }
}

fn kind_of(kinds: &[Handshake], index: u32) -> Handshake {
    let turn = index as usize % kinds.len().max(1);
    kinds.get(turn).copied().unwrap_or(Handshake::Full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn rules(count: u32, per_session: Option<u32>, per_connection: Option<u32>) -> Clients {
        Clients {
            count,
            requests_per_session: per_session,
            requests_per_connection: per_connection,
            think: Duration::ZERO,
            selection: ClientSelection::RoundRobin,
        }
    }

    /// Reports, for each of `count` successive transactions, whether it begins a session.
    fn beginnings(client_pool: &mut ClientPool, transactions: usize) -> Vec<bool> {
        let now = Instant::now();
        (0..transactions)
            .map(|_| {
                let client = client_pool.take().unwrap();
                let begins = client_pool.begins_session(client);
                client_pool.count_request(client);
                client_pool.disconnect(client);
                client_pool.release(client, now, None);
                begins
            })
            .collect()
    }

    #[test]
    fn sessions_have_their_length_and_are_mixed_evenly() {
        let mut client_pool =
            ClientPool::new(rules(100, Some(4), Some(1)), &[Handshake::Psk], 0, 1);
        let all = beginnings(&mut client_pool, 400);
        assert_eq!(all.iter().filter(|begins| **begins).count(), 100);
        for part in all.chunks(4) {
            assert_eq!(part.iter().filter(|begins| **begins).count(), 1, "{all:?}");
        }
    }

    #[test]
    fn without_a_limit_each_client_begins_once() {
        let mut client_pool = ClientPool::new(rules(10, None, Some(1)), &[Handshake::Psk], 0, 1);
        let all = beginnings(&mut client_pool, 100);
        assert!(all[..10].iter().all(|begins| *begins));
        assert!(!all[10..].iter().any(|begins| *begins));
    }

    #[test]
    fn the_fewest_clients_are_those_who_have_a_session() {
        let rules = Clients { selection: ClientSelection::Fewest, ..rules(10, None, Some(1)) };
        let mut client_pool = ClientPool::new(rules, &[Handshake::Psk], 0, 1);
        let all = beginnings(&mut client_pool, 100);
        assert_eq!(all.iter().filter(|begins| **begins).count(), 1);
    }

    /// The second of two addresses is down.
    #[test]
    fn an_address_that_is_down_has_its_share_of_attempts() {
        let fewest = Clients { selection: ClientSelection::Fewest, ..rules(10, None, Some(1)) };
        for rules in [fewest, rules(10, None, Some(1)), rules(10, Some(4), Some(1))] {
            let pool = ClientPool::new(rules, &[Handshake::Psk], 0, 1);
            let mut client_pool = pool.on_addresses(2, 0);
            let mut failed = 0;
            for _ in 0..100 {
                let client = client_pool.take().unwrap();
                match client % 2 {
                    0 => client_pool.count_request(client),
                    _ => failed += 1,
                }
                client_pool.disconnect(client);
                client_pool.release(client, Instant::now(), None);
            }
            assert_eq!(failed, 50, "{rules:?}");
        }
    }

    #[test]
    fn clients_are_shared_among_threads_and_kinds() {
        use Handshake::{Full, Psk, Ticket};
        let kinds = [Full, Psk, Ticket];
        let of_thread = |thread| ClientPool::new(rules(7, None, Some(1)), &kinds, thread, 2);
        let (even, odd) = (of_thread(0), of_thread(1));
        assert_eq!((even.len(), odd.len()), (4, 3));
        let wants = |client_pool: &ClientPool| -> Vec<_> {
            client_pool.clients.iter().map(|client| client.wants).collect()
        };
        assert_eq!(wants(&even), [Full, Ticket, Psk, Full]);
        assert_eq!(wants(&odd), [Psk, Full, Ticket]);
    }

    #[test]
    fn connections_end_by_either_limit() {
        let mut client_pool = ClientPool::new(rules(1, Some(4), Some(3)), &[Handshake::Psk], 0, 1);
        let mut lasts = Vec::new();
        for _ in 0..8 {
            let last = client_pool.is_last_of_connection(0);
            client_pool.count_request(0);
            if last {
                client_pool.disconnect(0);
            }
            lasts.push(last);
        }
        let t = true;
        assert_eq!(lasts, [!t, !t, t, t, !t, !t, t, t]);
    }

    #[test]
    fn who_thinks_is_not_free() {
        let think = Duration::from_secs(1);
        let rules = Clients { think, ..rules(2, None, None) };
        let mut client_pool = ClientPool::new(rules, &[Handshake::Full], 0, 1);
        let now = Instant::now();
        let (first, second) = (client_pool.take().unwrap(), client_pool.take().unwrap());
        client_pool.release(first, now, Some(now + 3 * think));
        client_pool.release(second, now, None);
        client_pool.wake(now);
        assert_eq!((client_pool.take(), client_pool.next_rested()), (None, Some(now + think)));
        client_pool.wake(now + think);
        assert_eq!(client_pool.take(), Some(second));
        assert_eq!(client_pool.next_rested(), Some(now + 3 * think));
        client_pool.wake(now + 3 * think);
        assert_eq!((client_pool.take(), client_pool.next_rested()), (Some(first), None));
    }

    #[test]
    fn users_come_anew_and_leave_when_they_have_everything() {
        let rules = rules(2, Some(3), Some(1));
        let mut client_pool = ClientPool::with_arrivals(rules, 3, &[Handshake::Psk], 0, 1);
        let now = Instant::now();
        for _ in 0..5 {
            let user = client_pool.take().unwrap();
            for request in 0..3 {
                assert_eq!(client_pool.begins_session(user), request == 0);
                assert!(client_pool.is_last_of_connection(user));
                client_pool.count_request(user);
                client_pool.disconnect(user);
                assert_eq!(client_pool.is_leaving(user), request == 2);
                client_pool.release(user, now, None);
                let due = (request < 2).then_some(now);
                assert_eq!(client_pool.next_to_go_on(), due, "at once, where nobody thinks");
                assert_eq!(client_pool.go_on(), due.map(|_| user));
            }
        }
    }

    #[test]
    fn users_who_fail_give_up_and_their_places_begin_sessions() {
        let rules = rules(1, Some(4), Some(1));
        let mut client_pool = ClientPool::with_arrivals(rules, 4, &[Handshake::Psk], 0, 1);
        let now = Instant::now();
        let user = client_pool.take().unwrap();
        client_pool.count_request(user);
        client_pool.release(user, now, None);
        assert_eq!(client_pool.take(), None, "the place is taken until the user leaves");
        assert_eq!(client_pool.go_on(), Some(user));
        client_pool.give_up(user);
        client_pool.release(user, now, None);
        assert_eq!(client_pool.next_to_go_on(), None);
        let next = client_pool.take().unwrap();
        assert!(client_pool.begins_session(next) && !client_pool.is_leaving(next));
    }

    #[test]
    fn users_who_think_go_on_when_they_have() {
        let think = Duration::from_secs(1);
        let rules = Clients { think, ..rules(2, Some(2), None) };
        let mut client_pool = ClientPool::with_arrivals(rules, 2, &[Handshake::Psk], 0, 1);
        let now = Instant::now();
        let (first, second) = (client_pool.take().unwrap(), client_pool.take().unwrap());
        for (user, at) in [(first, now + think), (second, now)] {
            client_pool.count_request(user);
            client_pool.release(user, at, None);
        }
        client_pool.wake(now + 9 * think);
        assert_eq!((client_pool.take(), client_pool.next_rested()), (None, None));
        assert_eq!(client_pool.next_to_go_on(), Some(now + think));
        assert_eq!(client_pool.go_on(), Some(second));
        assert_eq!(client_pool.next_to_go_on(), Some(now + 2 * think));
    }

    #[test]
    fn users_want_what_is_wanted_in_turn() {
        use Handshake::{Psk, Ticket};
        let kinds = [Ticket, Psk];
        let mut client_pool =
            ClientPool::with_arrivals(rules(1, Some(2), Some(1)), 2, &kinds, 0, 1);
        let now = Instant::now();
        let mut wants = Vec::new();
        for _ in 0..4 {
            let user = client_pool.take().unwrap();
            wants.push(client_pool.client(user).wants);
            client_pool.give_up(user);
            client_pool.release(user, now, None);
        }
        assert_eq!(wants, [Ticket, Psk, Ticket, Psk]);
    }
}
