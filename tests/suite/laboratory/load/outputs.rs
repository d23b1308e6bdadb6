//! `lariat-lab load` for other programs: a log of HdrHistogram, figures for Prometheus; and the
//! view of a terminal.

use std::process::Stdio;

use suite::lab::command;
use suite::load::Record;
use suite::prelude::*;

#[test]
fn a_log_of_histograms_has_a_line_per_second() {
    let (origin, directory) = (Origin::start(), Directory::new());
    let path = directory.join("out.hlog");
    let record = directory.join("out.json");
    let start = || {
        let mut load = command();
        load.args(["load", &origin.url("/1k"), "--rate", "50", "--duration", "2s", "--quiet"]);
        load.args(["--timeout", "30s", "--threads", "1", "--cpus", "none"]);
        run(load.arg("--hdr").arg(&path).arg("--record").arg(&record))
    };
    for _ in 0..2 {
        assert_eq!(start().code(), 0);
        let log = fs::read_to_string(&path).unwrap();
        assert!(log.starts_with("#lariat-lab load http://"), "{log}");
        let rows: Vec<_> = log.lines().filter(|line| !line.starts_with(['#', '"'])).collect();
        let record = Record::read(&fs::read_to_string(&record).unwrap());
        let seconds = record.at("/seconds").as_array().unwrap().clone();
        assert_eq!(rows.len(), seconds.len(), "{log}");
        for (row, second) in rows.iter().zip(seconds) {
            let fields: Vec<_> = row.split(',').collect();
            assert_eq!(fields[0].parse::<f64>().unwrap(), second["at_s"].as_f64().unwrap());
            let (most, ms) = (second["max_ns"].as_f64().unwrap() / 1e6, fields[2]);
            assert!((ms.parse::<f64>().unwrap() - most).abs() <= most * 0.002 + 0.002, "{row}");
            assert!(fields[3].starts_with("HISTF"), "{row}");
        }
    }
    fs::write(&path, "a letter").unwrap();
    start().assert_fails(2, &["is no log of histograms"]);
    assert_eq!(fs::read_to_string(&path).unwrap(), "a letter");
}

#[test]
fn prometheus_sees_the_load_while_it_runs() {
    let origin = Origin::start();
    let mut load = command();
    load.args(["load", &origin.url("/1k"), "--connections", "2", "--duration", "1h"]);
    load.args(["--metrics", "127.0.0.1:0", "--record", "none", "--threads", "1", "--quiet"]);
    let mut running = Running::start(&mut load);
    let url = until("the address", || {
        running.assert_running();
        let said = running.stderr();
        let line = said.lines().find_map(|line| line.strip_prefix("Metrics are at "));
        line.map(|line| line.trim_end_matches('.').to_owned())
    });
    let scrape = || curl().args(&["--fail", "--silent"]).url(&url).run().success();
    let number = |page: &str, name: &str| -> u64 {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|line| line.parse().ok()).unwrap_or_else(|| panic!("{name} in {page}"))
    };
    let page = until("a second", || {
        let page = scrape();
        (number(&page, "lariat_load_succeeded_total") > 0).then_some(page)
    });
    let succeeded = number(&page, "lariat_load_succeeded_total");
    assert_eq!(number(&page, "lariat_load_response_seconds_count"), succeeded);
    assert_eq!(number(&page, "lariat_load_response_seconds_bucket{le=\"+Inf\"}"), succeeded);
    until_true("more of it", || number(&scrape(), "lariat_load_succeeded_total") > succeeded);
    let taken = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let flags = ["load", &origin.url("/"), "--record", "none", "--metrics", taken];
    run(command().args(flags)).assert_fails(3, &["metrics cannot be served at "]);
    // Clients that never ask hold up nobody.
    let silent = [TcpStream::connect(taken).unwrap(), TcpStream::connect(taken).unwrap()];
    scrape();
    drop(silent);
    running.signal(Signal::INT);
    assert_eq!(running.wait().code(), Some(0), "{}", running.stderr());
}

/// Starts a load in a terminal of that size, begun by `script`, with these words of an environment.
fn in_terminal(directory: &Directory, size: &str, environment: &str, url: &str) -> Running {
    let place = directory.path().display();
    terminal(&format!("tty > {place}/tty; stty {size}; exec {}", in_environment(environment, url)))
}

fn in_environment(environment: &str, url: &str) -> String {
    format!(
        "env {environment} {} load {url} --connections 2 --duration 1h --record none --threads 1 \
         --cpus none",
        command().get_program().display(),
    )
}

/// Starts a terminal in which `sh` does this.
fn terminal(load: &str) -> Running {
    let mut script = Command::new("script");
    script.args(["--quiet", "--flush", "--return", "--command", load, "/dev/null"]);
    Running::start_with(&mut script, Stdio::piped())
}

