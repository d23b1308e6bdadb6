//! Clients whose TLS is passed through go to the server that has their session.

use std::net::UdpSocket;

use suite::prelude::*;

/// Visits that would all reach the same server of three by chance: once in 729 times.
const VISITS: usize = 6;

/// Without tickets, sessions of TLS 1.2 have ids.
const BY_ID: &[&str] = &["-tls1_2", "-no_ticket"];
/// OpenSSL's servers renew a ticket whenever it is used.
const BY_TICKET: &[&str] = &["-tls1_2"];

/// A balancer before three servers, each with sessions of its own.
struct Farm {
    site: Site,
    service: Service,
    lariat: Lariat,
    servers: Vec<SServer>,
}

impl Farm {
    fn start(keys: &str) -> Self {
        let site = Site::new();
        let servers: Vec<_> =
            (0..3).map(|_| SServer::start(&site, "site.pem", &["-www"])).collect();
        let list: Vec<_> = servers.iter().map(|one| one.address.to_string()).collect();
        let service = Service::new(&site, &list[0])
            .mode("passthrough")
            .servers(&format!("{list:?}"))
            .back(keys);
        let lariat = service.start_with("[workers]\nthreads = 2");
        Self { site, service, lariat, servers }
    }

    /// Makes one visit; returns whether a session was resumed.
    fn visit(&self, arguments: &[&str]) -> bool {
        let said = s_client(&self.site, self.service.address, arguments).success();
        let is_resumed = said.contains("\nReused, TLSv");
        assert!(is_resumed != said.contains("\nNew, TLSv"), "{said}");
        is_resumed
    }

    /// Makes a visit with the kept session, if there is one; the session is kept afterwards.
    fn return_visit(&self, kind: &[&str]) -> bool {
        let path = self.site.path("session");
        let path = path.to_str().unwrap();
        let mut arguments = vec!["-sess_out", path];
        if self.site.path("session").exists() {
            arguments.extend(["-sess_in", path]);
        }
        arguments.extend(kind);
        self.visit(&arguments)
    }

    fn connections(&self, session: &str) -> f64 {
        let labels = [("session", session)];
        let labels = if session.is_empty() { &[][..] } else { &labels };
        self.lariat.sum("lariat_affinity_connections_total", labels)
    }

    /// Returns the server that was dialled most.
    fn home(&self) -> usize {
        let dials = |index: &usize| {
            let address = self.servers[*index].address.to_string();
            self.lariat.sum("lariat_dials_total", &[("server", &address)]) as u64
        };
        (0..self.servers.len()).max_by_key(dials).unwrap()
    }
}

#[test]
fn openssl_reconnects_to_the_server_that_has_its_session() {
    let farm = Farm::start("affinity = 'session-id'");
    let arguments = [BY_ID, &["-reconnect"]].concat();
    let said = s_client(&farm.site, farm.service.address, &arguments).success();
    assert_eq!(said.matches("\nReused, TLSv1.2").count(), 5, "{said}");
    assert_eq!(farm.connections("kept"), 5.0);
    assert_eq!(farm.connections(""), 5.0, "the first one offered none");
    assert_has(farm.lariat.ask("status").success(), "5 kept");
}

#[test]
fn a_dead_servers_client_moves_and_is_kept_where_it_went() {
    for kind in [BY_ID, BY_TICKET] {
        moves_and_is_kept(kind);
    }
}

fn moves_and_is_kept(kind: &[&str]) {
    let mut farm = Farm::start("affinity = 'session-id'");
    assert!(!farm.return_visit(kind));
    let stay = |farm: &Farm, why| {
        (0..VISITS).for_each(|_| assert!(farm.return_visit(kind), "{why}"));
    };
    stay(&farm, "it has a session");
    farm.lariat.reload().success();
    stay(&farm, "a reload forgets nothing");
    farm.lariat.kill_worker_process();
    stay(&farm, "nor does the death of the worker process");
    farm.lariat.upgrade().wait();
    stay(&farm, "nor an upgrade");
    farm.servers.remove(farm.home());
    assert!(!farm.return_visit(kind), "another server");
    assert_eq!(farm.connections("moved"), 1.0);
    (0..VISITS).for_each(|_| assert!(farm.return_visit(kind)));
    assert_eq!(farm.connections("kept"), 2.0 * VISITS as f64);
    assert_eq!(farm.connections("unknown"), 0.0);
}

