//! Answers of `openssl s_client` and `sslscan` agree with those of a probe where both see the same.

use std::collections::BTreeSet;

use suite::nginx::Nginx;
use suite::prelude::*;

fn probe(site: &Site, address: SocketAddr) -> Value {
    let mut command = lab::command();
    command.args(["probe", "localhost", "--json", "--connect", &address.to_string()]);
    let said = run(command.arg("--ca").arg(site.ca())).success();
    serde_json::from_str::<Value>(&said).unwrap()["nodes"][0].clone()
}

fn texts(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Starts servers that differ in what they accept.
fn servers(site: &Site) -> Vec<Nginx> {
    let rsa = site.authority.leaf(&["localhost"]).key(Key::Rsa2048).issue();
    rsa.write(&site.directory, "rsa.pem");
    [
        ("site.pem", "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:S:1m;"),
        ("rsa.pem", "ssl_protocols TLSv1.2; ssl_session_tickets off; ssl_session_cache off;"),
        (
            "rsa.pem",
            "ssl_protocols TLSv1 TLSv1.1 TLSv1.2; ssl_ciphers ALL:@SECLEVEL=0;
             ssl_prefer_server_ciphers on; ssl_session_cache off;",
        ),
    ]
    .map(|(certificate, directives)| Nginx::terminate(&site.path(certificate), directives))
    .into()
}

const VERSIONS: [(&str, &str); 4] =
    [("TLSv1.3", "-tls1_3"), ("TLSv1.2", "-tls1_2"), ("TLSv1.1", "-tls1_1"), ("TLSv1.0", "-tls1")];

#[test]
fn openssl_agrees() {
    let site = Site::new();
    for server in servers(&site) {
        let node = probe(&site, server.address);
        for (number, (name, flag)) in VERSIONS.into_iter().enumerate() {
            let found = &node["versions"][number];
            assert_eq!(found["name"], name);
            let mut said = s_client(&site, server.address, &[flag, "-cipher", "ALL:@SECLEVEL=0"]);
            said.stdout.push_str(&said.stderr);
            let is_spoken = !said.stdout.contains("Cipher is (NONE)");
            assert_eq!(found["spoken"], is_spoken, "{name}: {said:?}");
            if is_spoken && name != "TLSv1.3" {
                let is_secure = said.stdout.contains("Secure Renegotiation IS supported");
                assert_eq!(found["secure_renegotiation"], is_secure, "{name}: {said:?}");
                let is_compressed = !said.stdout.contains("Compression: NONE");
                assert_eq!(found["compression"], is_compressed, "{name}: {said:?}");
            }
        }
        let counts = |said: &str| {
            let count = |word: &str| said.lines().filter(|line| line.starts_with(word)).count();
            (count("New, "), count("Reused, "))
        };
        let resumed = |kind: &str| {
            let found = node["tickets"].as_array().unwrap().iter();
            let mut found = found.filter(|one| one["kind"] == kind);
            found.any(|one| one["single_use"] == false)
        };
        // Five connections after the first.
        for (kind, flags) in [
            ("session-id", &["-tls1_2", "-no_ticket", "-reconnect"][..]),
            ("ticket", &["-tls1_2", "-reconnect"]),
        ] {
            let (_, reused) = counts(&s_client(&site, server.address, flags).stdout);
            assert_eq!(reused > 0, resumed(kind), "{kind}: {node}");
        }
    }
}

/// Returns the registered names of suites by OpenSSL's names for them.
fn standard_names() -> Vec<(String, String)> {
    let mut openssl = Command::new("openssl");
    let listed =
        run(openssl.args(["ciphers", "-stdname", "-s", "ALL:COMPLEMENTOFALL:@SECLEVEL=0"]));
    let listed = listed.success();
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        let (standard, dash) = (words.next()?, words.next()?);
        let ours = words.next().filter(|_| dash == "-")?;
        Some((ours.to_owned(), standard.to_owned()))
    };
    listed.lines().filter_map(pair).collect()
}

#[test]
fn sslscan_agrees() {
    let (site, names) = (Site::new(), standard_names());
    for server in servers(&site) {
        let node = probe(&site, server.address);
        let mut sslscan = Command::new("sslscan");
        sslscan.args(["--no-colour", "--no-heartbleed", "--sni-name=localhost"]);
        let said = run(sslscan.arg(server.address.to_string())).success();
        // For a single version it reports the same.
        if let Some(is_refused) = node["fallback_refused"].as_bool() {
            let is_supported = said.contains("Server supports TLS Fallback SCSV");
            assert_eq!(is_refused, is_supported, "{said}");
        }
        for version in node["versions"].as_array().unwrap() {
            let name = version["name"].as_str().unwrap();
            let enabled = said.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some(name) && words.next() == Some("enabled")
            });
            assert_eq!(version["spoken"], enabled, "{name}: {said}");
            let accepted: BTreeSet<String> = said
                .lines()
                .filter(|line| line.starts_with("Accepted") || line.starts_with("Preferred"))
                .filter(|line| line.split_whitespace().nth(1) == Some(name))
                .filter_map(|line| {
                    let ours = line.split_whitespace().nth(4)?;
                    let known = names.iter().find(|(one, _)| one == ours);
                    Some(known.map_or(ours, |(_, standard)| standard).to_owned())
                })
                .collect();
            let found = texts(&version["suites"]);
            let missing: Vec<_> = found.difference(&accepted).collect();
            assert!(missing.is_empty(), "{name}: {missing:?}: {said}");
            let more: Vec<_> = accepted.difference(&found).collect();
            assert!(more.is_empty(), "{name}: {more:?}: {node}");
        }
    }
}
