//! A bad configuration: one clear message with the place and the remedy, and a documented code.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use suite::lariat::command;
use suite::prelude::*;

/// Checks a refusal with code 2, and every one of these words.
fn assert_refused(answer: &Finished, words: &[&str]) {
    assert_eq!(answer.code(), 2, "{answer:?}");
    for word in words {
        assert!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
    }
}

#[test]
fn a_service_that_cannot_be_served_hides_nothing() {
    let (site, taken) = (Site::new(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = taken.local_addr().unwrap().port();
    let text = format!(
        "[process]\nuser = 'nosuch'\n[log]\noutput = '/nonexistent/log'\n[limits]\nconnections = 50000\n\
         [[service]]\nfront.listen = ['127.0.0.1:{port}']\n\
         front.tls.certificates = ['gone.pem']\nback.servers = ['127.0.0.1']\n"
    );
    let file = site.write("lariat.toml", text);
    let script = "ulimit -n 200; exec \"$0\" check --bind \"$1\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", script]).arg(command().get_program());
    let answer = run(limited.arg(file));
    assert_eq!(answer.code(), 2, "{answer:?}");
    for word in [
        "there is no user `nosuch`",
        "log.output: the directory /nonexistent cannot be used",
        "limits.connections: allows 50000 connections",
        "gone.pem: No such file",
        "\"127.0.0.1\" has no port",
        &format!("cannot listen at 127.0.0.1:{port}"),
    ] {
        assert_eq!(answer.stderr.matches(word).count(), 1, "{word}: {answer:?}");
    }
}

#[test]
fn a_missing_suite_is_told_once() {
    let (_site, _server, service) = set_up(Behaviour::Echo);
    for (suites, told) in [
        ("['TLS_AES_128_GCM_SHA256']", "has no suite for TLS 1.2"),
        ("['TLS_AES_128_GCM_SHA256', 'AES128-SHA']", "forward secrecy"),
    ] {
        let tls = format!("suites = {suites}");
        let answer = lariat::check(&service.clone().tls(&tls).toml());
        assert_refused(&answer, &[told, ": 1 error, "]);
        assert!(!answer.stderr.contains("TLS 1.2 is on"), "{answer:?}");
    }
}

#[test]
fn a_certificate_whose_key_is_missing_has_no_fault_of_its_own() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let chain = site.leaf(&["localhost"]).chain_pem();
    let chain = site.write("chain.pem", chain);
    let certificates = format!("[{{ chain = {chain:?}, key = 'missing.key' }}]");
    let text = service.certificates(&certificates).toml();
    assert_refused(&lariat::check(&text), &["missing.key", ": 1 error, "]);
}

#[test]
fn all_errors_are_told_at_once_each_where_it_was_written() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let (one, other) = (site.leaf(&["a.example"]), site.leaf(&["b.example"]));
    let mixed = format!("{}{}", one.chain_pem(), other.key_pem());
    let mixed = site.write("mixed.pem", mixed);
    let damaged = site.leaf(&["c.example"]).pem().replacen("MI", "??", 1);
    let damaged = site.write("damaged.pem", damaged);
    let files = format!("[{mixed:?}, {damaged:?}, \"missing.pem\"]");
    let text = service.clone().certificates(&files).toml()
        + &service.named("second").at(free_address()).toml()
        + &format!(
            "[[service]]\nname = 'ring'\nfront = {{ listen = ['{0}'], tls = 'off' }}\n\
             back = {{ servers = ['{0}'], balanse = 'source' }}\n",
            free_address()
        );
    let answer = lariat::check(&text);
    assert_refused(
        &answer,
        &["mixed.pem:1: ", "damaged.pem:1: ", "missing.pem", "in a ring", "`balance`"],
    );
    let places = answer.stderr.matches("--> ").count();
    assert!(places >= 5, "{}", answer.stderr);
    assert!(answer.stderr.ends_with(" warnings\n"), "{answer:?}");
}

