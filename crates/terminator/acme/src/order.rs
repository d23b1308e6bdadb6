//! Conducts the dialog with an authority: the account, and an order up to its certificate.
//!
//! Handles the order of requests (RFC 8555 section 7), and how long an authority may take.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64ct::{Base64UrlUnpadded, Encoding};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, AuthorizedIdentifier, ChallengeHandle,
    ChallengeStatus, ChallengeType, Error, ExternalAccountKey, Identifier, NewAccount, NewOrder,
    Order, OrderStatus, Problem, RetryPolicy, RevocationReason, RevocationRequest,
};
use rcgen::KeyPair;
use tokio::sync::oneshot;

use crate::certificate;
use crate::http::{AuthorityClient, RequestPlaces};
use crate::messages::{
    AcmeAnswer, Challenge, ChallengeKind, ExternalAccount, Hidden, ServedCertificate,
    WantedCertificate,
};
use crate::stored::{OpenOrder, PlacedOrder, SharedOrder, StoredAccount};

/// How long an authority may take to validate its challenges, and again to issue.
const ORDER_TIME_MAX: Duration = Duration::from_secs(300);

const POLLS: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_secs(1)).timeout(ORDER_TIME_MAX);

/// Problem type of an authority that has forgotten the account.
const ACCOUNT_GONE: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

/// Maximum characters of an authority's text that are kept.
const WORDS_MAX: usize = 500;

/// Failure, whose text continues a sentence that begins with the name of the authority.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct OrderFault {
    pub(crate) why: String,
    /// Time until which the authority asks us to wait, in seconds since the epoch.
    pub(crate) wait_until: Option<u64>,
    /// Whether the authority no longer knows the account.
    is_account_gone: bool,
    /// Whether the authority did not answer, which affects all names.
    pub(crate) is_unanswered: bool,
    /// Whether the failure is this host's: nothing was requested from the authority.
    pub(crate) is_ours: bool,
    /// Whether a certificate was issued that differs from the order.
    pub(crate) was_issued: bool,
}

impl OrderFault {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        let why: String = why.into();
        let line: String =
            why.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
        let why = line.chars().take(WORDS_MAX).collect();
        Self {
            why,
            wait_until: None,
            is_account_gone: false,
            is_unanswered: false,
            is_ours: false,
            was_issued: false,
        }
    }
}

/// Function that sends answers to the supervisor.
pub(crate) type Say = Arc<dyn Fn(AcmeAnswer) + Send + Sync>;

/// Challenges that the supervisor has been asked to put in place.
pub(crate) struct Challenges {
    say: Say,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<(), String>>>>,
}

impl Challenges {
    pub(crate) fn new(say: Say) -> Self {
        // Late answers to a previous process must not be taken for answers to ours.
        let begun = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let next = AtomicU64::new(u64::try_from(begun).unwrap_or(1));
        Self { say, next, waiting: Mutex::default() }
    }

    /// Takes the supervisor's result for a challenge or state.
    pub(crate) fn ended(&self, id: u64, end: Result<(), String>) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        if let Some(waiting) = waiting {
            // After the end of an order nobody waits for its challenges.
            let _ = waiting.send(end);
        }
    }

    fn prepare(self: &Arc<Self>, name: &str, challenge: Challenge) -> PreparedChallenge {
        let (id, ended) = self.ask();
        (self.say)(AcmeAnswer::Prepare { id, name: name.to_owned(), challenge });
        PreparedChallenge { all: Arc::clone(self), id, ended: Some(ended) }
    }

    fn ask(&self) -> (u64, oneshot::Receiver<Result<(), String>>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, ended) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        (id, ended)
    }

    /// Lets a schedule be stored, and waits until it is on the disk, because an order placed before
    /// would be forgotten with the supervisor, and another one placed at each of its starts.
    pub(crate) fn store(
        &self,
        name: String,
        state: String,
    ) -> impl Future<Output = Result<(), OrderFault>> + Send + use<> {
        let (id, ended) = self.ask();
        (self.say)(AcmeAnswer::State { name, state, asks: Some(id) });
        async {
            let failed = |why| OrderFault {
                is_ours: true,
                ..OrderFault::new(format!("nothing is asked of the authority: {why}"))
            };
            answered(ended).await.map_err(failed)
        }
    }
}

