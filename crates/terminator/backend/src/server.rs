//! Represents one server of a pool: its health, its addresses, its share; and the servers that a
//! connection has tried.
//!
//! Handles the server's state, the count of its active checks, and the memory of one connection, in
//! 34 bytes. The control side makes the checks, and the pool chooses among servers.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wire::address::{Address, Endpoint};

use crate::affinity;
use crate::options::{CheckOptions, PassiveOptions, ServerOptions};
use crate::places::Limit;

/// Most addresses of one name that are used; a name server may answer with thousands.
pub const ADDRESSES_MAX: usize = 64;

/// Share of a weight of 1. A power of two, so that shares divided by it are exact.
pub(crate) const SHARE_WHOLE: u32 = 1024;

/// First share of a server that has just come back up: enough to warm it up, and so little that few
/// connections suffer while it is slow.
const SHARE_FIRST: u32 = SHARE_WHOLE / 10;

/// Identity of a server in all plans, workers and reloads of a service: 48 bits, not all zero.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ServerId(u64);

impl ServerId {
    const BITS: u32 = 48;

    /// Returns the id of these low bits.
    pub fn from_bits(bits: u64) -> Self {
        // 0 stands for no server.
        Self((bits & ((1 << Self::BITS) - 1)).max(1))
    }

    /// Returns the id as a number, the same on all hosts that use the same name for the server.
    pub fn bits(self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ServerState {
    pub health: Health,
    /// Open connections, including those being dialled.
    pub open: u32,
    pub addresses: usize,
}

/// Whether a server is used, and if not, the reason.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Health {
    /// Disabled by an operator: gets no new connection.
    Disabled,
    /// The active checks of all its addresses failed: never used.
    CheckedDown,
    /// Dials failed, to each address that checks have not taken out: used if no other server can
    /// be, and for a trial after each ejection time.
    Ejected,
    /// The name has no address yet: cannot be used.
    Unresolved,
    /// Given the weight 0 by an operator: gets only connections whose home it is.
    NoWeight,
    Up,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Target {
    /// Addresses of the server; none makes it unusable.
    pub addresses: Vec<SocketAddr>,
    /// Priority and weight, if a record names the server.
    pub record: Option<Record>,
}

/// Priority and weight of an SRV record (RFC 2782).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Record {
    /// Priority: no server is used while one with a lower number can be.
    pub priority: u16,
    /// Weight in place of the configured one: 1 to [`crate::options::WEIGHT_MAX`].
    pub weight: u16,
}

impl From<Vec<SocketAddr>> for Target {
    fn from(addresses: Vec<SocketAddr>) -> Self {
        Self { addresses, record: None }
    }
}

/// Rank of a server for a connection: the lowest comes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Preference(u32);

impl Preference {
    /// Dialled before by this connection, at another address of its name.
    const AGAIN: u32 = 1;
    /// Factor of the record's priority.
    const PRIORITY: u32 = 2;
    /// Used only while no ordinary server can be.
    const BACKUP: u32 = 1 << 17;
    /// The dials to all its addresses failed. Still better than refusing the client: if all servers
    /// are ejected, the cause is more likely a short fault of all, or one on our side, than that
    /// none will ever answer.
    const EJECTED: u32 = 1 << 18;
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// Identity in the consistent hash and across reloads.
    pub(crate) seed: u64,
    weight: u16,
    /// Weight that an operator has set in place of it.
    weight_ordered: Option<u16>,
    /// Priority of the record that names the server; 0 if none does.
    priority: u16,
    /// Current share of the connections: its weight, or less during its slow start.
    pub(crate) share: u32,
    /// Time of coming back up; `None` = its share is whole.
    back_since: Option<Instant>,
    pub(crate) limit: Option<Limit>,
    pub(crate) open: u32,
    /// Running balance of smooth weighted round-robin.
    pub(crate) turn: i64,
    backup: bool,
    is_name: bool,
    /// Whether records name the server.
    is_recorded: bool,
    disabled: bool,
    pub(crate) addresses: Vec<ServerAddress>,
    /// Address to dial next; may be past the end after a change.
    next_address: usize,
}

impl Server {
    /// `twin` distinguishes servers with equal endpoints; `worker` makes the workers start at
    /// different addresses of a name.
    pub(crate) fn new(options: &ServerOptions, twin: u64, worker: usize) -> Self {
        let addresses = match &options.endpoint {
            Endpoint::Address(address) => vec![ServerAddress::new(address.clone())],
            Endpoint::Name { .. } | Endpoint::Service { .. } => Vec::new(),
        };
        let name = options.endpoint.to_string();
        let seed = affinity::mix(affinity::hash(name.as_bytes()).wrapping_add(twin));
        let limited = |most| Limit { server: seed, most };
        Self {
            seed,
            limit: options.connections_max.map(limited),
            weight: options.weight,
            weight_ordered: None,
            priority: 0,
            share: u32::from(options.weight) * SHARE_WHOLE,
            back_since: None,
            open: 0,
            turn: 0,
            backup: options.backup,
            is_name: !matches!(options.endpoint, Endpoint::Address(_)),
            is_recorded: matches!(options.endpoint, Endpoint::Service { .. }),
            disabled: false,
            addresses,
            next_address: worker,
        }
    }

