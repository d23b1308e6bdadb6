//! Meaning of configurations: every default, equality of flags and keys, no panic on any text.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::path::PathBuf;
use std::time::Duration;

use backend::options::{Balance, CheckKind, HttpCheck};
use config::{LoadedConfiguration, Recording, Settings, Severity, TypedConfiguration};
use proptest::prelude::*;
use proxy::options::{CertificateForm, KtlsMode, SendProxy, ServiceOptions};
use tls::options::{
    ClientMode, ExpiredLists, Group, ServerOptions, Suite, Suites, Tls13Sessions, UnknownName,
    Version,
};

const MINIMAL: &str = r#"
[[service]]
front = { listen = "[::]:443", tls = { certificates = ["site.pem"] } }
back = { servers = "127.0.0.1:80" }
"#;

fn files() -> Recording {
    let mut files = Recording::default();
    for name in "site.pem site.crt site.key site.ocsp ca.pem ca.crl".split(' ') {
        files.insert(name, name.as_bytes().to_vec());
    }
    files
}

fn file(text: &str) -> TypedConfiguration {
    TypedConfiguration::of_text("lariat.toml", text)
}

fn load(source: &TypedConfiguration) -> LoadedConfiguration {
    config::load(source, &mut files()).unwrap_or_else(|diagnostics| {
        let texts: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
        panic!("{}", texts.join("\n"));
    })
}

fn settings(text: &str) -> Settings {
    load(&file(text)).settings
}

fn service(text: &str) -> ServiceOptions {
    settings(text).data_plane.services.remove(0)
}

fn tls_of(service: &ServiceOptions) -> &ServerOptions {
    service.front.terminated().unwrap()
}

/// Makes the minimal service with more keys in its tables.
fn with(front: &str, tls: &str, back: &str) -> ServiceOptions {
    service(&format!(
        "[[service]]\n[service.front]\nlisten = ['[::]:443']\n{front}\n[service.front.tls]\n\
         certificates = ['site.pem']\n{tls}\n[service.back]\nservers = ['127.0.0.1:80']\n{back}\n"
    ))
}

#[test]
fn defaults_of_a_service() {
    let service = service(MINIMAL);
    assert_eq!(service.name, "main");
    assert_eq!(service.connections_max, None);
    assert_eq!(service.timeouts.handshake, Duration::from_secs(10));
    assert_eq!(service.timeouts.dial, Duration::from_secs(3));
    assert_eq!(service.timeouts.idle, Duration::from_secs(300));
    assert!(service.front.accept_proxy.is_empty());
    let tls = service.front.terminated().unwrap();
    assert_eq!((tls.version_min, tls.version_max), (Version::Tls12, Version::Tls13));
    assert_eq!(tls.suites, Suites::Auto);
    assert_eq!(tls.groups, Group::ALL);
    assert_eq!(tls.unknown_name, UnknownName::Default);
    assert_eq!(tls.client.mode, ClientMode::None);
    assert!(tls.resumption && tls.alpn.is_empty());
    let servers = service.back.servers().unwrap();
    let pool = &servers.pool;
    assert_eq!(pool.balance, Balance::RoundRobin);
    assert_eq!((pool.servers[0].weight, pool.servers[0].backup), (1, false));
    assert_eq!(pool.passive.failures, 3);
    assert_eq!(pool.passive.ejection_time, Duration::from_secs(10));
    assert_eq!(pool.check, None);
    assert_eq!(servers.send_proxy, SendProxy::Off);
}

#[test]
fn sessions_of_tls13_lie_where_it_is_said() {
    let cache = |early_data_bytes_max| Tls13Sessions::Cache { early_data_bytes_max };
    let sessions = |choice: &str, tls: &str| {
        let text = format!(
            "resumption = {{ tls13 = '{choice}' }}\n[[service]]\n\
             front = {{ listen = ['[::]:443'], tls = {{ certificates = ['site.pem'] {tls} }} }}\n\
             back = {{ servers = ['127.0.0.1:80'], send-proxy = 'v2' }}\n"
        );
        tls_of(&service(&text)).tls13_sessions
    };
    assert_eq!(sessions("auto", ""), Tls13Sessions::Tickets);
    assert_eq!(sessions("tickets", ""), Tls13Sessions::Tickets);
    assert_eq!(sessions("cache", ""), cache(0));
    // Less than a full record counts as one.
    assert_eq!(sessions("auto", ", early-data = '2KiB'"), cache(16_640));
    assert_eq!(sessions("auto", ", early-data = '64KiB'"), cache(65_536));
    assert_eq!(sessions("cache", ", early-data = 100"), cache(16_640));
    let replayable = with("", "early-data = 100", "early-data-safe = true");
    assert_eq!(tls_of(&replayable).tls13_sessions, cache(16_640));
}

