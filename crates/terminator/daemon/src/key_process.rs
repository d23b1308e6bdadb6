//! The process that holds private keys: it faces no network, and signs for worker threads what TLS
//! has a key sign, and nothing else.
//!
//! Owns its rights, the keys, and a thread for each channel, so that no thread of the worker
//! process waits for another's signature. It ends with the last of its channels, once no supervisor
//! speaks to it: after an upgrade the worker process before needs it still.

mod token;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use config::Settings;
use sys::channel::{self, Channel};
use sys::sandbox::{
    Enforcement, SystemCalls, restrict_connecting, restrict_files, restrict_resolver_calls,
    restrict_system_calls,
};
use sys::{packet, process};
use tls::key_holder::KeyId;
use tls::signing::{self, HeldKey, SigningRoles};
use wire::pkcs11_uri::Pkcs11Uri;

use crate::handover::{Confinement, ProcessMessageForm, Secret, SourceRights, WorkerUser, decode};
use crate::held_keys::{
    ANSWER_BYTES_MAX, KeyAsk, KeyGroup, KeyOrigin, KeyReply, KeyToHold, REPLY_BYTES_MAX,
    REQUEST_BYTES_MAX, SignatureRequest, SignatureStatus, UnopenedKey,
};
use crate::messages;
use crate::worker_process::sandbox;

use token::{Modules, OpenTokenKey, TokenFault};

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
    Token(OpenTokenKey),
    /// It could not be opened.
    Closed,
}

type OpenKeys = HashMap<KeyId, OpenKey>;

fn serve() -> io::Result<()> {
    sandbox::begin(KEYS_NAME)?;
    let channel = Channel::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((KeyAsk::Enter(confinement), _)) = next(&channel)? else {
        return Ok(());
    };
    let Some((bytes, _)) = channel.receive()? else {
        return Ok(());
    };
    let bytes = Secret::new(bytes);
    let keys: Vec<KeyToHold> = decode(bytes.bytes()).map_err(io::Error::other)?;
    drop(bytes);
    let has_tokens = keys.iter().any(KeyToHold::is_in_token);
    let given_up =
        if has_tokens { give_up_for_tokens(&confinement) } else { give_up(&confinement) };
    if let Err(message) = given_up {
        return say(&channel, &KeyReply::Stuck(message));
    }
    let watch = Arc::new(CallWatch { begun: Instant::now(), calls: Mutex::default() });
    if has_tokens {
        let watch = Arc::clone(&watch);
        thread::Builder::new().name("watch".to_owned()).spawn(move || watch.end_if_stuck())?;
    }
    let (keys, unopened) = watch.call(|| open(keys));
    let keys = Arc::new(keys);
    say(&channel, &KeyReply::Opened(unopened))?;
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    // Without its channels it is of no use, and the next process gets them all.
    while let Some((ask, fds)) = next(&channel)? {
        match ask {
            KeyAsk::Enter(_) => break,
            KeyAsk::AreYouWell => say(&channel, &KeyReply::Well)?,
            KeyAsk::Serve => threads.retain(|one| !one.is_finished()),
        }
        for end in fds {
            let (keys, watch) = (Arc::clone(&keys), Arc::clone(&watch));
            let thread = thread::Builder::new().name("signer".to_owned());
            threads.push(thread.spawn(move || sign_all(&end, &keys, &watch))?);
        }
    }
    // The worker process may outlive the program that has started us.
    threads.into_iter().for_each(|one| drop(one.join()));
    Ok(())
}

/// A process that holds keys of files alone needs nothing but memory and its channels.
fn give_up(confinement: &Confinement) -> Result<(), String> {
    let calls = SystemCalls { open_files: false, fast_open: false, bind: false, network: false };
    let enter_landlock = || {
        restrict_connecting([])?;
        restrict_files(&[], false, false)
    };
    let system_calls = || restrict_system_calls(calls);
    sandbox::give_up_by(confinement, SourceRights::Any, enter_landlock, system_calls).map(drop)
}

/// The library of a token needs what its maker chose: files, sockets of a daemon, a network. It
/// keeps those rights of its user, but starts no program and serves nobody.
fn give_up_for_tokens(confinement: &Confinement) -> Result<(), String> {
    let enter_landlock = || Ok(Enforcement::NotSupported);
    sandbox::give_up_by(confinement, SourceRights::Any, enter_landlock, restrict_resolver_calls)
        .map(drop)
}

/// A call of a token's library that takes longer hangs: those behind networks take tens of
/// milliseconds, and a worker thread waits for a second. Less than a step of the reader has
/// (10 s), so that this is what is said.
const CALL_TIME_MAX: Duration = Duration::from_secs(8);

