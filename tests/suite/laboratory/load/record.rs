//! The record of a load goes to the named place, and is whole.

use suite::lab::command;
use suite::load::Record;
use suite::prelude::*;

#[test]
fn loads_that_begin_together_leave_a_record_each() {
    let (origin, directory) = (Origin::start(), Directory::new());
    let start = |_| {
        let mut load = command();
        load.current_dir(directory.path())
            .args(["load", &origin.url("/1k"), "--count", "20", "--timeout", "30s"])
            .args(["--quiet", "--threads", "1", "--cpus", "none"]);
        Running::start(&mut load)
    };
    let mut loads: Vec<Running> = (0..4).map(start).collect();
    for load in &mut loads {
        assert_eq!(load.wait().code(), Some(0), "{}", load.stderr());
    }
    let entries = fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names.len(), 4, "{names:?}");
    for name in names {
        let text = fs::read_to_string(directory.join(&name)).unwrap();
        assert_eq!(Record::read(&text).totals(), [20, 20, 0], "{name}");
        // Each load printed which one is its own.
        let told = |load: &Running| load.stderr().contains(&format!("is {name};"));
        assert_eq!(loads.iter().filter(|load| told(load)).count(), 1, "{name}");
    }
}

#[test]
fn a_record_that_cannot_be_written_is_told_after_the_summary() {
    let origin = Origin::start();
    let mut load = command();
    load.args(["load", &origin.url("/1k"), "--count", "5", "--record", "/dev/full"]);
    let answer = run(load.args(["--timeout", "30s"]));
    answer.assert_fails(1, &["cannot be written to /dev/full"]);
    answer.assert_stdout("/s succeeded of ");
}

#[test]
fn without_a_record_there_is_no_file() {
    let (origin, directory) = (Origin::start(), Directory::new());
    let mut load = command();
    load.current_dir(directory.path()).args([
        "load",
        &origin.url("/1k"),
        "--count",
        "5",
        "--record",
        "none",
    ]);
    let answer = run(load.args(["--timeout", "30s"]));
    assert_eq!(answer.code(), 0, "{answer:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Returns the moment `seconds` from now, as `--start-at` takes it.
fn moment(seconds: u64) -> String {
    let answer = Command::new("date")
        .args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"])
        .arg(format!("{seconds} seconds"))
        .output()
        .unwrap();
    String::from_utf8(answer.stdout).unwrap().trim().to_owned()
}

/// Starts loads that begin at one moment, which was in the future when each of them read it. On a
/// busy machine one may read it too late: then it reports that, and all begin later.
fn begun_together<const N: usize>(start: impl Fn(&str) -> [Running; N]) -> ([Running; N], String) {
    let begun = [3, 12, 20].into_iter().find_map(|seconds| {
        let at = moment(seconds);
        let mut loads = start(&at);
        let are_in_time = loads.each_mut().map(|load| load.wait().code() != Some(2));
        are_in_time.iter().all(|is| *is).then_some((loads, at))
    });
    begun.expect("twenty seconds are enough")
}

#[test]
fn loads_of_several_hosts_make_one_record() {
    let (origin, directory) = (Origin::start(), Directory::new());
    let load = |record: &str, words: &str| {
        let mut load = command();
        load.current_dir(directory.path())
            .args(["load", &origin.url("/1k"), "--record", record])
            .args(["--threads", "1", "--cpus", "none", "--timeout", "30s"])
            .args(words.split(' '));
        load
    };
    let start =
        |name, at: &str| Running::start(&mut load(name, &format!("--count 20 --start-at {at}")));
    let (loads, at) = begun_together(|at| ["a.json", "b.json"].map(|name| start(name, at)));
    for mut load in loads {
        assert_eq!(load.wait().code(), Some(0), "{}", load.stderr());
        assert!(load.stderr().contains(&format!("Waiting until {at}.")));
    }
    let merge = |parts: [&str; 2]| {
        let mut report = command();
        report.current_dir(directory.path()).arg("report");
        run(report.args(parts).args(["--merge", "sum.json"]))
    };
    let answer = merge(["a.json", "b.json"]);
    assert_eq!(answer.code(), 0, "{answer:?}");
    answer.assert_stdout("2 hosts: ");
    let text = fs::read_to_string(directory.join("sum.json")).unwrap();
    assert_eq!(Record::read(&text).totals(), [40, 40, 0]);
    assert!(text.contains(&at) && !text.contains("\"--start-at\""));
    // A load that began later, and one that was to begin in the past.
    let ([mut later], _) = begun_together(|at| [start("c.json", at)]);
    assert_eq!(later.wait().code(), Some(0), "{}", later.stderr());
    let answer = merge(["a.json", "c.json"]);
    answer.assert_fails(2, &["one load began at"]);
    let answer = run(&mut load("d.json", &format!("--count 1 --start-at {at}")));
    answer.assert_fails(2, &["--start-at: "]);
}

/// Returns the words of the container of a pod: the items of its `args`, one a line.
fn words_of_container(job: &str) -> Vec<&str> {
    let lines = job.lines().map(str::trim);
    let from_args = lines.skip_while(|line| *line != "args:").skip(1);
    let lines = from_args.filter(|line| !line.starts_with('#'));
    lines.map_while(|line| line.strip_prefix("- ")).collect()
}

/// The log of a pod holds both outputs; the record is the line that is JSON.
#[test]
fn the_pods_of_a_job_make_one_record() {
    let (_site, _server, service, _lariat) = serve(http());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/kubernetes/load-job.yaml");
    let job = fs::read_to_string(path).unwrap();
    let words = words_of_container(&job);
    assert!(words.len() > 8 && job.contains("command: [\"lariat-lab\"]"), "{words:?}");
    let directory = Directory::new();
    let pod = |index: usize, at: &str| {
        let mut pod = command();
        pod.args(words.iter().map(|word| match *word {
            "--rate=2000" => "--rate=40".to_owned(),
            "--duration=60s" => "--duration=1s".to_owned(),
            word => {
                word.replace("START_AT", at).replace("$(JOB_COMPLETION_INDEX)", &index.to_string())
            }
        }));
        pod.args(["--timeout=30s", &format!("--connect={}", service.address)]);
        Running::start(&mut pod)
    };
    let (pods, _) = begun_together(|at| [0, 1, 2].map(|index| pod(index, at)));
    let names = ["0.json", "1.json", "2.json"];
    for (mut pod, name) in pods.into_iter().zip(names) {
        assert_eq!(pod.wait().code(), Some(0), "{}", pod.stderr());
        let log = pod.stdout() + &pod.stderr();
        let records: Vec<_> = log.lines().filter(|line| line.starts_with('{')).collect();
        assert_eq!(records.len(), 1, "{log}");
        directory.write(name, records[0]);
    }
    let mut report = command();
    report.current_dir(directory.path()).arg("report");
    run(report.args(names).args(["--merge", "sum.json"])).success();
    let text = fs::read_to_string(directory.join("sum.json")).unwrap();
    assert_eq!(Record::read(&text).totals(), [120, 120, 0]);
}
