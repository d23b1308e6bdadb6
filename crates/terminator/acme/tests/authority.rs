//! Tests the engine against an authority that fails in various ways: the engine reports the
//! failure, keeps what it must remember, and removes its challenges.
#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use acme::engine;
use acme::messages::{
    AcmeAnswer, AcmeOrder, ChallengeKind, EntryStatus, Hidden, WantedCertificate,
};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedKey, IsCa, Issuer, KeyPair,
    generate_simple_self_signed,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Deadline of a test; an order to an authority that answers ends within seconds.
const PATIENCE: Duration = Duration::from_secs(50);

/// Function that answers a path in place of the right answer.
type Fault = fn(path: &str, base: &str) -> Option<String>;

/// An authority on loopback that speaks RFC 8555 except for its fault, and accepts every challenge.
/// An authority whose certificates are for a key of its own.
struct FaultyAuthority {
    base: String,
    root_pem: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FaultyAuthority {
    async fn start(fault: Fault) -> Self {
        Self::with(generate_simple_self_signed(names()).unwrap(), fault).await
    }

    /// Starts an authority with this certificate, which is also its root.
    async fn with(own: CertifiedKey<KeyPair>, fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("https://{}", listener.local_addr().unwrap());
        let CertifiedKey { cert, signing_key } = own;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let authority = Self { base, root_pem: cert.pem(), requests };
        let (base, chain) = (authority.base.clone(), authority.root_pem.clone());
        let requests = Arc::clone(&authority.requests);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, base, chain) = (acceptor.clone(), base.clone(), chain.clone());
                let requests = Arc::clone(&requests);
                tokio::spawn(async move {
                    // A client's disconnect is no failure of the test authority.
                    let _ = serve(stream, &acceptor, &base, &chain, fault, &requests).await;
                });
            }
        });
        authority
    }

    fn requests(&self, path: &str) -> usize {
        self.requests.lock().unwrap().iter().filter(|one| *one == path).count()
    }
}

