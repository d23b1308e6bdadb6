//! `lariat-lab plan` and `lariat-lab simulate`, with the records of the documentation: answers move
//! as the question does, name their sources, and refuse the impossible.

use serde_json::Value;
use suite::lab::Folder;
use suite::prelude::*;
use suite::process::status_line;
use suite::program::process_id;

const RECORDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reports/2026-11-25-sid");

/// Returns records with costs of connections, of less load, and of idle ones.
fn records() -> String {
    let names = ["terminate", "part-load", "idle"];
    names.map(|name| format!("--record {RECORDS}/{name}.jsonl.gz")).join(" ")
}

fn document(words: &str) -> Value {
    let desk = Folder::with(&[]);
    let told = desk.run(&format!("{words} {} --json", records()));
    assert_eq!(told.code(), 0, "{told:?}");
    serde_json::from_str(&told.stdout).unwrap()
}

fn hosts(words: &str) -> f64 {
    let plan = document(&format!("plan --cores 4 {words}"));
    plan["targets"][0]["hosts"]["value"].as_f64().unwrap()
}

#[test]
fn hosts_follow_the_question() {
    let base = hosts("--rate 4e6/s --requests-per-connection 4 --resumed 50%");
    assert!(base > 1.0, "{base}");
    assert!(hosts("--rate 4e7/s --requests-per-connection 4 --resumed 50%") > 5.0 * base);
    assert!(hosts("--rate 4e6/s --requests-per-connection 1 --resumed 50%") > 1.5 * base);
    assert!(hosts("--rate 4e6/s --requests-per-connection 4 --resumed 50% --lose 3") >= base + 2.0);
    // A signature with RSA 2048 takes sixteen times as long.
    let dear = "--rate 4e6/s --requests-per-connection 4 --resumed 0% --key rsa-2048";
    assert!(hosts(dear) > 1.5 * base);
}

#[test]
fn each_figure_names_its_measurement() {
    let desk = Folder::with(&[("farm.toml", "rate = '9000/s'\ncores = 4\nresumed = 0.5\n")]);
    let told = desk.run(&format!("plan farm.toml {} --target lariat,hitch", records()));
    assert_eq!(told.code(), 0, "{told:?}");
    // Lines are broken where the terminal ends.
    let words: Vec<_> = told.stdout.split_whitespace().collect();
    let words = words.join(" ");
    assert_has(&*words, "terminate: terminate target=lariat connection=full-13-request");
    assert_has(&*words, "terminate: terminate target=hitch connection=psk-13-request");
    told.assert_stdout("CPU binds");
    // Scaling was never measured on two cores, and the plan reports that.
    told.assert_stdout("no record says how lariat scales");
}

#[test]
fn what_cannot_be_is_refused_with_its_remedy() {
    let load = include_str!("../../../docs/reference/record.md");
    let load = load.split_once("```json\n").unwrap().1.split_once("```\n").unwrap().0;
    let desk = Folder::with(&[("load.json", load), ("bad.toml", "rat = 5\n")]);
    let own = records();
    for (words, code, said) in [
        ("plan --rate 5".to_owned(), 2, "no record is named"),
        ("plan --rate 5 --record load.json".to_owned(), 2, "does not say what its server used"),
        ("plan --rate 5 --record missing".to_owned(), 2, "cannot read `missing`"),
        (format!("plan {own}"), 2, "--rate is missing"),
        (format!("plan --rate=-5 {own}"), 2, "is not a number from"),
        (
            format!("plan --rate 5 --target nobody {own}"),
            2,
            "no record has a measurement of nobody",
        ),
        (format!("plan --rate 5 --clients 1e9 --resumed 90% {own}"), 2, "90 % resumed cannot be"),
        (format!("plan --rate 5 --busy-max 0% {own}"), 2, "is not a share from 1% to 100%"),
        (format!("plan --rate 5 --key rsa-4096 {own}"), 2, "hint: `lariat-lab host --speeds full"),
        (format!("plan bad.toml {own}"), 2, "unknown field `rat`"),
        (format!("simulate --nodes 3 --rate 5 {own} --event 5m"), 2, "is not understood"),
    ] {
        let told = desk.run(&words);
        assert_eq!(told.code(), code, "{words}: {told:?}");
        assert!(told.stderr.contains(said) && told.stderr.contains("hint: "), "{words}: {told:?}");
    }
    let unmet = desk.run(&format!("plan --rate 5 --p99 1us {own}"));
    assert_eq!(unmet.code(), 7, "{unmet:?}");
    unmet.assert_stdout("not to be met: the p99");
}

