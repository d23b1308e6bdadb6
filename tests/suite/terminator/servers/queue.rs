//! A server gets no more connections at once than it takes; further ones wait their turn.

use suite::prelude::*;

/// More than one worker, because limits hold over all of them.
const WORKERS: &str = "[workers]\nthreads = 3\n";

struct Rig {
    site: Site,
    server: Server,
    service: Service,
    lariat: Lariat,
}

impl Rig {
    /// Starts a server that takes two connections, and one that stands by.
    fn start(queue: &str) -> Self {
        let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
        let address = server.address();
        let backup = Server::start(Behaviour::Echo);
        let servers = format!(
            "[{{ address = '{address}', max-connections = 2 }}, \
             {{ address = '{}', backup = true }}]",
            backup.address()
        );
        let service =
            Service::new(&site, &server).servers(&servers).back(&format!("queue = {{ {queue} }}"));
        let lariat = service.start_with(WORKERS);
        Self { site, server, service, lariat }
    }

    fn echo(&self) -> Connection {
        Client::new(&self.site).echo(self.service.address)
    }

    /// Adds a waiting connection; returns when it is the last in the queue.
    fn waiting(&self, before: u32) -> Connection {
        let mut connection = Client::new(&self.site).connect(self.service.address);
        connection.send(b"w");
        self.wait_for_queue(before + 1);
        connection
    }

    fn wait_for_queue(&self, length: u32) {
        self.lariat.wait_for_metric("lariat_queue_connections", &[], f64::from(length));
    }

    fn open(&self) -> f64 {
        let server = [("server", self.server.address())];
        self.lariat.sum("lariat_server_connections_open", &server)
    }
}

fn end(mut connection: Connection) {
    connection.end();
    connection.read_to_end().unwrap();
}

#[test]
fn a_reload_that_raises_the_limit_serves_those_who_wait() {
    let rig = Rig::start("timeout = '1h'");
    let _served = [rig.echo(), rig.echo()];
    let mut queue: Vec<_> = (0..3).map(|before| rig.waiting(before)).collect();
    let toml = rig.service.toml().replace("max-connections = 2", "max-connections = 4");
    rig.lariat.reload_with(&format!("{WORKERS}{toml}"));
    assert_eq!(queue[0].receive(1), b"w");
    assert_eq!(queue[1].receive(1), b"w");
    rig.wait_for_queue(1);
    let toml = rig.service.toml().replace(", max-connections = 2", "");
    rig.lariat.reload_with(&format!("{WORKERS}{toml}"));
    assert_eq!(queue[2].receive(1), b"w", "there is no limit any more");
}

#[test]
fn connections_wait_in_order_and_get_the_places_that_others_leave() {
    let rig = Rig::start("timeout = '1h'");
    let mut served = vec![rig.echo(), rig.echo()];
    let queue: Vec<_> = (0..6).map(|before| rig.waiting(before)).collect();
    assert_eq!(rig.server.connections().len(), 2);
    rig.lariat.ask("status").assert_stdout("6 wait for a server");
    for (index, mut next) in queue.into_iter().enumerate() {
        end(served.remove(0));
        assert_eq!(next.receive(1), b"w", "the {index}th in turn");
        rig.wait_for_queue(5 - index as u32);
        assert_eq!(rig.server.connections().len(), 3 + index);
        assert!(rig.open() <= 2.0);
        served.push(next);
    }
    let waits = rig.lariat.sum("lariat_queue_wait_duration_seconds_count", &[]);
    assert!((waits - 6.0).abs() < f64::EPSILON, "{waits}");
    // All places are free when the last connection is gone.
    served.into_iter().for_each(end);
    rig.lariat.wait_for_metric("lariat_server_connections_open", &[], 0.0);
    let _two = [rig.echo(), rig.echo()];
}

#[test]
fn a_full_queue_and_a_long_wait_have_their_reasons() {
    let rig = Rig::start("length = 1, timeout = '1h'");
    let _served = [rig.echo(), rig.echo()];
    let waiting = rig.waiting(0);
    let mut refused = Client::new(&rig.site).connect(rig.service.address);
    let _ended_either_way = refused.read_to_end();
    drop(refused);
    rig.lariat.wait_for_reason("server-queue-full", 1);
    rig.lariat.wait_for_line(&["server-queue-full", "back.queue.length"]);
    drop(waiting);
    let rig = Rig::start("timeout = '50ms'");
    let _served = [rig.echo(), rig.echo()];
    let mut late = Client::new(&rig.site).connect(rig.service.address);
    let _ended_either_way = late.read_to_end();
    drop(late);
    rig.lariat.wait_for_reason("server-queue-timeout", 1);
    rig.wait_for_queue(0);
}

#[test]
fn plain_clients_that_wait_in_vain_are_reset() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let address = server.address();
    let service = Service::new(&site, &server)
        .mode("off")
        .servers(&format!("[{{ address = '{address}', max-connections = 1 }}]"))
        .back("queue = { timeout = '50ms' }");
    let lariat = service.start();
    let connect = || TcpStream::connect(service.address).unwrap();
    let _served = connect();
    lariat.wait_for_metric("lariat_server_connections_open", &[], 1.0);
    let end = connect().read(&mut [0]).unwrap_err();
    assert_eq!(end.kind(), ErrorKind::ConnectionReset);
    lariat.wait_for_reason("server-queue-timeout", 1);
}

#[test]
fn without_a_queue_nobody_waits() {
    let rig = Rig::start("length = 0");
    let _served = [rig.echo(), rig.echo()];
    let mut refused = Client::new(&rig.site).connect(rig.service.address);
    let _ended_either_way = refused.read_to_end();
    drop(refused);
    rig.lariat.wait_for_reason("server-queue-full", 1);
}

#[test]
fn connections_count_on_over_a_reload() {
    let rig = Rig::start("timeout = '1h'");
    let mut served = vec![rig.echo(), rig.echo()];
    let before = rig.waiting(0);
    rig.lariat.reload().success();
    let after = rig.waiting(1);
    for mut next in [before, after] {
        end(served.remove(0));
        assert_eq!(next.receive(1), b"w");
        served.push(next);
    }
    rig.wait_for_queue(0);
    assert!(rig.open() <= 2.0);
}

#[test]
fn a_disabled_server_that_is_enabled_is_found_by_those_that_wait() {
    let (site, servers) = (Site::new(), [(); 2].map(|()| Server::start(Behaviour::Echo)));
    let entries = servers
        .each_ref()
        .map(|server| format!("{{ address = '{}', max-connections = 1 }}", server.address()));
    let service = Service::new(&site, &servers[0])
        .servers(&format!("[{}]", entries.join(", ")))
        .back("queue = { timeout = '1h' }");
    let lariat = service.start_with(WORKERS);
    let name = format!("web/{}", servers[1].address());
    lariat.ask_with("server", &["disable", &name]).success();
    let client = Client::new(&site);
    let _served = client.echo(service.address);
    let mut waiting = client.connect(service.address);
    waiting.send(b"w");
    lariat.wait_for_metric("lariat_queue_connections", &[], 1.0);
    lariat.ask_with("server", &["enable", &name]).success();
    assert_eq!(waiting.receive(1), b"w");
    assert_eq!(servers[1].connections().len(), 1);
}

#[test]
fn many_clients_at_once_all_get_their_turn() {
    let rig = Rig::start("timeout = '1h'");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..8).for_each(|_| end(rig.echo())));
        }
    });
    assert_eq!(rig.server.connections().len(), 64);
    rig.wait_for_queue(0);
    rig.lariat.wait_for_metric("lariat_server_connections_open", &[], 0.0);
}
