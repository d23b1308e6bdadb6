//! The server `mariadbd` and the client `mariadb`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::geteuid;
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::program::{Finished, Running, run};
use crate::site::Site;

/// Makes the users `native` and `signed`, named by their password plugins, with all rights.
const USERS: &str = "\
    CREATE USER native IDENTIFIED VIA mysql_native_password USING PASSWORD('secret');\n\
    CREATE USER signed IDENTIFIED VIA ed25519 USING PASSWORD('secret');\n\
    GRANT ALL ON *.* TO native; GRANT ALL ON *.* TO signed;\n\
    CREATE DATABASE test;\n";

/// A running server, on TCP and on a Unix socket.
#[derive(Debug)]
pub struct Mariadb {
    pub address: SocketAddr,
    /// Path of its Unix socket.
    pub socket: PathBuf,
    _running: Running,
    _directory: Directory,
}

impl Mariadb {
    /// Starts the server with these options, and waits until it serves.
    pub fn start(options: &[&str]) -> Self {
        let (address, directory) = (free_address(), Directory::new());
        let data = format!("--datadir={}", directory.join("data").display());
        // A server started by root drops its rights to a user, or is told to keep them.
        let user = geteuid().is_root().then_some("--user=root");
        let mut install = Command::new("mariadb-install-db");
        install
            .args(["--no-defaults", "--skip-test-db", "--innodb-log-file-size=4M", &data])
            .args(["--auth-root-authentication-method=normal"])
            .args(user);
        // Two servers that share a folder for temporary tables remove those of each other.
        install.env("TMPDIR", directory.path());
        run(&mut install).success();
        let users = USERS.replace("; ", ";\n");
        let users = directory.write("users.sql", users);
        let socket = directory.join("socket");
        let mut command = Command::new("mariadbd");
        command
            .args(["--no-defaults", "--skip-name-resolve", "--innodb-log-file-size=4M", &data])
            .args(["--plugin-load-add=auth_ed25519", "--innodb-buffer-pool-size=8M"])
            .args(["--bind-address=127.0.0.1", "--skip-log-bin", "--local-infile=1"])
            .arg(format!("--port={}", address.port()))
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--init-file={}", users.display()))
            .args(user)
            .args(options);
        command.env("TMPDIR", directory.path());
        let mut running = Running::start(&mut command);
        running.wait_for_listener(address);
        Self { address, socket, _running: running, _directory: directory }
    }

    /// Starts a server with the site's certificate that refuses clients without TLS.
    pub fn requiring_tls(site: &Site) -> Self {
        let path = site.path("site.pem");
        let path = path.display();
        Self::start(&[
            &format!("--ssl-cert={path}"),
            &format!("--ssl-key={path}"),
            "--require-secure-transport",
        ])
    }
}

/// Makes a client without TLS, at this address, as this user: runs statements, prints bare values.
pub fn mariadb(address: SocketAddr, user: &str, statements: &str) -> Command {
    let mut command = client(address, user, statements);
    command.arg("--skip-ssl");
    command
}

fn client(address: SocketAddr, user: &str, statements: &str) -> Command {
    let mut command = Command::new("mariadb");
    command
        .args(["--no-defaults", "--batch", "--skip-column-names", "--protocol=tcp"])
        .args(["--host=127.0.0.1", "--password=secret", "--connect-timeout=20"])
        .arg(format!("--port={}", address.port()))
        .arg(format!("--user={user}"))
        .arg(format!("--execute={statements}"));
    command
}

/// Makes a client with TLS that verifies the server.
pub fn mariadb_tls(site: &Site, address: SocketAddr, user: &str, statements: &str) -> Command {
    let mut command = client(address, user, statements);
    command.arg("--ssl-verify-server-cert").arg(format!("--ssl-ca={}", site.ca().display()));
    command
}

pub fn values(command: &mut Command) -> String {
    run(command).success().trim_end().to_owned()
}

pub fn refused(command: &mut Command) -> Finished {
    let finished = run(command);
    assert!(!finished.status.success(), "{finished:?}");
    finished
}
