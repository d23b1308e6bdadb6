//! The channel to the supervisor: a thread receives its orders; answers are sent from any thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use sys::channel::Channel;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::handover::{Answer, Bundle, Order, ProcessMessageForm, Secret, decode};

/// An order with what came with it.
pub(super) struct Received {
    pub(super) order: Order,
    pub(super) fds: Vec<OwnedFd>,
    /// With orders to serve a plan.
    pub(super) bundle: Option<Bundle>,
}

/// The next order; `None` = the supervisor is gone.
pub(super) fn next(channel: &Channel) -> io::Result<Option<Received>> {
    let Some((bytes, fds)) = channel.receive()? else {
        return Ok(None);
    };
    let bytes = Secret::new(bytes);
    let order = ProcessMessageForm::Json.decode(bytes.bytes())?;
    let bundle = match order {
        Order::Start(..) | Order::Replace(_) => match bundle(channel)? {
            Some(bundle) => Some(bundle),
            None => return Ok(None),
        },
        _ => None,
    };
    Ok(Some(Received { order, fds, bundle }))
}

fn bundle(channel: &Channel) -> io::Result<Option<Bundle>> {
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(None);
    };
    let bytes = Secret::new(bytes);
    decode(bytes.bytes()).map(Some).map_err(io::Error::other)
}

/// Waits for orders in a thread of its own; the receiver ends when the supervisor is gone.
pub(super) fn listen(channel: Arc<Channel>) -> io::Result<UnboundedReceiver<Received>> {
    // The supervisor is trusted not to send without end.
    let (sender, queue) = unbounded_channel();
    let thread = thread::Builder::new().name("orders".to_owned());
    thread.spawn(move || pass_on(&channel, &sender))?;
    Ok(queue)
}

fn pass_on(channel: &Channel, sender: &UnboundedSender<Received>) {
    while let Ok(Some(received)) = next(channel) {
        if sender.send(received).is_err() {
            return;
        }
    }
}

pub(super) fn say(channel: &Channel, answer: &Answer) -> io::Result<()> {
    channel.send(ProcessMessageForm::Json.encode(answer)?.bytes(), &[])
}
