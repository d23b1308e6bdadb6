//! A plan that lacks only the address: everything has been held against everything else.

use std::net::IpAddr;
use std::time::Duration;

use wire::address::{Address, Endpoint};

use super::arriving::{self, Arriving};
use super::fault::{Faults, PlanFault};
use super::limit::Search;
use super::settings::{Files, Options};
use super::table::SETTINGS;
use super::url::Url;
use super::value::{Kinds, OrNone, Times};
use super::{request, tls};
use crate::plan::{
    Arrival, ClientSelection, Clients, ConnectionEnding, Handshake, Plan, ProxyVersion, Request,
    Target, Threads, Tls,
};

/// A plan without contradictions, before names are resolved.
#[derive(Clone, Debug)]
pub struct UnresolvedPlan {
    url: Url,
    endpoint: Endpoint,
    sources: Vec<IpAddr>,
    proxy_header: Option<ProxyVersion>,
    tls: Option<Tls>,
    request: Option<Request>,
    ending: ConnectionEnding,
    requests_per_session: Option<u32>,
    requests_per_connection: Option<u32>,
    clients: Option<u32>,
    selection: Option<ClientSelection>,
    connections: Option<u32>,
    think: Duration,
    arriving: Arriving,
    count_max: Option<u64>,
    is_timed: bool,
    warm_up: Duration,
    timeout: Duration,
    threads: Option<u16>,
    cpus: Option<OrNone<Vec<u16>>>,
    allowed_cpus: Vec<u16>,
    seed: u64,
}

const CONNECTIONS_DEFAULT: u32 = 50;
const OPEN_CLIENTS_DEFAULT: u32 = 1000;
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);
const SEED_DEFAULT: u64 = 1;

impl Options {
    /// Fills in what was not typed, and holds everything against everything else. `files` are
    /// what [`Options::files`] named, `allowed_cpus` those that this program may run on.
    ///
    /// # Errors
    /// Every contradiction.
    pub fn validate(
        &self,
        files: &Files,
        allowed_cpus: &[u16],
    ) -> Result<UnresolvedPlan, Vec<PlanFault>> {
        let mut faults = Faults::default();
        let Some(url) = self.url.clone() else {
            faults.add(
                "url",
                "is missing",
                "for example: lariat-lab load https://127.0.0.1:8443/",
            );
            return Err(faults.into_list());
        };
        let tls = tls(self, &url, files, &mut faults);
        let request = request::request(self, &url, files, &mut faults);
        let arriving = arriving::arriving(self, &mut faults);
        check_sessions(self, &mut faults);
        check_session_arrivals(self, &mut faults);
        check_clients(self, &mut faults);
        check_cpus(self, allowed_cpus, &mut faults);
        let endpoint = self.connect.clone().unwrap_or_else(|| url.endpoint.clone());
        check_sources(&self.sources, &endpoint, &mut faults);
        let per_connection = self.requests_per_connection.unwrap_or(Times::Count(1));
        faults.or(UnresolvedPlan {
            endpoint,
            url,
            sources: self.sources.clone(),
            proxy_header: self.send_proxy,
            tls,
            request,
            ending: self.ending.unwrap_or(ConnectionEnding::Close),
            requests_per_session: self.requests_per_session.and_then(Times::bound),
            requests_per_connection: per_connection.bound(),
            clients: self.clients,
            selection: self.selection,
            connections: self.connections,
            think: self.think.unwrap_or_default(),
            is_timed: self.count.is_none() || self.duration.is_some(),
            arriving,
            count_max: self.count,
            warm_up: self.warm_up.unwrap_or_default(),
            timeout: self.timeout.unwrap_or(TIMEOUT_DEFAULT),
            threads: self.threads,
            cpus: self.cpus.clone(),
            allowed_cpus: allowed_cpus.to_vec(),
            seed: self.seed.unwrap_or(SEED_DEFAULT),
        })
    }
}

fn tls(options: &Options, url: &Url, files: &Files, faults: &mut Faults) -> Option<Tls> {
    if url.tls {
        return Some(tls::offer(options, url, files, faults));
    }
    let of_tls = SETTINGS.iter().filter(|setting| setting.of_tls);
    let names: Vec<_> = of_tls.map(|setting| setting.name).collect();
    tls::refuse(options, &names, faults);
    None
}

