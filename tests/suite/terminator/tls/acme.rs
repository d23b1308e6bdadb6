//! Certificates by ACME, without an authority: what is served until one has come, the files in the
//! folder, and their protection.

use std::os::unix::fs::PermissionsExt;

use suite::prelude::*;

/// Returns the subject that clients are shown.
fn subject(site: &Site, address: SocketAddr) -> String {
    let answer = s_client(site, address, &["-servername", "a.example"]);
    let line = answer.stdout.lines().find_map(|line| line.strip_prefix("subject=CN = "));
    line.unwrap_or_else(|| panic!("{answer:?}")).to_owned()
}

fn certificate(lariat: &Lariat, words: &[&str]) -> Finished {
    let mut command = lariat::command();
    command.arg("certificate").args(words);
    run(command.arg("--status-socket").arg(lariat.status_socket()))
}

const PLACEHOLDER: &str = "no certificate yet (lariat)";

/// Makes a service by ACME whose authority does not exist.
fn service(site: &Site, address: SocketAddr) -> String {
    format!(
        "[acme]\nfolder = {:?}\n[[service]]\nname = \"acme\"\nfront.listen = [\"{address}\"]\n\
         back.servers = [\"127.0.0.1:9\"]\n[service.front.tls.acme]\ndomains = [\"a.example\"]\n\
         accept-terms = true\ndirectory = \"https://127.0.0.1:9/directory\"\n",
        site.path("acme")
    )
}

#[test]
fn services_start_without_their_certificates_and_get_them_later() {
    let (site, server, address) = (Site::new(), Server::start(Behaviour::Echo), free_address());
    let missing = format!("{{ chain = {:?}, on-missing = 'self-signed' }}", site.path("later.pem"));
    let web = Service::new(&site, &server).certificates(&format!("[{missing}]"));
    let configuration = service(&site, address) + &web.toml();
    let told = lariat::check(&configuration);
    told.assert_stderr("asks https://127.0.0.1:9/directory for a.example with ecdsa-p256");
    told.assert_stderr("it is ordered at the start");
    let lariat = Lariat::start(&configuration);
    assert_eq!([subject(&site, address), subject(&site, web.address)], [PLACEHOLDER; 2]);
    lariat.wait_for_stderr("there is no certificate yet for a.example by ACME");
    lariat.wait_for_metric("lariat_certificates_skipped", &[("service", "acme")], 1.0);
    let status = lariat.status();
    let skipped = |number: usize| status["services"][number]["certificates_skipped"][0].to_string();
    assert_has(skipped(0), "there is no certificate yet for a.example by ACME");
    assert_has(skipped(1), "later.pem: a self-signed one is served");
    let expiry = &status["services"][0]["expiry"]["certificates_seconds"];
    assert!(expiry.is_null(), "a stand-in does not end: {expiry}");
    let folder = site.path("acme");
    let mode = fs::metadata(&folder).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);

    // As if certificates had been stored before a reload.
    let name = status["acme"][0]["name"].as_str().unwrap();
    site.leaf(&["a.example"])
        .write(&site.directory, &format!("acme/certificates/{name}.ecdsa-p256.pem"));
    site.leaf(&["later.example"]).write(&site.directory, "later.pem");
    lariat.reload().success();
    assert_eq!(subject(&site, address), "a.example");
    assert_eq!(subject(&site, web.address), "later.example");
    let listed = certificate(&lariat, &["list"]).success();
    assert_has(&listed, &format!("CERTIFICATE {name} for a.example\n  services      acme\n"));
    assert_has(&listed, "left\n");
    let told = lariat::check(&configuration);
    told.assert_stderr("there is one for ");

    fs::set_permissions(&folder, fs::Permissions::from_mode(0o750)).unwrap();
    let refused = lariat.reload_refused(&configuration);
    refused.assert_stderr("has mode 0750, so that others can look into it");
    assert_eq!(subject(&site, address), "a.example");
}

#[test]
fn the_process_that_speaks_to_authorities_has_no_rights_and_may_die() {
    let (site, address) = (Site::new(), free_address());
    let lariat = Lariat::start(&service(&site, address));
    let process = lariat.process("lariat: acme");
    let (number, worker) = (process.as_raw_nonzero(), lariat.worker_process());
    let given_up = ["NoNewPrivs:\t1\n", "CapEff:\t0000000000000000\n", "Seccomp:\t2\n"];
    until_true("its rights given up", || {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap();
        given_up.iter().all(|line| status.contains(line))
    });
    kill_process(process, Signal::KILL).unwrap();
    lariat.wait_for_stderr("; another is started after 0 ms");
    until_true("another", || lariat.process("lariat: acme") != process);
    assert_eq!(subject(&site, address), PLACEHOLDER);
    assert_eq!(lariat.worker_process(), worker);
    let unknown = certificate(&lariat, &["renew", "b.example"]);
    unknown.assert_stderr("has no certificate b.example by ACME; did you mean a.example?");
    certificate(&lariat, &["renew", "a.example"]).success();
    lariat.wait_for_stderr("an operator orders to renew a.example-");
    // Without the service the process has no work.
    let server = Server::start(Behaviour::Echo);
    lariat.reload_with(&Service::new(&site, &server).toml());
    assert!(lariat.status()["acme"].as_array().unwrap().is_empty());
}

