//! The README and the guide: each configuration on them is valid, the programs understand each
//! command, and the first steps work as they are written.

use suite::prelude::*;
use toml::{Table, Value as Toml};

/// Blocks in TOML that are no configuration, by their page and a word in them.
const NO_CONFIGURATIONS: [(&str, &str, &str); 3] = [
    ("lab.md", "question = ", "a scenario of the laboratory, whose own tests read scenarios"),
    ("load.md", "[[request]]", "requests of a load, whose own tests read such files"),
    ("probe.md", "modern = {", "expectations of a probe, whose own tests read such files"),
];

/// Keys that a page shows without their table, because its text has named it.
const INNER_KEYS: [(&str, &[&str]); 3] =
    [("back", &["service"]), ("ktls", &["service", "front", "tls"]), ("peers", &["cluster"])];

/// Errors about files and folders of the reader, which a page's configuration names.
const FILES_OF_READERS: [&str; 3] = ["cannot read", "there is no", "No such file"];

/// Programs of others on the pages, and who runs these lines.
const OTHERS: &[(&str, &str)] = &[
    ("#!/bin/sh", "tests/acme has hooks of its own"),
    ("/usr/share/lariat/upgrade", "tests/packages/inside"),
    ("LIST=", "tests/suite/terminator/connections/foreign/encrypted_hello.rs"),
    ("RENEWED_LINEAGE=", "tests/packages/certbot"),
    ("a$ lariat-lab", "two hosts at one time: tests/suite/laboratory/load"),
    ("b$ lariat-lab", "the same"),
    ("apt", "tests/release/run"),
    ("archive=", "tests/packages/run"),
    ("brotli", "not ours"),
    ("cargo build", "run-tests"),
    ("case", "a hook: tests/acme"),
    ("(umask 077; cat fullchain.pem", "not ours"),
    ("(umask 077; openssl rand", "not ours"),
    ("certbot", "tests/packages/certbot"),
    ("chown -R 65532", "tests/packages/docker"),
    ("curl -fsS https://packages.example", "tests/release/run"),
    ("curl http://127.0.0.1:9090/metrics", "below, at another address"),
    ("docker", "tests/packages/docker"),
    ("echo \"deb", "tests/release/run"),
    ("export PATH", "not ours"),
    ("find /data", "not ours"),
    ("generate |", "stands for a program of the reader's"),
    ("helm", "tests/release/run"),
    ("install -d", "tests/packages/run"),
    ("install -D", "tests/packages/inside"),
    ("ip r", "tests/suite/terminator/connections/sources.rs"),
    ("journalctl", "tests/kernel/systemd.rs has the journal's fields"),
    ("kubectl", "tests/packages/kubernetes"),
    ("ln -s", "tests/packages/certbot"),
    ("./lariat check", "the program of an archive: tests/packages/run"),
    ("printf", "a hook: tests/acme"),
    ("psql", "tests/databases"),
    ("sleep", "a hook: tests/acme"),
    ("systemctl", "tests/packages/inside"),
    ("systemd-sysusers", "tests/packages/run"),
    ("tar", "tests/packages/run"),
];

/// A block of code on a page.
struct Block {
    place: String,
    text: String,
}

/// Returns the blocks of these languages on all pages.
fn blocks(languages: &[&str]) -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guide = fs::read_dir(root.join("docs/guide")).unwrap();
    let guide = guide.map(|entry| entry.unwrap().path());
    let mut found = Vec::new();
    for path in guide.chain([root.join("README.md")]) {
        let page = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let mut open: Option<Block> = None;
        for (number, line) in (1..).zip(text.lines()) {
            match (&mut open, line.strip_prefix("```")) {
                (None, Some(language)) => {
                    let place = format!("{page}:{number}:{language}");
                    open = Some(Block { place, text: String::new() });
                }
                (Some(_), Some(_)) => found.extend(open.take()),
                (Some(block), None) => block.text += &format!("{line}\n"),
                (None, None) => {}
            }
        }
    }
    let is_wanted = |block: &Block| {
        let language = block.place.rsplit(':').next();
        language.is_some_and(|language| languages.contains(&language))
    };
    found.retain(is_wanted);
    found
}