/// Refuses sessions that would never be resumed.
fn check_sessions(options: &Options, faults: &mut Faults) {
    let Some(Times::Count(per_session)) = options.requests_per_session else {
        return;
    };
    if matches!(options.kinds, None | Some(Kinds::Only(Handshake::Full))) {
        faults.add(
            "requests-per-session",
            "full handshakes resume no session",
            "--handshake session-id, ticket, psk, any or mixed",
        );
        return;
    }
    if per_session == 1 {
        faults.add(
            "requests-per-session",
            "a session for one request is never resumed",
            "2 or more, or --handshake full",
        );
        return;
    }
    let on_one_connection = match options.requests_per_connection {
        None => false,
        Some(Times::Unlimited) => true,
        Some(Times::Count(per_connection)) => per_connection >= per_session,
    };
    faults.add_if(
        on_one_connection,
        "requests-per-connection",
        format!("all {per_session} requests of a session fit on one connection: none is resumed"),
        "fewer than --requests-per-session",
    );
}

/// Refuses arriving clients that would never leave, and settings without effect on them.
fn check_session_arrivals(options: &Options, faults: &mut Faults) {
    if !options.session_arrivals {
        return;
    }
    faults.add_if(
        options.selection.is_some(),
        "client-selection",
        "with --session-arrivals every client is new, so there is nothing to select from",
        "leave out one of the two",
    );
    let resumes = !matches!(options.kinds, None | Some(Kinds::Only(Handshake::Full)));
    let bound = match resumes {
        true => options.requests_per_session.and_then(Times::bound),
        false => options
            .requests_per_connection
            .unwrap_or(Times::Count(1))
            .bound(),
    };
    let about = match resumes {
        true => "requests-per-session",
        false => "requests-per-connection",
    };
    faults.add_if(
        bound.is_none(),
        about,
        "is unlimited: a client that arrives would never leave",
        "a number: the requests that each arriving client makes",
    );
    faults.add_if(
        bound == Some(1) && options.think.is_some_and(|time| !time.is_zero()),
        "think-time",
        "a client that makes one request has nothing to think about",
        "more requests per client, by --requests-per-session or --requests-per-connection",
    );
}

/// Refuses too few clients for what is to be under way, and too few for the threads.
fn check_clients(options: &Options, faults: &mut Faults) {
    let threads = options.threads.map(u32::from);
    let too_few = |few: Option<u32>, many: Option<u32>| few < many && few.is_some();
    faults.add_if(
        too_few(options.clients, options.connections),
        "clients",
        "fewer clients than --connections, and each does one thing at a time",
        "as many clients as connections, or more",
    );
    faults.add_if(
        too_few(options.clients, threads),
        "clients",
        "fewer clients than --threads, and each belongs to one thread",
        "more clients, or fewer threads",
    );
    faults.add_if(
        too_few(options.connections, threads),
        "connections",
        "fewer connections than --threads: some would have nothing to do",
        "more connections, or fewer threads",
    );
}

fn check_cpus(options: &Options, allowed: &[u16], faults: &mut Faults) {
    let Some(OrNone::This(cpus)) = &options.cpus else {
        return;
    };
    let denied = cpus.iter().filter(|cpu| !allowed.contains(cpu));
    let denied: Vec<_> = denied.map(u16::to_string).collect();
    let names: Vec<_> = allowed.iter().map(u16::to_string).collect();
    faults.add_if(
        !denied.is_empty(),
        "cpus",
        format!("we may not run on CPU {}", denied.join(", ")),
        format!("those for us are {}", names.join(",")),
    );
}

fn check_sources(sources: &[IpAddr], endpoint: &Endpoint, faults: &mut Faults) {
    if let Endpoint::Address(address) = endpoint {
        check_family(sources, address, faults);
    }
}

fn check_family(sources: &[IpAddr], target: &Address, faults: &mut Faults) {
    let Address::Ip(target) = target else {
        faults.add_if(
            !sources.is_empty(),
            "source",
            "a Unix socket is reached from no address",
            "leave it out",
        );
        return;
    };
    for source in sources {
        faults.add_if(
            source.is_ipv4() != target.is_ipv4(),
            "source",
            format!("{source} cannot reach {target}: one is IPv4, the other IPv6"),
            "addresses of the target's family",
        );
    }
}

impl UnresolvedPlan {
    /// Whom to resolve, if it is a name.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The search for capacity, if one was asked for. The plan is then that of the first rate.
    #[must_use]
    pub fn search(&self) -> Option<Search> {
        self.arriving.search
    }

    /// How long it will take, the warm-up not included; `None` = until a count is reached.
    #[must_use]
    pub fn planned(&self) -> Option<Duration> {
        let timed = self.is_timed
            || self
                .arriving
                .stretches
                .as_ref()
                .is_some_and(|s| s.len() > 1);
        (timed && self.arriving.search.is_none()).then_some(self.arriving.duration)
    }

