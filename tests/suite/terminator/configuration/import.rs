//! `lariat import`: its output can be served, and what cannot be expressed is reported.

use std::fs;
use std::path::Path;
use std::process::Command;

use suite::lariat::command;
use suite::prelude::*;

fn import(kind: &str, file: &Path) -> Finished {
    run(command().args(["import", kind]).arg(file))
}

/// Imports a file and checks that the outcome is valid.
#[track_caller]
fn assert_imported(site: &Site, kind: &str, text: &str) -> Finished {
    let imported = import(kind, &site.write("old.conf", text));
    assert!([0, 6].contains(&imported.code()), "{imported:?}");
    let file = site.write("lariat.toml", &imported.stdout);
    let checked = run(command().arg("check").arg(file));
    assert_eq!(checked.code(), 0, "{checked:?}\n{}", imported.stdout);
    imported
}

/// Makes a site with a second certificate, a folder of certificates, and their names for a file.
fn site_of_many() -> (Site, impl Fn(&str) -> String) {
    let site = Site::new();
    site.leaf(&["other.example"]).write(&site.directory, "other.pem");
    fs::create_dir(site.path("certs")).unwrap();
    site.leaf(&["third.example"]).write(&site.directory, "certs/third.pem");
    let folder = site.path("");
    let filled = move |text: &str| text.replace("SITE/", &format!("{}/", folder.display()));
    (site, filled)
}

