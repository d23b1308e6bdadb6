//! Port 80: requests of plain HTTP are redirected to https.

use std::os::unix::net::UnixStream;

use suite::lariat::command;
use suite::prelude::*;

#[test]
fn curl_follows_to_the_service_with_tls() {
    let (site, folder) = (Site::new(), Directory::new());
    folder.write(".well-known/acme-challenge/token-1", "token-1.thumbprint");
    folder.write("secret.txt", "secret");
    let server = Server::start(http());
    let web = Service::new(&site, &server);
    let port = web.address.port();
    let redirect = Service::files(&site, folder.path()).named("redirect");
    let redirect = redirect.mode("off").front(&format!("redirect = \"https:{port}\""));
    let lariat = Lariat::start(&(web.toml() + &redirect.toml()));
    let ask = |path: &str, arguments: &[&str]| {
        let to = |port: u16| format!("localhost:{port}:127.0.0.1");
        let plain = redirect.address.port();
        let url = format!("http://localhost:{plain}/{path}");
        let ca = site.ca();
        let curl = curl().url(&url).args(arguments).args(&["--resolve", &to(plain)]);
        let curl = curl.args(&["--resolve", &to(port), "--cacert", ca.to_str().unwrap()]);
        curl.run().success()
    };
    assert_eq!(ask("a/b?c=%2F", &["--location"]), "hello");
    assert_eq!(ask("a", &["--location", "--data", "x=y"]), "hello");
    for (path, arguments, status, words) in [
        ("a/b?c=%2F", &["--include"][..], 301, "/a/b?c=%2F"),
        ("x%20y", &["--include", "--data", "x=y"], 308, "/x%20y"),
        ("secret.txt", &["--head"], 301, "/secret.txt"),
        (".well-known/acme-challenge/2", &["--head"], 301, "/.well-known/acme-challenge/2"),
    ] {
        let answer = ask(path, arguments);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let location = format!("\r\nLocation: https://localhost:{port}{words}\r\n");
        assert_has(&answer, &location);
    }
    let challenge = ask(".well-known/acme-challenge/token-1", &[]);
    assert_eq!(challenge, "token-1.thumbprint");
    let name = "lariat_file_responses_total";
    let labels = [("service", "redirect"), ("class", "3xx")];
    lariat.wait_for_metric(name, &labels, 6.0);
    let line = lariat.wait_for_line(&["redirect", "client-closed"]);
    assert!(line["version"].is_null(), "{line}");
}

#[test]
fn two_flags_redirect_and_refuse_what_is_hostile() {
    let (site, address) = (Site::new(), free_address());
    let status = site.path("status.sock");
    let mut serve = command();
    serve.args(["serve", "--listen", &address.to_string()]);
    serve.args(["--redirect", "https", "--request-timeout", "1s"]);
    let mut lariat = Running::start(serve.arg("--status-socket").arg(&status));
    until("the status socket", || {
        lariat.assert_running();
        UnixStream::connect(&status).ok()
    });
    // The answer up to its end, after the client's own end, or while the client still waits.
    let ask = |request: &[u8], ends: bool| {
        let mut stream = tcp(address);
        stream.write_all(request).unwrap();
        if ends {
            stream.shutdown(Shutdown::Write).unwrap();
        }
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let both =
        "GET /1 HTTP/1.1\r\nHost: a.example:80\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: [::1]\r\n\r\n";
    let answer = ask(both.as_bytes(), true);
    for words in ["https://a.example/1\r\n", "https://[::1]/2\r\n"] {
        assert_has(&answer, &format!("\r\nLocation: {words}"));
    }
    assert!(!answer.contains("Connection: close"), "{answer}");
    for hostile in [
        "GET / HTTP/1.1\r\nHost: a\\@evil\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: evil/x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: evil\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "GET http://evil/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /x\rLocation:y HTTP/1.1\r\nHost: a\r\n\r\n",
        "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        "\x16\x03\x01\x00\x05hello\r\n\r\n",
    ] {
        let answer = ask(hostile.as_bytes(), false);
        assert!(answer.starts_with("HTTP/1.1 400 "), "{hostile:?}: {answer}");
        assert!(!answer.contains("Location"), "{hostile:?}: {answer}");
    }
    let head = b"GET / HTTP/1.1\r\nHost: a\r\n";
    assert!(ask(head, false).starts_with("HTTP/1.1 408 "), "a time limit");
    let endless = [&head[..], &[b'x'; 9000]].concat();
    assert!(ask(&endless, false).starts_with("HTTP/1.1 431 "), "a limit of length");
}
