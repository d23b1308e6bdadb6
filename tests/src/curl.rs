//! The program `curl`.

use std::net::SocketAddr;
use std::process::Command;

use crate::program::{Finished, Running, run};
use crate::site::Site;

/// Makes a `curl` that prints the body, fails on HTTP errors and gives up after half a minute.
pub fn curl() -> Curl {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--fail", "--max-time", "30", "--noproxy", "*"]);
    Curl(command)
}

/// Makes a `curl` that asks `address` for `/` as `https://localhost`, trusting the site's root.
pub fn curl_tls(site: &Site, address: SocketAddr) -> Curl {
    curl_tls_for(site, address, &[""])
}

/// Makes a `curl` that asks `address` for these paths (without the slash in front) in turn.
pub fn curl_tls_for(site: &Site, address: SocketAddr, paths: &[&str]) -> Curl {
    let port = address.port();
    let mut curl = curl().args(&["--resolve", &format!("localhost:{port}:{}", address.ip())]);
    for path in paths {
        curl = curl.url(&format!("https://localhost:{port}/{path}"));
    }
    curl.0.arg("--cacert").arg(site.ca());
    curl
}

#[derive(Debug)]
pub struct Curl(Command);

impl Curl {
    pub fn url(self, url: &str) -> Self {
        self.args(&[url])
    }

    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.0.args(arguments);
        self
    }

    pub fn start(mut self) -> Running {
        Running::start(&mut self.0)
    }

    pub fn run(mut self) -> Finished {
        run(&mut self.0)
    }

    /// Runs it to its end, which must be a success; returns the bytes that it got.
    pub fn bytes(self) -> Vec<u8> {
        let mut running = self.start();
        assert!(running.wait().success(), "{}", running.stderr());
        running.stdout_bytes()
    }
}
