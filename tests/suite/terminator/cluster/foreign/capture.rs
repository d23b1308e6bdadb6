//! Traffic between hosts shows no secret to its readers: real `tcpdump`, at the bridge between
//! them.

use suite::openssl::{bytes_of, master_secret};
use suite::prelude::*;
use suite::tcpdump::{Capture, holds};
use suite::weather::Weather;

use super::super::farm::{Farm, WAIT};
use super::node_death::farm_with_store;

/// All traffic between hosts of a cluster, and with a store.
const BETWEEN_HOSTS: &str = "udp or tcp port 6379";

/// Makes a session at the first terminator, which goes to the others, and checks that neither its
/// master secret nor its id is seen on the way.
fn assert_nothing_is_seen(farm: &Farm, wait_until_sent: impl FnOnce()) {
    let between = Capture::start(farm.network(), BETWEEN_HOSTS);
    let clients = Capture::start(farm.network(), "tcp port 443");
    let keys = farm.site().path("keys");
    let options = ["-tls1_2", "-no_ticket", "-keylogfile"];
    let options = [&options[..], &[keys.to_str().unwrap()]].concat();
    let said = farm.talk(0, &options);
    let id = said.lines().find_map(|line| line.trim().strip_prefix("Session-ID: "));
    let id = bytes_of(id.unwrap());
    assert_eq!(id.len(), 32);
    let secret = master_secret(&keys);
    wait_until_sent();
    // The capture does see what is visible: the server sends the id in clear.
    until_true("the id in the ServerHello", || holds(&clients.bytes(), &id));
    assert!(!holds(&clients.bytes(), &secret));
    let (from, to) = farm.ends();
    let seen = between.until_now(from, to);
    assert!(seen.len() > 500, "{} bytes", seen.len());
    for part in secret.windows(8).chain(id.windows(8)) {
        assert!(!holds(&seen, part), "it was sent in clear");
    }
}

#[test]
fn datagrams_of_peers_show_no_secret() {
    let farms = [
        Farm::with_peers(Weather::default(), 1, WAIT),
        Farm::with_group("239.77.0.1:8888"),
        Farm::with_group("[ff05::77]:8888"),
    ];
    for farm in farms.into_iter().flatten() {
        (0..3).for_each(|node| farm.hears(node, 2.0));
        assert_nothing_is_seen(&farm, || (1..3).for_each(|node| farm.stored(node, 1.0)));
    }
}

#[test]
fn what_goes_to_the_store_and_comes_from_there_shows_no_secret() {
    let Some((farm, store)) = farm_with_store() else {
        return;
    };
    let sessions = "lariat_cluster_store_sessions_total";
    assert_nothing_is_seen(&farm, || {
        farm.wait_from(0, sessions, &[("update", "published")], 1.0);
        // A session that another terminator asks the store for.
        let clients = farm.clients(1);
        farm.visit(&clients, 0);
        farm.wait_from(0, sessions, &[("update", "published")], 2.0);
        assert_eq!(farm.visit(&clients, 1), 1);
    });
    drop(store);
}
