//! `lariat-lab load`: requests are refused before the first packet, or done and recorded.

use suite::lab::command;
use suite::prelude::*;

fn load(words: &[&str]) -> Finished {
    run(command().arg("load").args(words))
}

fn record(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_contradiction_is_told_at_once_where_it_stands() {
    let directory = Directory::new();
    let text = "url = \"https://127.0.0.1:1/1k\"\nhandshake = \"psk\"\ntls = \"1.2\"\n";
    let plan = directory.write("plan.toml", text);
    let answer = load(&["--plan", plan.to_str().unwrap(), "--size", "1k"]);
    assert_eq!(answer.code(), 2);
    let place = format!("--> {}:2:13", plan.display());
    answer.assert_stderr(&place);
    answer.assert_stderr("2 | handshake = \"psk\"");
    answer.assert_stderr("--size: stands beside a path");
}

#[test]
fn a_slip_has_its_remedy() {
    for (words, remedy) in [
        (&["127.0.0.1:8443"][..], "https://"),
        (&[], "lariat-lab load https://"),
        (&["--plan", "/nowhere/plan.toml"], "--plan names a TOML file"),
    ] {
        let answer = load(words);
        answer.assert_fails(2, &[remedy]);
    }
}

#[test]
fn flags_replace_what_the_plan_says_and_the_record_repeats_it() {
    let origin = Origin::start();
    let directory = Directory::new();
    let text = format!(
        "url = \"{}\"\nrate = 5\nduration = \"1h\"\nthreads = 1\nheader = [\"X-A: b\"]\n\
         record = \"out.json\"\n",
        origin.url("/1k")
    );
    let plan = directory.write("plan.toml", text);
    let flags = ["--plan", plan.to_str().unwrap(), "--connections", "3", "--count", "20"];
    let answer = load(&flags);
    assert_eq!(answer.code(), 0, "{answer:?}");
    let path = directory.join("out.json");
    assert!(answer.stderr.contains(&format!("The record is {}", path.display())));
    let first = record(&path);
    assert_eq!(first["totals"]["succeeded"], 20, "{answer:?}");
    assert_eq!(first["plan"]["arrival"]["closed"], 3);
    assert_eq!(first["plan"]["timeout_ns"], 5_000_000_000_u64);
    assert_eq!(first["plan"]["request"]["headers"][0][0], "X-A");
    let words = first["command"].as_array().unwrap().iter();
    let again: Vec<_> = words.skip(1).map(|word| word.as_str().unwrap()).collect();
    assert!(!again.contains(&"--plan"), "{again:?}");
    fs::remove_file(&path).unwrap();
    assert_eq!(run(command().args(&again)).code(), 0, "{again:?}");
    let second = record(&path);
    assert_eq!(second["totals"], first["totals"]);
    assert_eq!(second["plan"], first["plan"]);
}

#[test]
fn a_load_in_which_nothing_succeeds_says_so() {
    let url = format!("http://{}/", free_address());
    let answer = load(&[&url, "--count", "5", "--record", "none"]);
    assert_eq!(answer.code(), 4, "{answer:?}");
    answer.assert_stdout("connect-refused");
    let bounds = ["--expect", "p99<1s,error-rate<99%"];
    let unmet = load(&[&[&*url, "--count", "5", "--record", "none"][..], &bounds].concat());
    unmet.assert_fails(7, &["p99 is not known", "error-rate is 100 %, expected: < 99 %"]);
    let name = load(&["http://host.invalid/", "--record", "none"]);
    name.assert_fails(3, &["host.invalid:80 cannot be resolved"]);
}

#[test]
fn only_a_record_is_replaced_by_a_record() {
    let origin = Origin::start();
    let directory = Directory::new();
    let key = directory.write("site.key", "secret");
    let url = origin.url("/");
    let answer = load(&[&url, "--record", key.to_str().unwrap(), "--count", "5"]);
    answer.assert_fails(2, &["no record of a load"]);
    assert_eq!(fs::read_to_string(&key).unwrap(), "secret");
    let nowhere = directory.join("none/out.json");
    let answer = load(&[&url, "--record", nowhere.to_str().unwrap(), "--count", "5"]);
    assert_eq!(answer.code(), 2, "{answer:?}");
}

#[test]
fn data_goes_to_the_standard_output() {
    let origin = Origin::start();
    let url = origin.url("/");
    let answer = load(&[&url, "--count", "5", "--record", "-", "--quiet"]);
    let record: Value = serde_json::from_str(&answer.stdout).unwrap();
    assert_eq!(record["totals"]["attempted"], 5);
    answer.assert_stderr("/s succeeded of ");
    let told = load(&["--help"]);
    assert!(told.code() == 0 && told.stdout.contains("  --requests-per-session <N|unlimited>\n"));
    assert_eq!(told.stderr, "");
}
