//! The program `nginx`: a server behind, a receiver of PROXY headers, a TLS server with its log.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use testkit::directory::Directory;
use testkit::server::free_address;

use crate::program::Running;

#[derive(Debug)]
pub struct Nginx {
    pub address: SocketAddr,
    /// Path of the configuration file.
    pub configuration: PathBuf,
    running: Running,
    directory: Directory,
}

impl Nginx {
    /// Starts one HTTP server: `listen` holds the options after the address (`proxy_protocol`,
    /// `http2`), `body` is the answer, with nginx's variables.
    pub fn start(listen: &str, body: &str) -> Self {
        let answer = format!("default_type text/html; location / {{ return 200 \"{body}\"; }}");
        Self::start_at(free_address(), listen, &answer)
    }

    /// Starts one HTTPS server with this certificate (chain and key in one file) and more
    /// directives. The server answers with a body of `ok`.
    pub fn terminate(certificate: &Path, directives: &str) -> Self {
        Self::terminate_at(free_address(), certificate, "", directives)
    }

    /// Starts such a server at an address, with more options of `listen`.
    pub fn terminate_at(
        address: SocketAddr,
        certificate: &Path,
        listen: &str,
        directives: &str,
    ) -> Self {
        let listen = format!("ssl {listen}");
        let answer = "location / { return 200 ok; }";
        Self::start_at(address, &listen, &(tls(certificate, directives) + answer))
    }

    /// Starts one HTTPS server of the files beneath a folder, with more directives.
    pub fn files(certificate: &Path, folder: &Path, directives: &str) -> Self {
        let server = format!("{}root {folder:?};", tls(certificate, directives));
        Self::start_at(free_address(), "ssl", &server)
    }

    /// Starts one HTTP server of the files beneath a folder.
    pub fn plain_files(folder: &Path) -> Self {
        Self::start_at(free_address(), "", &format!("root {folder:?};"))
    }

    /// Starts one HTTP server that forwards requests to an HTTPS server, as its client.
    pub fn forward(target: SocketAddr, ca: &Path, directives: &str) -> Self {
        let server = format!(
            "{directives}
             location / {{
                 proxy_pass https://{target};
                 proxy_ssl_trusted_certificate {ca:?};
                 proxy_ssl_verify on;
                 proxy_ssl_name localhost;
             }}"
        );
        Self::start_at(free_address(), "", &server)
    }

    /// Returns the id of the only process, which serves.
    pub fn id(&self) -> u32 {
        self.running.id()
    }

    /// Starts nginx with these `stream` and `http` blocks, which listen at the address.
    pub fn configured(stream: &str, http: &str, address: SocketAddr) -> Self {
        let text = format!(
            "load_module /usr/lib/nginx/modules/ngx_stream_module.so;\n{MAIN}\
             stream {{\n{stream}\n}}\nhttp {{\naccess_log off;\n{FOLDERS}{http}\n}}\n"
        );
        Self::run(address, &text)
    }

    /// Starts one server with these options of `listen` and this block.
    pub fn start_at(address: SocketAddr, listen: &str, server: &str) -> Self {
        Self::run(address, &text(address, listen, server))
    }

    fn run(address: SocketAddr, text: &str) -> Self {
        let directory = Directory::new();
        let configuration = directory.write("nginx.conf", text);
        let mut command = Command::new("nginx");
        command.arg("-p").arg(directory.path()).arg("-c").arg(&configuration);
        let mut running = Running::start(command.args(["-e", "stderr"]));
        running.wait_for_listener(address);
        Self { address, configuration, running, directory }
    }

    /// Returns the requests that nginx has logged so far.
    pub fn log(&self) -> Vec<Line> {
        let path = self.directory.join("access.log");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| Line(line.to_owned())).collect()
    }

    /// Ends nginx and returns all requests that it has logged.
    pub fn end(mut self) -> Vec<Line> {
        self.running.signal(Signal::QUIT);
        self.running.wait();
        self.log()
    }
}

#[derive(Clone, Debug)]
pub struct Line(String);

impl Line {
    /// Returns the value of nginx's variable of that name (without `ssl_` in front, where it has
    /// that); `-` if it has none.
    pub fn field(&self, name: &str) -> &str {
        let mut words = self.0.split(' ');
        let found = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

const LOG: &str = "session_reused=$ssl_session_reused protocol=$ssl_protocol cipher=$ssl_cipher \
                   curve=$ssl_curve server_name=$ssl_server_name \
                   alpn_protocol=$ssl_alpn_protocol client_verify=$ssl_client_verify \
                   connection_requests=$connection_requests \
                   proxy_protocol_addr=$proxy_protocol_addr request_method=$request_method \
                   request_uri=$request_uri";

fn tls(certificate: &Path, directives: &str) -> String {
    format!("ssl_certificate {certificate:?}; ssl_certificate_key {certificate:?};\n{directives}\n")
}

const MAIN: &str = "daemon off;\nmaster_process off;\npid nginx.pid;\n\
                    events { worker_connections 4096; }\n";

const FOLDERS: &str = "client_body_temp_path body;\nproxy_temp_path proxy;\n\
                       fastcgi_temp_path fastcgi;\nuwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n";

fn text(address: SocketAddr, listen: &str, server: &str) -> String {
    format!(
        "{MAIN}http {{\nlog_format lines '{LOG}';\naccess_log access.log lines;\n{FOLDERS}\
         server {{\nlisten {address} {listen};\n{server}\n}}\n}}\n"
    )
}