#[test]
fn a_file_of_hitch_can_be_served() {
    let (site, filled) = site_of_many();
    let text = filled(
        "frontend = { host = \"*\" port = \"8443\" }
frontend = { host = \"127.0.0.1\" port = \"9443\" pem-file = \"SITE/other.pem\"
  tls-protos = TLSv1.3 client-verify = required client-verify-ca = \"SITE/ca.pem\" }
backend = \"[127.0.0.1]:6086\"
pem-file = \"SITE/other.pem\"
pem-file = \"SITE/site.pem\"
pem-dir = \"SITE/certs\"
pem-dir-glob = \"*.pem\"
alpn-protos = \"h2, http/1.1\"
tls-protos = TLSv1.1 TLSv1.2 TLSv1.3
ciphers = \"EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH\"
ecdh-curve = \"X25519:prime256v1:X448\"
write-proxy-v2 = on
proxy-tlv = off
sni-nomatch-abort = on
workers = 2
backlog = 100
keepalive = 3600
backend-connect-timeout = 5
log-level = 1
ocsp-dir = \"/var/lib/hitch\"
prefer-server-ciphers = on
",
    );
    let imported = assert_imported(&site, "hitch", &text);
    assert_eq!(imported.code(), 6);
    imported.assert_stderr(":22: prefer-server-ciphers: mapped: the server's order, as here\n");
    assert_has(&imported.stdout, "\n# hitch ends no idle connection; Lariat would");
    assert_has(&imported.stdout, "\n# hitch's sessions live for 2 hours");
    imported.assert_stderr(":21: ocsp-dir /var/lib/hitch: not mapped: ");
    imported.assert_stderr(":10: tls-protos: mapped with a difference: ");
    assert_has(&imported.stdout, "idle = \"365d\"");
    assert_has(&imported.stdout, "old.conf:1\n");
    let first = imported.stdout.find("/site.pem").unwrap();
    assert!(first < imported.stdout.rfind("/other.pem").unwrap(), "the default comes first");
}

#[test]
fn a_command_line_of_stud_can_be_served() {
    let (site, filled) = site_of_many();
    let secret = site.write("cluster.key", [7; 32]);
    let words = "-f [*]:8443 -b [127.0.0.1]:80 -n 2 -C 20000 -U [127.0.0.1]:8888 \
                 -P [127.0.0.2]:8888 --write-proxy --tls SITE/site.pem";
    let words = filled(words);
    let mut command = command();
    let imported = run(command.args(["import", "stud", "--"]).args(words.split_whitespace()));
    imported.assert_stderr("-U: mapped with a difference: cluster.peers.listen");
    let toml = imported.stdout.replace("/etc/lariat/cluster.key", secret.to_str().unwrap());
    let file = site.write("lariat.toml", toml);
    let checked = run(lariat::command().arg("check").arg(file));
    assert_eq!(checked.code(), 0, "{checked:?}");
}

#[test]
fn a_file_of_stunnel_can_be_served() {
    let (site, filled) = site_of_many();
    let text = filled(
        "; global options
pid = /run/stunnel.pid
debug = 5
socket = l:TCP_NODELAY=1
sslVersionMin = TLSv1.2
options = NO_SSLv3
cert = SITE/site.pem
[imaps]
accept = 993
connect = 127.0.0.1:143
[smtp]
accept = :::2525
connect = 127.0.0.1:2526
protocol = smtp
ciphers = HIGH:!DH:!aNULL
TIMEOUTidle = 600
[pop3]
accept = 127.0.0.1:1995
connect = 127.0.0.1:110
connect = 127.0.0.1:111
verify = 2
CAfile = SITE/ca.pem
checkHost = client.example
[to-database]
client = yes
accept = 127.0.0.1:5432
connect = 127.0.0.1:5433
protocol = pgsql
CAfile = SITE/ca.pem
checkHost = db.internal
verifyChain = yes
[web]
accept = 8443
connect = 8080
[other]
sni = web:other.example
cert = SITE/other.pem
connect = 127.0.0.1:8081
[vpn]
accept = 2020
exec = /usr/sbin/pppd
",
    );
    let imported = assert_imported(&site, "stunnel", &text);
    assert_eq!(imported.code(), 6);
    imported.assert_stderr(":41: exec /usr/sbin/pppd: not mapped: ");
    imported.assert_stderr("service [vpn]: left out: ");
    assert_has(&imported.stdout, "idle = \"12h\"");
    assert!(!imported.stdout.contains("\nname = \"vpn\""), "{}", imported.stdout);
}

#[test]
fn a_file_of_haproxy_can_be_served() {
    let (site, filled) = site_of_many();
    let text = filled(
        "global
    log /dev/log local0
    ssl-default-bind-options ssl-min-ver TLSv1.2 no-tls-tickets
    stats socket /run/haproxy/admin.sock
defaults
    mode http
    timeout connect 5s
    timeout client 50s
    timeout server 1m
frontend web
    bind :8080
    bind :::8443 v4v6 ssl crt SITE/site.pem crt SITE/certs/ alpn h2,http/1.1
    http-request redirect scheme https unless { ssl_fc }
    http-request set-header X-Forwarded-Proto https
    acl is_api hdr(host) -i api.example
    use_backend api if is_api
    use_backend api if { path_beg /api }
    default_backend app
backend app
    balance leastconn
    option httpchk GET /health
    default-server inter 5s fall 2 check
    server a 10.0.0.3:80 weight 2 maxconn 500 send-proxy-v2
    server b 10.0.0.4:80 backup send-proxy-v2
    server c 10.0.0.5:80 disabled
backend api
    default-server ssl verify required ca-file SITE/ca.pem sni str(api.internal)
    server a 10.0.0.6:443 check port 81
listen pass
    mode tcp
    bind 127.0.0.1:9443
    tcp-request inspect-delay 5s
    tcp-request content accept if { req_ssl_hello_type 1 }
    use_backend far if { req.ssl_sni -m end .far.example }
    server a 10.0.0.8:443
backend far
    mode tcp
    stick-table type binary len 32 size 30k expire 30m
    stick on payload_lv(43,1) if { req_ssl_hello_type 1 }
    server a 10.0.0.7:443
",
    );
    let imported = assert_imported(&site, "haproxy", &text);
    assert_eq!(imported.code(), 6);
    for line in [
        ":4: stats socket /run/haproxy/admin.sock: not mapped: ",
        ":14: http-request set-header X-Forwarded-Proto https: not mapped: Lariat does not read HTTP",
        ":17: use_backend api if { path_beg /api }: not mapped: ",
        ":25: server c 10.0.0.5:80 disabled: not mapped: ",
        ":28: port: mapped: service.back.check.port",
    ] {
        imported.assert_stderr(line);
    }
    for words in [
        "redirect = \"https\"",
        "names = [\"api.example\"]",
        "names = [\"*.far.example\"]",
        "affinity = \"session-id\"",
        "mode = \"passthrough\"",
        "max-connections = 500, weight = 2 }",
        "idle = \"50s\"",
        "alpn = [\"http/1.1\"]",
        "name = \"api.internal\"",
    ] {
        assert_has(&imported.stdout, words);
    }
}

#[test]
fn every_fault_is_told_and_nothing_is_written() {
    let site = Site::new();
    let file = site.write(
        "hitch.conf",
        "pem-file = \"/a\"\nwrite-ip = on\nwrite-proxy-v2 = on\nclient-verify = optional\n",
    );
    let output = site.path("lariat.toml");
    let mut command = command();
    let answer = run(command.args(["import", "hitch"]).arg(&file).arg("-o").arg(&output));
    assert_eq!((answer.code(), answer.stdout.as_str()), (2, ""), "{answer:?}");
    answer.assert_stderr("exclude each other");
    answer.assert_stderr(":4: client-verify: error: ");
    assert!(!output.exists());
    let answer = import("stunnel", Path::new("/nonexistent/stunnel.conf"));
    assert_eq!(answer.code(), 2);
    answer.assert_stderr("cannot be read: No such file");
}

#[test]
fn a_line_of_a_list_that_refuses_clients_is_never_dropped() {
    let (site, filled) = site_of_many();
    let verify = "[verify required ca-file SITE/ca.pem]";
    let imported = |lines: &str| {
        let list = site.write("list.txt", filled(&lines.replace("VERIFY", verify)));
        let text = format!(
            "defaults\n mode tcp\nfrontend a\n bind :8443 ssl crt-list {}\n \
             use_backend b if {{ ssl_fc_sni other.example }}\n default_backend c\n\
             backend b\n server b 127.0.0.1:1\nbackend c\n server c 127.0.0.1:2\n",
            list.display()
        );
        import("haproxy", &site.write("old.conf", text))
    };
    for line in [
        "SITE/other.pem VERIFY *.example !other.example",
        "SITE/other.pem VERIFY !other.example",
        "SITE/certs VERIFY",
    ] {
        let imported = imported(&format!("SITE/site.pem\n{line}\n"));
        assert_eq!((imported.code(), imported.stdout.as_str()), (2, ""), "{line}");
        imported.assert_stderr("frontend a: left out: without `verify required`");
        assert!(!imported.stderr.contains("verify: mapped: without effect"), "{imported:?}");
    }
    // Unknown names get the first certificate.
    let imported = imported("SITE/other.pem VERIFY\nSITE/site.pem\n");
    imported.assert_stderr("frontend a: left out: without `verify required`");
}

#[test]
fn tls_of_servers_around_the_clients_own_is_left_out() {
    let (site, filled) = site_of_many();
    let text = filled(
        "frontend a\n bind :8443\n use_backend b if { req_ssl_sni b.example }\n \
         default_backend c\nbackend b\n server b 127.0.0.1:1 ssl verify required \
         ca-file SITE/ca.pem\nbackend c\n server c 127.0.0.1:2\n",
    );
    let imported = assert_imported(&site, "haproxy", &text);
    assert_eq!(imported.code(), 6);
    imported.assert_stderr("old.conf:5: backend b: left out: ");
    imported.assert_stderr("would put TLS around the clients' own");
}

#[test]
fn variables_of_haproxy_are_those_of_its_global_section() {
    let site = Site::new();
    let text = "global\n uid 80\n gid 80\n setenv BE 127.0.0.1\n presetenv BE 127.0.0.9\n \
                setenv PORT 81\nlisten a\n bind ${BE}:8443\n server b ${BE}:$PORT\n \
                monitor-uri /up\n";
    let imported = assert_imported(&site, "haproxy", text);
    imported.assert_stderr("monitor-uri /up: not mapped");
    imported.assert_stderr("instead: `/ready` at `admin.listen`");
    for words in ["[\"127.0.0.1:8443\"]", "[\"127.0.0.1:81\"]", "user = \"80\"", "group = [\"80\"]"]
    {
        assert_has(&imported.stdout, words);
    }
    let text = text.replace("listen a", "unsetenv BE\nlisten a");
    let refused = import("haproxy", &site.write("old.conf", text));
    assert_eq!(refused.code(), 2);
    refused.assert_stderr("the variable BE is not set");
}

#[test]
fn a_log_that_both_programs_would_write_is_pointed_out() {
    let site = Site::new();
    for (kind, text) in [
        ("hitch", "pem-file = \"PEM\"\nlog-filename = \"LOG\"\n"),
        ("stunnel", "output = LOG\n[a]\naccept = 993\nconnect = 143\ncert = PEM\n"),
        (
            "nginx",
            "stream { server { access_log LOG; listen 1 ssl; proxy_pass 127.0.0.1:9;
             ssl_certificate PEM; ssl_certificate_key PEM; } }",
        ),
    ] {
        let text = text.replace("PEM", site.path("site.pem").to_str().unwrap());
        let said = |log| import(kind, &site.write("a", text.replace("LOG", log))).stderr;
        assert_has(said("/a.log"), &format!("{kind} and lariat would both write to /a.log"));
        assert!(!said("/dev/stdout").contains("would both write"), "{kind}");
    }
}