/// Thirty services with one fault, and one with another, which must not go under among them.
#[test]
fn of_many_that_are_alike_some_are_shown_and_the_rest_counted() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let services = (0..30).map(|number| {
        let names = format!("names = ['n{number}.example']");
        service.clone().named(&format!("s{number}")).front(&names).toml()
    });
    let other = service.clone().named("other").at(free_address()).certificates("['gone.pem']");
    let text = services.collect::<String>() + &other.toml();
    let answer = lariat::check(&text);
    assert_refused(&answer, &["gone.pem", "service.front.names: and 22 more like these"]);
    assert_eq!(answer.stderr.matches("names = ['n").count(), 8, "{answer:?}");
    let file = site.write("lariat.toml", text);
    let all = run(command().args(["check", "--json"]).arg(file));
    let document: Value = serde_json::from_str(&all.stdout).unwrap();
    let about_names = |one: &&Value| one["key"] == "service.front.names";
    let all = document["diagnostics"].as_array().unwrap();
    assert_eq!(all.iter().filter(about_names).count(), 30);
}

#[test]
fn a_program_reads_json_and_strict_refuses_warnings() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let leaf = site.authority.leaf(&["localhost"]).expired().issue();
    let file = leaf.write(&site.directory, "old.pem");
    let certificates = format!("[{file:?}]");
    let text = service.certificates(&certificates).toml();
    let file = site.write("lariat.toml", text);
    let answer = |flags: &[&str]| run(command().arg("check").arg(&file).args(flags));
    assert_eq!(answer(&["--strict"]).code(), 2);
    for (flags, code) in [(&["--json"][..], 0), (&["--json", "--strict"], 2)] {
        let answer = answer(flags);
        assert_eq!((answer.code(), &*answer.stderr), (code, ""), "{answer:?}");
        let document: Value = serde_json::from_str(&answer.stdout).unwrap();
        assert_eq!(document["good"], code == 0);
        let all = document["diagnostics"].as_array().unwrap();
        let expired = |one: &&Value| one["message"].as_str().unwrap().contains("expired");
        let one = all.iter().find(expired).unwrap();
        assert_eq!(one["severity"], "warning");
        assert_eq!(one["key"], "service.front.tls.certificates.chain");
        assert!(one["file"].as_str().unwrap().ends_with("lariat.toml"));
        assert!(one["line"].as_u64() > Some(0) && one["column"].as_u64() > Some(0));
        assert!(one["hint"].is_string());
    }
}

#[test]
fn limits_of_the_host_are_shown_beside_what_is_wanted() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let text = "[limits]\nconnections = 1000000\n".to_owned() + &service.toml();
    let file = site.write("lariat.toml", text);
    let mut limited = Command::new("prlimit");
    limited.arg("--nofile=5000:5000").arg(command().get_program());
    let answer = run(limited.args(["check", "--host"]).arg(&file));
    assert_eq!(answer.code(), 0, "{answer:?}");
    for words in
        ["open files (ulimit -Hn): 5000, wanted 200", "LimitNOFILE=200", "net.core.somaxconn: "]
    {
        assert!(answer.stdout.contains(words), "{words}: {answer:?}");
    }
    let warned = "limits.connections: allows 1000000 connections";
    answer.assert_stderr(warned);
    let answer = run(command().args(["check", "--host", "--json"]).arg(&file));
    let document: Value = serde_json::from_str(&answer.stdout).unwrap();
    let limits = document["host"].as_array().unwrap();
    assert!(limits.iter().all(|one| one["here"].is_string() && one["wanted"].is_string()));
}

#[test]
fn the_standard_input_is_a_configuration() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let check = |text: &str| {
        let file = site.write("input", text);
        let mut shell = Command::new("sh");
        let script = "exec \"$0\" check - < \"$1\"";
        run(shell.args(["-c", script]).arg(command().get_program()).arg(file))
    };
    assert_eq!(check(&service.toml()).code(), 0);
    assert_refused(&check("x = 1\n"), &["--> <stdin>:1:1", "`x`"]);
    for input in ["-", "/dev/stdin"] {
        let answer = run(command().args(["serve", input]));
        let why = "each reload and upgrade reads the configuration again";
        assert_refused(&answer, &["<stdin>", why, "`lariat check -`"]);
    }
}

#[test]
fn an_address_that_is_taken_is_found_by_bind_alone() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = service.at(holder.local_addr().unwrap()).toml();
    let file = site.write("lariat.toml", &text);
    let answer = |flags: &[&str]| run(command().arg("check").arg(&file).args(flags));
    assert_eq!(answer(&[]).code(), 0);
    let taken = answer(&["--bind"]);
    taken.assert_fails(3, &["cannot listen at 127.0.0.1:"]);
    drop(holder);
    assert_eq!(answer(&["--bind"]).code(), 0);
}

