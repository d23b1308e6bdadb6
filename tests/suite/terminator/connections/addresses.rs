//! Addresses at which clients come in, and from which connections to servers come.
//!
//! Traffic that must not be seen outside happens at a host that the test makes, to which its
//! threads and the programs that they start belong.

use std::net::IpAddr;

use rustix::net::{AddressFamily, SocketType, connect, ipproto, socket};
use suite::kernel::pattern;
use suite::network::{Host, Network};
use suite::prelude::*;
use suite::scripted::serve_in_turn;

/// Runs `test` at a host of its own, with these commands of `ip` first; only root may.
fn at_a_host(setup: &[&str], test: impl FnOnce() + Send) {
    if let Some(mut network) = Network::new() {
        let host = network.host();
        setup.iter().for_each(|line| host.ip(line));
        host.within(test);
    }
}

/// Starts a server that answers each connection with the address that it comes from.
fn who_asks(address: &str) -> SocketAddr {
    serve_in_turn(address, |mut stream| {
        let peer = stream.peer_addr().map(|peer| peer.ip().to_string());
        let _ = stream.write_all(peer.unwrap_or_default().as_bytes());
    })
}

/// Returns the address from which, to the server, a connection through the service comes.
fn seen_source(client: &Client, service: &Service) -> Option<IpAddr> {
    let mut connection = client.try_connect(service.address).ok()?;
    let text = connection.read_to_end().ok()?;
    String::from_utf8(text).ok()?.parse().ok()
}

fn service_before(site: &Site, address: SocketAddr, source: &str) -> Service {
    Service::new(site, address).back(source)
}

#[test]
fn connections_to_servers_come_from_the_address_that_is_set_or_not_at_all() {
    let (site, server) = (Site::new(), who_asks("127.0.0.1"));
    let client = Client::new(&site);
    let service = service_before(&site, server, "source = '127.0.0.9, ::1'");
    let lariat = service.start();
    let expected: IpAddr = "127.0.0.9".parse().unwrap();
    assert_eq!(seen_source(&client, &service), Some(expected));
    lariat.reload_with(&service.toml().replace("127.0.0.9, ", ""));
    assert_eq!(seen_source(&client, &service), None);
    let line = lariat.wait_for_line(&["host-resources"]);
    let detail = line["detail"].as_str().unwrap_or_default();
    assert!(detail.contains("of the server's family"), "{line}");
}

#[test]
fn a_reload_does_not_let_a_worker_process_choose_addresses() {
    let (site, server) = (Site::new(), who_asks("127.0.0.1"));
    let service = service_before(&site, server, "source = '127.0.0.9'");
    let lariat = Lariat::start(&service.toml().replace("source = '127.0.0.9'", ""));
    lariat.configure(&service.toml());
    let refused = lariat.reload();
    assert_has(&refused.stderr, "may not choose the addresses");
    assert!(seen_source(&Client::new(&site), &service).is_some());
}

/// The client's address comes in a PROXY header: no host has it.
#[test]
fn servers_see_the_clients_own_address() {
    let setup = [
        "address add 10.9.1.1/32 dev lo",
        "rule add from 10.9.1.1 lookup 100",
        "route add local 10.9.0.0/24 dev lo table 100",
    ];
    at_a_host(&setup, || {
        let (site, server) = (Site::new(), who_asks("10.9.1.1"));
        let service = service_before(&site, server, "source = 'client'")
            .front("accept-proxy = ['127.0.0.1/32']");
        let lariat = service.start();
        let status = fs::read_to_string(format!(
            "/proc/{}/status",
            lariat.worker_process().as_raw_nonzero()
        ));
        // CAP_NET_RAW is number 13, and the only one left.
        assert_has(status.unwrap(), "CapPrm:\t0000000000002000");
        let mut socket = TcpStream::connect(service.address).unwrap();
        let header = b"PROXY TCP4 10.9.0.2 10.9.1.2 4000 443\r\n";
        socket.write_all(header).unwrap();
        let mut tls = Client::new(&site).over(socket).unwrap();
        assert_eq!(tls.read_to_end().unwrap(), b"10.9.0.2");
    });
}

#[test]
fn clients_come_in_by_the_interface_that_is_set() {
    let setup = ["link add one type veth peer name other", "link set one up"];
    at_a_host(&setup, || {
        let (_site, _server, service) = set_up(Behaviour::Echo);
        for (interface, is_reached) in [("lo", true), ("one", false)] {
            let service = service.clone().front(&format!("interface = '{interface}'"));
            let _lariat = service.start();
            let reached = TcpStream::connect(service.address).is_ok();
            assert_eq!(reached, is_reached, "{interface}");
        }
        let service = service.front("interface = 'eth7'");
        let directory = Directory::new();
        let path = directory.write("lariat.toml", service.toml());
        let checked = run(lariat::command().arg("check").arg(path));
        assert!(!checked.status.success());
        assert_has(&checked.stderr, "there is no network interface eth7");
    });
}

