//! Makes a plan that lacks only the address: everything has been checked against everything else.

use std::net::IpAddr;
use std::time::Duration;

use options::{KeyPlace, Problem};
use wire::address::{Address, Endpoint};

use super::arriving::{ArrivalOptions, arriving};
use super::url::Url;
use super::value::{Files, OrNone, Search, Times, unique};
use super::written::WrittenLoad;
use super::{requests, tls};
use crate::plan::{
    ArrivalModel, ClientSelection, Clients, Handshake, LoadPlan, PlannedTarget, Threads,
};

/// A plan without contradictions, before names are resolved.
#[derive(Clone, Debug)]
pub struct UnresolvedPlan {
    /// Destinations of connections; names are not resolved yet.
    pub endpoints: Vec<Endpoint>,
    /// Search for capacity, if requested. The plan is then that of the first rate.
    pub search: Option<Search>,
    /// Planned duration without the warm-up; `None` if the load runs until a count is reached.
    pub planned: Option<Duration>,
    /// Plan without addresses, and without the values that depend on them: threads, clients and
    /// connections.
    plan: LoadPlan,
    threads: Option<u16>,
    clients: Option<u32>,
    connections: Option<u32>,
    cpus: Option<OrNone<Vec<u16>>>,
    allowed_cpus: Vec<u16>,
}

const CONNECTIONS_DEFAULT: u32 = 50;
const OPEN_CLIENTS_DEFAULT: u32 = 1000;

impl UnresolvedPlan {
    /// Checks everything against everything else, and reports contradictions. `None` if a value
    /// could not be read.
    pub(crate) fn of(
        load: &WrittenLoad<'_>,
        files: Files<'_>,
        allowed_cpus: &[u16],
    ) -> Option<Self> {
        let url = load.target.url.value.as_ref()?;
        check(load, url, allowed_cpus);
        let ArrivalOptions { model, duration, search } = arriving(load);
        let count_max = load.arrival.count.given().copied();
        let is_timed = count_max.is_none()
            || load.arrival.duration.is_written()
            || matches!(&model, ArrivalModel::Open { stretches, .. } if stretches.len() > 1);
        let plan = plan(load, url, files, (model, duration))?;
        Some(Self {
            endpoints: match unique(load.target.connect.elements()) {
                none if none.is_empty() => vec![url.endpoint.clone()],
                endpoints => endpoints,
            },
            search,
            planned: (is_timed && search.is_none()).then_some(duration),
            plan,
            threads: load.run.threads.value?,
            clients: load.clients.clients.value?,
            connections: load.arrival.connections.value?,
            cpus: load.run.cpus.given().cloned(),
            allowed_cpus: allowed_cpus.to_vec(),
        })
    }

    /// Returns the whole plan, with the addresses of the endpoints.
    ///
    /// # Errors
    /// Fails if the option `source` names addresses that cannot reach these.
    pub fn plan(self, addresses: Vec<Address>) -> Result<LoadPlan, Problem> {
        check_families(&self.plan.sources, &addresses)?;
        let threads = self.thread_count(&addresses);
        let mut plan = self.plan;
        let default = match &mut plan.arrival {
            ArrivalModel::Closed { connections } => {
                let default = CONNECTIONS_DEFAULT.max(threads.into());
                let most = self.clients.unwrap_or(u32::MAX);
                *connections = self.connections.unwrap_or_else(|| default.min(most));
                *connections
            }
            ArrivalModel::Open { .. } => OPEN_CLIENTS_DEFAULT.max(threads.into()),
        };
        plan.clients.count = self.clients.unwrap_or(default);
        plan.target.addresses = addresses;
        plan.threads =
            Threads { count: threads, cpus: pinned(self.cpus, &self.allowed_cpus, threads) };
        Ok(plan)
    }

