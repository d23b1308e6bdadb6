//! Every option of each program's manual is mapped or reported, and no input does harm.

mod memory;
mod refusals;

use std::path::PathBuf;

use import::{Import, ImportOutcome, Predecessor, import};

use memory::{FILE, Memory, NO_KEYS, imported, imported_with};

fn options(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The outcome is TOML, and the option in that place has a finding of its own.
fn judge(import: &Import, option: &str, place: &str) {
    let report = import.report();
    let of_option = import.findings().iter().filter(|one| {
        let name = one.option.split(' ').next().unwrap_or_default();
        name == option && one.place.to_string() == place
    });
    let fates: Vec<_> = of_option.map(|one| &one.outcome).collect();
    assert!(!fates.is_empty(), "{option} is dropped:\n{report}");
    for outcome in fates {
        let (ImportOutcome::Mapped(words) | ImportOutcome::Unmapped { why: words, .. }) = outcome
        else {
            continue;
        };
        assert!(!words.contains("another option is used"), "{option}: {words}");
        assert!(!words.contains("no such option"), "{option}: {words}");
    }
    let toml = import.toml();
    assert!(toml.parse::<toml::Table>().is_ok(), "{option}: {toml}");
}

/// Whether all could be read, although the one service may be left out.
fn is_read(import: &Import) -> bool {
    let report = import.report();
    !import.is_faulty() || report.contains(": left out: ") && report.contains("1 error")
}

#[test]
fn every_option_of_hitch() {
    for line in options(include_str!("hitch.txt")) {
        let option = line.split(' ').next().unwrap();
        let base =
            "frontend = \"[*]:8443\"\npem-file = \"/etc/site.pem\"\npem-dir = \"/etc/certs\"";
        let text = format!("{base}\n{line}\n");
        let import = imported(Predecessor::Hitch, &text);
        assert!(!import.is_faulty(), "{line}: {}", import.report());
        judge(&import, option, &format!("{FILE}:4"));
        judge(&imported(Predecessor::Stud, &text), option, &format!("{FILE}:4"));
    }
}

#[test]
fn every_flag_of_hitch() {
    for line in options(include_str!("hitch-flags.txt")) {
        let words = line.split(' ').chain(["/etc/site.pem"]).map(PathBuf::from);
        let words: Vec<_> = words.collect();
        let import = import(Predecessor::Stud, &words, &mut Memory::default(), &NO_KEYS);
        assert!(!import.is_faulty(), "{line}: {}", import.report());
        let flag = line.split([' ', '=']).next().unwrap();
        judge(&import, flag, "command line");
    }
}

#[test]
fn every_option_of_stunnel() {
    let server = "accept = 443\nconnect = 80\ncert = /etc/site.pem\nCAfile = /etc/ca.pem\n";
    let client = "client = yes\naccept = 443\nconnect = 80\ncert = /etc/site.pem\n";
    for line in options(include_str!("stunnel.txt")) {
        let option = line.split(' ').next().unwrap();
        let sni = if option == "sni" { "sni = first:example.org" } else { line };
        let first = format!("[first]\n{server}");
        for (text, place) in [
            (format!("{line}\n{first}"), 1),
            (format!("{first}[second]\n{server}{sni}\n"), 11),
            (format!("{first}[second]\n{client}{line}\n"), 11),
        ] {
            let import = imported(Predecessor::Stunnel, &text);
            if import.is_faulty() && option == "sni" {
                continue;
            }
            assert!(is_read(&import), "{line}: {}", import.report());
            let is_default =
                place == 1 && ["CAfile", "accept", "cert", "client", "key"].contains(&option);
            if !is_default {
                judge(&import, option, &format!("{FILE}:{place}"));
            }
        }
    }
}

/// A file of HAProxy with one more keyword, which a line of the list names, and the number of its
/// line.
fn haproxy_with(line: &str) -> (String, usize) {
    let (scope, rest) = line.split_once(' ').unwrap_or((line, ""));
    let of = |one: &str| if scope == one { rest } else { "" };
    let (bind, server) = (of("bind"), of("server"));
    // Some arguments are of use with others alone.
    let client = if bind.contains("ca-") || bind.contains("crl") { "verify required" } else { "" };
    let ca = if client.is_empty() || bind.contains("ca-file") { "" } else { "ca-file /etc/ca.pem" };
    let usesrc = if server.starts_with("usesrc") { "source 0.0.0.0" } else { "" };
    let text = format!(
        "global\n{}\nlisten main\n{}\nbind 127.0.0.1:8443 ssl crt /etc/site.pem {client} {ca} {bind}\n\
         server a 127.0.0.1:80 ssl verify none check {usesrc} {server}\n\
         backend spare\nserver a 127.0.0.1:82\n",
        of("global"),
        of("listen"),
    );
    let number = ["global", "", "listen", "bind", "server"].iter().position(|one| *one == scope);
    (text, number.map_or(0, |number| number + 2))
}

#[test]
fn every_keyword_of_haproxy() {
    for line in options(include_str!("haproxy.txt")) {
        let (text, number) = haproxy_with(line);
        let list = [("/etc/list.txt", "/etc/site.pem [alpn h2] a.example\n")];
        let import = imported_with(Predecessor::Haproxy, &text, &list);
        let is_off = line.ends_with(" disabled");
        assert!(is_off || is_read(&import), "{line}: {}", import.report());
        let option = line.split(' ').nth(1).unwrap();
        judge(&import, option, &format!("{FILE}:{number}"));
    }
}

/// A file of nginx with a directive in one of its blocks, and the directive's place.
fn file_of_nginx(block: &str, directive: &str) -> (String, String) {
    let tls = "listen 443 ssl; ssl_certificate /etc/site.pem; ssl_certificate_key /etc/site.pem;";
    let at = |name: &str| if name == block { directive } else { "" };
    let text = format!(
        "{}\nevents {{\n{}\n}}\nstream {{ upstream app {{ server 127.0.0.1:80;\n{}\n}}\n\
         server {{ {tls} proxy_pass app;\n{}\n}}\n{}\n}}\n\
         http {{ upstream web {{ server 127.0.0.1:80;\n{}\n}}\n\
         server {{ {} location / {{ proxy_pass http://web;\n{}\n}}\n{}\n}}\n{}\n}}\n",
        at("main"),
        at("events"),
        at("stream.upstream"),
        at("stream.server"),
        at("stream"),
        at("http.upstream"),
        tls.replace("443", "8443"),
        at("http.location"),
        at("http.server"),
        at("http"),
    );
    let line = (1..).zip(text.lines()).find(|(_, line)| *line == directive);
    let place = format!("{FILE}:{}", line.map_or(0, |(number, _)| number));
    (text, place)
}

#[test]
fn every_directive_of_nginx() {
    for line in options(include_str!("nginx.txt")) {
        let (block, directive) = line.split_once(' ').unwrap();
        let (text, place) = file_of_nginx(block, directive);
        let import = imported(Predecessor::Nginx, &text);
        assert!(!import.is_faulty(), "{line}: {}", import.report());
        let option = directive.split([' ', ';']).next().unwrap();
        judge(&import, option, &place);
    }
}

/// Files of which each part that was cut off is read.
const SAMPLES: &[(Predecessor, &str)] = &[
    (
        Predecessor::Hitch,
        "frontend = {\n host = \"::1\"\n port = \"443\"\n pem-file = { cert = \"a\" } }\n\
         backend = \"[é]:80\" # x\nciphers = \"!A+B:-C:@D\"\nwrite-proxy = on\n",
    ),
    (
        Predecessor::Stunnel,
        "\u{feff}; x\ninclude = /etc/d\n[é]\naccept = :::443\nconnect = ::1:80\n\
         cert = a\nsni = b:*.c\nsocket = a:b=c\noptions = -X\nverify = 2\nCAfile = é\n",
    ),
    (
        Predecessor::Haproxy,
        "global\n log /dev/log local0\ndefaults x\n timeout client 5s\nfrontend é from x\n \
         bind :443,[::1]:8000-8002 ssl crt \"/a b\" crt-list '/é' alpn h2 verify required ca-file a\n \
         acl n req.ssl_sni -m end -i .é.example\n use_backend b if n or !{ src 10.0.0.0/8 }\n\
         default_backend b\nbackend b\n stick on payload_lv(43,1)\n server \"${A-é}\" \
         10.0.0.1:80 weight 3 send-proxy-v2 proxy-v2-options ssl sni str(é)\n",
    ),
    (
        Predecessor::Nginx,
        "\u{feff}stream { map $ssl_preread_server_name ${x} { hostnames; .é \"a b\"; ~\\; c d; }\n\
         upstream d { server [::1]:1 weight=0; hash $x; }\nserver { listen [::]:1-3; # y\n\
         ssl_preread on; proxy_pass $x; } }\nhttp { server { listen é ssl; return 301 https://$é; \
         content_by_lua_block { { } } } server { listen unix:/a ssl; proxy_pass https://é:/; } }",
    ),
];

#[test]
fn what_is_cut_off_does_no_harm() {
    for (of, text) in SAMPLES {
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let import = imported(*of, &text[..end]);
            let toml = import.toml();
            assert!(toml.parse::<toml::Table>().is_ok(), "{toml}");
            assert!(import.report().len() < 20_000);
        }
    }
}

