//! Kernels that lack a module: the same answers, and the reason why the kernel does not help.
//!
//! These tests need a machine of their own, with no module loaded and a kernel that loads none by
//! itself; `./run-tests` makes one.

use suite::kernel::{LARGE, pattern};
use suite::lariat::command;
use suite::prelude::*;

const AES: u16 = 0x1301;
const CHACHA: u16 = 0x1303;

struct Desk {
    site: Site,
    folder: Directory,
}

impl Desk {
    fn new() -> Self {
        let (site, folder) = (Site::new(), Directory::new());
        folder.write("large", pattern(LARGE));
        Self { site, folder }
    }

    fn service(&self, tls: &str) -> Service {
        Service::files(&self.site, self.folder.path()).tls(tls)
    }

    /// Fetches the file with one suite.
    fn assert_served(&self, service: &Service, suite: u16) {
        let mut connection = Client::with_suite(&self.site, suite).connect(service.address);
        assert!(connection.fetch("large") == pattern(LARGE));
    }

    /// Runs this command of `lariat` on this configuration.
    fn say(&self, command_name: &str, service: &Service) -> Finished {
        let file = self.site.write("lariat.toml", service.toml());
        run(command().arg(command_name).arg(file))
    }
}

fn refusals(lariat: &Lariat, reason: &str) -> f64 {
    let reason = [("reason", reason)];
    lariat.sum("lariat_ktls_refusals_total", &reason)
}

fn handed_over(lariat: &Lariat) -> f64 {
    lariat.sum("lariat_ktls_connections_total", &[])
}

const REQUIRE: &str = "ktls = \"require\"";

/// Both in one test, because a loaded module stays.
#[test]
fn without_the_module_and_without_a_cipher() {
    let counts = Path::new("/proc/net/tls_stat");
    assert!(!counts.exists(), "the module is loaded; see ./run-tests");
    let desk = Desk::new();
    no_module(&desk);
    assert!(!counts.exists(), "this kernel loads modules by itself");
    // The last is a part of another one in some kernels.
    let modules = ["-a", "tls", "ctr", "gcm", "ghash-generic"];
    let _whether_all_were_there = run(Command::new("modprobe").args(modules));
    assert!(counts.exists());
    no_cipher(&desk);
}

fn no_module(desk: &Desk) {
    let service = desk.service("");
    let lariat = service.start();
    desk.assert_served(&service, AES);
    assert_eq!((handed_over(&lariat), refusals(&lariat, "no-kernel-tls")), (0.0, 1.0));
    let status = lariat.ask("status").success();
    assert!(status.contains("modprobe tls"), "the remedy: {status}");
    drop(lariat);
    for what in ["check", "serve"] {
        let refused = desk.say(what, &desk.service(REQUIRE));
        assert!(!refused.status.success(), "{what}: {refused:?}");
        refused.assert_stderr("modprobe tls");
    }
}

fn no_cipher(desk: &Desk) {
    let service = desk.service("");
    let lariat = service.start();
    desk.assert_served(&service, CHACHA);
    assert_eq!((handed_over(&lariat), refusals(&lariat, "suite")), (0.0, 1.0));
    desk.assert_served(&service, AES);
    assert_eq!((handed_over(&lariat), refusals(&lariat, "suite")), (1.0, 1.0));
    drop(lariat);
    for what in ["check", "serve"] {
        let refused = desk.say(what, &desk.service(REQUIRE));
        assert!(!refused.status.success(), "{what}: {refused:?}");
        refused.assert_stderr("ChaCha20-Poly1305");
    }
    let aes_alone = "suites = [\"TLS_AES_128_GCM_SHA256\", \"TLS_AES_256_GCM_SHA384\"]\n\
                     versions = [\"1.3\"]";
    let taken = desk.say("check", &desk.service(&format!("{REQUIRE}\n{aes_alone}")));
    assert_eq!(taken.code(), 0, "{taken:?}");
}
