//! The channel to the supervisor: a thread receives its orders; answers are sent from any thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use sys::channel::{Channel, DESCRIPTORS_MAX, MESSAGE_BYTES_MAX};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::handover::{Answer, Bundle, ProcessMessageForm, Secret, SupervisorOrder, decode};

/// An order with what came with it.
pub(super) struct ReceivedOrder {
    pub(super) order: SupervisorOrder,
    pub(super) fds: Vec<OwnedFd>,
    /// Descriptors that came with it and that this process had no room for.
    pub(super) missing: usize,
    /// With orders to serve a plan.
    pub(super) bundle: Option<Bundle>,
}

impl ReceivedOrder {
    /// The reason why the order cannot be carried out, if descriptors of it are missing.
    pub(super) fn shortage(&self) -> Option<String> {
        let (missing, all) = (self.missing, self.missing + self.fds.len());
        (missing > 0).then(|| {
            format!(
                "{missing} of the {all} descriptors that come with it (listeners and others) found \
                 no room in the worker process, which may open {} files\n\
                 hint: raise the limit (`LimitNOFILE=` of systemd, `ulimit -Hn`) and restart, or \
                 reload when fewer connections are open",
                sys::usage::open_files()
            )
        })
    }
}

/// The next order; `None` = the supervisor is gone.
pub(super) fn next(channel: &Channel) -> io::Result<Option<ReceivedOrder>> {
    let received = channel.receive_in_part(MESSAGE_BYTES_MAX, DESCRIPTORS_MAX)?;
    let Some(((bytes, fds), missing)) = received else {
        return Ok(None);
    };
    let bytes = Secret::new(bytes);
    let order = ProcessMessageForm::Json.decode(bytes.bytes())?;
    let bundle = match order {
        SupervisorOrder::Start(..) | SupervisorOrder::Replace(_) => match bundle(channel)? {
            Some(bundle) => Some(bundle),
            None => return Ok(None),
        },
        _ => None,
    };
    Ok(Some(ReceivedOrder { order, fds, missing, bundle }))
}

fn bundle(channel: &Channel) -> io::Result<Option<Bundle>> {
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(None);
    };
    let bytes = Secret::new(bytes);
    decode(bytes.bytes()).map(Some).map_err(io::Error::other)
}

/// The orders as they come. An error is the last: what follows it in the channel is unknown.
pub(super) type Orders = UnboundedReceiver<io::Result<ReceivedOrder>>;

/// Waits for orders in a thread of its own; the receiver ends when the supervisor is gone.
pub(super) fn listen(channel: Arc<Channel>) -> io::Result<Orders> {
    // The supervisor is trusted not to send without end.
    let (sender, queue) = unbounded_channel();
    let thread = thread::Builder::new().name("orders".to_owned());
    thread.spawn(move || pass_on(&channel, &sender))?;
    Ok(queue)
}

fn pass_on(channel: &Channel, sender: &UnboundedSender<io::Result<ReceivedOrder>>) {
    while let Some(received) = next(channel).transpose() {
        let is_last = received.is_err();
        if sender.send(received).is_err() || is_last {
            return;
        }
    }
}

pub(super) fn say(channel: &Channel, answer: &Answer) -> io::Result<()> {
    channel.send(ProcessMessageForm::Json.encode(answer)?.bytes(), &[])
}
