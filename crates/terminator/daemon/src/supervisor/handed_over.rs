//! Listening sockets that the service manager has opened and hands over (sd_listen_fds(3)): they
//! take the place of those that would be opened at the same addresses.
//!
//! The manager keeps them too, so that connections wait in them while nobody serves. They stay ours
//! until the end, whatever a reload does, and their paths are the manager's to remove.

use std::os::fd::OwnedFd;

use sys::inherited;
use wire::address::Address;

use super::failure::Failure;
use super::messages::say;

/// A unit of a service manager has a handful.
const SOCKETS_MAX: u16 = 1024;

/// One of them.
#[derive(Debug)]
struct HandedOver {
    /// `FileDescriptorName=` of its unit.
    name: String,
    address: Address,
    fd: OwnedFd,
}

/// Those that were handed over.
#[derive(Debug, Default)]
pub(super) struct HandedOverSockets(Vec<HandedOver>);

impl HandedOverSockets {
    /// As the environment says: `LISTEN_FDS`, `LISTEN_PID` and `LISTEN_FDNAMES`. To be called
    /// before the process opens anything.
    pub(super) fn of_environment() -> Result<Self, Failure> {
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
            return Ok(Self::default());
        }
        let count = number("LISTEN_FDS")?.unwrap_or(0);
        let count = u16::try_from(count).ok().filter(|it| *it <= SOCKETS_MAX);
        let count = count.ok_or_else(|| {
            Failure::HandedOver(format!(
                "LISTEN_FDS says more than {SOCKETS_MAX} descriptors"
            ))
        })?;
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let names = names.split(':').chain(std::iter::repeat("unknown"));
        let each = (0..count).zip(names).map(|(number, name)| {
            let taken = inherited::listener(number, count);
            let (fd, address) = taken.map_err(|why| unusable(number, name, &why))?;
            let name = name.to_owned();
            Ok(HandedOver { name, address, fd })
        });
        each.collect::<Result<_, _>>().map(Self)
    }

    /// A descriptor for each of so many workers, if the address was handed over. Workers share the
    /// socket, as they do a Unix socket.
    pub(super) fn share(&self, address: &Address, workers: usize) -> Option<Vec<OwnedFd>> {
        let here: Vec<_> = self
            .0
            .iter()
            .filter(|one| one.address == *address)
            .collect();
        if here.is_empty() {
            return None;
        }
        let each = here.iter().cycle().take(workers);
        // The limit of descriptors is raised, and this is the start: if it fails, we open our own,
        // which says why it cannot.
        each.map(|one| one.fd.try_clone().ok()).collect()
    }

    /// Takes those that a predecessor had of its service manager: no reload closes them, and the
    /// path is the manager's.
    pub(super) fn inherit(&mut self, address: &Address, fds: &[OwnedFd]) {
        // The limit of descriptors is raised, and this is the start.
        let copies = fds.iter().filter_map(|fd| fd.try_clone().ok());
        self.0.extend(copies.map(|fd| HandedOver {
            name: "of the predecessor".to_owned(),
            address: address.clone(),
            fd,
        }));
    }

    /// Whether the address was handed over.
    pub(super) fn has(&self, address: &Address) -> bool {
        self.0.iter().any(|one| one.address == *address)
    }

    /// Warns of those that nobody listens at.
    pub(super) fn warn_of_unused(&self, wanted: impl Fn(&Address) -> bool) {
        for one in self.0.iter().filter(|one| !wanted(&one.address)) {
            say(format_args!(
                "warning: the service manager handed over the socket {}, {}, and nothing of the \
                 configuration listens there: its clients wait for ever\n\
                 hint: name its address in a `front.listen`, or take it out of the socket's unit",
                one.name, one.address
            ));
        }
    }
}

fn unusable(number: u16, name: &str, why: &inherited::Unusable) -> Failure {
    Failure::HandedOver(format!(
        "descriptor {} ({name}), which the service manager handed over, {why}\n\
         hint: the socket's unit must have ListenStream= and Accept=no, and nothing else may be \
         handed over",
        u32::from(number) + 3
    ))
}
