//! A server that an operator disables gets no new connections, until it is enabled.

use suite::prelude::*;

/// Two servers that echo, and a service that spreads connections over them in turn.
struct Rig {
    site: Site,
    servers: [Server; 2],
    service: Service,
    lariat: Lariat,
}

impl Rig {
    fn start() -> Self {
        Self::start_with("", "")
    }

    /// Starts the rig with these keys of `back`, and these tables before the service.
    fn start_with(back: &str, tables: &str) -> Self {
        let site = Site::new();
        let servers = [(); 2].map(|()| Server::start(Behaviour::Echo));
        let addresses = [servers[0].address(), servers[1].address()];
        let service =
            Service::new(&site, &servers[0]).servers(&format!("{addresses:?}")).back(back);
        let lariat = service.start_with(tables);
        Self { site, servers, service, lariat }
    }

    fn change(&self, word: &str, server: usize) -> Finished {
        let name = format!("web/{}", self.servers[server].address());
        self.lariat.ask_with("server", &[word, &name])
    }

    /// Makes enough connections that each server has some by any worker, if it gets any.
    fn connect(&self) -> Vec<Connection> {
        let client = Client::new(&self.site);
        (0..8).map(|_| client.echo(self.service.address)).collect()
    }

    /// Returns how many connections each of the servers got meanwhile.
    fn gained(&self, work: impl FnOnce(&Self)) -> [usize; 2] {
        let counts = || [0, 1].map(|server: usize| self.servers[server].connections().len());
        let before = counts();
        work(self);
        let after = counts();
        [after[0] - before[0], after[1] - before[1]]
    }

    fn status_of(&self, server: usize) -> Value {
        self.lariat.status()["services"][0]["servers"][server].clone()
    }
}

#[test]
fn a_disabled_server_gets_no_new_connections_and_keeps_the_open_ones() {
    let rig = Rig::start();
    let mut open = rig.connect();
    let disabled = rig.change("disable", 0);
    disabled.assert_stdout(" is disabled; ");
    disabled.success();
    assert_eq!(rig.gained(|rig| drop(rig.connect())), [0, 8]);
    for connection in &mut open {
        connection.echo();
    }
    let first = rig.status_of(0);
    assert_eq!((&first["disabled"], &first["state"]), (&true.into(), &"down".into()));
    assert_eq!(rig.status_of(1)["disabled"], false);
    let address = [("server", rig.servers[0].address())];
    rig.lariat.wait_for_metric("lariat_server_disabled", &address, 1.0);
    rig.lariat.ask("status").assert_stdout("disabled  ");
    // A repetition is no mistake.
    rig.change("disable", 0).success();
    rig.change("enable", 0).assert_stdout(" is enabled");
    assert!(rig.gained(|rig| drop(rig.connect()))[0] > 0);
    rig.lariat.wait_for_metric("lariat_server_disabled", &address, 0.0);
    rig.lariat.wait_for_stderr("is disabled: it gets no new connection");
}

#[test]
fn sessions_end_with_their_server() {
    for (back, words) in [("", &["disable", "--close"][..]), ("on-down = 'close'", &["disable"])] {
        let rig = Rig::start_with(back, "");
        let mut open = Vec::new();
        let [first, _] = rig.gained(|rig| open = rig.connect());
        let name = format!("web/{}", rig.servers[0].address());
        rig.lariat.ask_with("server", &[words, &[&name]].concat()).success();
        let resets = || rig.servers[0].connections().iter().filter(|one| one.failed).count();
        until("its sessions are reset", || (resets() == first).then_some(()));
        rig.lariat.wait_for_line(&["server-disabled"]);
        let is_cut = |one: &mut Connection| one.try_end().and_then(|()| one.read_to_end()).is_err();
        let cut = open.iter_mut().map(is_cut).filter(|is_cut| *is_cut).count();
        assert_eq!(cut, first, "sessions of the other server go on");
        assert_eq!(rig.gained(|rig| drop(rig.connect())), [0, 8]);
    }
}

#[test]
fn sessions_end_in_a_worker_process_that_drains_too() {
    let rig = Rig::start();
    let mut open = Vec::new();
    let [first, _] = rig.gained(|rig| open = rig.connect());
    let before = rig.lariat.upgrade();
    before.assert_running();
    let name = format!("web/{}", rig.servers[0].address());
    rig.lariat.ask_with("server", &["disable", "--close", &name]).success();
    let resets = || rig.servers[0].connections().iter().filter(|one| one.failed).count();
    until("its sessions are reset", || (resets() == first).then_some(()));
    drop(open);
    before.wait();
}

