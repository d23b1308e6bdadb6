//! A plan that lacks only the address: everything has been held against everything else.

use std::net::IpAddr;
use std::time::Duration;

use options::{Problem, Section};
use wire::address::{Address, Endpoint};

use super::arriving::Arriving;
use super::asked::Options;
use super::files::Files;
use super::limit::Search;
use super::value::{Kinds, OrNone, Times};
use super::{arriving, request, tls};
use crate::plan::{
    ArrivalModel, ClientSelection, Clients, Handshake, LoadPlan, PlannedRequest, PlannedTarget,
    PlannedTls, Threads,
};

/// A plan without contradictions, before names are resolved.
#[derive(Clone, Debug)]
pub struct UnresolvedPlan {
    asked: Options,
    endpoints: Vec<Endpoint>,
    tls: Option<PlannedTls>,
    request: Option<PlannedRequest>,
    arriving: Arriving,
    allowed_cpus: Vec<u16>,
}

const CONNECTIONS_DEFAULT: u32 = 50;
const OPEN_CLIENTS_DEFAULT: u32 = 1000;

impl Options {
    /// Holds everything against everything else; contradictions are reported.
    pub(crate) fn unresolved(
        &self,
        files: Files<'_>,
        allowed_cpus: &[u16],
        top: &Section<'_>,
    ) -> UnresolvedPlan {
        let url = &self.url;
        let tls = url.tls.then(|| tls::offer(self, url, files, top));
        if tls.is_none() {
            tls::refuse(top);
        }
        check_sessions(self, top);
        check_session_arrivals(self, top);
        check_clients(self, top);
        check_cpus(self, allowed_cpus, top);
        check_move(self, top);
        let mut endpoints = self.connect.clone();
        if endpoints.is_empty() {
            endpoints.push(url.endpoint.clone());
        }
        let known = endpoints.iter().filter_map(|endpoint| match endpoint {
            Endpoint::Address(address) => Some(address),
            Endpoint::Name { .. } | Endpoint::Service { .. } => None,
        });
        if let Err(problem) = check_families(&self.sources, known) {
            top.error("source", problem);
        }
        UnresolvedPlan {
            endpoints,
            tls,
            request: request::request(self, url, files, top),
            arriving: arriving::arriving(self, top),
            allowed_cpus: allowed_cpus.to_vec(),
            asked: self.clone(),
        }
    }
}

/// Refuses sessions that would never be resumed.
fn check_sessions(options: &Options, top: &Section<'_>) {
    let Some(Times::Count(per_session)) = options.requests_per_session else {
        return;
    };
    if options.kinds == Kinds::Only(Handshake::Full) {
        top.refuse(
            "requests-per-session",
            "full handshakes resume no session",
            "--handshake session-id, ticket, psk, any or mixed",
        );
        return;
    }
    if per_session == 1 {
        top.refuse(
            "requests-per-session",
            "a session for one request is never resumed",
            "2 or more, or --handshake full",
        );
        return;
    }
    let on_one_connection = match options.requests_per_connection {
        Times::Unlimited => true,
        Times::Count(per_connection) => per_connection >= per_session,
    };
    top.refuse_if(
        on_one_connection,
        "requests-per-connection",
        format!("all {per_session} requests of a session fit on one connection: none is resumed"),
        "fewer than --requests-per-session",
    );
}

/// Refuses arriving clients that would never leave, and settings without effect on them.
fn check_session_arrivals(options: &Options, top: &Section<'_>) {
    if !options.session_arrivals {
        return;
    }
    let resumes = options.kinds != Kinds::Only(Handshake::Full);
    let (about, times) = if resumes {
        ("requests-per-session", options.requests_per_session)
    } else {
        ("requests-per-connection", Some(options.requests_per_connection))
    };
    let bound = times.and_then(Times::bound);
    top.refuse_if(
        bound.is_none(),
        about,
        "is unlimited: a client that arrives would never leave",
        "a number: the requests that each arriving client makes",
    );
    top.refuse_if(
        bound == Some(1) && !options.think.is_zero(),
        "think-time",
        "a client that makes one request has nothing to think about",
        "more requests per client, by --requests-per-session or --requests-per-connection",
    );
}

