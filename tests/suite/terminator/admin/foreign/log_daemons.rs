//! Log daemons of Debian take Lariat's messages: rsyslog by a Unix socket and by UDP, and systemd's
//! journald.

use std::net::UdpSocket;

use suite::prelude::*;

/// rsyslog in a folder of its own; each entry that it gets is a line of JSON.
struct Rsyslog {
    running: Running,
    output: PathBuf,
}

const TEMPLATE: &str = r#"template(name="entry" type="list" option.jsonf="on") {
    property(outname="facility" name="syslogfacility-text" format="jsonf")
    property(outname="severity" name="syslogseverity-text" format="jsonf")
    property(outname="host" name="hostname" format="jsonf")
    property(outname="program" name="app-name" format="jsonf")
    property(outname="pid" name="procid" format="jsonf")
    property(outname="kind" name="msgid" format="jsonf")
    property(outname="data" name="structured-data" format="jsonf")
    property(outname="sni" name="$!rfc5424-sd!lariat@32473!sni" format="jsonf")
    property(outname="message" name="msg" format="jsonf")
}
"#;

impl Rsyslog {
    fn start(site: &Site, input: &str) -> Self {
        let output = site.path("entries");
        let text = format!(
            "global(workDirectory={:?})\n{input}\nmodule(load=\"mmpstrucdata\")\n\
             action(type=\"mmpstrucdata\")\n{TEMPLATE}\n\
             action(type=\"omfile\" file={output:?} template=\"entry\")\n",
            site.directory.path(),
        );
        let configuration = site.write("rsyslog.conf", text);
        let mut command = Command::new("rsyslogd");
        command.arg("-n").arg("-f").arg(configuration).arg("-i").arg(site.path("rsyslog.pid"));
        let running = Running::start(&mut command);
        Self { running, output }
    }

    /// Starts rsyslog at a socket of this path.
    fn at_path(site: &Site, path: &Path) -> Self {
        let input = format!(
            "module(load=\"imuxsock\" SysSock.Use=\"off\")\n\
             input(type=\"imuxsock\" Socket={path:?} RateLimit.Interval=\"0\" UseSpecialParser=\"off\" \
             ParseHostname=\"on\")"
        );
        let _ = fs::remove_file(path);
        let rsyslog = Self::start(site, &input);
        until_true("rsyslog's socket", || path.exists());
        rsyslog
    }

    fn entries(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.output).unwrap_or_default();
        // The last line may be incomplete.
        let lines = text.split_inclusive('\n').filter(|one| one.ends_with('\n'));
        let parsed = lines.map(|line| serde_json::from_str(line).expect("JSON"));
        parsed.collect()
    }

    /// Returns the entries of this kind, once there are `count`.
    fn wait_for(&self, kind: &str, count: usize) -> Vec<Value> {
        until(&format!("{count} entries {kind}"), || {
            let mut entries = self.entries();
            entries.retain(|entry| entry["kind"] == kind);
            (entries.len() >= count).then_some(entries)
        })
    }
}

fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// Starts a lariat with this in `[log]`.
fn start(site: &Site, server: &Server, log: &str) -> (Lariat, Service) {
    let service = Service::new(site, server);
    (service.start_with(log), service)
}

fn connect(site: &Site, service: &Service) {
    curl_tls(site, service.address).run().success();
}