#[test]
fn the_program_is_named_whose_file_is_given_to_another_command() {
    let site = Site::new();
    for (kind, name, text) in [
        ("hitch", "hitch", "frontend = \"[*]:443\"\npem-file = \"/a\"\n"),
        ("stunnel", "stunnel", "pid = /run/a\n[imaps]\naccept = 993\nconnect = 143\n"),
        ("haproxy", "HAProxy", "frontend a\n  bind :443 ssl crt /a\n  default_backend b\n"),
        ("nginx", "nginx", "stream {\n  server {\n    listen 443 ssl;\n  }\n}\n"),
        ("nginx", "nginx", "events {} http { server { listen 443 ssl; } }\n"),
    ] {
        let file = site.write("old.conf", text);
        for asked in ["check", "serve", "reload"] {
            let answer = run(command().arg(asked).arg(&file));
            answer.assert_fails(2, &["error: ", &format!("this is a configuration of {name}")]);
            answer.assert_stderr(&format!("lariat import {kind} {}", file.display()));
            let errors = answer.stderr.matches("error: ").count();
            assert!(errors == 1 || asked == "serve", "{answer:?}");
        }
        let other = if kind == "haproxy" { "nginx" } else { "haproxy" };
        let answer = import(other, &file);
        answer.assert_fails(2, &[&format!("is a configuration of {name}\nhint: ")]);
        answer.assert_stderr(&format!("hint: lariat import {kind} {}", file.display()));
    }
}

