//! Services that start TLS within a protocol, and the servers of such protocols: PostgreSQL,
//! Dovecot, INN, Prosody, `slapd`, `aiosmtpd` and `pyftpdlib`.

use std::fmt::Display;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, geteuid};
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::configuration::Service;
use crate::lariat::Lariat;
use crate::patience::{PATIENCE, within};
use crate::program::{Running, run};
use crate::site::Site;

/// Makes a service of this name for a server.
pub fn service(site: &Site, name: &str, server: impl Display) -> Service {
    Service::new(site, server).named(name)
}

impl Service {
    /// Lets clients ask for TLS, or requires it.
    pub fn starting_tls(self, protocol: &str, policy: &str) -> Self {
        self.front(&format!("starttls = {{ protocol = '{protocol}', policy = '{policy}' }}"))
    }

    /// Makes the service ask its servers for TLS, with a certificate of this authority's.
    pub fn asking(self, protocol: &str, ca: &Path) -> Self {
        let tls = format!("tls = {{ ca = [{ca:?}], name = 'localhost' }}");
        self.back(&format!("starttls = '{protocol}'\n{tls}"))
    }
}

/// Starts one Lariat with these services.
pub fn lariat<'s>(services: impl IntoIterator<Item = &'s Service>) -> Lariat {
    let texts: Vec<_> = services.into_iter().map(Service::toml).collect();
    Lariat::start(&texts.join("\n"))
}

/// A running server with a folder of its own. A signal ends it at the test's end, because some
/// servers start further processes, or hold what is not freed if they are killed.
#[derive(Debug)]
pub struct Foreign {
    pub address: SocketAddr,
    pub directory: Directory,
    running: Running,
}

impl Foreign {
    fn start(address: SocketAddr, directory: Directory, command: &mut Command) -> Self {
        let mut running = Running::start(command);
        running.wait_for_listener(address);
        Self { address, directory, running }
    }

    pub fn stdout(&self) -> String {
        self.running.stdout()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if self.running.try_signal(Signal::INT) {
            // A server that does not end is killed.
            let _ended = within(PATIENCE, || self.running.ended());
        }
    }
}

/// Starts PostgreSQL with the user `ann`, whose password is `secret`, for connections that `hba`
/// allows (a line of `pg_hba.conf`).
pub fn postgres(hba: &str, options: &[&str], site: &Site) -> Foreign {
    let (address, directory) = (free_address(), Directory::new());
    let password = directory.write("password", "secret");
    give(directory.path(), "postgres");
    let data = directory.join("data");
    let mut initdb = postgres_program("initdb");
    initdb
        .args(["--auth=scram-sha-256", "--no-sync", "--username=ann"])
        .arg(format!("--pwfile={}", password.display()))
        .arg(format!("--pgdata={}", data.display()));
    run(initdb.current_dir(directory.path())).success();
    let own = fs::read(site.path("site.pem")).expect("the site's own file");
    let pem = directory.write("data/own.pem", own);
    // No other user may read a key.
    run(Command::new("chmod").arg("600").arg(&pem)).success();
    give(&pem, "postgres");
    fs::write(data.join("pg_hba.conf"), format!("{hba}\n")).expect("our own directory");
    let mut command = postgres_program("postgres");
    command
        .arg("-D")
        .arg(&data)
        .args(["-F", "-p", &address.port().to_string()])
        .args(["-c", "listen_addresses=127.0.0.1", "-c"])
        .arg(format!("unix_socket_directories={}", directory.path().display()))
        .args(["-c", "ssl_cert_file=own.pem", "-c", "ssl_key_file=own.pem"])
        .args(options);
    command.current_dir(directory.path());
    Foreign::start(address, directory, &mut command)
}

/// Runs a statement as `ann`, with these words of a connection string.
pub fn psql(address: SocketAddr, words: &str, statement: &str) -> Command {
    let mut command = Command::new("psql");
    command.args(["--no-psqlrc", "--no-align", "--tuples-only", "--command"]).arg(statement).arg(
        format!(
            "host=localhost hostaddr={} port={} user=ann dbname=postgres connect_timeout=20 \
             password=secret {words}",
            address.ip(),
            address.port()
        ),
    );
    command
}

/// Returns a program of the newest installed version; none of them runs as root.
fn postgres_program(name: &str) -> Command {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let paths = versions.map_while(Result::ok).map(|one| one.path());
    let path = paths.max().unwrap_or_default().join("bin").join(name);
    if !geteuid().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
    command
}

