//! A bad configuration: one clear message with the place and the remedy, and a documented code.

use suite::configuration::Service;
use suite::lariat::command;
use suite::program::{Finished, run};
use suite::site::Site;
use testkit::server::{Behaviour, Server};

struct Desk {
    site: Site,
    service: Service,
    _server: Server,
}

fn desk() -> Desk {
    let (site, server) = (Site::new(), Server::start(Behaviour::Echo));
    let service = Service::new(&site, &server);
    Desk {
        site,
        service,
        _server: server,
    }
}

fn check(desk: &Desk, text: &str) -> Finished {
    let file = desk.site.directory.write("lariat.toml", text);
    run(command().arg("check").arg(file))
}

/// Refused with code 2, and every one of these words.
fn assert_refused(answer: &Finished, words: &[&str]) {
    assert_eq!(answer.code(), 2, "{answer:?}");
    for word in words {
        assert!(answer.stderr.contains(word), "{word}: {}", answer.stderr);
    }
}

#[test]
fn a_good_one_passes() {
    let desk = desk();
    let answer = check(&desk, &desk.service.toml());
    assert_eq!(answer.code(), 0, "{answer:?}");
}

#[test]
fn an_unknown_key_names_the_nearest_and_the_place() {
    let desk = desk();
    let text = desk.service.clone().back("balanse = 'source'").toml();
    let line = text
        .lines()
        .position(|line| line.starts_with("balanse"))
        .unwrap()
        + 1;
    let place = format!("lariat.toml:{line}:1");
    assert_refused(
        &check(&desk, &text),
        &["balanse", &place, "hint:", "balance"],
    );
}

#[test]
fn a_missing_file_is_named() {
    let desk = desk();
    let text = desk.service.clone().certificates("['missing.pem']").toml();
    assert_refused(
        &check(&desk, &text),
        &["missing.pem", "No such file", "lariat.toml:"],
    );
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let desk = desk();
    let (one, other) = (
        desk.site.leaf(&["localhost"]),
        desk.site.leaf(&["localhost"]),
    );
    let mixed = format!("{}{}", one.chain_pem(), other.key_pem());
    let file = desk.site.directory.write("mixed.pem", mixed);
    let text = desk
        .service
        .clone()
        .certificates(&format!("[{file:?}]"))
        .toml();
    assert_refused(&check(&desk, &text), &["mixed.pem", "key"]);
}

#[test]
fn an_expired_certificate_is_a_warning() {
    let desk = desk();
    let leaf = desk.site.authority.leaf(&["localhost"]).expired().issue();
    let file = leaf.write(&desk.site.directory, "old.pem");
    let answer = check(
        &desk,
        &desk
            .service
            .clone()
            .certificates(&format!("[{file:?}]"))
            .toml(),
    );
    assert_eq!(answer.code(), 0, "{answer:?}");
    assert!(
        answer.stderr.contains("warning") && answer.stderr.contains("expired"),
        "{answer:?}"
    );
}

#[test]
fn serve_refuses_what_check_refuses() {
    let desk = desk();
    let file = desk
        .site
        .directory
        .write("lariat.toml", "[[service]]\nname = 'web'\n");
    assert_refused(
        &run(command().arg("serve").arg(file)),
        &["lariat.toml", "error"],
    );
}
