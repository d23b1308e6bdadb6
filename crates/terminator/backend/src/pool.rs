//! Holds the servers of one service, as one worker sees them, and chooses among them.
//!
//! Handles the choice and the counts it rests on. Each worker has its own pool, so nothing is
//! shared or locked here; the control side sends its findings to each of them.

use std::time::{Duration, Instant};

use wire::address::Address;

use crate::affinity;
use crate::options::{Balance, Options, PassiveOptions, SERVERS_MAX, WEIGHT_MAX};
use crate::places::Limit;
use crate::server::{
    DialTarget, Preference, SHARE_WHOLE, Server, ServerAddress, ServerId, ServerState, Target,
    TriedServers,
};

/// Servers of one service.
#[derive(Clone, Debug)]
pub struct Pool {
    balance: Balance,
    passive: PassiveOptions,
    is_checked: bool,
    slow_start: Duration,
    /// Whether some servers may have less than their whole share.
    is_slow: bool,
    servers: Vec<Server>,
}

/// A connection that needs a server.
#[derive(Clone, Copy, Debug)]
pub struct PickRequest {
    pub now: Instant,
    /// Key of the client, from [`affinity::key_of`]; used only by [`Balance::Source`].
    pub key: u64,
    /// Server that the connection belongs to, if known: chosen if no other has a better standing
    /// and it has room, whatever the balance.
    pub home: Option<ServerId>,
    pub tried: TriedServers,
}

/// A server that was chosen.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChosenServer {
    pub server: usize,
    /// Address to dial. An owned copy; only that of a Unix socket's name allocates.
    pub address: Address,
    /// Place to insert into [`TriedServers`] should the dial fail.
    pub place: DialTarget,
    /// Connection limit of the server, if any.
    pub limit: Option<Limit>,
    /// Whether the server has other addresses, for [`Pool::other_address`].
    pub has_others: bool,
}

/// Result of a choice for a connection that needs a server.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Choice {
    Picked(ChosenServer),
    /// All suitable servers have reached these limits.
    Full(Vec<Limit>),
    Nothing,
}

impl Pool {
    /// Makes a pool whose servers are all up; names have no address before [`Self::set_target`].
    ///
    /// `worker` makes the workers start their rounds at different servers: otherwise the first few
    /// connections of all workers would go to the first server.
    ///
    /// A pool without servers, as for a service of static files, picks none.
    ///
    /// # Panics
    /// If there are more servers than [`SERVERS_MAX`], or a weight is not from 1 to [`WEIGHT_MAX`]:
    /// the configuration is checked before.
    pub fn new(options: &Options, worker: usize) -> Self {
        assert!(options.servers.len() <= SERVERS_MAX);
        let mut servers: Vec<Server> = Vec::with_capacity(options.servers.len());
        for (index, server) in options.servers.iter().enumerate() {
            assert!((1..=WEIGHT_MAX).contains(&server.weight));
            let earlier = options.servers[..index].iter();
            let twins = earlier.filter(|other| other.endpoint == server.endpoint);
            servers.push(Server::new(server, twins.count() as u64, worker));
        }
        for _ in 0..worker % servers.len().max(1) {
            next_in_turn(&mut servers, |_, _| true);
        }
        Self {
            balance: options.balance,
            passive: options.passive,
            is_checked: options.check.is_some(),
            slow_start: options.slow_start,
            is_slow: false,
            servers,
        }
    }

    /// Takes over what an earlier plan's pool knows about the servers that both have: checks,
    /// failed dials, addresses of names.
    ///
    /// Open connections are not taken over: they are counted where they were begun.
    pub fn inherit(&mut self, before: &Self) {
        for server in &mut self.servers {
            let same = |other: &&Server| other.seed == server.seed;
            if let Some(other) = before.servers.iter().find(same) {
                server.inherit(other, self.is_checked && before.is_checked);
            }
        }
        self.is_slow = before.is_slow;
    }

    /// Chooses a server and one of its addresses, none that was tried.
    ///
    /// Ordinary servers come first, then backup servers, then servers whose addresses are all
    /// ejected ([`Self::trial`] brings them back); among equals that have room the balance decides.
    /// If all of the best have no room, a worse one does not replace them. Looks at each server two
    /// or three times and allocates nothing (but see [`ChosenServer::address`] and [`Choice::Full`]).
    pub fn pick(&mut self, request: &PickRequest, has_room: impl Fn(Limit) -> bool) -> Choice {
        let tried = &request.tried;
        self.grow_shares(request.now);
        let standing = |index: usize, server: &Server| {
            if request.home == Some(server.id()) {
                return server.standing_at_home(index, tried);
            }
            server.standing(index, tried)
        };
        let best = best_standing(&self.servers, standing).filter(|_| !tried.is_full());
        let Some(best) = best else {
            return Choice::Nothing;
        };
        let suits = |index: usize, server: &Server| standing(index, server) == Some(best);
        let eligible = |index: usize, server: &Server| {
            suits(index, server) && server.limit.is_none_or(&has_room)
        };
        if let Some(picked) = self.pick_eligible(request, eligible) {
            return Choice::Picked(picked);
        }
        let servers = self.servers.iter().enumerate();
        let full = servers.filter(|(index, server)| suits(*index, server));
        Choice::Full(full.filter_map(|(_, server)| server.limit).collect())
    }

    fn pick_eligible(
        &mut self,
        request: &PickRequest,
        eligible: impl Fn(usize, &Server) -> bool,
    ) -> Option<ChosenServer> {
        let PickRequest { now, key, tried, .. } = request;
        let home = self.home(request, &eligible);
        let by_balance = |servers: &mut [Server]| match self.balance {
            Balance::LeastConnections => least_connections(servers, eligible),
            Balance::RoundRobin => next_in_turn(servers, eligible),
            Balance::Source => nearest(servers, *key, eligible),
        };
        let server = home.or_else(|| by_balance(&mut self.servers))?;
        let chosen = self.servers.get_mut(server)?;
        let taken = chosen.take(server, *now, tried, self.passive.ejection_time)?;
        Some(picked(server, chosen, taken))
    }

