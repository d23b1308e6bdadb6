//! Descriptors that the service manager hands over: listening sockets that it has opened
//! (sd_listen_fds(3)), and those of ours that it keeps from one start to the next (systemd's file
//! descriptor store), which are listening sockets, stored sessions, and what goes with them.
//!
//! Sockets that it has opened take the place of those that would be opened at the same addresses.
//! The manager keeps them too, so that connections wait in them while nobody serves. They stay ours
//! until the end, whatever a reload does, and their paths are the manager's to remove.
//!
//! Owns the names in the store, and what the manager was told last. So connections wait in the
//! sockets while nobody serves, and sessions resume after it; a socket that nobody will serve is
//! taken out of the store, since connections would wait in it for ever.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use sys::{inherited, shared};
use wire::address::Address;

use super::Notifier;
use crate::handover::Secret;
use crate::messages::{printable, warn};
use crate::supervisor::failure::Failure;
use crate::supervisor::upgrade::state::{
    Inherited, ListenerState, STATE_BYTES_MAX, SupervisorState, decode,
};

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
pub(crate) fn names_of(inherited: &Inherited) -> Vec<String> {
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
            before => match shared::sealed("lariat state", bytes.bytes()) {
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
pub(crate) fn restored(given: Vec<Given>) -> Inherited {
    let mut inherited = Inherited::default();
    let (mut state, mut sessions) = (None, None);
    for Given { name, fd, .. } in given {
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
fn take_socket(inherited: &mut Inherited, name: &str, fd: OwnedFd) -> Result<(), String> {
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
    let bytes = shared::sealed_bytes(state, STATE_BYTES_MAX);
    let bytes = Secret::new(bytes.map_err(|error| format!("its state is not readable: {error}"))?);
    let state: SupervisorState = decode(bytes.bytes())?;
    state.check_with(sessions.iter().len())?;
    if let (Some(offered), Some(fd)) = (&state.sessions, sessions) {
        let words = shared::words(fd.as_fd());
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

/// A socket's unit has a handful, and the descriptor store one for each address and worker.
const DESCRIPTORS_MAX: u16 = 32_768;

#[derive(Debug)]
struct HandedOver {
    name: String,
    address: Address,
    fd: OwnedFd,
}

#[derive(Debug, Default)]
pub(crate) struct HandedOverSockets(Vec<HandedOver>);

/// A descriptor that was handed over, with its name.
#[derive(Debug)]
pub(crate) struct Given {
    number: u16,
    pub(crate) name: String,
    pub(crate) fd: OwnedFd,
}

/// All that was handed over: `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES` say how many there
/// are, to whom, and what they are called. To be called once, before the process opens anything.
pub(crate) fn given() -> Result<Vec<Given>, Failure> {
    let number = |name: &str| match std::env::var_os(name) {
        None => Ok(None),
        Some(text) => match text.to_str().and_then(|text| text.parse::<u32>().ok()) {
            Some(number) => Ok(Some(number)),
            None => Err(Failure::HandedOver(format!(
                "{name} is {text:?}, which is no number\nhint: the service manager sets it \
                 (sd_listen_fds(3)); unset it to start lariat by hand"
            ))),
        },
    };
    if number("LISTEN_PID")? != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS")?.unwrap_or(0);
    let count = u16::try_from(count).ok().filter(|it| *it <= DESCRIPTORS_MAX);
    let count = count.ok_or_else(|| {
        Failure::HandedOver(format!("LISTEN_FDS says more than {DESCRIPTORS_MAX} descriptors"))
    })?;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').chain(std::iter::repeat("unknown"));
    let each = (0..count).zip(names).map(|(number, name)| {
        let taken = inherited::take(number, count).map_err(Failure::host("take a descriptor"))?;
        let fd = taken.ok_or_else(|| unusable(number, name, "is not open"))?;
        let name = name.to_owned();
        Ok(Given { number, name, fd })
    });
    each.collect()
}

impl HandedOverSockets {
    /// These. Each must be a socket that listens.
    pub(crate) fn new(given: Vec<Given>) -> Result<Self, Failure> {
        let each = given.into_iter().map(|Given { number, name, fd }| {
            let taken = inherited::listener(fd);
            let (fd, address) = taken.map_err(|why| unusable(number, &name, &why.to_string()))?;
            Ok(HandedOver { name, address, fd })
        });
        each.collect::<Result<_, _>>().map(Self)
    }

    /// A descriptor for each worker, and at least one of every socket, if the address was handed
    /// over. Workers share the sockets, as they do a Unix socket.
    pub(crate) fn share(&self, address: &Address, workers: usize) -> Option<Vec<OwnedFd>> {
        let here: Vec<_> = self.at(address).collect();
        if here.is_empty() {
            return None;
        }
        let each = here.iter().cycle().take(workers.max(here.len()));
        // The limit of descriptors is raised, and this is the start: if it fails, we open our own,
        // which says why it cannot.
        each.map(|one| one.fd.try_clone().ok()).collect()
    }

    fn at<'a>(&'a self, address: &'a Address) -> impl Iterator<Item = &'a HandedOver> {
        self.0.iter().filter(move |one| match address {
            Address::Inherited(name) => one.name == *name,
            address => one.address == *address,
        })
    }

    /// Takes those that the program before had of its service manager: no reload closes them, and
    /// the path is the manager's.
    pub(crate) fn inherit(&mut self, address: &Address, name: Option<&str>, fds: &[OwnedFd]) {
        // The limit of descriptors is raised, and this is the start.
        let copies = fds.iter().filter_map(|fd| fd.try_clone().ok());
        let taken = copies.filter_map(|fd| inherited::listener(fd).ok());
        let name = match address {
            Address::Inherited(name) => name,
            Address::Ip(_) | Address::Unix(_) => name.unwrap_or("of the program before"),
        };
        self.0.extend(taken.map(|(fd, address)| HandedOver { name: name.to_owned(), address, fd }));
    }

    pub(crate) fn has(&self, address: &Address) -> bool {
        self.at(address).next().is_some()
    }

    pub(crate) fn name(&self, address: &Address) -> Option<String> {
        self.at(address).next().map(|one| one.name.clone())
    }

    /// The list of the sockets handed over, as a part of a sentence.
    pub(crate) fn list(&self) -> String {
        let each = self.0.iter();
        let each: Vec<_> = each.map(|one| format!("`{}` ({})", one.name, one.address)).collect();
        match each.as_slice() {
            [] => "no socket was handed over".to_owned(),
            _ => format!("handed over: {}", each.join(", ")),
        }
    }

    /// Warns of those that nobody listens at.
    pub(crate) fn warn_of_unused(&self, wanted: impl Fn(&Address) -> bool) {
        let is_wanted = |one: &HandedOver| {
            wanted(&one.address) || wanted(&Address::Inherited(one.name.clone()))
        };
        for one in self.0.iter().filter(|one| !is_wanted(one)) {
            warn(format_args!(
                "the service manager handed over the socket {}, {}, and nothing of the \
                 configuration listens there: its clients wait for ever\n\
                 hint: name its address, or `fd:{0}`, in a `front.listen`, or take it out of the \
                 socket's unit",
                one.name, one.address
            ));
        }
    }
}

fn unusable(number: u16, name: &str, why: &str) -> Failure {
    Failure::HandedOver(format!(
        "descriptor {} ({name}), which the service manager handed over, {why}\n\
         hint: the socket's unit must have ListenStream= and Accept=no, and nothing else may be \
         handed over",
        u32::from(number) + 3
    ))
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
