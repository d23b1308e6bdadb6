//! Two processes: one keeps its rights and does no TLS, the other has none.

use rustix::process::Pid;
use suite::prelude::*;
use suite::process::status_line;

fn command_line(process: Pid) -> String {
    let path = format!("/proc/{}/cmdline", process.as_raw_nonzero());
    fs::read_to_string(path).unwrap().replace('\0', " ")
}

#[test]
fn both_names_show_in_ps() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Http("hello".into()));
    assert!(command_line(lariat.supervisor()).contains(" serve "));
    assert!(command_line(lariat.worker_process()).starts_with("lariat: worker"));
}

#[test]
fn the_worker_process_has_no_rights() {
    let (site, _server, service, lariat) = serve(Behaviour::Http("hello".into()));
    let data = lariat.worker_process();
    assert_eq!(status_line(data, "NoNewPrivs"), "1");
    assert_eq!(status_line(data, "Seccomp"), "2", "a filter");
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
fn the_supervisor_has_no_more_system_calls_than_it_needs() {
    let (_site, _server, _service, lariat) = serve(Behaviour::Http("hello".into()));
    let supervisor = lariat.supervisor();
    assert_eq!(status_line(supervisor, "NoNewPrivs"), "1");
    assert_eq!(status_line(supervisor, "Seccomp"), "2", "a filter");
}

#[test]
fn the_worker_process_holds_no_file_of_the_operator() {
    let (site, _server, _service, lariat) = serve(Behaviour::Http("hello".into()));
    let data = lariat.worker_process();
    let directory = format!("/proc/{}/fd", data.as_raw_nonzero());
    if !geteuid().is_root() {
        // It allows no memory images, so that not even its own user may look into it.
        let refused = fs::read_dir(directory).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        return;
    }
    let open: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.starts_with(site.directory.path()))
        .collect();
    assert!(open.is_empty(), "{open:?}");
}
