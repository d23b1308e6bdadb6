//! PostgreSQL 17 and newer, which begin with TLS if client and server agree on the protocol
//! `postgresql` (ALPN): as a server of `back.tls`, and behind a service that passes TLS through.
//!
//! The programs run in a root with a Debian that has them, which `POSTGRES_ROOT` names:
//! `tests/databases/postgres-direct` makes it. Only root may do so.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what fails in a test's own tools fails the test")]

use std::env;

use suite::prelude::*;
use suite::starttls::{lariat, service};

/// Runs a program in the root as the user `postgres`, with a folder of ours at the same path, which
/// is given to that user. Nothing stays mounted: the namespace ends with the program.
const INSIDE: &str = r#"set -e
root=$1 folder=$2
shift 2
mount -t tmpfs postgres-direct "$root/tmp"
mkdir -p "$root$folder"
mount --bind "$folder" "$root$folder"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
chroot "$root" chown -R postgres "$folder"
exec chroot "$root" setpriv --reuid=postgres --regid=postgres --clear-groups \
    env --chdir="$folder" HOME="$folder" "$@"
"#;

/// A server whose every client must use TLS: for the database `postgres` with a password, and for
/// `template1` by SCRAM, which it offers with channel binding.
struct Postgres {
    address: SocketAddr,
    site: Site,
    bin: PathBuf,
    root: PathBuf,
    running: Option<Running>,
}

impl Postgres {
    fn start() -> Self {
        let root = env::var_os("POSTGRES_ROOT").map(PathBuf::from);
        let root = root.expect("tests/databases/postgres-direct says how to run this");
        let versions = fs::read_dir(root.join("usr/lib/postgresql")).unwrap();
        let newest = versions.map(|one| one.unwrap().file_name()).max().unwrap();
        let mut server = Self {
            address: free_address(),
            site: Site::new(),
            bin: Path::new("/usr/lib/postgresql").join(newest).join("bin"),
            root,
            running: None,
        };
        let own = fs::read(server.site.path("site.pem")).unwrap();
        let folder = &server.site.directory;
        folder.write("password", "secret");
        run(&mut server.command(
            "initdb",
            &[
                "--pgdata=data",
                "--username=ann",
                "--pwfile=password",
                "--auth=scram-sha-256",
                "--no-sync",
            ],
        ))
        .success();
        let pem = folder.write("data/own.pem", own);
        run(Command::new("chmod").arg("600").arg(&pem)).success();
        let hba = "hostssl postgres all 127.0.0.1/32 password\n\
                   hostssl template1 all 127.0.0.1/32 scram-sha-256\n";
        folder.write("data/pg_hba.conf", hba);
        let port = server.address.port().to_string();
        let folder = folder.path().display();
        let sockets = format!("unix_socket_directories={folder}");
        let mut command = server.command("postgres", &["-D", "data", "-F", "-p", &port]);
        command
            .args(["-c", "listen_addresses=127.0.0.1", "-c", &sockets])
            .args(["-c", "ssl=on", "-c", "ssl_cert_file=own.pem"])
            .args(["-c", "ssl_key_file=own.pem", "-c", "log_connections=on"]);
        let mut running = Running::start(&mut command);
        running.wait_for_listener(server.address);
        server.running = Some(running);
        server
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .args(["sh", "-c", INSIDE, "inside"])
            .arg(&self.root)
            .arg(self.site.directory.path())
            .arg(self.bin.join(program))
            .args(arguments);
        command
    }

    /// Asks as `ann`, with these words of a connection string, whether TLS was used and which.
    fn who(&self, address: SocketAddr, words: &str) -> Finished {
        let who = "SELECT usename, ssl, version FROM pg_stat_ssl \
                   JOIN pg_stat_activity USING (pid) WHERE pid = pg_backend_pid()";
        let to = format!(
            "host=localhost hostaddr={} port={} user=ann password=secret dbname=postgres \
             connect_timeout=20 sslrootcert={} {words}",
            address.ip(),
            address.port(),
            self.site.ca().display()
        );
        let arguments = ["--no-psqlrc", "--no-align", "--tuples-only", "--command", who, &to];
        run(&mut self.command("psql", &arguments))
    }

