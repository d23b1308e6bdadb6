//! hitch, stunnel, HAProxy and nginx, and Lariat by an import of their files, answer alike.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use suite::haproxy::Haproxy;
use suite::hitch::Hitch;
use suite::lariat::command;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::proxy_header::ProxyHeader;
use suite::stunnel::Stunnel;

/// Returns the import of a file, without the log's table, because tests have one of their own, and
/// its report.
pub(super) fn import(kind: &str, file: &Path) -> (String, String) {
    let imported = run(command().args(["import", kind]).arg(file));
    assert!([0, 6].contains(&imported.code()), "{imported:?}");
    let (before, log) = imported.stdout.split_once("\n[log]\n").unwrap_or((&imported.stdout, ""));
    let behind = log.find("\n[").map_or("", |end| &log[end..]);
    (format!("{before}{behind}"), imported.stderr)
}

/// Starts Lariat with the import of a file, at another address.
fn imported(kind: &str, file: &Path, address: SocketAddr) -> (Lariat, SocketAddr) {
    let (toml, own) = (import(kind, file).0, free_address());
    (Lariat::start(&toml.replace(&address.to_string(), &own.to_string())), own)
}

/// Returns the answer that `openssl s_client` sees: the version, the certificate's name, the
/// protocol, and whether the client was refused.
pub(super) fn seen(site: &Site, address: SocketAddr, arguments: &[&str]) -> String {
    let answer = s_client(site, address, arguments);
    let line = |begin: &str| {
        let mut lines = answer.stdout.lines().map(str::trim);
        lines.rfind(|line| line.starts_with(begin)).unwrap_or_default().to_owned()
    };
    // A server with TLS 1.3 refuses a client's certificate after the handshake.
    let is_refused = answer.stderr.contains("alert");
    [
        line("New, TLSv1").split(',').nth(1).unwrap_or_default(),
        &line("subject="),
        &line("ALPN protocol"),
        if is_refused { "refused" } else { "" },
    ]
    .join("|")
}

/// Checks that both answer each kind of client in the same words.
#[track_caller]
fn assert_alike(site: &Site, one: SocketAddr, other: SocketAddr, clients: &[&[&str]]) {
    for client in clients {
        let answers = [one, other].map(|address| seen(site, address, client));
        assert_eq!(answers[0], answers[1], "{client:?}");
    }
}

/// Writes two certificates, one file each; returns hitch's lines for them.
pub(super) fn two_certificates(site: &Site) -> String {
    site.authority
        .leaf(&["other.example"])
        .common_name("other")
        .issue()
        .write(&site.directory, "b.pem");
    site.authority
        .leaf(&["localhost"])
        .common_name("local")
        .issue()
        .write(&site.directory, "a.pem");
    let pem = |name| format!("pem-file = {:?}\n", site.path(name));
    format!("{}{}", pem("a.pem"), pem("b.pem"))
}

fn hitch(server: &Server, lines: &str) -> Hitch {
    let (server, root) = (server.address().to_owned(), is_root());
    let user = if root { "user = \"nobody\"\n" } else { "" };
    let (host, port) = server.rsplit_once(':').unwrap();
    Hitch::configured(|address| {
        format!(
            "frontend = \"[{}]:{}\"\nbackend = \"[{host}]:{port}\"\nocsp-dir = \"\"\n{user}{lines}",
            address.ip(),
            address.port()
        )
    })
}

pub(super) fn is_root() -> bool {
    run(Command::new("id").arg("-u")).success().trim() == "0"
}

#[test]
fn versions_names_and_protocols_as_by_hitch() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let lines = two_certificates(&site) + "alpn-protos = \"h2, http/1.1\"\n";
    let hitch = hitch(&server, &lines);
    let (_lariat, own) = imported("hitch", &hitch.configuration, hitch.address);
    assert_alike(
        &site,
        hitch.address,
        own,
        &[
            &["-tls1_2"],
            &["-tls1_3"],
            &["-tls1_1"],
            &["-servername", "other.example"],
            &["-servername", "unknown.example"],
            &["-noservername"],
            &["-alpn", "http/1.1"],
            &["-alpn", "http/1.1,h2"],
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
        ],
    );
    let unnamed = seen(&site, own, &["-noservername", "-tls1_3", "-alpn", "h2"]);
    assert!(unnamed.contains("CN = other"), "hitch's last one: {unnamed}");
    assert!(unnamed.contains("TLSv1.3") && unnamed.contains("h2"), "{unnamed}");
}