    /// Returns another address of a server that has not answered yet, to dial in parallel; none
    /// that was tried or ejected.
    pub fn other_address(&self, server: usize, tried: &TriedServers) -> Option<ChosenServer> {
        let chosen = self.servers.get(server)?;
        let taken = chosen.take_other(server, tried).filter(|_| !tried.is_full())?;
        Some(picked(server, chosen, taken))
    }

    /// Returns an ejected address whose trial is due, to dial in parallel with one that is up, so
    /// that nobody waits for it. Each is returned once per ejection time.
    pub fn trial(&mut self, now: Instant, tried: &TriedServers) -> Option<ChosenServer> {
        let ejection_time = self.passive.ejection_time;
        let mut servers = self.servers.iter_mut().enumerate();
        servers.find_map(|(index, server)| {
            let taken = server.take_trial(index, now, tried, ejection_time)?;
            Some(picked(index, server, taken))
        })
    }

    fn home(
        &self,
        request: &PickRequest,
        eligible: impl Fn(usize, &Server) -> bool,
    ) -> Option<usize> {
        let home = request.home?;
        let mut servers = self.servers.iter().enumerate();
        let (index, server) = servers.find(|(_, server)| server.id() == home)?;
        eligible(index, server).then_some(index)
    }

    /// Returns all addresses of all servers, whatever their state, for tasks that go to each. No
    /// limit of theirs is counted.
    pub fn all_addresses(&self) -> impl Iterator<Item = ChosenServer> {
        let servers = self.servers.iter().enumerate();
        servers.flat_map(|(index, server)| {
            let addresses = server.addresses.iter().enumerate();
            addresses.map(move |(at, one)| ChosenServer {
                server: index,
                address: one.address.clone(),
                place: DialTarget { server: index as u16, address: at as u16 },
                limit: None,
                has_others: false,
            })
        })
    }

    /// Returns a server's id for [`PickRequest::home`]; `None` if there is no such server.
    pub fn id(&self, server: usize) -> Option<ServerId> {
        self.servers.get(server).map(Server::id)
    }

    /// Returns the connection limit of each server.
    pub fn limits(&self) -> impl Iterator<Item = Limit> {
        self.servers.iter().map(|server| Limit {
            server: server.seed,
            most: server.limit.map_or(u32::MAX, |limit| limit.most),
        })
    }

    /// Returns the state of a server; `None` if there is no such server.
    pub fn state(&self, server: usize) -> Option<ServerState> {
        self.servers.get(server).map(Server::state)
    }

    /// Counts a dial that has begun. Each one needs a [`Self::closed`] in the end.
    pub fn opened(&mut self, server: usize) {
        self.with(server, |server| server.open = server.open.saturating_add(1));
    }

    /// Counts a connection to a server, or a dial, that is over.
    pub fn closed(&mut self, server: usize) {
        self.with(server, |server| server.open = server.open.saturating_sub(1));
    }

    /// Returns the addresses of a server that are dialled only if no other can be, or not at all.
    pub fn addresses_down(&self, server: usize) -> impl Iterator<Item = &Address> {
        let server = self.servers.get(server).into_iter();
        server.flat_map(Server::addresses_down)
    }

    /// Notes that a server accepted at an address: its failures are forgotten, its ejection ends.
    /// Like the next two, returns whether the address was taken out or is back.
    pub fn dial_succeeded(&mut self, server: usize, address: &Address, now: Instant) -> bool {
        self.change(server, address, now, ServerAddress::dial_succeeded)
    }

    /// Notes that an address accepted a dial of [`Self::trial`] that no connection used.
    pub fn trial_accepted(&mut self, server: usize, address: &Address, now: Instant) -> bool {
        let passive = self.passive;
        self.change(server, address, now, |one| one.trial_accepted(&passive))
    }

    /// Notes that a server refused at an address, was unreachable or took too long.
    pub fn dial_failed(&mut self, server: usize, address: &Address, now: Instant) -> bool {
        let passive = self.passive;
        self.change(server, address, now, |one| one.dial_failed(now, &passive))
    }

    fn change(
        &mut self,
        server: usize,
        address: &Address,
        now: Instant,
        change: impl FnOnce(&mut ServerAddress),
    ) -> bool {
        let mut has_changed = false;
        self.with(server, |server| has_changed = server.change(address, now, change));
        has_changed
    }

    /// Sets the result of active checks: these addresses of a server are down, all others are not.
    pub fn set_checked(&mut self, server: usize, down: &[Address], now: Instant) {
        self.with(server, |server| server.set_checked(down, now));
    }

    /// Disables a server for an operator, so that it gets no new connection, or enables it again.
    pub fn set_disabled(&mut self, server: usize, disabled: bool, now: Instant) {
        self.with(server, |server| server.set_disabled(disabled, now));
    }

    /// Returns when a server that came back up gets its whole share; `None` if it has it.
    pub fn slow_start_end(&self, server: usize) -> Option<Instant> {
        self.servers.get(server)?.slow_start_end(self.slow_start)
    }

    /// Sets an operator's weight for a server, 0 included, or the configured one again. With 0,
    /// only connections whose home is this server go there ([`PickRequest::home`]).
    pub fn order_weight(&mut self, server: usize, weight: Option<u16>) {
        self.with(server, |server| server.order_weight(weight));
    }

    /// Returns how many servers an operator disabled or gave no weight, and how many there are.
    pub fn taken_out(&self) -> (usize, usize) {
        let out = self.servers.iter().filter(|one| one.is_taken_out());
        (out.count(), self.servers.len())
    }

    /// Sets the addresses of a name. Does nothing to a server that has no name.
    ///
    /// # Panics
    /// If the record's weight is not from 1 to [`WEIGHT_MAX`]: the reader of records ensures that.
    pub fn set_target(&mut self, server: usize, target: &Target) {
        let weight = target.record.map_or(1, |record| record.weight);
        assert!((1..=WEIGHT_MAX).contains(&weight));
        self.with(server, |server| server.set_target(target));
    }