async fn answered(ended: oneshot::Receiver<Result<(), String>>) -> Result<(), String> {
    ended.await.unwrap_or_else(|_| Err("this process ends".to_owned()))
}

/// A challenge in place, which is removed when its order ends, in whatever way.
struct PreparedChallenge {
    all: Arc<Challenges>,
    id: u64,
    ended: Option<oneshot::Receiver<Result<(), String>>>,
}

impl PreparedChallenge {
    async fn is_in_place(&mut self) -> Result<(), OrderFault> {
        match self.ended.take() {
            None => Ok(()),
            Some(ended) => answered(ended).await.map_err(OrderFault::new),
        }
    }
}

impl Drop for PreparedChallenge {
    fn drop(&mut self) {
        self.all.ended(self.id, Err(String::new()));
        (self.all.say)(AcmeAnswer::Remove { id: self.id });
    }
}

/// State of an authority's account, shared by all entries that use it.
#[derive(Default)]
pub(crate) struct AccountSlot {
    client: Option<AuthorityClient>,
    places: RequestPlaces,
    /// Roots that the client trusts, which a reload may have changed.
    roots: Vec<String>,
    account: Option<Account>,
    stored: Option<Hidden>,
    /// Time and fault of the last failure to reach the authority.
    unanswered: Option<(Instant, OrderFault)>,
}

/// An account's slot, which one order at a time may lock.
pub(crate) type SharedAccount = Arc<tokio::sync::Mutex<AccountSlot>>;

/// An entry's dialog with its authority.
pub(crate) struct OrderDialog {
    pub(crate) entry: WantedCertificate,
    /// PEM of the host's authorities, for an entry without roots of its own.
    pub(crate) host_roots: Arc<String>,
    pub(crate) slot: SharedAccount,
    pub(crate) challenges: Arc<Challenges>,
    /// The order that was placed and is not over.
    pub(crate) open: SharedOrder,
    /// Takes what is waited for.
    pub(crate) waits: Box<dyn Fn(&str) + Send + Sync>,
}

impl OrderDialog {
    /// Orders a certificate for this kind of key, in place of the one with that identifier.
    pub(crate) async fn order(
        &self,
        kind: &str,
        replaces: Option<&str>,
    ) -> Result<(ServedCertificate, Hidden), OrderFault> {
        let account = self.account().await?;
        let ended = async {
            let (order, key) = match self.open(&account, kind).await? {
                Some(open) => open,
                None => self.begin(&account, kind, replaces).await?,
            };
            self.complete(order, kind, &key).await
        };
        self.ended(ended.await).await
    }

    /// Places an order, and has it remembered.
    async fn begin(
        &self,
        account: &Account,
        kind: &str,
        replaces: Option<&str>,
    ) -> Result<PlacedOrder, OrderFault> {
        let key = certificate::new_key(kind).map_err(OrderFault::new)?;
        let order = match self.place(account, replaces).await {
            // The old certificate is already replaced by another, so the order cannot name it.
            Err(fault) if replaces.is_some() && fault.wait_until.is_none() => {
                self.place(account, None).await?
            }
            placed => placed?,
        };
        // If the disk does not take it, it is lost with this process alone.
        let _ = self.remember(OpenOrder::new(order.url(), kind, &key)).await;
        Ok((order, key))
    }

