//! Checks what must hold of each schedule, whatever happened in it.

use telemetry::catalogue::{ServerGauge, ServiceGauge, WorkerGauge};
use wire::proxy_header;

use super::course::Simulation;
use super::host::{FrontKind, SERVERS, SERVICES, ServerKind, SimulatedHost, content};
use super::peers::{PeerEnd, SimulatedClient, SimulatedServer, stretch};

/// Beginning of the answer to a client that asked for a file.
const FOUND: &[u8] = b"HTTP/1.1 200 ";

/// Reports whether an answer has the whole file behind its head.
fn is_whole_file(got: &[u8]) -> bool {
    let head = got.windows(4).position(|end| end == b"\r\n\r\n");
    got.starts_with(FOUND) && head.is_some_and(|head| got[head + 4..] == content())
}

/// Returns bytes shortened for a message.
fn shortened(bytes: &[u8]) -> String {
    let beginning = bytes.get(..80).unwrap_or(bytes);
    format!("{} ({} bytes)", beginning.escape_ascii(), bytes.len())
}

/// Returns the client's own bytes among a server's; `None` = the header is incomplete.
fn without_header(server: &SimulatedServer, sends_header: bool) -> Option<&[u8]> {
    if !sends_header {
        return Some(&server.got);
    }
    match proxy_header::read(&server.got) {
        Ok(Some(parsed)) => server.got.get(parsed.wire_bytes..),
        Ok(None) => None,
        Err(fault) => {
            panic!("no PROXY header comes first: {fault:?}, {:?}", shortened(&server.got))
        }
    }
}

/// Returns for each server's connection the client whose bytes it has.
fn pairs(simulation: &Simulation<'_>) -> Vec<Option<usize>> {
    let served_by = |at: usize| {
        let services = simulation.served.iter();
        services.filter(move |service| SERVICES[**service].servers.contains(&at))
    };
    let mut pairs = Vec::new();
    for server in &simulation.servers {
        let found = simulation.clients.iter().position(|(number, client)| {
            let kind = &SERVICES[client.service];
            if !kind.servers.contains(&server.at) || server.got.is_empty() {
                return false;
            }
            let begins_so = proxy_header::likeness(&server.got) == proxy_header::HeaderGuess::Yes;
            if begins_so != kind.sends_header.is_some() {
                return false;
            }
            let Some(rest) = without_header(server, kind.sends_header.is_some()) else {
                return false;
            };
            let beginning = client.beginning(simulation.host);
            let tag = SimulatedClient::tag(*number);
            rest.len() > beginning.len()
                && rest.starts_with(&beginning)
                && rest[beginning.len()] == tag
        });
        if let Some(at) = found {
            assert!(!pairs.contains(&Some(at)), "two servers have bytes of one client");
            let (number, client) = &simulation.clients[at];
            let rest = without_header(server, SERVICES[client.service].sends_header.is_some());
            let beginning = client.beginning(simulation.host);
            let own = &rest.unwrap_or_default()[beginning.len()..];
            assert!(own.len() <= client.said, "a server has more than its client has said");
            let said = stretch(SimulatedClient::tag(*number), 0, own.len());
            assert!(own.iter().copied().eq(said), "a server has a wrong byte");
        } else if !server.got.is_empty() {
            // No byte of a client's own has come: it is a beginning, with the header before it.
            let is_one = served_by(server.at)
                .any(|service| is_beginning(simulation.host, &SERVICES[*service], server));
            assert!(is_one, "a server has bytes of nobody: {}", shortened(&server.got));
        }
        pairs.push(found);
    }
    pairs
}

fn is_beginning(
    host: &SimulatedHost,
    kind: &super::host::ServiceKind,
    server: &SimulatedServer,
) -> bool {
    if kind.sends_header.is_some()
        && proxy_header::likeness(&server.got) == proxy_header::HeaderGuess::No
    {
        return false;
    }
    let Some(rest) = without_header(server, kind.sends_header.is_some()) else {
        return true;
    };
    let beginning = match kind.front {
        FrontKind::Passthrough => host.hello.clone(),
        FrontKind::Smtp => super::peers::smtp_beginning(),
        FrontKind::Plain | FrontKind::Terminate => Vec::new(),
    };
    beginning.starts_with(rest)
}

/// Returns the server whose bytes a client has.
fn speaker(simulation: &Simulation<'_>, client: &SimulatedClient) -> Option<usize> {
    let got = client.got_of_server();
    let at = SimulatedServer::number_of(*got.first()?);
    let server = simulation.servers.get(at);
    let server =
        server.unwrap_or_else(|| panic!("a client has bytes of nobody: {}", shortened(got)));
    assert!(got.len() <= server.said, "a client has more than its server has said");
    let said = stretch(got[0], 0, got.len());
    assert!(got.iter().copied().eq(said), "a client has a wrong byte");
    Some(at)
}

