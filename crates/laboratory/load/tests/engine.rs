//! Runs the engine against servers of the test: kinds of handshake, and each kind of failure.

mod server;

use std::time::Duration;

use load::outcome::{Frame, LoadOutcome};
use load::plan::{
    ArrivalModel, ClientSelection, Clients, ConnectionEnding, Group, Handshake, LoadPlan,
    PlannedRequest, PlannedTarget, PlannedTls, Signature, Spacing, Stretch, Suite, Threads,
    Verification, Versions,
};
use measure::choice::Kind;
use measure::record::{LoadRecord, LoadSecond, RunEnding, to_json};
use server::{Cache, Server};
use testkit::server::Behaviour;

/// Makes a closed load of `count` transactions by four clients, which offer everything.
fn plan(address: &str, handshake: Handshake, count: u64) -> LoadPlan {
    LoadPlan {
        target: PlannedTarget {
            url: "https://localhost/1k".to_owned(),
            addresses: vec![address.parse().expect("an address")],
            moves_sessions: false,
            authority: "localhost".to_owned(),
        },
        sources: Vec::new(),
        proxy_header: None,
        tls: Some(PlannedTls {
            starttls: None,
            ehlo_name: String::new(),
            versions: Versions::Both,
            handshakes: vec![handshake],
            suites: Suite::ALL.to_vec(),
            groups: Group::ALL.to_vec(),
            signatures: Signature::ALL.to_vec(),
            alpn: Vec::new(),
            server_name: Some("localhost".to_owned()),
            client_certificate: None,
            verification: Verification::Off,
            tickets: true,
            session_ids: true,
            early_data: false,
            certificate_compression: false,
            ech: None,
        }),
        requests: vec![PlannedRequest {
            weight: 1,
            method: "GET".to_owned(),
            path: "/1k".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }],
        ending: ConnectionEnding::Close,
        clients: Clients {
            count: 4,
            requests_per_session: None,
            requests_per_connection: Some(1),
            think: Duration::ZERO,
            selection: ClientSelection::RoundRobin,
        },
        arrival: ArrivalModel::Closed { connections: 4 },
        warm_up: Duration::ZERO,
        rests: false,
        is_background: false,
        duration: Duration::from_secs(60),
        count_max: Some(count),
        timeout: Duration::from_secs(30),
        threads: Threads { count: 2, cpus: Vec::new() },
        seed: 1,
    }
}

/// Each of two servers knows its own sessions alone.
#[test]
fn sessions_move_from_one_server_to_the_other() {
    let (server, other) = (Server::start(Cache::All), Server::start(Cache::All));
    for handshake in [Handshake::SessionId, Handshake::Any] {
        let mut plan = alone(plan(server.address(), handshake, 20));
        plan.target.addresses.push(other.address().parse().unwrap());
        let before = other.counts();
        let stays = run(&plan);
        let full = stays.handshakes_of(Kind::Full);
        assert_eq!(full, 1, "one client, one address");
        assert_eq!((other.counts() - before).full, 0);
        plan.target.moves_sessions = true;
        let moves = run(&plan);
        assert_eq!(kinds(&moves)[1..], [0; 3], "{handshake:?}");
        let is_failure = handshake != Handshake::Any;
        assert_eq!(moves.totals.failed > 0, is_failure, "{handshake:?}");
        assert_eq!(moves.failed_after.count(), moves.totals.failed, "{handshake:?}");
        let ended = moves.addresses.values().map(|counts| counts.attempted);
        assert_eq!(ended.collect::<Vec<_>>(), [10, 10], "each has its turn");
        assert!((other.counts() - before).full > 1, "both are asked");
        assert!(moves.plan.move_sessions && moves.target.address.contains(','));
    }
}

/// Uses one client, so that the end cuts no session or connection short.
fn alone(mut plan: LoadPlan) -> LoadPlan {
    plan.clients.count = 1;
    plan.arrival = ArrivalModel::Closed { connections: 1 };
    plan.threads.count = 1;
    plan
}

fn tls(plan: &mut LoadPlan) -> &mut PlannedTls {
    plan.tls.as_mut().expect("there is TLS")
}

fn run(plan: &LoadPlan) -> LoadRecord {
    let mut run = load::run::start(plan.clone()).expect("a good plan");
    while run.next_second().is_some() {}
    record(plan, run.finish().expect("no thread fails"))
}