#[test]
fn a_key_that_all_may_read_is_a_warning() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let warned = |mode| {
        let path = site.path("site.pem");
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let answer = lariat::check(&service.toml());
        assert_eq!(answer.code(), 0, "{answer:?}");
        answer.stderr.contains("can be read by every user")
    };
    assert_eq!([0o644, 0o640].map(warned), [true, false]);
}

#[test]
fn one_value_at_fault_hides_nothing_that_only_this_host_can_tell() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let nowhere = site.path("nowhere");
    let text = format!(
        "[process]\ndrain = 'sixty'\nuser = 'no such user'\n[admin]\nstatus-socket = {:?}\n{}",
        nowhere.join("s.sock"),
        service.clone().front("deny = ['gone.txt']").toml()
    );
    let words = ["drain", "gone.txt", "there is no user", "status-socket"];
    assert_refused(&lariat::check(&text), &words);
    let text = format!("[admin]\nstatus-socket = {:?}\n{}", nowhere.join("s.sock"), service.toml());
    let file = site.write("lariat.toml", &text);
    assert_refused(&run(command().arg("serve").arg(file)), &["status-socket"]);
    assert!(!nowhere.exists(), "no directory is made");
}

#[test]
fn names_without_a_certificate_are_told_together() {
    let (_site, _server, service) = set_up(Behaviour::Echo);
    let names: Vec<_> = (1..=12).map(|number| format!("'n{number}.example'")).collect();
    let names = format!("names = ['localhost', {}]\n", names.join(", "));
    let answer = lariat::check(&service.front(&names).toml());
    answer.assert_stderr("\"n1.example\", \"n2.example\"");
    answer.assert_stderr("\"n10.example\" and 2 more");
    assert_eq!(answer.stderr.matches("no certificate of the service").count(), 1, "{answer:?}");
}

#[test]
fn a_place_that_cannot_be_written_to_is_told_before_serving() {
    if !geteuid().is_root() {
        return;
    }
    let (site, _server, service) = set_up(Behaviour::Echo);
    let place = site.path("read-only");
    fs::create_dir(&place).unwrap();
    let in_it = |name: &str| place.join(name).display().to_string();
    for (table, word, file) in [
        ("process", "pid-file", "pid"),
        ("log", "output", "log"),
        ("admin", "status-socket", "socket"),
    ] {
        let text = format!("[{table}]\n{word} = '{}'\n{}", in_it(file), service.toml());
        let file = site.write("lariat.toml", text);
        let mut mounted = Command::new("unshare");
        let script = "mount -t tmpfs -o ro none \"$1\" && exec \"$0\" check \"$2\"";
        mounted.args(["--mount", "--propagation", "private", "sh", "-c", script]);
        let answer = run(mounted.arg(command().get_program()).arg(&place).arg(&file));
        let told = format!(
            "{table}.{word}: {} cannot be written to: Read-only file system",
            place.display()
        );
        assert_refused(&answer, &[&told, "let the user who starts lariat write there"]);
        assert_eq!(run(command().arg("check").arg(file)).code(), 0, "{word}");
    }
    let long = site.path(&"s".repeat(108));
    let text = format!("[admin]\nstatus-socket = '{}'\n{}", long.display(), service.toml());
    let answer = lariat::check(&text);
    assert_refused(&answer, &["as a full path, of at most 107", "choose a shorter path"]);
}

/// A key that cannot be read has its default meanwhile, which nobody has chosen.
#[test]
fn a_number_that_is_none_is_written_out_and_its_default_judged_by_nobody() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let check = |connections: &str| {
        let mut limited = Command::new("prlimit");
        limited.args(["--nofile=1000:1000"]).arg(command().get_program()).arg("check");
        let text = format!("[limits]\nconnections = {connections}\n{}", service.toml());
        run(limited.arg(site.write("limits.toml", text)))
    };
    let answer = check("\"50k\"");
    assert_refused(&answer, &["\"50k\" is no whole number", "hint: write 50000"]);
    assert_eq!(answer.stderr.matches("limits.connections: ").count(), 1, "{answer:?}");
    let answer = check("50000");
    assert_has(&answer.stderr, "limits.connections: allows 50000 connections");
}