    /// Makes a service before the server that begins with TLS towards it.
    fn service(&self, name: &str, keys: &str) -> Service {
        let tls = format!("tls = {{ ca = [{:?}], {keys} }}", self.site.ca());
        service(&self.site, name, self.address).back(&tls)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT makes it end its own processes (a fast shutdown); being killed would not.
        let Some(mut running) = self.running.take() else {
            return;
        };
        if running.try_signal(Signal::INT) {
            until("PostgreSQL to end", || running.ended());
        }
    }
}

const DIRECT: &str = "sslmode=verify-full sslnegotiation=direct";
const ASKING: &str = "sslmode=verify-full sslnegotiation=postgres";
const PLAIN: &str = "sslmode=disable";
/// TLS keys with the protocol that the server demands.
const ALPN: &str = "name = 'localhost', alpn = ['postgresql']";

#[test]
fn a_server_that_speaks_tls_at_once_gets_clients_of_every_kind() {
    let server = Postgres::start();
    let closed = service(&server.site, "closed", server.address).mode("passthrough");
    let plain = server.service("plain", ALPN).mode("off");
    // The protocol that the client has agreed on is offered to the server.
    let both = server.service("both", "name = 'localhost'");
    let both = both.tls("alpn = ['postgresql']");
    let asked = server.service("asked", ALPN);
    let asked = asked.starting_tls("postgres", "required");
    let lariat = lariat([&closed, &plain, &both, &asked]);
    for (service, words) in
        [(&closed, DIRECT), (&plain, PLAIN), (&both, DIRECT), (&asked, DIRECT), (&asked, ASKING)]
    {
        // The client keeps no sessions: each time is a full handshake.
        for _ in 0..2 {
            let said = server.who(service.address, words).success();
            assert_eq!(said, "ann|t|TLSv1.3\n", "{words}");
        }
        let words = format!("{words} password=wrong");
        let wrong = server.who(service.address, &words);
        wrong.assert_stderr("password authentication failed");
    }
    let line = lariat.wait_for_line(&["\"service\":\"both\"", "client-closed"]);
    assert_eq!(line["alpn"], "postgresql", "{line}");
    assert_eq!(line["server_handshake"], "full", "{line}");
    // Channel binding is to the certificate, which is the same for client and server.
    for service in [&both, &asked, &closed] {
        let words = format!("{DIRECT} dbname=template1 channel_binding=require");
        let said = server.who(service.address, &words).success();
        assert_eq!(said, "ann|t|TLSv1.3\n");
    }
}

#[test]
fn what_the_server_lacks_is_said() {
    let server = Postgres::start();
    let without = server.service("without", "name = 'localhost'").mode("off");
    let misnamed = server.service("misnamed", "name = 'db.example', alpn = ['postgresql']");
    let misnamed = misnamed.mode("off");
    let lariat = lariat([&without, &misnamed]);
    // Without ALPN the server ends the connection after the handshake.
    assert!(!server.who(without.address, PLAIN).status.success());
    lariat.wait_for_line(&["\"service\":\"without\"", "backend-closed"]);
    assert!(!server.who(misnamed.address, PLAIN).status.success());
    lariat.wait_for_line(&["\"service\":\"misnamed\"", "server-certificate-name"]);
}

#[test]
fn checks_speak_tls_at_once_too() {
    let server = Postgres::start();
    let check = "check = { kind = 'tls', interval = '100ms', timeout = '5s', fall = 1, rise = 1 }";
    let up = server.service("up", ALPN).mode("off").back(check);
    let misnamed = server.service("misnamed", "name = 'db.example', alpn = ['postgresql']");
    let down = misnamed.mode("off").back(check);
    let lariat = lariat([&up, &down]);
    for (service, is_up) in [("up", 1.0), ("misnamed", 0.0)] {
        lariat.wait_for_metric("lariat_server_up", &[("service", service)], is_up);
    }
    let said = server.who(up.address, PLAIN).success();
    assert_eq!(said, "ann|t|TLSv1.3\n");
}
