//! One structured line per connection, with what happened and whose fault it was.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use suite::lariat::command;
use suite::prelude::*;

#[test]
fn a_line_tells_the_connections_story() {
    let (site, server, service, lariat) =
        serve_as(http(), |service| service.tls("alpn = ['http/1.1']"));
    curl_tls(&site, service.address).args(&["--tls-max", "1.2"]).run().success();
    let line = lariat.wait_for_line(&["\"web\""]);
    for (key, value) in [
        ("service", "web"),
        ("sni", "localhost"),
        ("handshake", "full"),
        ("alpn", "http/1.1"),
        ("server", server.address()),
        ("reason", "client-closed"),
        ("fault", "none"),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
    assert!(line["client"].as_str().is_some_and(|one| one.starts_with("127.0.0.1:")), "{line}");
    assert!(line["suite"].as_str().is_some_and(|one| one.starts_with("TLS_ECDHE_")), "{line}");
    assert!(line["bytes_down"].as_u64().is_some_and(|bytes| bytes > 5), "{line}");
}

#[test]
fn a_flood_of_failures_is_counted_not_printed() {
    let (_site, _server, service, lariat) = serve(Behaviour::Echo);
    let count = 500;
    for _ in 0..count {
        let mut stream = TcpStream::connect(service.address).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    }
    lariat.wait_for_reason("plain-http", count);
    let suppressed = lariat.metrics().sum("lariat_log_lines_suppressed_total", &[]);
    assert!(suppressed > 0.0, "{suppressed}");
    let printed = lariat.log().matches("\"plain-http\"").count();
    assert!(printed > 0 && printed < 500, "{printed}");
}

/// Workers hand lines over in batches; those of the last moment are written before the end.
#[test]
fn no_line_is_lost_by_a_stop() {
    let (site, _server, service, mut lariat) = serve(Behaviour::Echo);
    let client = Client::new(&site);
    let count = 40;
    for _ in 0..count {
        let mut connection = client.echo(service.address);
        connection.finish();
    }
    lariat.stop();
    assert_eq!(lariat.log().matches("\"client-closed\"").count(), count);
}

/// Lines that are left out are counted, so that the log tells the number of connections.
#[test]
fn successes_are_sampled_and_bounded_and_their_number_is_in_the_log() {
    let (site, _server, service, mut lariat) =
        serve_with("sample = 5\n[workers]\nthreads = 1", Behaviour::Echo);
    let client = Client::new(&site);
    for _ in 0..20 {
        let mut connection = client.connect(service.address);
        connection.finish();
    }
    let mut plain = TcpStream::connect(service.address).unwrap();
    plain.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let _closed_or_reset = plain.read_to_end(&mut Vec::new());
    drop(plain);
    lariat.wait_for_reason("plain-http", 1);
    lariat.stop();
    let lines: Vec<Value> =
        lariat.log().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sampled = |reason: &str| -> Vec<u64> {
        let of_reason = lines.iter().filter(|line| line["reason"] == reason);
        of_reason.map(|line| line["sampled"].as_u64().unwrap()).collect()
    };
    assert_eq!(sampled("client-closed"), [5; 4]);
    assert_eq!(sampled("plain-http"), [1]);
}

/// Every message has a time and a severity; a collector can have JSON, and journald its priorities.
#[test]
fn a_pipe_that_nobody_reads_holds_no_start() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let pipe = site.path("log");
    run(Command::new("mkfifo").arg(&pipe)).success();
    let text = format!("[log]\noutput = {pipe:?}\n{}", service.toml());
    let answer = run(command().arg("serve").arg(site.write("lariat.toml", text)));
    answer.assert_fails(2, &["cannot open the log ", "hint: it is a FIFO that nobody reads"]);
}

