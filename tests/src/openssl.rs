//! The program `openssl`.

use std::fs;
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

/// The SHA-256 of the public key in a certificate of the site's, in base64.
///
/// # Panics
/// If there is no such certificate.
#[must_use]
pub fn key_hash(site: &Site, certificate: &str) -> String {
    let path = |name: &str| site.path(name).display().to_string();
    let (pem, der, hash) = (path("key.pem"), path("key.der"), path("key.sha256"));
    let openssl = |words: &[&str]| run(Command::new("openssl").args(words)).success();
    let key = openssl(&["x509", "-noout", "-pubkey", "-in", &path(certificate)]);
    fs::write(&pem, key).expect("the site's own directory");
    openssl(&[
        "pkey", "-pubin", "-in", &pem, "-outform", "DER", "-out", &der,
    ]);
    openssl(&["dgst", "-sha256", "-binary", "-out", &hash, &der]);
    openssl(&["base64", "-in", &hash]).trim().to_owned()
}
