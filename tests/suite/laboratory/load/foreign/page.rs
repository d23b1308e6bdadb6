//! The page of `lariat-lab report` in a browser: its numbers are the record's.

use suite::chromium::{dump_page, value};
use suite::lab::command;
use suite::load::{Loaded, Record};
use suite::nginx::Nginx;
use suite::prelude::*;

/// Returns the page of these records, as the browser shows it, and its source.
fn page(records: &[&Path]) -> (String, String) {
    let directory = Directory::new();
    let path = directory.join("page.html");
    let mut report = command();
    report.arg("report").args(records).arg("-o").arg(&path);
    let answer = run(&mut report);
    assert_eq!(answer.code(), 0, "{answer:?}");
    let source = fs::read_to_string(&path).unwrap();
    let url = format!("file://{}", path.display());
    (dump_page(&url, 1000), source)
}

/// Checks that the numbers of run `number` are those of the record.
fn assert_shows(page: &str, number: usize, record: &Record) {
    let of = |id: &str| value(page, &format!("r{number}-{id}"));
    let totals = record.totals();
    let shown = ["attempted", "succeeded", "failed"].map(|id| of(id) as u64);
    assert_eq!(shown, totals);
    for kind in ["full", "session-id", "ticket", "psk"] {
        let count = record.handshakes(kind);
        if count > 0 {
            assert_eq!(of(&format!("handshakes-{kind}")) as u64, count, "{kind}");
        }
    }
    let [full, resumed] = [record.kinds()[0], record.kinds()[1..].iter().sum()];
    let share = resumed as f64 / (full + resumed) as f64;
    assert!((of("resumed-share") - share).abs() < 1e-9, "{share}");
    let elapsed_s = record.number("/elapsed_ns") as f64 / 1e9;
    let rate = totals[1] as f64 / elapsed_s;
    let shown = of("rate");
    assert!((shown - rate).abs() < rate * 1e-6, "{shown} is not {rate}");
    let mean = mean_ns(record);
    let shown = of("mean-response");
    assert!((shown - mean).abs() < mean * 2e-3, "{shown} is not {mean}");
}

/// Returns the mean response time by the record's histograms, lists of durations and counts.
fn mean_ns(record: &Record) -> f64 {
    let kinds = record.at("/latencies").as_object().unwrap().values();
    let pairs = kinds.flat_map(|kind| kind["total"].as_array().unwrap());
    let (mut sum, mut count) = (0.0, 0.0);
    for pair in pairs {
        sum += pair[0].as_f64().unwrap() * pair[1].as_f64().unwrap();
        count += pair[1].as_f64().unwrap();
    }
    sum / count
}

fn loads(nginx: &Nginx) -> [Loaded; 2] {
    let load = |flags| Load::alone(nginx.address).args(flags).run();
    [
        load("--rate 40 --duration 2s --handshake ticket --clients 4"),
        load("--connections 2 --handshake session-id --requests-per-session 5 --count 55"),
    ]
}

#[test]
fn chromium_shows_the_numbers_of_the_record() {
    let site = Site::new();
    let nginx = Nginx::terminate(&site.path("site.pem"), "ssl_session_cache shared:s:1m;");
    let [first, second] = loads(&nginx);
    let (shown, _) = page(&[&first.path()]);
    assert_shows(&shown, 1, &first.record());
    // The page shows the command that repeats the run, and draws the figures against time.
    assert_has(&shown, "--handshake </b>ticket");
    assert!(shown.contains("<svg") && shown.contains("<path"), "{shown}");
    assert!(!shown.contains("Runs side by side"));
    let paths: Vec<PathBuf> = [&first, &second].map(Loaded::path).into();
    let (shown, _) = page(&[&paths[0], &paths[1]]);
    assert_has(&shown, "Runs side by side");
    assert_shows(&shown, 1, &first.record());
    assert_shows(&shown, 2, &second.record());
}

#[test]
fn the_page_asks_nobody_for_anything() {
    let site = Site::new();
    let nginx = Nginx::terminate(&site.path("site.pem"), "");
    let loaded = Load::of(nginx.address).args("--count 20").run();
    let (_, source) = page(&[&loaded.path()]);
    for elsewhere in ["<script", "<link", "<iframe", "src=", "href=\"http", "url(", "@import"] {
        assert!(!source.contains(elsewhere), "{elsewhere}");
    }
}
