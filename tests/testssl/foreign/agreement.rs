//! Answers of `testssl.sh` agree with those of a probe where both see the same: versions, suites,
//! order, certificate, chain, staple, ALPN and resumption.

use std::collections::{BTreeMap, BTreeSet};

use suite::haproxy::Haproxy;
use suite::hitch::Hitch;
use suite::nginx::Nginx;
use suite::patience::within;
use suite::prelude::*;
use suite::stunnel::Stunnel;

/// Ample time: the program takes one minute of an idle host.
const MINUTES: Duration = Duration::from_secs(600);

/// Findings of `testssl.sh`, by their names.
type Findings = BTreeMap<String, String>;

fn testssl(site: &Site, address: SocketAddr) -> Findings {
    let file = site.path("testssl.json");
    let _none_before = fs::remove_file(&file);
    let mut command = Command::new("testssl");
    command.args(["--quiet", "--color", "0", "--warnings", "off", "--ip", "127.0.0.1"]);
    // Protocols, order, certificate and session, each suite of each version; renegotiation,
    // compression and fallback.
    command.args(["-p", "-P", "-S", "-E", "-R", "-C", "-Z", "--jsonfile"]).arg(&file);
    command.arg("--add-ca").arg(site.ca());
    command.arg(format!("localhost:{}", address.port()));
    let mut running = Running::start(&mut command);
    // The exit code counts the program's findings.
    let ended = within(MINUTES, || running.ended());
    let text = fs::read_to_string(&file).unwrap_or_default();
    assert!(ended.is_some() && !text.is_empty(), "{}", running.stdout());
    let all: Vec<Value> = serde_json::from_str(&text).unwrap();
    let pair = |one: &Value| {
        let field = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
        (field("id"), field("finding"))
    };
    all.iter().map(pair).collect()
}

fn probe(site: &Site, address: SocketAddr) -> Value {
    let mut command = lab::command();
    command.args(["probe", "localhost", "--json", "--connect"]);
    let said = run(command.arg(address.to_string()).arg("--ca").arg(site.ca())).success();
    serde_json::from_str::<Value>(&said).unwrap()["nodes"][0].clone()
}

const VERSIONS: [(&str, &str, &str); 4] = [
    ("TLSv1.3", "TLS1_3", "cipher-tls1_3_"),
    ("TLSv1.2", "TLS1_2", "cipher-tls1_2_"),
    ("TLSv1.1", "TLS1_1", "cipher-tls1_1_"),
    ("TLSv1.0", "TLS1", "cipher-tls1_x"),
];

/// Compares both results, a line each, so that a difference is a difference of lists.
fn compare(site: &Site, address: SocketAddr) {
    let (node, theirs) = (probe(site, address), testssl(site, address));
    let found = |id: &str| theirs.get(id).map_or("", String::as_str);
    for (number, (name, id, prefix)) in VERSIONS.into_iter().enumerate() {
        let version = &node["versions"][number];
        assert_eq!(version["name"], name);
        let is_offered = found(id).starts_with("offered");
        assert_eq!(version["spoken"], is_offered, "{name}: {theirs:#?}");
        let suites = version["suites"].as_array().unwrap().iter();
        let ours: BTreeSet<&str> = suites.map(|one| one.as_str().unwrap()).collect();
        let lines = theirs.iter().filter(|(id, _)| id.starts_with(prefix));
        let listed = lines.filter_map(|(_, line)| line.split_whitespace().last());
        assert_eq!(ours, listed.collect(), "{name}");
    }
    let order = &node["versions"][1]["order"];
    if order.is_string() {
        let is_clients = found("cipher_order").starts_with("NOT ");
        assert_eq!(order == "client", is_clients, "{theirs:#?}");
    }
    of_old_versions(&node, &theirs);
    let certificate = &node["clients"][0]["certificate"];
    let text = |key: &str| certificate[key].as_str().unwrap_or_default().to_owned();
    let digest = found("cert_fingerprintSHA256").to_lowercase();
    assert_eq!(text("fingerprint"), digest);
    let key = text("key").replace("ECDSA P-", "EC ");
    assert!(found("cert_keySize").starts_with(&key), "{key}: {theirs:#?}");
    let signature = found("cert_signatureAlgorithm").replace("SHA", "SHA-");
    assert_eq!(text("signature"), signature);
    // Expiry is another finding of ours.
    let chain = found("cert_chain_of_trust");
    let is_trusted = chain.starts_with("passed") || chain == "failed (expired).";
    assert_eq!(text("chain_state") == "trusted", is_trusted, "{theirs:#?}");
    let is_disordered = found("certs_list_ordering_problem") == "yes";
    assert_eq!(certificate["chain_ordered"], !is_disordered, "{theirs:#?}");
    let is_named = found("cert_trust").starts_with("Ok");
    assert_eq!(certificate["name_matches"], is_named, "{theirs:#?}");
    let has_expired = found("cert_expirationStatus").starts_with("expired");
    let is_over = certificate["not_after_s"].as_u64().unwrap() < now_seconds();
    assert_eq!(is_over, has_expired, "{theirs:#?}");
    let is_stapled = found("OCSP_stapling").starts_with("offered");
    assert_eq!(certificate["staple"].is_object(), is_stapled, "{theirs:#?}");
    resumption(&node, &theirs);
}