    /// Takes over what an earlier plan knows about the same server.
    pub(crate) fn inherit(&mut self, before: &Self, is_checked: bool) {
        self.back_since = before.back_since;
        if self.is_name && self.addresses.is_empty() {
            self.addresses.clone_from(&before.addresses);
            if self.is_recorded {
                (self.weight, self.priority) = (before.weight, before.priority);
                self.share = u32::from(self.weight_now()) * SHARE_WHOLE;
            }
        }
        for one in &mut self.addresses {
            if let Some(same) = before.find(&one.address) {
                one.inherit(same, is_checked);
            }
        }
    }

    pub(crate) fn id(&self) -> ServerId {
        ServerId::from_bits(self.seed)
    }

    pub(crate) fn state(&self) -> ServerState {
        let mut all = self.addresses.iter();
        let health = match self {
            _ if self.disabled => Health::Disabled,
            _ if self.addresses.is_empty() => Health::Unresolved,
            _ if self.has_address_up() && self.weight_now() == 0 => Health::NoWeight,
            _ if self.has_address_up() => Health::Up,
            _ if all.any(ServerAddress::is_usable) => Health::Ejected,
            _ => Health::CheckedDown,
        };
        ServerState { health, open: self.open, addresses: self.addresses.len() }
    }

    /// Returns the addresses that are dialled only if no other can be, or not at all.
    pub(crate) fn addresses_down(&self) -> impl Iterator<Item = &Address> {
        let out = self.addresses.iter().filter(|one| !one.is_up());
        out.map(|one| &one.address)
    }

    fn has_address_up(&self) -> bool {
        self.addresses.iter().any(ServerAddress::is_up)
    }

    fn find(&self, address: &Address) -> Option<&ServerAddress> {
        self.addresses.iter().find(|one| one.address == *address)
    }

    /// Returns the standing for a connection that has no reason of its own to use this server;
    /// `None` if it must not.
    pub(crate) fn standing(&self, index: usize, tried: &TriedServers) -> Option<Preference> {
        self.standing_at_home(index, tried).filter(|_| self.weight_now() > 0)
    }

    /// Returns the standing for a connection whose home this server is, which a weight of 0 does
    /// not keep away; `None` if the server cannot be used.
    pub(crate) fn standing_at_home(
        &self,
        index: usize,
        tried: &TriedServers,
    ) -> Option<Preference> {
        let untried = |(number, one): &(usize, &ServerAddress)| {
            one.is_usable() && !tried.has(place(index, *number))
        };
        let mut left = self.addresses.iter().enumerate().filter(untried);
        let (_, first) = left.next().filter(|_| !self.disabled)?;
        let is_ejected = first.is_ejected() && left.all(|(_, one)| one.is_ejected());
        let flag = |is_so: bool, value| if is_so { value } else { 0 };
        let again = flag(tried.has_server(index), Preference::AGAIN);
        let backup = flag(self.backup, Preference::BACKUP);
        let ejected = flag(is_ejected, Preference::EJECTED);
        let priority = u32::from(self.priority) * Preference::PRIORITY;
        Some(Preference(again | priority | backup | ejected))
    }