#[test]
fn a_file_that_no_person_wrote_is_refused() {
    let long = "x".repeat(import::FILE_BYTES_MAX + 1);
    for of in Predecessor::ALL {
        let import = imported(of, &long);
        assert!(import.is_faulty() && import.report().contains("8 MiB"), "{of}");
    }
}

#[test]
fn unknown_options_are_named_at_once() {
    let text = "frontend = \"[*]:1\"\nfronted = \"[*]:2\"\npem-file = \"/a\"\nworker = 3\n";
    let import = imported(Predecessor::Hitch, text);
    let report = import.report();
    assert!(import.is_faulty(), "{report}");
    assert!(report.contains("/etc/old.conf:2: fronted: error"), "{report}");
    assert!(report.contains("there is `frontend`"), "{report}");
    assert!(report.contains("/etc/old.conf:4: worker: error"), "{report}");
}

#[test]
fn unknown_words_of_haproxy_are_named_at_once() {
    let text = "global\n usr a\nlisten a\n bind :1 strict-snl\n option htpchk\n balanced x\n server a 10.0.0.1:80 weigth 3\n";
    let import = imported(Predecessor::Haproxy, text);
    let report = import.report();
    assert!(!import.unknown().is_empty());
    for (line, option, near) in [
        (2, "global usr", "global user"),
        (4, "bind strict-snl", "bind strict-sni"),
        (5, "option htpchk", "option httpchk"),
        (6, "balanced", "balance"),
        (7, "server weigth", "server weight"),
    ] {
        assert!(report.contains(&format!("{FILE}:{line}: {option}")), "{option}: {report}");
        assert!(report.contains(&format!("there is `{near}`")), "{near}: {report}");
    }
}

