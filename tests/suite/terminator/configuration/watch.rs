//! `reload.watch`: changed files are read again by themselves, as one transaction.

use std::os::unix::fs::symlink;

use suite::prelude::*;

/// Files are read 50 ms after they have changed.
const WATCHED: &str = "[reload]\nwatch = true\ndebounce = '50ms'\n";

/// Waits until clients are shown a certificate of this name.
fn wait_for(site: &Site, service: &Service, name: &str) {
    let wanted = format!("subject=CN = {name}");
    until_true(name, || {
        let answer = s_client(site, service.address, &[]);
        answer.stdout.contains(&wanted)
    });
}

/// Returns how many reloads had this result.
fn reloads(lariat: &Lariat, result: &str) -> f64 {
    lariat.sum("lariat_reloads_total", &[("result", result)])
}

#[test]
fn certificate_and_configuration_are_followed_and_connections_go_on() {
    let (site, _server, service, lariat) = serve_with(WATCHED, Behaviour::Echo);
    let mut old = Client::new(&site).connect(service.address);
    site.leaf(&["renewed.example"]).write(&site.directory, "site.pem");
    wait_for(&site, &service, "renewed.example");
    old.echo();
    site.leaf(&["other.example"]).write(&site.directory, "other.pem");
    let other = format!("[{:?}]", site.path("other.pem"));
    let text = |service: &Service| service.clone().certificates(&other).toml();
    lariat.configure(&(WATCHED.to_owned() + &text(&service)));
    wait_for(&site, &service, "other.example");
    lariat.wait_for_stderr("site.pem");
    // No longer watched, it is read only on demand.
    lariat.configure(&text(&service));
    until_true("the last reload", || reloads(&lariat, "ok") > 2.0);
    site.leaf(&["third.example"]).write(&site.directory, "other.pem");
    lariat.reload().success();
    assert!((reloads(&lariat, "ok") - 4.0).abs() < f64::EPSILON);
    wait_for(&site, &service, "third.example");
}

#[test]
fn half_a_file_keeps_the_old_one_and_the_next_change_is_read() {
    let (site, _server, service, lariat) = serve_with(WATCHED, Behaviour::Echo);
    let whole = site.leaf(&["whole.example"]).pem();
    site.write("site.pem", &whole[..200]);
    until_true("a refusal", || reloads(&lariat, "refused") > 0.0);
    wait_for(&site, &service, "localhost");
    fs::remove_file(site.path("site.pem")).unwrap();
    until_true("another", || reloads(&lariat, "refused") > 1.0);
    site.write("site.pem", &whole);
    wait_for(&site, &service, "whole.example");
    let refusals = || lariat.stderr().matches("reload refused").count();
    until_true("two refusals, or three", || (2..=3).contains(&refusals()));
}

/// Writes a version of a Secret as the kubelet does: into a directory of its own, to which `..data`
/// then leads.
fn publish(site: &Site, version: &str, name: &str) {
    let leaf = site.leaf(&[name]);
    let folder = format!("secret/..{version}");
    for (file, text) in [
        ("tls.crt", leaf.chain_pem()),
        ("tls.key", leaf.key_pem().to_owned()),
        ("ca.crt", site.authority.pem().to_owned()),
    ] {
        site.write(format!("{folder}/{file}"), text);
        let _there_already = symlink(format!("..data/{file}"), site.path("secret").join(file));
    }
    let new = site.path("secret/..data_tmp");
    symlink(format!("..{version}"), &new).unwrap();
    fs::rename(new, site.path("secret/..data")).unwrap();
}

#[test]
fn a_secret_of_kubernetes_is_followed_through_its_links() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    publish(&site, "one", "one.example");
    let folder = format!("[\"{}/\"]", site.path("secret").display());
    let service = Service::new(&site, &server).certificates(&folder);
    let lariat = Lariat::start(&(WATCHED.to_owned() + &service.toml()));
    wait_for(&site, &service, "one.example");
    publish(&site, "two", "two.example");
    wait_for(&site, &service, "two.example");
    fs::remove_dir_all(site.path("secret/..one")).unwrap();
    publish(&site, "three", "three.example");
    wait_for(&site, &service, "three.example");
    // The whole folder goes, and comes again.
    fs::remove_dir_all(site.path("secret")).unwrap();
    until_true("a refusal", || reloads(&lariat, "refused") > 0.0);
    wait_for(&site, &service, "three.example");
    publish(&site, "four", "four.example");
    wait_for(&site, &service, "four.example");
}

#[test]
fn a_watcher_that_is_killed_is_started_again() {
    let (site, _server, service, lariat) = serve_with(WATCHED, Behaviour::Echo);
    let watcher = lariat.process("lariat: watcher");
    kill_process(watcher, Signal::KILL).unwrap();
    let another = |now| (now != watcher).then_some(());
    until("another watcher", || another(lariat.process("lariat: watcher")));
    site.leaf(&["later.example"]).write(&site.directory, "site.pem");
    wait_for(&site, &service, "later.example");
}