/// Returns lists of options with values, one a line, in which files are named by `/etc/`.
fn options(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Makes a site with the files that the lists name, and a function that names them there.
fn site_of_lists() -> (Site, impl Fn(String) -> String) {
    let (site, filled) = site_of_many();
    let (_, key) = site.leaf(&["other.example"]).write_apart(&site.directory, "apart");
    fs::rename(key, site.path("other.key")).unwrap();
    site.write("crl.pem", site.authority.revocation_list(&[]));
    site.write("cluster.key", [7; 32]);
    site.write("ticket.key", [7; 80]);
    let renamed = move |text: String| {
        let names =
            ["site.pem", "other.pem", "other.key", "ca.pem", "crl.pem", "certs", "ticket.key"];
        let text = names.iter().fold(text, |text, name| {
            text.replace(&format!("/etc/{name}"), &format!("SITE/{name}"))
        });
        filled(&text)
    };
    (site, renamed)
}

#[test]
fn every_option_of_hitch_can_be_served() {
    let (site, renamed) = site_of_lists();
    let secret = site.path("cluster.key").display().to_string();
    let list = include_str!("../../../../crates/terminator/import/tests/manual/hitch.txt");
    // Some exclude each other.
    let alone = ["write-", "proxy-proxy", "client =", "ssl =", "tls ="];
    let is_alone = |line: &&str| alone.iter().any(|one| line.starts_with(one));
    let (alone, together): (Vec<_>, Vec<_>) = options(list).partition(is_alone);
    let together = together.join("\n");
    for line in alone.into_iter().chain([together.as_str()]) {
        let base = "frontend = \"[*]:8443\"\npem-file = \"/etc/site.pem\"\n";
        let file = site.write("old.conf", renamed(format!("{base}{line}\n")));
        let imported = import("hitch", &file);
        assert!([0, 6].contains(&imported.code()), "{line}: {imported:?}");
        let toml = imported.stdout.replace("/etc/lariat/cluster.key", &secret);
        let checked = run(command().arg("check").arg(site.write("lariat.toml", &toml)));
        assert_eq!(checked.code(), 0, "{line}: {checked:?}\n{toml}");
    }
}

#[test]
fn every_option_of_stunnel_can_be_served() {
    let (site, renamed) = site_of_lists();
    let list = include_str!("../../../../crates/terminator/import/tests/manual/stunnel.txt");
    let own = ["accept", "cert", "client", "connect", "key", "sni", "CAfile"];
    let is_own = |line: &&str| own.iter().any(|one| line.starts_with(&format!("{one} ")));
    let sections = (1..).zip(options(list).filter(|line| !is_own(line))).map(|(number, line)| {
        let connect = "connect = 127.0.0.1:80\nCAfile = /etc/ca.pem\n";
        format!(
            "[s{number}]\naccept = {}\n{connect}cert = /etc/site.pem\n{line}\n\
             [c{number}]\nclient = yes\naccept = {}\n{connect}{line}\n",
            20_000 + number,
            30_000 + number
        )
    });
    let text = renamed(sections.collect());
    assert_eq!(assert_imported(&site, "stunnel", &text).code(), 6);
}

#[test]
fn every_keyword_of_haproxy_can_be_served() {
    let (site, renamed) = site_of_lists();
    let list = include_str!("../../../../crates/terminator/import/tests/manual/haproxy.txt");
    let list_of_certificates =
        site.write("list.txt", renamed("/etc/site.pem [alpn h2] a.example\n".to_owned()));
    let keys = ["A", "B", "C"].map(|letter| letter.repeat(64)).join("\n");
    let keys = site.write("tickets.keys", keys + "\n");
    let of = |scope: &'static str| {
        let lines = options(list).filter_map(|line| line.split_once(' '));
        lines.filter(move |(one, _)| *one == scope).map(|(_, rest)| rest)
    };
    let sections = ["listen", "bind", "server"].into_iter().flat_map(|scope| {
        of(scope).map(move |rest| {
            let on = |one: &str| if scope == one { rest } else { "" };
            let bind = on("bind");
            let is_of_clients = bind.contains("ca-") || bind.contains("crl");
            let clients = if is_of_clients { "verify required ca-file /etc/ca.pem" } else { "" };
            (on("listen"), format!("{clients} {bind}"), on("server"))
        })
    });
    let sections = (20_000..).zip(sections).map(|(port, (line, bind, server))| {
        let port = if line.starts_with("bind") { port + 1000 } else { port };
        format!(
            "listen s{port}\n {line}\n bind 127.0.0.1:{port} ssl crt /etc/site.pem {bind}\n \
             server a 127.0.0.1:80 ssl verify none check {server}\n"
        )
    });
    let global: Vec<_> = of("global").collect();
    let text = format!(
        "global\n{}\nbackend spare\n server a 127.0.0.1:82\n{}",
        global.join("\n"),
        sections.collect::<String>()
    );
    let text = renamed(text).replace("/etc/list.txt", list_of_certificates.to_str().unwrap());
    let text = text.replace("/etc/tickets.keys", keys.to_str().unwrap());
    assert_eq!(assert_imported(&site, "haproxy", &text).code(), 6);
}