/// Answers one request.
async fn serve(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    base: &str,
    chain: &str,
    fault: Fault,
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    let (mut line, mut length) = (String::new(), 0);
    stream.read_line(&mut line).await?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    while line != "\r\n" && !line.is_empty() {
        line.clear();
        stream.read_line(&mut line).await?;
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).await?;
    let is_final = {
        let mut requests = requests.lock().unwrap();
        requests.push(path.clone());
        let last = |path: &str| requests.iter().rposition(|one| one == path);
        last("/finalize") > last("/orders")
    };
    let right = || right(&path, base, chain, is_final);
    let answer = fault(&path, base).unwrap_or_else(right);
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

fn right(path: &str, base: &str, chain: &str, is_final: bool) -> String {
    let url = |path: &str| format!("{base}/{path}");
    let order = |status: &str| {
        json!({
            "status": status, "identifiers": [{"type": "dns", "value": "a.example"}],
            "authorizations": [url("authorization")], "finalize": url("finalize"),
            "certificate": url("certificate"),
        })
    };
    let made = |path: &str| format!("Location: {}\r\n", url(path));
    let challenge = json!({
        "type": "dns-01", "url": url("challenge"), "token": "token", "status": "pending",
    });
    match path {
        "/directory" => found(&json!({
            "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("orders"),
        })),
        "/account" => answer("201 Created", &made("account/1"), JSON, r#"{"status": "valid"}"#),
        "/orders" => answer("201 Created", &made("order"), JSON, &order("pending").to_string()),
        "/authorization" => found(&json!({
            "identifier": {"type": "dns", "value": "a.example"}, "status": "pending",
            "challenges": [challenge],
        })),
        "/challenge" => found(&challenge),
        "/finalize" => found(&order("processing")),
        "/order" => found(&order(if is_final { "valid" } else { "ready" })),
        "/certificate" => answer("200 OK", "", "application/pem-certificate-chain", chain),
        _ => answer("200 OK", "", JSON, ""),
    }
}

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";

fn answer(status: &str, fields: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nReplay-Nonce: bm9uY2U\r\nConnection: close\r\n{fields}\
         Content-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn found(body: &Value) -> String {
    answer("200 OK", "", JSON, &body.to_string())
}

fn problem(status: &str, fields: &str, kind: &str, detail: &str) -> String {
    let kind = format!("urn:ietf:params:acme:error:{kind}");
    let body = json!({"type": kind, "detail": detail}).to_string();
    answer(status, fields, PROBLEM, &body)
}

fn order(status: &str, fields: &str) -> String {
    let body = json!({"status": status, "authorizations": [], "finalize": "https://c.example/f"});
    answer("200 OK", fields, JSON, &body.to_string())
}

fn wanted(authority: &FaultyAuthority, state: Option<String>) -> WantedCertificate {
    WantedCertificate {
        name: authority.base.clone(),
        domains: vec!["a.example".to_owned()],
        contact: Vec::new(),
        directory: format!("{}/directory", authority.base),
        roots: vec![authority.root_pem.clone()],
        profile: None,
        keys: vec!["ecdsa-p256".to_owned()],
        challenge: ChallengeKind::Dns,
        external_account: None,
        account: None,
        certificates: Vec::new(),
        state,
        open: None,
    }
}

/// State at the end of an engine's run: the first status that `is_end`, the last state, and the
/// number of hanging challenges.
struct EngineEnd {
    status: EntryStatus,
    state: String,
    /// The order that is not over.
    open: Option<Hidden>,
    hang: usize,
}

/// Prefix of names of entries whose challenges hang.
const HANGS: &str = "hangs";

/// Runs an engine until it reports a status that `is_end`; no challenge may be left in place.
async fn run_until(
    entries: Vec<WantedCertificate>,
    orders_too: &[AcmeOrder],
    is_end: impl Fn(&EntryStatus) -> bool,
) -> EngineEnd {
    let (orders, obeyed) = unbounded_channel();
    let (say, mut answers) = unbounded_channel();
    orders.send(AcmeOrder::Follow { entries, host_roots: String::new() }).unwrap();
    orders_too.iter().for_each(|one| orders.send(one.clone()).unwrap());
    let say: UnboundedSender<AcmeAnswer> = say;
    let engine = engine::run(obeyed, move |answer| {
        // The test may have ended by then.
        let _ = say.send(answer);
    });
    let supervisor = async move {
        let (mut in_place, mut states, mut hang) = (BTreeSet::new(), Vec::new(), 0);
        let mut open = None;
        loop {
            match answers.recv().await.expect("the engine runs") {
                AcmeAnswer::Prepare { name, .. } if name.starts_with(HANGS) => hang += 1,
                AcmeAnswer::Prepare { id, .. } => {
                    in_place.insert(id);
                    orders.send(AcmeOrder::Done { id }).unwrap();
                }
                AcmeAnswer::Remove { id } => assert!(in_place.remove(&id)),
                AcmeAnswer::State { state, asks, .. } => {
                    states.push(state);
                    if let Some(id) = asks {
                        orders.send(AcmeOrder::Done { id }).unwrap();
                    }
                }
                AcmeAnswer::Open { order, asks, .. } => {
                    open = order;
                    if let Some(id) = asks {
                        orders.send(AcmeOrder::Done { id }).unwrap();
                    }
                }
                AcmeAnswer::Status(status) if status.stage != "waiting" => {
                    assert_eq!(status.next, None, "{status:?}");
                }
                AcmeAnswer::Status(status) if is_end(&status) => {
                    assert!(in_place.is_empty(), "{status:?} leaves challenges");
                    let state = states.pop().unwrap_or_default();
                    return EngineEnd { status, state, open, hang };
                }
                AcmeAnswer::Issued { chain_pem, .. } => panic!("took {chain_pem}"),
                AcmeAnswer::Account { .. } | AcmeAnswer::Status(_) => {}
            }
        }
    };
    let both = async { tokio::join!(engine, supervisor) };
    let (ended, end) = timeout(PATIENCE, both).await.expect("an end of the order");
    ended.expect("the engine ends without orders");
    end
}

fn names() -> Vec<String> {
    vec!["127.0.0.1".to_owned(), "a.example".to_owned()]
}

fn has_failed(status: &EntryStatus) -> bool {
    status.stage == "waiting" && status.last_failure.is_some()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[tokio::test]
async fn a_root_is_trusted_for_what_its_certificate_says() {
    let mut params = CertificateParams::new(names()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    // `openssl req -x509` makes such certificates: the authority presents its own root.
    let authority = FaultyAuthority::with(CertifiedKey { cert, signing_key }, |_, _| None).await;
    run_until(vec![wanted(&authority, None)], &[], has_failed).await;
    assert!(authority.requests("/certificate") > 0);

    let no_authority = CertificateParams::new(Vec::new()).unwrap();
    let key = KeyPair::generate().unwrap();
    let root_pem = no_authority.self_signed(&key).unwrap().pem();
    let signing_key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(names()).unwrap();
    let cert = params.signed_by(&signing_key, &Issuer::new(no_authority, key)).unwrap();
    let mut below = FaultyAuthority::with(CertifiedKey { cert, signing_key }, |_, _| None).await;
    below.root_pem = root_pem;
    run_until(vec![wanted(&below, None)], &[], has_failed).await;
    assert_eq!(below.requests("/directory"), 0, "a CA:FALSE certificate has issued it");
}

/// Words of the failure, and minimum seconds from now until the engine asks again.
const FAULTS: &[(&str, u64, Fault)] = &[
    ("certificate for another key", 50, |_, _| None),
    ("status 200 OK and text/html", 50, |path, _| {
        (path == "/directory").then(|| answer("200 OK", "", "text/html", "<html>"))
    }),
    ("no ACME", 50, |path, _| (path == "/directory").then(|| answer("200 OK", "", JSON, "<html>"))),
    ("no ACME", 50, |path, _| (path == "/orders").then(|| answer("200 OK", "", JSON, "{}"))),
    ("more than 262144 bytes", 50, |path, _| {
        (path == "/directory").then(|| answer("200 OK", "", JSON, &" ".repeat(300_000)))
    }),
    ("more than 262144 bytes", 50, |path, _| {
        (path == "/certificate").then(|| answer("200 OK", "", JSON, &"\n".repeat(300_000)))
    }),
    ("redirects to https://c.example/, which is not followed", 50, |path, _| {
        (path == "/orders").then(|| answer("307 Go", "Location: https://c.example/\r\n", JSON, ""))
    }),
    ("https://c.example/n, which is not https://127.0.0.1:", 50, |path, base| {
        let [nonce, account, order] =
            ["https://c.example/n".to_owned(), format!("{base}/account"), format!("{base}/o")];
        let body = json!({"newNonce": nonce, "newAccount": account, "newOrder": order});
        (path == "/directory").then(|| found(&body))
    }),
    ("too many orders", 7000, |path, _| {
        let fields = "Retry-After: 7200\r\n";
        let refusal = || problem("429 Slow", fields, "rateLimited", "too many orders");
        (path == "/orders").then(refusal)
    }),
    // The number exceeds the range of times, and the maximum wait is a week.
    ("", 500_000, |path, _| {
        let fields = "Retry-After: 18446744073709551615\r\n";
        (path == "/directory").then(|| problem("503 Down", fields, "serverInternal", "tired"))
    }),
    ("not ready after 5 minutes", 50, |path, _| {
        (path == "/order").then(|| order("pending", "Retry-After: 18446744073709551615\r\n"))
    }),
    ("not ready after 5 minutes", 50, |path, _| {
        (path == "/order").then(|| order("processing", "Retry-After: 86400\r\n"))
    }),
    ("stale", 50, |path, _| {
        (path == "/account").then(|| problem("400 Bad", "", "badNonce", "stale"))
    }),
    ("two lines", 50, |path, _| {
        (path == "/orders").then(|| problem("403 No", "", "rejectedIdentifier", "two\nlines"))
    }),
    ("offers no dns-01 for a.example, but http-01", 50, |path, base| {
        let url = format!("{base}/challenge");
        let body = json!({
            "identifier": {"type": "dns", "value": "a.example"}, "status": "pending",
            "challenges": [{"type": "http-01", "url": url, "token": "t", "status": "pending"}],
        });
        (path == "/authorization").then(|| found(&body))
    }),
    ("refused the order", 50, |path, _| (path == "/order").then(|| order("invalid", ""))),
    ("no certificate", 50, |path, _| {
        (path == "/certificate").then(|| answer("200 OK", "", JSON, ""))
    }),
    ("", 50, |path, _| (path == "/orders").then(String::new)),
    ("", 50, |path, _| (path == "/nonce").then(|| "HTTP/1.1 200 OK\r\n\r\n".to_owned())),
];

/// Lets an authority fail, and hands the state to a second engine as after a restart.
async fn fails_as_said(number: usize, words: &str, wait_s: u64, fault: Fault) {
    let authority = FaultyAuthority::start(fault).await;
    let case = format!("fault {number}, {words:?}");
    let EngineEnd { status, state, .. } =
        run_until(vec![wanted(&authority, None)], &[], has_failed).await;
    let failure = status.last_failure.unwrap();
    assert!(failure.contains(words), "{case}: {failure}");
    assert!(failure.len() < 1000 && !failure.contains('\n'), "{case}: {failure}");
    assert!(status.next.unwrap() >= now_s() + wait_s, "{case}: {:?}", status.next);
    assert!(authority.requests("/orders") <= 1 && authority.requests("/account") <= 3, "{case}");
    let asked = authority.requests.lock().unwrap().len();
    let restarted = run_until(vec![wanted(&authority, Some(state))], &[], has_failed).await;
    assert_eq!(restarted.status.last_failure, Some(failure), "{case}");
    assert!(restarted.status.next.unwrap() >= now_s() + wait_s - 1, "{case}");
    assert_eq!(authority.requests.lock().unwrap().len(), asked, "{case}: asked at once again");
}

#[tokio::test]
async fn every_fault_is_said_and_remembered_and_waited_after() {
    let mut cases = JoinSet::new();
    for (number, (words, wait_s, fault)) in FAULTS.iter().enumerate() {
        cases.spawn(fails_as_said(number, words, *wait_s, *fault));
    }
    cases.join_all().await;
}

#[tokio::test]
async fn an_authority_that_is_down_or_another_or_silent_does_not_hold_up_others() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (liar, other) =
        (FaultyAuthority::start(|_, _| None).await, FaultyAuthority::start(|_, _| None).await);
    let at = |name: &str, directory: String| WantedCertificate {
        name: name.to_owned(),
        directory,
        ..wanted(&liar, None)
    };
    for (name, directory, words) in [
        ("down", format!("https://{closed}/directory"), "refused"),
        ("other", format!("{}/directory", other.base), "certificate"),
    ] {
        let silent = at("a", format!("https://{}/directory", silent.local_addr().unwrap()));
        let failed = |status: &EntryStatus| status.name == name && has_failed(status);
        let end = run_until(vec![silent, at(name, directory)], &[], failed).await;
        let failure = end.status.last_failure.unwrap();
        assert!(failure.contains(words), "{name}: {failure}");
    }
    assert_eq!(other.requests("/directory"), 0);
}

/// Returns how many of `count` entries with this state hang at once, while one of the same
/// authority or of another makes progress.
async fn hanging(count: usize, state: Option<&str>, other: Option<&FaultyAuthority>) -> usize {
    let authority = FaultyAuthority::start(|_, _| None).await;
    let hangs = |number| WantedCertificate {
        name: format!("{HANGS} {number}"),
        ..wanted(&authority, state.map(str::to_owned))
    };
    let last = wanted(other.unwrap_or(&authority), None);
    let name = last.name.clone();
    let entries = (0..count).map(hangs).chain([last]).collect();
    let end = run_until(entries, &[], |one| one.name == name && has_failed(one)).await;
    let failure = end.status.last_failure.unwrap();
    assert!(failure.contains("certificate for another key"), "{failure}");
    end.hang
}

#[tokio::test]
async fn what_hangs_holds_up_neither_other_names_nor_other_authorities() {
    let other = FaultyAuthority::start(|_, _| None).await;
    assert_eq!(hanging(4, None, None).await, 4);
    assert!((4..=48).contains(&hanging(100, None, Some(&other)).await), "they are bounded");
    let failed = r#"{"failures": 1, "last_attempt": 1, "last_failure": "it hung"}"#;
    assert!(hanging(100, Some(failed), None).await <= 12);
}

#[tokio::test]
async fn an_operator_may_ask_once_more_after_a_failure() {
    let authority = FaultyAuthority::start(|_, _| None).await;
    let first = run_until(vec![wanted(&authority, None)], &[], has_failed).await;
    let renewal = [AcmeOrder::Renew { name: authority.base.clone() }];
    let again = wanted(&authority, Some(first.state));
    let second = run_until(vec![again], &renewal, |one| has_failed(one) && one.failures == 2).await;
    assert_eq!(authority.requests("/orders"), 2);
    assert!(second.status.next.unwrap() >= now_s() + 250);
}

#[tokio::test]
async fn what_failed_is_ordered_again_once_the_configuration_says_something_else() {
    let authority = FaultyAuthority::start(|_, _| None).await;
    let rootless = |state| WantedCertificate { roots: Vec::new(), ..wanted(&authority, state) };
    let first = run_until(vec![rootless(None)], &[], has_failed).await;
    assert_eq!(authority.requests("/orders"), 0, "its own certificate is trusted by nobody");
    let state = || Some(first.state.clone());
    let follow = |entry| AcmeOrder::Follow { entries: vec![entry], host_roots: String::new() };
    let orders = [follow(rootless(state())), follow(wanted(&authority, state()))];
    let is_again = |one: &EntryStatus| has_failed(one) && one.failures == 2;
    run_until(vec![rootless(state())], &orders, is_again).await;
    assert_eq!(authority.requests("/orders"), 1);
}

/// Runs an engine that dies as soon as an order has been placed; its state, and that order.
async fn dies_amid_an_order(entry: WantedCertificate) -> (String, Hidden) {
    let (orders, obeyed) = unbounded_channel();
    let (say, mut answers) = unbounded_channel();
    let follow = AcmeOrder::Follow { entries: vec![entry], host_roots: String::new() };
    orders.send(follow).unwrap();
    let engine = engine::run(obeyed, move |answer| say.send(answer).unwrap());
    let supervisor = async {
        let mut last = String::new();
        loop {
            match answers.recv().await.expect("the engine runs") {
                AcmeAnswer::State { state, asks, .. } => {
                    last = state;
                    asks.into_iter().for_each(|id| orders.send(AcmeOrder::Done { id }).unwrap());
                }
                AcmeAnswer::Open { order: Some(order), .. } => return (last, order),
                _ => {}
            }
        }
    };
    tokio::select! {
        _ = engine => unreachable!("it has orders"),
        end = timeout(PATIENCE, supervisor) => end.expect("an order"),
    }
}

#[tokio::test]
async fn the_next_engine_goes_on_with_an_order_and_not_for_ever() {
    let authority = FaultyAuthority::start(|_, _| None).await;
    let (state, open) = dies_amid_an_order(wanted(&authority, None)).await;
    let again = || WantedCertificate {
        open: Some(open.clone()),
        ..wanted(&authority, Some(state.clone()))
    };
    let end = run_until(vec![again()], &[], has_failed).await;
    let failure = end.status.last_failure.unwrap();
    assert!(failure.contains("certificate for another key"), "{failure}");
    assert_eq!((end.status.failures, end.open), (1, None), "the order is over");
    assert_eq!((authority.requests("/orders"), authority.requests("/certificate")), (1, 1));

    // The order may be what kills them.
    let often = open.0.replace("\"taken_up\":0", "\"taken_up\":3");
    assert_ne!(often, open.0);
    let often = WantedCertificate { open: Some(Hidden(often)), ..again() };
    let rests = |status: &EntryStatus| status.stage == "waiting";
    let end = run_until(vec![often], &[], rests).await;
    assert!(end.status.next.unwrap() >= now_s() + 50, "{:?}", end.status);
}

#[tokio::test]
async fn an_order_outlasts_an_authority_that_cannot_be_asked_and_a_refusal_ends_it() {
    let silent = FaultyAuthority::start(|path, _| (path == "/certificate").then(String::new)).await;
    let end = run_until(vec![wanted(&silent, None)], &[], has_failed).await;
    assert!(end.open.is_some(), "{:?}", end.status);
    let refused =
        FaultyAuthority::start(|path, _| (path == "/order").then(|| order("invalid", "")));
    let refused = refused.await;
    let end = run_until(vec![wanted(&refused, None)], &[], has_failed).await;
    assert!(end.open.is_none(), "{:?}", end.status);
    // A refused order is not taken up again.
    let (state, open) = dies_amid_an_order(wanted(&refused, None)).await;
    let again = WantedCertificate { open: Some(open), ..wanted(&refused, Some(state)) };
    run_until(vec![again], &[], has_failed).await;
    assert_eq!(refused.requests("/orders"), 3);
}
