//! Encrypted Client Hello by Go's own library: a server that takes inner hellos, and hellos
//! encrypted as a test says. Needs Go 1.26, whose library has HPKE.

use std::env;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::lariat;
use crate::openssl::bytes_of;
use crate::program::{Running, run};

const SOURCE: &str = include_str!("ech.go");

/// Returns the program, built once for all tests; Go itself keeps what did not change.
fn command() -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    Command::new(PROGRAM.get_or_init(|| {
        let program = env::current_exe().expect("a test has a path").with_extension("ech");
        let directory = Directory::new();
        let source = directory.write("ech.go", SOURCE);
        run(Command::new("go").args(["build", "-o"]).arg(&program).arg(source)).success();
        program
    }))
}

/// A server that answers each request with a description of its handshake.
#[derive(Debug)]
pub struct EchServer {
    pub address: SocketAddr,
    _running: Running,
}

impl EchServer {
    /// Starts a server with the chain and key of a file.
    pub fn start(certificate: &Path) -> Self {
        Self::start_as(certificate, "")
    }

    /// Starts a server that asks clients without a share of P-384 for a second hello.
    pub fn asking_again(certificate: &Path) -> Self {
        Self::start_as(certificate, "retry")
    }

    fn start_as(certificate: &Path, way: &str) -> Self {
        let address = free_address();
        let mut command = command();
        command.args(["serve", &address.to_string()]).arg(certificate).arg(way);
        let mut running = Running::start(&mut command);
        running.wait_for_listener(address);
        Self { address, _running: running }
    }
}

/// Makes a hello whose inner one, for this name, is of a kind that `ech.go` knows.
pub fn hello(list: &str, name: &str, kind: &str) -> Vec<u8> {
    bytes_of(run(command().args(["hello", list, name, kind])).success().trim())
}

/// Returns the ECHConfigList that a configuration publishes now, in Base64.
pub fn published(configuration: &Path) -> String {
    published_by(lariat::command(), configuration)
}

/// Returns the list likewise, by a command that runs the program.
pub fn published_by(mut command: Command, configuration: &Path) -> String {
    let said = run(command.args(["ech", "show", "--json"]).arg(configuration)).success();
    let shown: Value = serde_json::from_str(&said).expect("it is JSON");
    shown["config_list"].as_str().expect("there is a list").to_owned()
}
