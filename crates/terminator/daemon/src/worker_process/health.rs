//! Active checks of servers, made by the control side of the worker process.
//!
//! Owns when servers are checked, each at all its addresses and no address for another one, and
//! what is reported; how one check is made is `probe`'s, what results add up to is
//! `backend::server`'s, and what follows from it the pools'.

mod probe;
mod wording;

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backend::options::CheckOptions;
use backend::server::Check;
use proxy::options::{SendProxy, ServerTls, ServersOptions, ServiceOptions, Starttls};
use proxy::plan::Plan;
use telemetry::printable;
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};
use wire::address::{Address, Endpoint};
use wire::proxy_header::{self, Addresses, Command, HeaderV2};
use wire::tunnel::Tunnel;

use crate::admin::HealthReport;

use probe::Target;
use wording::{PassedStep, ProbeFault};

/// Checks under way at once: a descriptor each, of those the connections live on. Those that wait
/// for a late greeting are not counted, because silent servers would hold up the checks of others;
/// there is one an address.
const PROBES_MAX: usize = 64;

/// No server is checked more often: faster tells nothing and loads it.
const INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The first round is spread over an interval, but over no more than this: until its first check
/// a dead server is used.
const FIRST_DELAY_MAX: Duration = Duration::from_secs(1);

/// The share of an interval that is left to chance, so that many hosts do not check in step.
const JITTER_SHARE: f64 = 0.1;

/// Characters of what a check came to. Names of a certificate and why it is refused are shorter.
const WHY_CHARS_MAX: usize = 1_000;

/// A service whose servers are to be checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckedService {
    name: String,
    check: CheckOptions,
    servers: Vec<Endpoint>,
    preface: Vec<u8>,
    tunnel: Option<Arc<Tunnel>>,
    tls: Option<ServerTls>,
    starttls: Option<Starttls>,
    /// How long a server may take to greet (`timeouts.greeting`).
    greeting: Duration,
}

impl CheckedService {
    /// Judges servers as the connections of this plan's service do.
    pub(crate) fn set_tls(&mut self, plan: &Plan) {
        let mut services = plan.services().iter();
        let service = services.find(|service| service.name() == self.name);
        self.tls = service.and_then(|service| service.back_tls()).cloned();
    }

    /// `None` if the service asks for no checks.
    pub(crate) fn of(service: &ServiceOptions) -> Option<Self> {
        let ServersOptions { pool, send_proxy, tunnel, .. } = service.back.servers()?;
        let servers = pool.servers.iter().map(|server| server.endpoint.clone());
        Some(Self {
            name: service.name.clone(),
            check: *pool.check.clone()?,
            servers: servers.collect(),
            preface: preface_of(send_proxy),
            tunnel: tunnel.clone(),
            tls: None,
            starttls: service.starttls.clone(),
            greeting: service.timeouts.greeting,
        })
    }
}

/// A server that wants a PROXY header gets one that says that there is no client.
fn preface_of(send_proxy: &SendProxy) -> Vec<u8> {
    let mut bytes = Vec::new();
    match send_proxy {
        SendProxy::Off => {}
        SendProxy::V1 => proxy_header::write_v1(&Addresses::Unknown, &mut bytes),
        SendProxy::Pass | SendProxy::V2(_) => {
            let header = HeaderV2 { command: Command::Local, ..HeaderV2::default() };
            header.write(&mut bytes).expect("a header without fields fits");
        }
    }
    bytes
}

type Report = Arc<dyn Fn(HealthReport) + Send + Sync>;

/// The checks of one plan, running until they are replaced or dropped.
pub(crate) struct Checks {
    report: Report,
    permits: Arc<Semaphore>,
    watched: HashMap<(String, usize), Watched>,
}

struct Watched {
    endpoint: Endpoint,
    addresses: watch::Sender<Vec<Address>>,
    known: watch::Receiver<Vec<CheckResult>>,
    task: JoinHandle<()>,
}

/// The result of the checks of an address of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
struct CheckResult {
    address: Address,
    up: bool,
    why: String,
}