/// Refuses too few clients for what is to be under way, and too few for the threads.
fn check_clients(options: &Options, top: &Section<'_>) {
    let threads = options.threads.map(u32::from);
    let too_few = |few: Option<u32>, many: Option<u32>| few < many && few.is_some();
    top.refuse_if(
        too_few(options.clients, options.connections),
        "clients",
        "fewer clients than --connections, and each does one thing at a time",
        "as many clients as connections, or more",
    );
    top.refuse_if(
        too_few(options.clients, threads),
        "clients",
        "fewer clients than --threads, and each belongs to one thread",
        "more clients, or fewer threads",
    );
    top.refuse_if(
        too_few(options.connections, threads),
        "connections",
        "fewer connections than --threads: some would have nothing to do",
        "more connections, or fewer threads",
    );
}

fn check_cpus(options: &Options, allowed: &[u16], top: &Section<'_>) {
    let Some(OrNone::This(cpus)) = &options.cpus else {
        return;
    };
    let denied = cpus.iter().filter(|cpu| !allowed.contains(cpu));
    let denied: Vec<_> = denied.map(u16::to_string).collect();
    let names: Vec<_> = allowed.iter().map(u16::to_string).collect();
    top.refuse_if(
        !denied.is_empty(),
        "cpus",
        format!("we may not run on CPU {}", denied.join(", ")),
        format!("those for us are {}", names.join(",")),
    );
}

