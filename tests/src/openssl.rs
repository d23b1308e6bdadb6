//! The program `openssl s_client`.

use std::net::SocketAddr;
use std::process::Command;

use crate::program::{Finished, run};
use crate::site::Site;

/// Makes one handshake with `address` as `localhost`, sends nothing, and closes.
#[must_use]
pub fn s_client(site: &Site, address: SocketAddr, arguments: &[&str]) -> Finished {
    let mut command = Command::new("openssl");
    command
        .args(["s_client", "-connect", &address.to_string(), "-CAfile"])
        .arg(site.ca());
    if !arguments.iter().any(|one| one.ends_with("servername")) {
        command.args(["-servername", "localhost"]);
    }
    run(command.args(arguments))
}