/// Completes a configuration: a page leaves out what its reader has already.
fn completed(mut written: Table) -> Table {
    let mut outer = Table::new();
    for (key, path) in INNER_KEYS {
        let Some(value) = written.remove(key) else { continue };
        let mut inner = &mut outer;
        for name in path {
            let next = inner.entry(*name).or_insert_with(|| Table::new().into());
            inner = next.as_table_mut().unwrap();
        }
        inner.insert(key.to_owned(), value);
    }
    for (key, value) in outer {
        let value = if key == "service" { vec![value].into() } else { value };
        written.insert(key, value);
    }
    // The key would name files of this host.
    written.remove("include");
    if let Some(cluster) = written.get_mut("cluster").and_then(Toml::as_table_mut) {
        cluster.entry("secret").or_insert_with(|| "/etc/lariat/cluster.key".into());
    }
    // Some pages go on within a service that they have shown before.
    if let Some(one) = written.get("service").filter(|service| service.is_table()).cloned() {
        written.insert("service".to_owned(), vec![one].into());
    }
    let services = written.entry("service").or_insert_with(|| vec![Table::new()].into());
    for service in services.as_array_mut().unwrap() {
        let service = service.as_table_mut().unwrap();
        service.entry("name").or_insert_with(|| "web".into());
        let front = service.entry("front").or_insert_with(|| Table::new().into());
        let front = front.as_table_mut().unwrap();
        front.entry("listen").or_insert_with(|| vec!["[::]:443"].into());
        let redirects = front.contains_key("redirect");
        if !redirects {
            let tls = front.entry("tls").or_insert_with(|| Table::new().into());
            if let Some(tls) = tls.as_table_mut().filter(|tls| !tls.contains_key("acme")) {
                tls.entry("certificates").or_insert_with(|| vec!["/etc/lariat/certs/"].into());
            }
        }
        let back = service.entry("back").or_insert_with(|| Table::new().into());
        let back = back.as_table_mut().unwrap();
        if !redirects && !back.contains_key("files") {
            back.entry("servers").or_insert_with(|| vec!["127.0.0.1:8080"].into());
        }
    }
    written
}

/// Returns the errors of a configuration that no file of its reader would mend.
fn faults(configuration: &str) -> Vec<String> {
    let said = lariat::check(configuration).stderr;
    let errors = said.split("\n\n").filter(|one| one.starts_with("error"));
    let is_fault = |one: &&str| !FILES_OF_READERS.iter().any(|words| one.contains(words));
    errors.filter(is_fault).map(str::to_owned).collect()
}