#[test]
fn an_upgrade_lets_a_program_that_changes_the_dns_end_by_itself() {
    let (site, address) = (Site::new(), free_address());
    // The hook writes its progress, and waits at a record that exists as long as a file does.
    let hook = format!(
        "#!/bin/sh\necho $$ >{:?}; echo \"$1 begins\" >>{log:?}\n\
         while [ -e {:?} ]; do sleep 0.1; done; echo \"$1 ends\" >>{log:?}\n",
        site.path("pid"),
        site.path("hold"),
        log = site.path("log")
    );
    let hook = site.write("hook", hook);
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o700)).unwrap();
    site.write("hold", "");
    // As a former order has left it.
    let record = serde_json::json!([{
        "program": hook, "timeout": { "secs": 600, "nanos": 0 }, "presents": true,
        "domain": "a.example", "record": "_acme-challenge.a.example", "value": "v",
    }]);
    site.write("acme/state/.dns-records.json", record.to_string());
    fs::set_permissions(site.path("acme"), fs::Permissions::from_mode(0o700)).unwrap();
    let configuration = service(&site, address) + &format!("challenge.dns = {hook:?}\n");
    let mut lariat = Lariat::start(&configuration);
    let lines = || fs::read_to_string(site.path("log")).unwrap_or_default();
    until_true("the program", || lines() == "cleanup begins\n");
    lariat.ask("upgrade").success();
    lariat.wait_for_stderr("this process becomes lariat");
    assert_eq!(lines(), "cleanup begins\n", "another of that record waits for it");
    fs::remove_file(site.path("hold")).unwrap();
    let whole = "cleanup begins\ncleanup ends\n";
    until_true("the end of it, and another", || lines() == whole.repeat(2));
    assert!(!lariat.stderr().contains("lariat: reader"), "{}", lariat.stderr());

    // The hook ends with the supervisor, also with one that has become another program.
    lariat.stop();
    site.write("hold", "");
    site.write("acme/state/.dns-records.json", record.to_string());
    lariat = Lariat::start(&configuration);
    until_true("the program", || lines() == whole.repeat(2) + "cleanup begins\n");
    lariat.ask("upgrade").success();
    lariat.signal(Signal::KILL);
    lariat.wait();
    let pid = fs::read_to_string(site.path("pid")).unwrap();
    until_true("its end", || !Path::new("/proc").join(pid.trim()).exists());
}

#[test]
fn a_failure_before_the_start_is_a_note_and_no_news() {
    let (site, address) = (Site::new(), free_address());
    let configuration = service(&site, address);
    let mut lariat = Lariat::start(&configuration);
    let fails = "no certificate for a.example by ACME: https://127.0.0.1:9/directory: ";
    lariat.wait_for_stderr(fails);
    let failed = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.contains("\"last_failure\":\"https://127.0.0.1:9/directory: ")
    };
    let state = until("its state on the disk", || {
        let files = fs::read_dir(site.path("acme/state")).unwrap();
        // Until it is renamed, it is there under another name.
        let is_whole = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "json");
        files.map(|file| file.unwrap().path()).filter(is_whole).find(failed)
    });
    lariat.stop();
    drop(lariat);
    let mut lariat = Lariat::start(&configuration);
    let noted = "the last attempt to get a certificate for a.example by ACME, at ";
    lariat.wait_for_stderr(noted);
    let said = lariat.stderr();
    let place = said.find(noted).expect("it has come");
    let rest = &said[place + noted.len()..];
    let (time, rest) = rest.split_once(", failed: ").expect("a time");
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    assert!(rest.starts_with("https://127.0.0.1:9/directory: "), "{rest}");
    // The next attempt fails too, later.
    assert!(said.find(fails).is_none_or(|news| news > place), "{said}");
    assert_has(certificate(&lariat, &["list"]).success(), "https://127.0.0.1:9/directory: ");

    lariat.stop();
    drop(lariat);
    fs::write(state, "{\"orders\":").unwrap();
    let lariat = Lariat::start(&configuration);
    lariat.wait_for_stderr(".json in acme.folder is damaged: earlier orders for a.example-");
    lariat.wait_for_stderr(fails);
    assert!(!lariat.stderr().contains(noted), "{}", lariat.stderr());
}
