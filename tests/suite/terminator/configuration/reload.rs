//! A reload is a transaction: the whole new plan, or the old one; connections go on.

use suite::prelude::*;

#[test]
fn a_new_certificate_is_served_and_old_connections_go_on() {
    let (site, _server, service, lariat) = serve(Behaviour::Echo);
    let mut old = Client::new(&site).echo(service.address);
    site.leaf(&["renewed.example", "localhost"]).write(&site.directory, "site.pem");
    lariat.reload().success();
    let answer = s_client(&site, service.address, &[]);
    answer.assert_stdout("subject=CN = renewed.example");
    old.echo();
}

#[test]
fn a_service_comes_and_another_goes() {
    let (site, one) = (Site::new(), Server::start(Behaviour::Http("one".into())));
    let two = Server::start(Behaviour::Http("two".into()));
    let first = Service::new(&site, &one).named("first");
    let second = Service::new(&site, &two).named("second");
    let lariat = first.start();
    lariat.reload_with(&second.toml());
    assert_eq!(curl_tls(&site, second.address).run().success(), "two");
    assert!(TcpStream::connect(first.address).is_err(), "the old address is closed");
}

#[test]
fn warnings_about_the_new_configuration_are_printed() {
    let (_site, _server, service, lariat) = serve(http());
    lariat.configure(&service.clone().back("queue = { length = 3 }").toml());
    let told = lariat.reload();
    assert_eq!(told.code(), 0, "{told:?}");
    let words = "warning: service.back.queue: has no effect: no server has `max-connections`";
    told.assert_stderr(words);
    told.assert_stderr("hint: take it out");
    let status = lariat.status();
    let warnings = status["last_reload"]["warnings"].as_str().unwrap();
    assert!(warnings.starts_with(words), "{warnings}");
    assert_eq!(lariat.ask_with("reload", &["--strict"]).code(), 6);
    lariat.configure(&service.toml());
    lariat.ask_with("reload", &["--strict"]).success();
    assert!(lariat.status()["last_reload"]["warnings"].is_null());
}

#[test]
fn what_needs_a_restart_is_judged_by_what_runs() {
    let (_site, _server, service) = set_up(Behaviour::Echo);
    let text = |threads| format!("[workers]\nthreads = {threads}\n{}", service.toml());
    let lariat = Lariat::start(&text(2));
    let warning = "warning: `workers.threads` stays as it is until a restart";
    lariat.configure(&text(1));
    for _ in 0..2 {
        let told = lariat.reload();
        told.assert_stderr(warning);
        told.assert_stderr("hint: `lariat upgrade`");
    }
    lariat.configure(&text(2));
    lariat.ask_with("reload", &["--strict"]).success();
    // The start of the new program counts from then on.
    lariat.configure(&text(1));
    lariat.ask("upgrade").success();
    lariat.ask_with("reload", &["--strict"]).success();
    lariat.configure(&text(2));
    assert!(lariat.reload().stderr.contains(warning));
    lariat.ask("drain").success();
}

#[test]
fn an_expired_certificate_is_named_once() {
    let (site, _server, _service, lariat) = serve(Behaviour::Echo);
    let leaf = site.authority.leaf(&["localhost"]).expired().issue();
    leaf.write(&site.directory, "site.pem");
    let told = lariat.reload();
    assert_eq!(told.code(), 0, "{told:?}");
    assert_eq!(told.stderr.matches("expired").count(), 1, "{told:?}");
    let first = told.stderr.lines().next().unwrap();
    // A check reports the same; nothing is refused for it.
    assert!(first.starts_with("warning: service `"), "{told:?}");
    assert!(first.contains("site.pem: the certificate expired"), "{told:?}");
    told.assert_stderr("\nhint: renew it");
    // A certificate that cannot be served is reported as by a check.
    site.write("site.pem", "nothing");
    let told = lariat.reload();
    assert_eq!(told.code(), 5, "{told:?}");
    let begin = "error: service.front.tls.certificates.chain: ";
    assert!(told.stderr.starts_with(begin), "{told:?}");
    for words in ["site.pem: holds no certificate\n", " --> ", "\nhint: it needs a BEGIN"] {
        assert!(told.stderr.contains(words), "{words}: {told:?}");
    }
}