#[test]
fn a_weight_holds_on_all_workers_over_reloads_and_deaths_until_it_is_configured_again() {
    let rig = Rig::start();
    let name = format!("web/{}", rig.servers[0].address());
    let weigh = |weight: &str| rig.lariat.ask_with("server", &["weight", &name, weight]);
    weigh("0").assert_stdout(" has weight 0");
    assert_eq!(rig.gained(|rig| drop(rig.connect())), [0, 8]);
    rig.lariat.reload().success();
    assert_eq!(rig.gained(|rig| drop(rig.connect())), [0, 8]);
    rig.lariat.kill_worker_process();
    rig.lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], 1.0);
    assert_eq!(rig.gained(|rig| drop(rig.connect())), [0, 8]);
    let status = rig.status_of(0);
    assert_eq!((&status["weight_ordered"], &status["state"]), (&0.into(), &"down".into()));
    rig.lariat.ask("status").assert_stdout("weight 0 by `lariat server`");
    let other = format!("web/{}", rig.servers[1].address());
    let last = rig.lariat.ask_with("server", &["weight", &other, "0"]);
    last.assert_stderr("no server of web is up: its clients are refused");
    rig.lariat.wait_for_stderr("service `web`: no server is up, so clients are not served");
    rig.lariat.ask_with("server", &["weight", &other, "configured"]).success();
    weigh("configured").assert_stdout(" has its configured weight");
    assert!(rig.gained(|rig| drop(rig.connect()))[0] > 0);
    let wrong = weigh("257");
    wrong.assert_stderr("a weight is a number from 0 to 256");
    assert_eq!(wrong.code(), 2);
}

#[test]
fn it_stays_disabled_over_reloads_and_the_death_of_the_worker_process() {
    let rig = Rig::start();
    rig.change("disable", 0).success();
    rig.lariat.reload().success();
    assert_eq!(rig.gained(|rig| drop(rig.connect())), [0, 8]);
    rig.lariat.kill_worker_process();
    rig.lariat.wait_for_metric("lariat_worker_process_restarts_total", &[], 1.0);
    assert_eq!(rig.gained(|rig| drop(rig.connect())), [0, 8]);
    assert_eq!(rig.status_of(0)["disabled"], true);
    // Once it has left the configuration it is a new server.
    let alone = format!("[{:?}]", rig.servers[1].address());
    rig.lariat.configure(&rig.service.clone().servers(&alone).toml());
    rig.lariat.reload().success();
    rig.lariat.reload_with(&rig.service.toml());
    assert!(rig.gained(|rig| drop(rig.connect()))[0] > 0);
}

#[test]
fn with_all_disabled_the_log_says_so() {
    let rig = Rig::start();
    rig.change("disable", 0).success();
    rig.change("disable", 1).assert_stderr("warning: no server of web is up");
    let mut refused = Client::new(&rig.site).connect(rig.service.address);
    let _ended_either_way = refused.read_to_end();
    drop(refused);
    rig.lariat.wait_for_line(&["no-server-available", "2 of 2 servers are disabled"]);
}

#[test]
fn an_order_about_no_server_does_nothing() {
    let rig = Rig::start();
    let pid = rig.lariat.supervisor();
    // SIGRTMIN of the C library.
    let kill = format!("kill -34 {}", pid.as_raw_nonzero());
    run(Command::new("sh").args(["-c", &kill])).success();
    rig.lariat.wait_for_stderr("about a server or certificate that the served configuration lacks");
    assert!(!rig.gained(|rig| drop(rig.connect())).contains(&0));
}

#[test]
fn a_server_that_there_is_not_is_an_error_that_names_the_nearest() {
    let rig = Rig::start();
    let address = rig.servers[0].address();
    let near = rig.lariat.ask_with("server", &["disable", &format!("wep/{address}")]);
    near.assert_stderr(&format!("did you mean web/{address}?"));
    assert_eq!(near.code(), 2);
    let other = rig.lariat.ask_with("server", &["enable", "other/unix:/nowhere"]);
    other.assert_stderr("no service has the server other/unix:/nowhere");
    assert_eq!(other.code(), 2);
    assert_eq!(rig.status_of(0)["disabled"], false);
}

#[test]
fn an_enabled_server_starts_slowly_if_asked_to() {
    let rig = Rig::start_with("slow-start = '1h'", "[workers]\nthreads = 1\n");
    let gained = rig.gained(|rig| drop(rig.connect()));
    assert_eq!(gained, [4, 4], "all are warm at the start");
    rig.change("disable", 0).success();
    rig.change("enable", 0).success();
    rig.lariat.ask("status").assert_stdout("slow start: it has its whole share in");
    let [first, second] = rig.gained(|rig| drop((rig.connect(), rig.connect())));
    assert!(first < 4 && second > 12, "{first} and {second}, a tenth against the whole");
}
