//! Clients and servers that a program refuses stay refused after an import.

use import::Predecessor;
use testkit::authority::Authority;

use crate::memory::{imported, imported_with};

/// Options that refuse or distrust somebody in ways that no key covers.
const REFUSALS: &[(Predecessor, &[&str])] = &[
    (
        Predecessor::Nginx,
        &[
            "auth_basic a;",
            "location /a { deny all; }",
            "if ($x) { return 403; }",
            "allow 10.0.0.1; deny 10.0.0.0/8; allow all;",
            "deny all;",
            "access_by_lua_file a;",
            "auth_ldap a;",
            "proxy_set_header X-Name $ssl_client_s_dn;",
            "ssl_verify_client optional_no_ca;",
            "ssl_verify_client on; ssl_client_certificate /b; ssl_ocsp on;",
            "ssl_conf_command verifymode Require;",
            "ssl_conf_command Protocol ALL,-TLSv1.2;",
            "deny 10.0.0.1; location / { deny 10.0.0.2; allow 10.0.0.0/8; deny 10.0.0.0/7; }",
            "if ($host = a.example) { return 403; }",
            "limit_conn a 1;",
            "limit_req zone=a;",
            "rewrite ^/(.*)$ /public/$1 break;",
            "rewrite_by_lua_block { ngx.exit(403) }",
            "set $name $SSL_client_s_dn;",
            "unknown_module on;",
            "location /a { unknown_module on; }",
            "proxy_set_header X-User \"\";",
            "listen 443 ssl proxy_protocol; allow 10.0.0.0/8; deny all;",
            "set_real_ip_from 10.0.0.0/8; deny 192.0.2.1;",
        ],
    ),
    (
        Predecessor::Haproxy,
        &[
            "tcp-request content reject if { src_conn_rate gt 9 }",
            "tcp-request content reject",
            "tcp-request content lua.a",
            "tcp-request connection reject if { src_is_local }",
            "tcp-request connection reject",
            "tcp-request connection reject if !{ src 10.0.0.1 }\n\
             tcp-request connection reject if !{ src 10.0.0.2 }",
            "tcp-request session reject if { src 10.0.0.1 }",
            "tcp-response content reject if { res.len gt 9 }",
            "http-request deny if { path /a }",
            "http-request auth",
            "http-request return status 403 if { path /a }",
            "http-request set-header X-Name %[ssl_c_s_dn]",
            "http-response deny if { status 500 }",
            "newer-keyword a",
            "filter spoe engine a",
            "option external-check\nexternal-check command /a",
            "use_backend b if { src_conn_rate gt 9 }\nbackend b\nhttp-request deny",
        ],
    ),
    (
        Predecessor::Stunnel,
        &[
            "libwrap = yes",
            "ident = a",
            "requireCert = yes",
            "verifyChain = yes\nCApath = /a",
            "verifyChain = yes\nCAfile = /a\nCRLpath = /a",
            "verifyChain = yes\nCAfile = /a\nOCSP = http://a/",
            "verifyChain = yes\nCAfile = /a\nOCSPaia = yes",
            "verifyChain = yes\nCAfile = /a\ncheckIP = 10.0.0.1",
            "client = yes\nverifyChain = yes\nCAfile = /a\ncheckEmail = a@b",
            "config = VerifyMode:Require",
            "config = clientCAfile:/b",
            "securityLevel = 4",
            "newerOption = yes",
            "client = yes\nverifyChain = yes",
            "client = yes\nverifyChain = yes\nCApath = /etc/pki/other",
            "sslVersionMax = TLSv1.2\nciphers = PSK\nPSKsecrets = /a",
            "client = yes\nsslVersion = TLSv1.2\nciphers = PSK\nPSKsecrets = /a",
        ],
    ),
];

#[test]
fn who_was_refused_is_not_let_in() {
    let tls = "listen 443 ssl; ssl_certificate /a; ssl_certificate_key /a;";
    for (of, all) in REFUSALS {
        for refusing in *all {
            let text = match of {
                Predecessor::Nginx => format!(
                    "http {{ server {{ {tls} {refusing} location / {{ proxy_pass http://a; }} }} }}"
                ),
                Predecessor::Haproxy => {
                    format!("listen a\nbind :1 ssl crt /a\nserver a 10.0.0.1:2\n{refusing}\n")
                }
                _ => format!("[a]\naccept = 1\nconnect = 2\ncert = /a\n{refusing}\n"),
            };
            let report = imported(*of, &text).report();
            assert!(report.contains("none is left to be served"), "{refusing}: {report}");
            assert!(report.contains(": left out: "), "{refusing}: {report}");
        }
    }
}

/// Returns the report and the names of the services of a file of nginx.
fn nginx_of(text: &str) -> (String, Vec<String>) {
    let import = imported(Predecessor::Nginx, text);
    let table: toml::Table = import.toml().parse().expect("TOML");
    let services = table.get("service").and_then(toml::Value::as_array);
    let names = services.into_iter().flatten().map(|one| one["name"].to_string());
    (import.report(), names.collect())
}

