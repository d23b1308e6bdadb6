//! Long answers are the same whether the kernel of this host encrypts them or not, and its limits
//! are reported with the remedy.

use suite::kernel::{LARGE, pattern};
use suite::lariat::command;
use suite::prelude::*;

/// Reports whether this host's kernel has TLS. A supervisor with the right to has loaded the module
/// by now.
fn kernel_has_tls() -> bool {
    Path::new("/proc/net/tls_stat").exists()
}

fn files() -> (Site, Directory) {
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("large", pattern(LARGE));
    (site, folder)
}

fn sent(lariat: &Lariat, path: &str) -> f64 {
    let path = [("path", path)];
    lariat.sum("lariat_sent_bytes_total", &path)
}

fn refusals(lariat: &Lariat) -> f64 {
    let reason = [("reason", "no-kernel-tls")];
    lariat.sum("lariat_ktls_refusals_total", &reason)
}

/// Checks the counts after `connections` long ones: the kernel took all of them, or none.
fn assert_counted(lariat: &Lariat, connections: f64) {
    let taken = lariat.sum("lariat_ktls_connections_total", &[]);
    let expected = if kernel_has_tls() { (connections, 0.0) } else { (0.0, connections) };
    assert_eq!((taken, refusals(lariat)), expected);
}

#[test]
fn a_long_file_is_the_same_from_user_space() {
    let (site, folder) = files();
    let service = Service::files(&site, folder.path());
    let lariat = service.start();
    for client in Client::of_each_version(&site) {
        let mut connection = client.connect(service.address);
        // The hand-over is tried once a connection.
        for _ in 0..2 {
            assert!(connection.fetch("large") == pattern(LARGE));
        }
    }
    assert_counted(&lariat, 2.0);
    let path = if kernel_has_tls() { "sendfile" } else { "user-space" };
    assert!(sent(&lariat, path) >= 4.0 * LARGE as f64);
}

#[test]
fn a_long_relay_is_the_same_from_user_space() {
    let body = pattern(8 << 20);
    let (site, _server, service, lariat) = serve(Behaviour::Speak(body.clone()));
    for client in Client::of_each_version(&site) {
        let mut connection = client.connect(service.address);
        assert!(connection.read_to_end().unwrap() == body);
    }
    let all = ["splice", "kernel", "user-space"].map(|path| sent(&lariat, path));
    assert_eq!(all.iter().sum::<f64>(), 2.0 * body.len() as f64);
}

#[test]
fn status_tells_what_the_kernel_does_and_the_remedy_if_nothing() {
    let (site, folder) = files();
    let service = Service::files(&site, folder.path());
    let lariat = service.start();
    let status = lariat.ask("status").success();
    assert_has(&status, "kernel TLS");
    if !kernel_has_tls() {
        assert_has(&status, "hint:");
    }
}

#[test]
fn what_is_required_and_not_had_refuses_to_serve() {
    let (site, folder) = files();
    let service = Service::files(&site, folder.path());
    let running = service.start();
    let required = service.tls("ktls = \"require\"").toml();
    running.configure(&required);
    let file = running.configuration();
    let checked = run(command().arg("check").arg(file));
    let reloaded = running.reload();
    if kernel_has_tls() {
        assert_eq!((checked.code(), reloaded.code()), (0, 0), "{checked:?} {reloaded:?}");
        return;
    }
    for refused in [checked, reloaded] {
        assert_ne!(refused.code(), 0, "{refused:?}");
        for word in ["ktls", "kernel", "hint:"] {
            assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
        }
    }
}
