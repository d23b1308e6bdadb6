//! The service manager: the last message to it, the next time, and the descriptors that it keeps
//! from one start to the next (systemd's file descriptor store), which are listening sockets,
//! stored sessions, and what goes with them. What it is told when is `reporting`'s.
//!
//! Owns the descriptors' names, and what the manager was told last. So connections wait in the
//! sockets while nobody serves, and sessions resume after it; a socket that nobody will serve is
//! taken out of the store, since connections would wait in it for ever.

pub(super) mod protocol;

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use sys::{inherited, memory};

use super::upgrade::state::{
    InheritedState, ListenerState, STATE_BYTES_MAX, SupervisorState, decode,
};
use crate::handover::Secret;
use crate::messages::{printable, warn};

use protocol::{InheritedDescriptor, Notice, Notifier};

/// From one question to the worker process to the next: how old the number of connections gets.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Questions within the time after which the watchdog bites: two may be late.
const LOOKS_PER_WATCHDOG: u32 = 4;

/// The last message to the manager, and the time of the next one.
#[derive(Default)]
pub(super) struct ServiceManager {
    pub(super) notifier: Notifier,
    pub(super) look: Option<Instant>,
    /// Since when the worker process has not answered, if it was asked.
    pub(super) asked: Option<Instant>,
    is_missed: bool,
    pub(super) connections: Option<u64>,
    /// The sentence that the manager has.
    pub(super) status: String,
    pub(super) store: DescriptorStore,
}

impl ServiceManager {
    /// The manager that the environment names, which keeps what was inherited from it.
    pub(super) fn of_environment(inherited: &InheritedState) -> Self {
        let store = DescriptorStore::knowing(names_of(inherited));
        Self { store, notifier: Notifier::of_environment(), ..Self::default() }
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.look.into_iter().chain(self.notifier.retry).min()
    }

    /// The time between questions to the worker process.
    pub(super) fn interval(&self) -> Duration {
        let watchdog = self.notifier.watchdog;
        let of_watchdog = watchdog.map(|time| time / LOOKS_PER_WATCHDOG);
        of_watchdog.map_or(LOOK_INTERVAL, |time| time.min(LOOK_INTERVAL))
    }

    /// How long it has had no answer, if that is long and was not said.
    pub(super) fn missed(&mut self, now: Instant) -> Option<Duration> {
        let missed = now.saturating_duration_since(self.asked?);
        let is_long = missed >= LOOK_INTERVAL;
        (is_long && !std::mem::replace(&mut self.is_missed, true)).then_some(missed)
    }

    /// The worker process answers, or there is another. How long an answer was missed, if that was
    /// said; `None` = nothing was asked.
    pub(super) fn answered(&mut self, now: Instant) -> Option<Option<Duration>> {
        let asked = self.asked.take()?;
        let was_missed = std::mem::take(&mut self.is_missed);
        Some(was_missed.then(|| now.saturating_duration_since(asked)))
    }

    /// Says that all is well, while no plan is served by this program.
    pub(super) fn beat(&mut self) {
        if self.notifier.watchdog.is_some() {
            self.notifier.send(&[Notice::Watchdog]);
        }
    }

    /// A sentence in place of the last one, with these things.
    pub(super) fn say_status(&mut self, mut notices: Vec<Notice>, status: String) {
        if self.status != status {
            notices.push(Notice::Status(status.clone()));
            self.status = status;
        }
        if !notices.is_empty() {
            self.notifier.send(&notices);
        }
    }
}

const LISTEN: &str = "lariat/listen/";
const ADMIN: &str = "lariat/admin/";
const SESSIONS: &str = "lariat/sessions";
const STATE: &str = "lariat/state";

/// systemd's limit of a name (`FDNAME_MAX`).
const NAME_BYTES_MAX: usize = 255;

/// Numbers of worker processes that are set aside in the store: whatever the manager has not heard
/// of when this process dies, the next one begins beyond it.
const NUMBERS_RESERVED: u64 = 64;