#[test]
fn what_haproxy_itself_refuses_is_an_error() {
    for (text, words) in [
        ("bind :443\n", "stands in no section"),
        ("listen a\n bind :443 ssl\n", "has no certificate"),
        ("listen a\n bind :443 ssl crt\n", "crt: error: has no value"),
        ("listen a\n bind :443 ssl crt \"/a\n", "is not closed"),
        ("listen a\n bind :443 ssl crt \"$NO\"\n", "variable NO is not set"),
        ("frontend a\n bind :443\n default_backend b\n", "there is no backend `b`"),
        (".if defined(A)\n", "lines under a condition"),
    ] {
        let import = imported(Predecessor::Haproxy, text);
        assert!(import.is_faulty(), "{text}");
        assert!(import.report().contains(words), "{text}: {}", import.report());
    }
}

#[test]
fn includes_that_go_round_are_named() {
    let text = "include = /etc/d\n[a]\naccept = 1\nconnect = 2\ncert = /a\n";
    let again = [("/etc/d/a.conf", "include = /etc/d\n")];
    let import = imported_with(Predecessor::Stunnel, text, &again);
    assert!(import.is_faulty());
    assert!(import.report().contains("/etc/d/a.conf:1: include: error"), "{}", import.report());
}

#[test]
fn what_contradicts_is_an_error() {
    let hitch = "pem-file = \"/a\"\nwrite-ip = on\nproxy-proxy = on\n";
    let import = imported(Predecessor::Hitch, hitch);
    assert!(import.is_faulty() && import.report().contains("exclude each other"));
    let hitch = "pem-file = \"/a\"\nclient-verify = required\n";
    assert!(imported(Predecessor::Hitch, hitch).report().contains("without client-verify-ca"));
    let stunnel = "[a]\naccept = 1\nconnect = 2\n";
    assert!(imported(Predecessor::Stunnel, stunnel).report().contains("without a certificate"));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let import = imported(Predecessor::Hitch, "pem-file = \"/etc/missing.pem\"\n");
    assert!(import.is_partial() && !import.is_faulty());
    assert!(import.report().contains("old.conf:1: pem-file: not found: `/etc/missing.pem`"));
    let mut none = Memory::default();
    let import = import::import(Predecessor::Stunnel, &["/nowhere".into()], &mut none, &NO_KEYS);
    assert!(import.is_faulty() && import.report().contains("cannot be read: no such file"));
}