    /// The order that a process before has placed, if the authority knows it and has not refused
    /// it, and its certificate is not there yet.
    async fn open(&self, account: &Account, key: &str) -> Result<Option<PlacedOrder>, OrderFault> {
        let open = self.open.get().filter(|open| open.kind == key).and_then(|open| {
            let pair = KeyPair::from_pem(&open.key_pem).ok()?;
            let mut served = self.entry.certificates.iter();
            let is_there = served.any(|one| certificate::is_for(&one.chain_pem, &pair));
            (!is_there).then_some((pair, open))
        });
        let Some((pair, mut open)) = open else {
            return Ok(None);
        };
        open.taken_up = open.taken_up.saturating_add(1);
        self.remember(open.clone()).await.map_err(OrderFault::new)?;
        match account.order(open.url).await {
            Ok(mut order) => {
                let is_refused = order.state().status == OrderStatus::Invalid;
                Ok((!is_refused).then_some((order, pair)))
            }
            Err(error @ Error::Other(_)) => Err(of_library(&error)),
            Err(_) => Ok(None),
        }
    }

    /// Lets an order be stored with its key, and waits until it is on the disk.
    async fn remember(&self, open: OpenOrder) -> Result<(), String> {
        let (name, order) = (self.entry.name.clone(), Some(Hidden(open.to_text())));
        self.open.set(Some(open));
        let (id, ended) = self.challenges.ask();
        (self.challenges.say)(AcmeAnswer::Open { name, order, asks: Some(id) });
        answered(ended).await
    }

    /// Returns the window in which the authority wants the certificate with this identifier
    /// renewed, and after how many seconds to ask again; `None` = the authority suggests none.
    pub(crate) async fn suggested(
        &self,
        id: &str,
    ) -> Result<Option<((u64, u64), u64)>, OrderFault> {
        let account = self.account().await?;
        let Some(id) = certificate::identified(id) else {
            return Ok(None);
        };
        match account.renewal_info(&id).await {
            Ok((info, again)) => {
                let seconds = |at: i64| u64::try_from(at).unwrap_or_default();
                let window = info.suggested_window;
                let (from, to) = (window.start.unix_timestamp(), window.end.unix_timestamp());
                Ok(Some(((seconds(from), seconds(to)), again.as_secs())))
            }
            Err(Error::Unsupported(_)) => Ok(None),
            Err(error) => self.ended(Err(of_library(&error))).await,
        }
    }

    /// Revokes a certificate that is served.
    pub(crate) async fn revoke(&self, chain_pem: &str) -> Result<(), OrderFault> {
        let account = self.account().await?;
        let certificate = certificate::leaf(chain_pem);
        let certificate = certificate.ok_or_else(|| OrderFault::new("it cannot be read"))?;
        let request = RevocationRequest {
            certificate: &certificate,
            reason: Some(RevocationReason::Superseded),
        };
        let revoked = match account.revoke(&request).await {
            // RFC 8555 section 7.6: the certificate is revoked already.
            Err(Error::Api(problem)) if is_revoked_already(&problem) => Ok(()),
            revoked => revoked.map_err(|error| of_library(&error)),
        };
        self.ended(revoked).await
    }

    /// Adds how long the authority wants to be left alone; forgets an account that is gone, and
    /// what is known of the directory, which may have changed.
    async fn ended<T>(&self, ended: Result<T, OrderFault>) -> Result<T, OrderFault> {
        let Err(mut fault) = ended else {
            return ended;
        };
        let mut slot = self.slot.lock().await;
        slot.account = None;
        if fault.is_account_gone {
            slot.stored = None;
        }
        fault.wait_until = slot.client.as_ref().and_then(AuthorityClient::take_retry_at);
        Err(fault)
    }

    async fn account(&self) -> Result<Account, OrderFault> {
        let begun = Instant::now();
        let mut slot = self.slot.lock().await;
        if let Some((_, fault)) = slot.unanswered.as_ref().filter(|(at, _)| *at > begun) {
            // After waiting for a failed attempt, another attempt would only repeat the wait.
            return Err(fault.clone());
        }
        let found = self.account_in(&mut slot).await;
        let unanswered = found.as_ref().err().filter(|fault| fault.is_unanswered);
        slot.unanswered = unanswered.map(|fault| (Instant::now(), fault.clone()));
        drop(slot);
        self.ended(found).await
    }