#[test]
fn unknown_names_as_by_hitch() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let lines = two_certificates(&site) + "sni-nomatch-abort = on\ntls-protos = TLSv1.3\n";
    let hitch = hitch(&server, &lines);
    let (_lariat, own) = imported("hitch", &hitch.configuration, hitch.address);
    let known: &[&str] = &["-servername", "localhost"];
    let unknown: &[&str] = &["-servername", "unknown.example"];
    assert_alike(&site, hitch.address, own, &[known, unknown, &["-tls1_2"]]);
}

#[test]
fn client_certificates_as_by_hitch() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    site.authority.client("member").write(&site.directory, "member.pem");
    let ca = site.ca();
    let lines =
        two_certificates(&site) + &format!("client-verify = required\nclient-verify-ca = {ca:?}\n");
    let hitch = hitch(&server, &lines);
    let (_lariat, own) = imported("hitch", &hitch.configuration, hitch.address);
    let member = site.path("member.pem").display().to_string();
    let shown: &[&str] = &["-tls1_2", "-cert", &member, "-key", &member];
    assert_alike(&site, hitch.address, own, &[shown, &["-tls1_2"]]);
    assert!(seen(&site, own, &["-tls1_2"]).contains("refused"));
}

#[test]
fn the_proxy_header_as_by_hitch() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Swallow));
    let lines = two_certificates(&site) + "write-proxy-v2 = on\nalpn-protos = \"h2\"\n";
    let hitch = hitch(&server, &lines);
    let (_lariat, own) = imported("hitch", &hitch.configuration, hitch.address);
    let mut headers = Vec::new();
    for (number, address) in [hitch.address, own].into_iter().enumerate() {
        let mut connection = Client::new(&site).connect(address);
        let client = connection.socket().local_addr().unwrap();
        connection.send(b"after");
        connection.end();
        server.wait_for_end(number + 1);
        let ended = server.connections();
        let read = ended.iter().filter_map(|one| ProxyHeader::read(&one.bytes));
        let is_of_client = |one: &ProxyHeader| one.addresses == Some((client, address));
        headers.push(read.into_iter().find(is_of_client).expect("a header of this client"));
    }
    for header in &headers {
        assert_eq!((header.version, &header.rest[..]), (2, &b"after"[..]));
    }
    let ssl = headers.iter().map(|one| (one.ssl().client, one.ssl().text(0x21)));
    assert_eq!(ssl.collect::<BTreeSet<_>>().len(), 1, "{headers:?}");
}

#[test]
fn names_versions_and_client_certificates_as_by_stunnel() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    two_certificates(&site);
    site.authority.client("member").write(&site.directory, "member.pem");
    let path = |name: &str| site.path(name).display().to_string();
    let server = server.address();
    let stunnel = Stunnel::configured(&format!(
        "connect = {server}\ncert = {}\nsslVersionMin = TLSv1.2\n\
         [second]\nsni = test:other.example\ncert = {}\nconnect = {server}\n\
         [third]\nsni = test:*.wild.example\ncert = {}\nconnect = {server}\nverifyChain = yes\n\
         CAfile = {}\n",
        path("a.pem"),
        path("b.pem"),
        path("site.pem"),
        path("ca.pem"),
    ));
    let (_lariat, own) = imported("stunnel", &stunnel.configuration, stunnel.address);
    let member = path("member.pem");
    assert_alike(
        &site,
        stunnel.address,
        own,
        &[
            &["-tls1_2"],
            &["-tls1_3"],
            &["-tls1_1"],
            &["-servername", "other.example"],
            &["-noservername"],
            &["-tls1_2", "-servername", "a.wild.example"],
            &["-tls1_2", "-servername", "a.wild.example", "-cert", &member, "-key", &member],
        ],
    );
}

