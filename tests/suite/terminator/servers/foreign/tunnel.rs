//! Servers behind proxies: tinyproxy by `CONNECT`, microsocks by SOCKS5.

use std::os::unix::fs::PermissionsExt;

use suite::prelude::*;

const USER: &str = "lariat";
const PASSWORD: &str = "let me through";

/// A proxy that requires the login above.
struct Proxy {
    address: SocketAddr,
    _running: Running,
    _directory: Directory,
}

impl Proxy {
    fn start(protocol: &str) -> Self {
        let (address, directory) = (free_address(), Directory::new());
        let (ip, port) = (address.ip(), address.port());
        let mut command = if protocol == "http" {
            let password = PASSWORD.replace(' ', "_");
            let text = format!("Port {port}\nListen {ip}\nBasicAuth {USER} {password}\n");
            let mut command = Command::new("tinyproxy");
            command.arg("-d").arg("-c").arg(directory.write("tinyproxy.conf", text));
            command
        } else {
            let (ip, port) = (ip.to_string(), port.to_string());
            let mut command = Command::new("microsocks");
            command.args(["-i", &ip, "-p", &port, "-u", USER, "-P", PASSWORD]);
            command
        };
        let mut running = Running::start(&mut command);
        running.wait_for_listener(address);
        Self { address, _running: running, _directory: directory }
    }
}

fn password_of(protocol: &str) -> String {
    if protocol == "http" { PASSWORD.replace(' ', "_") } else { PASSWORD.to_owned() }
}

/// Returns keys of `back` for a host behind a proxy, with a file of the password.
fn tunnel(site: &Site, protocol: &str, to: &str, password: &str) -> String {
    let file = site.write("password", format!("{password}\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    format!(
        "tunnel = {{ to = '{to}', protocol = '{protocol}', user = '{USER}', password-file = {file:?} }}"
    )
}

fn check(kind: &str) -> String {
    format!("check = {{ kind = '{kind}', interval = '100ms', timeout = '3s', fall = 1, rise = 1 }}")
}

#[test]
fn a_server_is_reached_checked_and_verified_through_a_proxy() {
    let site = Site::new();
    let page = SServer::start(&site, "site.pem", &["-www"]);
    let greeter = Server::start(Behaviour::Greet(b"220 hello\r\n".to_vec()));
    let metric = "lariat_server_up";
    for protocol in ["http", "socks5"] {
        let proxy = Proxy::start(protocol);
        let password = password_of(protocol);
        // The certificate must have the name of the host behind the proxy.
        let to = format!("localhost:{}", page.address.port());
        let ca = site.ca();
        let keys = tunnel(&site, protocol, &to, &password);
        let keys = format!("tls = {{ ca = [{ca:?}] }}\n{}\n{keys}", check("tls"));
        let service = Service::new(&site, proxy.address).back(&keys);
        let lariat = service.start();
        assert_has(curl_tls(&site, service.address).run().success(), "TLSv1.3");
        lariat.wait_for_metric(metric, &[], 1.0);
        // A server's first bytes come behind the proxy's last word, and belong to the client.
        let keys = tunnel(&site, protocol, greeter.address(), &password);
        let keys = format!("send-proxy = 'v1'\n{}\n{keys}", check("tcp"));
        let service = Service::new(&site, proxy.address).mode("off").back(&keys);
        let lariat = service.start();
        let mut client = tcp(service.address);
        let mut greeting = [0; 11];
        client.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting, b"220 hello\r\n");
        let source = client.local_addr().unwrap();
        client.write_all(b"ping").unwrap();
        let words = format!("PROXY TCP4 127.0.0.1 127.0.0.1 {}", source.port());
        greeter.wait_until(|all| {
            let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            all.iter()
                .any(|one| said(&one.bytes).starts_with(&words) && one.bytes.ends_with(b"ping"))
        });
        lariat.wait_for_metric(metric, &[], 1.0);
        assert!(!lariat.ask("status").stdout.contains(&password));
    }
}

#[test]
fn a_proxy_that_does_not_connect_is_no_server_and_the_log_says_why() {
    let site = Site::new();
    let server = Server::start(Behaviour::Echo);
    let nobody = free_address().to_string();
    let silent = Server::start(Behaviour::Swallow);
    let ssh = Server::start(Behaviour::Greet(b"SSH-2.0-x\r\n".to_vec()));
    let (http, socks) = (Proxy::start("http"), Proxy::start("socks5"));
    let (http, socks) = (http.address.to_string(), socks.address.to_string());
    for (protocol, proxy, to, password, words) in [
        ("http", &*http, server.address(), "wrong", "wants a login"),
        ("socks5", &socks, server.address(), "wrong", "refused the login"),
        ("http", &http, &nobody, &password_of("http"), "answered CONNECT with status 50"),
        ("socks5", &socks, &nobody, PASSWORD, "connection refused (SOCKS5 reply 5)"),
        ("socks5", ssh.address(), &nobody, PASSWORD, "did not answer by SOCKS5"),
        ("http", silent.address(), &nobody, PASSWORD, "did not answer in time"),
        ("http", server.address(), &nobody, PASSWORD, "did not answer with HTTP/1"),
    ] {
        let keys = tunnel(&site, protocol, to, password);
        let service = |name: &str| {
            let service = Service::new(&site, proxy).named(name).back(&keys);
            service.more("timeouts = { dial = '3s' }\n")
        };
        let (web, checked) = (service("web"), service("checked").back(&check("tcp")));
        let lariat = Lariat::start(&format!("{}{}", web.toml(), checked.toml()));
        assert!(!curl_tls(&site, web.address).run().status.success(), "{words}");
        lariat.wait_for_line(&["server-tunnel-failed", words]);
        let labels = [("kind", "tunnel"), ("service", "web")];
        lariat.wait_for_metric("lariat_dial_failures_total", &labels, 1.0);
        let fault = if proxy == silent.address() { "did not answer within 3s" } else { words };
        until_true(fault, || {
            let said = lariat.stderr();
            said.lines().any(|line| line.contains("is down: ") && line.contains(fault))
        });
        assert!(!lariat.log().contains(password) && !lariat.stderr().contains(password));
    }
}
