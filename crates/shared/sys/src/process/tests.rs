//! A program and all that descends from it; names, users and rights.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use super::*;

const PASSWD: &str = "root:x:0:0:root:/root:/bin/bash\n\
    broken:x\n\
    nobody:x:65534:65533:nobody:/:/usr/sbin/nologin\n";

#[test]
fn users_are_found_by_name_and_number() {
    let nobody = Some(Identity { user: 65534, group: 65533 });
    assert_eq!(find_user(PASSWD, "nobody"), nobody);
    assert_eq!(find_user(PASSWD, "65534"), nobody);
    assert_eq!(find_user(PASSWD, "broken"), None);
    assert_eq!(find_user(PASSWD, "x"), None);
    assert_eq!(find_user(PASSWD, ""), None);
}

#[test]
fn groups_are_found_by_name_and_number() {
    let groups = "root:x:0:\nweb:x:33:a,b\n";
    assert_eq!(find_group(groups, "web"), Some(33));
    assert_eq!(find_group(groups, "33"), Some(33));
    assert_eq!(find_group(groups, "a"), None);
}

#[test]
fn the_system_knows_root() {
    let root = Identity { user: 0, group: 0 };
    assert_eq!(lookup_user("root").unwrap(), Some(root));
    assert_eq!(lookup_user("no such user").unwrap(), None);
    let unnamed = lookup_user("4000000000").unwrap().unwrap();
    assert_eq!((unnamed.user, unnamed.group), (4_000_000_000, 4_000_000_000));
}

#[test]
fn a_thread_has_the_name_it_was_given() {
    let name = thread::spawn(|| {
        set_name("lariat: worker").unwrap();
        rustix::thread::name().unwrap()
    });
    assert_eq!(name.join().unwrap().to_bytes(), b"lariat: worker");
    assert!(set_name("a\0b").is_err());
}

#[test]
fn lines_of_the_table_are_read_whatever_a_name_holds() {
    let one = stat_of(7, b"7 (a) Z 1 (b\xff) S 12 34 5 0 -1").unwrap();
    assert_eq!((one.pid, one.parent, one.group, one.has_ended), (7, 12, 34, false));
    assert!(stat_of(7, b"7 (a) Z 12 34 5").unwrap().has_ended);
    assert!(stat_of(7, b"7 (a").is_none());
    assert!(processes().iter().any(|one| one.pid == own_pid()));
}

/// Starts a program and reads `count` pids that it prints, one per line.
fn started(script: &str, count: usize) -> (ProgramTree, Child, Vec<i32>) {
    let mut command = Command::new("/bin/sh");
    let command = command.args(["-c", script]).stdout(Stdio::piped());
    let (program_tree, mut child) = ProgramTree::start(command).unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().take(count);
    let pids = lines.map(|line| line.unwrap().parse().unwrap()).collect();
    (program_tree, child, pids)
}

fn runs(pid: i32) -> bool {
    let stat = fs::read(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|line| stat_of(pid, &line).is_some_and(|one| !one.has_ended))
}

#[test]
fn what_leaves_its_group_and_session_and_parent_is_ended_all_the_same() {
    let mut other = Command::new("sleep").arg("1000").spawn().unwrap();
    let session = "setsid sh -c 'echo $$; sleep 1000 & echo $!; wait' &";
    // A process in its own session, started from a session whose leader exits.
    let orphan = "setsid sh -c 'setsid sh -c \"echo \\$\\$; exec sleep 1000\" & exit' &";
    for (end, ending) in [
        ("wait", ProgramTree::end as fn(&ProgramTree)),
        ("exit 0", ProgramTree::end),
        ("wait", |_| end_current_program()),
    ] {
        let (program_tree, mut child, pids) = started(&format!("{session} {orphan} {end}"), 3);
        ending(&program_tree);
        child.wait().unwrap();
        assert!(pids.iter().all(|pid| !runs(*pid)), "{pids:?}");
    }
    assert!(other.try_wait().unwrap().is_none(), "what is not the program's goes on");
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn what_starts_others_all_the_time_is_ended() {
    let script = "setsid sh -c 'while :; do setsid sleep 1000 & echo $!; done' & wait";
    let (program_tree, mut child, _) = started(script, 20);
    program_tree.end();
    child.wait().unwrap();
    assert!(
        program_tree.descendants.living().is_empty(),
        "{:?}",
        program_tree.descendants.living()
    );
}

#[test]
fn a_name_is_qualified_by_itself_or_by_the_host_s_table() {
    let hosts = "127.0.0.1 localhost.localdomain localhost\n\
                 127.0.1.1\tmx.example.org mx # mail\n192.0.2.7 other.example";
    for (name, qualified_name) in [
        ("a.example", Some("a.example")),
        ("mx", Some("mx.example.org")),
        ("other", None),
        ("localhost", None),
        ("vm", None),
        ("a_b.example", None),
        ("a..example", None),
        ("", None),
    ] {
        assert_eq!(qualified(name, hosts).as_deref(), qualified_name, "{name}");
    }
    let own = own_name();
    assert!(own.contains('.') || own.starts_with("[IPv6:"), "{own}");
}
