//! Programs in configurations that are right, or wrong in one known point: every point is found,
//! and nothing else is complained of. A row is a configuration with the facts that must be found.

use std::any::Any;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use suite::haproxy::Haproxy;
use suite::hitch::Hitch;
use suite::lab;
use suite::nginx::Nginx;
use suite::prelude::*;
use suite::stunnel::Stunnel;

/// Certificates by the names of their files, and a server behind.
struct Place {
    site: Site,
    server: Server,
}

impl Place {
    fn new() -> Self {
        let site = Site::new();
        let above = site.authority.intermediate("upper");
        let below = above.intermediate("lower");
        let names = &["localhost"];
        let good = below.leaf(names).issue();
        good.write(&site.directory, "good.pem");
        let rsa = below.leaf(names).key(Key::Rsa2048).issue();
        rsa.write(&site.directory, "rsa.pem");
        let alone = format!("{}{}", good.certificate_pem(), good.key_pem());
        fs::write(site.path("alone.pem"), alone).unwrap();
        let mixed = [
            good.certificate_pem(),
            above.pem(),
            below.pem(),
            good.key_pem(),
        ];
        fs::write(site.path("mixed.pem"), mixed.concat()).unwrap();
        let rooted = [&good.chain_pem(), site.authority.pem(), good.key_pem()];
        fs::write(site.path("rooted.pem"), rooted.concat()).unwrap();
        let other = below.leaf(&["other.example"]).issue();
        other.write(&site.directory, "other.pem");
        below
            .leaf(names)
            .expired()
            .issue()
            .write(&site.directory, "expired.pem");
        let stranger = Authority::root("stranger");
        let strange = [&stranger.leaf(names).issue().pem(), stranger.pem()].concat();
        fs::write(site.path("strange.pem"), strange).unwrap();
        let stapled = site.authority.leaf(names).must_staple().issue();
        stapled.write(&site.directory, "must-staple.pem");
        fs::write(site.path("ok.ocsp"), site.authority.ocsp_response(&stapled)).unwrap();
        let revoked = site.authority.ocsp_response_revoked(&stapled);
        fs::write(site.path("revoked.ocsp"), revoked).unwrap();
        let old = site
            .authority
            .ocsp_response_until(&stapled, now_seconds() - 60);
        fs::write(site.path("old.ocsp"), old).unwrap();
        for (name, byte) in [("1.key", 1), ("2.key", 2)] {
            fs::write(site.path(name), [byte; 80]).unwrap();
        }
        let server = Server::start(Behaviour::Http("ok".into()));
        Self { site, server }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.site.path(name)
    }

    /// Probes these addresses as localhost; all facts must be as this says.
    fn assert(&self, name: &str, addresses: &[SocketAddr], facts: &str) {
        let file = self.path("expect.toml");
        fs::write(&file, facts).unwrap();
        let mut command = lab::command();
        command.args(["probe", "localhost", "--attempts", "24", "--expect"]);
        command.arg(&file).arg("--ca").arg(self.site.ca());
        for address in addresses {
            command.args(["--connect", &address.to_string()]);
        }
        let finished = run(&mut command);
        assert_eq!(finished.code(), 0, "{name}: {finished:?}");
    }
}

const ALL: &str = "resumption = { session-id = 'always', ticket = 'always', psk = 'always' }\n";

/// The settings of a server that is right in all points; OpenSSL 3.0 has no post-quantum group.
const NGINX: &str = "ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers on;
    ssl_session_cache shared:SSL:1m;";
const NGINX_CIPHERS: &str = "ssl_ciphers ECDHE+AESGCM:ECDHE+CHACHA20;";

const RIGHT: &str = "faults = []\nadvice = ['no-post-quantum']\n";

fn faults(points: &str) -> String {
    format!("faults = {points}\nadvice = ['no-post-quantum']\n")
}

fn advice(points: &str) -> String {
    let more = points.trim_matches(['[', ']']);
    format!("faults = []\nadvice = ['no-post-quantum', {more}]\n")
}