/// Gives a path to the server's user if root runs the tests, because the server must write there.
fn give(path: &Path, user: &str) {
    if geteuid().is_root() {
        run(Command::new("chown").arg(user).arg(path)).success();
    }
}

/// Starts Dovecot, at whose addresses for IMAP, POP3, LMTP and ManageSieve anyone has the password
/// `secret`.
pub fn dovecot() -> (Foreign, [SocketAddr; 4]) {
    let directory = Directory::new();
    let addresses @ [imap, pop3, lmtp, sieve] = [(); 4].map(|()| free_address());
    let me = run(Command::new("id").arg("-un")).success();
    let [master, login, mail] =
        if geteuid().is_root() { ["dovecot", "dovenull", "nobody"] } else { [me.trim(); 3] };
    give(directory.path(), mail);
    let listener = |service: &str, kind: &str, address: SocketAddr| {
        let port = address.port();
        format!(
            "service {service} {{\n chroot =\n inet_listener {kind} {{\n port = {port}\n }}\n\
             inet_listener {kind}s {{\n port = 0\n }}\n}}\n"
        )
    };
    let listeners = [
        listener("imap-login", "imap", imap),
        listener("pop3-login", "pop3", pop3),
        listener("managesieve-login", "sieve", sieve),
        listener("lmtp", "lmtp", lmtp),
    ];
    let root = directory.path().display();
    let text = format!(
        "base_dir = {root}/run\nstate_dir = {root}/state\nlog_path = /dev/stderr\n\
         protocols = imap pop3 lmtp sieve\nlisten = 127.0.0.1\nssl = no\n\
         disable_plaintext_auth = no\nfirst_valid_uid = 1\n\
         default_internal_user = {master}\ndefault_login_user = {login}\n\
         mail_location = maildir:~/mail\n\
         passdb {{\n driver = static\n args = password=secret\n}}\n\
         userdb {{\n driver = static\n args = uid={mail} gid={gid} home={root}/home\n}}\n\
         {listeners}",
        gid = run(Command::new("id").args(["-g", mail])).success().trim(),
        listeners = listeners.concat(),
    );
    let path = directory.write("dovecot.conf", text);
    let mut command = Command::new("dovecot");
    command.arg("-F").arg("-c").arg(path);
    (Foreign::start(imap, directory, &mut command), addresses)
}

/// Starts the directory server with the administrator `cn=admin,dc=example`, whose password is
/// `secret`, and with more lines of its configuration.
pub fn slapd(more: &str) -> Foreign {
    let (address, directory) = (free_address(), Directory::new());
    fs::create_dir(directory.join("data")).expect("our own directory is writable");
    let root = directory.path().display();
    let text = format!(
        "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
         pidfile {root}/pid\n{more}\ndatabase mdb\nsuffix \"dc=example\"\n\
         rootdn \"cn=admin,dc=example\"\nrootpw secret\nmaxsize 10485760\ndirectory {root}/data\n"
    );
    let path = directory.write("slapd.conf", text);
    let mut command = Command::new("slapd");
    command.args(["-d", "0", "-h", &format!("ldap://{address}"), "-f"]).arg(path);
    Foreign::start(address, directory, &mut command)
}

/// Starts an SMTP server that prints the messages it gets.
pub fn aiosmtpd(options: &[&str]) -> Foreign {
    let address = free_address();
    let mut command = Command::new("/usr/bin/aiosmtpd");
    command
        .env("PYTHONUNBUFFERED", "1")
        .args(["--nosetuid", "--listen", &address.to_string()])
        .args(options)
        .args(["--class", "aiosmtpd.handlers.Debugging", "stdout"]);
    Foreign::start(address, Directory::new(), &mut command)
}

/// Starts an FTP server of its folder for the user `ann`, whose password is `secret`.
pub fn pyftpdlib() -> (Foreign, PathBuf) {
    let (address, directory) = (free_address(), Directory::new());
    let file = directory.write("file", "hello by ftp");
    let mut command = Command::new("/usr/bin/python3");
    command
        .args(["-m", "pyftpdlib", "--interface", &address.ip().to_string()])
        .args(["--port", &address.port().to_string(), "--write"])
        .args(["--username=ann", "--password=secret", "--directory"])
        .arg(directory.path());
    (Foreign::start(address, directory, &mut command), file)
}