#[test]
fn mixes_of_handshakes_are_predicted_from_pure_ones() {
    let desk = Folder::with(&[]);
    let own = records();
    let mixed = format!("--record {RECORDS}/implementations.jsonl.gz");
    let told = desk.run(&format!("plan --validate {own} {mixed} --json"));
    assert_eq!(told.code(), 0, "{told:?}");
    let rows: Vec<Value> = serde_json::from_str(&told.stdout).unwrap();
    let today = |target: &str| {
        let name = format!("target={target} context=today");
        let row = rows.iter().find(|row| row["configuration"] == name.as_str()).unwrap();
        row["error"].as_f64().unwrap().abs()
    };
    for target in ["lariat", "hitch", "haproxy-tcp", "nginx-stream"] {
        assert!(today(target) < 0.05, "{target}: {}", today(target));
    }
}

/// A farm whose clients come back to full handshakes only, and are stubborn.
const FARM: &str = "simulate --nodes 3 --rate 9000/s --cores 1 --key ecdsa-p256 --clients 300000 \
                    --resumed 99% --share none --patience 2s --retries 5 --back-off none \
                    --duration 3m";

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let desk = Folder::with(&[]);
    let words = format!("{FARM} --seed 4 --no-remedies {} --json", records());
    let (one, two) = (desk.run(&words), desk.run(&words));
    assert_eq!(one.code(), 0, "{one:?}");
    assert_eq!(one.stdout, two.stdout);
    let other = desk.run(&words.replace("--seed 4", "--seed 5"));
    assert_ne!(one.stdout, other.stdout);
}

/// Counts by groups, so a thousand nodes with 10⁸ clients take no longer than a short farm.
#[test]
fn a_thousand_nodes_serve_as_many_as_come() {
    let desk = Folder::with(&[]);
    let words = format!(
        "simulate --nodes 1000 --cores 2 --rate 1e6/s --clients 1e8 --duration 2m --seed 9 \
         --no-remedies {} --json",
        records()
    );
    let event = ["--event", "1m lose 1/3 for 30s"];
    let [one, two] = [(), ()].map(|()| run(desk.command(&words).args(event)));
    assert_eq!(one.code(), 0, "{one:?}");
    assert_eq!(one.stdout, two.stdout);
    let farm: Value = serde_json::from_str(&one.stdout).unwrap();
    let count = |name: &str| farm["load"]["totals"][name].as_f64().unwrap();
    assert!((count("attempted") / 120e6 - 1.0).abs() < 0.02, "{}", farm["load"]["totals"]);
    assert!(count("failed") > 0.0, "{}", farm["load"]["totals"]);
    let nodes = farm["nodes"].as_array().unwrap();
    let were_down = nodes.iter().filter(|node| node["seconds_down"].as_u64() > Some(0)).count();
    assert!((333..=334).contains(&were_down), "{were_down}");
}

#[test]
fn a_simulation_that_is_stopped_keeps_what_it_has() {
    let desk = Folder::with(&[]);
    let words = format!("{FARM} --nodes 1000 {} -o page.html", records());
    let words = words.replace("--nodes 3 ", "").replace("--duration 3m", "--duration 7d");
    let mut running = Running::start(&mut desk.command(&words));
    let process = process_id(running.id());
    let interrupt = 1 << (Signal::INT.as_raw() - 1);
    until_true("it to take the signal", || {
        running.assert_running();
        // The program reads signals from a descriptor, for which they are blocked.
        let blocked = status_line(process, "SigBlk");
        u64::from_str_radix(&blocked, 16).is_ok_and(|blocked| blocked & interrupt != 0)
    });
    running.signal(Signal::INT);
    assert_eq!(running.wait().code(), Some(6), "{}", running.stderr());
    assert_has(desk.read("page.html"), "SIMULATED, and stopped before its end.");
}

#[test]
fn a_log_is_a_day_as_well() {
    let line = |kind: &str, sampled: u32| {
        format!(
            "time=2026-11-28T10:02:07Z id=1 service=web version=TLSv1.3 handshake={kind} \
             sampled={sampled} reason=client-closed\n"
        )
    };
    let log = line("full", 60_000) + &line("psk", 240_000);
    let desk = Folder::with(&[("day.log", &log), ("other.log", "Nov 28 10:02:07 sshd: hello\n")]);
    let told = desk.run(&format!("plan --from-metrics day.log {}", records()));
    assert_eq!(told.code(), 0, "{told:?}");
    told.assert_stdout("5000 requests/s");
    told.assert_stdout("80.0 %");
    let told = desk.run(&format!("plan --from-metrics other.log {}", records()));
    told.assert_fails(2, &["`other.log`", "nor a log of connections", "hint: "]);
}

#[test]
fn a_simulated_page_says_that_it_is_simulated() {
    let desk = Folder::with(&[]);
    let event = ["--event", "1m lose 1 for 30s"];
    let mut command = desk.command(&format!("{FARM} {} -o page.html --svg figures", records()));
    let told = run(command.args(event));
    assert_eq!(told.code(), 0, "{told:?}");
    let page = desk.read("page.html");
    for wanted in ["SIMULATED.", "simulated: no connection was made", "1m lose 1 for 30s"] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(desk.names("figures").contains(&"simulated-farm.svg".to_owned()));
}