fn record(plan: &LoadPlan, outcome: LoadOutcome) -> LoadRecord {
    let record = outcome.record(plan, Frame::default(), None);
    let totals = record.totals;
    assert_eq!(totals.attempted, totals.succeeded + totals.failed);
    let sum = |pick: fn(&LoadSecond) -> u64| record.seconds.iter().map(pick).sum::<u64>();
    assert_eq!(totals.attempted, sum(|second| second.attempted));
    assert_eq!(totals.succeeded, sum(|second| second.succeeded));
    assert_eq!(totals.failed, sum(|second| second.failed));
    assert_eq!(totals.failed, record.failures.values().sum::<u64>());
    let read = LoadRecord::parse(&to_json(&record)).expect("our own text");
    assert_eq!(read.totals, record.totals, "a record survives its text");
    record
}

/// Returns the handshakes of a record: full, by session ID, by ticket, by PSK.
fn kinds(record: &LoadRecord) -> [u64; 4] {
    [Kind::Full, Kind::SessionId, Kind::Ticket, Kind::Psk].map(|kind| record.handshakes_of(kind))
}

#[test]
fn each_kind_of_handshake_is_made_and_seen_by_both_sides() {
    let server = Server::start(Cache::All);
    for (handshake, wanted) in [
        (Handshake::Full, [40, 0, 0, 0]),
        (Handshake::SessionId, [4, 36, 0, 0]),
        (Handshake::Ticket, [4, 0, 36, 0]),
        (Handshake::Psk, [4, 0, 0, 36]),
    ] {
        let before = server.counts();
        let record = run(&plan(server.address(), handshake, 40));
        assert_eq!(record.totals.succeeded, 40, "{handshake:?} {:?}", record.failures);
        assert_eq!(kinds(&record), wanted, "{handshake:?}");
        let seen = server.counts() - before;
        assert_eq!(seen.full, wanted[0], "{handshake:?}");
        assert_eq!(seen.resumed, wanted[1..].iter().sum::<u64>(), "{handshake:?}");
        assert_eq!(record.traffic.body_bytes, 40 * 1024);
        let total: u64 = record.latencies.values().map(|kind| kind.total.count()).sum();
        assert_eq!(total, 40);
    }
}

#[test]
fn a_session_has_as_many_requests_as_it_should() {
    let server = Server::start(Cache::All);
    let mut plan = alone(plan(server.address(), Handshake::Psk, 80));
    plan.clients.requests_per_session = Some(4);
    let record = run(&plan);
    assert_eq!(record.totals.succeeded, 80, "{:?}", record.failures);
    assert_eq!(kinds(&record), [20, 0, 0, 60]);
}

#[test]
fn clients_of_all_kinds_take_turns() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Full, 80);
    tls(&mut plan).handshakes =
        vec![Handshake::Full, Handshake::SessionId, Handshake::Ticket, Handshake::Psk];
    plan.threads.count = 1;
    let record = run(&plan);
    assert_eq!(record.totals.succeeded, 80, "{:?}", record.failures);
    let [full, id, ticket, psk] = kinds(&record);
    assert_eq!(full + id + ticket + psk, 80);
    assert!(id > 0 && ticket > 0 && psk > 0, "{id} {ticket} {psk}");
}

#[test]
fn connections_are_kept() {
    let server = Server::start(Cache::All);
    let mut plan = alone(plan(server.address(), Handshake::Full, 60));
    plan.clients.requests_per_connection = Some(5);
    let record = run(&plan);
    assert_eq!(record.totals.succeeded, 60, "{:?}", record.failures);
    assert_eq!(kinds(&record), [12, 0, 0, 0]);
    assert_eq!(record.traffic.connections, 12);
    assert_eq!(record.latencies[&Kind::Kept].total.count(), 48);
}

#[test]
fn handshakes_alone_resume_too_whichever_way_they_end() {
    let server = Server::start(Cache::All);
    for ending in [ConnectionEnding::Close, ConnectionEnding::Reset] {
        let mut plan = plan(server.address(), Handshake::Psk, 40);
        plan.requests.clear();
        plan.ending = ending;
        let record = run(&plan);
        assert_eq!(record.totals.succeeded, 40, "{ending:?} {:?}", record.failures);
        assert_eq!(kinds(&record), [4, 0, 0, 36], "{ending:?}");
        assert_eq!(record.traffic.body_bytes, 0);
    }
}

#[test]
fn a_server_without_resumption_fails_those_who_want_it() {
    let server = Server::start(Cache::None);
    for handshake in [Handshake::SessionId, Handshake::Ticket, Handshake::Psk] {
        let record = run(&plan(server.address(), handshake, 20));
        assert_eq!(kinds(&record), [20, 0, 0, 0], "{handshake:?}");
        assert_eq!(record.totals.succeeded, 4);
        assert_eq!(record.failures["resumption-not-offered"], 16);
    }
}

