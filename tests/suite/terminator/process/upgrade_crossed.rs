//! An upgrade that something else crosses: a stop, a reload, a crash.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::symlink;

use rustix::process::Pid;
use suite::fuse::{Fuse, Temper};
use suite::lariat::command;
use suite::prelude::*;
use suite::process::{children, has_ended};
use suite::program::process_id;

use super::upgrade_refused::running;

/// Starts `lariat upgrade` or the like, without waiting for its end.
fn asking(lariat: &Lariat, what: &str) -> Running {
    let mut command = command();
    command.arg(what).arg("--status-socket");
    Running::start(command.arg(lariat.status_socket()))
}

/// Replaces its first argument by a script that waits at a gate before it becomes the program.
const GATED: &str = r#"
mkfifo "$GATE"
printf '%s\n' '#!/bin/sh' 'read -r _ < "$GATE"' 'exec "$REAL" "$@"' > "$0.new"
chmod +x "$0.new"
mv "$0.new" "$0"
"#;

#[test]
fn a_stop_also_ends_a_check_that_has_only_begun() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let (program, gate) = (site.path("lariat"), site.path("gate"));
    symlink(command().get_program(), &program).unwrap();
    let mut first = Command::new(&program);
    first.env("GATE", &gate).env("REAL", command().get_program());
    let mut lariat = Lariat::start_by(first, &service.toml());
    // In a process of its own: no other that is started meanwhile has the script open.
    let mut replace = Command::new("sh");
    replace.args(["-ec", GATED]).arg(&program);
    run(replace.env("GATE", &gate)).success();
    let mut upgrade = asking(&lariat, "upgrade");
    let check = lariat.process("/bin/sh");
    lariat.stop();
    // Both ways, so that nobody waits for the other end.
    let opened = OpenOptions::new().read(true).write(true).open(&gate);
    opened.unwrap().write_all(b"\n").unwrap();
    until_true("the end of the check", || has_ended(check));
    TcpStream::connect(service.address).unwrap_err();
    // Lariat drains, or has ended.
    assert!(matches!(upgrade.wait().code(), Some(1 | 5)), "{}", upgrade.stderr());
}

#[test]
fn a_stop_while_worker_processes_take_turns_drains_both() {
    let mut running = running();
    let mut open = Client::new(&running.site).echo(running.service.address);
    let before = running.lariat.worker_process();
    kill_process(before, Signal::STOP).unwrap();
    running.lariat.signal(Signal::USR2);
    until_true("another worker process", || running.lariat.worker_process() != before);
    running.lariat.signal(Signal::TERM);
    kill_process(before, Signal::CONT).unwrap();
    running.lariat.wait_for_stderr("draining for up to");
    open.echo();
    drop(open);
    running.lariat.assert_ends();
    TcpStream::connect(running.service.address).unwrap_err();
}

#[test]
fn an_upgrade_waits_for_a_reload() {
    let running = running();
    let worker_process = running.lariat.worker_process();
    kill_process(worker_process, Signal::STOP).unwrap();
    let more = Service::new(&running.site, &running.server).named("more");
    let both = format!("{}{}", running.service.toml(), more.toml());
    running.lariat.configure(&both);
    running.lariat.signal(Signal::HUP);
    until("the plan to be asked for", || TcpStream::connect(more.address).ok());
    running.lariat.signal(Signal::USR2);
    kill_process(worker_process, Signal::CONT).unwrap();
    running.lariat.wait_for_stderr("has taken over from");
    let said = running.lariat.stderr();
    let place = |words: &str| said.find(words);
    assert!(place("reloaded:") < place("this process becomes"), "{said}");
    Client::new(&running.site).visit(more.address);
}

#[test]
fn an_upgrade_gets_a_host_out_of_a_crash_of_its_worker_process() {
    let running = running();
    running.lariat.signal(Signal::USR2);
    running.lariat.kill_worker_process();
    running.lariat.wait_for_stderr("has taken over from");
    Client::new(&running.site).visit(running.service.address);
    running.lariat.ask("upgrade").success();
}

#[test]
fn a_program_on_a_disk_that_does_not_answer_holds_nobody() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let script: &[u8] = b"#!/bin/sh\nexit 0\n";
    let files = [("lariat", Temper::HoldsOpening, script)];
    let Some(fuse) = Fuse::mount(&site.path("far"), &files) else {
        return;
    };
    let program = site.path("lariat");
    symlink(command().get_program(), &program).unwrap();
    let lariat = Lariat::start_by(Command::new(&program), &service.toml());
    fs::remove_file(&program).unwrap();
    symlink(site.path("far").join("lariat"), &program).unwrap();
    let mut upgrade = asking(&lariat, "upgrade");
    until("the disk to be asked", || (fuse.held() > 0).then_some(()));
    lariat.signal(Signal::HUP);
    lariat.wait_for_metric("lariat_config_generation", &[], 2.0);
    assert_eq!(upgrade.wait().code(), Some(5), "{}", upgrade.stderr());
    let said = upgrade.stderr();
    assert!(said.contains("s to open the file"), "{said}");
    fuse.release();
    fs::remove_file(&program).unwrap();
    symlink(command().get_program(), &program).unwrap();
    lariat.ask("upgrade").success();
    lariat.ask("drain").success();
}