/// Starts to check. To be called inside a tokio runtime; a current-thread one will do.
///
/// `report` is called from the runtime's thread, at each change of state or of the reason to be
/// down and after each server's first check, and must not wait.
pub(crate) fn run(
    services: Vec<CheckedService>,
    report: impl Fn(HealthReport) + Send + Sync + 'static,
) -> Checks {
    let permits = Arc::new(Semaphore::new(PROBES_MAX));
    let mut checks = Checks { report: Arc::new(report), permits, watched: HashMap::new() };
    checks.replace(services);
    checks
}

impl Checks {
    /// Checks these services from now on. A server that was checked before, in the service of
    /// that name, keeps its state and its addresses, and its state is reported again: the pools
    /// are new.
    pub(crate) fn replace(&mut self, services: Vec<CheckedService>) {
        let before = std::mem::take(&mut self.watched);
        before.values().for_each(|watched| watched.task.abort());
        let same = |((name, _), watched): (&(String, usize), _)| {
            let watched: &Watched = watched;
            ((name.clone(), watched.endpoint.clone()), watched)
        };
        let before: HashMap<_, _> = before.iter().map(same).collect();
        for service in services {
            let service = Arc::new(service);
            for (server, endpoint) in service.servers.iter().enumerate() {
                let before = before.get(&(service.name.clone(), endpoint.clone())).copied();
                let watched = self.watch(&service, server, endpoint, before);
                self.watched.insert((service.name.clone(), server), watched);
            }
        }
    }

    /// A name's addresses have changed.
    pub(crate) fn set_addresses(&self, service: &str, server: usize, addresses: &[SocketAddr]) {
        if let Some(watched) = self.watched.get(&(service.to_owned(), server)) {
            let addresses = addresses.iter().copied().map(Address::Ip);
            watched.addresses.send_replace(addresses.collect());
        }
    }

    /// Whether it is checked and nothing has come of it yet.
    pub(crate) fn is_first_due(&self, service: &str, server: usize) -> bool {
        let watched = self.watched.get(&(service.to_owned(), server));
        watched.is_some_and(|watched| watched.known.borrow().is_empty())
    }

    pub(crate) fn addresses(&self, service: &str, server: usize) -> Vec<Address> {
        let watched = self.watched.get(&(service.to_owned(), server));
        watched.map_or_else(Vec::new, |watched| watched.addresses.borrow().clone())
    }

    fn watch(
        &self,
        service: &Arc<CheckedService>,
        server: usize,
        endpoint: &Endpoint,
        before: Option<&Watched>,
    ) -> Watched {
        let known = before.map_or_else(Vec::new, |watched| watched.known.borrow().clone());
        let first = match (before, endpoint) {
            (Some(watched), _) => watched.addresses.borrow().clone(),
            (None, Endpoint::Address(address)) => vec![address.clone()],
            (None, Endpoint::Name { .. } | Endpoint::Service { .. }) => Vec::new(),
        };
        let (addresses, addresses_seen) = watch::channel(first);
        let (known_told, known) = watch::channel(known);
        let watch = ServerCheck {
            service: Arc::clone(service),
            server,
            names_addresses: !matches!(endpoint, Endpoint::Address(_)),
            target: Arc::new(
                Target::new(&service.check, endpoint, service.tunnel.clone(), &service.preface)
                    .through(service.tls.clone().map(|tls| (tls, server)))
                    .speaking(service.starttls.as_ref(), service.greeting),
            ),
            addresses: addresses_seen,
            known: known_told,
            permits: Arc::clone(&self.permits),
            report: Arc::clone(&self.report),
        };
        let task = tokio::spawn(watch.run());
        Watched { endpoint: endpoint.clone(), addresses, known, task }
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.watched.values().for_each(|watched| watched.task.abort());
    }
}

/// The outcome of a check, on one line of bounded length: some of it are the server's own words.
fn why_of(result: Result<PassedStep, ProbeFault>) -> String {
    bounded(&result.map_or_else(|fault| fault.to_string(), |passed| passed.to_string()))
}

fn bounded(why: &str) -> String {
    let why = printable::line(why).to_string();
    why.chars().take(WHY_CHARS_MAX).collect()
}