/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The calls of libraries that are under way. One that hangs cannot be ended but with the process,
/// and the next process may find the token well.
struct CallWatch {
    begun: Instant,
    /// When each call began, in milliseconds since then; 0 = none is under way.
    calls: Mutex<Vec<Arc<AtomicU64>>>,
}

impl CallWatch {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// A place for a thread's calls.
    fn place(&self) -> Arc<AtomicU64> {
        let place = Arc::default();
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        // Of threads that are gone.
        calls.retain(|one| Arc::strong_count(one) > 1);
        calls.push(Arc::clone(&place));
        place
    }

    fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        let place = self.place();
        place.store(self.now_ms(), Ordering::Relaxed);
        let done = call();
        place.store(0, Ordering::Relaxed);
        done
    }

    fn end_if_stuck(&self) {
        loop {
            thread::sleep(LOOK_INTERVAL);
            let now = self.now_ms();
            let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            let oldest = calls.iter().map(|one| one.load(Ordering::Relaxed)).filter(|one| *one > 0);
            let waited = Duration::from_millis(oldest.min().map_or(0, |at| now.saturating_sub(at)));
            if waited > CALL_TIME_MAX {
                let time = CALL_TIME_MAX.as_secs();
                end(&format!("a token's library has not answered in {time} s"));
            }
        }
    }
}

/// Ends the process, so that the supervisor starts another.
fn end(why: &str) -> ! {
    messages::end_of_helper(KEYS_NAME, Err(io::Error::other(why)));
    std::process::exit(1)
}

/// The rights that a trial gives up: those of the process that will hold the keys.
pub(crate) fn fences_of_trial(settings: &Settings, become_user: Option<WorkerUser>) -> Confinement {
    Confinement::of(&settings.process, become_user)
}

/// A trial may take so long; its watch ends it before.
const TRIAL_TIME_MAX: Duration = Duration::from_secs(9);