    /// The whole plan.
    ///
    /// # Errors
    /// Our own addresses that cannot reach this one.
    pub fn plan(self, address: Address) -> Result<Plan, Vec<PlanFault>> {
        let mut faults = Faults::default();
        check_family(&self.sources, &address, &mut faults);
        faults.or(())?;
        let threads = self.thread_count(&address);
        let connections = self.connection_count(threads);
        let clients = self.client_count(threads, connections);
        let selection = self.selection();
        Ok(Plan {
            target: Target {
                url: self.url.text,
                address,
                authority: self.url.authority,
            },
            sources: self.sources,
            proxy_header: self.proxy_header,
            tls: self.tls,
            request: self.request,
            ending: self.ending,
            clients: Clients {
                count: clients,
                requests_per_session: self.requests_per_session,
                requests_per_connection: self.requests_per_connection,
                think: self.think,
                selection,
            },
            arrival: match self.arriving.stretches {
                None => Arrival::Closed { connections },
                Some(stretches) => Arrival::Open {
                    stretches,
                    spacing: self.arriving.spacing,
                    session_arrivals: self.arriving.session_arrivals,
                },
            },
            warm_up: self.warm_up,
            rests: false,
            duration: self.arriving.duration,
            count_max: self.count_max,
            timeout: self.timeout,
            threads: Threads {
                count: threads,
                cpus: pinned(self.cpus, &self.allowed_cpus, threads),
            },
            seed: self.seed,
        })
    }

    /// A target on this host needs CPUs of its own.
    fn thread_count(&self, target: &Address) -> u16 {
        if let Some(threads) = self.threads {
            return threads;
        }
        let all = self.allowed_cpus.len();
        let count = match (&self.cpus, target) {
            (Some(OrNone::This(cpus)), _) => cpus.len(),
            (_, Address::Unix(_)) => all / 2,
            (_, Address::Ip(address)) if address.ip().to_canonical().is_loopback() => all / 2,
            _ => all,
        };
        let client_pool = self.clients.into_iter().chain(self.connections).min();
        let most = client_pool.unwrap_or(u32::MAX).min(u16::MAX.into());
        u16::try_from(count)
            .unwrap_or(u16::MAX)
            .clamp(1, u16::try_from(most).unwrap_or(u16::MAX))
    }

    fn connection_count(&self, threads: u16) -> u32 {
        let default = CONNECTIONS_DEFAULT.max(threads.into());
        let most = self.clients.unwrap_or(u32::MAX);
        self.connections.unwrap_or_else(|| default.min(most))
    }

    /// Open load without a number of clients has more than it needs, so that none is wanting: not
    /// all are to begin sessions. Where kinds are mixed, each client has one, and all take part.
    fn selection(&self) -> ClientSelection {
        let has_one_kind = self
            .tls
            .as_ref()
            .is_none_or(|tls| tls.handshakes.len() == 1);
        let is_open_by_request =
            self.arriving.stretches.is_some() && !self.arriving.session_arrivals;
        let few_suffice = self.clients.is_none() && is_open_by_request && has_one_kind;
        let default = if few_suffice {
            ClientSelection::Fewest
        } else {
            ClientSelection::RoundRobin
        };
        self.selection.unwrap_or(default)
    }

    fn client_count(&self, threads: u16, connections: u32) -> u32 {
        let default = match self.arriving.stretches {
            None => connections,
            Some(_) => OPEN_CLIENTS_DEFAULT.max(threads.into()),
        };
        self.clients.unwrap_or(default)
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

    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::options::reference;
    use crate::options::table::{self, Otherwise};
    use crate::plan::{Group, Signature, Spacing, Suite, Verification, Versions};

    const PEM: &str = "-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n";

    /// Words as on a command line, the URL first; `^` stands for a space in a value.
    fn asked(line: &str) -> Options {
        let mut options = Options::default();
        let mut words = line.split_whitespace().peekable();
        let url = table::find("url").unwrap();
        table::apply(&mut options, url, words.next().unwrap()).unwrap();
        while let Some(flag) = words.next() {
            let setting = table::find(flag.strip_prefix("--").unwrap()).expect(flag);
            let value = words
                .next_if(|word| !word.starts_with("--"))
                .unwrap_or("true");
            let parts: Vec<&str> = match setting.shape {
                table::Shape::Commas(_) => value.split(',').collect(),
                _ => vec![value],
            };
            for part in parts {
                table::apply(&mut options, setting, &part.replace('^', " ")).expect(value);
            }
        }
        options
    }

    fn files(options: &Options) -> Files {
        let named = options.files().into_iter();
        named
            .map(|(name, path)| match path.to_str() {
                Some("missing") => (name, Err("cannot be read".to_owned())),
                Some("empty") => (name, Ok(Vec::new())),
                Some("large") => (name, Ok(vec![b'x'; 20_000])),
                _ => (name, Ok(PEM.as_bytes().to_vec())),
            })
            .collect()
    }

    fn drafted(line: &str) -> Result<UnresolvedPlan, Vec<PlanFault>> {
        let options = asked(line);
        options.validate(&files(&options), &[0, 1, 2, 3])
    }

    fn planned(line: &str) -> Plan {
        let draft = drafted(line).unwrap_or_else(|faults| panic!("{line}: {faults:?}"));
        draft.plan(local()).unwrap()
    }

    fn local() -> Address {
        Address::Ip(SocketAddr::from(([127, 0, 0, 1], 8443)))
    }

    /// The settings that are blamed.
    fn blamed(line: &str) -> Vec<&'static str> {
        match drafted(line) {
            Ok(draft) => panic!("{line}: {draft:?}"),
            Err(faults) => faults.iter().map(|fault| fault.about).collect(),
        }
    }