#[test]
fn servers_are_verified_as_by_stunnel() {
    let (site, _server, service, _behind) = serve(Behaviour::Echo);
    let other = Site::new();
    for (ca, is_good) in [(site.ca(), true), (other.ca(), false)] {
        let stunnel = Stunnel::configured(&format!(
            "client = yes\nconnect = {}\nCAfile = {}\nverifyChain = yes\ncheckHost = localhost\n",
            service.address,
            ca.display()
        ));
        let (_lariat, own) = imported("stunnel", &stunnel.configuration, stunnel.address);
        for address in [stunnel.address, own] {
            assert_eq!(echoes(address), is_good, "{address} {ca:?}");
        }
    }
}

/// Timeouts that HAProxy warns of when they are missing.
const HAPROXY: &str =
    "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n";

#[test]
fn names_versions_and_protocols_as_by_haproxy() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    two_certificates(&site);
    let path = |name: &str| site.path(name).display().to_string();
    let (local, other) = (path("a.pem"), path("b.pem"));
    let (ca, server) = (path("ca.pem"), server.address());
    site.authority.client("member").write(&site.directory, "member.pem");
    let list = site.write("list.txt", format!("{local}\n{other} [alpn h2] other.example\n"));
    let list = list.display().to_string();
    let suite = "ECDHE-ECDSA-AES128-GCM-SHA256";
    let member = path("member.pem");
    let clients: [&[&str]; 10] = [
        &["-tls1_2", "-servername", "localhost"],
        &["-tls1_3", "-servername", "localhost"],
        &["-tls1_1", "-servername", "localhost"],
        &["-servername", "other.example"],
        &["-servername", "localhost", "-alpn", "http/1.1"],
        &["-servername", "other.example", "-alpn", "h2"],
        &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"],
        &["-tls1_2", "-servername", "localhost", "-cert", &member, "-key", &member],
        &["-tls1_2", "-servername", "unknown.example"],
        &["-tls1_2", "-noservername"],
    ];
    for bind in [
        format!("crt {local} crt {other} alpn h2,http/1.1 strict-sni"),
        format!("crt {local} crt {other} ssl-min-ver TLSv1.3"),
        format!("crt {local} ciphers {suite} verify required ca-file {ca}"),
        format!("crt-list {list}"),
    ] {
        let haproxy = Haproxy::configured(|address| {
            format!("{HAPROXY}listen a\n bind {address} ssl {bind}\n server a {server}\n")
        });
        let (_lariat, own) = imported("haproxy", &haproxy.configuration, haproxy.address);
        // The client may end, with TLS 1.3, before it reads that its certificate is missing.
        let is_sure = |client: &&&[&str]| client[0] == "-tls1_2" || !bind.contains("verify");
        let clients: Vec<_> = clients.iter().filter(is_sure).copied().collect();
        assert_alike(&site, haproxy.address, own, &clients);
    }
}

#[test]
fn a_certificate_of_a_list_demands_clients_of_its_names_as_by_haproxy() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    two_certificates(&site);
    site.authority.client("member").write(&site.directory, "member.pem");
    let path = |name: &str| site.path(name).display().to_string();
    let (local, other, member) = (path("a.pem"), path("b.pem"), path("member.pem"));
    let verify = format!("[verify required ca-file {}]", path("ca.pem"));
    for names in ["", "other.example !x.other.example"] {
        let list = site.write("list.txt", format!("{local}\n{other} {verify} {names}\n"));
        let (list, server) = (list.display(), server.address());
        let haproxy = Haproxy::configured(|address| {
            format!(
                "{HAPROXY}frontend a\n bind {address} ssl crt-list {list}\n \
                 use_backend b if {{ ssl_fc_sni other.example }}\n default_backend c\n\
                 backend b\n server b {server}\nbackend c\n server c {server}\n"
            )
        });
        let (_lariat, own) = imported("haproxy", &haproxy.configuration, haproxy.address);
        let (tls12, other) = ("-tls1_2", "other.example");
        let stranger: &[&str] = &[tls12, "-servername", other];
        let clients: [&[&str]; 3] = [
            stranger,
            &[tls12, "-servername", other, "-cert", &member, "-key", &member],
            &[tls12, "-servername", "localhost"],
        ];
        assert_alike(&site, haproxy.address, own, &clients);
        assert!(seen(&site, own, stranger).ends_with("refused"), "{names}");
    }
}