    /// Returns the number of threads; a target on this host needs separate CPUs.
    fn thread_count(&self, targets: &[Address]) -> u16 {
        if let Some(threads) = self.threads {
            return threads;
        }
        let all = self.allowed_cpus.len();
        let is_here = |target: &Address| match target {
            Address::Unix(_) | Address::Inherited(_) => true,
            Address::Ip(address) => address.ip().to_canonical().is_loopback(),
        };
        let count = match &self.cpus {
            Some(OrNone::This(cpus)) => cpus.len(),
            _ if targets.iter().any(is_here) => all / 2,
            _ => all,
        };
        let client_pool = self.clients.into_iter().chain(self.connections).min();
        let most = client_pool.unwrap_or(u32::MAX).min(u16::MAX.into());
        u16::try_from(count).unwrap_or(u16::MAX).clamp(1, u16::try_from(most).unwrap_or(u16::MAX))
    }
}

fn pinned(cpus: Option<OrNone<Vec<u16>>>, allowed: &[u16], threads: u16) -> Vec<u16> {
    match cpus {
        Some(OrNone::Nothing) => Vec::new(),
        Some(OrNone::This(cpus)) => cpus,
        None => {
            let first = allowed.len().saturating_sub(threads.into());
            allowed[first..].to_vec()
        }
    }
}

/// Makes the plan without addresses, and without the values that depend on them.
fn plan(
    load: &WrittenLoad<'_>,
    url: &Url,
    files: Files<'_>,
    (arrival, duration): (ArrivalModel, Duration),
) -> Option<LoadPlan> {
    let (clients, target) = (&load.clients, &load.target);
    let tls = url.tls.then(|| tls::offer(load, url, files));
    let timeout = load.arrival.timeout.value?;
    let greeting = load.tls.starttls.given().is_some_and(|dialect| dialect.greets_late());
    let has_one_kind = tls.as_ref().is_none_or(|tls| tls.handshakes.len() == 1);
    Some(LoadPlan {
        target: PlannedTarget {
            url: url.text.clone(),
            addresses: Vec::new(),
            moves_sessions: target.move_sessions.is_on(),
            authority: url.authority.clone(),
        },
        sources: unique(target.source.elements()),
        proxy_header: target.send_proxy.value?,
        tls,
        requests: requests::requests(load, url, files),
        ending: clients.close.value?,
        clients: Clients {
            count: 0,
            requests_per_session: clients.requests_per_session.value?.and_then(Times::bound),
            requests_per_connection: clients.requests_per_connection.value?.bound(),
            think: clients.think_time.value?,
            selection: selection(load, &arrival, has_one_kind),
        },
        arrival,
        warm_up: load.arrival.warm_up.value?,
        rests: false,
        is_background: false,
        duration,
        count_max: load.arrival.count.value?,
        timeout: match load.tls.greeting_timeout.value {
            Some(time) if greeting => timeout + time,
            _ => timeout,
        },
        threads: Threads { count: 0, cpus: Vec::new() },
        seed: load.run.seed.value?,
    })
}

/// Returns the order of free clients. Open load by default has spare clients, so that not all of
/// them begin sessions. If kinds are mixed, each client has one, and all participate.
fn selection(
    load: &WrittenLoad<'_>,
    arrival: &ArrivalModel,
    has_one_kind: bool,
) -> ClientSelection {
    let is_open_by_request = matches!(arrival, ArrivalModel::Open { session_arrivals: false, .. });
    let few_suffice = !load.clients.clients.is_written() && is_open_by_request && has_one_kind;
    let default = if few_suffice { ClientSelection::Fewest } else { ClientSelection::RoundRobin };
    load.clients.client_selection.given().copied().unwrap_or(default)
}

/// Refuses contradictions beyond TLS, requests and arrival.
fn check(load: &WrittenLoad<'_>, url: &Url, allowed_cpus: &[u16]) {
    if !url.tls {
        tls::refuse(load);
    }
    check_sessions(load);
    check_session_arrivals(load);
    check_clients(load);
    check_cpus(load, allowed_cpus);
    check_move(load);
    let written = load.target.connect.elements();
    let endpoints = if written.is_empty() { std::slice::from_ref(&url.endpoint) } else { written };
    let known = endpoints.iter().filter_map(|endpoint| match endpoint {
        Endpoint::Address(address) => Some(address),
        Endpoint::Name { .. } | Endpoint::Service { .. } => None,
    });
    if let Err(problem) = check_families(load.target.source.elements(), known) {
        load.target.source.error(problem);
    }
}