/// Starts INN's server for readers, with one article in the group `example.test`, for the user
/// `ann`, whose password is `secret`; with the site's certificate it requires TLS.
pub fn inn(tls: Option<&Site>) -> Foreign {
    let (address, directory) = (free_address(), Directory::new());
    let root = directory.path().display();
    let [user, group] = ["-un", "-gn"].map(|of| run(Command::new("id").arg(of)).success());
    let own = tls.map_or_else(String::new, |site| {
        let pem = fs::read(site.path("site.pem")).expect("the site's own file");
        let path = directory.write("own.pem", pem);
        // No other user may read a key.
        run(Command::new("chmod").arg("600").arg(&path)).success();
        format!("tlscertfile: {0}\ntlskeyfile: {0}\n", path.display())
    });
    let configuration = directory.write(
        "etc/inn.conf",
        format!(
            "domain: example.test\npathhost: news.example.test\nmta: /bin/true\n\
             hismethod: hisv6\nenableoverview: true\novmethod: tradindexed\n\
             pathnews: /usr/lib/news\npathetc: {root}/etc\npathdb: {root}/db\n\
             pathrun: {root}/run\npathlog: {root}\npathtmp: {root}\npathspool: {root}/spool\n\
             nnrpdloadlimit: 0\nrunasuser: {user}runasgroup: {group}{own}"
        ),
    );
    let password = run(Command::new("openssl").args(["passwd", "-5", "secret"])).success();
    directory.write("etc/passwd", format!("ann:{password}"));
    let with_tls = tls.map_or("", |_| "require_encryption: true");
    directory.write(
        "etc/readers.conf",
        format!(
            "auth all {{\n{with_tls}\nauth: \"ckpasswd -f {root}/etc/passwd\"\n}}\n\
             access all {{\nusers: \"*\"\nnewsgroups: \"*\"\naccess: R\n}}\n"
        ),
    );
    let storage = "method tradspool {\nnewsgroups: *\nclass: 0\n}\n";
    directory.write("etc/storage.conf", storage);
    directory.write("db/active", "example.test 0000000001 0000000001 y\n");
    directory.write("db/newsgroups", "example.test\tOf the tests\n");
    directory.write(
        "spool/articles/example/test/1",
        "Path: news.example.test!not-for-mail\nFrom: ann@example.test\n\
         Newsgroups: example.test\nSubject: news\nDate: Mon, 23 Nov 2026 10:00:00 +0000\n\
         Message-ID: <1@example.test>\nXref: news.example.test example.test:1\n\nhello by INN\n",
    );
    for folder in ["run", "spool/overview"] {
        fs::create_dir(directory.join(folder)).expect("our own directory is writable");
    }
    let program = |name: &str| {
        let mut command = Command::new(Path::new("/usr/lib/news/bin").join(name));
        command.env("INNCONF", &configuration);
        command
    };
    let history = directory.join("db/history");
    run(program("makehistory").arg("-O")).success();
    run(program("makedbz").args(["-i", "-o", "-f"]).arg(history)).success();
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = program("nnrpd");
    command.args(["-D", "-f", "-b", &ip, "-p", &port]);
    Foreign::start(address, directory, &mut command)
}

/// Starts Prosody, an XMPP server of the domain `localhost` with the user `ann`, whose password is
/// `secret`; with the site's certificate it requires TLS.
pub fn prosody(tls: Option<&Site>) -> Foreign {
    let (address, directory) = (free_address(), Directory::new());
    directory.write("data/localhost/accounts/ann.dat", "return { [\"password\"] = \"secret\" };\n");
    let root = directory.path().display();
    let own = |site: &Site| {
        let path = site.path("site.pem");
        format!("c2s_require_encryption = true\nssl = {{ certificate = {path:?}, key = {path:?} }}")
    };
    let without = "c2s_require_encryption = false\nmodules_disabled = { \"s2s\", \"tls\" }";
    let tls_lines = tls.map_or_else(|| without.to_owned(), own);
    let text = format!(
        "daemonize = false\nrun_as_root = true\npidfile = \"{root}/pid\"\n\
         data_path = \"{root}/data\"\nlog = {{ info = \"*console\" }}\n\
         interfaces = {{ \"{}\" }}\nc2s_ports = {{ {} }}\ns2s_ports = {{ }}\n\
         modules_enabled = {{ \"saslauth\", \"tls\" }}\nauthentication = \"internal_plain\"\n\
         allow_unencrypted_plain_auth = true\n{tls_lines}\nVirtualHost \"localhost\"\n",
        address.ip(),
        address.port(),
    );
    let path = directory.write("prosody.cfg.lua", text);
    let mut command = Command::new("prosody");
    command.arg("-F").arg("--config").arg(path);
    Foreign::start(address, directory, &mut command)
}