#[test]
fn closed_tls_goes_by_name_as_by_haproxy() {
    let (site, behind) = (Site::new(), Server::start(Behaviour::Echo));
    two_certificates(&site);
    let terminators = ["a.pem", "b.pem"].map(|name| {
        let (address, certificate) = (free_address(), site.path(name));
        let lariat = Lariat::start(&format!(
            "[[service]]\nfront = {{ listen = ['{address}'], tls = {{ certificates = \
             [{certificate:?}] }} }}\nback.servers = ['{}']\n",
            behind.address()
        ));
        (address, lariat)
    });
    let [one, other] = terminators.each_ref().map(|(address, _)| *address);
    let haproxy = Haproxy::configured(|address| {
        format!(
            "{HAPROXY}frontend a\n bind {address}\n tcp-request inspect-delay 5s\n \
             tcp-request content accept if {{ req_ssl_hello_type 1 }}\n \
             use_backend b if {{ req.ssl_sni -i other.example }} or \
             {{ req.ssl_sni -m end .wild.example }}\n default_backend d\n\
             backend b\n server b {other}\nbackend d\n server d {one}\n"
        )
    });
    let (_lariat, own) = imported("haproxy", &haproxy.configuration, haproxy.address);
    let names = ["localhost", "other.example", "a.wild.example", "unknown.example"];
    for name in names {
        assert_alike(&site, haproxy.address, own, &[&["-servername", name]]);
    }
    assert_alike(&site, haproxy.address, own, &[&["-noservername"]]);
    assert!(seen(&site, own, &["-servername", "a.wild.example"]).contains("other"));
}

#[test]
fn the_proxy_header_as_by_haproxy() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Swallow));
    two_certificates(&site);
    let mut begun = 0;
    for sent in [
        "send-proxy",
        "send-proxy-v2",
        "send-proxy-v2-ssl",
        "send-proxy-v2 proxy-v2-options authority,crc32c",
    ] {
        let certificate = site.path("a.pem").display().to_string();
        let haproxy = Haproxy::configured(|address| {
            let to = server.address();
            let bind = format!("bind {address} ssl crt {certificate}");
            format!("{HAPROXY}listen a\n {bind}\n server a {to} {sent}\n")
        });
        let (_lariat, own) = imported("haproxy", &haproxy.configuration, haproxy.address);
        let headers = [haproxy.address, own].map(|address| {
            let mut connection = Client::new(&site).connect(address);
            let client = connection.socket().local_addr().unwrap();
            connection.send(b"after");
            connection.end();
            begun += 1;
            server.wait_for_end(begun);
            let ended = server.connections();
            let read = ended.iter().filter_map(|one| ProxyHeader::read(&one.bytes));
            let is_of_client = |one: &ProxyHeader| one.addresses == Some((client, address));
            read.into_iter().find(is_of_client).expect("a header of this client")
        });
        for header in &headers {
            assert_eq!(header.rest, b"after", "{sent}");
        }
        let said = headers.each_ref().map(|one| {
            let kinds = one.tlvs.iter().map(|(kind, _)| *kind);
            (one.version, kinds.collect::<BTreeSet<_>>())
        });
        assert_eq!(said[0], said[1], "{sent}");
    }
}

/// Returns nginx's lines for a certificate of the site.
fn nginx_certificate(site: &Site, name: &str) -> String {
    let pem = site.path(name);
    let versions = "ssl_protocols TLSv1.2 TLSv1.3;";
    format!("ssl_certificate {pem:?}; ssl_certificate_key {pem:?}; {versions}")
}