#[test]
fn no_keyword_of_the_installed_haproxy_is_unknown() {
    let listed = run(Command::new("haproxy").args(["-dKall", "-c", "-f", "/dev/null"]));
    let within = listed.stdout.split("configuration keywords:").nth(1).unwrap();
    let within = within.split("\n#").next().unwrap();
    let mut section = "";
    let (mut global, mut proxy) = (String::new(), String::new());
    for line in within.lines() {
        match line.strip_prefix('\t') {
            None => section = line,
            Some(keyword) if section == "global" => global.push_str(&format!("{keyword}\n")),
            Some(keyword) if section == "listen" => {
                let keyword = keyword.split(" [").next().unwrap().trim_end_matches('*');
                let keyword = keyword.replace("<name> <addr>", "a 127.0.0.1:80");
                let keyword = keyword.replace("<addr>", "127.0.0.1:8443");
                let keyword = keyword.replace("+1", "1").replace("+-1", "1");
                proxy.push_str(&format!("{keyword}\n"));
            }
            Some(_) => {}
        }
    }
    assert!(proxy.lines().count() > 300, "{proxy}");
    let directory = Directory::new();
    let file = directory.write("old.cfg", format!("global\n{global}listen a\n{proxy}"));
    let answer = import("haproxy", &file);
    let unknown = answer.stderr.lines().filter(|line| line.contains("no such option"));
    // First words of keywords that have a second one.
    let bare =
        ["timeout", "tcp-request", "tcp-response", "declare", "external-check", "rate-limit"];
    let is_bare = |line: &&str| bare.iter().any(|word| line.contains(&format!(": {word}: not")));
    let unknown: Vec<_> = unknown.filter(|line| !is_bare(line)).collect();
    assert_eq!(unknown, Vec::<&str>::new());
}