#[test]
fn rsyslog_reads_lines_and_messages_with_their_fields() {
    let (site, server) = (Site::new(), Server::start(http()));
    let path = site.path("log");
    let rsyslog = Rsyslog::at_path(&site, &path);
    let log = format!(
        "output = 'syslog'\nmessages-output = 'syslog'\n\
         syslog = {{ address = 'unix:{}', facility = 'local3' }}",
        path.display()
    );
    let (lariat, service) = start(&site, &server, &log);
    connect(&site, &service);
    let line = &rsyslog.wait_for("connection", 1)[0];
    let worker_process = lariat.worker_process().as_raw_nonzero().to_string();
    for (key, value) in [
        ("facility", "local3"),
        ("severity", "info"),
        ("host", &host()),
        ("program", "lariat"),
        ("pid", &worker_process),
        ("sni", "localhost"),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
    let data = line["data"].as_str().unwrap();
    assert!(data.starts_with("[lariat@32473 time=\""), "{data}");
    assert_has(data, "reason=\"client-closed\"");
    // The text is the line, as `format` says.
    let text: Value = serde_json::from_str(line["message"].as_str().unwrap().trim()).unwrap();
    assert_eq!(text["sni"], "localhost");
    // A client's fault is a notice.
    let mut plain = TcpStream::connect(service.address).unwrap();
    plain.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    let lines = rsyslog.wait_for("connection", 2);
    assert_eq!(lines[1]["severity"], "notice", "{}", lines[1]);
    assert_has(lines[1]["data"].as_str().unwrap(), "reason=\"plain-http\" detail=");
    let said = rsyslog.wait_for("message", 1);
    let supervisor = lariat.supervisor().as_raw_nonzero().to_string();
    let listens = said
        .iter()
        .find(|entry| entry["message"].as_str().unwrap().contains("listens at"))
        .unwrap();
    assert_eq!(listens["severity"], "notice");
    assert_eq!(listens["pid"], supervisor.as_str());
    lariat.reload_refused("[workers]\nthreds = 2\n");
    until("the refusal", || {
        let entries = rsyslog.wait_for("message", 1);
        let refused = entries.iter().find(|entry| entry["severity"] == "err")?;
        assert_has(refused["message"].as_str().unwrap(), "reload refused");
        Some(())
    });
    assert_eq!(lariat.stderr(), "");
    assert_eq!(lariat.log(), "");
}

/// Lines that wait while rsyslog is away are written when it is back.
#[test]
fn lines_wait_for_an_rsyslog_that_restarts() {
    let (site, server) = (Site::new(), Server::start(http()));
    let path = site.path("log");
    let mut rsyslog = Rsyslog::at_path(&site, &path);
    let log = format!(
        "output = 'syslog'\nmessages-output = 'syslog'\nsyslog = 'unix:{}'",
        path.display()
    );
    let (lariat, service) = start(&site, &server, &log);
    connect(&site, &service);
    rsyslog.wait_for("connection", 1);
    rsyslog.running.signal(Signal::TERM);
    rsyslog.running.wait();
    (0..5).for_each(|_| connect(&site, &service));
    lariat.wait_for_metric("lariat_log_write_failing", &[], 1.0);
    lariat.wait_for_stderr("the log cannot be written: syslog at unix:");
    lariat.wait_for_stderr("messages go to the standard error until syslog at unix:");
    let rsyslog = Rsyslog::at_path(&site, &path);
    assert_eq!(rsyslog.wait_for("connection", 6).len(), 6);
    lariat.wait_for_metric("lariat_log_write_failing", &[], 0.0);
    assert!(lariat.sum("lariat_log_lost_bytes_total", &[]) < 1.0);
    lariat.reload().success();
    until_true("messages to go there again", || {
        let said = rsyslog.wait_for("message", 1);
        let is_it = |entry: &Value| {
            let message = entry["message"].as_str().unwrap();
            message.contains("messages went to the standard error")
        };
        said.iter().any(is_it)
    });
}

/// A line that was sent to nobody is lost, and the kernel reports it later.
#[test]
fn rsyslog_reads_entries_over_udp_and_what_it_missed_is_counted() {
    let (site, server) = (Site::new(), Server::start(http()));
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (lariat, service) =
        start(&site, &server, &format!("output = 'syslog'\nsyslog = '{address}'"));
    let mut connections = 0;
    until_true("a loss to be counted", || {
        connections += 1;
        connect(&site, &service);
        lariat.sum("lariat_log_lost_bytes_total", &[]) > 0.0
    });
    connect(&site, &service);
    let input = format!(
        "module(load=\"imudp\")\ninput(type=\"imudp\" address=\"127.0.0.1\" port=\"{}\")",
        address.port()
    );
    let rsyslog = Rsyslog::start(&site, &input);
    // All but the first one.
    let entries = rsyslog.wait_for("connection", connections);
    assert_eq!(entries.len(), connections);
    assert_eq!(entries[0]["facility"], "daemon");
    assert_eq!(entries[0]["sni"], "localhost");
    lariat.wait_for_metric("lariat_log_write_failing", &[], 0.0);
}

/// Starts a journald beside the host's, with its sockets and files in a folder. Only root can.
fn journald(folder: &Path) -> Running {
    let script = "mount -t tmpfs none /run && mkdir -p /run/systemd/journal /run/log/journal &&
        mount --bind \"$FOLDER/sockets\" /run/systemd/journal &&
        mount --bind \"$FOLDER/files\" /run/log/journal && exec /lib/systemd/systemd-journald";
    for name in ["sockets", "files"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]).env("FOLDER", folder);
    let running = Running::start(&mut command);
    let socket = folder.join("sockets/socket");
    until_true("journald's socket", || socket.exists());
    running
}

/// Returns the entries of journald, by `journalctl`.
fn journal(folder: &Path) -> Vec<Value> {
    let host = fs::read_dir(folder.join("files")).unwrap().next();
    let Some(host) = host else {
        return Vec::new();
    };
    let mut command = Command::new("journalctl");
    command
        .args(["-o", "json", "--all", "--no-pager", "-t", "lariat", "-D"])
        .arg(host.unwrap().path());
    let shown = run(&mut command);
    let lines = shown.stdout.lines();
    lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn journald_has_a_field_for_each_column() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let (site, server) = (Site::new(), Server::start(http()));
    let folder = site.directory.path();
    let _journald = journald(folder);
    let log = format!(
        "output = 'journald'\nmessages-output = 'journald'\njournald = {:?}",
        folder.join("sockets/socket")
    );
    let (lariat, service) = start(&site, &server, &log);
    connect(&site, &service);
    lariat.reload_refused("[workers]\nthreds = 2\n");
    let line = until("the line", || {
        let mut entries = journal(folder).into_iter();
        entries.find(|entry| entry["LARIAT_REASON"] == "client-closed")
    });
    for (key, value) in [
        ("PRIORITY", "6"),
        ("LARIAT_SERVICE", "web"),
        ("LARIAT_SNI", "localhost"),
        ("LARIAT_SERVER", server.address()),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
    let text: Value = serde_json::from_str(line["MESSAGE"].as_str().unwrap()).unwrap();
    assert_eq!(text["sni"], "localhost");
    let refused = until("the refusal", || {
        let mut entries = journal(folder).into_iter();
        entries.find(|entry| entry["PRIORITY"] == "3")
    });
    // A message of several lines.
    let message = refused["MESSAGE"].as_str().unwrap();
    assert!(message.starts_with("reload refused, the old configuration is still served:\n"));
    assert_has(refused["LARIAT_HINT"].as_str().unwrap(), "threads");
    assert_eq!(lariat.stderr(), "");
}