/// Opens the keys of each token in a process of its own, which ends then: its library may crash or
/// hang. All do so at once, so that many that hang take no longer than one. Some libraries fail
/// where another process uses the same tokens, so who says that keys do not open is asked again
/// alone, unless a PIN was refused. Keys of files need no trial. Those that do not open, the keys
/// that must before others.
pub(crate) fn try_out(
    groups: &[KeyGroup],
    confinement: &Confinement,
    mut announce: impl FnMut(&str),
) -> Vec<UnopenedKey> {
    let tokens: Vec<_> = groups.iter().filter(|group| group.is_of_token()).collect();
    if !tokens.is_empty() {
        let names: Vec<_> = tokens.iter().map(|group| &group.name[..]).collect();
        announce(&names.join(", "));
    }
    let tried: Vec<_> = thread::scope(|scope| {
        let mut trials = Vec::with_capacity(tokens.len());
        for group in tokens {
            trials.push((group, scope.spawn(move || trial(group, confinement))));
        }
        let ends = trials.into_iter();
        ends.map(|(group, end)| (group, end.join().expect("a trial does not panic"))).collect()
    });
    let is_alone = tried.len() < 2;
    let all = tried.into_iter().flat_map(|(group, (unopened, has_answered))| {
        let is_refused = unopened.iter().any(|one| one.is_pin_refused);
        if unopened.is_empty() || !has_answered || is_refused || is_alone {
            return unopened;
        }
        announce(&group.name);
        trial(group, confinement).0
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|one| one.is_optional);
    all
}

/// The keys of the token that do not open, and whether its process has said so itself.
fn trial(group: &KeyGroup, confinement: &Confinement) -> (Vec<UnopenedKey>, bool) {
    let failed = |why: &str| {
        let why = format!(
            "the process that opens keys in tokens {why}\n\
             hint: try the library with `pkcs11-tool --module MODULE --list-slots`"
        );
        (group.none_opens(&why), false)
    };
    match try_group(group, confinement) {
        Ok(Some(KeyReply::Opened(unopened))) => (unopened, true),
        Ok(Some(KeyReply::Stuck(why))) => (group.none_opens(&why), false),
        Ok(Some(KeyReply::Well)) => failed("says what it was not asked"),
        Ok(None) => failed("died, or its token's library has not answered"),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => failed("does not answer"),
        Err(error) => failed(&format!("cannot be heard: {error}")),
    }
}

fn try_group(group: &KeyGroup, confinement: &Confinement) -> io::Result<Option<KeyReply>> {
    let (channel, theirs) = channel::pair()?;
    let channel = channel.with_send_timeout(TRIAL_TIME_MAX);
    channel.set_receive_timeout(TRIAL_TIME_MAX)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(KEYS_NAME).arg(KEYS_ARGUMENT).envs([messages::form_variable()]);
    command.stdin(Stdio::from(theirs)).stdout(Stdio::null());
    let mut process = process::end_child_with_us(&mut command).spawn()?;
    drop(command);
    let ask = ProcessMessageForm::Postcard.encode(&KeyAsk::Enter(confinement.clone()))?;
    // The words of one that has died are still heard.
    let _ = channel.send(ask.bytes(), &[]).and_then(|()| channel.send(group.packed.bytes(), &[]));
    let said = channel.receive_up_to(REPLY_BYTES_MAX, 0);
    let _ = process.kill();
    let _ = process.wait();
    said?.map(|(bytes, _)| ProcessMessageForm::Postcard.decode(&bytes)).transpose()
}

/// The keys, and those of them that cannot be opened.
fn open(keys: Vec<KeyToHold>) -> (OpenKeys, Vec<UnopenedKey>) {
    let (mut open, mut unopened) = (OpenKeys::new(), Vec::new());
    let mut modules = Modules::default();
    for one in keys {
        modules.has_refused_pin = false;
        let key = open_one(&one, &mut modules).unwrap_or_else(|why| {
            unopened.push(UnopenedKey {
                place: one.place.clone(),
                why,
                is_pin_refused: modules.has_refused_pin,
                waits_for_reload: modules.has_refused_pin || !one.has_pin(),
                is_optional: one.is_optional,
            });
            SigningHand::Closed
        });
        open.insert(one.id, OpenKey { roles: one.signing_roles(), key });
    }
    (open, unopened)
}

/// An error is a sentence with its hint.
fn open_one(one: &KeyToHold, modules: &mut Modules) -> Result<SigningHand, String> {
    match &one.origin {
        KeyOrigin::File(der) => {
            let key = HeldKey::read(der.bytes());
            key.map(SigningHand::Own).ok_or_else(|| format!("{}: its key is damaged", one.place))
        }
        KeyOrigin::Token { uri, pin, public_key } => {
            let pin = pin.as_ref().map_err(Clone::clone)?;
            let pin = pin.as_ref().map(|pin| String::from_utf8_lossy(pin.bytes()));
            let opened = open_in_token(modules, uri, pin.as_deref(), public_key);
            let of = |why: String| format!("the key of {} in a token: {why}", one.place);
            opened.map(SigningHand::Token).map_err(of)
        }
    }
}

/// A key that has signed what the certificate's public half verifies.
fn open_in_token(
    modules: &mut Modules,
    uri: &str,
    pin: Option<&str>,
    public_key: &[u8],
) -> Result<OpenTokenKey, String> {
    let uri = Pkcs11Uri::parse(uri).map_err(|fault| format!("its URI {fault}"))?;
    let key = modules.open(&uri, pin)?;
    let scheme = signing::trial_scheme(public_key).ok_or("its certificate has no key of TLS")?;
    match key.sign(scheme, &signing::trial()) {
        Ok(signature) if signing::verifies(public_key, scheme, &signing::trial(), &signature) => {
            Ok(key)
        }
        Ok(_) => Err("it is not the certificate's: what it signs does not verify\n\
                      hint: compare the certificate's public key with that in the token"
            .to_owned()),
        Err(TokenFault::Unfit) => Err("it cannot sign as the certificate's kind of key does\n\
                                       hint: see its kind, and whether it may sign (CKA_SIGN)"
            .to_owned()),
        Err(TokenFault::Lost(why)) => Err(format!("it gives no signature: {why}")),
    }
}

/// Answers one worker thread until it is gone.
fn sign_all(end: &OwnedFd, keys: &OpenKeys, watch: &CallWatch) {
    let place = watch.place();
    let mut room = vec![0; REQUEST_BYTES_MAX + 1];
    let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
    SignatureStatus::Begun.write(0, &[], &mut answer);
    let mut sent = packet::send_now(end, &answer);
    while let (Ok(()), Ok(Some(length))) = (sent, packet::receive(end, &mut room)) {
        let Some(request) = room.get(..length).and_then(SignatureRequest::read) else {
            return;
        };
        place.store(watch.now_ms(), Ordering::Relaxed);
        let (status, signature) = sign(&request, keys);
        place.store(0, Ordering::Relaxed);
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
        SigningHand::Token(key) => match key.sign(request.scheme, request.message) {
            Ok(signature) => Some(signature),
            Err(TokenFault::Unfit) => None,
            // Another process logs in anew.
            Err(TokenFault::Lost(why)) => end(&format!("a token is lost: {why}")),
        },
        SigningHand::Closed => return (SignatureStatus::Unopened, Vec::new()),
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