#[test]
fn a_location_of_nginx_counts_more_than_its_server() {
    let server = |before: &str, within: &str, behind: &str| {
        format!(
            "http {{ server {{ listen 443 ssl; ssl_certificate /a; ssl_certificate_key /a; {before} \
             location / {{ {within} proxy_pass https://a; }} {behind} }} }}"
        )
    };
    let verify = "proxy_ssl_verify on; proxy_ssl_trusted_certificate /b;";
    let text = server("", verify, "proxy_ssl_verify off;");
    let table: toml::Table = imported(Predecessor::Nginx, &text).toml().parse().unwrap();
    assert_eq!(table["service"][0]["back"]["tls"]["verify"].as_str(), Some("on"));
    let text = server("allow all;", "deny 10.0.0.0/8;", "");
    let table: toml::Table = imported(Predecessor::Nginx, &text).toml().parse().unwrap();
    assert_eq!(table["service"][0]["front"]["deny"][0].as_str(), Some("10.0.0.0/8"));
}

#[test]
fn a_request_for_the_host_of_another_server_passes_no_refusal_by() {
    let server = |name: &str, rest: &str, to: &str| {
        format!(
            "server {{ listen 443 ssl; server_name {name}; ssl_certificate /a; \
             ssl_certificate_key /a; {rest} location / {{ proxy_pass {to}; }} }}\n"
        )
    };
    let all = |refusing: &str, to: &str| {
        let inner = server("a.example", refusing, "http://app")
            + &server("b.example", "", to)
            + &server("c.example", "", "http://other");
        nginx_of(&format!("http {{ upstream app {{ server 10.0.0.1:80; }} {inner} }}"))
    };
    for refusing in [
        "location /x { deny all; }",
        "allow 10.0.0.0/8; deny all;",
        "ssl_verify_client on; ssl_client_certificate /b;",
    ] {
        let (report, names) = all(refusing, "http://10.0.0.1:80/");
        assert!(!names.contains(&"\"b.example\"".to_owned()), "{report}");
        assert!(names.contains(&"\"c.example\"".to_owned()), "{report}");
        assert!(report.contains("field Host"), "{report}");
    }
    assert_eq!(all("", "http://app").1.len(), 3);
    assert_eq!(all("ssl_client_certificate /b;", "http://app").1.len(), 3);
}

#[test]
fn names_that_a_map_of_nginx_refuses_do_not_reach_its_default() {
    let map = |lines: &str| {
        nginx_of(&format!(
            "stream {{ map $ssl_preread_server_name $to {{ {lines} }} \
             server {{ listen 443; ssl_preread on; proxy_pass $to; }} }}"
        ))
    };
    for lines in ["b.example \"\"; default a:1;", "~^b c:1; a.example d:1; default a:1;"] {
        let (report, names) = map(lines);
        assert!(names.is_empty() && report.contains(": left out: "), "{report}");
    }
    assert_eq!(map("b.example \"\"; a.example a:1;").1.len(), 1);
    assert_eq!(map("a.example a:1; default b:1;").1.len(), 2);
}

#[test]
fn commands_of_openssl_bound_versions() {
    let nginx = "http { server { listen 443 ssl; ssl_certificate /a; ssl_certificate_key /a; \
                 ssl_protocols TLSv1.2 TLSv1.3; ssl_conf_command MinProtocol TLSv1.3; \
                 location / { proxy_pass http://a; } } }";
    let stunnel = "[a]\naccept = 1\nconnect = 2\ncert = /a\nconfig = minProtocol:TLSv1.3\n";
    for (of, text) in [(Predecessor::Nginx, nginx), (Predecessor::Stunnel, stunnel)] {
        let import = imported(of, text);
        let table: toml::Table = import.toml().parse().unwrap();
        let versions = table["service"][0]["front"]["tls"]["versions"].to_string();
        assert_eq!(versions, "[\"1.3\"]", "{}", import.report());
    }
}

#[test]
fn authorities_in_a_chroot_are_not_those_of_the_host() {
    let text = "[a]\nclient = yes\naccept = 1\nconnect = 2\nverifyChain = yes\n\
                CApath = /etc/ssl/certs\n";
    assert!(!imported(Predecessor::Stunnel, text).is_partial());
    let report = imported(Predecessor::Stunnel, &format!("chroot = /var/lib/x\n{text}")).report();
    assert!(report.contains(": left out: "), "{report}");
}

#[test]
fn an_include_that_cannot_be_read_is_an_error() {
    for pattern in ["d/[a-c]*.conf", "*/a.conf"] {
        let text = format!("http {{ include {pattern}; }}");
        let import = imported(Predecessor::Nginx, &text);
        assert!(import.is_faulty() && import.report().contains("include: error"), "{pattern}");
    }
}

#[test]
fn a_peer_is_not_all_that_its_authority_issued() {
    let root = Authority::root("root");
    let peer = root.leaf(&["peer.example"]).issue().certificate_pem().to_owned();
    let authority = root.pem().to_owned();
    let both = authority.clone() + &peer;
    let text = "[a]\naccept = 1\nconnect = 2\ncert = /a\nverifyPeer = yes\nCAfile = /peers\n";
    for (peers, is_left_out) in [(authority, false), (peer, false), (both, true)] {
        let import = imported_with(Predecessor::Stunnel, text, &[("/peers", &peers)]);
        assert_eq!(import.report().contains(": left out: "), is_left_out, "{}", import.report());
    }
}