#[test]
fn a_check_that_hangs_ends_with_its_supervisor() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let files = [("site.pem", Temper::HoldsBytes, &b"never read"[..])];
    let Some(fuse) = Fuse::mount(&site.path("far"), &files) else {
        return;
    };
    let lariat = service.start();
    let far = site.path("far/site.pem");
    lariat.configure(&service.certificates(&format!("[{far:?}]")).toml());
    lariat.signal(Signal::USR2);
    until_true("the disk to be asked", || fuse.held() > 0);
    let check = lariat.process(&command().get_program().to_string_lossy());
    kill_process(lariat.supervisor(), Signal::KILL).unwrap();
    until_true("the check to end", || has_ended(check));
    fuse.release();
}

/// Starts a lariat by a link that leads to a program which hangs by now, with processes that have
/// left its group and its session.
fn beside_one_that_hangs(site: &Site, service: &Service) -> (Lariat, PathBuf) {
    let program = site.path("lariat");
    symlink(command().get_program(), &program).unwrap();
    let lariat = Lariat::start_by(Command::new(&program), &service.toml());
    let mut replace = Command::new("sh");
    run(replace.args(["-ec", HANGING]).arg(&program)).success();
    (lariat, program)
}

const HANGING: &str = r#"
printf '%s\n' '#!/bin/sh' 'sleep 1000 &' 'setsid sh -c "sleep 1000 & wait" &' \
    'while :; do sleep 1000; done' > "$0.new"
chmod +x "$0.new"
mv "$0.new" "$0"
"#;

/// Returns the process of the check, from the status, with all its descendants.
fn of_check(lariat: &Lariat, other_than: Option<u32>) -> (u32, Vec<Pid>) {
    until("a check and its processes", || {
        let status = lariat.status();
        let check = u32::try_from(status["upgrade"]["pid"].as_u64()?).unwrap();
        let (mut all, mut young) = (BTreeSet::new(), BTreeSet::from([check]));
        while !young.is_empty() {
            all.extend(&young);
            young = children(&young);
        }
        let all: Vec<_> = all.into_iter().map(process_id).collect();
        (all.len() == 5 && Some(check) != other_than).then_some((check, all))
    })
}

fn assert_all_end(all: &[Pid]) {
    until_true("the end of the check", || all.iter().all(|one| has_ended(*one)));
}

#[test]
fn a_new_program_that_hangs_holds_nobody_and_is_ended_with_all_that_it_has_started() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let (lariat, program) = beside_one_that_hangs(&site, &service);
    let mut first = asking(&lariat, "upgrade");
    let (check, all) = of_check(&lariat, None);
    lariat.wait_for_stderr(&format!("/lariat (pid {check}) is run to say whether it would serve"));
    let text = lariat.ask("status");
    text.assert_stdout(&format!("(pid {check}) is to say which version it is, until "));
    lariat.reload().success();
    // The check begins anew with the present program, and both waiting commands are told.
    let mut second = asking(&lariat, "upgrade");
    let (check, anew) = of_check(&lariat, Some(check));
    assert_all_end(&all);
    fs::remove_file(&program).unwrap();
    symlink(command().get_program(), &program).unwrap();
    lariat.ask("upgrade").success();
    assert_all_end(&anew);
    for one in [&mut first, &mut second] {
        assert_eq!(one.wait().code(), Some(0), "{}", one.stderr());
    }
    assert!(second.stderr().contains("an upgrade is under way already: "), "{check}");
    assert_eq!(lariat.status()["upgrade"], Value::Null);
}

#[test]
fn a_new_program_that_hangs_does_not_outlast_the_running_one() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let (lariat, _program) = beside_one_that_hangs(&site, &service);
    let _upgrade = asking(&lariat, "upgrade");
    let (check, all) = of_check(&lariat, None);
    kill_process(lariat.supervisor(), Signal::KILL).unwrap();
    until_true("the end of the check", || has_ended(process_id(check)));
    // Those that it has started are nobody's by then.
    for one in all {
        let _ = kill_process(one, Signal::KILL);
    }
}

#[test]
fn a_new_program_that_hangs_is_given_up() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let (lariat, _program) = beside_one_that_hangs(&site, &service);
    let mut upgrade = asking(&lariat, "upgrade");
    let (check, all) = of_check(&lariat, None);
    assert_eq!(upgrade.wait().code(), Some(5), "{}", upgrade.stderr());
    let said = upgrade.stderr();
    let words = format!("(pid {check}) was killed, since it had not said in 10 s which version");
    assert!(said.contains(&words), "{said}");
    assert_all_end(&all);
    assert_eq!(lariat.status()["upgrade"], Value::Null);
}

#[test]
fn a_stop_ends_a_new_program_that_hangs_with_all_that_it_has_started() {
    let (site, _server, service) = set_up(Behaviour::Echo);
    let (mut lariat, _program) = beside_one_that_hangs(&site, &service);
    lariat.signal(Signal::USR2);
    let (_, all) = of_check(&lariat, None);
    lariat.stop();
    assert_all_end(&all);
}