#[test]
fn former_certificates_resume_unless_it_is_said_otherwise() {
    let replaced = |tls| tls_of(&with("", tls, "")).replaced.clone();
    let by_default = replaced("");
    assert!(by_default.resume && by_default.revoked.is_empty());
    let written = replaced("revoked = ['ca.pem']\nreplaced-certificates = 'refuse'");
    assert!(!written.resume);
    assert_eq!(*written.revoked[0].pem, *b"ca.pem");
}

/// Makes a service of files, with more keys in its TLS and its files.
fn of_files(tls: &str, files: &str) -> ServiceOptions {
    service(&format!(
        "[[service]]\n[service.front]\nlisten = ['[::]:443']\n[service.front.tls]\n\
         certificates = ['site.pem']\n{tls}\n[service.back.files]\nroot = 'data'\n{files}\n"
    ))
}

#[test]
fn defaults_of_files() {
    let service = of_files("", "");
    let files = service.back.files().unwrap();
    assert_eq!(files.folder, Some(PathBuf::from("data")));
    assert_eq!(files.serving, static_files::options::Options::default());
    assert_eq!(tls_of(&service).alpn, [b"http/1.1", b"http/1.0"]);
    assert!(tls_of(&of_files("alpn = []", "")).alpn.is_empty());
    assert_eq!(files.timeouts.request, Duration::from_secs(10));
    assert_eq!(files.timeouts.file, Duration::from_secs(30));
    let files = of_files("", "index = []").back.files().cloned().unwrap();
    assert!(files.serving.index.is_empty());
}

#[test]
fn early_data_for_files_may_be_replayed() {
    let sessions = tls_of(&of_files("early-data = '32KiB'", "")).tls13_sessions;
    let early_data_bytes_max = 32 << 10;
    let cache = Tls13Sessions::Cache { early_data_bytes_max };
    assert_eq!(sessions, cache);
}

