//! Clients whose TLS stays closed go to the server that has their session.

use suite::prelude::*;

/// Visits that would all meet the one server of three by chance: once in 729 times.
const VISITS: usize = 6;

/// Without tickets, sessions of TLS 1.2 have ids.
const BY_ID: [&str; 2] = ["-tls1_2", "-no_ticket"];

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
        let servers: Vec<_> = (0..3)
            .map(|_| SServer::start(&site, "site.pem", &["-www"]))
            .collect();
        let list: Vec<_> = servers.iter().map(|one| one.address.to_string()).collect();
        let plain = Server::start(Behaviour::Hang);
        let service = Service::new(&site, &plain)
            .mode("passthrough")
            .servers(&format!("{list:?}"))
            .back(keys);
        let lariat = Lariat::start(&format!("{}\n[workers]\nthreads = 2\n", service.toml()));
        Self {
            site,
            service,
            lariat,
            servers,
        }
    }

    /// One visit; whether a session was resumed.
    fn visit(&self, arguments: &[&str]) -> bool {
        let said = s_client(&self.site, self.service.address, arguments).success();
        let is_resumed = said.contains("\nReused, TLSv");
        assert!(is_resumed != said.contains("\nNew, TLSv"), "{said}");
        is_resumed
    }

    /// A visit with the session that is kept, if there is one; the session is kept afterwards.
    fn return_visit(&self) -> bool {
        let path = self.site.path("session");
        let path = path.to_str().unwrap();
        let mut arguments = vec!["-sess_out", path];
        if self.site.path("session").exists() {
            arguments.extend(["-sess_in", path]);
        }
        arguments.extend(BY_ID);
        self.visit(&arguments)
    }

    fn connections(&self, session: &str) -> f64 {
        let labels = [("session", session)];
        let labels = if session.is_empty() { &[][..] } else { &labels };
        self.lariat.sum("lariat_affinity_connections_total", labels)
    }

    /// The server that was dialled most.
    fn home(&self) -> usize {
        let dials = |index: &usize| {
            let address = self.servers[*index].address.to_string();
            self.lariat
                .sum("lariat_dials_total", &[("server", &address)]) as u64
        };
        (0..self.servers.len()).max_by_key(dials).unwrap()
    }
}

#[test]
fn openssl_reconnects_to_the_server_that_has_its_session() {
    let farm = Farm::start("affinity = 'session-id'");
    let arguments = [&BY_ID[..], &["-reconnect"]].concat();
    let said = s_client(&farm.site, farm.service.address, &arguments).success();
    assert_eq!(said.matches("\nReused, TLSv1.2").count(), 5, "{said}");
    assert_eq!(farm.connections("kept"), 5.0);
    assert_eq!(farm.connections(""), 5.0, "the first one offered none");
    assert_has(farm.lariat.ask("status").success(), "5 kept");
}

#[test]
fn a_dead_servers_client_moves_and_is_kept_where_it_went() {
    let mut farm = Farm::start("affinity = { by = 'session-id', entries = 100 }");
    assert!(!farm.return_visit());
    (0..VISITS).for_each(|_| assert!(farm.return_visit()));
    farm.lariat.reload().success();
    (0..VISITS).for_each(|_| assert!(farm.return_visit(), "a reload forgets nothing"));
    farm.servers.remove(farm.home());
    assert!(!farm.return_visit(), "another server");
    assert_eq!(farm.connections("moved"), 1.0);
    (0..VISITS).for_each(|_| assert!(farm.return_visit()));
    assert_eq!(farm.connections("kept"), 3.0 * VISITS as f64);
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
    let of_stranger = [&BY_ID[..], &["-sess_out", path]].concat();
    s_client(&farm.site, stranger.address, &of_stranger).success();
    assert!(!farm.visit(&[&BY_ID[..], &["-sess_in", path]].concat()));
    assert_eq!(
        (farm.connections("unknown"), farm.connections("")),
        (1.0, 1.0)
    );
}

#[test]
fn affinity_is_for_tls_that_stays_closed() {
    let site = Site::new();
    let service = Service::new(&site, &Server::start(Behaviour::Echo));
    let lariat = Lariat::start(&service.back("affinity = 'session-id'").toml());
    assert_has(lariat.stderr(), "affinity");
    assert_has(
        lariat.stderr(),
        "clients have no TLS session with the servers",
    );
}
