//! The metrics keep to the conventions of Prometheus.

use suite::prelude::*;
use suite::prometheus::promtool;

#[test]
fn promtool_has_nothing_to_say_of_them() {
    let (site, _server, service, lariat) = serve(http());
    curl_tls(&site, service.address).run().success();
    let url = format!("http://{}/metrics", lariat.admin());
    let metrics = curl().url(&url).run().success();
    let check = ["check", "metrics"];
    let answer = promtool(&check, &metrics);
    let said = format!("{}{}", answer.stdout, answer.stderr);
    assert_eq!((answer.code(), said.trim()), (0, ""));
    // The tool does complain of a wrong name.
    let renamed = metrics.replace("lariat_reloads_total", "lariat_reloads");
    promtool(&check, &renamed).assert_stderr("lariat_reloads ");
}