#[test]
fn a_server_that_forgets_sessions_is_found_out() {
    let server = Server::start(Cache::Forgetful);
    let record = run(&plan(server.address(), Handshake::SessionId, 20));
    assert_eq!(kinds(&record), [20, 0, 0, 0]);
    assert_eq!(record.failures["resumption-declined"], 16);
}

#[test]
fn early_data_is_taken_or_missed() {
    let server = Server::start(Cache::EarlyData);
    let mut plan = plan(server.address(), Handshake::Psk, 20);
    tls(&mut plan).early_data = true;
    let record = run(&plan);
    assert_eq!(record.totals.succeeded, 20, "{:?}", record.failures);
    let early = record.handshakes.iter().filter(|row| row.early_data_accepted == Some(true));
    assert_eq!(early.map(|row| row.count).sum::<u64>(), 16);
    let refusing = Server::start(Cache::All);
    plan.target.addresses[0] = refusing.address().parse().unwrap();
    let record = run(&plan);
    assert_eq!(record.totals.succeeded, 4);
    assert_eq!(record.failures["early-data-rejected"], 16);
}

#[test]
fn certificates_are_judged_as_the_plan_says() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Full, 8);
    for verification in
        [Verification::Signature, Verification::Authority(server.authority_pem().into())]
    {
        tls(&mut plan).verification = verification;
        assert_eq!(run(&plan).totals.succeeded, 8);
    }
    tls(&mut plan).server_name = Some("other.example".to_owned());
    assert_eq!(run(&plan).failures["certificate-name"], 8);
    let stranger = testkit::authority::Authority::root("stranger");
    tls(&mut plan).verification = Verification::Authority(stranger.pem().into());
    assert_eq!(run(&plan).failures["certificate-issuer"], 8);
}

#[test]
fn each_way_to_fail_has_its_reason() {
    let fails = |behaviour, wanted: &str| {
        let server = testkit::server::Server::start(behaviour);
        let mut plan = plan(server.address(), Handshake::Full, 8);
        plan.timeout = Duration::from_millis(300);
        let record = run(&plan);
        assert_eq!(record.failures.get(wanted), Some(&8), "{:?}", record.failures);
        assert_eq!(record.ending, RunEnding::Completed);
    };
    fails(Behaviour::Hang, "handshake-timeout");
    let farewell = [&[21, 3, 3, 0, 2, 1, 0], &b"and more"[..]].concat();
    fails(Behaviour::Greet(farewell), "not-tls");
    fails(Behaviour::Reset, "handshake-reset");
    fails(Behaviour::Greet(b"SSH-2.0-x\r\n".to_vec()), "not-tls");
    fails(Behaviour::Greet(vec![21, 3, 3, 0, 2, 2, 40]), "alert-handshake_failure");
    fails(Behaviour::Speak(Vec::new()), "handshake-closed");
    let nobody = testkit::server::free_address().to_string();
    let record = run(&plan(&nobody, Handshake::Full, 8));
    assert_eq!(record.failures["connect-refused"], 8);
}

#[test]
fn a_body_longer_than_any_buffer_is_sent() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Psk, 12);
    let request = &mut plan.requests[0];
    request.method = "POST".to_owned();
    request.body = vec![b'x'; 5 << 20];
    let record = run(&plan);
    assert_eq!(record.totals.succeeded, 12, "{:?}", record.failures);
    assert!(record.traffic.sent_bytes > 12 * (5 << 20));
}

#[test]
fn a_server_that_signs_by_what_was_not_offered_is_found_out() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Full, 4);
    tls(&mut plan).signatures = vec![Signature::Ed25519];
    let record = run(&plan);
    assert_eq!(record.totals.succeeded, 0, "{:?}", record.failures);
}

#[test]
fn open_load_is_planned_and_what_cannot_begin_is_a_failure() {
    let server = testkit::server::Server::start(Behaviour::Hang);
    let mut plan = plan(server.address(), Handshake::Full, 1);
    plan.count_max = None;
    plan.arrival = ArrivalModel::Open {
        stretches: vec![Stretch {
            length: Duration::from_secs(1),
            from_per_s: 100.0,
            to_per_s: 100.0,
        }],
        spacing: Spacing::Constant,
        session_arrivals: false,
    };
    plan.duration = Duration::from_secs(1);
    plan.timeout = Duration::from_secs(2);
    let record = run(&plan);
    assert_eq!(record.totals.attempted, 100);
    assert_eq!(record.failures["clients-exhausted"], 96, "four clients, all held");
    assert_eq!(record.failures["handshake-timeout"], 4);
    assert!(record.warnings.iter().any(|warning| warning.hint.contains("--clients")));
}