/// The services of an import of nginx: addresses and names of each.
fn services_of_nginx(text: &str) -> Vec<(String, String)> {
    let table: toml::Table = imported(Predecessor::Nginx, text).toml().parse().expect("TOML");
    let services = table["service"].as_array().expect("services").iter();
    let text = |one: Option<&toml::Value>| one.map_or_else(String::new, ToString::to_string);
    services
        .map(|one| (text(one["front"].get("listen")), text(one["front"].get("names"))))
        .collect()
}

#[test]
fn the_default_server_of_nginx_has_all_other_names() {
    let server = |rest: &str| {
        format!(
            "server {{ {rest} ssl_certificate /a; ssl_certificate_key /a; \
             location / {{ proxy_pass http://127.0.0.1:1; }} }}\n"
        )
    };
    let text = server("listen 443 ssl; server_name a.example *.b.example;")
        + &server(
            "listen 443 ssl default_server; listen [::]:444 ssl ipv6only=off; \
                   server_name c.example;",
        )
        + &server("listen 443; listen 444; server_name A.example .d.example ~x;");
    let services = services_of_nginx(&text);
    let pair = |listen: &str, names: &str| (listen.to_owned(), names.to_owned());
    assert_eq!(
        services,
        [
            pair("[\"0.0.0.0:443\"]", "[\"a.example\", \"*.b.example\"]"),
            pair("[\"0.0.0.0:443\", \"[::]:444\"]", ""),
            pair("[\"0.0.0.0:443\", \"[::]:444\"]", "[\"d.example\", \"*.d.example\"]"),
        ]
    );
    let report = imported(Predecessor::Nginx, &text).report();
    assert!(report.contains("~x: such patterns are not compared"), "{report}");
}

#[test]
fn all_of_ipv6_is_without_ipv4_where_it_was() {
    let fronts = |of: Predecessor, text: &str| {
        let import = imported(of, text);
        for line in import.report().lines().filter(|line| line.contains("front.listen")) {
            assert!(!line.contains("difference"), "{line}");
        }
        let table: toml::Table = import.toml().parse().expect("TOML");
        let services = table["service"].as_array().expect("services").clone();
        let of_one = |one: &toml::Value| {
            let front = &one["front"];
            (front["listen"].to_string(), front.get("ipv6-only").is_some())
        };
        services.iter().map(of_one).collect::<Vec<_>>()
    };
    let nginx = |listens: &[&str]| {
        let server = |listen: &&str| {
            format!(
                "server {{ {listen} ssl_certificate /a; ssl_certificate_key /a; \
                 proxy_pass a:1; }}\n"
            )
        };
        let servers: String = listens.iter().map(server).collect();
        fronts(Predecessor::Nginx, &format!("stream {{ {servers} }}"))
    };
    let both = |listen: &str| (listen.to_owned(), false);
    let alone = |listen: &str| (listen.to_owned(), true);
    assert_eq!(nginx(&["listen 1 ssl; listen [::]:1 ssl;"]), [both("[\"[::]:1\"]")]);
    assert_eq!(nginx(&["listen [::]:1 ssl;"]), [alone("[\"[::]:1\"]")]);
    assert_eq!(nginx(&["listen [::]:1 ssl ipv6only=off;"]), [both("[\"[::]:1\"]")]);
    assert_eq!(
        nginx(&["listen 1 ssl;", "listen [::]:1 ssl;"]),
        [both("[\"0.0.0.0:1\"]"), alone("[\"[::]:1\"]")]
    );
    let mixed = "listen 1 ssl; listen [::]:2 ssl; listen 3 ssl; listen [::]:3 ssl;";
    assert_eq!(nginx(&[mixed]), [alone("[\"0.0.0.0:1\", \"[::]:2\"]"), both("[\"[::]:3\"]")]);
    let haproxy =
        "listen a\nmode tcp\nbind :1\nbind :::1 v6only\nbind :::2 v4v6\nserver b 10.0.0.1:2\n";
    assert_eq!(
        fronts(Predecessor::Haproxy, haproxy),
        [alone("[\"0.0.0.0:1\", \"[::]:1\"]"), both("[\"[::]:2\"]")]
    );
    let stunnel = "cert = /a\n[a]\naccept = :::1\nconnect = 2\n\
                   [b]\naccept = :::2\nconnect = 2\nsocket = a:IPV6_V6ONLY=yes\n";
    assert_eq!(
        fronts(Predecessor::Stunnel, stunnel),
        [both("[\"[::]:1\"]"), alone("[\"[::]:2\"]")]
    );
    let hitch = "pem-file = \"/a\"\nfrontend = \"[*]:1\"\nfrontend = \"[::]:2\"\n";
    assert_eq!(fronts(Predecessor::Hitch, hitch), [both("[\"[::]:1\"]"), alone("[\"[::]:2\"]")]);
}

