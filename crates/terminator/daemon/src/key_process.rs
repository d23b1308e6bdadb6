//! The process that holds private keys: it faces no network, and signs for worker threads what TLS
//! has a key sign, and nothing else.
//!
//! Owns its rights, the keys, and a thread for each channel, so that no thread of the worker
//! process waits for another's signature. It ends with the last of its channels, once no supervisor
//! speaks to it: after an upgrade the worker process before needs it still.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sys::channel::Channel;
use sys::sandbox::{SystemCalls, restrict_connecting, restrict_files, restrict_system_calls};
use sys::{packet, process};
use tls::signing::{HeldKey, KeyId, SigningRoles};

use crate::handover::{Fences, ProcessMessageForm, Secret, Sources, decode};
use crate::held_keys::{
    ANSWER_BYTES_MAX, KeyAsk, KeyOrigin, KeyReply, KeyToHold, REQUEST_BYTES_MAX, SignatureRequest,
    SignatureStatus,
};
use crate::messages;
use crate::worker_process::sandbox;

/// The program's first argument when it is to be this process.
pub(crate) const KEYS_ARGUMENT: &str = "--key-process";

pub(crate) const KEYS_NAME: &str = "lariat: keys";

/// Signs for the worker process until nobody is left who asks.
///
/// To be called by the process's first thread before it starts another.
pub(crate) fn run() -> ExitCode {
    messages::end_of_helper(KEYS_NAME, serve())
}

struct OpenKey {
    roles: SigningRoles,
    key: SigningHand,
}

enum SigningHand {
    Own(HeldKey),
}

type OpenKeys = HashMap<KeyId, OpenKey>;

fn serve() -> io::Result<()> {
    sandbox::ignore_signals()?;
    process::set_name(KEYS_NAME)?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((KeyAsk::Enter(fences), _)) = next(&channel)? else {
        return Ok(());
    };
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(());
    };
    let bytes = Secret::new(bytes);
    let keys: Vec<KeyToHold> = decode(bytes.bytes()).map_err(io::Error::other)?;
    drop(bytes);
    if let Err(message) = give_up(&fences) {
        return say(&channel, &KeyReply::Stuck(message));
    }
    let keys = match open(keys) {
        Ok(keys) => Arc::new(keys),
        Err(why) => return say(&channel, &KeyReply::Failed(why)),
    };
    say(&channel, &KeyReply::Opened)?;
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    while let Ok(Some((KeyAsk::Serve, fds))) = next(&channel) {
        threads.retain(|one| !one.is_finished());
        for end in fds {
            let keys = Arc::clone(&keys);
            let thread = thread::Builder::new().name("signer".to_owned());
            threads.push(thread.spawn(move || sign_all(&end, &keys))?);
        }
    }
    // The worker process may outlive the program that has started us.
    threads.into_iter().for_each(|one| drop(one.join()));
    Ok(())
}

/// A process that holds keys of files alone needs nothing but memory and its channels.
fn give_up(fences: &Fences) -> Result<(), String> {
    let calls =
        SystemCalls { open_files: false, fast_open: false, bind: false, network: false };
    let enter_landlock = || {
        restrict_connecting([])?;
        restrict_files(&[], false, false)
    };
    let system_calls = || restrict_system_calls(calls);
    sandbox::give_up_by(fences, Sources::Any, enter_landlock, system_calls).map(drop)
}

/// An error is a sentence with its hint.
fn open(keys: Vec<KeyToHold>) -> Result<OpenKeys, String> {
    let mut open = OpenKeys::new();
    for one in keys {
        let roles = one.signing_roles();
        let key = match &one.origin {
            KeyOrigin::File(der) => {
                let key = HeldKey::read(der.bytes());
                SigningHand::Own(key.ok_or_else(|| format!("{}: its key is damaged", one.place))?)
            }
        };
        open.insert(one.id, OpenKey { roles, key });
    }
    Ok(open)
}

/// Answers one worker thread until it is gone.
fn sign_all(end: &OwnedFd, keys: &OpenKeys) {
    let mut room = vec![0; REQUEST_BYTES_MAX + 1];
    let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
    SignatureStatus::Begun.write(0, &[], &mut answer);
    let mut sent = packet::send_now(end, &answer);
    while let (Ok(()), Ok(Some(length))) = (sent, packet::receive(end, &mut room)) {
        let Some(request) = room.get(..length).and_then(SignatureRequest::read) else {
            return;
        };
        let (status, signature) = sign(&request, keys);
        status.write(request.number, &signature, &mut answer);
        sent = packet::send_now(end, &answer);
    }
}

fn sign(request: &SignatureRequest<'_>, keys: &OpenKeys) -> (SignatureStatus, Vec<u8>) {
    let Some(open) = keys.get(&request.key) else {
        return (SignatureStatus::Unknown, Vec::new());
    };
    if !open.roles.allow(request.message) {
        return (SignatureStatus::Refused, Vec::new());
    }
    let signature = match &open.key {
        SigningHand::Own(key) => key.sign(request.scheme, request.message),
    };
    match signature {
        Some(signature) => (SignatureStatus::Signed, signature),
        None => (SignatureStatus::Failed, Vec::new()),
    }
}

fn next(channel: &Channel) -> io::Result<Option<(KeyAsk, Vec<OwnedFd>)>> {
    let Some((bytes, fds)) = channel.receive()? else {
        return Ok(None);
    };
    let ask = ProcessMessageForm::Postcard.decode(&bytes)?;
    Ok(Some((ask, fds)))
}

fn say(channel: &Channel, reply: &KeyReply) -> io::Result<()> {
    channel.send(ProcessMessageForm::Postcard.encode(reply)?.bytes(), &[])
}