    async fn account_in(&self, slot: &mut AccountSlot) -> Result<Account, OrderFault> {
        let WantedCertificate { directory, roots, contact, external_account, .. } = &self.entry;
        let roots = if roots.is_empty() { std::slice::from_ref(&*self.host_roots) } else { roots };
        if let Some(account) = slot.account.as_ref().filter(|_| slot.roots == roots) {
            return Ok(account.clone());
        }
        // Reset before any await, which may be cancelled: the old account trusts other roots.
        slot.account = None;
        roots.clone_into(&mut slot.roots);
        let client = AuthorityClient::new(directory, roots, slot.places.clone());
        let client = client.map_err(OrderFault::new)?;
        slot.client = Some(client.clone());
        let builder = Account::builder_with_http(Box::new(client));
        let stored = slot.stored.as_ref().or(self.entry.account.as_ref());
        let stored = stored.and_then(|text| StoredAccount::of(directory, &text.0));
        let contacts: Vec<&str> = contact.iter().map(String::as_str).collect();
        let library = |error: Error| of_library(&error);
        let account = match stored {
            Some(stored) => {
                let known = stored.contact == *contact;
                // The library consumes the credentials, and they are needed again below.
                let text = serde_json::to_value(&stored.credentials);
                let account =
                    builder.from_credentials(stored.credentials).await.map_err(library)?;
                if !known {
                    account.update_contacts(&contacts).await.map_err(library)?;
                    let credentials = text.and_then(serde_json::from_value);
                    self.keep(slot, credentials.map_err(|error| of_library(&error.into()))?);
                }
                account
            }
            None => {
                let external = external_account.as_ref().map(external_key).transpose()?;
                let new = NewAccount {
                    contact: &contacts,
                    terms_of_service_agreed: true,
                    only_return_existing: false,
                };
                let made = builder.create(&new, directory.clone(), external.as_ref());
                let (account, credentials) = made.await.map_err(library)?;
                self.keep(slot, credentials);
                account
            }
        };
        slot.account = Some(account.clone());
        Ok(account)
    }

    /// Lets the supervisor store an account before it is used.
    fn keep(&self, slot: &mut AccountSlot, credentials: AccountCredentials) {
        let stored = StoredAccount { credentials, contact: self.entry.contact.clone() };
        let account = Hidden(serde_json::to_string(&stored).expect("it has names as keys"));
        let directory = self.entry.directory.clone();
        (self.challenges.say)(AcmeAnswer::Account { directory, account: account.clone() });
        slot.stored = Some(account);
    }

    async fn place(&self, account: &Account, replaces: Option<&str>) -> Result<Order, OrderFault> {
        let identifiers: Vec<_> = self.entry.domains.iter().map(|one| identifier(one)).collect();
        let mut new = NewOrder::new(&identifiers);
        if let Some(profile) = &self.entry.profile {
            new = new.profile(profile);
        }
        if let Some(replaced) = replaces.and_then(certificate::identified) {
            new = new.replaces(replaced);
        }
        account.new_order(&new).await.map_err(|error| of_library(&error))
    }

    async fn complete(
        &self,
        mut order: Order,
        kind: &str,
        key: &KeyPair,
    ) -> Result<(ServedCertificate, Hidden), OrderFault> {
        let library = |error: Error| of_library(&error);
        if order.state().status == OrderStatus::Pending {
            self.authorize(&mut order).await?;
        }
        if order.state().status == OrderStatus::Ready {
            let request = certificate::request(&self.entry.domains, key);
            order.finalize_csr(&request.map_err(OrderFault::new)?).await.map_err(library)?;
        }
        (self.waits)("the authority to issue the certificate");
        let chain = order.poll_certificate(&POLLS).await.map_err(library)?;
        let served = certificate::checked(&chain, kind, key, &self.entry.domains, now_s());
        let unfit = |why| OrderFault { was_issued: true, ..OrderFault::new(why) };
        Ok((served.map_err(unfit)?, Hidden(key.serialize_pem())))
    }