#[test]
fn each_configuration_on_the_pages_has_no_fault_but_files_of_its_reader() {
    let (mut count, mut found) = (0, Vec::new());
    for Block { place, text } in blocks(&["toml"]) {
        let is_other =
            |(page, word, _): &(&str, &str, &str)| place.starts_with(page) && text.contains(word);
        if NO_CONFIGURATIONS.iter().any(is_other) {
            continue;
        }
        let written: Table = text.parse().unwrap_or_else(|error| panic!("{place}: {error}"));
        let whole = completed(written).to_string();
        found.extend(faults(&whole).iter().map(|fault| format!("{place}: {fault}")));
        count += 1;
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
    assert!(count >= 40, "{count}");
}

#[test]
fn a_configuration_with_a_fault_would_be_found() {
    let whole = completed("back = { servres = [] }".parse().unwrap()).to_string();
    let faults = faults(&whole);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_has(&faults[0], "unknown key `servres`");
}

/// Returns the lines of commands, with continued ones joined.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.trim_start_matches("$ ").trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// Returns the words that a shell makes of a command of ours, the program among them.
fn words(line: &str) -> Vec<String> {
    let directory = Directory::new();
    let line = line.split(" | ").next().unwrap_or_default();
    let line = line.trim_end_matches('&');
    let ours = "lariat() { printf '%s\\0' lariat \"$@\" >&3; }\n\
                lariat_lab() { printf '%s\\0' lariat-lab \"$@\" >&3; }";
    let line = line
        .strip_prefix("lariat-lab")
        .map_or_else(|| line.to_owned(), |rest| format!("lariat_lab{rest}"));
    let script = format!("set -f\nexec 3>words\n{ours}\n{line}");
    run(Command::new("sh").args(["-c", &script]).current_dir(directory.path())).success();
    let text = fs::read_to_string(directory.join("words")).unwrap();
    text.split_terminator('\0').map(str::to_owned).collect()
}

/// Asks for help with a command: its arguments are read first, and refused if they are wrong.
fn understood(words: &[String]) -> Finished {
    let (program, arguments) = words.split_first().expect("a program");
    let mut command = if program == "lariat" { lariat::command() } else { lab::command() };
    let end = arguments.iter().position(|one| one == "--").unwrap_or(arguments.len());
    let (before, after) = arguments.split_at(end);
    run(command.args(before).arg("--help").args(after))
}

#[test]
fn each_command_on_the_pages_is_understood() {
    let mut count = 0;
    for Block { place, text } in blocks(&["sh", "console"]) {
        for line in commands(&text) {
            if OTHERS.iter().any(|(start, _)| line.starts_with(start)) {
                continue;
            }
            if !line.starts_with("lariat ") && !line.starts_with("lariat-lab ") {
                // The other lines are output, where commands are shown with it.
                assert!(place.ends_with("console"), "{place}: nobody runs: {line}");
                continue;
            }
            let answer = understood(&words(&line));
            assert_eq!(answer.code(), 0, "{place}: {line}: {answer:?}");
            count += 1;
        }
    }
    assert!(count >= 60, "{count}");
}

#[test]
fn a_command_that_no_program_knows_would_be_found() {
    let words = words("lariat-lab load https://a.example/ --handshakes 'psk'   # as it was");
    assert_eq!(words, ["lariat-lab", "load", "https://a.example/", "--handshakes", "psk"]);
    understood(&words).assert_fails(2, &["--handshakes"]);
}

/// Runs the configuration of the page, at addresses that are free here.
#[test]
fn the_first_steps_are_taken_as_they_are_written() {
    let mut blocks = blocks(&["toml"]).into_iter();
    let block = blocks.find(|block| block.place.starts_with("first-steps.md")).unwrap();
    let servers = [0, 1].map(|_| Server::start(Behaviour::Http(b"hello".to_vec())));
    let (site, front) = (Site::new(), free_address());
    site.leaf(&["localhost"]).write(&site.directory, "certs/site.pem");
    let folder = format!("{}/", site.directory.join("certs").display());
    let text = block.text.replace("[::]:443", &front.to_string()).replace("certs/", &folder);
    let text = text.replace("127.0.0.1:8080", servers[0].address());
    let text = text.replace("127.0.0.1:8081", servers[1].address());
    // The fixture brings its own status page.
    let (text, admin) = text.split_once("[admin]").unwrap();
    assert_has(admin, "listen = \"127.0.0.1:9090\"");
    lariat::check(text).assert_stdout("good: 1 service");
    let mut lariat = Lariat::start(text);
    let page = curl_tls(&site, front);
    assert_eq!(page.run().success(), "hello");
    lariat.ask("status").assert_stdout("serving");
    let metrics = curl().url(&format!("http://{}/metrics", lariat.admin())).run().success();
    assert_has(metrics, "lariat_connections");
    lariat.ask("reload").assert_stdout("is served");
    lariat.ask("drain").success();
    assert_eq!(lariat.wait().code(), Some(0));
}