#[test]
fn sessions_without_a_lasting_id_are_spread_and_not_counted() {
    let farm = Farm::start("affinity = 'session-id'");
    for arguments in [&[][..], &["-tls1_3"]] {
        farm.visit(arguments);
    }
    assert_eq!(farm.connections(""), 0.0);
    // A session that no server here has made.
    let path = farm.site.path("session");
    let path = path.to_str().unwrap();
    let stranger = SServer::start(&farm.site, "site.pem", &["-www"]);
    let of_stranger = [BY_ID, &["-sess_out", path]].concat();
    s_client(&farm.site, stranger.address, &of_stranger).success();
    assert!(!farm.visit(&[BY_ID, &["-sess_in", path]].concat()));
    assert_eq!((farm.connections("unknown"), farm.connections("")), (1.0, 1.0));
}

#[test]
fn affinity_is_for_tls_that_stays_closed() {
    let site = Site::new();
    let service = Service::new(&site, Server::start(Behaviour::Echo));
    let lariat = Lariat::start(&service.back("affinity = 'session-id'").toml());
    lariat.wait_for_stderr("affinity");
    lariat.wait_for_stderr("clients have no TLS session with the servers");
}

/// Two balancers: what one learns about a client is known to the other.
#[test]
fn hosts_of_a_cluster_share_which_server_has_a_session() {
    let site = Site::new();
    site.write("cluster.key", [7; 32]);
    let servers = [(); 2].map(|()| SServer::start(&site, "site.pem", &["-www"]));
    let list = servers.each_ref().map(|one| one.address.to_string());
    let places = ["127.0.0.1:0", "127.0.0.2:0"].map(|place| {
        let socket = UdpSocket::bind(place).unwrap();
        socket.local_addr().unwrap()
    });
    let service = || {
        Service::new(&site, &list[0])
            .mode("passthrough")
            .servers(&format!("{list:?}"))
            .back("affinity = 'session-id'")
    };
    let services = [service(), service()];
    let start = |own: usize| {
        Lariat::start(&format!(
            "{}\n[cluster]\nsecret = {:?}\n[cluster.peers]\nlisten = \"{}\"\nsend-to = [\"{}\"]\n\
             fetch-timeout = \"100ms\"\n",
            services[own].toml(),
            site.path("cluster.key"),
            places[own],
            places[1 - own]
        ))
    };
    let mut hosts = [start(0), start(1)];
    let hears = |host: &Lariat| host.wait_for_metric("lariat_cluster_peers", &[], 1.0);
    hosts.iter().for_each(hears);
    let path = site.path("session");
    let path = path.to_str().unwrap();
    for kind in [BY_ID, BY_TICKET] {
        let visit = |host: usize, more: &[&str]| {
            let arguments = [kind, &["-sess_out", path], more].concat();
            let said = s_client(&site, services[host].address, &arguments).success();
            said.contains("\nReused, TLSv1.2")
        };
        assert!(!visit(0, &[]));
        for round in 0..VISITS {
            assert!(visit(1, &["-sess_in", path]), "at the other, {round}");
            assert!(visit(0, &["-sess_in", path]), "and back, {round}");
        }
        hosts[1].kill_worker_process();
        assert!(visit(1, &["-sess_in", path]), "the worker process died");
        hosts[0].upgrade().wait();
        assert!(visit(0, &["-sess_in", path]), "an upgrade");
        // The host has lost all sessions, and learns them from the other one.
        hosts[0].signal(Signal::TERM);
        hosts[0].wait();
        hosts[0] = start(0);
        hosts.iter().for_each(hears);
        for round in 0..VISITS {
            assert!(visit(0, &["-sess_in", path]), "started again, {round}");
        }
    }
}