    /// Returns the next address that the connection has not dialled: an ejected one only if no
    /// other is left.
    pub(crate) fn take(
        &mut self,
        index: usize,
        now: Instant,
        tried: &TriedServers,
        ejection_time: Duration,
    ) -> Option<(DialTarget, Address)> {
        let up = self.next(index, tried, ServerAddress::is_up);
        let number = up.or_else(|| self.next(index, tried, ServerAddress::is_usable))?;
        self.next_address = number + 1;
        self.dial(index, number, now, ejection_time)
    }

    /// Returns another address, not ejected, for a connection that waits for one of this server.
    pub(crate) fn take_other(
        &self,
        index: usize,
        tried: &TriedServers,
    ) -> Option<(DialTarget, Address)> {
        let number = self.next(index, tried, ServerAddress::is_up)?;
        if self.disabled {
            return None;
        }
        let one = self.addresses.get(number)?;
        Some((place(index, number), one.address.clone()))
    }

    /// Returns an ejected address whose trial is due.
    pub(crate) fn take_trial(
        &mut self,
        index: usize,
        now: Instant,
        tried: &TriedServers,
        ejection_time: Duration,
    ) -> Option<(DialTarget, Address)> {
        if self.is_taken_out() {
            return None;
        }
        let number = self.next(index, tried, |one| one.is_trial_due(now))?;
        self.dial(index, number, now, ejection_time)
    }

    /// Returns the next address in turn that satisfies `is_so` and was not tried.
    fn next(
        &self,
        index: usize,
        tried: &TriedServers,
        is_so: impl Fn(&ServerAddress) -> bool,
    ) -> Option<usize> {
        let count = self.addresses.len();
        let in_turn = (0..count).map(|step| self.next_address.wrapping_add(step) % count);
        let mut untried = in_turn.filter(|number| !tried.has(place(index, *number)));
        untried.find(|number| self.addresses.get(*number).is_some_and(&is_so))
    }

    fn dial(
        &mut self,
        index: usize,
        number: usize,
        now: Instant,
        ejection_time: Duration,
    ) -> Option<(DialTarget, Address)> {
        let one = self.addresses.get_mut(number)?;
        one.dialled(now, ejection_time);
        Some((place(index, number), one.address.clone()))
    }

    /// Changes the state of an address, if the server still has it. The server's slow start begins
    /// if this brings its first address up. Returns whether the address was taken out or is back.
    pub(crate) fn change(
        &mut self,
        address: &Address,
        now: Instant,
        change: impl FnOnce(&mut ServerAddress),
    ) -> bool {
        let was_up = self.has_address_up();
        let mut all = self.addresses.iter_mut();
        let Some(one) = all.find(|one| one.address == *address) else {
            return false;
        };
        let before = one.is_up();
        change(one);
        let has_changed = one.is_up() != before;
        if has_changed && !was_up {
            self.back_since = Some(now);
        }
        has_changed
    }

    /// Sets the result of active checks: these addresses are down, and the others are not.
    pub(crate) fn set_checked(&mut self, down: &[Address], now: Instant) {
        let was_up = self.has_address_up();
        for one in &mut self.addresses {
            one.set_checked(!down.contains(&one.address));
        }
        if !was_up && self.has_address_up() {
            self.back_since = Some(now);
        }
    }

    pub(crate) fn set_disabled(&mut self, disabled: bool, now: Instant) {
        if self.disabled && !disabled {
            self.back_since = Some(now);
        }
        self.disabled = disabled;
    }

