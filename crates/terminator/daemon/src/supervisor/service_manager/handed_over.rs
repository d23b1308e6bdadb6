//! Listening sockets that the service manager has opened and hands over (sd_listen_fds(3)): they
//! take the place of those that would be opened at the same addresses.
//!
//! The manager keeps them too, so that connections wait in them while nobody serves. They stay ours
//! until the end, whatever a reload does, and their paths are the manager's to remove.

use std::os::fd::OwnedFd;

use sys::inherited;
use wire::address::Address;

use crate::messages::warn;
use crate::supervisor::failure::Failure;

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