    /// Answers the authority's challenges, until the order is ready.
    async fn authorize(&self, order: &mut Order) -> Result<(), OrderFault> {
        let library = |error: Error| of_library(&error);
        if order.state().authorizations.len() > self.entry.domains.len() {
            return Err(OrderFault::new("it wants more authorizations than there are names"));
        }
        let mut prepared = self.prepare(order).await?;
        (self.waits)(self.entry.challenge.preparation());
        for challenge in &mut prepared {
            challenge.is_in_place().await?;
        }
        let names = self.entry.domains.join(", ");
        (self.waits)(&format!("the authority's validation of {names}"));
        let wanted = challenge_type(self.entry.challenge);
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(library)?;
            if authorization.status == AuthorizationStatus::Pending
                && let Some(mut challenge) = authorization.challenge(wanted.clone())
                && challenge.status == ChallengeStatus::Pending
            {
                challenge.set_ready().await.map_err(library)?;
            }
        }
        let ready = order.poll_ready(&POLLS).await;
        if !matches!(ready, Ok(OrderStatus::Ready)) {
            let found = refused(order).await;
            return Err(found.unwrap_or_else(|| match ready {
                Err(error) => of_library(&error),
                Ok(_) => OrderFault::new("it has refused the order and does not say why"),
            }));
        }
        Ok(())
    }

    /// Asks the supervisor to put all challenges in place.
    async fn prepare(&self, order: &mut Order) -> Result<Vec<PreparedChallenge>, OrderFault> {
        let wanted = challenge_type(self.entry.challenge);
        let mut prepared = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| of_library(&error))?;
            match authorization.status {
                AuthorizationStatus::Valid => continue,
                AuthorizationStatus::Pending => {}
                status => {
                    let name = authorization.identifier();
                    let why = format!("its authorization for {name} is {status:?}");
                    return Err(OrderFault::new(why));
                }
            }
            let offered = authorization.challenges.iter().map(|one| kind_name(&one.r#type));
            let offered = offered.collect::<Vec<_>>().join(", ");
            let name = authorization.identifier().to_string();
            if !self.entry.domains.contains(&name) {
                return Err(OrderFault::new(format!("it wants an authorization for {name}")));
            }
            let Some(challenge) = authorization.challenge(wanted.clone()) else {
                let wanted = kind_name(&wanted);
                let why = format!("it offers no {wanted} for {name}, but {offered}");
                return Err(OrderFault::new(why));
            };
            let challenge = what_is_asked(&challenge);
            prepared.push(self.challenges.prepare(&self.entry.name, challenge));
        }
        Ok(prepared)
    }
}

fn what_is_asked(challenge: &ChallengeHandle<'_>) -> Challenge {
    let authorization = challenge.key_authorization();
    let AuthorizedIdentifier { identifier, .. } = challenge.identifier();
    let domain = match identifier {
        Identifier::Ip(address) => address.to_string(),
        Identifier::Dns(name) => name.clone(),
        other => format!("{other:?}"),
    };
    match challenge.r#type {
        ChallengeType::TlsAlpn01 => {
            let mut digest = [0; 32];
            digest.copy_from_slice(authorization.digest().as_ref());
            Challenge::TlsAlpn { identifier: domain, digest }
        }
        ChallengeType::Dns01 => Challenge::Dns {
            record: format!("_acme-challenge.{domain}"),
            domain,
            value: authorization.dns_value(),
        },
        _ => Challenge::Http {
            token: challenge.token.clone(),
            key_authorization: authorization.as_str().to_owned(),
        },
    }
}

/// Returns why an authority has refused an order: the reason of the first challenge with one.
async fn refused(order: &mut Order) -> Option<OrderFault> {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if authorization.refresh().await.is_err() {
            return None;
        }
        let name = authorization.identifier().to_string();
        let problem = authorization.challenges.iter().find_map(|one| one.error.as_ref());
        if let Some(problem) = problem {
            return Some(OrderFault::new(format!("{name}: {problem}")));
        }
    }
    None
}

