//! `lariat-lab run`, end to end in miniature: measurements, refusals, and resumed runs.

use std::collections::BTreeSet;

use suite::desk::{Desk, SMALL, assert_said, measurements};
use suite::prelude::*;

#[test]
fn every_configuration_is_measured_as_often_as_planned() {
    let desk = Desk::new();
    let finished = desk.small("");
    assert_eq!(finished.code(), 0, "{finished:?}");
    assert_eq!(finished.stdout, "");
    let events = desk.events();
    let (first, last) = (&events[0], events.last().unwrap());
    assert_eq!((&first["event"], &first["mode"]), (&"began".into(), &"quick".into()));
    assert_eq!(first["command"][2], "./small.toml");
    assert_eq!(first["targets"].as_array().unwrap().len(), 2);
    assert_eq!((&last["event"], &last["is_complete"]), (&"ended".into(), &true.into()));
    let read = desk.of_kind("measured");
    assert_eq!((read.len(), measurements(&read).len()), (8, 8));
    for measurement in &read {
        assert!(measurement["counts"]["succeeded"].as_u64().unwrap() > 0, "{measurement}");
        assert_eq!(measurement["counts"]["failed"], 0, "{measurement}");
        for used in ["server_cpu_ns", "server_switches"] {
            assert!(measurement[used].as_u64().unwrap() > 0, "{measurement}");
        }
    }
    // Round by round: every configuration once before any is measured again.
    let rounds: Vec<_> = read.iter().map(|event| event["repeat"].as_u64().unwrap()).collect();
    assert_eq!(rounds, [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_said(&finished, &["[8/8, done]", "lariat-lab report r.jsonl"]);
}

#[test]
fn the_order_is_decided_by_the_seed() {
    let order = |seed: &str| {
        let desk = Desk::new();
        let words = format!("--targets plain --repeats 3 --seed {seed}");
        assert_eq!(desk.small(&words).code(), 0);
        let read = desk.of_kind("measured");
        let configurations =
            read.iter().map(|event| event["configuration"].as_str().unwrap().to_owned());
        configurations.collect::<Vec<_>>()
    };
    let first = order("5");
    assert_eq!(first, order("5"));
    let others = (6..14).map(|seed| order(&seed.to_string()));
    assert!(others.into_iter().any(|other| other != first));
}

#[test]
fn configurations_are_chosen() {
    let desk = Desk::new();
    let finished = desk.small("--only size=some --only target=plain --repeats 1 --duration 100ms");
    assert_eq!(finished.code(), 0, "{finished:?}");
    assert_eq!(desk.events()[0]["mode"], "own");
    let read = measurements(&desk.of_kind("measured"));
    assert_eq!(read, BTreeSet::from([("target=plain size=some".to_owned(), 0)]));
}

#[test]
fn our_own_scenarios_can_be_listed_and_planned() {
    let desk = Desk::new();
    let list = desk.run("--list").success();
    let plan = desk.run("all --dry-run --full").success();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(list.contains(&format!("{name}\n    ")), "{name}: {list}");
        assert!(plan.contains(&format!("\n{name}: ")), "{name}: {plan}");
    }
    assert!(list.contains("quick: ") && list.contains("full: "), "{list}");
    assert_has(&plan, "lariat-lab load https://localhost/");
    assert!(!desk.path("r.jsonl").exists());
}

#[test]
fn slips_are_refused_before_anything_starts() {
    let desk = Desk::new();
    for (words, said) in [
        ("", ["there is no scenario", "--list` lists them"]),
        ("chipers", ["no scenario `chipers`", "did you mean `ciphers`?"]),
        ("./none.toml", ["cannot read ./none.toml", "docs/guide/lab.md"]),
        ("./small.toml --targets plian", ["no target `plian`", "did you mean `plain`?"]),
        ("./small.toml --program lairat=/x", ["no target `lairat`", "mean `lariat`?"]),
        ("./small.toml --only target=plian", ["no target `plian`", "mean `plain`?"]),
        ("./small.toml --only sise=some", ["no factor `sise`", "mean `size`?"]),
        ("./small.toml --only size=smoe", ["no value of `size` `smoe`", "mean `some`?"]),
        ("./small.toml --server-cpus 4000", ["may not use CPU 4000", "it may use"]),
        ("./small.toml --ful", ["unexpected argument '--ful'", "exists: '--full'"]),
        ("--resume none.jsonl", ["none.jsonl", "hint: "]),
        ("--scenario-folder none --list", ["in none cannot be listed", "--scenario-folder"]),
        ("small --target-folder none", ["none", "--target-folder"]),
    ] {
        let finished = desk.run(words);
        assert_ne!(finished.code(), 0, "{words}");
        assert_said(&finished, &said);
        assert!(!desk.path("r.jsonl").exists());
    }
}

#[test]
fn a_file_that_is_wrong_is_told_with_its_place() {
    for (from, to, said) in [
        ("question", "questoin", ["small.toml:2:1", "did you mean `question`?"]),
        ("connections = 2", "conections = 2", ["small.toml:18:1", "mean `connections`?"]),
        ("[\"1.3\"]", "[\"1.4\"]", ["small.toml:16", "no `1.4` here"]),
        ("\"plain\", ", "\"plian\", ", ["no target `plian`", "mean `plain`?"]),
        ("\"rate\"", "\"raet\"", ["no `raet` here", "mean `rate`?"]),
        ("\"1k\"", "\"1k\", handshake = \"psk\", tls = \"1.2\"", ["handshake", "hint: "]),
        ("\"1k\"", "\"1k\", url = \"https://x/\"", ["is not a scenario's", "[quick]"]),
        ("title = \"size\"", "title = \"size", ["small.toml:25", "docs/guide/lab.md"]),
    ] {
        let wrong = SMALL.replacen(from, to, 1);
        assert_ne!(wrong, SMALL, "{from}");
        let finished = Desk::with(&wrong).small("");
        assert_eq!(finished.code(), 2, "{to}: {finished:?}");
        assert_said(&finished, &said);
    }
}

#[test]
fn too_few_cpus_and_files_leave_the_other_configurations() {
    let values = "[[factor.value]]\nname = \"wide\"\ntitle = \"x\"\n\
                  server = { workers = 4000 }\n\
                  [[factor.value]]\nname = \"many\"\ntitle = \"x\"\n\
                  load = { connections = 900 }\n";
    let desk = Desk::with(&format!("{SMALL}{values}"));
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 1024; exec \"$0\" \"$@\""]);
    limited.arg(lab::command().get_program());
    let words = "./small.toml --speeds none --record r.jsonl --repeats 1 --targets plain";
    let finished = run(&mut desk.by(limited, words));
    assert_eq!(finished.code(), 6, "{finished:?}");
    assert_said(
        &finished,
        &[
            "4000 workers want a CPU each",
            "1900 open files, and the limit is 1024",
            "ulimit -n 1900",
            "2 configurations have fewer",
        ],
    );
    assert_eq!(desk.of_kind("measured").len(), 2);
    let missed = desk.of_kind("failed");
    assert_eq!(missed.len(), 2);
    assert!(missed.iter().all(|miss| miss["kind"] == "unsupported"), "{missed:?}");
}