    /// Returns when the slow start ends; `None` if there is none.
    pub(crate) fn slow_start_end(&self, slow_start: Duration) -> Option<Instant> {
        self.back_since.map(|since| since + slow_start)
    }

    /// Grows the share linearly from [`SHARE_FIRST`] to the whole. Returns whether it is whole.
    pub(crate) fn grow_share(&mut self, now: Instant, slow_start: Duration) -> bool {
        let since = |since| now.saturating_duration_since(since);
        let grown = self.back_since.map(since).filter(|time| *time < slow_start);
        let part = grown.map_or(SHARE_WHOLE, |time| {
            let growth = u128::from(SHARE_WHOLE - SHARE_FIRST) * time.as_nanos();
            SHARE_FIRST + (growth / slow_start.as_nanos()) as u32
        });
        self.share = u32::from(self.weight_now()) * part;
        if grown.is_none() {
            self.back_since = None;
        }
        grown.is_none()
    }

    /// Reports whether an operator has stopped the balance from giving it new connections.
    pub(crate) fn is_taken_out(&self) -> bool {
        self.disabled || self.weight_now() == 0
    }

    fn weight_now(&self) -> u16 {
        self.weight_ordered.unwrap_or(self.weight)
    }

    /// Sets an operator's weight, or the configured one again.
    pub(crate) fn order_weight(&mut self, weight: Option<u16>) {
        self.weight_ordered = weight;
        if self.back_since.is_none() {
            self.share = u32::from(self.weight_now()) * SHARE_WHOLE;
        }
    }

    pub(crate) fn set_target(&mut self, target: &Target) {
        if !self.is_name {
            return;
        }
        let used = target.addresses.iter().take(ADDRESSES_MAX);
        let used = used.copied().map(Address::Ip);
        let before = std::mem::take(&mut self.addresses);
        let kept = |address: Address| {
            let same = before.iter().find(|one| one.address == address);
            same.cloned().unwrap_or_else(|| ServerAddress::new(address))
        };
        self.addresses = used.map(kept).collect();
        if let Some(record) = target.record {
            (self.weight, self.priority) = (record.weight, record.priority);
            if self.back_since.is_none() {
                self.share = u32::from(self.weight_now()) * SHARE_WHOLE;
            }
        }
    }
}

fn place(server: usize, address: usize) -> DialTarget {
    DialTarget { server: server as u16, address: address as u16 }
}

/// An address of a server: its failed dials, its ejection, its check. A server has as many as its
/// name resolves to, and each is judged by itself.
#[derive(Clone, Debug)]
pub(crate) struct ServerAddress {
    pub(crate) address: Address,
    /// Failed dials in a row.
    pub(crate) failures: u32,
    /// Time of the next trial, if the address is ejected.
    trial_at: Option<Instant>,
    is_checked_down: bool,
}

impl ServerAddress {
    /// Makes an address of unknown state, which is used.
    pub(crate) fn new(address: Address) -> Self {
        Self { address, failures: 0, trial_at: None, is_checked_down: false }
    }

    /// Takes over what an earlier plan knows about the same address.
    pub(crate) fn inherit(&mut self, before: &Self, is_checked: bool) {
        *self = before.clone();
        self.is_checked_down &= is_checked;
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.is_checked_down
    }

    pub(crate) fn is_ejected(&self) -> bool {
        self.trial_at.is_some()
    }

    /// Reports whether the address is dialled without restriction.
    pub(crate) fn is_up(&self) -> bool {
        self.is_usable() && !self.is_ejected()
    }

    pub(crate) fn is_trial_due(&self, now: Instant) -> bool {
        self.is_usable() && self.trial_at.is_some_and(|at| at <= now)
    }

    /// Notes that a dial begins. If a trial was due, the next one waits for an ejection time, so
    /// that a trial whose outcome is never reported blocks nothing.
    pub(crate) fn dialled(&mut self, now: Instant, ejection_time: Duration) {
        if self.is_trial_due(now) {
            self.trial_at = Some(now + ejection_time);
        }
    }