/// Name, certificate, further directives, and facts beside those.
type Row = (&'static str, &'static str, &'static str, String);

/// What is offered and resumed.
fn handshake_rows() -> Vec<Row> {
    let right = |facts: &str| format!("{RIGHT}{facts}");
    vec![
        (
            "right",
            "good.pem",
            NGINX_CIPHERS,
            right(
                "versions = ['TLSv1.3', 'TLSv1.2']
                 modern = { version = 'TLSv1.3', group = 'x25519', key = 'ECDSA P-256' }
                 rsa-only.refused = { not = [] }
                 tls12 = { order = 'server', suite = 'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384' }
                 certificate = { trusted = true, name-matches = true, staple = 'none' }
                 resumption = { session-id = 'always', ticket = 'always', psk = 'always',
                               psk-single-use = false, psk-early-data = false }
                 round-trips = { full-tls13 = 1, full-tls12 = 2, ticket = 1,
                                session-id = 1, psk = 1 }
                 end = 'close-notify'",
            ),
        ),
        (
            "two keys",
            "good.pem",
            "ssl_certificate RSA; ssl_certificate_key RSA; ssl_ciphers ECDHE+AESGCM;",
            right("rsa-only.key = 'RSA 2048'\necdsa-only.key = 'ECDSA P-256'"),
        ),
        (
            "tickets off",
            "good.pem",
            "ssl_session_tickets off; ssl_ciphers ECDHE+AESGCM;",
            right("resumption = { session-id = 'always', ticket = 'never', psk = 'always' }"),
        ),
        (
            "TLS 1.2 alone",
            "good.pem",
            "ssl_protocols TLSv1.2; ssl_ciphers ECDHE+AESGCM;",
            "faults = []\nadvice = ['no-tls13']\nversions = ['TLSv1.2']".to_owned(),
        ),
        (
            "RSA key exchange",
            "rsa.pem",
            "ssl_ciphers ECDHE+AESGCM:AES128-GCM-SHA256;",
            advice("['no-forward-secrecy']"),
        ),
        (
            "NULL",
            "rsa.pem",
            "ssl_ciphers ECDHE+AESGCM:NULL-SHA256:@SECLEVEL=0;",
            advice("['no-forward-secrecy']").replace("[]", "['broken-suites']"),
        ),
        (
            "client order",
            "good.pem",
            "ssl_prefer_server_ciphers off; ssl_ciphers ECDHE+AESGCM;",
            advice("['client-order']") + "tls12.order = 'client'",
        ),
        (
            "TLS 1.1",
            "good.pem",
            "ssl_protocols TLSv1 TLSv1.1 TLSv1.2 TLSv1.3; ssl_ciphers ECDHE:@SECLEVEL=0;",
            "faults = ['old-versions']\nadvice = { has = ['no-post-quantum'] }\n".to_owned()
                + "versions = ['TLSv1.0', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3']",
        ),
        (
            "early data",
            "good.pem",
            "ssl_early_data on; ssl_ciphers ECDHE+AESGCM;",
            // OpenSSL makes its tickets single ones then.
            advice("['early-data']") + "resumption.psk-early-data = true",
        ),
    ]
}

/// What is shown.
fn certificate_rows() -> Vec<Row> {
    let right = |facts: &str| format!("{RIGHT}{facts}");
    vec![
        (
            "missing chain",
            "alone.pem",
            NGINX_CIPHERS,
            faults("['chain-incomplete']"),
        ),
        (
            "mixed chain",
            "mixed.pem",
            NGINX_CIPHERS,
            advice("['chain-disordered']"),
        ),
        (
            "root sent",
            "rooted.pem",
            NGINX_CIPHERS,
            advice("['chain-with-root']"),
        ),
        ("strange root", "strange.pem", NGINX_CIPHERS, {
            faults("['certificate-untrusted']").replace("['no-p", "['chain-with-root', 'no-p")
        }),
        (
            "wrong name",
            "other.pem",
            NGINX_CIPHERS,
            faults("['certificate-name']"),
        ),
        (
            "expired",
            "expired.pem",
            NGINX_CIPHERS,
            faults("['certificate-expired']") + "certificate.days-left = 0",
        ),
        (
            "no staple",
            "must-staple.pem",
            NGINX_CIPHERS,
            faults("['staple-missing']"),
        ),
        (
            "staple",
            "must-staple.pem",
            "ssl_stapling on; ssl_stapling_file GOOD; ssl_ciphers ECDHE+AESGCM;",
            right("certificate.staple = 'good'\ncertificate.staple-age-hours = 0"),
        ),
        (
            "revoked",
            "must-staple.pem",
            "ssl_stapling on; ssl_stapling_file REVOKED; ssl_ciphers ECDHE+AESGCM;",
            faults("['staple-revoked']"),
        ),
        (
            "client certificate",
            "good.pem",
            "ssl_verify_client optional_no_ca; ssl_ciphers ECDHE+AESGCM;",
            right("client-certificate = 'asked'\nresumption.skips-client-certificate = true"),
        ),
        (
            "old staple",
            "must-staple.pem",
            "ssl_stapling on; ssl_stapling_file OLD; ssl_ciphers ECDHE+AESGCM;",
            faults("['staple-expired']"),
        ),
    ]
}

#[test]
fn nginx_is_seen_through() {
    let place = Place::new();
    for (name, certificate, directives, facts) in [handshake_rows(), certificate_rows()].concat() {
        let shown = |file: &str| format!("{:?}", place.path(file));
        let mut directives = directives.to_owned();
        for (word, file) in [
            ("RSA", "rsa.pem"),
            ("GOOD", "ok.ocsp"),
            ("REVOKED", "revoked.ocsp"),
            ("OLD", "old.ocsp"),
        ] {
            directives = directives.replace(&format!(" {word};"), &format!(" {};", shown(file)));
        }
        let mut all = NGINX.to_owned();
        for directive in ["ssl_protocols", "ssl_prefer_server_ciphers"] {
            if directives.contains(directive) {
                // The one of the row stands in its place.
                let (before, rest) = all.split_once(directive).unwrap();
                all = format!("{before}{}", rest.split_once(';').unwrap().1);
            }
        }
        let nginx = Nginx::terminate(&place.path(certificate), &format!("{all}{directives}"));
        place.assert(name, &[nginx.address], &facts);
    }
}

#[test]
fn nodes_that_do_not_share_are_seen() {
    let place = Place::new();
    let key = |file: &str| format!("ssl_session_ticket_key {:?};", place.path(file));
    let protocols = "ssl_protocols TLSv1.2 TLSv1.3; ssl_prefer_server_ciphers on;";
    let start = |address, listen: &str, more: &str| {
        let directives = format!("{protocols} {NGINX_CIPHERS} {more}");
        Nginx::terminate_at(address, &place.path("good.pem"), listen, &directives)
    };
    let cached = "ssl_session_cache shared:SSL:1m;";
    for (name, tickets, facts) in [
        (
            "keys of their own",
            ["1.key", "2.key"],
            "faults = ['not-shared', 'not-shared', 'not-shared']
             resumption = { session-id = 'same-address', ticket = 'same-address',
                            psk = 'same-address' }",
        ),
        (
            "the same keys",
            ["1.key", "1.key"],
            "faults = ['not-shared']
             resumption = { session-id = 'same-address', ticket = 'always', psk = 'always' }",
        ),
    ] {
        let nodes = tickets.map(|file| start(free_address(), "", &(key(file) + cached)));
        let addresses: Vec<_> = nodes.iter().map(|one| one.address).collect();
        place.assert(name, &addresses, facts);
    }
    // Two instances behind one address, as the kernel divides connections: caches of their own.
    let address = free_address();
    let _both = ["1.key", "1.key"].map(|file| start(address, "reuseport", &(key(file) + cached)));
    let facts = "faults = ['resumed-by-chance']
        resumption = { session-id = 'sometimes', ticket = 'always', psk = 'always' }";
    place.assert("a cache per worker", &[address], facts);
}

#[test]
fn other_programs_are_seen_through() {
    let place = Place::new();
    let certificate = place.path("good.pem");
    let behind = place.server.address();
    let haproxy = |bind: &str| {
        let ciphers = "ssl-min-ver TLSv1.2 ciphers ECDHE+AESGCM alpn h2,http/1.1";
        let started = Haproxy::terminate(&certificate, &format!("{ciphers} {bind}"));
        (started.address, Box::new(started) as Box<dyn Any>)
    };
    let hitch = |settings: &str| {
        let good = "tls-protos = TLSv1.2 TLSv1.3\nciphers = \"ECDHE+AESGCM\"\n";
        let settings = format!("{good}{settings}");
        let started = Hitch::start_with(&certificate, behind.parse().unwrap(), &settings);
        (started.address, Box::new(started) as Box<dyn Any>)
    };
    let stunnel = |options: &str| {
        let good = "sslVersionMin = TLSv1.2\nciphers = ECDHE+AESGCM\n";
        let started = Stunnel::terminate(&certificate, behind, &format!("{good}{options}"));
        (started.address, Box::new(started) as Box<dyn Any>)
    };
    for (name, (address, _program), facts) in [
        (
            "haproxy",
            haproxy(""),
            format!("{RIGHT}{ALL}modern.alpn = 'h2'"),
        ),
        (
            "haproxy without tickets",
            haproxy("no-tls-tickets"),
            format!("{RIGHT}resumption = {{ session-id = 'always', ticket = 'never' }}"),
        ),
        (
            "haproxy with the client's order",
            haproxy("prefer-client-ciphers"),
            advice("['client-order']"),
        ),
        (
            "hitch",
            hitch("prefer-server-ciphers = on"),
            RIGHT.to_owned(),
        ),
        ("hitch by the client", hitch(""), advice("['client-order']")),
        (
            "stunnel",
            stunnel("options = CIPHER_SERVER_PREFERENCE"),
            format!("{RIGHT}{ALL}"),
        ),
        (
            "stunnel without resumption",
            stunnel("options = CIPHER_SERVER_PREFERENCE\noptions = NO_TICKET\nsessionResume = no"),
            advice("['no-resumption', 'no-resumption']"),
        ),
    ] {
        place.assert(name, &[address], &facts);
    }
}

#[test]
fn lariat_is_seen_through() {
    let place = Place::new();
    let certificate = place.path("good.pem");
    let lariat = |front: &str, rest: &str| {
        let service = Service::new(&place.site, &place.server);
        let service = service
            .certificates(&format!("[{certificate:?}]"))
            .tls(front);
        let started = Lariat::start(&format!("{rest}{}", service.toml()));
        (service.address, started)
    };
    for (name, (address, _lariat), facts) in [
        (
            "lariat",
            lariat("", ""),
            format!("faults = []\nadvice = []\n{ALL}post-quantum.group = 'X25519MLKEM768'"),
        ),
        (
            "lariat without resumption",
            lariat("resumption = false", ""),
            "faults = []\nadvice = ['no-resumption', 'no-resumption']".to_owned(),
        ),
        (
            "lariat with single tickets",
            lariat("", "[resumption]\ntls13 = 'cache'\n"),
            "faults = []\nadvice = []\nresumption.psk-single-use = true".to_owned(),
        ),
        (
            "lariat for known clients",
            lariat(
                &format!(
                    "client-certificates = {{ mode = 'required', ca = [{:?}] }}",
                    place.site.ca()
                ),
                "",
            ),
            "faults = []\nclient-certificate = 'required'".to_owned(),
        ),
    ] {
        place.assert(name, &[address], &facts);
    }
}
