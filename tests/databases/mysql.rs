//! Drivers of MySQL before MariaDB, and before a server of `caching_sha2_password` and
//! `sha256_password`.

use suite::mariadb::Mariadb;
use suite::prelude::*;
use suite::starttls::lariat;

use super::{Login, assert_refused, assert_says, call, folder, service};

/// Drivers of MySQL's protocol, with their abilities beside a query.
const DRIVERS: [(&str, &[Ability]); 7] = [
    ("pymysql", &[FetchKey, Sha256, Signed]),
    ("connector", &[Change, Compress, Prepare, Sha256]),
    ("connector-pure", &[Change, Compress, FetchKey, Prepare, Sha256]),
    ("mysql2", &[Change, Compress, FetchKey, Prepare, Sha256]),
    ("mariadb", &[FetchKey, Prepare, Signed]),
    ("mysql", &[Change, Compress, FetchKey, Prepare, Sha256]),
    ("go", &[Compress, FetchKey, Prepare, Sha256, Signed]),
];

#[derive(Clone, Copy, Eq, PartialEq)]
enum Ability {
    Change,
    Compress,
    /// Asks, without TLS, for the key by which its password is encrypted.
    FetchKey,
    Prepare,
    Sha256,
    Signed,
}
use Ability::{Change, Compress, FetchKey, Prepare, Sha256, Signed};

/// Returns a driver's option to compress.
fn compressed(driver: &str) -> &'static str {
    match driver {
        "mariadb" | "mysql" => "-useCompression=true",
        _ => "compressed",
    }
}

fn login<'a>(address: SocketAddr, user: &'a str, ca: Option<&'a Path>) -> Login<'a> {
    Login { address, user, password: "secret", ca }
}

/// Checks everything that a driver can do, as `native`.
fn assert_works(driver: &str, abilities: &[Ability], login: Login<'_>, rows: &str) {
    let load = format!("load={rows}");
    let mut actions = vec!["who", "large"];
    let mut lines = vec!["who native@%", "large 3000000"];
    if abilities.contains(&Prepare) {
        actions.push("prepared");
        lines.push("prepared 42");
    }
    // Version 3.5.3 of MariaDB's driver hangs if it compresses a local file, also without Lariat.
    if driver == "mariadb" {
        assert_says(driver, login, &[compressed(driver), "large"], &["large 3000000"]);
    }
    actions.push(&load);
    lines.push("load 6");
    assert_says(driver, login, &actions, &lines);
    if abilities.contains(&Compress) {
        let actions = [&[compressed(driver)], &actions[..]].concat();
        assert_says(driver, login, &actions, &lines);
    }
    if abilities.contains(&Change) {
        // Back to the first user as well, on the same connection.
        let actions = ["change=other", "change=native", "large"];
        let lines = ["who other@%", "who native@%", "large 3000000"];
        assert_says(driver, login, &actions, &lines);
    }
    if abilities.contains(&Signed) {
        let signed = Login { user: "signed", ..login };
        // Version 1.9.3 of Go's driver takes a scramble's last byte for padding if it is NUL, which
        // is once in 256 logins, also without Lariat.
        let is_cut = |said: &Finished| driver == "go" && said.stdout.contains("malformed packet");
        let mut logins = (0..4).map(|_| call(driver, signed, &["who"]));
        let said = logins.find(|said| !is_cut(said));
        assert!(
            said.as_ref().is_some_and(|said| said.stdout == "who signed@%\n"),
            "{driver}: {said:?}"
        );
    }
    for (user, password) in [("native", "wrong"), ("nobody", "secret")] {
        let wrong = Login { user, password, ..login };
        assert_refused(driver, wrong, &["who"], "1045");
    }
}

