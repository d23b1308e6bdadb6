//! Two processes: one keeps its rights and does no TLS, the other has none.

use rustix::process::Pid;
use suite::prelude::*;
use suite::process::{open_files, status_line};

fn command_line(process: Pid) -> String {
    let path = format!("/proc/{}/cmdline", process.as_raw_nonzero());
    fs::read_to_string(path).unwrap().replace('\0', " ")
}

#[test]
fn the_worker_process_has_no_rights() {
    let (site, _server, service, lariat) = serve(http());
    let data = lariat.worker_process();
    // The supervisor has no more system calls than it needs, either.
    for (process, name) in [(data, "lariat: worker"), (lariat.supervisor(), "lariat serve")] {
        assert_has(command_line(process), name);
        assert_eq!(status_line(process, "NoNewPrivs"), "1");
        assert_eq!(status_line(process, "Seccomp"), "2", "a filter");
    }
    for set in ["CapAmb", "CapEff", "CapInh", "CapPrm"] {
        let capabilities = u64::from_str_radix(&status_line(data, set), 16);
        assert_eq!(capabilities, Ok(0), "{set}");
    }
    if geteuid().is_root() {
        let ids = status_line(data, "Uid");
        assert!(ids.split_whitespace().all(|id| id != "0"), "{ids}");
        let ids = status_line(data, "Gid");
        assert!(ids.split_whitespace().all(|id| id != "0"), "{ids}");
    }
    assert_eq!(curl_tls(&site, service.address).run().success(), "hello");
}

#[test]
fn the_worker_process_has_the_groups_that_it_is_to_have() {
    if !geteuid().is_root() {
        return;
    }
    let (_site, _server, service) = set_up(Behaviour::Echo);
    for (groups, own, further) in [("'7'", "7", ""), ("['7', '8', '9']", "7", "8 9")] {
        let process = format!("[process]\nuser = 'nobody'\ngroup = {groups}\n");
        let lariat = Lariat::start(&(process + &service.toml()));
        let worker = lariat.worker_process();
        assert!(status_line(worker, "Gid").split_whitespace().all(|id| id == own));
        assert_eq!(status_line(worker, "Groups").trim(), further);
    }
}

#[test]
fn the_worker_process_holds_no_file_of_the_operator() {
    let (site, _server, _service, lariat) = serve(http());
    let data = lariat.worker_process();
    if !geteuid().is_root() {
        // The process allows no memory images, so that not even its own user may look into it.
        let refused = fs::read_dir(format!("/proc/{}/fd", data.as_raw_nonzero())).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        return;
    }
    let open = open_files(data);
    assert!(!open.iter().any(|path| path.starts_with(site.directory.path())), "{open:?}");
}
