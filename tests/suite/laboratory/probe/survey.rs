//! A list of sites: a row each, whatever is wrong with some, and no host has two connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use suite::prelude::*;
use suite::scripted::serve_in_turn;

/// A server without TLS, at an address of its own. Counts connections, and those that were made
/// before the last one was over.
#[derive(Default)]
struct Plain {
    connections: AtomicUsize,
    rude: AtomicUsize,
}

impl Plain {
    fn start(host: &str) -> (SocketAddr, Arc<Self>) {
        let counts = Arc::new(Self::default());
        let server = Arc::clone(&counts);
        let mut last: Option<TcpStream> = None;
        let address = serve_in_turn(host, move |mut stream| {
            server.connections.fetch_add(1, SeqCst);
            if last.take().is_some_and(|last| !is_over(last)) {
                server.rude.fetch_add(1, SeqCst);
            }
            let _gone = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            last = Some(stream);
        });
        (address, counts)
    }
}

/// Reports whether the client ended before its next connection.
fn is_over(mut stream: TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut chunk = [0; 4096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn thirty_sites_have_a_row_each() {
    let site = Site::new();
    let server = Server::start(Behaviour::Http("ok".into()));
    let service = Service::new(&site, &server);
    let port = service.address.port();
    let good: Vec<String> = (1..=20).map(|host| format!("127.0.1.{host}:{port}")).collect();
    let _lariat = Lariat::start(&service.listen(&format!("{good:?}")).toml());
    let plain: Vec<_> = (1..=6).map(|host| Plain::start(&format!("127.0.2.{host}"))).collect();
    let hang = Server::start(Behaviour::Hang);
    let mut sites = good;
    sites.extend(plain.iter().map(|(address, _)| address.to_string()));
    sites.extend((0..3).map(|_| free_address().to_string()));
    sites.push(hang.address().to_owned());
    assert_eq!(sites.len(), 30);
    let list = site.path("sites.txt");
    let text = format!("# ours\n\n{} # the last\n", sites.join("\n"));
    fs::write(&list, text).unwrap();
    let survey_ends = |code, flags: &[&str]| {
        let mut command = lab::command();
        command.arg("survey").arg(&list).arg("--ca").arg(site.ca());
        command.args(["--timeout", "2s"]);
        run(command.args(flags)).ended(&[code])
    };
    // Ten of them cannot be probed.
    let survey = |flags: &[&str]| survey_ends(6, flags);
    let text = survey(&[]);
    assert_has(&text, "TLS of 30 sites");
    assert_has(&text, "X25519MLKEM768");
    assert_has(&text, "this speaks HTTP");
    let reports: Vec<Value> = survey(&["--json", "--at-once", "16"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let hosts: Vec<&str> = reports.iter().map(|one| one["hosts"][0].as_str().unwrap()).collect();
    assert_eq!(hosts, sites);
    let trouble = |index: usize| &reports[index]["nodes"][0]["trouble"];
    for report in &reports[..20] {
        assert_eq!(report["nodes"][0]["trouble"], Value::Null, "{report}");
        let resumed = report["resumption"].as_array().unwrap().iter();
        assert_eq!(resumed.filter(|one| one["resumed"] == 4).count(), 3);
    }
    let kinds: Vec<&str> = (20..30).map(|one| trouble(one)["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[..6], ["not-tls"; 6]);
    assert_eq!(kinds[6..], ["connect", "connect", "connect", "timeout"]);
    for (address, counts) in &plain {
        assert!(counts.connections.load(SeqCst) > 0, "{address}");
        assert_eq!(counts.rude.load(SeqCst), 0, "{address}");
    }
    let page = site.path("survey.html");
    survey(&["-o", page.to_str().unwrap()]);
    let page = fs::read_to_string(page).unwrap();
    assert_has(&page, "X25519MLKEM768");
    assert!(sites.iter().all(|site| page.contains(site)));
    // A name that is connected to at addresses of the list, as a script would use it.
    let text = format!("localhost {} 127.0.1.2:{port}", sites[0]);
    fs::write(&list, text).unwrap();
    let expected = site.write("expect.toml", "certificate.name-matches = true");
    survey_ends(0, &["--expect", expected.to_str().unwrap(), "--fail-on", "fault"]);
    fs::write(&expected, "certificate.name-matches = false").unwrap();
    survey_ends(7, &["--expect", expected.to_str().unwrap()]);
    survey_ends(4, &["--starttls", "imap", "--greeting-timeout", "10ms"]);
}
