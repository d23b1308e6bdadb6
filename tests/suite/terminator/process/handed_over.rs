//! Listening sockets that a service manager has opened and hands over (sd_listen_fds(3)).

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};

use suite::prelude::*;
use suite::service_manager::handing_over;

fn started(fds: &[&dyn AsFd], configuration: &str) -> Lariat {
    let (command, _kept) = handing_over(fds, "LISTEN_FDNAMES=web");
    Lariat::start_by(command, configuration)
}

#[test]
fn connections_wait_in_it_from_one_lariat_to_the_next() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = Service::new(&site, &server).at(listener.local_addr().unwrap());
    let text = format!("[workers]\nthreads = 2\n{}", service.toml());
    let mut waiting = None;
    for _ in 0..2 {
        let mut lariat = started(&[&listener], &text);
        let mut connections: Vec<_> = waiting.take().into_iter().collect();
        connections.extend((0..4).map(|_| TcpStream::connect(service.address).unwrap()));
        for stream in connections {
            let mut connection = Client::new(&site).over(stream).unwrap();
            connection.echo();
        }
        lariat.drain();
        waiting = Some(TcpStream::connect(service.address).unwrap());
    }
}

#[test]
fn a_reload_leaves_it_and_takes_it_again() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let service = Service::new(&site, &server).at(listener.local_addr().unwrap());
    let lariat = started(&[&listener], &service.toml());
    let elsewhere = Service::new(&site, &server);
    for service in [&elsewhere, &service, &elsewhere, &service] {
        lariat.reload_with(&service.toml());
        let _connection = Client::new(&site).echo(service.address);
    }
}

#[test]
fn the_path_stays_the_managers_when_another_lariat_has_taken_over() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let path = site.path("front.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let listen = format!("['unix:{}']", path.display());
    let service = Service::new(&site, &server).listen(&listen).mode("off");
    let lariat = started(&[&listener], &service.toml());
    // The second one has it from the first, and a third from the second.
    for _ in 0..2 {
        lariat.ask("upgrade").success();
    }
    let elsewhere = Service::new(&site, &server);
    for service in [&elsewhere, &service] {
        lariat.reload_with(&service.toml());
    }
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"a").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    drop(stream);
    lariat.ask("drain").success();
    until_true("its end", || !lariat.status_socket().exists());
    UnixStream::connect(&path).unwrap();
}

#[test]
fn one_that_nothing_listens_at_is_named() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let lariat = started(&[&listener], &Service::new(&site, &server).toml());
    let address = listener.local_addr().unwrap();
    let warning = format!("handed over the socket web, {address}, and nothing");
    lariat.wait_for_stderr(&warning);
}

#[test]
fn one_is_listened_at_by_its_name() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let [one, other] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let unix = site.path("front.sock");
    let third = UnixListener::bind(&unix).unwrap();
    let service = |name: &str| {
        let listen = format!("['fd:{name}']");
        Service::new(&site, &server).listen(&listen).named(name)
    };
    let plain = service("plain").mode("off");
    // Two sockets of one name, as a unit with two `ListenStream=` has them, and one worker.
    let text = format!("[workers]\nthreads = 1\n{}{}", service("web").toml(), plain.toml());
    let fds: [&dyn AsFd; 3] = [&one, &other, &third];
    let (command, _kept) = handing_over(&fds, "LISTEN_FDNAMES=web:web:plain");
    let lariat = Lariat::start_by(command, &text);
    let assert_served = || {
        for listener in [&one, &other] {
            Client::new(&site).visit(listener.local_addr().unwrap());
        }
        let mut stream = UnixStream::connect(&unix).unwrap();
        stream.write_all(b"a").unwrap();
        stream.read_exact(&mut [0]).unwrap();
    };
    assert_served();
    assert!(!lariat.stderr().contains("nothing of the configuration"));
    // All are served after a reload too, and by a successor, by name or by address.
    lariat.reload_with(&format!("[workers]\nthreads = 1\n{}", plain.toml()));
    lariat.reload_with(&text);
    assert_served();
    lariat.ask("upgrade").success();
    assert_served();
    let by_address = Service::new(&site, &server).at(one.local_addr().unwrap());
    lariat.reload_with(&by_address.toml());
    Client::new(&site).visit(one.local_addr().unwrap());
    lariat.ask("drain").success();
}

#[test]
fn a_name_that_was_not_handed_over_is_an_error_that_lists_those_that_were() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let service = Service::new(&site, &server).listen("['fd:wbe']");
    let file = site.path("lariat.toml");
    let socket = site.path("status.sock");
    let text = format!("admin.status-socket = {socket:?}\n{}", service.toml());
    fs::write(&file, text).unwrap();
    let refused = |fds: &[&dyn AsFd], variables: &str| {
        let (mut command, _kept) = handing_over(fds, variables);
        run(command.arg("serve").arg(&file))
    };
    let with_one = refused(&[&listener], "LISTEN_FDNAMES=web");
    with_one.assert_fails(
        3,
        &[
            "service `web` cannot listen at fd:wbe: ",
            &format!("handed over: `web` ({address})"),
            "hint: `FileDescriptorName=`",
        ],
    );
    let with_none = refused(&[], "LISTEN_FDNAMES=");
    with_none.assert_stderr("no socket was handed over");
}

/// Runs a `lariat serve` that cannot begin.
fn refused(fds: &[&dyn AsFd], variables: &str) -> Finished {
    let (mut command, _kept) = handing_over(fds, variables);
    run(command.args(["serve", "no-such-file.toml"]))
}

#[test]
fn what_is_no_listening_socket_is_named() {
    let file = fs::File::open("/dev/null").unwrap();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let wrong: [(&dyn AsFd, &str); 3] = [
        (&file, "is no socket"),
        (&datagrams, "is no stream socket"),
        (&client, "is a socket that does not listen"),
    ];
    for (fd, why) in wrong {
        let refused = refused(&[&listener, fd], "LISTEN_FDNAMES=web:wrong");
        refused
            .assert_fails(2, &["descriptor 4 (wrong), which the service manager", why, "hint: "]);
    }
}

#[test]
fn variables_that_say_nothing_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for (variables, words) in [
        ("LISTEN_FDS=garbage", "LISTEN_FDS is \"garbage\", which is no number"),
        ("LISTEN_FDS=-1", "LISTEN_FDS is \"-1\", which is no number"),
        ("LISTEN_PID=me", "LISTEN_PID is \"me\", which is no number"),
        ("LISTEN_FDS=70000", "LISTEN_FDS says more than 32768 descriptors"),
        ("LISTEN_FDS=2", "descriptor 4 (unknown), which the service manager"),
    ] {
        let refused = refused(&[&listener], variables);
        refused.assert_fails(2, &[words]);
    }
    // The sockets are another process's.
    let refused = refused(&[&listener], "LISTEN_PID=1");
    refused.assert_stderr("no-such-file.toml");
}