    /// Drops late news about a server that only an earlier plan had.
    fn with(&mut self, server: usize, change: impl FnOnce(&mut Server)) {
        if let Some(server) = self.servers.get_mut(server) {
            change(server);
            self.is_slow |= server.slow_start_end(self.slow_start).is_some();
        }
    }

    fn grow_shares(&mut self, now: Instant) {
        if self.is_slow {
            let grown = self.servers.iter_mut();
            let grown = grown.map(|server| server.grow_share(now, self.slow_start));
            self.is_slow = grown.fold(false, |is_slow, is_whole| is_slow | !is_whole);
        }
    }
}

fn picked(index: usize, server: &Server, (place, address): (DialTarget, Address)) -> ChosenServer {
    ChosenServer {
        server: index,
        address,
        place,
        limit: server.limit,
        has_others: server.state().addresses > 1,
    }
}

fn best_standing(
    servers: &[Server],
    standing: impl Fn(usize, &Server) -> Option<Preference>,
) -> Option<Preference> {
    let all = servers.iter().enumerate();
    all.filter_map(|(index, server)| standing(index, server)).min()
}

/// Smooth weighted round-robin, as in nginx (`ngx_http_upstream_get_peer`): each server gains its
/// weight, the richest is chosen and pays what all gained. With weights 5, 1, 1 the order is a a b
/// a c a a, not a a a a a b c.
fn next_in_turn(
    servers: &mut [Server],
    eligible: impl Fn(usize, &Server) -> bool,
) -> Option<usize> {
    let mut gained = 0;
    let mut richest: Option<(usize, i64)> = None;
    for (index, server) in servers.iter_mut().enumerate() {
        if !eligible(index, server) {
            continue;
        }
        gained += i64::from(server.share);
        server.turn += i64::from(server.share);
        if richest.is_none_or(|(_, turn)| server.turn > turn) {
            richest = Some((index, server.turn));
        }
    }
    let (index, _) = richest?;
    servers.get_mut(index)?.turn -= gained;
    Some(index)
}

/// Chooses the server with the fewest open connections relative to its weight; ties take turns.
///
/// The connection to be made is not counted (Adams's method of apportionment), so no server ever
/// gets one while it has more than its share.
fn least_connections(
    servers: &mut [Server],
    eligible: impl Fn(usize, &Server) -> bool,
) -> Option<usize> {
    // open / share, compared without the division.
    let load = |server: &Server, share: u32| u64::from(server.open) * u64::from(share);
    let mut least: Option<&Server> = None;
    for (index, server) in servers.iter().enumerate() {
        let is_less = |than: &Server| load(server, than.share) < load(than, server.share);
        if eligible(index, server) && least.is_none_or(is_less) {
            least = Some(server);
        }
    }
    let (open, share) = least.map(|server| (server.open, server.share))?;
    let ties = |server: &Server| load(server, share) == u64::from(open) * u64::from(server.share);
    next_in_turn(servers, |index, server| eligible(index, server) && ties(server))
}