#[test]
fn a_target_that_is_missing_or_crashes_leaves_the_others() {
    let desk = Desk::with(&SMALL.replacen("\"plain\", ", "\"plain\", \"broken\", \"hitch\", ", 1));
    fs::create_dir_all(desk.path("own/broken")).unwrap();
    let target = "title = \"a server that ends\"\nprogram = \"sh\"\nserves = \"itself\"\n\
                scheme = \"https\"\nversion = [[\"{{program}}\", \"-c\", \"echo 1.0\"]]\n\
                start = [\"{{program}}\", \"-c\", \"echo no such luck; exit 3\"]\n";
    fs::write(desk.path("own/broken/target.toml"), target).unwrap();
    let finished = desk.small("--target-folder own --program hitch=/nowhere --repeats 3");
    assert_eq!(finished.code(), 6, "{finished:?}");
    assert_said(
        &finished,
        &[
            "hitch takes no part: there is no program /nowhere",
            "broken ended as it started (exit status: 3)",
            "no such luck",
            "4 configurations have fewer",
        ],
    );
    assert_eq!(desk.of_kind("measured").len(), 2 * 2 * 3);
    let missed = desk.of_kind("failed");
    // Twice each; then the laboratory gives up.
    assert_eq!(missed.len(), 4, "{missed:?}");
    assert!(missed.iter().all(|miss| miss["kind"] == "failed"), "{missed:?}");
    let hitch = &desk.events()[0]["targets"];
    let hitch = hitch.as_array().unwrap().iter().find(|target| target["name"] == "hitch");
    assert!(hitch.unwrap()["missing"].is_string());
}

#[test]
fn when_nothing_can_be_measured_the_run_has_failed() {
    let desk = Desk::new();
    let finished = desk.small("--targets hitch --program hitch=/nowhere");
    assert_eq!(finished.code(), 1, "{finished:?}");
    assert_said(&finished, &["no configuration was measured"]);
}

#[test]
fn a_void_measurement_says_what_was_asked_and_what_came() {
    let desk = Desk::with(&SMALL.replacen("TLSv1.3", "TLSv1.2", 1));
    let finished = desk.small("--repeats 1 --only size=none");
    assert_eq!(finished.code(), 6, "{finished:?}");
    assert_said(&finished, &["void: ", "TLSv1.2", "TLSv1.3"]);
    // Without TLS, handshakes have no expectation.
    assert_eq!(desk.of_kind("measured").len(), 1);
    assert_eq!(desk.of_kind("failed")[0]["kind"], "void");
}

