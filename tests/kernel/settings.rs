//! Status and checks describe the kernel's TLS.

use suite::kernel::{Bench, KernelCounts};
use suite::lariat::command;
use suite::program::run;

#[test]
fn what_is_required_is_had() {
    let bench = Bench::files(|service| service.tls("ktls = \"require\""));
    let status = bench.lariat.ask("status").success();
    assert!(status.contains("kernel TLS"), "{status}");
    let checked = run(command().arg("check").arg(bench.lariat.configuration()));
    assert_eq!(checked.code(), 0, "{checked:?}");
    bench.lariat.reload().success();
}

#[test]
fn status_tells_whether_the_kernel_can_change_keys() {
    let bench = Bench::files(|service| service);
    let document = bench.lariat.status();
    let can = KernelCounts::read().rekeys.is_some();
    assert_eq!(document["kernel_tls"]["rekeys"], can, "{document}");
}