#[test]
fn a_folder_of_haproxy_is_read_in_the_order_of_its_names() {
    let files = [
        ("/etc/h/2.cfg", "listen b\n bind :2\n server a 10.0.0.1:2\n"),
        (
            "/etc/h/1.cfg",
            "defaults\n timeout client 9s\nlisten a\n bind :1\n server a 10.0.0.1:1\n",
        ),
        ("/etc/h/3.cfg.bak", "listen\n"),
        ("/etc/h/.4.cfg", "listen\n"),
    ];
    let mut memory = Memory(files.map(|(path, text)| (path.into(), text.to_owned())).into());
    let import = import(Predecessor::Haproxy, &["/etc/h".into()], &mut memory, &NO_KEYS);
    let table: toml::Table = import.toml().parse().unwrap();
    let services = table["service"].as_array().unwrap();
    let names: Vec<_> = services.iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(names, [Some("a"), Some("b")], "{}", import.report());
    assert!(import.toml().contains("# /etc/h/2.cfg:2"), "{}", import.toml());
}

#[test]
fn what_is_left_out_is_a_comment() {
    let section = |name| format!("[{name}]\naccept = 1\nconnect = 2\ncert = /a\n");
    let text = format!("{}{}libwrap = yes\n", section("open"), section("closed"));
    let import = imported(Predecessor::Stunnel, &text);
    let toml = import.toml();
    assert!(import.is_partial() && !import.is_faulty(), "{}", import.report());
    assert!(toml.contains("\n# [[service]]\n# name = \"closed\""), "{toml}");
    let table: toml::Table = toml.parse().unwrap();
    assert_eq!(table["service"].as_array().unwrap().len(), 1);
}

#[test]
fn a_file_that_an_outer_one_includes_is_read_alone() {
    let text = "server {\n if ($host = a.example) { return 301 https://$host$request_uri; }\n\
                listen 80; return 404; }\n";
    let table: toml::Table = imported(Predecessor::Nginx, text).toml().parse().unwrap();
    assert_eq!(table["service"][0]["front"]["redirect"].as_str(), Some("https"));
    let more = [("/etc/d/a.conf", "server { listen 1; proxy_pass a:1; }")];
    let import = imported_with(Predecessor::Nginx, "stream { include d/*.conf; }", &more);
    assert!(import.toml().contains("servers = [\"a:1\"]"), "{}", import.report());
}

#[test]
fn the_default_certificate_of_hitch_comes_first() {
    let text = "pem-file = \"/a.pem\"\npem-file = \"/b.pem\"\npem-dir = \"/etc/d\"\n";
    let table: toml::Table = imported(Predecessor::Hitch, text).toml().parse().unwrap();
    let certificates = &table["service"][0]["front"]["tls"]["certificates"];
    let all: Vec<_> = certificates.as_array().unwrap().iter().map(|one| one.as_str()).collect();
    assert_eq!(all, [Some("/b.pem"), Some("/a.pem"), Some("/etc/d")]);
    assert_eq!(table["service"][0]["timeouts"]["idle"].as_str(), Some("365d"));
}

