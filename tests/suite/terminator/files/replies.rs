//! Files of this host, fetched by common programs.

use suite::curl::Curl;
use suite::openssl::s_client_sending;
use suite::prelude::*;

/// A folder that is served.
struct Scene {
    site: Site,
    folder: Directory,
    service: Service,
    lariat: Lariat,
}

impl Scene {
    fn new() -> Self {
        Self::serving("index = [\"index.html\"]")
    }

    fn serving(keys: &str) -> Self {
        let (site, folder) = (Site::new(), Directory::new());
        folder.write("index.html", "<p>welcome</p>");
        folder.write("words.txt", "0123456789");
        folder.write("deep/er/page.html", "deep");
        let service = Service::files(&site, folder.path()).serving(keys);
        let lariat = service.start();
        Self { site, folder, service, lariat }
    }

    fn curl(&self, path: &str) -> Curl {
        curl_tls_for(&self.site, self.service.address, &[path])
    }

    fn connect(&self) -> Connection {
        Client::new(&self.site).connect(self.service.address)
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
}

#[test]
fn curl_fetches_files_of_any_size() {
    let scene = Scene::new();
    let large: Vec<u8> = (0..3_000_001_u32).map(|n| (n % 251) as u8).collect();
    scene.folder.write("large.bin", &large);
    scene.folder.write("empty", "");
    assert_eq!(scene.curl("").run().success(), "<p>welcome</p>");
    assert_eq!(scene.curl("empty").run().success(), "");
    for version in [["--tls-max", "1.2"], ["--tls-max", "1.3"]] {
        assert!(scene.curl("large.bin").args(&version).bytes() == large, "{version:?}");
    }
}

#[test]
fn curl_sees_heads_as_they_should_be() {
    let scene = Scene::new();
    let head = scene.curl("deep/er/page.html").args(&["--head"]).run().success();
    for line in [
        "HTTP/1.1 200 OK\r\n",
        "Content-Length: 4\r\n",
        "Content-Type: text/html; charset=utf-8\r\n",
        "Accept-Ranges: bytes\r\n",
        "X-Content-Type-Options: nosniff\r\n",
        "ETag: ",
        "Last-Modified: ",
        "Date: ",
    ] {
        assert!(head.contains(line), "{line:?} in {head}");
    }
    let arguments = ["--no-fail", "--include"];
    let refused = scene.curl("missing").args(&arguments).run().success();
    assert!(refused.starts_with("HTTP/1.1 404 Not Found\r\n"), "{refused}");
    let posted = scene.curl("words.txt").args(&arguments).args(&["--data", "x"]);
    let posted = posted.run().success();
    assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");
    assert_has(&posted, "Allow: GET, HEAD\r\n");
    let unlisted = scene.curl("deep/").args(&arguments).run().success();
    assert!(unlisted.starts_with("HTTP/1.1 403 "), "{unlisted}");
    let folder = scene.curl("deep/er").args(&["--include"]).run().success();
    assert!(folder.starts_with("HTTP/1.1 301 "), "{folder}");
    assert_has(&folder, "Location: /deep/er/\r\n");
    for (class, count) in [("2xx", 1.0), ("3xx", 1.0), ("4xx", 3.0)] {
        let class = [("class", class)];
        scene.lariat.wait_for_metric("lariat_file_responses_total", &class, count);
    }
}

#[test]
fn curl_fetches_parts() {
    let scene = Scene::new();
    let part = |range: &str| scene.curl("words.txt").args(&["--range", range]).run().success();
    assert_eq!(part("2-5"), "2345");
    assert_eq!(part("7-"), "789");
    assert_eq!(part("-2"), "89");
    let several = part("0-0,4-5");
    assert_has(&several, "Content-Range: bytes 0-0/10\r\n\r\n0\r\n");
    assert_has(&several, "Content-Range: bytes 4-5/10\r\n\r\n45\r\n");
    let arguments = ["--no-fail", "--include", "--range", "10-"];
    let outside = scene.curl("words.txt").args(&arguments).run().success();
    assert!(outside.starts_with("HTTP/1.1 416 "), "{outside}");
    assert_has(&outside, "Content-Range: bytes */10\r\n");
}

#[test]
fn interrupted_downloads_go_on() {
    let scene = Scene::new();
    let whole: Vec<u8> = (0..500_000_u32).map(|n| (n % 249) as u8).collect();
    scene.folder.write("film.bin", &whole);
    let half = scene.site.write("half", &whole[..200_001]);
    let arguments = ["--continue-at", "-", "--output", half.to_str().unwrap()];
    scene.curl("film.bin").args(&arguments).run().success();
    assert!(fs::read(&half).unwrap() == whole, "curl's");
    let half = scene.site.write("film.bin", &whole[..123_457]);
    let port = scene.service.address.port();
    let mut wget = Command::new("wget");
    wget.current_dir(scene.site.directory.path())
        .args(["--continue", "--no-proxy", "--no-hsts", "--tries", "1"])
        .args(["--inet4-only", "--no-verbose", "--ca-certificate"])
        .arg(scene.site.ca())
        .arg(format!("https://localhost:{port}/film.bin"));
    run(&mut wget).success();
    assert!(fs::read(&half).unwrap() == whole, "wget's");
}

#[test]
fn what_a_client_has_is_not_sent_again() {
    let scene = Scene::new();
    let tag = scene.site.path("tag");
    let save = ["--etag-save", tag.to_str().unwrap()];
    assert_eq!(scene.curl("words.txt").args(&save).run().success(), "0123456789");
    let again = ["--include", "--etag-compare", tag.to_str().unwrap()];
    let again = scene.curl("words.txt").args(&again).run().success();
    assert!(again.starts_with("HTTP/1.1 304 Not Modified\r\n"), "{again}");
    scene.folder.write("words.txt", "others");
    let changed = ["--etag-compare", tag.to_str().unwrap()];
    assert_eq!(scene.curl("words.txt").args(&changed).run().success(), "others");
}

#[test]
fn siblings_that_are_compressed_are_sent_to_those_who_take_them() {
    let scene = Scene::new();
    let page = "a page with many words ".repeat(1000);
    let path = scene.folder.write("page.html", &page);
    run(Command::new("gzip").args(["--keep", "-9"]).arg(&path)).success();
    let arguments = ["--compressed", "--write-out", "%{size_download}"];
    let fetched = scene.curl("page.html").args(&arguments).run().success();
    let bytes: usize = fetched.strip_prefix(&page).unwrap().parse().unwrap();
    assert!(bytes < page.len() / 10, "{bytes}");
    assert_eq!(scene.curl("page.html").run().success(), page);
    // Not decoded, so that it may be anything.
    scene.folder.write("page.html.br", "shorter");
    let arguments = ["--include", "--header", "Accept-Encoding: br"];
    let raw = scene.curl("page.html").args(&arguments).run().success();
    assert_has(&raw, "Content-Encoding: br\r\n");
    assert_has(&raw, "Content-Type: text/html; charset=utf-8\r\n");
    assert!(raw.ends_with("\r\n\r\nshorter"), "{raw}");
}

#[test]
fn requests_in_one_go_are_answered_in_their_order() {
    let scene = Scene::new();
    let both = [get("/words.txt"), get("/missing"), get("/deep/er/page.html")].concat();
    let last = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let requests = scene.site.write("requests", format!("{both}{last}"));
    let arguments = ["-quiet", "-ign_eof"];
    let mut openssl = s_client_sending(&scene.site, scene.service.address, &arguments, &requests);
    assert!(openssl.wait().success());
    let said = openssl.stdout();
    let places = ["0123456789", " 404 ", "deep", "<p>welcome</p>"].map(|words| said.find(words));
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{said}");
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let scene = Scene::new();
    let mut connection = scene.connect();
    for _ in 0..3 {
        assert_eq!(connection.fetch("words.txt"), b"0123456789");
    }
    // The client ends first: its earlier request is answered.
    connection.ask("deep/er/page.html");
    connection.end();
    let rest = connection.read_to_end().unwrap();
    assert!(rest.ends_with(b"\r\n\r\ndeep"));
}

#[test]
fn a_request_in_early_data_is_answered() {
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("index.html", "<p>welcome</p>");
    // No server needs a header about early data, and repeated requests for a file do no harm.
    let service = Service::files(&site, folder.path()).tls("early-data = '4KiB'");
    let lariat = service.start();
    let request = site.write("request", "GET / HTTP/1.0\r\n\r\n");
    let session = site.path("session").display().to_string();
    let arguments = ["-tls1_3", "-ign_eof", "-sess_out", &session];
    let mut first = s_client_sending(&site, service.address, &arguments, &request);
    assert!(first.wait().success() && first.stdout().contains("<p>welcome</p>"));
    let request = request.display().to_string();
    let arguments = ["-tls1_3", "-ign_eof", "-sess_in", &session, "-early_data", &request];
    let second = s_client(&site, service.address, &arguments).success();
    assert_has(&second, "Early data was accepted");
    assert_has(&second, "\r\n\r\n<p>welcome</p>");
    let results = [("result", "accepted")];
    lariat.wait_for_metric("lariat_early_data_total", &results, 1.0);
}

#[test]
fn a_client_of_http_1_0_gets_its_file_and_may_go_on() {
    let scene = Scene::new();
    let old = scene.curl("words.txt").args(&["--http1.0", "-v"]).run();
    assert_has(&old.stderr, "ALPN: server accepted http/1.0");
    assert_eq!(old.success(), "0123456789");
    let mut connection = scene.connect();
    connection.send(b"GET /words.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    connection.send(b"GET /words.txt HTTP/1.0\r\n\r\n");
    let text = String::from_utf8(connection.read_to_end().unwrap()).unwrap();
    assert_eq!(text.matches("0123456789").count(), 2, "{text}");
    assert_eq!(text.matches("Connection: keep-alive").count(), 1, "{text}");
    assert!(!text.contains("chunked"), "{text}");
}
