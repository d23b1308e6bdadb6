//! The unit of `pkg/systemd` under a systemd of its own: start, reload, restart, watchdog, sockets,
//! and what systemd keeps from one start to the next.

use suite::lariat::command;
use suite::prelude::*;

const SESSION: &str = include_str!("systemd/session.sh");

const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pkg/systemd/lariat.service");

/// Fails outside of a throw-away machine, because the test writes to `/etc` and `/usr/bin`.
fn assert_in_a_machine() {
    let command_line = fs::read_to_string("/proc/cmdline").unwrap();
    assert!(command_line.contains("lariat-machine."), "only tests/kernel/machine may run this");
}

#[test]
fn the_unit_starts_reloads_restarts_and_is_watched() {
    assert_in_a_machine();
    let (site, server) = (Site::new(), Server::start(Behaviour::Http(b"ok".to_vec())));
    let session = site.write("session.sh", SESSION);
    let output = site.write("session.out", "");
    let unit = format!(
        "[Unit]\nDefaultDependencies=no\nSuccessAction=exit\nFailureAction=exit\n\
         [Service]\nType=oneshot\nExecStart=/bin/bash {}\n\
         Environment=UNIT={UNIT} LARIAT={} SITE={} PORT={} SERVER={}\n\
         StandardOutput=append:{5}\nStandardError=append:{5}\n",
        session.display(),
        command().get_program().display(),
        site.directory.path().display(),
        free_address().port(),
        server.address(),
        output.display(),
    );
    fs::create_dir_all("/run/systemd/system").unwrap();
    fs::write("/run/systemd/system/session.service", unit).unwrap();
    run(Command::new("mount").args(["-t", "cgroup2", "none", "/sys/fs/cgroup"])).success();
    // The session takes a dozen seconds, and three times that on a loaded host.
    let mut systemd = Command::new("timeout");
    systemd
        .args([
            "-s",
            "KILL",
            "90",
            "unshare",
            "--kill-child",
            "--pid",
            "--fork",
            "--mount-proc",
            "/lib/systemd/systemd",
        ])
        .args(["--system", "--unit=session.service"])
        .env("container", "machine");
    let ended = systemd.status().unwrap();
    let said = fs::read_to_string(&output).unwrap();
    assert!(said.ends_with("== done\n"), "{said}\n{ended:?}");
}