/// The descriptors that the manager was told to keep for the next start.
#[derive(Default)]
pub(crate) struct DescriptorStore {
    /// Names of ours in the store, with the descriptors' numbers in this process; no number =
    /// another process stored them.
    kept: BTreeMap<String, Vec<RawFd>>,
    state: Option<State>,
    numbers_until: u64,
    has_warned: bool,
}

/// The names by which the manager may have what came from it, or from the program before.
pub(crate) fn names_of(inherited: &InheritedState) -> Vec<String> {
    let own = inherited.listeners.iter().map(|(listener, _)| listener);
    let own = own.filter(|listener| !listener.handed_over);
    let admin = inherited.admin.iter().map(|(address, _)| admin_name(address));
    let state = [SESSIONS, STATE].map(str::to_owned);
    let state = state.into_iter().filter(|_| inherited.secret.is_some());
    let kept = inherited.kept.iter().cloned();
    kept.chain(own.filter_map(listener_name)).chain(admin).chain(state).collect()
}

/// The bytes of a [`SupervisorState`], and the memory that holds them.
type State = (Secret, OwnedFd);

/// Descriptors by name, as they are to be kept.
pub(crate) type Named<'a> = (String, Vec<BorrowedFd<'a>>);

impl DescriptorStore {
    /// The manager may have descriptors by these names.
    pub(crate) fn knowing(names: impl IntoIterator<Item = String>) -> Self {
        let kept = names.into_iter().map(|name| (name, Vec::new())).collect();
        Self { kept, ..Self::default() }
    }

    /// The last number that a worker process of this supervisor may have, if the last one so far
    /// has this one.
    pub(crate) fn numbers_until(&mut self, last: u64) -> u64 {
        if last + NUMBERS_RESERVED / 2 > self.numbers_until {
            self.numbers_until = last + NUMBERS_RESERVED;
        }
        self.numbers_until
    }

    /// Tells the manager to keep these, the stored sessions and this state, and nothing else of
    /// ours.
    pub(crate) fn keep(
        &mut self,
        notifier: &mut Notifier,
        wanted: Vec<Named<'_>>,
        sessions: Option<BorrowedFd<'_>>,
        state: Secret,
    ) {
        let (state, _before) = self.next_state(state);
        let of_state = state.iter().map(|(_, fd)| (STATE.to_owned(), vec![fd.as_fd()]));
        let of_sessions = sessions.map(|fd| (SESSIONS.to_owned(), vec![fd]));
        let all = wanted.into_iter().chain(of_sessions).chain(of_state);
        self.tell(notifier, all.collect());
        self.state = state;
    }

    /// The memory file to keep for these bytes, and the previous one if it is replaced. The caller
    /// holds that one open meanwhile, so that the two numbers differ.
    fn next_state(&mut self, bytes: Secret) -> (Option<State>, Option<State>) {
        match self.state.take() {
            Some(same) if same.0.bytes() == bytes.bytes() => (Some(same), None),
            before => match memory::sealed("lariat state", bytes.bytes()) {
                Ok(fd) => (Some((bytes, fd)), before),
                Err(error) => {
                    warn(format_args!(
                        "sessions will not be resumed after a restart by the service manager: no \
                         memory for its descriptor store can be made: {error}"
                    ));
                    (None, before)
                }
            },
        }
    }