/// Checks the state once nothing moves any more, though no limit of time has passed.
pub(super) fn of_settled(simulation: &Simulation<'_>) {
    let pairs = pairs(simulation);
    let is_limited = simulation.served.contains(&10);
    if simulation.is_rough || simulation.has_server_fault || is_limited {
        return;
    }
    for at in 0..simulation.clients.len() {
        let (_, client) = &simulation.clients[at];
        let is_tls = client.is_tls();
        assert!(client.fault.is_none(), "a client says: {:?}", client.fault);
        if SERVICES[client.service].is_files {
            let is_whole = simulation.script.never_answers || is_whole_file(&client.got);
            assert!(is_whole, "a file does not come: {}", shortened(&client.got));
            continue;
        }
        let speaker = speaker(simulation, client);
        let pair = pairs.iter().position(|one| *one == Some(at));
        if let (Some(pair), Some(speaker)) = (pair, speaker) {
            assert_eq!(pair, speaker, "what a client hears comes from another's server");
        }
        assert!(!is_tls || client.was_established, "a handshake does not end");
        assert!(
            client.said == 0 || pair.is_some(),
            "a client's bytes have not come to a server: {}",
            simulation.tell()
        );
        let Some(server) = pair.or(speaker).map(|at| &simulation.servers[at]) else {
            continue;
        };
        assert!(server.fault.is_none(), "a server says: {:?}", server.fault);
        let own = without_header(server, SERVICES[client.service].sends_header.is_some());
        let own = own.map_or(0, |own| own.len());
        let expected = client.beginning(simulation.host).len() + client.said;
        assert!(own == expected, "of {expected} bytes {own} have come to the server");
        assert!(
            client.said == client.total || client.has_closed,
            "a client cannot say what it has to: {}",
            simulation.tell()
        );
        let heard = client.got_of_server().len();
        assert!(heard == server.said, "of {} bytes {heard} have come to the client", server.said);
        let some_end = client.ends_first || server.ends_first;
        assert!(!some_end || server.has_closed && client.has_closed, "an end is not passed on");
    }
    let is_kept = simulation.script.never_answers;
    let someone_waits = is_kept || simulation.servers.iter().any(|one| !one.has_closed);
    let silent = simulation.clients.iter().any(|(_, one)| !one.has_closed);
    assert!(someone_waits || silent || simulation.worker.connections.is_empty(), "it does not end");
}

/// Checks that connections that have ended gave everything back.
fn leaves_nothing(simulation: &Simulation<'_>) {
    let worker = &simulation.worker;
    assert!(worker.connections.is_empty(), "a connection does not end");
    assert_eq!(worker.pool.in_use(), 0, "a buffer has not come back");
    assert!(worker.schedule.is_empty(), "somebody is to be served who is no more");
    assert!(worker.allowances.connections.is_ample(1), "a place of the limit is lost");
    assert!(worker.allowances.handshakes.is_ample(1), "a handshake's place is lost");
    assert_eq!(worker.counters.get(WorkerGauge::ConnectionsOpen), 0);
    let displaceable = crate::displaceable::DisplaceableStage::ALL;
    assert_eq!(
        worker.displaceable.borrow().count(displaceable),
        0,
        "one that is no more may be displaced"
    );
    let are_good = simulation.has_server_fault || simulation.failures() == 0;
    assert!(are_good, "a good server is held to have failed");
    for service in &worker.services {
        assert!(service.plan.open().is_ample(1), "a place of the service's limit is lost");
        assert_eq!(service.displaceable.borrow().count(displaceable), 0);
        for gauge in [
            ServiceGauge::ConnectionsOpen,
            ServiceGauge::HandshakesInProgress,
            ServiceGauge::Queued,
        ] {
            assert_eq!(service.counters.get(gauge), 0, "{gauge:?} of {}", service.plan.name);
        }
        let names = 0..service.plan.server_names.len();
        for server in names {
            let state = service.pool.borrow().state(server).unwrap();
            assert_eq!(state.open, 0, "a dial is counted as open");
            let counters = service.counters.server(server);
            assert_eq!(counters.get(ServerGauge::ConnectionsOpen), 0);
        }
    }
}

/// Checks the state once all connections have ended.
pub(super) fn of_ended(mut simulation: Simulation<'_>) -> Vec<(&'static str, String)> {
    leaves_nothing(&simulation);
    simulation.worker.lines.flush();
    // Nobody reads nor sends any more.
    let mut room = Vec::new();
    for (_, client) in &mut simulation.clients {
        if !client.is_dumb {
            while client.read(simulation.host, usize::MAX, &mut room) > 0 {}
        }
    }
    let lines = lines(&simulation);
    let pairs = pairs(&simulation);
    let mut ends = Vec::new();
    for (at, reason) in lines.into_iter().enumerate() {
        if let Some(reason) = reason {
            judge(&mut simulation, at, &reason, &pairs);
            ends.push((SERVICES[simulation.clients[at].1.service].name, reason));
        }
    }
    ends
}

