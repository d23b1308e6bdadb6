//! Database drivers, pinned, through Lariat to real servers: `./run-tests databases`.
//!
//! Each driver's program does what its arguments say, and prints a line for each
//! (`tests/databases/LANGUAGE`); `tests/databases/install` builds them. Debian's clients are tested
//! in `tests/suite`.
#![forbid(unsafe_code)]

mod mysql;
mod postgres;

use std::env;
use std::fmt::Display;

use suite::prelude::*;

/// Returns `databases` beside the profiles in cargo's target folder, where the drivers are.
fn folder() -> PathBuf {
    let test = env::current_exe().expect("a test has a path");
    let target = test.ancestors().nth(3);
    let folder = target.expect("cargo puts tests into target/PROFILE/deps");
    folder.join("databases")
}

/// Returns the path of a driver program's source.
fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("databases").join(file)
}

#[derive(Clone, Copy)]
struct Login<'a> {
    address: SocketAddr,
    user: &'a str,
    password: &'a str,
    /// Authority that must have issued the server's certificate; `None`: no TLS.
    ca: Option<&'a Path>,
}

impl Login<'_> {
    /// Returns the programs' first words, before the actions.
    fn words(self) -> [String; 4] {
        let ca = self.ca.map(|path| path.display().to_string());
        [
            self.address.port().to_string(),
            self.user.to_owned(),
            self.password.to_owned(),
            ca.unwrap_or_default(),
        ]
    }
}

/// Makes a service for this server, with long timeouts for drivers on a busy machine.
fn service(site: &Site, name: &str, server: impl Display) -> Service {
    suite::starttls::service(site, name, server).more("timeouts = { handshake = '1m' }")
}

fn program(driver: &str) -> Command {
    let folder = folder();
    let of = |program: PathBuf, words: &[&str]| {
        let mut command = Command::new(program);
        command.args(words);
        command
    };
    let python = |file| {
        let mut command = of(folder.join("python/bin/python"), &[]);
        command.arg(source(file)).arg(driver);
        command
    };
    match driver {
        "pymysql" | "connector" | "connector-pure" => python("python/mysql_client.py"),
        "psycopg" | "asyncpg" | "pg8000" => python("python/postgres_client.py"),
        "mysql2" => {
            let mut command = of("node".into(), &[]);
            command.env("NODE_PATH", folder.join("node/node_modules"));
            command.arg(source("node/mysql.js"));
            command
        }
        "go" => of(folder.join("go/client"), &[]),
        "pgx" => of(folder.join("go/postgres"), &[]),
        "mariadb" | "mysql" | "postgresql" => {
            let java = folder.join("java").display().to_string();
            of("java".into(), &["-cp", &format!("{java}:{java}/*"), "Client", driver])
        }
        other => unreachable!("there is no driver {other}"),
    }
}

fn call(driver: &str, login: Login<'_>, actions: &[&str]) -> Finished {
    run(program(driver).args(login.words()).args(actions))
}

/// Checks that a driver prints these lines and no others.
#[track_caller]
fn assert_says(driver: &str, login: Login<'_>, actions: &[&str], lines: &[&str]) {
    let finished = call(driver, login, actions);
    let said = finished.stdout.clone();
    let expected = lines.iter().map(|line| format!("{line}\n"));
    let expected: String = expected.collect();
    assert_eq!(said, expected, "{driver} {actions:?}: {finished:?}");
}

/// Checks that a driver is refused with these words.
#[track_caller]
fn assert_refused(driver: &str, login: Login<'_>, actions: &[&str], words: &str) {
    let finished = call(driver, login, actions);
    assert!(!finished.status.success(), "{driver}: {finished:?}");
    let said = finished.stdout.clone();
    assert!(
        said.contains("error") && said.contains(words),
        "{driver}, wanted {words}: {finished:?}"
    );
}