#[test]
fn a_folder_begins_at_the_file() {
    let mut files = Recording::default();
    files.insert("/etc/lariat/site.pem", b"PEM".to_vec());
    let source = TypedConfiguration::of_text(
        "/etc/lariat/lariat.toml",
        MINIMAL.replace(r#"servers = "127.0.0.1:80""#, r#"files = "data""#),
    );
    let settings = config::load(&source, &mut files).unwrap().settings;
    let files = settings.data_plane.services[0].back.files().unwrap();
    assert_eq!(files.folder, Some(PathBuf::from("/etc/lariat/data")));
}

#[test]
fn who_seals() {
    let sealed = |tls: &str| {
        let front = with("", tls, "").front;
        (front.ktls.mode, front.ktls.from)
    };
    let from = 128 << 10;
    assert_eq!(sealed(""), (KtlsMode::Auto, from));
    let required = sealed("ktls = 'require'");
    assert_eq!(required, (KtlsMode::Require, from));
    let later = sealed("ktls = { min-size = '1MiB' }");
    assert_eq!(later, (KtlsMode::Auto, 1 << 20));
}

#[test]
fn a_check_has_defaults_and_a_short_form() {
    let check = with("", "", "check = 'tcp'").back.servers().unwrap().pool.check.clone().unwrap();
    assert_eq!(check.kind, CheckKind::Tcp);
    assert_eq!(check.interval, Duration::from_secs(2));
    assert_eq!(check.timeout, Duration::from_secs(1));
    assert_eq!((check.fall, check.rise), (3, 2));
    let check = with("", "", "check = { kind = 'http', host = 'h' }")
        .back
        .servers()
        .unwrap()
        .pool
        .check
        .clone()
        .unwrap();
    let http = HttpCheck { host: Some("h".into()), ..HttpCheck::of("/") };
    assert_eq!(check.kind, CheckKind::Http(http));
    let check = with("", "", "check = { kind = 'tls', host = 'h' }")
        .back
        .servers()
        .unwrap()
        .pool
        .check
        .clone()
        .unwrap();
    assert_eq!(check.kind, CheckKind::Tls { name: Some("h".into()) });
}

#[test]
fn a_header_has_fields_and_a_short_form() {
    let SendProxy::V2(tlvs) = with("", "", "send-proxy = 'v2'").back.send_proxy().clone() else {
        panic!("version 2");
    };
    assert!(tlvs.alpn && tlvs.authority && tlvs.ssl && !tlvs.crc32c && !tlvs.unique_id);
    assert_eq!(tlvs.client_certificate, None);
    let text =
        "send-proxy = { version = 'v2', tls = false, crc32c = true, client-certificate = 'der' }";
    let SendProxy::V2(tlvs) = with("", "", text).back.send_proxy().clone() else {
        panic!("version 2");
    };
    assert!(!tlvs.ssl && tlvs.crc32c);
    assert_eq!(tlvs.client_certificate, Some(CertificateForm::Der));
    assert_eq!(*with("", "", "send-proxy = 'v1'").back.send_proxy(), SendProxy::V1);
    let pass = with("accept-proxy = ['unix']", "", "send-proxy = 'pass'");
    assert_eq!(*pass.back.send_proxy(), SendProxy::Pass);
}

#[test]
fn policy_by_names() {
    let suites = "suites = ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256']\nversions = ['1.2']";
    let tls = tls_of(&with("", suites, "")).clone();
    assert_eq!(tls.suites, Suites::Listed(vec![Suite::EcdheRsaAes128GcmSha256]));
    assert_eq!((tls.version_min, tls.version_max), (Version::Tls12, Version::Tls12));
    let tls = with("", "groups = ['secp384r1', 'x25519']\nalpn = ['h2']", "");
    let tls = tls_of(&tls);
    assert_eq!(tls.groups, [Group::Secp384r1, Group::X25519]);
    assert_eq!(tls.alpn, [b"h2".to_vec()]);
}

#[test]
fn certificates_together_and_apart() {
    let certificates = |value: &str| {
        let text = MINIMAL.replace("\"site.pem\"", value);
        tls_of(&service(&text)).certificates[0].clone()
    };
    let together = certificates("\"site.pem\"");
    assert_eq!(
        (together.chain_pem.clone(), together.key_pem.clone()),
        (b"site.pem".to_vec(), None)
    );
    // The staple is beside the certificate.
    assert_eq!(together.ocsp_der, Some(b"site.ocsp".to_vec()));
    let apart = certificates("{ chain = \"site.crt\", key = \"site.key\", ocsp = \"ca.pem\" }");
    assert_eq!(apart.key_pem, Some(b"site.key".to_vec()));
    assert_eq!(apart.key_place.as_deref(), Some("site.key"));
    assert_eq!(apart.ocsp_der, Some(b"ca.pem".to_vec()));
}

#[test]
fn relative_paths_begin_at_the_file() {
    let mut files = Recording::default();
    files.insert("/etc/lariat/site.pem", b"PEM".to_vec());
    let source = TypedConfiguration::of_text("/etc/lariat/lariat.toml", MINIMAL);
    let settings = config::load(&source, &mut files).unwrap().settings;
    let certificate = &tls_of(&settings.data_plane.services[0]).certificates[0];
    assert_eq!(certificate.place, "/etc/lariat/site.pem");
}

#[test]
fn defaults_are_not_copied_without_end() {
    let service = |number| format!("[[service]]\nname = 's{number}'\n");
    let services: String = (0..1000).map(service).collect();
    let text = format!("[defaults]\nfront.deny = [{}]\n{services}", "'::1',".repeat(5000));
    let source = TypedConfiguration::of_text("/etc/lariat/lariat.toml", text);
    let Err(faults) = config::load(&source, &mut Recording::default()) else {
        panic!("so many values are taken");
    };
    let words = "defaults: has 5003 values for each of 1000 services";
    assert!(faults.iter().any(|one| one.to_string().contains(words)), "{}", faults[0]);
}

#[test]
fn files_are_included_variables_replaced_and_defaults_filled_in() {
    let service = |name: &str, port: u16| {
        format!(
            "[[service]]\nname = '{name}'\nfront = {{ listen = ['127.0.0.1:{port}'], tls = 'off' }}\n"
        )
    };
    let main = service("a", 1)
        + "back = { servers = ['127.0.0.1:81'], balance = 'source' }\n\
           timeouts.idle = '1m'\n\
           [defaults]\n\
           back.servers = '127.0.0.1:80'\n\
           timeouts = { idle = '${IDLE:-1h}', dial = '2s' }\n";
    let main = format!("include = 'conf.d/*.toml'\nworkers = '${{N}}'\n{main}");
    let mut files = Recording::default();
    files.insert("/l/lariat.toml", main.into_bytes());
    files.insert("/l/conf.d/b.toml", service("b", 2).into_bytes());
    files.insert("/l/conf.d/c.toml", service("${NAME}", 3).into_bytes());
    let listed = ["b.toml", "c.toml", ".c.toml", "README"];
    files.insert_list("/l/conf.d", listed.map(|name| format!("/l/conf.d/{name}").into()).to_vec());
    files.insert_cpus(vec![0, 1, 2, 3], 4);
    files.insert_variable("N", "3");
    files.insert_variable("NAME", "see");
    files.insert_variable("IDLE", "");
    let source = TypedConfiguration::read("/l/lariat.toml".as_ref(), &mut files).unwrap();
    let settings = config::load(&source, &mut files).unwrap().settings;
    assert_eq!(settings.data_plane.workers.cpus.len(), 3);
    let services = &settings.data_plane.services;
    let names: Vec<_> = services.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "see"]);
    let idle: Vec<_> = services.iter().map(|one| one.timeouts.idle.as_secs()).collect();
    assert_eq!(idle, [60, 3600, 3600]);
    assert!(services.iter().all(|one| one.timeouts.dial.as_secs() == 2));
    let ports = services.iter().map(|one| one.back.server_list()[0].endpoint.tcp_port());
    assert!(ports.eq([Some(81), Some(80), Some(80)]));
}

