//! A socket in the place of a log daemon's gets whole entries, and one that takes nothing holds
//! nobody up.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;

use suite::lariat::command;
use suite::prelude::*;

/// Opens a socket for the supervisor's user alone; the worker process could not connect.
fn daemon(path: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(path).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn start(site: &Site, server: &Server, log: &str) -> (Lariat, Service) {
    let service = Service::new(site, server);
    (service.start_with(log), service)
}

/// Returns the fields of an entry, each once; anything that the protocol does not allow fails.
fn fields(mut entry: &[u8]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    while !entry.is_empty() {
        let end = entry.iter().position(|b| matches!(b, b'=' | b'\n')).unwrap();
        let key = String::from_utf8(entry[..end].to_vec()).unwrap();
        let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
        assert!(!key.is_empty() && key.chars().all(is_name), "{key}");
        let rest = &entry[end + 1..];
        let (value, after) = if entry[end] == b'=' {
            let line_ends = rest.iter().position(|b| *b == b'\n').unwrap();
            rest.split_at(line_ends)
        } else {
            let (length, rest) = rest.split_at(8);
            let length = u64::from_le_bytes(length.try_into().unwrap());
            rest.split_at(length.try_into().unwrap())
        };
        assert_eq!(after[0], b'\n');
        entry = &after[1..];
        let value = String::from_utf8(value.to_vec()).unwrap();
        assert_eq!(fields.insert(key, value), None);
    }
    fields
}

fn next(socket: &UnixDatagram) -> BTreeMap<String, String> {
    let mut room = vec![0; 1 << 16];
    let count = socket.recv(&mut room).unwrap();
    fields(&room[..count])
}

/// Returns the next entry that has this in a field.
fn wait_for(socket: &UnixDatagram, key: &str, words: &str) -> BTreeMap<String, String> {
    loop {
        let entry = next(socket);
        if entry.get(key).is_some_and(|value| value.contains(words)) {
            return entry;
        }
    }
}

#[test]
fn journald_gets_whole_entries_of_lines_and_messages() {
    let (site, server) = (Site::new(), Server::start(http()));
    let path = site.path("journal");
    let socket = daemon(&path);
    let log = format!("output = 'journald'\nmessages-output = 'journald'\njournald = {path:?}");
    let (mut lariat, service) = start(&site, &server, &log);
    let entry = wait_for(&socket, "MESSAGE", "listens at");
    assert_eq!(entry["PRIORITY"], "5");
    assert_eq!(entry["SYSLOG_IDENTIFIER"], "lariat");
    curl_tls(&site, service.address).run().success();
    let entry = wait_for(&socket, "LARIAT_REASON", "client-closed");
    assert_eq!(entry["LARIAT_SNI"], "localhost");
    assert!(!entry.contains_key("LARIAT_CLIENT_CN"), "{entry:?}");
    assert!(entry["MESSAGE"].starts_with("{\"time\":"), "{entry:?}");
    // A new socket takes its place.
    drop(socket);
    fs::remove_file(&path).unwrap();
    let socket = daemon(&path);
    curl_tls(&site, service.address).run().success();
    wait_for(&socket, "LARIAT_REASON", "client-closed");
    // A message of several lines, with a file name that would be an entry of its own.
    let hostile = "a\\nPRIORITY=0\\nMESSAGE=forged\\n";
    lariat.reload_refused(&format!("[process]\npid-file = \"/nonexistent/{hostile}\"\n"));
    let entry = wait_for(&socket, "MESSAGE", "reload refused");
    assert_eq!(entry["PRIORITY"], "3");
    assert!(entry["MESSAGE"].lines().count() > 1, "{entry:?}");
    assert!(!entry["MESSAGE"].lines().any(|line| line == "MESSAGE=forged"));
    // The reason why a program ends goes there, and to the process that started it.
    let other = format!("{log}\n{}", service.toml());
    lariat.configure(&other.replace("output = 'journald'\n", ""));
    lariat.stop();
    wait_for(&socket, "MESSAGE", "draining for up to");
    assert_eq!(lariat.stderr(), "");
}

/// The daemon reads nothing: the kernel's queue is full after some entries.
#[test]
fn a_daemon_that_takes_nothing_holds_nobody() {
    let (site, server) = (Site::new(), Server::start(http()));
    let path = site.path("journal");
    let socket = daemon(&path);
    let log = format!(
        "output = 'journald'\nmessages-output = 'journald'\njournald = {path:?}\n\
         failures-per-second = 1000000"
    );
    let (mut lariat, service) = start(&site, &server, &log);
    for _ in 0..600 {
        drop(TcpStream::connect(service.address).unwrap());
    }
    for _ in 0..5 {
        curl_tls(&site, service.address).run().success();
        lariat.reload().success();
    }
    lariat.wait_for_stderr("it has read nothing for 1s");
    // All waiting entries arrive once the socket is read.
    let reader = thread::spawn(move || wait_for(&socket, "LARIAT_SNI", "localhost"));
    assert_eq!(reader.join().unwrap()["LARIAT_REASON"], "client-closed");
    lariat.stop();
}

#[test]
fn a_check_looks_for_the_daemon() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server).toml();
    let path = site.path("syslog");
    let check = |log: &str| {
        let file = site.write("lariat.toml", format!("[log]\n{log}\n{service}"));
        run(command().arg("check").arg(file))
    };
    let log = format!("output = 'syslog'\nsyslog = 'unix:{}'", path.display());
    let away = check(&log);
    assert_eq!(away.code(), 0, "{away:?}");
    let said = format!("{}{}", away.stdout, away.stderr);
    assert_has(&said, "warning: ");
    assert_has(&said, "takes no entry now: No such file or directory");
    assert_has(&said, "hint: start the daemon, or say in `log.syslog` where");
    let _socket = daemon(&path);
    let there = check(&log);
    let said = format!("{}{}", there.stdout, there.stderr);
    assert!(!said.contains("takes no entry"), "{said}");
    let unused = check("syslog = '127.0.0.1:514'");
    assert_has(format!("{}{}", unused.stdout, unused.stderr), "has no effect: nothing goes there");
    for (wrong, words) in [
        ("syslog = { facility = 'kern' }\noutput = 'syslog'", "facility"),
        ("syslog = '127.0.0.1:0'\noutput = 'syslog'", "port 0"),
        ("syslog = '*:514'\noutput = 'syslog'", "no address to send to"),
        ("messages-output = 'syslogd'", "messages-output"),
    ] {
        let refused = check(wrong);
        refused.assert_fails(2, &[words]);
    }
}