struct ServerCheck {
    service: Arc<CheckedService>,
    server: usize,
    target: Arc<Target>,
    names_addresses: bool,
    addresses: watch::Receiver<Vec<Address>>,
    known: watch::Sender<Vec<CheckResult>>,
    permits: Arc<Semaphore>,
    report: Report,
}

impl ServerCheck {
    async fn run(mut self) {
        let known = self.known.borrow().clone();
        let check = |up| Check::new(&self.service.check, up);
        let checks = known.iter().map(|one| (one.address.clone(), check(Some(one.up))));
        let mut checks: HashMap<_, _> = checks.collect();
        if !known.is_empty() {
            self.tell(&known);
        }
        let interval = self.service.check.interval.max(INTERVAL_MIN);
        let delay = interval.min(FIRST_DELAY_MAX).mul_f64(chance());
        tokio::time::sleep(delay).await;
        let (mut probes, mut under_way) = (JoinSet::new(), HashMap::new());
        loop {
            let jitter = 1.0 + JITTER_SHARE * (chance() - 0.5);
            let next_round = Instant::now() + interval.mul_f64(jitter);
            self.follow_addresses(&mut checks);
            self.begin_round(&mut probes, &mut under_way);
            while let Ok(Some(ended)) = timeout_at(next_round, probes.join_next()).await {
                // One that was aborted was of an address that the name has no longer.
                if let Ok((address, result)) = ended {
                    self.note(&mut checks, address, result);
                }
            }
            sleep_until(next_round).await;
        }
    }

    /// Forgets addresses that the name no longer has; the pools have forgotten them as well, and
    /// know nothing of one that has come back meanwhile.
    fn follow_addresses(&mut self, checks: &mut HashMap<Address, Check>) {
        if !self.addresses.has_changed().unwrap_or(false) {
            return;
        }
        let addresses = self.addresses.borrow_and_update().clone();
        checks.retain(|address, _| addresses.contains(address));
        let mut known = self.known.borrow().clone();
        known.retain(|one| addresses.contains(&one.address));
        self.known.send_replace(known.clone());
        if !known.is_empty() {
            self.tell(&known);
        }
    }

    /// Begins a probe of each address that has none under way: a slow one takes as many rounds as
    /// it needs, and the others go on meanwhile.
    fn begin_round(
        &self,
        probes: &mut JoinSet<(Address, Result<PassedStep, ProbeFault>)>,
        under_way: &mut HashMap<Address, AbortHandle>,
    ) {
        let addresses = self.addresses.borrow();
        under_way.retain(|address, probe| {
            let is_wanted = addresses.contains(address);
            if !is_wanted {
                probe.abort();
            }
            is_wanted && !probe.is_finished()
        });
        for address in &*addresses {
            if let Entry::Vacant(free) = under_way.entry(address.clone()) {
                let (permits, target) = (Arc::clone(&self.permits), Arc::clone(&self.target));
                let address = address.clone();
                free.insert(probes.spawn(async move {
                    let result = target.probe(&address, &permits).await;
                    (address, result)
                }));
            }
        }
    }

    fn note(
        &self,
        checks: &mut HashMap<Address, Check>,
        address: Address,
        result: Result<PassedStep, ProbeFault>,
    ) {
        // The name may have lost it meanwhile.
        if !self.addresses.borrow().contains(&address) {
            return;
        }
        let new = || Check::new(&self.service.check, None);
        let check = checks.entry(address.clone()).or_insert_with(new);
        let is_good = result.is_ok();
        let turned = check.observe(is_good);
        // One that is down for another reason by now has another remedy.
        let is_still_down = !is_good && check.is_up() == Some(false);
        if let Some(up) = turned.or_else(|| is_still_down.then_some(false)) {
            let port = self.service.check.port.map(|port| format!("port {port}: "));
            let why = port.unwrap_or_default() + &why_of(result);
            self.learn(CheckResult { address, up, why });
        }
    }

