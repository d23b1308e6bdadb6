//! Access to the admin address: requests for a host that is ours, with the token.

use suite::lariat::command;
use suite::prelude::*;

const TOKEN: &str = "correct-horse-battery";

#[test]
fn a_web_page_under_another_name_reads_nothing() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Echo);
    for path in ["", "status", "metrics"] {
        let url = format!("http://{}/{path}", lariat.admin());
        let rebound = ["--include", "--header", "Host: rebound.example"];
        let answer = curl().url(&url).args(&rebound).run();
        assert!(answer.stdout.starts_with("HTTP/1.1 421 "), "{answer:?}");
        assert!(!answer.stdout.contains("lariat_"), "{answer:?}");
    }
    let url = format!("http://localhost:{}/metrics", lariat.admin().port());
    assert!(curl().url(&url).run().success().contains("lariat_build_info"));
}

#[test]
fn requests_with_the_token_are_answered() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let (admin, token) = (free_address(), site.path("token"));
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let mut serve = command();
    serve
        .args(["serve", "--listen", &free_address().to_string()])
        .args(["--backend", server.address(), "--certificate"])
        .arg(site.path("site.pem"))
        .arg("--status-socket")
        .arg(site.path("status.sock"))
        .args(["--admin", &admin.to_string(), "--admin-hosts", "lariat.example", "--admin-token"])
        .arg(&token);
    let mut lariat = Running::start(&mut serve);
    lariat.wait_for_listener(admin);
    let ask = |arguments: &[&str]| {
        let url = format!("http://{admin}/status");
        let head = ["--include", "--header", "Host: lariat.example:80"];
        curl().url(&url).args(&head).args(arguments).run()
    };
    let bearer = format!("Authorization: Bearer {TOKEN}");
    let answer = until("the plan", || {
        lariat.assert_running();
        let answer = ask(&["--header", &bearer]);
        answer.stdout.starts_with("HTTP/1.1 200 ").then_some(answer)
    });
    answer.assert_stdout("supervisor_pid");
    let user = format!("lariat:{TOKEN}");
    let answer = ask(&["--user", &user]);
    assert!(answer.stdout.starts_with("HTTP/1.1 200 "), "{answer:?}");
    for wrong in ["nobody:guess", "lariat:guess"] {
        let answer = ask(&["--user", wrong]);
        assert!(answer.stdout.starts_with("HTTP/1.1 401 "), "{answer:?}");
        assert!(!answer.stdout.contains("supervisor_pid"), "{answer:?}");
    }
}

#[test]
fn an_address_that_others_reach_takes_a_token() {
    let site = Site::new();
    let mut serve = command();
    serve
        .args(["serve", "--listen", "127.0.0.1:0", "--backend", "127.0.0.1:9", "--certificate"])
        .arg(site.path("site.pem"))
        .args(["--admin", "0.0.0.0:0"]);
    let answer = run(&mut serve);
    answer.assert_fails(2, &["may be reached by other hosts", "hint: "]);
}