#[test]
fn a_load_that_cannot_keep_up_counts_what_it_left_out() {
    let server = testkit::server::Server::start(Behaviour::Hang);
    let mut plan = alone(plan(server.address(), Handshake::Full, 1));
    plan.count_max = None;
    plan.duration = Duration::from_millis(50);
    plan.arrival = ArrivalModel::Open {
        stretches: vec![Stretch { length: plan.duration, from_per_s: 20e6, to_per_s: 20e6 }],
        spacing: Spacing::Constant,
        session_arrivals: false,
    };
    plan.timeout = Duration::from_secs(1);
    let record = run(&plan);
    assert_eq!(record.totals.attempted, 1_000_000);
    assert_eq!(
        record.failures["clients-exhausted"]
            + record.failures.get("schedule-overrun").copied().unwrap_or(0),
        999_999
    );
}

/// Makes at most thirteen concurrent users, who arrive within a tenth of a second. The load ends
/// after `requests` requests.
fn users(mut plan: LoadPlan, requests: u32, spacing: Spacing) -> LoadPlan {
    let stretch = |ms, rate_per_s| Stretch {
        length: Duration::from_millis(ms),
        from_per_s: rate_per_s,
        to_per_s: rate_per_s,
    };
    plan.arrival = ArrivalModel::Open {
        stretches: vec![stretch(100, f64::from(requests) * 10.0), stretch(59_900, 0.0)],
        spacing,
        session_arrivals: true,
    };
    plan.clients.count = 1000;
    plan
}

#[test]
fn users_bring_a_session_each() {
    let server = Server::start(Cache::All);
    for (handshake, wanted) in [
        (Handshake::Full, [40, 0, 0, 0]),
        (Handshake::SessionId, [10, 30, 0, 0]),
        (Handshake::Ticket, [10, 0, 30, 0]),
        (Handshake::Psk, [10, 0, 0, 30]),
    ] {
        let mut plan = plan(server.address(), handshake, 40);
        plan.clients.requests_per_session = (handshake != Handshake::Full).then_some(4);
        let record = run(&users(plan, 40, Spacing::Constant));
        assert_eq!(record.totals.succeeded, 40, "{:?}", record.failures);
        assert_eq!(kinds(&record), wanted, "{handshake:?}");
    }
}

#[test]
fn users_keep_their_connections_and_leave_with_them() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Full, 50);
    plan.clients.requests_per_connection = Some(5);
    plan.clients.think = Duration::from_millis(3);
    let record = run(&users(plan.clone(), 50, Spacing::Constant));
    assert_eq!(record.totals.succeeded, 50, "{:?}", record.failures);
    assert_eq!((kinds(&record), record.traffic.connections), ([10, 0, 0, 0], 10));
    assert_eq!(record.latencies[&Kind::Kept].total.count(), 40);
    tls(&mut plan).handshakes = vec![Handshake::Psk];
    plan.clients.requests_per_session = Some(10);
    let record = run(&users(plan, 50, Spacing::Constant));
    assert_eq!(record.totals.succeeded, 50, "{:?}", record.failures);
    assert_eq!((kinds(&record), record.traffic.connections), ([5, 0, 0, 5], 10));
}

#[test]
fn users_who_only_shake_hands_resume_whichever_way_connections_end() {
    let server = Server::start(Cache::All);
    for ending in [ConnectionEnding::Close, ConnectionEnding::Reset] {
        let mut plan = plan(server.address(), Handshake::Psk, 40);
        plan.requests.clear();
        plan.ending = ending;
        plan.clients.requests_per_session = Some(4);
        let record = run(&users(plan, 40, Spacing::Constant));
        assert_eq!(record.totals.succeeded, 40, "{ending:?} {:?}", record.failures);
        assert_eq!(kinds(&record), [10, 0, 0, 30], "{ending:?}");
    }
}

#[test]
fn users_who_come_by_chance_bring_sessions_too() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Psk, 1);
    plan.clients.requests_per_session = Some(4);
    plan.count_max = None;
    let mut plan = users(plan, 200, Spacing::Poisson);
    plan.duration = Duration::from_secs(2);
    let record = run(&plan);
    let [full, _, _, psk] = kinds(&record);
    // Five standard deviations of 50 users on either side.
    assert!((15..=85).contains(&full), "{full}");
    assert!(psk <= 3 * full, "{psk} of {full} users");
    assert_eq!(record.totals.succeeded, full + psk, "{:?}", record.failures);
}