    const HTTPS: &str = "https://127.0.0.1:8443/1k";

    fn with(flags: &str) -> String {
        format!("{HTTPS} {flags}")
    }

    #[test]
    fn a_url_alone_is_a_plan() {
        let plan = planned(HTTPS);
        assert_eq!(plan.arrival, Arrival::Closed { connections: 50 });
        assert_eq!(plan.clients.count, 50);
        assert_eq!(plan.clients.requests_per_connection, Some(1));
        assert_eq!(plan.duration, Duration::from_secs(10));
        assert_eq!(plan.target.authority, "127.0.0.1:8443");
        assert_eq!((plan.threads.count, plan.threads.cpus), (2, vec![2, 3]));
        let tls = plan.tls.unwrap();
        assert_eq!((tls.versions, tls.server_name), (Versions::Both, None));
        assert_eq!(tls.handshakes, [Handshake::Full]);
        assert_eq!(tls.suites, Suite::ALL);
        assert_eq!(
            (tls.groups, tls.signatures),
            (Group::ALL.to_vec(), Signature::ALL.to_vec())
        );
        assert!(tls.tickets && tls.session_ids && !tls.early_data);
        let request = plan.request.unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("GET", "/1k")
        );
        assert_eq!(
            planned("https://www.example.org./")
                .tls
                .unwrap()
                .server_name
                .unwrap(),
            "www.example.org"
        );
    }

    #[test]
    fn defaults_that_are_typed_change_nothing() {
        for setting in SETTINGS {
            if let Otherwise::Text(text) = setting.otherwise {
                let line = with(&format!("--{} {text}", setting.name));
                let (typed, default) = (planned(&line), planned(HTTPS));
                assert_eq!(format!("{typed:?}"), format!("{default:?}"), "{line}");
            }
        }
    }

    #[test]
    fn what_a_run_went_by_repeats_it() {
        let lines = [
            HTTPS.to_owned(),
            with("--handshake psk --rate 500 --spacing poisson --clients 20 --early-data"),
            with("--session-arrivals --rate 5 --handshake any --requests-per-session 4"),
            with("--suites TLS_AES_256_GCM_SHA384 --header A:^b --header C:^d --count 7"),
            with("--ca a --client-certificate b --tls 1.2 --handshake ticket"),
            "http://[::1]:8000/ --connections 3 --cpus none".to_owned(),
        ];
        for line in lines {
            let options = asked(&line);
            let plan = planned(&line);
            let mut again = table::settings(&options, &plan);
            again.retain(|(name, _)| *name != "url");
            let flags: Vec<_> = again
                .into_iter()
                .map(|(name, text)| format!("--{name} {}", text.replace(' ', "^")))
                .collect();
            let repeated = planned(&format!("{} {}", plan.target.url, flags.join(" ")));
            assert_eq!(format!("{repeated:?}"), format!("{plan:?}"), "{flags:?}");
        }
    }

    #[test]
    fn the_command_is_without_a_file() {
        let options = asked(&with(
            "--early-data --handshake psk --suites TLS_AES_128_GCM_SHA256",
        ));
        let words = [
            "load",
            HTTPS,
            "--handshake",
            "psk",
            "--suites",
            "TLS_AES_128_GCM_SHA256",
            "--early-data",
        ];
        assert_eq!(table::command(&options), words);
    }

    #[test]
    fn kinds_of_handshake_belong_to_versions() {
        assert_eq!(blamed(&with("--handshake psk --tls 1.2")), ["handshake"]);
        assert_eq!(
            blamed(&with("--handshake session-id --tls 1.3")),
            ["handshake"]
        );
        assert_eq!(blamed(&with("--handshake ticket --tls 1.3")), ["handshake"]);
        assert_eq!(
            blamed(&with("--handshake ticket --tickets off")),
            ["tickets"]
        );
        assert_eq!(
            blamed(&with("--handshake session-id --session-ids off")),
            ["session-ids"]
        );
        assert_eq!(blamed(&with("--handshake psk --tickets off")), ["tickets"]);
        let psk = "--handshake psk --suites TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(blamed(&with(psk)), ["handshake"]);
        let versions = |flags| planned(&with(flags)).tls.unwrap().versions;
        assert_eq!(versions("--handshake ticket"), Versions::Tls12);
        assert_eq!(versions("--handshake psk"), Versions::Tls13);
        assert_eq!(versions("--handshake any"), Versions::Both);
        assert_eq!(versions("--suites TLS_AES_128_GCM_SHA256"), Versions::Tls13);
        assert_eq!(versions("--groups X25519MLKEM768"), Versions::Tls13);
        assert_eq!(versions("--signatures rsa_pkcs1_sha256"), Versions::Tls12);
    }

    #[test]
    fn mixed_is_what_the_rest_leaves() {
        use Handshake::{Full, Psk, SessionId, Ticket};
        let kinds = |flags: &str| {
            let plan = planned(&with(&format!("--handshake mixed {flags}")));
            plan.tls.unwrap().handshakes
        };
        assert_eq!(kinds(""), [Full, SessionId, Ticket, Psk]);
        assert_eq!(kinds("--tls 1.2"), [Full, SessionId, Ticket]);
        assert_eq!(kinds("--tls 1.3"), [Full, Psk]);
        assert_eq!(kinds("--tls 1.2 --tickets off"), [Full, SessionId]);
        let none = "--handshake mixed --tls 1.2 --tickets off --session-ids off";
        assert_eq!(blamed(&with(none)), ["handshake"]);
    }

    #[test]
    fn suites_groups_and_signatures_belong_to_versions() {
        let rsa = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        assert_eq!(
            blamed(&with(&format!("--tls 1.3 --suites {rsa}"))),
            ["suites", "suites"]
        );
        assert_eq!(
            blamed(&with(&format!("--tls both --suites {rsa}"))),
            ["suites"]
        );
        assert_eq!(
            blamed(&with(&format!("--suites {rsa} --signatures ecdsa"))),
            ["suites"]
        );
        assert_eq!(
            blamed(&with("--tls 1.2 --groups X25519MLKEM768,x25519")),
            ["groups"]
        );
        assert_eq!(
            blamed(&with("--tls both --groups X25519MLKEM768")),
            ["groups"]
        );
        assert_eq!(
            blamed(&with("--tls 1.3 --signatures rsa_pkcs1_sha256")),
            ["signatures"]
        );
        assert_eq!(
            blamed(&with(&format!("--suites {rsa} --groups X25519MLKEM768"))),
            ["suites"]
        );
        let tls = planned(&with("--tls 1.2 --signatures rsa")).tls.unwrap();
        assert!(
            tls.suites
                .iter()
                .all(|suite| suite.name().contains("_RSA_"))
        );
        assert_eq!(tls.suites.len(), 3);
        assert!(!tls.groups.contains(&Group::X25519MlKem768));
        let ecdsa = planned(&with("--signatures ecdsa")).tls.unwrap();
        assert_eq!(ecdsa.suites.len(), 6);
        assert_eq!(planned(&with("--tls 1.3")).tls.unwrap().suites.len(), 3);
    }

    #[test]
    fn sessions_need_something_to_resume_them() {
        assert_eq!(
            blamed(&with("--requests-per-session 4")),
            ["requests-per-session"]
        );
        let psk = |flags: &str| with(&format!("--handshake psk {flags}"));
        assert_eq!(
            blamed(&psk("--requests-per-session 1")),
            ["requests-per-session"]
        );
        for per_connection in ["4", "5", "unlimited"] {
            let line =
                format!("--requests-per-session 4 --requests-per-connection {per_connection}");
            assert_eq!(blamed(&psk(&line)), ["requests-per-connection"]);
        }
        let plan = planned(&psk("--requests-per-session 4 --requests-per-connection 2"));
        assert_eq!(plan.clients.requests_per_session, Some(4));
        assert_eq!(planned(&psk("")).clients.requests_per_session, None);
    }

    #[test]
    fn nothing_is_asked_for_in_two_ways() {
        assert_eq!(
            blamed(&with("--no-request --method GET --body a")),
            ["method", "body"]
        );
        assert_eq!(
            blamed(&with("--no-request --requests-per-connection 2")),
            ["requests-per-connection"]
        );
        assert_eq!(
            blamed(&with("--no-request --early-data --handshake psk")),
            ["early-data"]
        );
        assert_eq!(blamed("http://127.0.0.1/ --no-request"), ["no-request"]);
        assert_eq!(blamed(&with("--size 1k")), ["size"]);
        assert_eq!(blamed(&with("--method GET --body a")), ["method"]);
        assert_eq!(blamed(&with("--body a --body-file b")), ["body-file"]);
        assert_eq!(blamed(&with("--body-file missing")), ["body-file"]);
        assert!(
            planned(&with("--no-request --requests-per-connection 1"))
                .request
                .is_none()
        );
        assert_eq!(planned(&with("--body a")).request.unwrap().method, "POST");
        let sized = planned("https://127.0.0.1 --size 64k").request.unwrap();
        assert_eq!(sized.path, "/?size=65536");
    }

    #[test]
    fn early_data_needs_a_psk_and_little_to_say() {
        assert_eq!(blamed(&with("--early-data")), ["early-data"]);
        assert_eq!(
            blamed(&with("--early-data --handshake any --tls 1.2")),
            ["early-data"]
        );
        let large = "--early-data --handshake psk --body-file large";
        assert_eq!(blamed(&with(large)), ["early-data"]);
        for kinds in ["psk", "mixed", "any"] {
            let plan = planned(&with(&format!("--early-data --handshake {kinds}")));
            assert!(plan.tls.unwrap().early_data);
        }
    }

    #[test]
    fn plain_http_has_no_place_for_tls() {
        let line = "http://127.0.0.1:8000/ --tls 1.3 --handshake full --ca a --alpn http/1.1";
        assert_eq!(blamed(line), ["handshake", "tls", "alpn", "ca"]);
        assert!(planned("http://127.0.0.1:8000/").tls.is_none());
    }

    #[test]
    fn certificates_are_looked_at() {
        assert_eq!(blamed(&with("--verify full")), ["verify"]);
        assert_eq!(blamed(&with("--verify off --ca a")), ["verify"]);
        assert_eq!(blamed(&with("--ca empty")), ["ca"]);
        assert_eq!(blamed(&with("--ca missing")), ["ca"]);
        assert_eq!(blamed(&with("--client-key a")), ["client-key"]);
        let empty = ["client-certificate", "client-certificate"];
        assert_eq!(blamed(&with("--client-certificate empty")), empty);
        let key = "--client-certificate a --client-key missing";
        assert_eq!(blamed(&with(key)), ["client-key"]);
        let tls = planned(&with("--ca a --client-certificate b")).tls.unwrap();
        assert_eq!(
            tls.verification,
            Verification::Authority(PEM.as_bytes().to_vec())
        );
        assert!(tls.client_certificate.is_some());
        assert_eq!(tls.server_name.unwrap(), "127.0.0.1", "checked, never sent");
        assert_eq!(
            blamed("https://host/ --ca a --server-name none"),
            ["server-name"]
        );
        assert_eq!(blamed(&with("--alpn h2")), ["alpn"]);
        assert_eq!(
            planned(&with("--alpn h2 --no-request")).tls.unwrap().alpn,
            [b"h2"]
        );
    }

    #[test]
    fn load_arrives_in_one_way() {
        assert_eq!(blamed(&with("--rate 1 --ramp 1:2:3s")), ["rate"]);
        assert_eq!(blamed(&with("--steps 1,2 --ramp 1:2:3s")), ["steps"]);
        assert_eq!(blamed(&with("--rate 5 --connections 5")), ["connections"]);
        assert_eq!(blamed(&with("--spacing poisson")), ["spacing"]);
        assert_eq!(blamed(&with("--session-arrivals")), ["session-arrivals"]);
        assert_eq!(blamed(&with("--step-duration 1s")), ["step-duration"]);
        assert_eq!(
            blamed(&with("--limit mean<1s --precision 1%")),
            ["limit", "precision"]
        );
        assert_eq!(blamed(&with("--steps 1,2 --duration 1s")), ["duration"]);
        assert_eq!(blamed(&with("--find-capacity --count 5")), ["count"]);
        assert_eq!(blamed(&with("--ramp 1:2:3s --duration 2s")), ["duration"]);
        assert_eq!(blamed(&with("--ramp 0:2:3s --warm-up 1s")), ["warm-up"]);
    }

    #[test]
    fn stretches_fill_the_duration() {
        let of = |flags: &str| {
            let plan = planned(&with(flags));
            let Arrival::Open {
                stretches, spacing, ..
            } = plan.arrival
            else {
                panic!("{flags} is open load");
            };
            let sum: Duration = stretches.iter().map(|stretch| stretch.length).sum();
            assert_eq!(sum, plan.duration, "{flags}");
            (stretches.len(), sum.as_secs(), plan.clients.count, spacing)
        };
        assert_eq!(of("--rate 5"), (1, 10, 1000, Spacing::Constant));
        assert_eq!(of("--rate 5 --count 3").1, 3600);
        assert_eq!(of("--ramp 1:5:30s"), (1, 30, 1000, Spacing::Constant));
        assert_eq!(
            of("--ramp 1:5:30s --duration 1m --clients 9"),
            (2, 60, 9, Spacing::Constant)
        );
        assert_eq!(
            of("--steps 1,2,3 --step-duration 2s --spacing poisson"),
            (3, 6, 1000, Spacing::Poisson)
        );
    }

    #[test]
    fn users_bring_as_many_requests_as_their_session_or_connection_has() {
        let each = |flags: &str| planned(&with(flags)).requests_per_arrival();
        assert_eq!(each("--rate 5"), None);
        assert_eq!(each("--connections 5"), None);
        assert_eq!(each("--rate 5 --session-arrivals"), Some(1));
        let kept = "--ramp 1:5:3s --session-arrivals --requests-per-connection 7";
        assert_eq!(each(kept), Some(7));
        let resumed = "--steps 1,5 --session-arrivals --handshake psk --requests-per-session 4";
        assert_eq!(each(resumed), Some(4));
        assert_eq!(
            planned(&with(resumed)).clients.selection,
            ClientSelection::RoundRobin
        );
        let plain = "http://127.0.0.1/ --rate 5 --session-arrivals --requests-per-connection 3";
        assert_eq!(planned(plain).requests_per_arrival(), Some(3));
    }

    #[test]
    fn users_leave_some_time() {
        let users = |flags: &str| blamed(&with(&format!("--rate 5 --session-arrivals {flags}")));
        assert_eq!(
            users("--client-selection round-robin"),
            ["client-selection"]
        );
        assert_eq!(users("--handshake any"), ["requests-per-session"]);
        let endless = "--handshake psk --requests-per-session unlimited";
        assert_eq!(users(endless), ["requests-per-session"]);
        let endless = "--requests-per-connection unlimited";
        assert_eq!(users(endless), ["requests-per-connection"]);
        assert_eq!(users("--think-time 1s"), ["think-time"]);
    }

    #[test]
    fn a_search_is_told_apart() {
        let draft = drafted(&with("--find-capacity --rate 40 --limit p99<20ms")).unwrap();
        let search = draft.search().unwrap();
        assert_eq!((search.first_per_s, search.precision), (40.0, 0.05));
        assert_eq!(search.limit.quantile(), 0.99);
        assert_eq!(
            (search.step, draft.planned()),
            (Duration::from_secs(5), None)
        );
        assert_eq!(drafted(&with("--count 5")).unwrap().planned(), None);
        assert_eq!(
            drafted(HTTPS).unwrap().planned(),
            Some(Duration::from_secs(10))
        );
    }

    #[test]
    fn every_thread_has_something_to_do() {
        assert_eq!(blamed(&with("--clients 2 --threads 3")), ["clients"]);
        assert_eq!(
            blamed(&with("--connections 2 --threads 3")),
            ["connections"]
        );
        assert_eq!(blamed(&with("--clients 2 --connections 3")), ["clients"]);
        assert_eq!(blamed(&with("--cpus 2-9")), ["cpus"]);
        assert_eq!(planned(&with("--connections 1")).threads.count, 1);
        assert_eq!(planned(&with("--rate 5 --clients 1")).threads.count, 1);
        assert_eq!(planned(&with("--cpus 0,2,3")).threads.count, 3);
        assert_eq!(
            planned(&with("--threads 60")).arrival,
            Arrival::Closed { connections: 60 }
        );
        let few = planned(&with("--clients 8"));
        assert_eq!(few.arrival, Arrival::Closed { connections: 8 });
        let far = Address::Ip(SocketAddr::from(([192, 0, 2, 1], 443)));
        let plan = drafted("https://host/").unwrap().plan(far).unwrap();
        assert_eq!((plan.threads.count, plan.threads.cpus.len()), (4, 4));
    }

    #[test]
    fn sources_are_of_the_targets_family() {
        assert_eq!(blamed(&with("--source ::1")), ["source"]);
        assert_eq!(
            blamed(&with("--connect unix:/run/a --source 127.0.0.2")),
            ["source"]
        );
        let named = drafted("https://localhost/ --source ::1").unwrap();
        assert_eq!(named.plan(local()).unwrap_err()[0].about, "source");
    }

    #[test]
    fn everything_is_told_at_once() {
        let line =
            with("--handshake psk --tls 1.2 --size 1k --rate 5 --connections 2 --verify full");
        let mut names = blamed(&line);
        names.sort_unstable();
        assert_eq!(names, ["connections", "handshake", "size", "verify"]);
        assert_eq!(
            Options::default()
                .validate(&Files::new(), &[0])
                .unwrap_err()[0]
                .about,
            "url"
        );
    }

    /// A few values of each setting; those of one name may contradict those of another.
    fn samples(setting: &table::Setting) -> Vec<&'static str> {
        match setting.name {
            "url" => vec![
                "https://127.0.0.1:8443/",
                "https://h/1k",
                "http://[::1]:80/",
            ],
            "connect" => vec!["unix:@a", "127.0.0.1:1", "name:2"],
            "source" => vec!["127.0.0.2", "::1"],
            "handshake" => vec!["full", "session-id", "ticket", "psk", "any", "mixed"],
            "requests-per-session" | "requests-per-connection" => vec!["1", "3", "unlimited"],
            "clients" | "connections" | "threads" => vec!["1", "2", "70"],
            "tls" => vec!["1.2", "1.3", "both"],
            "suites" => Suite::ALL.iter().map(|suite| suite.name()).collect(),
            "groups" => vec!["x25519", "X25519MLKEM768", "x25519,X25519MLKEM768"],
            "signatures" => vec!["rsa", "ecdsa", "rsa_pkcs1_sha256", "ed25519"],
            "tickets" | "session-ids" => vec!["on", "off"],
            "server-name" => vec!["none", "a.example"],
            "verify" => vec!["off", "signature", "full"],
            "cpus" => vec!["none", "0", "1,2,3"],
            "ramp" => vec!["0:5:3s", "5:0:3s", "5:5:20s"],
            "duration" | "warm-up" => vec!["1s", "20s"],
            _ => match setting.shape {
                table::Shape::Switch => vec!["true"],
                _ => vec![setting.example],
            },
        }
    }

    fn typed(pairs: &[(&str, String)]) -> Options {
        let mut options = Options::default();
        for (name, text) in pairs {
            let setting = table::find(name).unwrap();
            let parts: Vec<&str> = match setting.shape {
                table::Shape::Commas(_) => text.split(',').collect(),
                _ => vec![text],
            };
            for part in parts {
                table::apply(&mut options, setting, part).unwrap();
            }
        }
        options
    }

    fn assert_sound(plan: &Plan) {
        let (threads, clients) = (u32::from(plan.threads.count), plan.clients.count);
        assert!(threads >= 1 && clients >= threads);
        match &plan.arrival {
            Arrival::Closed { connections } => {
                assert!((threads..=clients).contains(connections));
            }
            Arrival::Open { stretches, .. } => {
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
                Handshake::Full | Handshake::Any => (
                    tls.versions != Versions::Tls13,
                    tls.versions != Versions::Tls12,
                ),
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
        /// and the same plan when it is typed again with all its defaults.
        #[test]
        fn a_plan_is_sound_or_refused(
            picks in prop::collection::vec((1..SETTINGS.len(), any::<Index>()), 0..7),
            url in any::<Index>(),
        ) {
            let mut pairs = vec![("url", (*url.get(&samples(&SETTINGS[0]))).to_owned())];
            for (number, sample) in picks {
                let setting = &SETTINGS[number];
                if pairs.iter().all(|(name, _)| *name != setting.name) {
                    pairs.push((setting.name, (*sample.get(&samples(setting))).to_owned()));
                }
            }
            let options = typed(&pairs);
            let Ok(draft) = options.validate(&files(&options), &[0, 1, 2, 3]) else {
                return Ok(());
            };
            let Ok(plan) = draft.plan(local()) else {
                return Ok(());
            };
            assert_sound(&plan);
            let all = typed(&table::settings(&options, &plan));
            let again = all.validate(&files(&all), &[0, 1, 2, 3]);
            let again = again.unwrap_or_else(|faults| panic!("{pairs:?}: {faults:?}"));
            prop_assert_eq!(format!("{:?}", again.plan(local()).unwrap()), format!("{plan:?}"));
        }
    }

    #[test]
    fn every_fault_names_a_setting_and_a_remedy() {
        let faults = drafted(&with("--handshake psk --tls 1.2 --verify full")).unwrap_err();
        for fault in faults {
            assert!(table::find(fault.about).is_some());
            assert!(!fault.reason.ends_with('.') && !fault.remedy.is_empty());
        }
        assert!(reference::render().contains("### `handshake`"));
    }
}