#[test]
fn a_stream_with_client_certificates_as_by_nginx() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    two_certificates(&site);
    site.authority.client("member").write(&site.directory, "member.pem");
    let (address, ca, server) = (free_address(), site.ca(), server.address().to_owned());
    let stream = format!(
        "upstream app {{ least_conn; server {server}; }}
         server {{ listen {address} ssl; {} ssl_alpn h2 http/1.1;
         ssl_verify_client on; ssl_client_certificate {ca:?}; proxy_pass app; }}",
        nginx_certificate(&site, "a.pem")
    );
    let nginx = Nginx::configured(&stream, "", address);
    let (_lariat, own) = imported("nginx", &nginx.configuration, address);
    let member = site.path("member.pem").display().to_string();
    let shown = ["-cert", &member, "-key", &member];
    let with = |more: &[&'static str]| [&shown[..], more].concat();
    let clients: [Vec<&str>; 6] = [
        with(&["-tls1_2"]),
        with(&["-tls1_3"]),
        with(&["-tls1_2", "-alpn", "http/1.1,h2"]),
        with(&["-tls1_2", "-alpn", "other"]),
        with(&["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"]),
        with(&["-noservername", "-tls1_2"]),
    ];
    let clients: Vec<_> = clients.iter().map(Vec::as_slice).collect();
    assert_alike(&site, address, own, &clients);
    assert!(seen(&site, own, &with(&["-alpn", "h2"])).contains("h2"));
    // nginx ends the connection behind a handshake without a certificate.
    assert!(seen(&site, own, &["-tls1_2"]).contains("refused"));
}

#[test]
fn a_map_of_names_as_by_nginx() {
    let site = Site::new();
    two_certificates(&site);
    let servers = ["a.pem", "b.pem", "site.pem"]
        .map(|name| Nginx::terminate(&site.path(name), "ssl_protocols TLSv1.2 TLSv1.3;"));
    let [first, second, third] = servers.each_ref().map(|server| server.address);
    let address = free_address();
    let stream = format!(
        "map $ssl_preread_server_name $to {{ hostnames; default first;
           other.example {second}; .wild.example third; *.other.example {second}; }}
         upstream first {{ server {first}; }}
         upstream third {{ server {third}; }}
         server {{ listen {address}; ssl_preread on; proxy_pass $to; }}"
    );
    let nginx = Nginx::configured(&stream, "", address);
    let (_lariat, own) = imported("nginx", &nginx.configuration, address);
    let names = ["other.example", "a.other.example", "wild.example", "b.a.wild.example", "x.y"];
    let clients = names.map(|name| ["-servername", name]);
    let clients: Vec<_> = clients.iter().map(<[&str; 2]>::as_slice).collect();
    assert_alike(&site, address, own, &clients);
    assert_alike(&site, address, own, &[&["-noservername"], &["-tls1_2"]]);
    assert!(seen(&site, own, &["-servername", "other.example"]).contains("CN = other"));
    assert!(seen(&site, own, &["-noservername"]).contains("CN = local"));
}

#[test]
fn the_proxy_header_as_by_nginx() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Swallow));
    let (address, to) = (free_address(), server.address().to_owned());
    let certificate = nginx_certificate(&site, "site.pem");
    let stream = format!(
        "server {{ listen {address} ssl; {certificate} proxy_pass {to}; proxy_protocol on; }}"
    );
    let nginx = Nginx::configured(&stream, "", address);
    let (_lariat, own) = imported("nginx", &nginx.configuration, address);
    for (number, address) in [address, own].into_iter().enumerate() {
        let mut connection = Client::new(&site).connect(address);
        let client = connection.socket().local_addr().unwrap();
        connection.send(b"after");
        connection.end();
        server.wait_for_end(number + 1);
        let ended = server.connections();
        let read = ended.iter().filter_map(|one| ProxyHeader::read(&one.bytes));
        let is_of_client = |one: &ProxyHeader| one.addresses == Some((client, address));
        let header = read.into_iter().find(is_of_client).expect("a header of this client");
        assert_eq!((header.version, &header.rest[..]), (1, &b"after"[..]));
    }
}