/// Returns the lines of the frames that were drawn completely so far.
fn frames(drawn: &str) -> Vec<Vec<String>> {
    let frames = drawn.split("\u{1b}[H").skip(1).filter_map(|frame| frame.split_once("\u{1b}[J"));
    let line = |line: &str| line.replace("\u{1b}[K", "").trim_end_matches('\r').to_owned();
    frames.map(|(frame, _)| frame.trim_end().split('\n').map(line).collect()).collect()
}

fn fits(frame: &[String], columns: usize, rows: usize) -> bool {
    frame.len() < rows && frame.iter().all(|line| line.chars().count() <= columns)
}

#[test]
fn a_view_fills_the_terminal_as_it_shrinks_and_leaves_it() {
    let (origin, directory) = (Origin::start(), Directory::new());
    let environment = "NO_COLOR=1 TERM=xterm LC_ALL=C.UTF-8";
    let mut running = in_terminal(&directory, "rows 24 cols 80", environment, &origin.url("/1k"));
    let frame = until("a frame", || {
        running.assert_running();
        frames(&running.stdout()).into_iter().find(|frame| frame.iter().any(|it| it.contains('█')))
    });
    assert!(fits(&frame, 80, 24), "{frame:#?}");
    let text = frame.join("\n");
    for words in ["Loading http://", "attempted", "now, /s", "so far, /s", "p99.9"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(frame.len() > 16, "{frame:#?}");
    assert!(!text.contains('\u{1b}'), "colours in {text:?}");
    let tty = directory.join("tty");
    let tty = fs::read_to_string(tty).unwrap();
    let seen = frames(&running.stdout()).len();
    let small = run(Command::new("stty").args(["-F", tty.trim(), "rows", "5", "cols", "20"]));
    assert_eq!(small.code(), 0, "{small:?}");
    until_true("a small frame", || {
        running.assert_running();
        // Numbers are not truncated there.
        let is_whole = |line: &String| line.starts_with("succeeded ") && !line.ends_with('…');
        let frames = frames(&running.stdout());
        frames.iter().skip(seen).any(|it| fits(it, 20, 5) && it.iter().any(is_whole))
    });
    let mut keyboard = running.take_input().unwrap();
    // Ctrl-C
    keyboard.write_all(&[3]).unwrap();
    assert_eq!(running.wait().code(), Some(0));
    let said = running.stdout();
    let (_, after) = said.rsplit_once("\u{1b}[?1049l").expect("the terminal is given back");
    assert!(after.contains("/s succeeded of "), "{after}");
}

#[test]
fn a_load_that_ctrl_z_stops_gives_the_terminal_to_the_shell_meanwhile() {
    let origin = Origin::start();
    let load = in_environment("NO_COLOR=1 TERM=xterm LC_ALL=C.UTF-8", &origin.url("/1k"));
    // A shell that continues it as soon as it has stopped.
    let mut running = terminal(&format!("exec bash -c 'set -m; {load}; echo it is stopped; fg'"));
    let drawn = |running: &Running| frames(&running.stdout()).len();
    until_true("a frame", || {
        running.assert_running();
        drawn(&running) > 0
    });
    let mut keyboard = running.take_input().unwrap();
    // Ctrl-Z
    keyboard.write_all(&[26]).unwrap();
    until_true("the shell's words", || {
        running.assert_running();
        running.stdout().contains("it is stopped")
    });
    let said = running.stdout();
    let (before, _) = said.split_once("it is stopped").unwrap();
    let (_, left) = before.rsplit_once("\u{1b}[?1049h").expect("it took the terminal");
    assert!(left.contains("\u{1b}[?25h\u{1b}[?1049l"), "it kept the terminal: {left:?}");
    until_true("the view anew", || {
        running.assert_running();
        let said = running.stdout();
        let (_, after) = said.split_once("it is stopped").unwrap();
        after.split_once("\u{1b}[?1049h").is_some_and(|(_, after)| !frames(after).is_empty())
    });
    // Ctrl-C
    keyboard.write_all(&[3]).unwrap();
    assert_eq!(running.wait().code(), Some(0), "{}", running.stdout());
    let said = running.stdout();
    let (_, after) = said.rsplit_once("\u{1b}[?1049l").expect("the terminal is given back");
    assert!(after.contains("/s succeeded of "), "{after}");
}

#[test]
fn a_terminal_without_a_cursor_gets_lines() {
    let (origin, directory) = (Origin::start(), Directory::new());
    let environment = "TERM=dumb LC_ALL=C";
    let mut running = in_terminal(&directory, "rows 24 cols 80", environment, &origin.url("/1k"));
    until_true("a line", || {
        running.assert_running();
        running.stdout().lines().any(|line| line.trim_start().starts_with("1 s "))
    });
    assert!(!running.stdout().contains('\u{1b}'), "{:?}", running.stdout());
    running.take_input().unwrap().write_all(&[3]).unwrap();
    assert_eq!(running.wait().code(), Some(0), "{}", running.stdout());
}
