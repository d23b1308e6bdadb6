//! A port that another program has: one clear message, and a code of its own.

use suite::lariat::command;
use suite::prelude::*;

#[test]
fn the_message_names_the_address() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let service = Service::new(&site, &server).listen(&format!("['{address}']"));
    let status = site.path("status.sock");
    let text = format!("[admin]\nstatus-socket = {status:?}\n{}", service.toml());
    let file = site.write("lariat.toml", text);
    let answer = run(command().arg("serve").arg(file));
    assert_eq!(answer.code(), 3, "{answer:?}");
    assert!(answer.stderr.contains(&address) && answer.stderr.contains("in use"), "{answer:?}");
    answer.assert_stderr("hint:");
}

#[test]
fn a_second_instance_says_who_the_first_is() {
    let (site, server, service) = set_up(Behaviour::Echo);
    let first = service.start();
    let file = first.configuration();
    let who = [
        format!("lariat {} listens there", env!("CARGO_PKG_VERSION")),
        format!("pid {},", first.supervisor().as_raw_nonzero()),
        "`lariat upgrade` replaces it".to_owned(),
    ];
    // Refused because of its ports; or of its status socket, where the ports are other ones.
    for service in [&service, &Service::new(&site, &server)] {
        first.configure(&service.toml());
        let refused = run(command().arg("serve").arg(&file));
        assert_eq!(refused.code(), 3, "{refused:?}");
        who.iter().for_each(|words| refused.assert_stderr(words));
        assert!(!refused.stderr.contains("ss -lnp"), "{refused:?}");
    }
    Client::new(&site).visit(service.address);
}

#[test]
fn a_second_instance_with_a_status_socket_of_its_own_says_who_has_the_port() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (site, _server, service) = set_up(Behaviour::Echo);
    let first = service.start();
    let status = site.path("status.sock");
    for listen in [service.address.to_string(), format!("*:{}", service.address.port())] {
        let service = service.clone().listen(&format!("['{listen}']"));
        let text = format!("[admin]\nstatus-socket = {status:?}\n{}", service.toml());
        let file = site.write("second.toml", text);
        let answer = run(command().arg("serve").arg(file));
        assert_eq!(answer.code(), 3, "{answer:?}");
        let who = format!("pid {}, started as `", first.supervisor().as_raw_nonzero());
        answer.assert_stderr(&who);
        answer.assert_stderr(&format!("serve {}`", first.configuration().display()));
        answer.assert_stderr("hint: `lariat upgrade`, with that configuration");
    }
}