#[test]
fn workers_in_all_forms() {
    let cpus =
        |value: &str| settings(&format!("workers = {value}\n{MINIMAL}")).data_plane.workers.cpus;
    assert_eq!(cpus("1"), [Some(0)]);
    // More threads than CPUs: none is pinned.
    assert_eq!(cpus("3"), [None, None, None]);
    assert_eq!(cpus("\"0-0\""), [Some(0)]);
    assert_eq!(cpus("{ threads = 2 }"), [None, None]);
}

#[test]
fn the_quota_of_a_control_group_bounds_the_workers() {
    let cpus = |parallelism| {
        let mut files = Recording::default();
        files.insert("/site.pem", b"PEM".to_vec());
        files.insert_cpus(vec![2, 3, 6], parallelism);
        let source = TypedConfiguration::of_text("/lariat.toml", MINIMAL);
        config::load(&source, &mut files).unwrap().settings.data_plane.workers.cpus
    };
    assert_eq!(cpus(3), [Some(2), Some(3), Some(6)]);
    assert_eq!(cpus(2), [None, None]);
    assert_eq!(cpus(1), [None]);
}

#[test]
fn all_of_ipv6_alone_takes_nothing_of_ipv4() {
    let text = |keys: &str| {
        format!(
            "[[service]]\nname = \"a\"\nback.servers = \"127.0.0.1:8080\"\n\
             front = {{ listen = \"[::]:8080\", tls = \"off\"{keys} }}\n\
             [admin]\nlisten = \"127.0.0.1:8080\"\n"
        )
    };
    let service = service(&text(", ipv6-only = true"));
    assert!(service.front.transport.ipv6_only);
    let taken = config::load(&file(&text("")), &mut files()).err().unwrap();
    let texts: Vec<_> = taken.iter().map(ToString::to_string).collect();
    let is_told = |part: &str| texts.iter().any(|text| text.contains(part));
    assert!(is_told("this service itself") && is_told("admin.listen"), "{texts:?}");
}

#[test]
fn ports_to_connect_to_in_all_forms() {
    let ports = |value: &str| {
        let service = MINIMAL.replace("127.0.0.1:80", "unix:/a");
        let settings = settings(&format!("process.connect-ports = {value}\n{service}"));
        settings.process.connect_ports.unwrap().into_iter()
    };
    assert!(ports("[443, '8000-8002', 8001, '80-80']").eq([80, 443, 8000, 8001, 8002]));
    assert_eq!(ports("[]").count(), 0);
    assert_eq!(ports("['1-4096']").count(), 4096);
}