#[test]
fn a_listener_of_many_paths_serves_clients_of_one() {
    let (site, _server, service, lariat) =
        serve_as(Behaviour::Echo, |service| service.front("mptcp = true"));
    Client::new(&site).echo(service.address);
    let enabled = fs::read_to_string("/proc/sys/net/mptcp/enabled");
    let has_mptcp = enabled.is_ok_and(|text| text.trim() == "1");
    lariat.wait_for_stderr_times("has no MPTCP", usize::from(!has_mptcp));
    if has_mptcp {
        let listening = run(Command::new("ss").args(["-HMltn"])).success();
        assert_has(&listening, &service.address.to_string());
    }
}

/// Returns a count of MPTCP in the namespace of this thread.
fn mptcp_count(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/netstat").expect("the kernel has it");
    let mut rows = text.lines().filter_map(|row| row.strip_prefix("MPTcpExt:"));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let value = pairs.find_map(|(one, value)| (one == name).then_some(value));
    value.expect("a count of this name").parse().unwrap()
}

/// Returns the bytes that came by an interface of this thread's namespace.
fn received_by(interface: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let row =
        text.lines().find_map(|row| row.trim_start().strip_prefix(interface)?.strip_prefix(':'));
    let first = row.unwrap().split_whitespace().next().unwrap();
    first.parse().unwrap()
}

#[test]
fn a_transfer_goes_on_by_the_other_path_if_one_is_cut() {
    const BODY: usize = 48 << 20;
    const BEFORE: usize = 1 << 20;
    let Some(mut network) = Network::new() else {
        return;
    };
    let [server, client] = [network.host(), network.host()];
    let has_mptcp = client.within(|| Path::new("/proc/sys/net/mptcp/enabled").exists());
    if !has_mptcp {
        return;
    }
    for host in [&server, &client] {
        network.add_path(host);
        host.ip("mptcp limits set subflows 2 add_addr_accepted 2");
    }
    let second = server.second_ipv4();
    server.ip(&format!("mptcp endpoint add {second} dev eth1 signal"));
    let (site, body) = (Site::new(), pattern(BODY));
    let speaker = server.within(|| Server::start(Behaviour::Speak(body.clone())));
    let service = Service::new(&site, &speaker).listen("['0.0.0.0:443']");
    let text = service.front("mptcp = true").toml();
    let program = server.command(&lariat::command());
    let _lariat = server.within(|| Lariat::start_by(program, &text));
    let joined = |host: &Host| host.within(|| mptcp_count("MPJoinAckRx"));
    client.within(|| {
        let kind = (AddressFamily::INET, SocketType::STREAM);
        let socket = socket(kind.0, kind.1, Some(ipproto::MPTCP)).unwrap();
        connect(&socket, &server.at(443)).unwrap();
        let mut tls = Client::new(&site).over(TcpStream::from(socket)).unwrap();
        let mut got = tls.receive(BEFORE);
        until_true("a second path", || joined(&server) > 0);
        client.set_connected(false);
        tls.read_on(&mut got).expect("all of it, and its end");
        assert!(got == body, "{} bytes", got.len());
        assert!(received_by("eth1") > BEFORE as u64);
    });
}

/// A link-local address is one of an interface's; each host has some, and the zone selects one (RFC
/// 4007).
#[test]
fn a_zone_names_the_interface_of_a_link_local_address_everywhere() {
    let setup = [
        "link add zone0 type veth peer name zone1",
        "link set zone0 up",
        "address add fe80::77/64 dev zone0 nodad",
    ];
    at_a_host(&setup, || {
        let site = Site::new();
        let origin = Origin::start_with(&["--listen", "[fe80::77%zone0]:8000"]);
        let front = "[fe80::77%zone0]:8443";
        let service = Service::new(&site, "[fe80::77%zone0]:8000")
            .listen(&format!("['{front}']"))
            .back("check = { kind = 'http', interval = '100ms' }");
        let lariat = service.start();
        lariat.wait_for_metric("lariat_server_changes_total", &[], 0.0);
        let load = Load::bare()
            .arg("https://[fe80::77%25zone0]:8443/1k")
            .args("--threads 1 --cpus none --connections 2 --count 20 --verify off");
        let [attempted, succeeded, failed] = load.record().totals();
        assert_eq!([attempted, succeeded, failed], [20, 20, 0]);
        let probe = |place: &str| {
            let mut command = lab::command();
            run(command.args(["probe", place, "--timeout", "10s"]))
        };
        assert_has(&probe(front).stdout, "TLSv1.3");
        assert_has(&probe("[fe80::77]:8443").stderr, "is link-local and has no zone");
        drop(origin);
        for (wrong, words) in [
            ("[fe80::77]:8000", "is link-local and has no zone"),
            ("[fe80::77%zone7]:8000", "no network interface of this host"),
            ("[2001:db8::1%zone0]:8000", "only addresses of fe80::/10"),
        ] {
            let toml = service.clone().servers(&format!("['{wrong}']")).toml();
            let directory = Directory::new();
            let path = directory.write("lariat.toml", toml);
            let checked = run(lariat::command().arg("check").arg(path));
            assert!(!checked.status.success());
            assert_has(&checked.stderr, words);
        }
    });
}
