//! The program `nginx`, as a server behind and as a receiver of PROXY headers.

use std::net::SocketAddr;
use std::process::Command;

use testkit::directory::Directory;
use testkit::server::free_address;

use crate::program::Running;

/// A running `nginx`.
#[derive(Debug)]
pub struct Nginx {
    /// Where it listens.
    pub address: SocketAddr,
    _running: Running,
    _directory: Directory,
}

impl Nginx {
    /// Starts one HTTP server: `listen` holds the options after the address (`proxy_protocol`,
    /// `http2`), `body` is what it answers, with nginx's variables.
    ///
    /// # Panics
    /// If nginx does not start.
    #[must_use]
    pub fn start(listen: &str, body: &str) -> Self {
        let address = free_address();
        let directory = Directory::new();
        let file = directory.write("nginx.conf", text(address, listen, body));
        let mut command = Command::new("nginx");
        command
            .arg("-p")
            .arg(directory.path())
            .arg("-c")
            .arg(file)
            .arg("-e")
            .arg("stderr");
        let mut running = Running::start(&mut command);
        running.wait_for_listener(address);
        Self {
            address,
            _running: running,
            _directory: directory,
        }
    }
}

fn text(address: SocketAddr, listen: &str, body: &str) -> String {
    format!(
        "daemon off;
         master_process off;
         pid nginx.pid;
         events {{}}
         http {{
             access_log off;
             client_body_temp_path body;
             proxy_temp_path proxy;
             fastcgi_temp_path fastcgi;
             uwsgi_temp_path uwsgi;
             scgi_temp_path scgi;
             server {{
                 listen {address} {listen};
                 default_type text/html;
                 location / {{ return 200 \"{body}\"; }}
             }}
         }}\n"
    )
}