#[test]
fn a_folder_that_no_configuration_can_name_is_refused() {
    let desk = Desk::new();
    let folder = desk.path("with a blank");
    fs::create_dir(&folder).unwrap();
    let mut command = desk.command("./small.toml --speeds none --record r.jsonl");
    let finished = run(command.env("TMPDIR", &folder));
    assert_eq!(finished.code(), 1, "{finished:?}");
    assert_said(&finished, &["with a blank` has a blank", "hint: TMPDIR"]);
    assert!(!desk.path("r.jsonl").exists());
}

#[test]
fn what_failed_is_read_again_when_all_else_was() {
    let desk = Desk::with(&SMALL.replacen("\"plain\", ", "\"plain\", \"broken\", ", 1));
    let program = lab::command().get_program().to_owned();
    let (program, mended) = (program.to_str().unwrap(), desk.path("mended"));
    let script = format!(
        "test -e {} || exit 3; exec {program} origin --listen {{{{listen.address}}}} --quiet",
        mended.display()
    );
    fs::create_dir_all(desk.path("own/broken")).unwrap();
    let target = format!(
        "title = \"a server that is mended\"\nprogram = \"sh\"\nserves = \"itself\"\n\
         scheme = \"http\"\nversion = [[\"{{{{program}}}}\", \"-c\", \"echo 1.0\"]]\n\
         start = [\"{{{{program}}}}\", \"-c\", \"{script}\"]\n"
    );
    fs::write(desk.path("own/broken/target.toml"), target).unwrap();
    let finished = desk.small("--target-folder own --targets plain,broken");
    assert_eq!(finished.code(), 6, "{finished:?}");
    assert_eq!(desk.of_kind("measured").len(), 4);
    fs::write(&mended, "").unwrap();
    let finished = desk.run("--resume r.jsonl");
    assert_eq!(finished.code(), 0, "{finished:?}");
    assert_said(&finished, &["what failed is measured again"]);
    let read = desk.of_kind("measured");
    assert_eq!((read.len(), measurements(&read).len()), (8, 8));
    let told = run(lab::command().arg("report").arg(desk.path("r.jsonl")));
    assert!(told.stdout.contains("8 of 8 measurements, 0 failed; complete"), "{told:?}");
    assert_said(&desk.run("--resume r.jsonl"), &["to its end already"]);
}

#[test]
fn the_clock_chooses_an_order_that_can_be_repeated() {
    let desk = Desk::new();
    assert_eq!(desk.small("--targets plain --repeats 1").code(), 0);
    let began = &desk.events()[0];
    let command = began["command"].as_array().unwrap();
    let seed = command[command.len() - 2..].to_vec();
    assert_eq!(seed[0], "--seed");
    assert_eq!(seed[1], began["seed"].as_u64().unwrap().to_string());
}

#[test]
fn what_cannot_be_taken_up_says_why() {
    let desk = Desk::new();
    assert_eq!(desk.small("--repeats 1 --targets plain").code(), 0);
    let whole = desk.text();
    let (first, _) = whole.split_once('\n').unwrap();
    let damaged = format!("{first}\n{{\"event\":\"measured\"}}\n");
    let current = format!("\"version\":\"{}\"", env!("CARGO_PKG_VERSION"));
    for (text, said) in [
        (whole.replacen("\"format\":3", "\"format\":0", 1), "format 0; this build reads"),
        ("{\"format\":2}\n".to_owned(), "this is no record"),
        (String::new(), "this is no record"),
        (damaged, "line 2 is damaged"),
        (whole.replacen(&current, "\"version\":\"0.0.1\"", 1), "lariat-lab 0.0.1 began it"),
        (whole.replacen("\"cpu\":\"", "\"cpu\":\"other ", 1), "begun on another host"),
        (whole.replacen("\"from\":\"ours\"", "\"from\":\"found\"", 1), "plain is another version"),
    ] {
        assert_ne!(text, whole, "{said}");
        fs::write(desk.path("r.jsonl"), &text).unwrap();
        let finished = desk.run("--resume r.jsonl");
        assert_eq!(finished.code(), 2, "{said}: {finished:?}");
        assert_said(&finished, &[said, "hint: "]);
        assert_eq!(desk.text(), text, "{said}");
    }
}

#[test]
fn a_record_belongs_to_one_run() {
    let desk = Desk::new();
    let words = "./small.toml --speeds none --record r.jsonl --targets plain --duration 1h";
    let mut running = Running::start(&mut desk.command(words));
    until_true("the record", || {
        running.assert_running();
        !desk.events().is_empty()
    });
    let second = run(&mut desk.command("--resume r.jsonl"));
    assert_eq!(second.code(), 2, "{second:?}");
    assert_said(&second, &["another run writes to r.jsonl"]);
    let third = run(&mut desk.command("./small.toml --record r.jsonl"));
    assert_eq!(third.code(), 2, "{third:?}");
    assert_said(&third, &["r.jsonl is there already", "--resume r.jsonl takes it up"]);
    running.signal(Signal::TERM);
    assert_eq!(running.wait().code(), Some(6));
    // The interrupted reading is in no record.
    assert_eq!(desk.events().len(), 2);
}