#[test]
fn messages_have_time_and_level_in_the_form_of_their_reader() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    for form in ["auto", "text", "json", "plain"] {
        let service = Service::new(&site, &server).toml();
        let lariat = Lariat::start(&format!("messages = '{form}'\n{service}"));
        lariat.reload().success();
        lariat.reload_refused(&format!("messages = 'json'\n{service}\nnonsense = 1\n"));
        let said = said_of_refusal(&lariat);
        let reloaded = said.lines().find(|line| line.contains("is served")).unwrap();
        let refused = said.lines().find(|line| line.contains("refused")).unwrap();
        match form {
            "plain" => assert_eq!(reloaded, "lariat: reloaded: configuration 2 is served"),
            "json" => {
                let value: Value = serde_json::from_str(reloaded).unwrap();
                assert_eq!(value["level"], "notice");
                assert!(is_time(value["time"].as_str().unwrap()), "{value}");
                let value: Value = serde_json::from_str(refused).unwrap();
                assert_eq!(value["level"], "error");
                assert!(value["hint"].is_string(), "{value}");
            }
            _ => {
                let (time, rest) = reloaded.split_once(' ').unwrap();
                assert!(is_time(time), "{time}");
                assert_eq!(rest, "lariat: notice: reloaded: configuration 2 is served");
                assert_has(refused, " lariat: error: reload refused");
            }
        }
        let is_timed = |line: &str| line.contains("Z lariat: ") || line.starts_with("{\"time\":");
        let timed = said.lines().filter(|line| is_timed(line)).count();
        let all = if form == "plain" { 0 } else { said.lines().count() };
        assert_eq!(timed, all, "{said}");
    }
}

/// As systemd starts a service whose standard error is the journal.
#[test]
fn for_journald_each_line_has_its_priority_and_no_time() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg("JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec \"$0\" \"$@\"")
        .arg(command().get_program());
    let lariat = Lariat::start_by(shell, &Service::new(&site, &server).toml());
    lariat.reload_refused("nonsense = 1\n");
    let said = said_of_refusal(&lariat);
    assert_has(&said, "<5>service `web` listens at");
    assert_has(&said, "<3>reload refused, the old configuration is still served:\n<3>");
    assert!(!said.contains("error: "), "{said}");
    assert!(said.lines().all(|line| line.starts_with('<')), "{said}");
}

/// Returns the standard error once it contains the refusal of a reload, because messages are
/// written in the background.
fn said_of_refusal(lariat: &Lariat) -> String {
    until("the refusal", || {
        let said = lariat.stderr();
        (said.contains("reload refused") && said.ends_with('\n')).then_some(said)
    })
}

/// Reports whether a text is RFC 3339, in UTC, with microseconds.
fn is_time(text: &str) -> bool {
    let form = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(c, f)| match f {
            'd' => c.is_ascii_digit(),
            f => c == f,
        })
}

/// Runs a process as the supervisor starts its own, and sends it `heard`.
fn last_words(argument: &str, environment: &[(String, String)], heard: &[u8]) -> Finished {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(heard).unwrap();
    drop(ours);
    let mut command = command();
    command.arg(argument).envs(environment.iter().cloned());
    let mut running = Running::start_with(&mut command, OwnedFd::from(theirs).into());
    Finished { status: running.wait(), stdout: running.stdout(), stderr: running.stderr() }
}

#[test]
fn processes_of_the_supervisor_use_its_form_and_end_with_it_without_a_word() {
    // Only root may read the environment of a process that may not be dumped.
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (_site, _server, _service, lariat) = serve_with("messages = 'json'", Behaviour::Echo);
    let worker_process = lariat.worker_process().as_raw_nonzero();
    let environment = fs::read_to_string(format!("/proc/{worker_process}/environ")).unwrap();
    let variables = environment.split_terminator('\0');
    let variables = variables.map(|one| one.split_once('=').unwrap());
    let environment: Vec<_> =
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for name in ["worker", "reader", "resolver", "watcher"] {
        let argument = format!("--{name}-process");
        let quiet = last_words(&argument, &environment, b"");
        assert!(quiet.status.success() && quiet.stderr.is_empty(), "{quiet:?}");
        let heard = b"\x03\0\0\0\0\0\0\0\"?\"";
        let said = last_words(&argument, &environment, heard).stderr;
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["level"], "error", "{said}");
        assert_has(said["message"].as_str().unwrap(), &format!("lariat: {name}: "));
    }
}