/// Returns the server nearest to a client in the consistent hash.
fn nearest(
    servers: &[Server],
    key: u64,
    eligible: impl Fn(usize, &Server) -> bool,
) -> Option<usize> {
    let mut nearest = None;
    let mut limit = f64::INFINITY;
    for (index, server) in servers.iter().enumerate() {
        if !eligible(index, server) {
            continue;
        }
        let (seed, weight) = (server.seed, f64::from(server.share) / f64::from(SHARE_WHOLE));
        if let Some(distance) = affinity::distance_below(limit, key, seed, weight) {
            (nearest, limit) = (Some(index), distance);
        }
    }
    nearest
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests are their own clock")]
mod tests {
    use super::*;
    use crate::affinity::key_of;
    use crate::options::{DownAction, QueueOptions, ServerOptions};
    use crate::server::{Health, Record};
    use proptest::prelude::*;
    use std::net::SocketAddr;
    use wire::address::Endpoint;

    const EJECTION_TIME: Duration = Duration::from_secs(10);

    /// Makes a pool of servers written `name*weight<limit`, with `+` before a backup.
    fn pool(balance: Balance, servers: &str) -> Pool {
        Pool::new(&options(balance, servers), 0)
    }

    fn options(balance: Balance, servers: &str) -> Options {
        let server = |text: &str| {
            let (text, limit) = text.split_once('<').unwrap_or((text, ""));
            let (endpoint, weight) = text.split_once('*').unwrap_or((text, "1"));
            ServerOptions {
                endpoint: endpoint.trim_start_matches('+').parse().unwrap(),
                weight: weight.parse().unwrap(),
                backup: endpoint.starts_with('+'),
                connections_max: limit.parse().ok(),
            }
        };
        let passive = PassiveOptions { failures: 3, ejection_time: EJECTION_TIME };
        let servers = servers.split_whitespace().map(server).collect();
        Options {
            servers,
            balance,
            passive,
            check: None,
            slow_start: Duration::ZERO,
            on_down: DownAction::Keep,
            queue: QueueOptions { length: 0, timeout: Duration::ZERO },
        }
    }

    fn many(balance: Balance, weights: &[u16]) -> Pool {
        let server = |(index, weight): (usize, &u16)| format!("unix:@{index}*{weight} ");
        pool(balance, &weights.iter().enumerate().map(server).collect::<String>())
    }

    fn pick(pool: &mut Pool, now: Instant, key: u64, tried: TriedServers) -> Option<usize> {
        picked(pool.pick(&PickRequest { now, key, home: None, tried }, |_| true))
            .map(|picked| picked.server)
    }

    fn picked(choice: Choice) -> Option<ChosenServer> {
        match choice {
            Choice::Picked(picked) => Some(picked),
            Choice::Full(_) | Choice::Nothing => None,
        }
    }

    fn picks(pool: &mut Pool, now: Instant, count: usize) -> Vec<usize> {
        let one = |_| pick(pool, now, 0, TriedServers::new()).unwrap();
        (0..count).map(one).collect()
    }

    /// Returns the first address of a server.
    fn at(pool: &Pool, server: usize) -> Address {
        pool.servers[server].addresses[0].address.clone()
    }

    fn fail(pool: &mut Pool, server: usize, times: usize, now: Instant) {
        let address = at(pool, server);
        for _ in 0..times {
            pool.dial_failed(server, &address, now);
        }
    }

    fn succeed(pool: &mut Pool, server: usize, now: Instant) {
        let address = at(pool, server);
        pool.dial_succeeded(server, &address, now);
    }

    fn check(pool: &mut Pool, server: usize, up: bool, now: Instant) {
        let down = if up { vec![] } else { vec![at(pool, server)] };
        pool.set_checked(server, &down, now);
    }

    fn health(pool: &Pool, server: usize) -> Health {
        pool.state(server).unwrap().health
    }

    #[test]
    fn turns_are_smooth() {
        let mut pool = pool(Balance::RoundRobin, "unix:a*5 unix:b unix:c");
        assert_eq!(picks(&mut pool, Instant::now(), 7), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn workers_begin_at_different_servers() {
        let options = options(Balance::RoundRobin, "unix:a unix:b unix:c");
        let first = |worker| picks(&mut Pool::new(&options, worker), Instant::now(), 1)[0];
        assert_eq!([first(0), first(1), first(2), first(3)], [0, 1, 2, 0]);
    }

    /// Counts how many of a hundred connections each of two servers gets at a time after `begin`.
    fn shares(pool: &mut Pool, begin: Instant, after: Duration) -> [usize; 2] {
        let now = begin + after;
        let picked: Vec<_> = (0..100u64)
            .map(|client| pick(pool, now, affinity::mix(client), TriedServers::new()).unwrap())
            .collect();
        [0, 1].map(|server| picked.iter().filter(|one| **one == server).count())
    }

    #[test]
    fn the_share_of_a_server_that_came_back_grows_to_the_whole() {
        const TIME: Duration = Duration::from_secs(100);
        let now = Instant::now();
        type Way = fn(&mut Pool, Instant);
        let ways: [Way; 3] = [
            |pool, now| {
                check(pool, 0, false, now);
                check(pool, 0, true, now);
            },
            |pool, now| {
                pool.set_disabled(0, true, now);
                pool.set_disabled(0, false, now);
            },
            |pool, now| {
                fail(pool, 0, 3, now);
                succeed(pool, 0, now);
            },
        ];
        for come_back in ways {
            let mut options = options(Balance::RoundRobin, "unix:a*3 unix:b*3");
            options.slow_start = TIME;
            let mut pool = Pool::new(&options, 0);
            assert_eq!(shares(&mut pool, now, Duration::ZERO), [50, 50], "up from the start");
            come_back(&mut pool, now);
            assert_eq!(pool.slow_start_end(0), Some(now + TIME));
            // 0.1 of 1.1, 0.55 of 1.55, 0.91 of 1.91.
            for (percent, expected) in [(0, 9), (50, 35), (90, 48), (100, 50)] {
                let mut pool = pool.clone();
                let [first, _] = shares(&mut pool, now, TIME * percent / 100);
                assert!(first.abs_diff(expected) <= 1, "{first} at {percent} %");
                let mut after = Pool::new(&options, 0);
                after.inherit(&pool);
                let [same, _] = shares(&mut after, now, TIME * percent / 100);
                assert!(same.abs_diff(expected) <= 1, "{same} at {percent} % over a reload");
            }
            shares(&mut pool, now, TIME);
            assert_eq!(pool.slow_start_end(0), None);
        }
    }

    #[test]
    fn a_weight_that_is_ordered_holds_and_0_keeps_all_but_the_homeless_away() {
        let now = Instant::now();
        for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::Source] {
            let mut pool = pool(balance, "unix:a unix:b*3");
            let home = pool.id(1);
            pool.order_weight(1, Some(0));
            assert!(picks(&mut pool, now, 9).iter().all(|one| *one == 0), "{balance:?}");
            let request = PickRequest { now, key: 7, home, tried: TriedServers::new() };
            assert_eq!(picked(pool.pick(&request, |_| true)).unwrap().server, 1, "{balance:?}");
            assert_eq!((health(&pool, 1), pool.taken_out()), (Health::NoWeight, (1, 2)));
            pool.order_weight(0, Some(0));
            assert_eq!(pick(&mut pool, now, 7, TriedServers::new()), None);
            pool.order_weight(0, Some(1));
            pool.order_weight(1, None);
            assert_eq!((health(&pool, 1), pool.taken_out()), (Health::Up, (0, 2)));
        }
        let mut pool = pool(Balance::RoundRobin, "unix:a unix:b*3");
        pool.order_weight(0, Some(9));
        assert_eq!(shares(&mut pool, now, Duration::ZERO), [75, 25]);
    }

    #[test]
    fn a_slow_start_holds_for_each_balance() {
        const TIME: Duration = Duration::from_secs(100);
        let now = Instant::now();
        for balance in [Balance::LeastConnections, Balance::Source] {
            let mut options = options(balance, "unix:a unix:b");
            options.slow_start = TIME;
            let mut pool = Pool::new(&options, 0);
            check(&mut pool, 0, false, now);
            check(&mut pool, 0, true, now);
            let mut first = 0;
            for client in 0..1000u64 {
                let key = affinity::mix(client);
                let picked = pick(&mut pool, now, key, TriedServers::new()).unwrap();
                pool.opened(picked);
                first += usize::from(picked == 0);
            }
            assert!((60..130).contains(&first), "{first} of 1000 by {balance:?}");
        }
    }

    #[test]
    fn a_client_goes_home_as_long_as_no_server_is_better() {
        let now = Instant::now();
        for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::Source] {
            let mut pool = pool(balance, "unix:a unix:b<1 +unix:spare");
            let (b, spare) = (pool.id(1), pool.id(2));
            let of = |pool: &mut Pool, home, tried, has_room: bool| {
                let request = PickRequest { now, key: 7, home, tried };
                picked(pool.pick(&request, |_| has_room)).unwrap()
            };
            let none = TriedServers::new();
            let at_home = of(&mut pool, b, none, true);
            assert_eq!(at_home.server, 1);
            (0..9).for_each(|_| assert_eq!(of(&mut pool, b, none, true).server, 1));
            assert_eq!(of(&mut pool, b, none, false).server, 0, "it has no room");
            let mut tried = none;
            tried.insert(at_home.place);
            assert_eq!(of(&mut pool, b, tried, true).server, 0, "it was tried");
            assert_ne!(of(&mut pool, spare, none, true).server, 2, "an ordinary one is up");
            pool.set_disabled(1, true, now);
            assert_eq!(of(&mut pool, b, none, true).server, 0, "it is disabled");
            check(&mut pool, 0, false, now);
            assert_eq!(of(&mut pool, b, none, true).server, 2, "the spare is left");
            let stranger = Pool::new(&options(balance, "unix:c"), 0).id(0);
            assert_eq!(of(&mut pool, stranger, none, true).server, 2);
        }
    }

    #[test]
    fn a_server_without_room_is_passed_over_but_not_for_a_worse_one() {
        let servers = "unix:a<1 unix:b<2 +unix:spare";
        for balance in [Balance::RoundRobin, Balance::LeastConnections, Balance::Source] {
            let mut pool = pool(balance, servers);
            let now = Instant::now();
            let tried = TriedServers::new();
            let mut with_room = |room: &[u32]| {
                pool.pick(&PickRequest { now, key: 7, home: None, tried }, |limit| {
                    room.contains(&limit.most)
                })
            };
            let Choice::Picked(only) = with_room(&[2]) else {
                panic!("one has room");
            };
            assert_eq!((only.server, only.limit.unwrap().most), (1, 2));
            let Choice::Full(limits) = with_room(&[]) else {
                panic!("the backup is not for want of room");
            };
            assert_eq!(limits.iter().map(|limit| limit.most).collect::<Vec<_>>(), [1, 2]);
            check(&mut pool, 0, false, now);
            check(&mut pool, 1, false, now);
            assert_eq!(pick(&mut pool, now, 7, tried), Some(2));
        }
    }

    #[test]
    fn a_disabled_server_is_not_picked_whatever_else_is_known() {
        let mut pool = pool(Balance::RoundRobin, "unix:a unix:b");
        let now = Instant::now();
        pool.set_disabled(0, true, now);
        assert_eq!(picks(&mut pool, now, 2), [1, 1]);
        assert_eq!((health(&pool, 0), pool.taken_out()), (Health::Disabled, (1, 2)));
        check(&mut pool, 0, true, now);
        succeed(&mut pool, 0, now);
        fail(&mut pool, 1, 3, now);
        assert_eq!(picks(&mut pool, now, 1), [1], "an ejected one is better than none");
        pool.set_disabled(1, true, now);
        assert_eq!(pick(&mut pool, now, 0, TriedServers::new()), None);
        pool.set_disabled(0, false, now);
        assert_eq!(picks(&mut pool, now, 2), [0, 0]);
    }

    #[test]
    fn a_server_that_is_disabled_meanwhile_is_dialled_by_no_race() {
        let mut pool = pool(Balance::RoundRobin, "app.example:80");
        let addresses = [1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], 80)));
        pool.set_target(0, &addresses.to_vec().into());
        let now = Instant::now();
        let mut tried = TriedServers::new();
        let first = picked(pool.pick(&PickRequest { now, key: 0, home: None, tried }, |_| true));
        tried.insert(first.unwrap().place);
        assert!(pool.other_address(0, &tried).is_some());
        pool.set_disabled(0, true, now);
        assert_eq!(pool.other_address(0, &tried).map(|one| one.place), None);
    }

    #[test]
    fn a_backup_serves_only_while_no_ordinary_server_can() {
        let mut pool = pool(Balance::RoundRobin, "+unix:spare unix:a unix:b");
        let now = Instant::now();
        assert_eq!(picks(&mut pool, now, 2), [1, 2]);
        check(&mut pool, 1, false, now);
        fail(&mut pool, 2, 3, now);
        assert_eq!(picks(&mut pool, now, 2), [0, 0]);
        check(&mut pool, 1, true, now);
        assert_eq!(picks(&mut pool, now, 2), [1, 1]);
    }

    #[test]
    fn failures_in_a_row_eject_and_one_trial_a_pause_brings_back() {
        let mut pool = pool(Balance::RoundRobin, "unix:a unix:b");
        let start = Instant::now();
        fail(&mut pool, 0, 2, start);
        succeed(&mut pool, 0, Instant::now());
        fail(&mut pool, 0, 2, start);
        assert_eq!(health(&pool, 0), Health::Up);
        fail(&mut pool, 0, 1, start);
        assert_eq!(health(&pool, 0), Health::Ejected);
        let due = start + EJECTION_TIME;
        assert_eq!(picks(&mut pool, due, 3), [1, 1, 1], "no connection waits");
        let trial =
            |pool: &mut Pool, now| pool.trial(now, &TriedServers::new()).map(|one| one.server);
        let before = due - Duration::from_nanos(1);
        assert_eq!(trial(&mut pool, before), None);
        assert_eq!([0; 2].map(|_| trial(&mut pool, due)), [Some(0), None]);
        fail(&mut pool, 0, 1, due);
        assert_eq!(trial(&mut pool, due), None);
        let later = start + 2 * EJECTION_TIME;
        assert_eq!(trial(&mut pool, later), Some(0));
        let address = at(&pool, 0);
        assert!(pool.trial_accepted(0, &address, later));
        assert_eq!(picks(&mut pool, later, 4), [0, 1, 0, 1]);
        fail(&mut pool, 0, 1, later);
        assert_eq!(health(&pool, 0), Health::Ejected, "it accepts, and no more");
        succeed(&mut pool, 0, later);
        fail(&mut pool, 0, 2, later);
        assert_eq!(health(&pool, 0), Health::Up);
        assert_eq!(trial(&mut pool, later + EJECTION_TIME), None);
    }

    #[test]
    fn a_check_clears_the_dials_that_failed_before_it_and_the_name_has_a_clean_new_address() {
        let mut pool = pool(Balance::RoundRobin, "app.example:80");
        let now = Instant::now();
        let [old, new, kept] = [1, 2, 3].map(|last: u8| SocketAddr::from(([192, 0, 2, last], 80)));
        let ip = Address::Ip;
        pool.set_target(0, &vec![old, kept].into());
        for _ in 0..3 {
            pool.dial_failed(0, &ip(kept), now);
        }
        pool.set_checked(0, &[ip(old), ip(kept)], now);
        assert_eq!(health(&pool, 0), Health::CheckedDown);
        assert_eq!(pick(&mut pool, now, 0, TriedServers::new()), None);
        pool.set_target(0, &vec![new, kept].into());
        assert_eq!(health(&pool, 0), Health::Up, "the new one is not known to be down");
        assert!(pool.addresses_down(0).eq([&ip(kept)]));
        pool.set_checked(0, &[ip(new)], now);
        assert!(pool.addresses_down(0).eq([&ip(new)]), "its check outweighs its dials");
        assert!(!pool.dial_failed(0, &ip(old), now), "it is gone");
    }

    #[test]
    fn if_all_are_ejected_they_are_tried_but_never_one_that_a_check_has_down() {
        let mut pool = pool(Balance::RoundRobin, "unix:a unix:b unix:c");
        let now = Instant::now();
        (0..3).for_each(|server| fail(&mut pool, server, 3, now));
        check(&mut pool, 1, false, now);
        assert_eq!(health(&pool, 1), Health::CheckedDown);
        let mut picked = picks(&mut pool, now, 4);
        picked.sort_unstable();
        assert_eq!(picked, [0, 0, 2, 2]);
    }

    #[test]
    fn a_name_is_used_when_it_has_addresses_and_each_in_turn() {
        let mut pool = pool(Balance::Source, "app.example:80");
        let now = Instant::now();
        assert_eq!(health(&pool, 0), Health::Unresolved);
        assert_eq!(pick(&mut pool, now, 0, TriedServers::new()), None);
        let addresses: Vec<SocketAddr> = ["192.0.2.1:80", "192.0.2.2:80", "192.0.2.3:80"]
            .map(|text| text.parse().unwrap())
            .into();
        pool.set_target(0, &addresses.clone().into());
        let next = |pool: &mut Pool, tried| {
            picked(pool.pick(&PickRequest { now, key: 0, home: None, tried }, |_| true))
        };
        for address in addresses.iter().chain(&addresses) {
            let picked = next(&mut pool, TriedServers::new()).unwrap();
            assert_eq!(picked.address, Address::Ip(*address));
        }
        let mut tried = TriedServers::new();
        let mut seen = Vec::new();
        while let Some(picked) = next(&mut pool, tried) {
            tried.insert(picked.place);
            seen.push(picked.address);
            next(&mut pool, TriedServers::new());
        }
        seen.sort();
        assert_eq!(seen, addresses.iter().copied().map(Address::Ip).collect::<Vec<_>>());
    }

    #[test]
    fn another_server_comes_before_another_address_and_dials_are_bounded() {
        let mut pool = pool(Balance::RoundRobin, "app.example:80 unix:a");
        let address = |last: u8| SocketAddr::from(([192, 0, 2, last], 80));
        pool.set_target(0, &(0..20).map(address).collect::<Vec<_>>().into());
        let (now, mut tried, mut order) = (Instant::now(), TriedServers::new(), Vec::new());
        while let Some(picked) =
            picked(pool.pick(&PickRequest { now, key: 0, home: None, tried }, |_| true))
        {
            tried.insert(picked.place);
            order.push(picked.server);
        }
        assert_eq!(order, [0, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_reload_keeps_what_was_learnt_of_the_servers_that_stay() {
        let now = Instant::now();
        let mut before = pool(Balance::RoundRobin, "unix:gone unix:bad app.example:80");
        fail(&mut before, 1, 3, now);
        before.set_target(2, &vec![SocketAddr::from(([192, 0, 2, 1], 80))].into());
        check(&mut before, 0, false, now);
        let mut after = pool(Balance::RoundRobin, "app.example:80 unix:new unix:bad unix:gone");
        after.inherit(&before);
        let health: Vec<Health> = (0..4).map(|server| health(&after, server)).collect();
        // The last was down by a check, and there are no checks any more.
        assert_eq!(health, [Health::Up, Health::Up, Health::Ejected, Health::Up]);
    }

    #[test]
    fn records_decide_by_priority_and_weight_and_another_server_begins_anew() {
        let options = options(Balance::RoundRobin, "unix:a unix:b unix:c");
        let mut options = Options { ..options };
        for (number, server) in (1..).zip(&mut options.servers) {
            let (host, count) = ("_a._tcp.example".to_owned(), 3);
            server.endpoint = Endpoint::Service { host, number, count };
        }
        let mut pool = Pool::new(&options, 0);
        let now = Instant::now();
        let target = |last: u8, priority: u16, weight: u16| Target {
            addresses: vec![SocketAddr::from(([192, 0, 2, last], 80))],
            record: Some(Record { priority, weight }),
        };
        assert_eq!(pick(&mut pool, now, 0, TriedServers::new()), None);
        pool.set_target(0, &target(1, u16::MAX, 1));
        pool.set_target(1, &target(2, 0, 3));
        pool.set_target(2, &target(3, 0, 1));
        assert_eq!(picks(&mut pool, now, 4), [1, 1, 2, 1]);
        (1..3).for_each(|server| fail(&mut pool, server, 3, now));
        assert_eq!(picks(&mut pool, now, 2), [0, 0], "before one that is ejected");
        let mut after = Pool::new(&options, 0);
        after.inherit(&pool);
        assert_eq!(picks(&mut after, now, 2), [0, 0]);
        // Server 1 stays the same, and server 2 is replaced.
        pool.set_target(1, &target(2, 0, 1));
        pool.set_target(2, &target(4, 0, 1));
        assert_eq!(health(&pool, 1), Health::Ejected);
        assert_eq!((health(&pool, 2), pool.servers[2].addresses[0].failures), (Health::Up, 0));
        pool.set_target(2, &Target::default());
        assert_eq!(picks(&mut pool, now, 2), [0, 0]);
    }

    #[test]
    fn a_late_word_about_a_server_that_is_gone_does_nothing() {
        let mut pool = pool(Balance::RoundRobin, "unix:a");
        pool.closed(0);
        pool.opened(9);
        pool.set_checked(9, &[], Instant::now());
        assert!(!pool.dial_failed(9, &Address::Inherited(String::new()), Instant::now()));
        pool.set_target(0, &Target::default());
        assert_eq!(pool.state(9), None);
        assert_eq!(picks(&mut pool, Instant::now(), 1), [0]);
    }

    /// The standard deviation of a share with 100,000 clients is under 0.16 %.
    #[test]
    fn clients_spread_over_servers_by_weight() {
        let weights = [1, 2, 3, 10];
        let mut pool = many(Balance::Source, &weights);
        let mut counts = [0u32; 4];
        for client in 0..100_000u32 {
            let key = key_of(Some(std::net::Ipv4Addr::from(client).into()));
            counts[pick(&mut pool, Instant::now(), key, TriedServers::new()).unwrap()] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            let error = f64::from(*count) / 100_000.0 - f64::from(weight) / 16.0;
            assert!(error.abs() < 0.01, "{counts:?}");
        }
    }

    fn balances() -> impl Strategy<Value = Balance> {
        prop_oneof![
            Just(Balance::LeastConnections),
            Just(Balance::RoundRobin),
            Just(Balance::Source)
        ]
    }

    fn weights() -> impl Strategy<Value = Vec<u16>> {
        prop::collection::vec(1u16..=256, 1..12)
    }

    proptest! {
        /// Checks that in each full round, from any start, each server gets its weight's turns.
        #[test]
        fn a_round_gives_each_its_weight(weights in weights(), skip in 0usize..500) {
            let mut pool = many(Balance::RoundRobin, &weights);
            let now = Instant::now();
            picks(&mut pool, now, skip);
            let round = picks(&mut pool, now, weights.iter().map(|w| usize::from(*w)).sum());
            for (server, weight) in weights.iter().enumerate() {
                let turns = round.iter().filter(|one| **one == server).count();
                prop_assert_eq!(turns, usize::from(*weight));
            }
        }

        /// Checks that losing a server moves its clients only, and that they return with it.
        #[test]
        fn only_a_lost_servers_clients_move(
            weights in weights(), lost in any::<prop::sample::Index>(),
            keys in prop::collection::vec(any::<u64>(), 1..100),
        ) {
            let mut pool = many(Balance::Source, &weights);
            let lost = lost.index(weights.len());
            let now = Instant::now();
            let all = |pool: &mut Pool| -> Vec<Option<usize>> {
                keys.iter().map(|key| pick(pool, now, *key, TriedServers::new())).collect()
            };
            let before = all(&mut pool);
            check(&mut pool, lost, false, now);
            for (old, new) in before.iter().zip(all(&mut pool)) {
                if *old == Some(lost) {
                    prop_assert_ne!(new, Some(lost));
                } else {
                    prop_assert_eq!(*old, new);
                }
            }
            check(&mut pool, lost, true, now);
            prop_assert_eq!(before, all(&mut pool));
        }

        /// Checks that no server above its share gets a connection, whatever was closed before.
        #[test]
        fn least_connections_gives_none_to_a_server_above_its_share(
            weights in weights(), closes in prop::collection::vec(any::<(bool, u8)>(), 0..300),
        ) {
            let mut pool = many(Balance::LeastConnections, &weights);
            let total: u64 = weights.iter().map(|w| u64::from(*w)).sum();
            let open_of = |pool: &Pool, server| u64::from(pool.state(server).unwrap().open);
            for (close, which) in closes {
                if close {
                    pool.closed(usize::from(which) % weights.len());
                    continue;
                }
                let open: u64 = (0..weights.len()).map(|server| open_of(&pool, server)).sum();
                let picked = pick(&mut pool, Instant::now(), 0, TriedServers::new()).unwrap();
                let fair = open * u64::from(weights[picked]);
                prop_assert!(open_of(&pool, picked) * total <= fair);
                pool.opened(picked);
            }
        }

        /// Checks, for any events of two names' addresses: a known dead address is dialled only if
        /// no live one is left that the connection has not dialled; none is dialled twice; all are
        /// dialled before giving up; and each dead address is tried again, once per ejection time.
        #[test]
        fn no_connection_waits_for_what_is_dead(
            balance in balances(), events in address_events(),
        ) {
            let mut pool = pool(balance, "a.example:80 b.example:80");
            let mut now = Instant::now();
            let mut model = Addresses::default();
            for event in events {
                match event {
                    AddressEvent::Resolve(server, mask) => {
                        let all = (0..6).filter(|last| mask & 1 << last != 0);
                        let all: Vec<_> = all.map(|last| socket_address(server, last)).collect();
                        pool.set_target(server, &all.clone().into());
                        model.resolve(server, &all);
                    }
                    AddressEvent::Check(server, mask) => {
                        let all = (0..6).filter(|last| mask & 1 << last != 0);
                        let down: Vec<_> = all.map(|last| socket_address(server, last)).collect();
                        let addresses: Vec<_> = down.iter().copied().map(Address::Ip).collect();
                        pool.set_checked(server, &addresses, now);
                        model.check(server, &down);
                    }
                    AddressEvent::Dial(server, last, is_good) => {
                        let address = socket_address(server, last);
                        let (before, one) = (model.is_out(&address), Address::Ip(address));
                        let has_changed = if is_good {
                            pool.dial_succeeded(server, &one, now)
                        } else {
                            pool.dial_failed(server, &one, now)
                        };
                        model.dial(&address, is_good, now);
                        prop_assert_eq!(has_changed, before != model.is_out(&address));
                    }
                    AddressEvent::Pass(seconds) => now += Duration::from_secs(seconds),
                    AddressEvent::Connect(dials) => {
                        let mut tried = TriedServers::new();
                        for _ in 0..dials {
                            let request = PickRequest { now, key: 0, home: None, tried };
                            let choice = pool.pick(&request, |_| true);
                            let left = model.left(&tried_of(&tried, &pool));
                            let Some(one) = picked(choice) else {
                                prop_assert!(left.is_empty());
                                break;
                            };
                            let Address::Ip(address) = one.address else { panic!("a name's") };
                            let is_out = model.is_out(&address);
                            prop_assert!(left.contains(&address));
                            prop_assert!(!is_out || left.iter().all(|one| model.is_out(one)));
                            tried.insert(one.place);
                        }
                        while let Some(one) = pool.trial(now, &TriedServers::new()) {
                            let Address::Ip(address) = one.address else { panic!("a name's") };
                            prop_assert!(model.is_trial_due(&address, now));
                            model.tried(&address, now);
                        }
                    }
                }
                for server in 0..2 {
                    let out = pool.addresses_down(server).count();
                    prop_assert_eq!(out, model.count_out(server));
                }
            }
        }
    }

    fn socket_address(server: usize, last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, server as u8, last], 80))
    }

    fn tried_of(tried: &TriedServers, pool: &Pool) -> Vec<Address> {
        let mut all = Vec::new();
        for (server, one) in pool.servers.iter().enumerate() {
            for (number, one) in one.addresses.iter().enumerate() {
                let place = DialTarget { server: server as u16, address: number as u16 };
                all.extend(tried.has(place).then(|| one.address.clone()));
            }
        }
        all
    }

    /// An event of an address, each of server 0 or 1 and with a last byte below 6.
    #[derive(Clone, Debug)]
    enum AddressEvent {
        Resolve(usize, u8),
        Check(usize, u8),
        Dial(usize, u8, bool),
        Pass(u64),
        /// A connection that dials this often in vain.
        Connect(usize),
    }

    fn address_events() -> impl Strategy<Value = Vec<AddressEvent>> {
        let event = prop_oneof![
            1 => (0usize..2, 0u8..64).prop_map(|(one, mask)| AddressEvent::Resolve(one, mask)),
            1 => (0usize..2, 0u8..64).prop_map(|(one, mask)| AddressEvent::Check(one, mask)),
            8 => (0usize..2, 0u8..6, 0u8..4)
                .prop_map(|(one, last, luck)| AddressEvent::Dial(one, last, luck == 0)),
            2 => (0u64..8).prop_map(AddressEvent::Pass),
            4 => (1usize..6).prop_map(AddressEvent::Connect),
        ];
        prop::collection::vec(event, 0..300)
    }

    /// Expected state of addresses, kept by the simplest means.
    #[derive(Default)]
    struct Addresses(std::collections::BTreeMap<SocketAddr, Known>);

    #[derive(Clone, Copy, Default)]
    struct Known {
        failures: u32,
        /// Time of the next trial if the address is ejected.
        trial: Option<Instant>,
        is_down: bool,
    }

    impl Addresses {
        fn resolve(&mut self, server: usize, all: &[SocketAddr]) {
            let of = |one: &SocketAddr| {
                one.ip() == socket_address(server, 0).ip()
                    || (1..6).any(|last| *one == socket_address(server, last))
            };
            self.0.retain(|one, _| !of(one) || all.contains(one));
            for one in all {
                self.0.entry(*one).or_default();
            }
        }

        fn check(&mut self, server: usize, down: &[SocketAddr]) {
            for last in 0..6 {
                let address = socket_address(server, last);
                let Some(known) = self.0.get_mut(&address) else {
                    continue;
                };
                let is_down = down.contains(&address);
                if known.is_down && !is_down {
                    *known = Known::default();
                }
                known.is_down = is_down;
            }
        }

        fn dial(&mut self, address: &SocketAddr, is_good: bool, now: Instant) {
            let Some(known) = self.0.get_mut(address) else {
                return;
            };
            if is_good {
                (known.failures, known.trial) = (0, None);
                return;
            }
            known.failures += 1;
            if known.failures >= 3 {
                known.trial = Some(now + EJECTION_TIME);
            }
        }

        fn is_out(&self, address: &SocketAddr) -> bool {
            self.0.get(address).is_some_and(|one| one.is_down || one.trial.is_some())
        }

        fn count_out(&self, server: usize) -> usize {
            let all = (0..6).map(|last| socket_address(server, last));
            all.filter(|one| self.is_out(one)).count()
        }

        fn left(&self, tried: &[Address]) -> Vec<SocketAddr> {
            let left = self
                .0
                .iter()
                .filter(|(one, known)| !known.is_down && !tried.contains(&Address::Ip(**one)));
            left.map(|(one, _)| *one).collect()
        }

        fn is_trial_due(&self, address: &SocketAddr, now: Instant) -> bool {
            let known = self.0.get(address).copied().unwrap_or_default();
            !known.is_down && known.trial.is_some_and(|at| at <= now)
        }

        fn tried(&mut self, address: &SocketAddr, now: Instant) {
            if let Some(known) = self.0.get_mut(address) {
                known.trial = Some(now + EJECTION_TIME);
            }
        }
    }
}
