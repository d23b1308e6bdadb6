//! `lariat import`: what it writes can be served, and what it cannot say it reports.

use std::fs;
use std::path::Path;

use suite::lariat::command;
use suite::prelude::*;

fn import(kind: &str, file: &Path) -> Finished {
    run(command().args(["import", kind]).arg(file))
}

/// Imports a file and checks the outcome, which nothing may be wrong with.
#[track_caller]
fn assert_imported(site: &Site, kind: &str, text: &str) -> Finished {
    let imported = import(kind, &site.write("old.conf", text));
    assert!([0, 6].contains(&imported.code()), "{imported:?}");
    let file = site.write("lariat.toml", &imported.stdout);
    let checked = run(command().arg("check").arg(file));
    assert_eq!(checked.code(), 0, "{checked:?}\n{}", imported.stdout);
    imported
}

/// A site with a second certificate, a folder of certificates, and their names for a file.
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
",
    );
    let imported = assert_imported(&site, "hitch", &text);
    assert_eq!(imported.code(), 6);
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
    imported.assert_stderr("service [vpn]: not mapped: ");
    assert_has(&imported.stdout, "idle = \"12h\"");
    assert!(!imported.stdout.contains("name = \"vpn\""), "{}", imported.stdout);
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
fn no_file_is_written_over() {
    let site = Site::new();
    let pem = site.path("site.pem");
    let text = format!("pem-file = {pem:?}\nocsp-dir = \"\"\nprefer-server-ciphers = on\n");
    let file = site.write("hitch.conf", text);
    let output = site.path("new.toml");
    let again = || {
        let mut command = command();
        run(command.args(["import", "hitch"]).arg(&file).arg("-o").arg(&output))
    };
    let answer = again();
    assert_eq!((answer.code(), answer.stdout.as_str()), (0, ""), "{answer:?}");
    answer.assert_stderr("lariat check ");
    let written = fs::read_to_string(&output).unwrap();
    let answer = again();
    assert_eq!(answer.code(), 2);
    answer.assert_stderr("is there already");
    assert_eq!(fs::read_to_string(&output).unwrap(), written);
}

#[test]
fn check_names_the_program_whose_file_it_is_given() {
    let site = Site::new();
    for (kind, name, text) in [
        ("hitch", "hitch", "frontend = \"[*]:443\"\npem-file = \"/a\"\n"),
        ("stunnel", "stunnel", "pid = /run/a\n[imaps]\naccept = 993\nconnect = 143\n"),
        ("haproxy", "HAProxy", "frontend a\n  bind :443 ssl crt /a\n  default_backend b\n"),
        ("nginx", "nginx", "stream {\n  server {\n    listen 443 ssl;\n  }\n}\n"),
    ] {
        let file = site.write("old.conf", text);
        let answer = run(command().arg("check").arg(&file));
        assert_eq!(answer.code(), 2, "{answer:?}");
        answer.assert_stderr(&format!("this is a configuration of {name}"));
        answer.assert_stderr(&format!("lariat import {kind} {}", file.display()));
        assert_eq!(answer.stderr.matches("error: ").count(), 1, "{answer:?}");
    }
}

/// Lists of options with values, one a line, in which files are named by `/etc/`.
fn options(list: &'static str) -> impl Iterator<Item = &'static str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// A site with the files that the lists name, and a function that names them there.
fn site_of_lists() -> (Site, impl Fn(String) -> String) {
    let (site, filled) = site_of_many();
    let (_, key) = site.leaf(&["other.example"]).write_apart(&site.directory, "apart");
    fs::rename(key, site.path("other.key")).unwrap();
    site.write("crl.pem", site.authority.revocation_list(&[]));
    site.write("cluster.key", [7; 32]);
    let renamed = move |text: String| {
        let names = ["site.pem", "other.pem", "other.key", "ca.pem", "crl.pem", "certs"];
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

/// A file of nginx with these directives, each with the name of its block before it.
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
    // There is no response of OCSP here.
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
    site.write(
        "sites/closed.conf",
        server.replace(".other", "closed").replace("location / {", "auth_basic a; location / {"),
    );
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
    imported.assert_stderr("sites/closed.conf:1: server: not mapped: without `auth_basic`");
    imported.assert_stderr(":10: listen http2: not mapped: ");
    for words in [
        "names = [\"other.example\", \"*.other.example\"]",
        "listen = [\"[::]:8443\"]",
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
        ("include away.conf;\n".to_owned(), "cannot be read"),
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
