//! The process that speaks to authorities: it has the network and nothing else. It makes the keys
//! of the certificates that it orders, and hands them over; it opens no file but those by which
//! names are looked up.
//!
//! Owns its rights and its channel. What is said to authorities when is `acme`'s.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;

use acme::messages::{AcmeAnswer, AcmeOrder};
use serde::{Deserialize, Serialize};
use sys::channel::Channel;
use sys::sandbox::{restrict_resolver_calls, restrict_to_reading};
use tokio::sync::mpsc::unbounded_channel;

use crate::handover::{Confinement, ProcessMessageForm, Secret, SourceRights};
use crate::messages;
use crate::resolve;
use crate::worker_process::sandbox;

/// The program's first argument when it is to be this process.
pub(crate) const ACME_ARGUMENT: &str = "--acme-process";

pub(crate) const ACME_NAME: &str = "lariat: acme";

/// Bytes of an answer: a chain with its key, or what is known of an order.
pub(crate) const ANSWER_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum AcmeAsk {
    /// The first: give up these rights.
    Enter(Confinement),
    Order(AcmeOrder),
}

#[derive(Debug, Deserialize, Serialize)]
pub(crate) enum AcmeReply {
    /// To `Enter`: it could not be done.
    Stuck(String),
    Answer(AcmeAnswer),
}

/// Orders certificates for the supervisor at the other end of the standard input, until that is
/// gone.
///
/// To be called by the process's first thread before it starts another.
pub(crate) fn run() -> ExitCode {
    messages::end_of_helper(ACME_NAME, serve())
}

fn serve() -> io::Result<()> {
    sandbox::begin(ACME_NAME)?;
    let channel = Arc::new(Channel::from(io::stdin().as_fd().try_clone_to_owned()?));
    let confinement = match next(&channel)? {
        Some(AcmeAsk::Enter(confinement)) => confinement,
        Some(_) => return Err(io::Error::other("the supervisor began with another order")),
        None => return Ok(()),
    };
    let enter_landlock = || restrict_to_reading(&resolve::readable());
    let given_up = sandbox::give_up_by(
        &confinement,
        SourceRights::Any,
        enter_landlock,
        restrict_resolver_calls,
    );
    if let Err(message) = given_up {
        return say(&channel, &AcmeReply::Stuck(message));
    }
    let (sender, orders) = unbounded_channel();
    let (from, to) = (Arc::clone(&channel), channel);
    let listen = move || {
        while let Ok(Some(AcmeAsk::Order(order))) = next(&from) {
            if sender.send(order).is_err() {
                break;
            }
        }
        // Without a supervisor nothing is stored.
        std::process::exit(0)
    };
    thread::Builder::new().name("orders".to_owned()).spawn(listen)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let say = move |answer| drop(say(&to, &AcmeReply::Answer(answer)));
    runtime.block_on(acme::engine::run(orders, say))
}

fn next(channel: &Channel) -> io::Result<Option<AcmeAsk>> {
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(None);
    };
    let bytes = Secret::new(bytes);
    ProcessMessageForm::Json.decode(bytes.bytes()).map(Some)
}

fn say(channel: &Channel, reply: &AcmeReply) -> io::Result<()> {
    channel.send(ProcessMessageForm::Json.encode(reply)?.bytes(), &[])
}