fn of_old_versions(node: &Value, theirs: &Findings) {
    let found = |id: &str| theirs.get(id).map_or("", String::as_str);
    let tls12 = &node["versions"][1];
    assert_eq!(tls12["spoken"], true);
    let is_secure = found("secure_renego") == "supported";
    assert_eq!(tls12["secure_renegotiation"], is_secure, "{theirs:#?}");
    let is_compressed = !found("CRIME_TLS").starts_with("not vulnerable");
    assert_eq!(tls12["compression"], is_compressed, "{theirs:#?}");
    // The program asks only where a version before TLS 1.2 is spoken.
    if node["versions"][2]["spoken"] == true {
        let is_refused = found("fallback_SCSV") == "supported";
        assert_eq!(node["fallback_refused"], is_refused, "{theirs:#?}");
    }
}

/// Compares resumption of TLS 1.2, once by each kind, if no newer version is spoken: in TLS 1.3 the
/// program often ends before the tickets come, and reports a connection problem.
fn resumption(node: &Value, theirs: &Findings) {
    if node["versions"][0]["spoken"] == true {
        return;
    }
    let tickets = node["tickets"].as_array().unwrap();
    for (kind, id) in
        [("session-id", "sessionresumption_ID"), ("ticket", "sessionresumption_ticket")]
    {
        let ours = tickets.iter().find(|one| one["kind"] == kind);
        // `null` where none was resumed.
        let is_resumed = ours.is_some_and(|one| one["single_use"].is_boolean());
        let is_supported = theirs.get(id).is_some_and(|said| said == "supported");
        assert_eq!(is_resumed, is_supported, "{kind}: {theirs:#?}");
    }
    let hint = theirs.get("TLS_session_ticket").map_or("", String::as_str);
    let seconds = hint.split_whitespace().find_map(|word| word.parse::<u64>().ok());
    let ticket = tickets.iter().find(|one| one["kind"] == "ticket");
    let lifetime = ticket.and_then(|one| one["lifetime_s"].as_u64());
    assert_eq!(lifetime, seconds, "{hint}");
}

#[test]
fn nginx_with_all_that_openssl_has() {
    let site = Site::new();
    let directives = "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers ALL:@SECLEVEL=0;
        ssl_session_cache shared:S:1m;";
    compare(&site, Nginx::terminate(&site.path("site.pem"), directives).address);
}

#[test]
fn nginx_without_tickets_and_with_a_mixed_chain() {
    let site = Site::new();
    let above = site.authority.intermediate("upper");
    let below = above.intermediate("lower");
    let leaf = below.leaf(&["localhost"]).key(Key::Rsa2048).issue();
    let mixed = [leaf.certificate_pem(), above.pem(), below.pem(), leaf.key_pem()];
    let file = site.write("mixed.pem", mixed.concat());
    let directives = "ssl_protocols TLSv1.2; ssl_prefer_server_ciphers on;
        ssl_session_tickets off; ssl_session_cache off;";
    compare(&site, Nginx::terminate(&file, directives).address);
}

#[test]
fn haproxy_with_an_expired_certificate() {
    let site = Site::new();
    let leaf = site.authority.leaf(&["localhost"]).expired().issue();
    let file = leaf.write(&site.directory, "expired.pem");
    let bind = "ssl-max-ver TLSv1.2 no-tls-tickets alpn h2,http/1.1";
    compare(&site, Haproxy::terminate(&file, bind).address);
}

#[test]
fn hitch_with_a_staple() {
    let site = Site::new();
    let issuer = site.authority.intermediate("stapler");
    let leaf = issuer.leaf(&["localhost"]).issue();
    let file = leaf.write(&site.directory, "stapled.pem");
    site.write("stapled.ocsp", issuer.ocsp_response(&leaf));
    let behind = Nginx::start("", "ok");
    let settings = "tls-protos = TLSv1.2 TLSv1.3\nprefer-server-ciphers = on";
    compare(&site, Hitch::start_with(&file, behind.address, settings).address);
}

#[test]
fn stunnel_without_resumption() {
    let site = Site::new();
    let server = Nginx::start("", "ok");
    let behind = server.address.to_string();
    let lines = "sslVersionMax = TLSv1.2\noptions = NO_TICKET\nsessionResume = no";
    compare(&site, Stunnel::terminate(&site.path("site.pem"), &behind, lines).address);
}

#[test]
fn lariat_for_another_name() {
    let site = Site::new();
    let behind = Nginx::start("", "ok");
    let file = site.leaf(&["other.example"]).write(&site.directory, "other.pem");
    let servers = format!("[{:?}]", behind.address.to_string());
    let service = Service::new(&site, Server::start(Behaviour::Hang)).servers(&servers);
    let service = service.certificates(&format!("[{file:?}]")).tls("versions = ['1.2']");
    let _lariat = service.start();
    compare(&site, service.address);
}