    fn tell(&mut self, notifier: &mut Notifier, wanted: Vec<Named<'_>>) {
        let wanted: BTreeMap<_, _> = wanted.into_iter().collect();
        let numbers = |fds: &[BorrowedFd<'_>]| fds.iter().map(AsRawFd::as_raw_fd).collect();
        let now: BTreeMap<String, Vec<RawFd>> =
            wanted.iter().map(|(name, fds)| (name.clone(), numbers(fds))).collect();
        // The state first, which says what the sessions are: one without the other is of no use,
        // and one with another's would be wrong.
        for (name, fds) in self.kept.iter().rev() {
            let is_added_to = name.starts_with(LISTEN) && now.contains_key(name);
            if now.get(name) != Some(fds) && !is_added_to {
                notifier.forget(name);
            }
        }
        for (name, fds) in &wanted {
            if self.kept.get(name) != now.get(name) {
                notifier.keep(name, fds);
            }
        }
        self.warn_of_limit(now.values().map(Vec::len).sum());
        self.kept = now;
    }

    /// From systemd 254 on the manager says how many it keeps; it closes all beyond that.
    fn warn_of_limit(&mut self, count: usize) {
        let limit = std::env::var("FDSTORE").ok();
        let limit = limit.and_then(|text| text.parse::<usize>().ok());
        if let Some(limit) = limit.filter(|limit| *limit < count && !self.has_warned) {
            self.has_warned = true;
            warn(format_args!(
                "the service manager keeps {limit} descriptors for the next start, and there are \
                 {count}: a restart by it will refuse connections\n\
                 hint: a larger FileDescriptorStoreMax= in the unit, or `lariat upgrade` in the \
                 place of a restart"
            ));
        }
    }

    /// This one ends for good: has the manager close all, so that clients are refused.
    pub(crate) fn forget(&mut self, notifier: &mut Notifier) {
        for name in std::mem::take(&mut self.kept).keys().rev() {
            notifier.forget(name);
        }
        self.state = None;
    }
}

/// Whether a descriptor by that name was kept by one of us.
pub(crate) fn is_ours(name: &str) -> bool {
    name.starts_with(config::KEPT_NAMES)
}

/// The descriptors that an earlier lariat left to the manager. A message names those that are of no
/// use; they are left out.
pub(crate) fn restored(given: Vec<InheritedDescriptor>) -> InheritedState {
    let mut inherited = InheritedState::default();
    let (mut state, mut sessions) = (None, None);
    for InheritedDescriptor { name, fd, .. } in given {
        match name.as_str() {
            STATE => state = Some(fd),
            SESSIONS => sessions = Some(fd),
            socket => {
                if let Err(why) = take_socket(&mut inherited, socket, fd) {
                    let name = printable(socket);
                    warn(format_args!(
                        "{name}, which an earlier lariat left to the service manager, {why}, and is \
                         closed"
                    ));
                }
            }
        }
        inherited.kept.insert(name);
    }
    if let Some(state) = state {
        match state_of(state, sessions.as_ref()) {
            Ok(state) => inherited.take_state(state, sessions),
            Err(why) => warn(format_args!(
                "what an earlier lariat left to the service manager cannot be used, so sessions \
                 begin anew and all servers are enabled: {why}"
            )),
        }
    }
    inherited
}

/// An error is the rest of a sentence.
fn take_socket(inherited: &mut InheritedState, name: &str, fd: OwnedFd) -> Result<(), String> {
    let (fd, _) = inherited::listener(fd).map_err(|why| why.to_string())?;
    if let Some(address) = name.strip_prefix(ADMIN).and_then(decoded) {
        inherited.admin = Some((address, fd));
        return Ok(());
    }
    let listener = name.strip_prefix(LISTEN).and_then(listener_of);
    let mut listener = listener.ok_or("has a name that this one does not know")?;
    let is_same = |one: &ListenerState| {
        let sockets = one.sockets;
        let with_as_many = ListenerState { sockets, ..listener.clone() };
        *one == with_as_many
    };
    let found = inherited.listeners.iter_mut();
    match found.into_iter().find(|(one, _)| is_same(one)) {
        Some((one, fds)) => {
            one.sockets += 1;
            fds.push(fd);
        }
        None => {
            listener.sockets = 1;
            inherited.listeners.push((listener, vec![fd]));
        }
    }
    Ok(())
}

/// An error is a sentence without a full stop.
fn state_of(state: OwnedFd, sessions: Option<&OwnedFd>) -> Result<SupervisorState, String> {
    let bytes = memory::sealed_bytes(state, STATE_BYTES_MAX);
    let bytes = Secret::new(bytes.map_err(|error| format!("its state is not readable: {error}"))?);
    let state: SupervisorState = decode(bytes.bytes())?;
    state.check_with(sessions.iter().len())?;
    if let (Some(offered), Some(fd)) = (&state.sessions, sessions) {
        let words = memory::words(fd.as_fd());
        if words.ok() != Some(session::Memory::words_of(offered.limits())) {
            return Err("the memory of its sessions is of another size".to_owned());
        }
    }
    Ok(state)
}

/// The name of the admin's listener at this address.
pub(crate) fn admin_name(address: &str) -> String {
    format!("{ADMIN}{}", encoded(address))
}

/// The name of a listener's sockets; `None` = it is too long, and they are not kept.
pub(crate) fn listener_name(listener: &ListenerState) -> Option<String> {
    let mut name = format!("{LISTEN}{}", encoded(&listener.address));
    if let Some(interface) = &listener.interface {
        name += &format!(";interface={}", encoded(interface));
    }
    if listener.mptcp {
        name += ";mptcp";
    }
    if listener.ipv6_only {
        name += ";ipv6-only";
    }
    if listener.place > 0 {
        name += &format!(";place={}", listener.place);
    }
    (name.len() <= NAME_BYTES_MAX).then_some(name)
}

fn listener_of(name: &str) -> Option<ListenerState> {
    let mut parts = name.split(';');
    let mut listener = ListenerState {
        address: parts.next().and_then(decoded)?,
        interface: None,
        mptcp: false,
        ipv6_only: false,
        place: 0,
        sockets: 0,
        handed_over: false,
        name: None,
    };
    for part in parts {
        match part.split_once('=') {
            Some(("interface", name)) => listener.interface = Some(decoded(name)?),
            Some(("place", number)) => listener.place = number.parse().ok()?,
            None if part == "mptcp" => listener.mptcp = true,
            None if part == "ipv6-only" => listener.ipv6_only = true,
            _ => return None,
        }
    }
    Some(listener)
}

/// A name in the store is of printable ASCII without colons, which stand between two of them.
fn encoded(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b":;=%".contains(&byte);
    let each = text.bytes().map(|byte| match byte {
        byte if is_plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    each.collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (number, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(number, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str) -> ListenerState {
        listener_of(&encoded(address)).unwrap()
    }

    #[test]
    fn a_name_says_which_listener_it_is() {
        let plain = listener("[::]:443");
        let others = [
            ListenerState { interface: Some("ppp=;0".to_owned()), ..plain.clone() },
            ListenerState { mptcp: true, ipv6_only: true, place: 3, ..plain.clone() },
            listener("unix:/run/ä b%3A.sock"),
            plain,
        ];
        for one in others {
            let name = listener_name(&one).unwrap();
            assert!(name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':'));
            assert_eq!(listener_of(name.strip_prefix(LISTEN).unwrap()), Some(one));
        }
        assert_eq!(
            listener_name(&listener("127.0.0.1:80")).unwrap(),
            "lariat/listen/127.0.0.1%3A80"
        );
        assert_eq!(listener_name(&listener(&"ä".repeat(50))), None);
        for strange in ["a%3", "a;colour=red", "a;place=x", "%FF"] {
            assert_eq!(listener_of(strange), None, "{strange}");
        }
    }

    #[test]
    fn numbers_are_set_aside_before_they_are_used() {
        let mut store = DescriptorStore::default();
        let mut known = 0;
        for last in 0..1000 {
            // What the manager had heard of before this one, at the latest.
            assert!(last == 0 || known >= last + NUMBERS_RESERVED / 2 - 1);
            known = store.numbers_until(last);
        }
    }
}
