//! Listening sockets that a service manager has opened and hands over (sd_listen_fds(3)).

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use suite::client::Client;
use suite::configuration::Service;
use suite::lariat::{Lariat, command};
use suite::patience::until;
use suite::program::{Finished, run};
use suite::site::Site;
use testkit::server::{Behaviour, Server};

/// A command that runs the program with the arguments that it gets, with these descriptors from 3
/// on, as a manager does; the descriptors are open for as long as what comes with it.
fn handing_over(fds: &[&dyn AsFd], variables: &str) -> (Command, Vec<OwnedFd>) {
    let mut script = String::new();
    let mut kept = Vec::new();
    for (number, fd) in (3..).zip(fds) {
        // Beyond those that the script gives them.
        let copy = fcntl_dupfd_cloexec(fd.as_fd(), 100).unwrap();
        fcntl_setfd(&copy, FdFlags::empty()).unwrap();
        script += &format!("exec {number}<&{0} {0}<&-; ", copy.as_raw_fd());
        kept.push(copy);
    }
    script += &format!("export LISTEN_PID=$$ LISTEN_FDS={}; ", fds.len());
    script += &format!("export {variables}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).arg(command().get_program());
    (shell, kept)
}

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
            connection.send(b"a");
            assert_eq!(connection.receive(1), b"a");
        }
        lariat.ask("drain").success();
        assert_eq!(lariat.wait().code(), Some(0));
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
        lariat.configure(&service.toml());
        lariat.reload().success();
        let mut connection = Client::new(&site).connect(service.address);
        connection.send(b"a");
        assert_eq!(connection.receive(1), b"a");
    }
}

#[test]
fn the_path_of_a_unix_socket_is_the_managers() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let path = site.path("front.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let listen = format!("['unix:{}']", path.display());
    let service = Service::new(&site, &server).listen(&listen).mode("off");
    let mut lariat = started(&[&listener], &service.toml());
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"a").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    drop(stream);
    lariat.ask("drain").success();
    assert_eq!(lariat.wait().code(), Some(0));
    UnixStream::connect(&path).unwrap();
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
        lariat.configure(&service.toml());
        lariat.reload().success();
    }
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"a").unwrap();
    stream.read_exact(&mut [0]).unwrap();
    drop(stream);
    lariat.ask("drain").success();
    until("its end", || {
        (!lariat.status_socket().exists()).then_some(())
    });
    UnixStream::connect(&path).unwrap();
}

#[test]
fn one_that_nothing_listens_at_is_named() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let lariat = started(&[&listener], &Service::new(&site, &server).toml());
    let address = listener.local_addr().unwrap();
    let warning = format!("handed over the socket web, {address}, and nothing");
    assert!(lariat.stderr().contains(&warning), "{}", lariat.stderr());
}

/// What `lariat serve` says that cannot begin.
fn refused(fds: &[&dyn AsFd], variables: &str) -> Finished {
    let (mut command, _kept) = handing_over(fds, variables);
    run(command.args(["serve", "no-such-file.toml"]))
}

#[test]
fn what_is_no_listening_socket_is_named() {
    let file = std::fs::File::open("/dev/null").unwrap();
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
        assert_eq!(refused.code(), 2, "{refused:?}");
        refused.assert_stderr("descriptor 4 (wrong), which the service manager");
        refused.assert_stderr(why);
        refused.assert_stderr("hint: ");
    }
}

#[test]
fn variables_that_say_nothing_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    for (variables, words) in [
        (
            "LISTEN_FDS=garbage",
            "LISTEN_FDS is \"garbage\", which is no number",
        ),
        ("LISTEN_FDS=-1", "LISTEN_FDS is \"-1\", which is no number"),
        ("LISTEN_PID=me", "LISTEN_PID is \"me\", which is no number"),
        (
            "LISTEN_FDS=70000",
            "LISTEN_FDS says more than 1024 descriptors",
        ),
        (
            "LISTEN_FDS=2",
            "descriptor 4 (unknown), which the service manager",
        ),
    ] {
        let refused = refused(&[&listener], variables);
        assert_eq!(refused.code(), 2, "{refused:?}");
        refused.assert_stderr(words);
    }
    // They are another process's.
    let refused = refused(&[&listener], "LISTEN_PID=1");
    refused.assert_stderr("no-such-file.toml");
}
