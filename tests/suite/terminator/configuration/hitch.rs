//! `lariat hitch` in the place of hitch: its command line, background, signals, exit codes; and the
//! file that an import of its own makes.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use suite::lariat::command;
use suite::prelude::*;
use suite::process::has_ended;
use suite::program::process_id;

fn hitch(arguments: &[&str]) -> Command {
    let mut hitch = command();
    hitch.arg("hitch").args(arguments);
    hitch
}

/// The process whose number a file has; killed at the end if it still runs.
struct InBackground(Pid);

impl InBackground {
    fn of_file(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a pid file");
        Self(process_id(text.trim().parse().expect("a number")))
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.0, signal).expect("it runs");
    }
}

impl Drop for InBackground {
    fn drop(&mut self) {
        if !has_ended(self.0) {
            _ = kill_process(self.0, Signal::KILL);
        }
    }
}

#[test]
fn it_goes_to_the_background_reads_its_file_again_and_ends() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http("hello".into())));
    let (first, second) = (free_address(), free_address());
    let [other, last] = ["other", "last"].map(|name| {
        let leaf = site.leaf(&[&format!("{name}.example"), "localhost"]);
        site.write(format!("{name}.pem"), leaf.pem())
    });
    let configuration = site.path("hitch.conf");
    let configure = |address: SocketAddr, more: &str| {
        let text = format!(
            "frontend = \"[127.0.0.1]:{}\"\nbackend = \"[127.0.0.1]:{}\"\nuser = \"\"\n\
             pem-file = {other:?}\npem-file = {last:?}\nlog-filename = {:?}\n{more}",
            address.port(),
            server.address().rsplit(':').next().unwrap_or_default(),
            site.path("hitch.log"),
        );
        fs::write(&configuration, text).expect("written");
    };
    configure(first, "");
    let file = |name: &str| site.path(name).display().to_string();
    let flags = [
        "--daemon".to_owned(),
        format!("--pidfile={}", file("pid")),
        format!("--dbg-listen={}", file("hosts")),
        format!("--config={}", configuration.display()),
    ];
    let started = run(hitch(&[]).args(&flags));
    started.success();
    let background = InBackground::of_file(&site.path("pid"));
    assert_eq!(fs::read_to_string(site.path("hosts")).unwrap(), format!("{first}\n"));
    let hello = |address| curl_tls(&site, address).run().success();
    assert_eq!(hello(first), "hello");
    // Without a name the last certificate is served, as by hitch.
    s_client(&site, first, &["-noservername"]).assert_stdout("subject=CN = last.example");

    let log = || fs::read_to_string(site.path("hitch.log")).unwrap_or_default();
    // A typing error opens no service.
    for (slip, words) in [
        ("backlog = many\n", "`many` is no number"),
        ("client-verfy = required\n", "has no such option"),
        ("sni-nomatch-abort = onn\n", "`onn` is neither on nor off"),
    ] {
        configure(second, slip);
        background.signal(Signal::HUP);
        until_true("the refusal", || log().contains(words));
        assert_eq!(hello(first), "hello");
    }

    configure(second, "");
    background.signal(Signal::HUP);
    until_true("the new address", || TcpStream::connect(second).is_ok());
    let hosts = || fs::read_to_string(site.path("hosts")).unwrap();
    until_true("the new list of addresses", || hosts() == format!("{second}\n"));
    assert_eq!(hello(second), "hello");

    let upgraded = run(command().args(["upgrade", "--status-socket", &file("pid.status")]));
    assert_eq!(upgraded.code(), 0, "{upgraded:?}");
    assert_eq!(hello(second), "hello");

    background.signal(Signal::TERM);
    until_true("its end", || has_ended(background.0));
    assert!(!site.path("pid").exists(), "the pid file goes with it");
}

#[test]
fn what_hitch_refuses_ends_with_1() {
    let site = Site::new();
    let certificate = site.path("site.pem").display().to_string();
    let test = |options: &[&str]| run(&mut hitch(&[&["--test"], options].concat()));
    test(&["--backend=[127.0.0.1]:80", &certificate]).success();
    for (options, words) in [
        (&["--obviously-broken=1"][..], "has no such option"),
        (&["--backlog=a50", &certificate], "`a50` is no number"),
        (&["/nowhere.pem"], "cannot read /nowhere.pem"),
    ] {
        let told = test(options);
        told.assert_stderr(words);
        assert_eq!(told.code(), 1, "{told:?}");
    }
    // A fault in a file's meaning is reported at the file's line.
    let file = site.write("wrong.conf", format!("pem-file = {certificate:?}\nuser = \"nosuch\"\n"));
    let told = test(&[&format!("--config={}", file.display())]);
    told.assert_fails(1, &["there is no user `nosuch`", "wrong.conf:2"]);
    // RSA key exchange: reported, and served without it.
    let told = test(&["--ciphers=AES128-SHA:ECDHE-ECDSA-AES128-GCM-SHA256", &certificate]);
    assert_eq!(told.code(), 0, "{told:?}");
    assert_eq!(run(&mut hitch(&["--help"])).code(), 0);
    run(&mut hitch(&["-V"])).assert_stdout("lariat");
}

#[test]
fn nothing_is_served_without_a_certificate() {
    let site = Site::new();
    let file = site.write("hitch.conf", "frontend = \"[*]:8443\"\nbackend = \"[::1]:80\"\n");
    let named = format!("--config={}", file.display());
    for arguments in [vec![], vec![named.as_str()], vec![named.as_str(), "--test"], vec!["--test"]]
    {
        let answer = run(&mut hitch(&arguments));
        assert_eq!(answer.code(), 1, "{answer:?}");
        answer.assert_stderr("pem-file: error: no certificate is specified for [::]:8443");
    }
    for kind in ["hitch", "stud"] {
        let answer = run(command().args(["import", kind]).arg(&file));
        assert_eq!((answer.code(), answer.stdout.as_str()), (2, ""), "{answer:?}");
    }
}

#[test]
fn no_file_is_written_over() {
    let site = Site::new();
    let pem = site.path("site.pem");
    let text = format!("pem-file = {pem:?}\nocsp-dir = \"\"\nprefer-server-ciphers = on\n");
    let file = site.write("hitch.conf", text);
    let output = site.path("new.toml");
    let again = || run(command().args(["import", "hitch"]).arg(&file).arg("-o").arg(&output));
    let answer = again();
    assert_eq!((answer.code(), answer.stdout.as_str()), (0, ""), "{answer:?}");
    answer.assert_stderr("lariat check ");
    let written = fs::read_to_string(&output).unwrap();
    let answer = again();
    answer.assert_fails(2, &["is there already"]);
    assert_eq!(fs::read_to_string(&output).unwrap(), written);
}