#[test]
fn servers_of_http_as_by_nginx() {
    let site = Site::new();
    two_certificates(&site);
    let [first, second] = ["first", "second"].map(|body| Nginx::start("", body));
    let (address, plain) = (free_address(), free_address());
    let server = |listen: &str, name: &str, pem: &str, to: SocketAddr| {
        format!(
            "server {{ listen {address} ssl {listen}; server_name {name}; {}
             location / {{ proxy_pass http://{to}; }} }}\n",
            nginx_certificate(&site, pem)
        )
    };
    let http = server("", "other.example *.wild.example", "b.pem", second.address)
        + &server("default_server", "localhost", "a.pem", first.address)
        + &format!("server {{ listen {plain}; return 301 https://$host$request_uri; }}\n");
    let nginx = Nginx::configured("", &http, address);
    let text = fs::read_to_string(&nginx.configuration).unwrap();
    // Only one of the two addresses is replaced by `imported`; this replaces the other.
    let away = free_address().to_string();
    let file = site.write("nginx.conf", text.replace(&plain.to_string(), &away));
    let (_lariat, own) = imported("nginx", &file, address);
    let names = ["localhost", "other.example", "a.wild.example", "unknown.example"];
    let clients = names.map(|name| ["-servername", name]);
    let clients: Vec<_> = clients.iter().map(<[&str; 2]>::as_slice).collect();
    assert_alike(&site, address, own, &clients);
    let refused: &[&str] = &["-tls1_2", "-alpn", "other"];
    let offers: &[&[&str]] = &[&["-noservername"], &["-alpn", "http/1.1"], refused];
    assert_alike(&site, address, own, offers);
    for address in [address, own] {
        assert_eq!(curl_tls(&site, address).run().success(), "first");
    }
    let redirected = |address: SocketAddr| {
        let curl = curl().args(&["--write-out", "%{http_code} %{redirect_url}"]);
        let curl = curl.args(&["--output", "/dev/null", "--header", "Host: localhost"]);
        curl.url(&format!("http://{address}/a?b")).run().success()
    };
    assert_eq!(redirected(plain), redirected(away.parse().unwrap()));
    assert_eq!(redirected(plain), "301 https://localhost/a?b");
}

/// Reports whether a byte comes back.
fn echoes(address: SocketAddr) -> bool {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut byte = [0];
    socket.write_all(b"x").is_ok() && socket.read_exact(&mut byte).is_ok()
}

/// Returns the options that an installed page of the manual has a heading for.
fn options_of(page: &str, heading: &str) -> Vec<String> {
    let text = run(Command::new("zcat").arg(format!("/usr/share/man/{page}.gz"))).success();
    let headings = text.lines().filter_map(|line| line.strip_prefix(heading)?.split_once(" = "));
    let names = headings.map(|(name, _)| {
        let plain = name.replace('\\', " ").replace(" -", "-");
        let marks = ["fB", "fR", "s-1", "s0"];
        marks.iter().fold(plain, |name, mark| name.replace(&format!(" {mark}"), ""))
    });
    names.map(|name| name.replace("s-1", "")).collect()
}

#[test]
fn no_option_of_the_installed_manuals_is_unknown() {
    let directory = Directory::new();
    for (kind, page, heading, count) in
        [("hitch", "man5/hitch.conf.5", ".SS ", 40), ("stunnel", "man8/stunnel4.8", ".IP \"", 80)]
    {
        let options = options_of(page, heading);
        assert!(options.len() >= count, "{kind}: {options:?}");
        let first = if kind == "stunnel" { "[main]\n" } else { "# hitch\n" };
        let lines: String = options.iter().map(|name| format!("{name} = 1\n")).collect();
        let file = directory.write("old.conf", first.to_owned() + &lines);
        let answer = run(command().args(["import", kind]).arg(file));
        let unknown = answer.stderr.lines().filter(|line| line.contains("no such option"));
        assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&str>::new(), "{kind}");
        for (number, name) in (2..).zip(options) {
            let is_shown = answer.stderr.contains(&format!("old.conf:{number}: {name}"));
            assert!(is_shown || name == "include", "{kind}: {name}: {}", answer.stderr);
        }
    }
}