    fn learn(&self, new: CheckResult) {
        let mut known = self.known.borrow().clone();
        match known.iter_mut().find(|one| one.address == new.address) {
            Some(same) if *same == new => return,
            Some(same) => *same = new,
            None => known.push(new),
        }
        self.known.send_replace(known.clone());
        self.tell(&known);
    }

    fn tell(&self, known: &[CheckResult]) {
        let down: Vec<_> = known.iter().filter(|one| !one.up).collect();
        let shown = |one: &&CheckResult| {
            let address = self.names_addresses.then(|| format!("{} ", one.address));
            address.unwrap_or_default() + &one.why
        };
        let words: Vec<_> = match &*down {
            [] => known.iter().take(1).map(|one| one.why.clone()).collect(),
            down => down.iter().map(shown).collect(),
        };
        (self.report)(HealthReport {
            service: self.service.name.clone(),
            server: self.server,
            up: down.len() < self.addresses.borrow().len(),
            down: down.into_iter().map(|one| one.address.clone()).collect(),
            why: bounded(&words.join("; ")),
        });
    }
}

/// A number from 0 to 1, from the randomness that the standard library seeds its maps with. Good
/// enough to keep hosts out of step, and no more is asked of it.
fn chance() -> f64 {
    let bits = RandomState::new().hash_one(0u8);
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::options::{CheckKind, HttpCheck, HttpMethod};
    use std::io::{BufRead, BufReader};
    use std::process::{Command as Process, Stdio};
    use testkit::authority::Authority;
    use testkit::directory::Directory;
    use testkit::server::{Behaviour, Server, free_address};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
    use wire::starttls::{Dialect, Policy, StarttlsSides};

    /// How long a test waits for what is bound to come.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn http() -> CheckKind {
        CheckKind::Http(HttpCheck::of("/health"))
    }

    #[test]
    fn what_a_server_says_is_one_line_of_bounded_length() {
        let said = format!("full\nerror: forged\nhint: {}", "x".repeat(2_000));
        let why = why_of(Err(ProbeFault::Mysql(said)));
        assert!(why.starts_with("full") && !why.contains('\n'), "{why}");
        assert_eq!(why.chars().count(), WHY_CHARS_MAX);
    }

    fn service(kind: CheckKind, servers: &[&str]) -> CheckedService {
        let check = CheckOptions {
            kind,
            port: None,
            tls: None,
            interval: INTERVAL_MIN,
            timeout: PATIENCE,
            fall: 2,
            rise: 2,
        };
        let servers = servers.iter().map(|server| server.parse().unwrap()).collect();
        CheckedService {
            name: "web".to_owned(),
            check,
            servers,
            preface: Vec::new(),
            tunnel: None,
            tls: None,
            starttls: None,
            greeting: PATIENCE,
        }
    }

    /// Asked of the server by clients, or by us if the `back` is TLS.
    fn starttls(dialect: Dialect, back: bool) -> Option<Starttls> {
        let front = (!back).then_some(Policy::Required);
        let sides = StarttlsSides { front, back };
        Some(Starttls { dialect, sides, server_name: None, own_name: "own.example".to_owned() })
    }

    struct RunningChecks {
        checks: Checks,
        reports: UnboundedReceiver<HealthReport>,
    }

    impl RunningChecks {
        fn new(services: Vec<CheckedService>) -> Self {
            let (sender, reports) = unbounded_channel();
            let checks = run(services, move |report| drop(sender.send(report)));
            Self { checks, reports }
        }

        async fn next(&mut self) -> HealthReport {
            let report = tokio::time::timeout(PATIENCE, self.reports.recv()).await;
            report.expect("a report comes").expect("the checks go on")
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    fn first(service: CheckedService) -> (bool, String) {
        block_on(async {
            let report = RunningChecks::new(vec![service]).next().await;
            (report.up, report.why)
        })
    }

    #[test]
    fn servers_that_answer_are_up_on_every_kind_of_address() {
        let directory = Directory::new();
        let path = directory.join("app.sock");
        let name = format!("lariat-health-{}", std::process::id());
        let servers = [
            Server::start(Behaviour::Http(Vec::new())),
            Server::start_unix(&path, Behaviour::Http(Vec::new())),
            Server::start_abstract(&name, Behaviour::Http(Vec::new())),
        ];
        for server in &servers {
            let address = server.address();
            let answered = (true, "answered with status 200".to_owned());
            assert_eq!(first(service(http(), &[address])), answered);
            let accepted = (true, "accepted the connection".to_owned());
            assert_eq!(first(service(CheckKind::Tcp, &[address])), accepted);
        }
    }

    #[test]
    fn each_way_to_fail_says_what_it_was() {
        let why = |kind: CheckKind, address: &str| {
            let (up, why) = first(service(kind, &[address]));
            assert!(!up, "{why}");
            why
        };
        let speak = |text: &[u8]| Server::start(Behaviour::Greet(text.to_vec()));
        let tls = CheckKind::Tls { name: None };
        let nobody = why(CheckKind::Tcp, &free_address().to_string());
        assert!(nobody.starts_with("could not be dialled"), "{nobody}");
        let busy = speak(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(why(http(), busy.address()), "answered with status 503");
        let other = speak(b"SSH-2.0-OpenSSH_9.9\r\n");
        assert_eq!(why(http(), other.address()), "answered with something that is not HTTP/1");
        let no_tls = why(tls, other.address());
        assert!(no_tls.starts_with("no TLS handshake"), "{no_tls}");
        let hanging = Server::start(Behaviour::Hang);
        let mut hurried = service(http(), &[hanging.address()]);
        hurried.check.timeout = Duration::from_millis(20);
        assert_eq!(first(hurried), (false, "did not answer within 20ms".to_owned()));
    }

    #[test]
    fn a_server_that_greets_with_an_error_is_down() {
        let greeting = b"* BYE too many connections\r\n".to_vec();
        let server = Server::start(Behaviour::Greet(greeting));
        let mut service = service(CheckKind::Tls { name: None }, &[server.address()]);
        service.starttls = starttls(Dialect::Imap, true);
        let why = "the server answered \"* BYE too many connections\"".to_owned();
        assert_eq!(first(service), (false, why));
    }

    #[test]
    fn a_greeting_may_come_later_than_all_else() {
        for (greeting, why) in
            [(PATIENCE, None), (INTERVAL_MIN, Some("did not answer within 20ms"))]
        {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap().to_string();
            let mut service = service(CheckKind::Tcp, &[&address]);
            service.check.timeout = Duration::from_millis(20);
            service.greeting = greeting;
            service.starttls = starttls(Dialect::Smtp, false);
            let late = std::thread::spawn(move || {
                use std::io::{Read, Write};
                let (mut stream, _) = listener.accept().unwrap();
                if why.is_some() {
                    // It is given up.
                    let _ = stream.read(&mut [0]);
                } else {
                    // Longer than the check's own limit, and silent for all of it.
                    stream.set_read_timeout(Some(Duration::from_millis(60))).unwrap();
                    stream.read(&mut [0]).unwrap_err();
                    stream.write_all(b"220 mx\r\n").unwrap();
                }
            });
            let expected = (why.is_none(), why.unwrap_or("greeted").to_owned());
            assert_eq!(first(service), expected);
            late.join().unwrap();
        }
    }

    fn silent_mail(servers: &[&str]) -> CheckedService {
        let mut service = service(CheckKind::Tcp, servers);
        service.name = "mail".to_owned();
        service.greeting = Duration::from_secs(3600);
        service.check.timeout = Duration::from_millis(20);
        service.starttls = starttls(Dialect::Smtp, false);
        service
    }

    #[test]
    fn servers_that_are_silent_hold_up_no_check_of_another() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let mail = silent_mail(&vec![&*address; PROBES_MAX]);
        let server = Server::start(Behaviour::Http(Vec::new()));
        block_on(async {
            let mut running = RunningChecks::new(vec![mail, service(http(), &[server.address()])]);
            assert!(running.next().await.up);
            let accept = move || [(); PROBES_MAX].map(|()| silent.accept().unwrap());
            let held = tokio::task::spawn_blocking(accept).await.unwrap();
            drop(server);
            assert!(!running.next().await.up);
            drop(held);
        });
    }

    #[test]
    fn an_address_that_is_silent_holds_up_no_check_of_the_names_other() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let greeted = Server::start(Behaviour::Greet(b"220 mx\r\n".to_vec()));
        let addresses = [silent.local_addr().unwrap(), greeted.address().parse().unwrap()];
        block_on(async {
            let mut running = RunningChecks::new(vec![silent_mail(&["mx.example:25"])]);
            running.checks.set_addresses("mail", 0, &addresses);
            assert!(running.next().await.up);
            drop(greeted);
            assert_eq!(running.next().await.down, [Address::Ip(addresses[1])]);
        });
        silent.set_nonblocking(true).unwrap();
        assert!(silent.accept().is_ok());
        assert!(silent.accept().is_err(), "an address has one probe at most");
    }

    #[test]
    fn a_server_without_tls_is_heard_before_its_clients_are() {
        for (dialect, greeting, expected) in [
            (Dialect::Imap, "* BYE full\r\n", "the server answered \"* BYE full\""),
            (Dialect::Smtp, "554 not now\r\n", "the server answered \"554 not now\""),
            (Dialect::Nntp, "502 no\r\n", "the server answered \"502 no\""),
            (Dialect::Imap, "* OK [CAPABILITY IMAP4rev1] ready\r\n", "greeted"),
            (Dialect::Smtp, "220-mx\r\n220 ESMTP\r\n", "greeted"),
            (Dialect::Sieve, "\"SIEVE\" \"\"\r\nOK\r\n", "greeted"),
        ] {
            let server = Server::start(Behaviour::Greet(greeting.into()));
            let mut service = service(CheckKind::Tcp, &[server.address()]);
            service.starttls = starttls(dialect, false);
            let expected = (expected == "greeted", expected.to_owned());
            assert_eq!(first(service), expected, "{greeting}");
        }
    }

    #[test]
    fn a_tls_check_takes_any_certificate() {
        let directory = Directory::new();
        let leaf = Authority::root("nobody").leaf(&["other.example"]).expired().issue();
        let certificate = leaf.write(&directory, "leaf.pem");
        let mut server = Process::new("openssl")
            .args(["s_server", "-accept", "127.0.0.1:0", "-cert"])
            .arg(certificate)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl is installed");
        let lines = BufReader::new(server.stdout.take().unwrap()).lines();
        let accepts = |line: String| line.strip_prefix("ACCEPT ").map(str::to_owned);
        let address = lines.map_while(Result::ok).find_map(accepts);
        let address = address.expect("openssl names its address");
        let result = first(service(CheckKind::Tls { name: None }, &[&address]));
        server.kill().unwrap();
        server.wait().unwrap();
        assert_eq!(result, (true, "finished a TLS handshake".to_owned()));
    }

    #[test]
    fn a_mysql_server_is_heard_and_logged_in_to() {
        let greeted = |payload: &[u8]| {
            let length = u8::try_from(payload.len()).unwrap();
            let packet = [&[length, 0, 0, 0], payload].concat();
            let server = Server::start(Behaviour::Greet(packet));
            let mut service = service(CheckKind::Tcp, &[server.address()]);
            service.starttls = starttls(Dialect::Mysql, false);
            first(service)
        };
        let full = greeted(b"\xff\x10\x04Too many connections");
        assert_eq!(full, (false, "error 1040: Too many connections".to_owned()));
        // It says our login again, which is no answer.
        let echo = greeted(&[b"\x0a8.0\0".as_slice(), &[0; 44]].concat());
        let fault = "the server sent a packet that does not parse";
        assert_eq!(echo, (false, fault.to_owned()));
    }

    #[test]
    fn a_server_that_stops_goes_down_and_comes_back() {
        let directory = Directory::new();
        let path = directory.join("app.sock");
        let endpoint = format!("unix:{}", path.display());
        block_on(async {
            let mut running = RunningChecks::new(vec![service(http(), &[&endpoint])]);
            assert!(!running.next().await.up);
            let server = Server::start_unix(&path, Behaviour::Http(Vec::new()));
            assert!(running.next().await.up);
            drop(server);
            std::fs::remove_file(&path).unwrap();
            assert!(!running.next().await.up);
        });
    }

    #[test]
    fn a_reload_tells_again_what_is_known_and_forgets_who_is_gone() {
        let alive = Server::start(Behaviour::Http(Vec::new()));
        let dead = free_address().to_string();
        block_on(async {
            let mut running = RunningChecks::new(vec![service(http(), &[&dead])]);
            let known = running.next().await;
            assert!(!known.up);
            // In the new plan it comes second, and is checked too seldom to be checked again.
            let mut after = service(http(), &[alive.address(), &dead]);
            after.check.interval = Duration::from_secs(3600);
            running.checks.replace(vec![after]);
            let mut reports = [running.next().await, running.next().await];
            reports.sort_by_key(|report| report.server);
            assert!(reports[0].up);
            assert_eq!(reports[1], HealthReport { server: 1, ..known });
            running.checks.replace(Vec::new());
            assert!(running.checks.watched.is_empty());
        });
    }

    #[test]
    fn a_name_is_up_if_any_of_its_addresses_answers() {
        let server = Server::start(Behaviour::Http(Vec::new()));
        let addresses = [free_address(), server.address().parse().unwrap()];
        block_on(async {
            let mut running = RunningChecks::new(vec![service(http(), &["app.example:80"])]);
            running.checks.set_addresses("web", 0, &addresses[..1]);
            let first = running.next().await;
            assert!(!first.up && first.why.starts_with(&format!("{} could not", addresses[0])));
            running.checks.set_addresses("web", 0, &addresses);
            let told_again = running.next().await;
            assert!(told_again.up, "nothing is known of the new one");
            assert_eq!(told_again.down, [Address::Ip(addresses[0])]);
            let both = running.next().await;
            assert_eq!((both.up, both.down), (true, told_again.down));
            running.checks.set_addresses("web", 0, &addresses[1..]);
            assert_eq!(running.next().await.down, []);
        });
        let asked = &server.wait_until(|connections| !connections.is_empty())[0];
        let head = String::from_utf8_lossy(&asked.bytes);
        assert!(head.contains("\r\nHost: app.example:80\r\n"), "{head}");
    }

    #[test]
    fn the_final_status_counts_and_the_body_is_read_as_far_as_it_goes() {
        let answered = |answer: &[u8], timeout| {
            let server = Server::start(Behaviour::Greet(answer.to_vec()));
            let mut service = service(http(), &[server.address()]);
            service.check.timeout = timeout;
            first(service)
        };
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let endless = |line: &str| line.repeat(200_000).into_bytes();
        for (answer, expected) in [
            (format!("{early}{early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"), "status 200"),
            (format!("{early}HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"), "status 503"),
            ("HTTP/1.0 200 OK\r\n\r\nuntil it closes".to_owned(), "status 200"),
            ("HTTP/1.1 101 Switching\r\n\r\n".to_owned(), "status 101"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"
                    .to_owned(),
                "status 200",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n".to_owned(),
                "Content-Length",
            ),
            ("HTTP/1.1 200\r\nContent-Length: 2, 2\r\n\r\nab".to_owned(), "status 200"),
            ("HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nab".to_owned(), "Content-Length"),
            ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), "status 204"),
            // The server goes on with what we have said.
            (early.to_owned(), "not HTTP/1"),
        ] {
            // One whose content ends with the connection stays open.
            let is_open = answer.contains("until");
            let timeout = if is_open { Duration::from_millis(50) } else { PATIENCE };
            let (up, why) = answered(answer.as_bytes(), timeout);
            assert_eq!(up, expected.starts_with("status 20"), "{answer}: {why}");
            assert!(why.contains(expected), "{answer}: {why}");
        }
        let (up, why) = answered(&endless(early), PATIENCE);
        assert_eq!((up, why.as_str()), (false, "answered with a head of more than 65536 bytes"));
        let body = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), endless("0123456789")].concat();
        assert!(answered(&body, PATIENCE).0, "what is enough is enough");
        let slow = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n";
        assert!(answered(slow, Duration::from_millis(50)).0, "its status has come in time");
    }

    #[test]
    fn an_answer_passes_by_its_status_and_content() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
            3\r\nrol\r\n8;x=y\r\ne:primar\r\n1\r\ny\r\n0\r\n\r\n";
        let closed = "HTTP/1.0 200 OK\r\n\r\nrole:primary";
        let twice = "HTTP/1.1 200 OK\r\nContent-Length: 7, 7\r\n\r\nprimary";
        let lacking = "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\nrole:replicarole:primary";
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n";
        let cut = "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nrole:pri";
        let (get, with_head) = (HttpMethod::Get, HttpMethod::Head);
        for (answer, method, statuses, content, expected) in [
            (chunked, get, 200..=299, Some("role:primary"), "answered with status 200"),
            (closed, get, 200..=200, Some("primary"), "answered with status 200"),
            (twice, get, 200..=200, Some("primary"), "answered with status 200"),
            (lacking, get, 200..=299, Some("primary"), "`expect-body` is not in its content"),
            (cut, get, 200..=299, Some("primary"), "closed before it answered"),
            (head, with_head, 200..=299, None, "answered with status 200"),
            (head, HttpMethod::Options, 204..=204, None, "answered with status 200"),
            ("HTTP/1.1 503 No\r\n\r\n", get, 503..=503, None, "answered with status 503"),
        ] {
            let server = Server::start(Behaviour::Speak(answer.into()));
            let wanted = content.map(str::to_owned);
            let statuses = vec![statuses];
            let is_up = !expected.contains("expect-body") && !expected.contains("closed");
            let is_up = is_up && method != HttpMethod::Options;
            let check = HttpCheck { method, statuses, content: wanted, ..HttpCheck::of("/") };
            let (up, why) = first(service(CheckKind::Http(check), &[server.address()]));
            assert_eq!(up, is_up, "{answer}: {why}");
            assert!(why.contains(expected), "{answer}: {why}");
        }
    }

    #[test]
    fn a_dialog_passes_by_what_is_expected_and_at_another_port() {
        let server = Server::start(Behaviour::Greet(b"+OK\r\n$9\r\nrole:master\r\n".to_vec()));
        let address: SocketAddr = server.address().parse().unwrap();
        let dead = free_address().to_string();
        for (expect, expected) in [
            ("role:master", "answered as expected"),
            // It says no more, and keeps the connection.
            ("role:slave", "role:master\\r\\nPING\\r\\n\", in which `expect` is not"),
        ] {
            let expect = Some(expect.to_owned());
            let kind = CheckKind::Dialog { send: "PING\r\n".to_owned(), expect, host: None };
            let mut service = service(kind, &[&dead]);
            service.preface = b"not sent".to_vec();
            service.check.port = Some(address.port());
            service.check.timeout = Duration::from_secs(1);
            let (up, why) = first(service);
            assert_eq!(up, expected.ends_with("expected"), "{why}");
            assert!(why.starts_with(&format!("port {}: ", address.port())), "{why}");
            assert!(why.ends_with(expected), "{why}");
        }
        let all = server.wait_until(|all| all.len() > 1);
        assert_eq!(all[0].bytes, b"PING\r\n");
    }

    #[test]
    fn servers_that_want_a_proxy_header_get_one_without_a_client() {
        let server = Arc::new(Server::start(Behaviour::Swallow));
        for (send_proxy, begin) in [
            (SendProxy::V1, &b"PROXY UNKNOWN\r\nGET "[..]),
            (SendProxy::Pass, b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0GET "),
        ] {
            let mut service = service(http(), &[server.address()]);
            service.preface = preface_of(&send_proxy);
            block_on(async {
                let _running = RunningChecks::new(vec![service]);
                let seen = |all: &[testkit::server::Connection]| {
                    all.iter().any(|connection| connection.bytes.starts_with(begin))
                };
                let server = Arc::clone(&server);
                tokio::task::spawn_blocking(move || server.wait_until(seen)).await.unwrap();
            });
        }
        assert_eq!(preface_of(&SendProxy::Off), b"");
    }
}