/// Flags, and the file of the same meaning.
const ALIKE: &[(&str, &str)] = &[
    ("--listen [::]:443 --certificate site.pem --backend 127.0.0.1:80", MINIMAL),
    (
        "--name web --listen [::]:443 --listen unix:@a --certificate site.crt --key site.key \
         --certificate site.pem --alpn h2,http/1.1 --backend a:80 --weight 3 --backend b:80 \
         --backup true --send-proxy v2 --send-proxy-crc32c true --check http --check-path /x \
         --idle-timeout 1h --workers 4 --connections 9 --log-format json --session-bytes 1MiB \
         --client-certificates required --client-ca ca.pem --client-crl ca.crl --versions 1.3 \
         --connect-ports 80,8000-8010 --connect-ports 443 --client-allow-cn a,b",
        r#"
workers = 4
process.connect-ports = [80, "8000-8010", 443]
limits = { connections = 9 }
log = { format = "json" }
resumption = { session-cache = { bytes = "1MiB" } }
[[service]]
name = "web"
timeouts = { idle = "1h" }
[service.front]
listen = ["[::]:443", "unix:@a"]
[service.front.tls]
certificates = [{ chain = "site.crt", key = "site.key" }, "site.pem"]
alpn = ["h2", "http/1.1"]
versions = ["1.3"]
client-certificates = { mode = "required", ca = ["ca.pem"], crl = ["ca.crl"], allow.cn = ["a,b"] }
[service.back]
servers = [{ address = "a:80", weight = 3 }, { address = "b:80", backup = true }]
send-proxy = { version = "v2", crc32c = true }
check = { kind = "http", path = "/x" }
"#,
    ),
    (
        "--listen [::]:443 --certificate site.pem --index a.html,b.html --files data \
         --hidden on --precompressed off --ktls-min-size 1MiB --ktls require",
        r#"
[[service]]
[service.front]
listen = ["[::]:443"]
tls = { certificates = ["site.pem"], ktls = { mode = "require", min-size = "1MiB" } }
[service.back]
files = { root = "data", index = ["a.html", "b.html"], hidden = true, precompressed = false }
"#,
    ),
    (
        "--listen [::]:443 --certificate site.pem --files /data --ktls off",
        r#"
[[service]]
front.listen = ["[::]:443"]
front.tls = { certificates = ["site.pem"], ktls = "off" }
back.files = "/data"
"#,
    ),
];

fn flags(line: &str) -> TypedConfiguration {
    let words: Vec<_> = line.split_whitespace().collect();
    let pairs = words.chunks_exact(2);
    TypedConfiguration::Flags(
        pairs
            .map(|pair| (pair[0].trim_start_matches("--").to_owned(), pair[1].to_owned()))
            .collect(),
    )
}

#[test]
fn flags_mean_what_keys_mean() {
    for (line, text) in ALIKE {
        assert_eq!(load(&flags(line)).settings, settings(text), "{line}");
    }
}

