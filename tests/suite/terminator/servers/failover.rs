//! A server that cannot be reached is passed over before any byte is lost.

use suite::prelude::*;

#[test]
fn a_refused_dial_goes_to_the_next_server() {
    let (site, server, dead) = (Site::new(), Server::start(http()), free_address());
    let service =
        Service::new(&site, &server).servers(&format!("['{dead}', '{}']", server.address()));
    let lariat = service.start();
    for _ in 0..4 {
        assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
    }
    let retries = lariat.sum("lariat_dial_retries_total", &[]);
    assert!(retries >= 1.0, "{retries}");
}

#[test]
fn a_backup_serves_only_while_the_others_are_down() {
    let (site, server, backup, dead) =
        (Site::new(), Server::start(http()), Server::start(http()), free_address());
    let pool = |first: &str| {
        let backup = backup.address();
        format!("['{first}', {{ address = '{backup}', backup = true }}]")
    };
    let service = Service::new(&site, &server).servers(&pool(server.address()));
    let lariat = service.start();
    curl_tls(&site, service.address).run().success();
    assert_eq!((server.connections().len(), backup.connections().len()), (1, 0));
    lariat.reload_with(&service.clone().servers(&pool(&dead.to_string())).toml());
    curl_tls(&site, service.address).run().success();
    assert_eq!((server.connections().len(), backup.connections().len()), (1, 1));
}

#[test]
fn with_every_server_dead_the_client_is_let_go_and_the_reason_counted() {
    let site = Site::new();
    let service = Service::new(&site, free_address());
    let lariat = service.start();
    let mut connection = Client::new(&site).connect(service.address);
    let _ended_either_way = connection.read_to_end();
    drop(connection);
    lariat.wait_for_reason("backend-refused", 1);
}

/// A database's host, whose role its REST server knows.
#[test]
fn a_check_of_another_port_decides_and_sessions_end_with_the_role() {
    let site = Site::new();
    let database = Server::start(Behaviour::Echo);
    let rest = Server::start(Behaviour::Http(br#"{"role": "primary"}"#.to_vec()));
    let port = rest.address().rsplit_once(':').unwrap().1.to_owned();
    let check = format!(
        "check = {{ kind = 'http', port = {port}, method = 'OPTIONS', path = '/primary', \
         expect-status = [200], expect-body = 'primary', interval = '100ms', timeout = '5s', \
         fall = 1, rise = 1 }}\non-down = 'close'"
    );
    let service = Service::new(&site, &database).back(&check);
    let lariat = service.start();
    let mut session = Client::new(&site).echo(service.address);
    rest.wait_until(|all| all.iter().any(|one| one.bytes.starts_with(b"OPTIONS /primary ")));
    drop(rest);
    assert!(session.read_to_end().is_err(), "a session that was cut does not look finished");
    lariat.wait_for_line(&["server-down"]);
    lariat.ask("status").assert_stdout(&format!("port {port}: "));
}

#[test]
fn an_active_check_takes_a_dead_server_out() {
    let (site, server, dead) = (Site::new(), Server::start(http()), free_address());
    let service = Service::new(&site, &server)
        .servers(&format!("['{dead}', '{}']", server.address()))
        .back("check = { kind = 'tcp', interval = '100ms', timeout = '5s', fall = 1, rise = 1 }");
    let lariat = service.start();
    let dead = dead.to_string();
    lariat.wait_for_metric("lariat_server_up", &[("server", &dead)], 0.0);
    lariat.wait_for_metric("lariat_server_up", &[("server", server.address())], 1.0);
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

/// An operator reads at night: which server, why, since when, and whether clients notice.
#[test]
fn a_server_that_goes_down_and_comes_back_is_said_with_cause_and_time() {
    let (site, address) = (Site::new(), free_address());
    let check = "check = { kind = 'tcp', interval = '200ms', fall = 1, rise = 1 }";
    let service = Service::new(&site, address).back(check);
    let first = TcpListener::bind(address).unwrap();
    let lariat = service.start();
    let say = |words: &str| lariat.wait_for_stderr(words);
    let state = || lariat.status()["services"][0]["servers"][0].clone();
    until("the first look", || state()["since_ms"].as_u64());
    drop(first);
    say(&format!("warning: service `web`: server {address} is down: could not be dialled"));
    say("error: service `web`: no server is up");
    let down = state();
    let note = down["note"].as_str().unwrap();
    assert!(note.starts_with("could not be dialled"), "{down}");
    let since = down["since_ms"].as_u64().unwrap() / 1000;
    let metric = "lariat_server_last_change_timestamp_seconds";
    lariat.wait_for_metric(metric, &[], since as f64);
    assert_has(lariat.ask("status").success(), " s: could not be dialled");
    let _second = TcpListener::bind(address).unwrap();
    say(&format!("notice: service `web`: server {address} is up again after "));
    say("notice: service `web`: a server is up again after ");
    assert_eq!(state()["note"], Value::Null);
}