#[test]
fn a_user_whose_request_fails_gives_up() {
    let server = Server::start(Cache::None);
    let mut plan = plan(server.address(), Handshake::SessionId, 20);
    plan.clients.requests_per_session = Some(4);
    // The twenty later of their forty requests are never made.
    let record = run(&users(plan, 40, Spacing::Constant));
    assert_eq!(kinds(&record), [20, 0, 0, 0]);
    assert_eq!(record.totals.succeeded, 10);
    assert_eq!(record.failures["resumption-not-offered"], 10);
    let gone = testkit::server::free_address().to_string();
    let mut plan = self::plan(&gone, Handshake::Psk, 10);
    plan.clients.requests_per_session = Some(4);
    let record = run(&users(plan, 40, Spacing::Constant));
    assert_eq!(record.failures["connect-refused"], 10);
}

#[test]
fn who_takes_the_place_of_another_has_no_session() {
    let server = Server::start(Cache::All);
    let mut plan = alone(plan(server.address(), Handshake::Psk, 1));
    plan.clients.requests_per_session = Some(4);
    plan.count_max = None;
    let mut plan = users(plan, 200, Spacing::Constant);
    plan.clients.count = 1;
    plan.duration = Duration::from_secs(2);
    let record = run(&plan);
    let turned_away = record.failures.get("clients-exhausted").copied().unwrap_or(0);
    assert_eq!(record.totals.failed, turned_away, "{:?}", record.failures);
    assert_eq!(kinds(&record)[0], 50 - turned_away, "each begins a session");
    assert!(record.totals.attempted <= 4 * (50 - turned_away) + turned_away);
}

#[test]
fn a_load_that_is_stopped_keeps_its_books() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Full, 1);
    plan.count_max = None;
    let mut run = load::run::start(plan.clone()).unwrap();
    let first = run.next_second().unwrap();
    assert!(first.second.succeeded > 0);
    run.stopper().stop();
    let record = record(&plan, run.finish().unwrap());
    assert_eq!(record.ending, RunEnding::Interrupted);
    assert!(record.totals.succeeded >= first.second.succeeded);
}

#[test]
fn a_load_rests_between_warm_up_and_figures() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Psk, 40);
    plan.rests = true;
    plan.warm_up = Duration::from_millis(200);
    plan.clients.requests_per_connection = Some(3);
    let run = load::run::start(plan.clone()).unwrap();
    assert!(run.wait_for_rest());
    let warm_up = server.counts();
    let rested_at = std::time::Instant::now();
    run.go_on();
    assert!(run.zero() >= rested_at, "the figures begin when it goes on");
    let outcome = run.finish().unwrap();
    assert_eq!(outcome.carried(), 0);
    let record = record(&plan, outcome);
    assert_eq!(record.totals.succeeded, 40, "{:?}", record.failures);
    assert!(record.warm_up.succeeded > 0);
    let handshakes = server.counts() - warm_up;
    assert_eq!(handshakes.full, 0, "sessions are those of the warm-up");
    // At most eight requests go on connections of the warm-up.
    assert!(handshakes.resumed >= 10, "{handshakes:?}");
}

#[test]
fn a_load_can_be_stopped_while_it_rests() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Full, 40);
    plan.rests = true;
    let run = load::run::start(plan.clone()).unwrap();
    assert!(run.wait_for_rest());
    assert_eq!(run.stopper().open_connections(), 0);
    run.stopper().stop();
    assert!(!run.wait_for_rest());
    let record = record(&plan, run.finish().unwrap());
    assert_eq!(record.ending, RunEnding::Interrupted);
    assert_eq!(record.totals.attempted, 0);
}

#[test]
fn open_load_does_not_rest() {
    let server = Server::start(Cache::All);
    let mut plan = plan(server.address(), Handshake::Full, 1);
    plan.rests = true;
    plan.arrival = ArrivalModel::Open {
        stretches: vec![Stretch {
            length: Duration::from_secs(1),
            from_per_s: 10.0,
            to_per_s: 10.0,
        }],
        spacing: Spacing::Constant,
        session_arrivals: false,
    };
    let run = load::run::start(plan.clone()).unwrap();
    assert!(!run.wait_for_rest());
    assert_eq!(record(&plan, run.finish().unwrap()).totals.succeeded, 1);
}