#[test]
fn a_bad_configuration_changes_nothing() {
    let (site, _server, service, lariat) = serve(http());
    for bad in [
        service.clone().back("balance = 'by-faith'").toml(),
        service.clone().certificates("['/does/not/exist.pem']").toml(),
        "nonsense".to_owned(),
    ] {
        let _refused = lariat.reload_refused(&bad);
        assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
    }
    let refused = [("result", "refused")];
    assert_eq!(lariat.metrics().sum("lariat_reloads_total", &refused), 3.0);
}

#[test]
fn sighup_reloads() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    lariat.signal(Signal::HUP);
    lariat.wait_for_metric("lariat_reloads_total", &[("result", "ok")], 1.0);
    lariat.wait_for_metric("lariat_config_generation", &[], 2.0);
}

#[test]
fn one_bad_certificate_takes_the_others_down_unless_it_may_be_skipped() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    for name in ["a", "b"] {
        let place = format!("live/{name}/fullchain.pem");
        let leaf = site.leaf(&[&format!("{name}.example")]);
        site.write(&place, leaf.chain_pem());
        site.write(format!("live/{name}/privkey.pem"), leaf.key_pem());
    }
    let service = Service::new(&site, &server);
    let service = service.certificates(&format!("[{:?}]", site.path("live")));
    let lariat = service.start();
    let subject = |name: &str| {
        let answer = s_client(&site, service.address, &["-servername", name]);
        let line = answer.stdout.lines().find(|line| line.starts_with("subject="));
        line.unwrap_or_default().to_owned()
    };
    assert_eq!(subject("b.example"), "subject=CN = b.example");
    site.write("live/b/fullchain.pem", "-----BEGIN CERTIFICATE-----\ncut");
    let told = lariat.reload();
    told.assert_stderr("live/b/fullchain.pem:1: is no valid PEM");
    assert_ne!(told.code(), 0);
    assert_eq!(subject("b.example"), "subject=CN = b.example");
    let skipping = service.clone().tls("bad-certificate = 'skip'");
    lariat.configure(&skipping.toml());
    let told = lariat.reload();
    told.assert_fails(0, &["skipped (bad-certificate = \"skip\")"]);
    assert_eq!(subject("b.example"), "subject=CN = a.example");
    lariat.wait_for_metric("lariat_certificates_skipped", &[], 1.0);
    let status = lariat.status();
    let skipped = status["services"][0]["certificates_skipped"][0].as_str();
    assert!(skipped.is_some_and(|why| why.contains("live/b/fullchain.pem:1")));
    // At least one is left.
    site.write("live/a/fullchain.pem", "cut");
    let told = lariat.reload();
    assert_ne!(told.code(), 0, "{told:?}");
    assert_eq!(subject("a.example"), "subject=CN = a.example");
}

#[test]
fn connections_leave_descriptors_for_reloads() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).mode("off");
    let listen = |count| {
        let others: Vec<_> = (0..count).map(|_| "'127.0.0.1:0'".to_owned()).collect();
        let listen = format!("['{}', {}]", service.address, others.join(", "));
        format!("[workers]\nthreads = 8\n{}", service.clone().listen(&listen).toml())
    };
    let (same, larger) = (listen(1), listen(9));
    let lariat = Lariat::start_within(480, &same);
    let worker_process = lariat.worker_process();
    let mut open = Vec::new();
    let echo = |stream: &mut TcpStream| {
        let mut byte = [0];
        stream
            .write_all(b"x")
            .and_then(|()| stream.read_exact(&mut byte))
            .is_ok_and(|()| byte == *b"x")
    };
    for _ in 0..3 {
        // As many as there is room for: the reload before has changed which numbers are free.
        loop {
            let mut stream = tcp(service.address);
            if !echo(&mut stream) {
                break;
            }
            open.push(stream);
        }
        lariat.reload_with(&same);
    }
    lariat.wait_for_reason("descriptor-limit", 3);
    let refused = lariat.reload_refused(&larger);
    for words in ["descriptors that come with it", "may open 480 files", "hint: raise the limit"] {
        refused.assert_stderr(words);
    }
    assert_eq!(lariat.worker_process(), worker_process);
    assert!(open.iter_mut().all(echo));
    open.clear();
    lariat.wait_for_metric("lariat_connections_open", &[], 0.0);
    lariat.reload_with(&larger);
}