    pub(crate) fn dial_succeeded(&mut self) {
        (self.failures, self.trial_at) = (0, None);
    }

    /// Notes that a trial which no connection used was accepted. That proves nothing about later
    /// steps, such as TLS: the next failure ejects again.
    pub(crate) fn trial_accepted(&mut self, passive: &PassiveOptions) {
        (self.failures, self.trial_at) = (passive.failures.saturating_sub(1), None);
    }

    pub(crate) fn dial_failed(&mut self, now: Instant, passive: &PassiveOptions) {
        self.failures = self.failures.saturating_add(1);
        if passive.failures > 0 && self.failures >= passive.failures {
            self.trial_at = Some(now + passive.ejection_time);
        }
    }

    /// A check that succeeds again outweighs the dials that failed before it.
    pub(crate) fn set_checked(&mut self, up: bool) {
        if up && self.is_checked_down {
            self.dial_succeeded();
        }
        self.is_checked_down = !up;
    }
}

/// Most dials of a connection: with the timeout of a dial this limits how long a client waits, and
/// if eight servers in a row fail, a ninth is unlikely to help.
pub const DIALS_MAX: usize = 8;

/// Servers that one connection has dialled in vain, and at which of their addresses.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TriedServers {
    places: [DialTarget; DIALS_MAX],
    count: u8,
}

/// A server, and one of the addresses of its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DialTarget {
    pub(crate) server: u16,
    pub(crate) address: u16,
}

impl TriedServers {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns how many dials were made.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Reports whether no further dial is allowed.
    pub fn is_full(&self) -> bool {
        self.count() == DIALS_MAX
    }

    /// Reports whether a server was dialled at any of its addresses.
    pub fn has_server(&self, server: usize) -> bool {
        let mut places = self.places().iter();
        places.any(|place| usize::from(place.server) == server)
    }

    /// Reports whether a server was dialled at this address.
    pub fn has(&self, place: DialTarget) -> bool {
        self.places().contains(&place)
    }

    /// Notes a dial, once. Dials beyond the limit are dropped: the pool picks nothing then.
    pub fn insert(&mut self, place: DialTarget) {
        if !self.has(place)
            && let Some(free) = self.places.get_mut(usize::from(self.count))
        {
            *free = place;
            self.count += 1;
        }
    }

    /// Forgets dials that were given up and had not failed.
    pub fn remove(&mut self, places: &[DialTarget]) {
        for place in places {
            if let Some(at) = self.places().iter().position(|one| one == place) {
                self.count -= 1;
                self.places.swap(at, usize::from(self.count));
            }
        }
    }

    fn places(&self) -> &[DialTarget] {
        &self.places[..self.count()]
    }
}

/// State of one server under check.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Check {
    fall: u32,
    rise: u32,
    up: Option<bool>,
    /// Results in a row that contradict `up`.
    against: u32,
}

impl Check {
    /// Starts with a server of unknown state, or, after a reload, with the state known before.
    ///
    /// An unknown server is used, and the first result alone decides, because a server that was
    /// never seen to answer gets no benefit of the doubt, and one that answers at once need not
    /// wait for its `rise`.
    pub fn new(options: &CheckOptions, before: Option<bool>) -> Self {
        Self { fall: options.fall.max(1), rise: options.rise.max(1), up: before, against: 0 }
    }

    /// Counts a result. Returns the server's new state if that changed (or was unknown).
    pub fn observe(&mut self, good: bool) -> Option<bool> {
        if self.up == Some(good) {
            self.against = 0;
            return None;
        }
        self.against += 1;
        let needed = match self.up {
            None => 1,
            Some(true) => self.fall,
            Some(false) => self.rise,
        };
        if self.against < needed {
            return None;
        }
        self.against = 0;
        self.up = Some(good);
        self.up
    }

    /// Reports whether the server is up; `None` before the first result.
    pub fn is_up(&self) -> Option<bool> {
        self.up
    }
}

#[cfg(test)]
mod tests;
