//! A service from flags alone, without any file.

use std::os::unix::net::UnixStream;

use suite::lariat::command;
use suite::prelude::*;

#[test]
fn three_flags_make_a_service() {
    let (site, server) = (Site::new(), Server::start(http()));
    let (address, status) = (free_address(), site.path("status.sock"));
    let mut serve = command();
    serve
        .args(["serve", "--listen", &address.to_string()])
        .args(["--backend", server.address(), "--certificate"])
        .arg(site.path("site.pem"))
        .arg("--status-socket")
        .arg(&status);
    let mut lariat = Running::start(&mut serve);
    until("the status socket", || {
        lariat.assert_running();
        UnixStream::connect(&status).ok()
    });
    assert_eq!(curl_tls(&site, address).run().success(), "hello");
    let line = until("a line", || lariat.stdout().lines().next().map(str::to_owned));
    for words in [" service=main ", " sni=localhost ", " fault=none "] {
        assert!(line.contains(words), "{words}: {line}");
    }
}

#[test]
fn a_slip_is_named_with_its_remedy() {
    let answer = run(command().args(["serve", "--lisen", "127.0.0.1:0"]));
    answer.assert_fails(2, &["hint:", "--listen"]);
}

#[test]
fn hints_about_a_flag_show_a_flag() {
    for (flag, value, hint) in [
        ("--listen", "nowhere", "--listen '[::]:443,unix:/run/lariat/web.sock'"),
        ("--backend", "nowhere", "--backend app.internal:8080"),
        ("--weight", "many", "--weight 3"),
        ("--backup", "perhaps", "--backup on"),
    ] {
        let arguments = ["check", "--backend", "127.0.0.1:1", flag, value];
        let answer = run(command().args(arguments));
        assert_eq!(answer.code(), 2);
        let hint = format!("hint: for example: {hint}\n");
        assert!(answer.stderr.contains(&hint), "{hint}: {answer:?}");
    }
    let help = run(command().args(["help", "--weight"])).success();
    assert!(help.starts_with("service.back.servers.weight\n"), "{help}");
    assert_has(&help, "  Flag: --weight NUMBER\n");
}

#[test]
fn a_certificate_is_needed_unless_only_this_host_connects_and_servers_get_tls() {
    let site = Site::new();
    for (flags, is_good) in [
        ("--listen 127.0.0.1:1 --backend-tls", true),
        ("--listen [::1]:1 --listen unix:@a --backend-tls on", true),
        ("--listen [::]:1 --backend-tls", false),
        ("--listen 127.0.0.1:1 --listen [::]:2 --backend-tls", false),
        ("--listen 127.0.0.1:1 --backend-tls=off", false),
        ("--listen [::]:1 --tls off --backend-tls", true),
    ] {
        let mut check = command();
        check.args(["check", "--backend", "127.0.0.1:2"]);
        let mut check = check.args(flags.split(' '));
        if !flags.ends_with("off") {
            check = check.arg("--backend-ca").arg(site.ca());
        }
        let answer = run(check);
        let is_missing = answer.stderr.contains("--certificate is missing");
        assert_eq!((answer.code() == 0, is_missing), (is_good, !is_good), "{flags}: {answer:?}");
    }
}

#[test]
fn help_and_version_are_data() {
    let help = run(command().arg("help"));
    let nothing = run(&mut command());
    for answer in [help, nothing] {
        let words = answer.success();
        for name in ["demo", "serve", "check", "status", "reload", "drain"] {
            assert!(words.contains(name), "{name}: {words}");
        }
    }
    assert!(run(command().arg("version")).success().contains("lariat"));
}
