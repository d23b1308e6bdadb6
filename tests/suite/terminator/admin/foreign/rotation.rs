//! Debian's logrotate rotates the log as it does those of other servers.

use suite::prelude::*;

/// Returns the lines of several files together.
fn lines(paths: &[&Path]) -> Vec<Value> {
    let texts = paths.iter().map(|path| fs::read_to_string(path).unwrap_or_default());
    let text: String = texts.collect();
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}

/// As in the guide: the file is renamed, the supervisor gets SIGUSR1, and each line is in one of
/// the two files.
#[test]
fn logrotate_renames_the_log_and_no_line_is_lost() {
    let (site, _server, service) = set_up(http());
    let (log, rotated) = (site.path("lines.log"), site.path("lines.log.1"));
    let pid_file = site.path("lariat.pid");
    let configuration =
        format!("output = {log:?}\n[process]\npid-file = {pid_file:?}\n{}", service.toml());
    let lariat = Lariat::start(&configuration);
    let rules = site.path("logrotate.conf");
    let text = format!(
        "{} {{\n  rotate 14\n  missingok\n  nocreate\n  postrotate\n    \
         kill -USR1 \"$(cat {})\"\n  endscript\n}}\n",
        log.display(),
        pid_file.display()
    );
    fs::write(&rules, text).unwrap();
    let connect = || {
        curl_tls(&site, service.address).run().success();
    };
    let has = |paths: &[&Path], count: usize| {
        until_true("the lines", || lines(paths).len() == count);
    };
    (0..3).for_each(|_| connect());
    has(&[&log], 3);
    let mut logrotate = Command::new("logrotate");
    run(logrotate.args(["--force", "--state"]).args([site.path("logrotate.state"), rules]))
        .success();
    // Lines go to the renamed file until the supervisor has opened the new one.
    until_true("the new log", || log.exists());
    (0..3).for_each(|_| connect());
    has(&[&rotated, &log], 6);
    assert!(lines(&[&rotated]).len() >= 3);
    // The order to use the file follows its opening.
    until_true("a line in the new log", || {
        connect();
        !lines(&[&log]).is_empty()
    });
    assert!(lariat.metrics().sum("lariat_log_lost_bytes_total", &[]) < f64::EPSILON);
}

#[test]
fn a_log_that_cannot_be_opened_anew_is_said_and_tried_again() {
    let (site, _server, service) = set_up(http());
    let log = site.path("lines.log");
    let lariat = Lariat::start(&format!("output = {log:?}\n{}", service.toml()));
    let failing = |value| lariat.wait_for_metric("lariat_log_write_failing", &[], value);
    failing(0.0);
    fs::rename(&log, site.path("lines.log.1")).unwrap();
    fs::create_dir(&log).unwrap();
    lariat.signal(Signal::USR1);
    lariat.wait_for_stderr("; the log goes where it went");
    failing(1.0);
    lariat.ask("status").assert_stdout("log: goes to the file before");
    fs::remove_dir(&log).unwrap();
    lariat.wait_for_stderr("the log is opened anew");
    failing(0.0);
    curl_tls(&site, service.address).run().success();
    until_true("the line", || lines(&[&log]).len() == 1);
    lariat.wait_for_stderr_times("; the log goes where it went", 1);
    // A reload that names another log ends it as well.
    fs::rename(&log, site.path("lines.log.2")).unwrap();
    fs::create_dir(&log).unwrap();
    lariat.signal(Signal::USR1);
    failing(1.0);
    let other = site.path("other.log");
    lariat.reload_with(&format!("output = {other:?}\n{}", service.toml()));
    failing(0.0);
}