#[test]
fn faults_in_flags_name_the_flag() {
    let source = flags("--listen [::]:443 --certificate site.pem");
    let diagnostics = config::load(&source, &mut files()).unwrap_err();
    let text: String = diagnostics.iter().map(|one| format!("{one}\n")).collect();
    let missing = "error: --backend or --files is missing\n\
                   hint: give --backend ADDRESS or --files PATH\n";
    assert_eq!(text, missing);
    let source = flags("--listen nowhere --certificate gone.pem --backlog many --weight 0");
    let diagnostics = config::load(&source, &mut files()).unwrap_err();
    let text: String = diagnostics.iter().map(|one| format!("{one}\n")).collect();
    for part in [
        "error: --listen: \"nowhere\" has no port",
        "error: --certificate: cannot read gone.pem",
        "error: --backlog: \"many\" is no whole number",
        "error: --weight: is out of range: 1 to 256",
        "error: --backend is missing\nhint: give --backend ADDRESS before --weight, which belongs ",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn every_default_is_valid_when_written_out() {
    let of_cluster = |key: &&options::Key| key.path.starts_with("cluster.");
    for key in config::TABLE.keys.iter().filter(|key| !of_cluster(key)) {
        let (options::Default::Text(text), Some(flag)) = (key.default, key.flag) else {
            continue;
        };
        let minimal = ALIKE[0].0;
        // Keys that the enclosing table requires.
        let line = match key.parent() {
            "service.back.check" => format!("{minimal} --check http"),
            "service.front.tls.acme" | "service.front.tls.acme.challenge" => {
                format!("{minimal} --acme a.example --acme-accept-terms true")
            }
            "service.front.tls.client-certificates" => {
                format!("{minimal} --client-certificates required --client-ca ca.pem")
            }
            "service.front.starttls" => format!("{minimal} --starttls smtp"),
            "service.back.tls" => format!("{minimal} --backend-ca ca.pem"),
            "service.back.tunnel" => format!("{minimal} --tunnel a.example:1"),
            "service.back.send-proxy" => format!("{minimal} --send-proxy v2"),
            "service.back.files" => minimal.replace("--backend 127.0.0.1:80", "--files /data"),
            _ => minimal.to_owned(),
        };
        let plain = load(&flags(&line)).settings;
        let written = load(&flags(&format!("{line} --{flag} {text}"))).settings;
        assert_eq!(plain, written, "{}", key.path);
    }
}

#[test]
fn expired_lists_refuse_unless_they_are_accepted() {
    let line = format!(
        "{} --client-certificates required --client-ca ca.pem --client-crl ca.crl",
        ALIKE[0].0
    );
    for (more, expected) in
        [("", ExpiredLists::Refuse), (" --client-crl-expired accept", ExpiredLists::Accept)]
    {
        let mut settings = load(&flags(&format!("{line}{more}"))).settings;
        let front = settings.data_plane.services.remove(0).front;
        assert_eq!(front.terminated().unwrap().client.expired_lists, expected, "{more}");
    }
}

#[test]
fn every_word_of_every_choice_is_understood() {
    for key in config::TABLE.keys {
        let (options::Kind::Choice(words), Some(flag)) = (key.kind, key.flag) else {
            continue;
        };
        for word in words {
            let line = format!("{} --{flag} {word}", ALIKE[0].0);
            let Err(diagnostics) = config::load(&flags(&line), &mut files()) else {
                continue;
            };
            let unknown = diagnostics.iter().any(|one| one.message.contains("is not known"));
            assert!(!unknown, "{}: {word}", key.path);
        }
    }
}

#[test]
fn every_example_of_the_reference_is_toml_of_known_keys() {
    for key in config::TABLE.keys {
        let text = match key.parent() {
            "" => key.example.to_owned(),
            parent => format!("[{}]\n{}", parent.replacen("service", "[service]", 1), key.example),
        };
        let text = text.replace("[[service]", "[[service]]\n[service");
        let Err(diagnostics) = config::load(&file(&text), &mut files()) else {
            continue;
        };
        for one in diagnostics {
            let unknown = one.message.contains("unknown key") || one.message.contains("expected");
            assert!(!unknown, "{}: {one}\n{text}", key.path);
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,200}") {
        let _ = config::load(&file(&text), &mut files());
    }

    #[test]
    fn no_cut_or_changed_configuration_makes_it_panic(
        cut in 0..ALIKE[1].1.len(),
        from in 0..ALIKE[1].1.len(),
        with in "[\\[\\]{}\"=,.\\n a-z0-9-]{0,3}",
    ) {
        let text = ALIKE[1].1;
        let (from, cut) = (from.min(cut), from.max(cut));
        let changed = format!("{}{with}{}", &text[..from], &text[cut..]);
        // Each refusal has an error.
        if let Err(diagnostics) = config::load(&file(&changed), &mut files()) {
            prop_assert!(diagnostics.iter().any(|one| one.severity == Severity::Error));
        }
    }

    #[test]
    fn no_flag_value_makes_it_panic(flag in 0..config::TABLE.keys.len(), value in ".{0,20}") {
        if let Some(flag) = config::TABLE.keys[flag].flag {
            let flags = vec![(flag.to_owned(), value)];
            let _ = config::load(&TypedConfiguration::Flags(flags), &mut files());
        }
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(config::load(&file(&deep), &mut files()).is_err());
}