/// Returns the reason of each client's end, in the order in which they connected; those that waited
/// to be accepted have none.
fn lines(simulation: &Simulation<'_>) -> Vec<Option<String>> {
    simulation.lines.close();
    let bytes = simulation.lines.take().unwrap_or_default();
    let text = String::from_utf8(bytes).expect("lines are UTF-8");
    let field = |line: &str, name: &str| {
        let from = line.find(&format!("\"{name}\":")).expect("the field is there") + name.len() + 3;
        let end = line[from..].find([',', '}']).expect("a field ends") + from;
        line[from..end].trim_matches('"').to_owned()
    };
    let mut ended: Vec<_> = text
        .lines()
        .map(|line| {
            let id = u64::from_str_radix(&field(line, "id"), 16).expect("a number");
            (id, field(line, "service"), field(line, "reason"))
        })
        .collect();
    ended.sort();
    ended.dedup_by_key(|(id, ..)| *id);
    assert_eq!(ended.len(), text.lines().count(), "a connection has ended twice");
    let address = |service: usize| &simulation.host.fronts[service].1;
    let mut taken = vec![false; ended.len()];
    let mut reasons = Vec::new();
    for (_, client) in &simulation.clients {
        let at = ended.iter().enumerate().position(|(at, (_, name, _))| {
            let service = SERVICES.iter().position(|kind| kind.name == *name).expect("a service");
            !taken[at] && address(service) == address(client.service)
        });
        reasons.push(at.map(|at| {
            taken[at] = true;
            ended[at].2.clone()
        }));
    }
    assert!(taken.iter().all(|taken| *taken), "more connections have ended than there were");
    let is_complete = reasons.iter().all(Option::is_some);
    assert!(is_complete || simulation.is_draining, "a connection has no end");
    reasons
}

/// Judges the end of one connection.
fn judge(simulation: &mut Simulation<'_>, at: usize, reason: &str, pairs: &[Option<usize>]) {
    assert_ne!(reason, "internal");
    let is_closed = simulation.clients[at].1.is_closed_by_server();
    let (number, client) = &simulation.clients[at];
    let kind = &SERVICES[client.service];
    if kind.is_files {
        let looks_whole = is_closed && !client.got.is_empty() && client.got.starts_with(FOUND);
        assert!(!looks_whole || is_whole_file(&client.got), "a part of a file looks whole");
        return;
    }
    let speaker = speaker(simulation, client);
    let pair = pairs.iter().position(|one| *one == Some(at));
    if let (Some(pair), Some(speaker)) = (pair, speaker) {
        assert_eq!(pair, speaker, "what a client hears comes from another's server");
    }
    let place = format!("client {number}, {reason}");
    let server = pair.or(speaker).map(|at| &simulation.servers[at]);
    let heard = client.got_of_server().len();
    // Words of the dialog, and a lifetime that ends between two answers, end a stream that is no
    // longer the server's.
    let may_be_cut = reason == "lifetime-reached" || kind.front == FrontKind::Smtp;
    let looks_whole = is_closed || kind.is_tcp && !client.is_tls() && client.end.is_ended;
    if looks_whole && !may_be_cut {
        let whole = server.is_some_and(|server| server.has_closed && heard == server.said);
        let is_silent = server.is_none() && heard == 0;
        assert!(whole || is_silent, "{place}: a part looks whole to the client: {heard}");
    }
    let Some(server) = server else {
        return;
    };
    let own = without_header(server, kind.sends_header.is_some()).map_or(0, <[u8]>::len);
    let all = client.beginning(simulation.host).len() + client.said;
    let is_tcp = kind.is_tcp && SERVERS[server.at] == ServerKind::Tcp;
    let looks_whole =
        server.is_closed_by_client || is_tcp && !server.is_tls() && server.end.is_ended;
    if looks_whole {
        let has_ended = client.has_closed || client.has_truncated;
        assert!(
            has_ended && own == all || client.has_truncated,
            "{place}: a part looks whole to the server: {own} of {all}"
        );
    }
    let is_server_read = server.end.is_ended && !server.is_faulty;
    if reason == "client-closed" && is_server_read && !client.is_faulty {
        assert!(own == all, "{place}: the server has {own} of {all}");
    }
    let is_client_read = client.end.is_ended && !client.is_faulty;
    if (reason == "client-closed" || reason == "backend-closed")
        && is_client_read
        && !server.is_faulty
    {
        assert!(heard == server.said, "{place}: the client has {heard} of {}", server.said);
    }
}

impl Simulation<'_> {
    /// Describes the progress of each peer.
    fn tell(&self) -> String {
        let clients = self.clients.iter();
        let clients = clients.map(|(number, one)| {
            let far = far(one.said, one.got.len(), &one.end);
            format!("client {number} {far}; ")
        });
        let servers = self.servers.iter().enumerate();
        let servers = servers.map(|(number, one)| {
            let far = far(one.said, one.got.len(), &one.end);
            format!("server {number} {far}; ")
        });
        clients.chain(servers).collect()
    }
}

fn far(said: usize, heard: usize, end: &PeerEnd) -> String {
    let (waiting, has_shut) = (end.out.len(), end.has_shut);
    let state = match (end.is_open(), end.is_ended, end.is_reset) {
        (false, ..) => "closed",
        (_, true, _) => "has heard the end",
        (.., true) => "is reset",
        _ => "is open",
    };
    format!("has said {said}, heard {heard}, {waiting} wait, has ended: {has_shut}, {state}")
}