fn identifier(domain: &str) -> Identifier {
    let address = domain.parse().map(Identifier::Ip);
    address.unwrap_or_else(|_| Identifier::Dns(domain.to_owned()))
}

fn challenge_type(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::TlsAlpn => ChallengeType::TlsAlpn01,
        ChallengeKind::Http => ChallengeType::Http01,
        ChallengeKind::Dns => ChallengeType::Dns01,
    }
}

fn kind_name(kind: &ChallengeType) -> String {
    match kind {
        ChallengeType::TlsAlpn01 => "tls-alpn-01".to_owned(),
        ChallengeType::Http01 => "http-01".to_owned(),
        ChallengeType::Dns01 => "dns-01".to_owned(),
        ChallengeType::Unknown(name) => name.clone(),
        other => format!("{other:?}"),
    }
}

fn external_key(external: &ExternalAccount) -> Result<ExternalAccountKey, OrderFault> {
    let text = external.key.0.trim_end_matches('=');
    let key = Base64UrlUnpadded::decode_vec(text);
    let key = key.map_err(|_| OrderFault::new("the key of `eab` is not in base64url"))?;
    Ok(ExternalAccountKey::new(external.key_id.clone(), &key))
}

fn of_library(error: &Error) -> OrderFault {
    let is_account_gone =
        matches!(error, Error::Api(problem) if problem.r#type.as_deref() == Some(ACCOUNT_GONE));
    let why = match error {
        Error::Api(problem) => problem.to_string(),
        Error::Json(error) => format!("it answers with something that is no ACME: {error}"),
        Error::Timeout(_) => {
            let minutes = ORDER_TIME_MAX.as_secs() / 60;
            format!("its order is not ready after {minutes} minutes")
        }
        Error::Other(error) => with_sources(&**error),
        other => other.to_string(),
    };
    let is_unanswered = matches!(error, Error::Other(_));
    OrderFault { is_account_gone, is_unanswered, ..OrderFault::new(why) }
}

fn with_sources(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(deeper) = source {
        let words = deeper.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = deeper.source();
    }
    text
}

pub(crate) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn is_revoked_already(problem: &Problem) -> bool {
    problem.r#type.as_deref() == Some("urn:ietf:params:acme:error:alreadyRevoked")
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_authority_that_cannot_be_asked_is_asked_once_for_all_that_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap();
        let entry = WantedCertificate {
            name: String::new(),
            domains: Vec::new(),
            contact: Vec::new(),
            directory: format!("https://{authority}/directory"),
            roots: vec![rcgen::generate_simple_self_signed([]).unwrap().cert.pem()],
            profile: None,
            keys: Vec::new(),
            challenge: ChallengeKind::Http,
            external_account: None,
            account: None,
            certificates: Vec::new(),
            state: None,
            open: None,
        };
        let dialog = OrderDialog {
            entry,
            host_roots: Arc::default(),
            slot: SharedAccount::default(),
            challenges: Arc::new(Challenges::new(Arc::new(|_| {}))),
            open: SharedOrder::default(),
            waits: Box::new(|_| {}),
        };
        let mut connections = 0;
        let hang_up = async {
            loop {
                drop(listener.accept().await.unwrap());
                connections += 1;
            }
        };
        let ask = || async { dialog.account().await.err().unwrap() };
        let all = async { tokio::join!(ask(), ask(), ask()) };
        let (one, two, three) = tokio::select! {
            faults = all => faults,
            () = hang_up => unreachable!("it goes on"),
        };
        assert_eq!((&two, &three), (&one, &one));
        assert!(one.is_unanswered, "{one:?}");
        assert_eq!(connections, 1);
        // A later caller asks anew.
        tokio::join!(ask(), async { drop(listener.accept().await.unwrap()) });
    }
}