#[test]
fn mariadb_serves_every_driver() {
    let site = Site::new();
    let server = Mariadb::start(&[]);
    let other = "CREATE USER other IDENTIFIED VIA mysql_native_password USING PASSWORD('secret')";
    suite::mariadb::values(&mut suite::mariadb::mariadb(server.address, "native", other));
    let (ca, tcp) = (site.ca(), server.address.to_string());
    let unix = format!("unix:{}", server.socket.display());
    let over_tcp = service(&site, "tcp", &tcp).starting_tls("mysql", "required");
    let over_unix = service(&site, "unix", &unix).starting_tls("mysql", "required");
    let pair = service(&site, "pair", over_tcp.address).asking("mysql", &ca).mode("off");
    let lariat = lariat([&over_tcp, &over_unix, &pair]);
    let other = Authority::root("another root");
    other.write(&site.directory, "other.pem");
    let other = site.path("other.pem");
    let rows = site.write("rows.txt", "1\n2\n3\n");
    let rows = rows.display().to_string();
    for (driver, abilities) in DRIVERS {
        for (service, ca) in
            [(&over_tcp, Some(ca.as_path())), (&over_unix, Some(ca.as_path())), (&pair, None)]
        {
            assert_works(driver, abilities, login(service.address, "native", ca), &rows);
        }
        let stranger = login(over_tcp.address, "native", Some(&other));
        assert_refused(driver, stranger, &["who"], "");
        let plain = login(over_tcp.address, "native", None);
        assert_refused(driver, plain, &["who"], "3159");
    }
    lariat.wait_for_line(&["starttls-required"]);
}

/// Starts go-mysql, whose users `ann` and `bob` log in only by this plugin.
fn go_mysql(plugin: &str, tls: &[&str]) -> (Running, SocketAddr) {
    let address = free_address();
    let mut command = Command::new(folder().join("go/server"));
    command.args([plugin, &address.to_string()]).args(tls);
    let mut running = Running::start(&mut command);
    running.wait_for_listener(address);
    (running, address)
}

/// Logs in at a server that remembers nobody yet, then at one that remembers.
fn assert_logins(driver: &str, login: Login<'_>) {
    for _cold_then_warm in 0..2 {
        assert_says(driver, login, &["who"], &[&format!("who {}@%", login.user)]);
    }
    let wrong = Login { password: "wrong", ..login };
    assert_refused(driver, wrong, &["who"], "1045");
}

#[test]
fn passwords_by_rsa_reach_a_server_without_tls() {
    let site = Site::new();
    let ca = site.ca();
    for plugin in ["caching_sha2_password", "sha256_password"] {
        let is_sha256 = plugin == "sha256_password";
        for (driver, abilities) in DRIVERS {
            if is_sha256 && !abilities.contains(&Sha256) {
                continue;
            }
            // Each driver gets a server of its own, because it remembers who has logged in.
            let (server, address) = go_mysql(plugin, &["plain"]);
            let front = service(&site, "front", address).starting_tls("mysql", "required");
            let _lariat = lariat([&front]);
            assert_logins(driver, login(front.address, "ann", Some(&ca)));
            let unknown = login(front.address, "nobody", Some(&ca));
            assert_refused(driver, unknown, &["who"], "");
            // A wrong password before the first right one of a user.
            let wrong = Login { password: "wrong", ..login(front.address, "bob", Some(&ca)) };
            assert_refused(driver, wrong, &["who"], "1045");
            assert_logins(driver, login(front.address, "bob", Some(&ca)));
            drop(server);
        }
    }
}

/// Returns the options by which a driver without TLS takes the server's key.
fn taking_key(driver: &str) -> &'static [&'static str] {
    match driver {
        "mariadb" | "mysql" => &["-allowPublicKeyRetrieval=true"],
        _ => &[],
    }
}

#[test]
fn passwords_by_rsa_of_clients_without_tls_reach_a_server_with_it() {
    let site = Site::new();
    let (ca, pem) = (site.ca(), site.path("site.pem").display().to_string());
    for (driver, abilities) in DRIVERS {
        let (server, address) = go_mysql("caching_sha2_password", &["tls", &pem]);
        let client = service(&site, "client", address).asking("mysql", &ca).mode("off");
        let _lariat = lariat([&client]);
        let login = login(client.address, "ann", None);
        let actions = [taking_key(driver), &["who"]].concat();
        if !abilities.contains(&FetchKey) {
            assert_refused(driver, login, &actions, "requires secure connection");
            // A user who has logged in is remembered.
            assert_says("pymysql", login, &["who"], &["who ann@%"]);
        }
        for _cold_then_warm in 0..2 {
            assert_says(driver, login, &actions, &["who ann@%"]);
        }
        drop(server);
    }
}