/// Reports whether all handshakes are full, so that no session is resumed.
fn is_full(load: &WrittenLoad<'_>) -> bool {
    load.clients.handshake.value == Some(Some(Handshake::Full))
}

/// Refuses sessions that would never be resumed.
fn check_sessions(load: &WrittenLoad<'_>) {
    let (key, on_connection) =
        (&load.clients.requests_per_session, &load.clients.requests_per_connection);
    let Some(Times::Count(per_session)) = key.given() else {
        return;
    };
    if is_full(load) {
        key.refuse(
            "full handshakes resume no session",
            "--handshake session-id, ticket, psk, any or mixed",
        );
    } else if *per_session == 1 {
        key.refuse("a session for one request is never resumed", "2 or more, or --handshake full");
    } else if on_connection.value.and_then(Times::bound).is_none_or(|many| many >= *per_session) {
        on_connection.refuse(
            format!(
                "all {per_session} requests of a session fit on one connection: none is resumed"
            ),
            "fewer than --requests-per-session",
        );
    }
}

/// Refuses arriving clients that would never leave, and settings without effect on them.
fn check_session_arrivals(load: &WrittenLoad<'_>) {
    if !load.arrival.session_arrivals.is_on() {
        return;
    }
    let clients = &load.clients;
    let (about, times): (&KeyPlace<'_>, _) = if is_full(load) {
        (&clients.requests_per_connection, clients.requests_per_connection.value)
    } else {
        (&clients.requests_per_session, clients.requests_per_session.given().copied())
    };
    let bound = times.and_then(Times::bound);
    about.refuse_if(
        bound.is_none(),
        "is unlimited: a client that arrives would never leave",
        "a number: the requests that each arriving client makes",
    );
    clients.think_time.refuse_if(
        bound == Some(1) && clients.think_time.value != Some(Duration::ZERO),
        "a client that makes one request has nothing to think about",
        "more requests per client, by --requests-per-session or --requests-per-connection",
    );
}

/// Refuses too few clients for the planned concurrency, and too few for the threads.
fn check_clients(load: &WrittenLoad<'_>) {
    let threads = load.run.threads.given().copied().map(u32::from);
    let (clients, connections) = (&load.clients.clients, &load.arrival.connections);
    let too_few = |few: Option<&u32>, many: Option<u32>| few < many.as_ref() && few.is_some();
    clients.refuse_if(
        too_few(clients.given(), connections.given().copied()),
        "fewer clients than --connections, and each does one thing at a time",
        "as many clients as connections, or more",
    );
    clients.refuse_if(
        too_few(clients.given(), threads),
        "fewer clients than --threads, and each belongs to one thread",
        "more clients, or fewer threads",
    );
    connections.refuse_if(
        too_few(connections.given(), threads),
        "fewer connections than --threads: some would have nothing to do",
        "more connections, or fewer threads",
    );
}

fn check_cpus(load: &WrittenLoad<'_>, allowed: &[u16]) {
    let Some(OrNone::This(cpus)) = load.run.cpus.given() else {
        return;
    };
    let denied = cpus.iter().filter(|cpu| !allowed.contains(cpu));
    let denied: Vec<_> = denied.map(u16::to_string).collect();
    let names: Vec<_> = allowed.iter().map(u16::to_string).collect();
    load.run.cpus.refuse_if(
        !denied.is_empty(),
        format!("we may not run on CPU {}", denied.join(", ")),
        format!("those for us are {}", names.join(",")),
    );
}

/// Refuses a move without another server, or without sessions.
fn check_move(load: &WrittenLoad<'_>) {
    let key = &load.target.move_sessions;
    key.refuse_if(
        key.is_on() && load.target.connect.elements().len() < 2,
        "there is one address: a session has no other server to go to",
        "two addresses or more for --connect",
    );
    key.refuse_if(
        key.is_on() && is_full(load),
        "full handshakes resume no session",
        "--handshake any, session-id, ticket, psk or mixed",
    );
}