#[test]
fn defaults_that_no_file_names_leave_an_import_whole() {
    for (of, text) in [
        (Predecessor::Hitch, "pem-file = \"/a\"\n"),
        (Predecessor::Stud, "pem-file = \"/a\"\n"),
        (Predecessor::Stunnel, "[a]\naccept = 1\nconnect = 2\ncert = /a\n"),
        (Predecessor::Haproxy, "listen a\nbind :1 ssl crt /a\nserver a 10.0.0.1:2\n"),
        (
            Predecessor::Nginx,
            "stream { server { listen 1 ssl; ssl_certificate /a; ssl_certificate_key /a; \
             proxy_pass a:1; } }",
        ),
    ] {
        let import = imported(of, text);
        assert!(!import.is_partial() && !import.is_faulty(), "{of}: {}", import.report());
    }
}

#[test]
fn proxies_of_stunnel_are_asked_for_a_host() {
    let text = "[a]\nclient = yes\naccept = 1\nconnect = proxy:8080\nprotocol = connect\n\
                protocolHost = db.example:5433\nprotocolUsername = me\nprotocolPassword = x\n";
    let table: toml::Table = imported(Predecessor::Stunnel, text).toml().parse().unwrap();
    let back = &table["service"][0]["back"];
    assert_eq!(back["servers"][0].as_str(), Some("proxy:8080"));
    assert_eq!(back["tunnel"]["to"].as_str(), Some("db.example:5433"));
    assert_eq!(back["tunnel"]["password"].as_str(), Some("x"));
}

#[test]
fn checks_of_haproxy_are_checks() {
    let check = |lines: &str| {
        let text = format!("listen a\nbind :1\nmode tcp\n{lines}\n");
        let import = imported(Predecessor::Haproxy, &text);
        let table: toml::Table = import.toml().parse().unwrap();
        (table["service"][0]["back"].clone(), import.report())
    };
    let (patroni, report) = check(
        "option httpchk OPTIONS /primary\nhttp-check expect status 200\n\
         default-server inter 3s fall 3 rise 2 on-marked-down shutdown-sessions\n\
         server a 10.0.0.1:5432 check port 8008\nserver b 10.0.0.2:5432 check port 8008",
    );
    assert_eq!(patroni["on-down"].as_str(), Some("close"), "{report}");
    let keys = &patroni["check"];
    let text = |key: &str| keys[key].to_string();
    assert_eq!(
        [text("kind"), text("method"), text("path")],
        ["\"http\"", "\"OPTIONS\"", "\"/primary\""]
    );
    assert_eq!([text("port"), text("expect-status")], ["8008", "[200]"]);
    assert!(!report.contains("not mapped"), "{report}");
    for (expected, ours) in [
        ("status 200-399", "[\"200-399\"]"),
        ("status 200,204", "[200, 204]"),
        ("rstatus ^2..", "[\"2xx\"]"),
        ("rstatus (2|3)[0-9][0-9]", "[\"2xx\", \"3xx\"]"),
    ] {
        let lines =
            format!("option httpchk\nhttp-check expect {expected}\nserver a 10.0.0.1:1 check");
        assert_eq!(check(&lines).0["check"]["expect-status"].to_string(), ours, "{expected}");
    }
    let (redis, report) = check(
        "option tcp-check\ntcp-check send PING\\r\\n\ntcp-check expect string +PONG\n\
         tcp-check send info\\ replication\\r\\n\ntcp-check expect string role:master\n\
         server a 10.0.0.1:6379 check",
    );
    assert_eq!(redis["check"]["send"].as_str(), Some("PING\r\ninfo replication\r\n"), "{report}");
    assert_eq!(redis["check"]["expect"].as_str(), Some("role:master"));
    let (_, report) =
        check("option httpchk\nserver a 10.0.0.1:1 check port 2\nserver b 10.0.0.2:1 check port 3");
    assert!(report.contains("not mapped: its check goes to another port"), "{report}");
}