/// Makes a file of nginx with these directives, each with the name of its block before it.
fn file_of_nginx(directives: &[&str]) -> String {
    let within = |block: &str| {
        let of_block = directives.iter().filter_map(|line| {
            let (name, directive) = line.split_once(' ')?;
            (name == block).then(|| format!("{directive}\n"))
        });
        of_block.collect::<String>()
    };
    let tls = "ssl; ssl_certificate /etc/site.pem; ssl_certificate_key /etc/site.pem;";
    format!(
        "{}events {{ {} }}
         stream {{ {} upstream app {{ server 127.0.0.1:80; {} }}
           server {{ listen 4430 {tls} proxy_pass app; }}
           server {{ listen 4431 {tls} proxy_pass app; {} }} }}
         http {{ {} upstream web {{ server 127.0.0.1:80; {} }}
           server {{ listen 4432 {tls} {} location / {{ proxy_pass http://web; {} }} }} }}",
        within("main"),
        within("events"),
        within("stream"),
        within("stream.upstream"),
        within("stream.server"),
        within("http"),
        within("http.upstream"),
        within("http.server"),
        within("http.location"),
    )
}

#[test]
fn every_directive_of_nginx_can_be_served() {
    let (site, renamed) = site_of_lists();
    let list = include_str!("../../../../crates/terminator/import/tests/manual/nginx.txt");
    // There is no OCSP response here.
    let lines = options(list).filter(|line| !line.contains("ssl_stapling_file"));
    let lines: Vec<_> = lines.collect();
    for some in lines.chunks(20) {
        let imported = assert_imported(&site, "nginx", &renamed(file_of_nginx(some)));
        assert_eq!(imported.code(), 6, "{imported:?}");
        assert_has(&imported.stdout, "name = \"app\"");
    }
}

#[test]
fn a_file_of_nginx_can_be_served() {
    let (site, filled) = site_of_many();
    fs::create_dir(site.path("sites")).unwrap();
    let server = "server { listen 8443 ssl; server_name .other.example;
        ssl_certificate other.pem; ssl_certificate_key other.pem;
        location / { proxy_pass http://web; proxy_set_header Host $host; } }";
    site.write("sites/other.conf", server);
    // The service has servers of its own: another's would be reached by its name in Host.
    let closed = server.replace(".other", "closed").replace("http://web", "http://10.0.0.9");
    site.write("sites/closed.conf", closed.replace("location / {", "auth_basic a; location / {"));
    let text = filled(
        "user nobody; worker_processes 4; pid /run/nginx.pid;
events { worker_connections 1024; }
http {
  upstream web { ip_hash; server 10.0.0.3 max_fails=2; server 10.0.0.4:81 weight=2; }
  ssl_protocols TLSv1.1 TLSv1.2 TLSv1.3; ssl_session_cache shared:a:1m;
  gzip on;
  include sites/*.conf;
  server { listen 80; listen [::]:80; return 301 https://$host$request_uri; }
  server {
    listen 8443 ssl http2 default_server; listen [::]:8443 ssl default_server;
    ssl_certificate SITE/site.pem; ssl_certificate_key SITE/site.pem;
    set_real_ip_from 10.0.0.0/8;
    location / { proxy_pass http://web; }
    location /static { root /var/www; }
  }
}
",
    );
    let imported = assert_imported(&site, "nginx", &text);
    assert_eq!(imported.code(), 6);
    imported.assert_stderr("old.conf:6: gzip on: not mapped: ");
    imported.assert_stderr("sites/closed.conf:1: server: left out: without `auth_basic`");
    imported.assert_stderr(":10: listen http2: not mapped: ");
    for words in [
        "names = [\"other.example\", \"*.other.example\"]",
        "listen = [\"0.0.0.0:8443\", \"[::]:8443\"]",
        "ipv6-only = true",
        "redirect = \"https\"",
        "balance = \"source\"",
        "connections = 2048",
    ] {
        assert_has(&imported.stdout, words);
    }
    assert!(!imported.stdout.contains("name = \"closed"), "{}", imported.stdout);
}

#[test]
fn a_broken_file_of_nginx_is_refused() {
    let site = Site::new();
    let server = "listen 443; proxy_pass 127.0.0.1:1;";
    site.write("round.conf", "include old.conf;\n");
    for (text, words) in [
        (format!("stream {{ server {{ {server} }}\n"), "`stream` of "),
        (format!("stream {{ server {{ {server} }} }} }}\n"), "`}` without a directive"),
        ("stream {\n server { listen 443\n } }\n".to_owned(), ":2: syntax: error: `listen 443`"),
        ("stream { server { listen \"443; } }\n".to_owned(), "quotation mark is not closed"),
        ("include round.conf;\n".to_owned(), "includes itself"),
        ("include away.conf;\n".to_owned(), "copy it here, or import on the old host"),
        ("x ".repeat(25 << 20), "more than 8 MiB"),
        ("a { ".repeat(100_000), "has more than any configuration"),
    ] {
        let answer = import("nginx", &site.write("old.conf", text));
        assert_eq!((answer.code(), answer.stdout.as_str()), (2, ""), "{words}");
        answer.assert_stderr(words);
    }
    let text = format!("strem a;\nstream {{ server {{ {server}\nprox_pass a;\n}} }}\n");
    let answer = import("nginx", &site.write("old.conf", text));
    answer.assert_stderr("old.conf:1: strem a: not mapped: ");
    answer.assert_stderr("old.conf:3: prox_pass a: not mapped: ");
    answer.assert_stderr("there is `proxy_pass`");
}
