//! A port that another program has: one clear message, and a code of its own.

use std::net::TcpListener;

use suite::configuration::Service;
use suite::lariat::command;
use suite::program::run;
use suite::site::Site;
use testkit::server::{Behaviour, Server};

#[test]
fn the_message_names_the_address() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let service = Service::new(&site, &server).listen(&format!("['{address}']"));
    let status = site.path("status.sock");
    let text = format!("[admin]\nstatus-socket = {status:?}\n{}", service.toml());
    let file = site.directory.write("lariat.toml", text);

    let answer = run(command().arg("serve").arg(file));
    assert_eq!(answer.code(), 3, "{answer:?}");
    assert!(
        answer.stderr.contains(&address) && answer.stderr.contains("in use"),
        "{answer:?}"
    );
    assert!(answer.stderr.contains("hint:"), "{answer:?}");
}