fn check_families<'a>(
    sources: &[IpAddr],
    targets: impl IntoIterator<Item = &'a Address>,
) -> Result<(), Problem> {
    let mut targets = targets.into_iter();
    targets.try_for_each(|target| check_family(sources, target))
}

fn check_family(sources: &[IpAddr], target: &Address) -> Result<(), Problem> {
    let Address::Ip(target) = target else {
        let wrong = Problem::new("a Unix socket is reached from no address").hint("leave it out");
        return sources.first().map_or(Ok(()), |_| Err(wrong));
    };
    match sources.iter().find(|source| source.is_ipv4() != target.is_ipv4()) {
        None => Ok(()),
        Some(source) => Err(Problem::new(format!(
            "{source} cannot reach {target}: one is IPv4, the other IPv6"
        ))
        .hint("addresses of the target's family")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use options::{Node, Report, flags};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::options::{TABLE, command};
    use crate::plan::{Group, Signature, Spacing, Suite, Verification, Versions};

    const PEM: &str = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";

    fn file(path: &std::path::Path) -> Result<Vec<u8>, String> {
        match path.to_str() {
            Some("missing") => Err("cannot be read".to_owned()),
            Some("empty") => Ok(Vec::new()),
            Some("large") => Ok(vec![b'x'; 20_000]),
            _ => Ok(PEM.as_bytes().to_vec()),
        }
    }

    /// Reads the plan of the words of a command line, the URL first.
    fn read(words: &[&str]) -> Result<(Node, UnresolvedPlan), Vec<String>> {
        let mut given = vec![("url", words[0])];
        let mut words = words[1..].iter().peekable();
        while let Some(flag) = words.next() {
            let value = words.next_if(|word| !word.starts_with("--")).unwrap_or(&"true");
            given.push((&flag[2..], value));
        }
        let report = Report::new(None);
        let root = flags::parse(given, &TABLE, &report);
        let read = crate::options::read(&root, &file, &[0, 1, 2, 3], &report);
        let draft = read.map(|(_, draft)| draft);
        let complaints = report.into_complaints().into_iter();
        let subjects = complaints.filter_map(|one| {
            let Problem { message, hint } = one.problem;
            let has_remedy = hint.is_some() || message.contains("out of range");
            assert!(!message.ends_with('.') && has_remedy, "{message}");
            Some(one.subject?.trim_start_matches("--").to_owned())
        });
        let mut subjects: Vec<_> = subjects.collect();
        subjects.sort_unstable();
        draft.map(|draft| (root, draft)).ok_or(subjects)
    }

    const HTTPS: &str = "https://127.0.0.1:8443/1k";

    /// Reads a line of flags, after a URL if it begins with one; else for a default one.
    fn drafted(line: &str) -> Result<(Node, UnresolvedPlan), Vec<String>> {
        let mut words: Vec<_> = line.split_whitespace().collect();
        if words.first().is_none_or(|first| first.starts_with("--")) {
            words.insert(0, HTTPS);
        }
        read(&words)
    }

    fn planned(line: &str) -> LoadPlan {
        let (_, draft) = drafted(line).unwrap_or_else(|faults| panic!("{line}: {faults:?}"));
        draft.plan(vec![local()]).unwrap()
    }

    fn local() -> Address {
        Address::Ip(SocketAddr::from(([127, 0, 0, 1], 8443)))
    }

    /// Contradictory command lines, each after the option that the refusal names.
    const REFUSED: &str = "
        handshake: --handshake psk --tls 1.2
        ech: --ech GREASE --tls 1.2
        handshake: --ech GREASE --handshake ticket
        ech: --ech no-such-file
        handshake: --handshake session-id --tls 1.3
        handshake: --handshake ticket --tls 1.3
        handshake: --handshake psk --suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        handshake: --handshake mixed --tls 1.2 --tickets off --session-ids off
        handshake: --handshake any --tls 1.2 --tickets off --session-ids off
        tickets: --handshake ticket --tickets off
        session-ids: --handshake session-id --session-ids off
        tickets: --handshake psk --tickets off
        suites suites: --tls 1.3 --suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        suites: --tls both --suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        suites: --suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 --signatures ecdsa
        suites: --suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 --groups X25519MLKEM768
        groups: --tls 1.2 --groups X25519MLKEM768,x25519
        groups: --tls both --groups X25519MLKEM768
        signatures: --tls 1.3 --signatures rsa_pkcs1_sha256
        requests-per-session: --requests-per-session 4
        requests-per-session: --handshake psk --requests-per-session 1
        requests-per-connection: --handshake psk --requests-per-session 4 \
            --requests-per-connection 4
        requests-per-connection: --handshake psk --requests-per-session 4 \
            --requests-per-connection unlimited
        no-request: --no-request --method GET
        no-request: --no-request --early-data --handshake psk
        no-request: http://127.0.0.1/ --no-request
        requests-per-connection: --no-request --requests-per-connection 2
        starttls: --starttls smtp
        size: --size 1k
        method: --method GET --body a
        body-file: --body a --body-file b
        body-file: --body-file missing
        early-data: --early-data
        early-data: --early-data --handshake any --tls 1.2
        early-data: --early-data --handshake psk --body-file large
        alpn ca handshake tls: http://127.0.0.1:8000/ --tls 1.3 --handshake full --ca a --alpn a
        verify: --verify full
        verify: --verify off --ca a
        ca: --ca empty
        ca: --ca missing
        client-key: --client-key a
        client-certificate client-certificate: --client-certificate empty
        client-key: --client-certificate a --client-key missing
        server-name: https://host/ --ca a --server-name none
        alpn: --alpn h2
        rate: --rate 1 --ramp 1:2:3s
        steps: --steps 1,2 --ramp 1:2:3s
        connections: --rate 5 --connections 5
        spacing: --spacing poisson
        session-arrivals: --session-arrivals
        step-duration: --step-duration 1s
        step-duration: --find-capacity --step-duration 1ms
        limit precision: --limit mean<1s --precision 1%
        duration: --steps 1,2 --duration 1s
        count: --find-capacity --count 5
        duration: --ramp 1:2:3s --duration 2s
        warm-up: --ramp 0:2:3s --warm-up 1s
        client-selection: --rate 5 --session-arrivals --client-selection round-robin
        requests-per-session: --rate 5 --session-arrivals --handshake any
        requests-per-session: --rate 5 --session-arrivals --handshake psk \
            --requests-per-session unlimited
        requests-per-connection: --rate 5 --session-arrivals --requests-per-connection unlimited
        think-time: --rate 5 --session-arrivals --think-time 1s
        clients: --clients 2 --threads 3
        connections: --connections 2 --threads 3
        clients: --clients 2 --connections 3
        cpus: --cpus 2-9
        source: --source ::1
        move-sessions: --move-sessions --connect 127.0.0.1:1 --handshake any
        move-sessions: --move-sessions --connect 127.0.0.1:1,127.0.0.1:2
        move-sessions: --move-sessions --handshake any
        start-at: --start-at 2026-11-23
        source: --connect unix:/run/a --source 127.0.0.2
        connections handshake size verify: --handshake psk --tls 1.2 --size 1k --rate 5 \
            --connections 2 --verify full
        clients count rate tls: --clients 0 --count x --rate much --tls 1.4
    ";

    #[test]
    fn contradictions_are_all_told() {
        let table = REFUSED.replace("\\\n", " ");
        for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
            let (wanted, line) = row.split_once(": ").unwrap();
            match drafted(line) {
                Ok((_, draft)) => panic!("{line}: {draft:?}"),
                Err(blamed) => assert_eq!(blamed.join(" "), wanted, "{line}"),
            }
        }
    }

    #[test]
    fn a_url_alone_is_a_plan() {
        let plan = planned(HTTPS);
        assert_eq!(plan.arrival, ArrivalModel::Closed { connections: 50 });
        assert_eq!(plan.clients.count, 50);
        assert_eq!(plan.clients.requests_per_connection, Some(1));
        assert_eq!(plan.duration, Duration::from_secs(10));
        assert_eq!(plan.target.authority, "127.0.0.1:8443");
        assert_eq!((plan.threads.count, plan.threads.cpus), (2, vec![2, 3]));
        let tls = plan.tls.unwrap();
        assert_eq!((tls.versions, tls.server_name), (Versions::Both, None));
        assert_eq!(tls.handshakes, [Handshake::Full]);
        assert_eq!(tls.suites, Suite::ALL);
        let lists = (tls.groups, tls.signatures);
        assert_eq!(lists, (Group::ALL.to_vec(), Signature::ALL.to_vec()));
        assert!(tls.tickets && tls.session_ids && !tls.early_data);
        let request = &plan.requests[0];
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/1k"));
        let named = planned("https://www.example.org./").tls.unwrap();
        assert_eq!(named.server_name.unwrap(), "www.example.org");
    }

    #[test]
    fn defaults_that_are_typed_change_nothing() {
        let default = format!("{:?}", planned(HTTPS));
        for key in TABLE.keys {
            if let options::Default::Text(text) = key.default {
                let line = format!("--{} {text}", key.path);
                assert_eq!(format!("{:?}", planned(&line)), default, "{line}");
            }
        }
    }

    #[test]
    fn the_table_is_sound_and_its_examples_are_values() {
        assert_eq!(TABLE.faults(), Vec::<String>::new());
        for key in TABLE.keys {
            let example = key.example_value();
            let given = [("url", HTTPS), (key.path, example.as_str())];
            let given = given.into_iter().skip(usize::from(key.path == "url"));
            let report = Report::new(None);
            let root = flags::parse(given, &TABLE, &report);
            let _ = WrittenLoad::of_root(&root, &report);
            assert_eq!(report.errors(), 0, "{}: {example}", key.path);
        }
    }

    #[test]
    fn the_command_is_without_a_file() {
        let line = "--early-data --handshake psk --suites TLS_AES_128_GCM_SHA256 --header A:b";
        let (root, _) = drafted(&format!("{line} --header C:d --tickets on")).unwrap();
        let wanted = "--handshake psk --header A:b --header C:d --suites TLS_AES_128_GCM_SHA256 \
                      --tickets on --early-data";
        assert_eq!(command(&root).join(" "), format!("load {HTTPS} {wanted}"));
    }

    #[test]
    fn versions_follow_from_the_rest() {
        for (flags, version) in [
            ("--handshake ticket", Versions::Tls12),
            ("--handshake psk", Versions::Tls13),
            ("--handshake any", Versions::Both),
            ("--suites TLS_AES_128_GCM_SHA256", Versions::Tls13),
            ("--groups X25519MLKEM768", Versions::Tls13),
            ("--signatures rsa_pkcs1_sha256", Versions::Tls12),
        ] {
            assert_eq!(planned(flags).tls.unwrap().versions, version, "{flags}");
        }
    }

    #[test]
    fn mixed_is_what_the_rest_leaves() {
        use Handshake::{Full, Psk, SessionId, Ticket};
        for (flags, kinds) in [
            ("", &[Full, SessionId, Ticket, Psk][..]),
            ("--tls 1.2", &[Full, SessionId, Ticket]),
            ("--tls 1.3", &[Full, Psk]),
            ("--tls 1.2 --tickets off", &[Full, SessionId]),
        ] {
            let plan = planned(&format!("--handshake mixed {flags}"));
            assert_eq!(plan.tls.unwrap().handshakes, kinds, "{flags}");
        }
    }

    #[test]
    fn requests_and_certificates_are_as_asked() {
        let plan = planned("--handshake psk --requests-per-session 4 --requests-per-connection 2");
        assert_eq!(plan.clients.requests_per_session, Some(4));
        assert_eq!(planned("--handshake psk").clients.requests_per_session, None);
        let nothing = planned("--no-request --requests-per-connection 1 --alpn h2");
        assert!(nothing.requests.is_empty());
        assert_eq!(nothing.tls.unwrap().alpn, [b"h2"]);
        assert_eq!(planned("--body a").requests[0].method, "POST");
        let sized = planned("https://127.0.0.1 --size 64k");
        assert_eq!(sized.requests[0].path, "/?size=65536");
        for kinds in ["psk", "mixed", "any"] {
            let plan = planned(&format!("--early-data --handshake {kinds}"));
            assert!(plan.tls.unwrap().early_data);
        }
        assert!(planned("http://127.0.0.1:8000/").tls.is_none());
        let tls = planned("--ca a --client-certificate b").tls.unwrap();
        let authority = Verification::Authority(PEM.as_bytes().to_vec());
        assert_eq!(tls.verification, authority);
        assert!(tls.client_certificate.is_some());
        assert_eq!(tls.server_name.unwrap(), "127.0.0.1", "checked, never sent");
    }

    #[test]
    fn stretches_fill_the_duration() {
        let of = |flags: &str| {
            let plan = planned(flags);
            let ArrivalModel::Open { stretches, spacing, .. } = plan.arrival else {
                panic!("{flags} is open load");
            };
            let sum: Duration = stretches.iter().map(|stretch| stretch.length).sum();
            assert_eq!(sum, plan.duration, "{flags}");
            (stretches.len(), sum.as_secs(), plan.clients.count, spacing)
        };
        assert_eq!(of("--rate 5"), (1, 10, 1000, Spacing::Constant));
        assert_eq!(of("--rate 5 --count 3").1, 3600);
        assert_eq!(of("--ramp 1:5:30s"), (1, 30, 1000, Spacing::Constant));
        assert_eq!(of("--ramp 1:5:30s --duration 1m --clients 9"), (2, 60, 9, Spacing::Constant));
        assert_eq!(
            of("--steps 1,2,3 --step-duration 2s --spacing poisson"),
            (3, 6, 1000, Spacing::Poisson)
        );
    }

    #[test]
    fn users_bring_as_many_requests_as_their_session_or_connection_has() {
        let each = |flags: &str| planned(flags).requests_per_arrival();
        assert_eq!(each("--rate 5"), None);
        assert_eq!(each("--connections 5"), None);
        assert_eq!(each("--rate 5 --session-arrivals"), Some(1));
        let kept = "--ramp 1:5:3s --session-arrivals --requests-per-connection 7";
        assert_eq!(each(kept), Some(7));
        let resumed = "--steps 1,5 --session-arrivals --handshake psk --requests-per-session 4";
        assert_eq!(each(resumed), Some(4));
        assert_eq!(planned(resumed).clients.selection, ClientSelection::RoundRobin);
        let plain = "http://127.0.0.1/ --rate 5 --session-arrivals --requests-per-connection 3";
        assert_eq!(planned(plain).requests_per_arrival(), Some(3));
    }

    #[test]
    fn a_search_is_told_apart() {
        let (_, draft) = drafted("--find-capacity --rate 40 --limit p99<20ms").unwrap();
        let search = draft.search.unwrap();
        assert_eq!((search.first_per_s, search.precision), (40.0, 0.05));
        assert_eq!(search.limit.quantile(), 0.99);
        assert_eq!((search.step, draft.planned), (Duration::from_secs(5), None));
        assert_eq!(drafted("--count 5").unwrap().1.planned, None);
        let timed = drafted(HTTPS).unwrap().1.planned;
        assert_eq!(timed, Some(Duration::from_secs(10)));
    }

    #[test]
    fn every_thread_has_something_to_do() {
        for (line, threads) in
            [("--connections 1", 1), ("--rate 5 --clients 1", 1), ("--cpus 0,2,3", 3)]
        {
            assert_eq!(planned(line).threads.count, threads, "{line}");
        }
        for (line, connections) in [("--threads 60", 60), ("--clients 8", 8)] {
            assert_eq!(planned(line).arrival, ArrivalModel::Closed { connections });
        }
        let far = Address::Ip(SocketAddr::from(([192, 0, 2, 1], 443)));
        let plan = drafted("https://host/").unwrap().1.plan(vec![far]).unwrap();
        assert_eq!((plan.threads.count, plan.threads.cpus.len()), (4, 4));
        let named = drafted("https://localhost/ --source ::1").unwrap().1;
        assert!(named.plan(vec![local()]).unwrap_err().message.contains("cannot reach"));
    }

    /// Returns a few values of each option; those of one name may contradict those of another.
    fn samples(key: &options::Key) -> Vec<String> {
        let of = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        match key.path {
            "url" => of(&["https://127.0.0.1:8443/", "https://h/1k", "http://[::1]:80/"]),
            "connect" => of(&["unix:@a", "127.0.0.1:1", "name:2"]),
            "source" => of(&["127.0.0.2", "::1"]),
            "handshake" => of(&["full", "session-id", "ticket", "psk", "any", "mixed"]),
            "requests-per-session" | "requests-per-connection" => of(&["1", "3", "unlimited"]),
            "clients" | "connections" | "threads" => of(&["1", "2", "70"]),
            "tls" => of(&["1.2", "1.3", "both"]),
            "suites" => of(Suite::NAMES),
            "groups" => of(&["x25519", "X25519MLKEM768", "x25519,X25519MLKEM768"]),
            "signatures" => of(&["rsa", "ecdsa", "rsa_pkcs1_sha256", "ed25519"]),
            "tickets" | "session-ids" => of(&["on", "off"]),
            "server-name" => of(&["none", "a.example"]),
            "verify" => of(&["off", "signature", "full"]),
            "cpus" => of(&["none", "0", "1,2,3"]),
            "ramp" => of(&["0:5:3s", "5:0:3s", "5:5:20s"]),
            "duration" | "warm-up" => of(&["1s", "20s"]),
            _ => vec![key.example_value()],
        }
    }

    fn assert_sound(plan: &LoadPlan) {
        let (threads, clients) = (u32::from(plan.threads.count), plan.clients.count);
        assert!(threads >= 1 && clients >= threads);
        match &plan.arrival {
            ArrivalModel::Closed { connections } => {
                assert!((threads..=clients).contains(connections));
            }
            ArrivalModel::Open { stretches, .. } => {
                let sum: Duration = stretches.iter().map(|stretch| stretch.length).sum();
                assert_eq!(sum, plan.duration);
            }
        }
        let Some(tls) = &plan.tls else {
            return assert!(!plan.requests.is_empty());
        };
        for kind in &tls.handshakes {
            let (tls12, tls13) = match kind {
                Handshake::SessionId | Handshake::Ticket => (true, false),
                Handshake::Psk => (false, true),
                Handshake::Full | Handshake::Any => {
                    (tls.versions != Versions::Tls13, tls.versions != Versions::Tls12)
                }
            };
            let hybrid = Group::X25519MlKem768;
            assert!(!tls12 || tls.suites.iter().any(|suite| !suite.is_tls13()));
            assert!(!tls13 || tls.suites.iter().any(|suite| suite.is_tls13()));
            assert!(!tls12 || tls.groups.iter().any(|group| *group != hybrid));
            assert!(!tls.groups.is_empty() && !tls.signatures.is_empty());
        }
        assert!(!tls.early_data || !plan.requests.is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Any input is refused with reasons, or is a plan that the engine can trust, and the same
        /// plan by the command that repeats it.
        #[test]
        fn a_plan_is_sound_or_refused(
            picks in prop::collection::vec((1..TABLE.keys.len(), any::<Index>()), 0..7),
            url in any::<Index>(),
        ) {
            let mut words = vec![url.get(&samples(&TABLE.keys[0])).clone()];
            for (number, sample) in picks {
                let key = &TABLE.keys[number];
                let flag = format!("--{}", key.path);
                if !words.contains(&flag) {
                    let value = sample.get(&samples(key)).clone();
                    words.extend([flag, value]);
                }
            }
            let typed: Vec<_> = words.iter().map(String::as_str).collect();
            let Ok((root, draft)) = read(&typed) else {
                return Ok(());
            };
            let Ok(plan) = draft.plan(vec![local()]) else {
                return Ok(());
            };
            assert_sound(&plan);
            let repeated = command(&root);
            let again: Vec<_> = repeated[1..].iter().map(String::as_str).collect();
            let again = read(&again).unwrap_or_else(|faults| panic!("{words:?}: {faults:?}"));
            let again = again.1.plan(vec![local()]).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{plan:?}"));
        }
    }
}