/// Refuses a move without another server, or without sessions.
fn check_move(options: &Options, top: &Section<'_>) {
    if !options.move_sessions {
        return;
    }
    top.refuse_if(
        options.connect.len() < 2,
        "move-sessions",
        "there is one address: a session has no other server to go to",
        "two addresses or more for --connect",
    );
    top.refuse_if(
        options.kinds == Kinds::Only(Handshake::Full),
        "move-sessions",
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

impl UnresolvedPlan {
    /// Where connections go; names are to be resolved.
    #[must_use]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// The search for capacity, if one was asked for. The plan is then that of the first rate.
    #[must_use]
    pub fn search(&self) -> Option<Search> {
        self.arriving.search
    }

    /// How long it will take, the warm-up not included; `None` = until a count is reached.
    #[must_use]
    pub fn planned(&self) -> Option<Duration> {
        let Arriving { stretches, duration, search } = &self.arriving;
        let is_timed = self.asked.count.is_none()
            || self.asked.duration.is_some()
            || stretches.as_ref().is_some_and(|all| all.len() > 1);
        (is_timed && search.is_none()).then_some(*duration)
    }

    /// The whole plan, with the addresses of [`Self::endpoints`].
    ///
    /// # Errors
    /// The option `source` names addresses that cannot reach these.
    pub fn plan(self, addresses: Vec<Address>) -> Result<LoadPlan, Problem> {
        check_families(&self.asked.sources, &addresses)?;
        let threads = self.thread_count(&addresses);
        let connections = self.connection_count(threads);
        let clients = self.client_count(threads, connections);
        let selection = self.selection();
        let asked = self.asked;
        Ok(LoadPlan {
            target: PlannedTarget {
                url: asked.url.text,
                addresses,
                moves_sessions: asked.move_sessions,
                authority: asked.url.authority,
            },
            sources: asked.sources,
            proxy_header: asked.send_proxy,
            tls: self.tls,
            request: self.request,
            ending: asked.ending,
            clients: Clients {
                count: clients,
                requests_per_session: asked.requests_per_session.and_then(Times::bound),
                requests_per_connection: asked.requests_per_connection.bound(),
                think: asked.think,
                selection,
            },
            arrival: match self.arriving.stretches {
                None => ArrivalModel::Closed { connections },
                Some(stretches) => ArrivalModel::Open {
                    stretches,
                    spacing: asked.spacing,
                    session_arrivals: asked.session_arrivals,
                },
            },
            warm_up: asked.warm_up,
            rests: false,
            is_background: false,
            duration: self.arriving.duration,
            count_max: asked.count,
            timeout: match asked.starttls {
                Some(dialect) if dialect.greets_late() => asked.timeout + asked.greeting_timeout,
                _ => asked.timeout,
            },
            threads: Threads {
                count: threads,
                cpus: pinned(asked.cpus, &self.allowed_cpus, threads),
            },
            seed: asked.seed,
        })
    }

    /// A target on this host needs CPUs of its own.
    fn thread_count(&self, targets: &[Address]) -> u16 {
        if let Some(threads) = self.asked.threads {
            return threads;
        }
        let all = self.allowed_cpus.len();
        let is_here = |target: &Address| match target {
            Address::Unix(_) | Address::Inherited(_) => true,
            Address::Ip(address) => address.ip().to_canonical().is_loopback(),
        };
        let count = match &self.asked.cpus {
            Some(OrNone::This(cpus)) => cpus.len(),
            _ if targets.iter().any(is_here) => all / 2,
            _ => all,
        };
        let client_pool = self.asked.clients.into_iter().chain(self.asked.connections).min();
        let most = client_pool.unwrap_or(u32::MAX).min(u16::MAX.into());
        u16::try_from(count).unwrap_or(u16::MAX).clamp(1, u16::try_from(most).unwrap_or(u16::MAX))
    }

    fn connection_count(&self, threads: u16) -> u32 {
        let default = CONNECTIONS_DEFAULT.max(threads.into());
        let most = self.asked.clients.unwrap_or(u32::MAX);
        self.asked.connections.unwrap_or_else(|| default.min(most))
    }

    /// Open load without a number of clients has more than it needs, so that none is wanting: not
    /// all are to begin sessions. Where kinds are mixed, each client has one, and all take part.
    fn selection(&self) -> ClientSelection {
        let has_one_kind = self.tls.as_ref().is_none_or(|tls| tls.handshakes.len() == 1);
        let is_open_by_request = self.arriving.stretches.is_some() && !self.asked.session_arrivals;
        let few_suffice = self.asked.clients.is_none() && is_open_by_request && has_one_kind;
        let default =
            if few_suffice { ClientSelection::Fewest } else { ClientSelection::RoundRobin };
        self.asked.selection.unwrap_or(default)
    }

    fn client_count(&self, threads: u16, connections: u32) -> u32 {
        let default = match self.arriving.stretches {
            None => connections,
            Some(_) => OPEN_CLIENTS_DEFAULT.max(threads.into()),
        };
        self.asked.clients.unwrap_or(default)
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

    /// What words of a command line ask for, the URL first.
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
        let complaints = report.into_complaints().into_iter();
        let subjects = complaints.filter_map(|one| {
            let Problem { message, hint } = one.problem;
            let has_remedy = hint.is_some() || message.contains("out of range");
            assert!(!message.ends_with('.') && has_remedy, "{message}");
            Some(one.subject?.trim_start_matches("--").to_owned())
        });
        let mut subjects: Vec<_> = subjects.collect();
        subjects.sort_unstable();
        read.map(|(_, draft)| (root, draft)).ok_or(subjects)
    }

    const HTTPS: &str = "https://127.0.0.1:8443/1k";

    /// A line of flags, after a URL where it begins with one; else for one of ours.
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

    /// What is wrong, options that are blamed first.
    const REFUSED: &str = "
        handshake: --handshake psk --tls 1.2
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
        let request = plan.request.unwrap();
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
            assert!(Options::read(&Section::top(&TABLE, &root, &report)).is_some());
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
    fn suites_groups_and_signatures_belong_to_versions() {
        let tls = planned("--tls 1.2 --signatures rsa").tls.unwrap();
        assert!(tls.suites.iter().all(|suite| suite.name().contains("_RSA_")));
        assert_eq!(tls.suites.len(), 3);
        assert!(!tls.groups.contains(&Group::X25519MlKem768));
        let ecdsa = planned("--signatures ecdsa").tls.unwrap();
        assert_eq!(ecdsa.suites.len(), 6);
        assert_eq!(planned("--tls 1.3").tls.unwrap().suites.len(), 3);
    }

    #[test]
    fn requests_and_certificates_are_as_asked() {
        let plan = planned("--handshake psk --requests-per-session 4 --requests-per-connection 2");
        assert_eq!(plan.clients.requests_per_session, Some(4));
        assert_eq!(planned("--handshake psk").clients.requests_per_session, None);
        let nothing = planned("--no-request --requests-per-connection 1 --alpn h2");
        assert!(nothing.request.is_none());
        assert_eq!(nothing.tls.unwrap().alpn, [b"h2"]);
        assert_eq!(planned("--body a").request.unwrap().method, "POST");
        let sized = planned("https://127.0.0.1 --size 64k").request.unwrap();
        assert_eq!(sized.path, "/?size=65536");
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
        let search = draft.search().unwrap();
        assert_eq!((search.first_per_s, search.precision), (40.0, 0.05));
        assert_eq!(search.limit.quantile(), 0.99);
        assert_eq!((search.step, draft.planned()), (Duration::from_secs(5), None));
        assert_eq!(drafted("--count 5").unwrap().1.planned(), None);
        let timed = drafted(HTTPS).unwrap().1.planned();
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

    /// A few values of each option; those of one name may contradict those of another.
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
            return assert!(plan.request.is_some());
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
        assert!(!tls.early_data || plan.request.is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Whatever is typed is refused with reasons, or is a plan that the engine can believe,
        /// and the same plan by the command that repeats it.
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
