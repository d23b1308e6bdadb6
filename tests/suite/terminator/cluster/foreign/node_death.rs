//! One of three terminators that share a store dies under load: its clients resume at the others.

use std::net::SocketAddr;

use suite::network::{Host, Network};
use suite::redis::{self, Redis};

use super::super::farm::Farm;
use super::super::node_death::assert_resumed_by_id;

const UP: &str = "lariat_cluster_store_up";

/// The store has the sessions of the dead one.
#[test]
fn session_ids_are_all_resumed_elsewhere_by_the_store() {
    let Some((farm, store)) = farm_with_store() else {
        return;
    };
    let record = farm.lose_one("--tls 1.2 --handshake any --tickets off");
    assert_resumed_by_id(&record);
    drop(store);
}

/// Each transaction makes a session that is to be stored.
#[test]
fn a_store_that_stops_and_starts_under_load_costs_no_transaction() {
    let Some((farm, (store, host))) = farm_with_store() else {
        return;
    };
    let mut back = None;
    let record = farm.loaded("--tls 1.2 --handshake full --tickets off", || {
        let place = store.address;
        store.kill();
        let openings = "lariat_cluster_store_breaker_openings_total";
        farm.wait_from(0, openings, &[], 1.0);
        back = Some(start(&host, place));
    });
    let [attempted, succeeded, failed] = record.totals();
    assert_eq!((succeeded, failed), (attempted, 0), "{:?}", record.failures());
    (0..3).for_each(|node| farm.wait_from(node, UP, &[], 1.0));
    // New sessions are shared again.
    let clients = farm.clients(1);
    let sessions = ("lariat_cluster_store_sessions_total", [("update", "published")]);
    let before = farm.sum(0, sessions.0, &sessions.1);
    assert_eq!(farm.visit(&clients, 0), 0);
    farm.wait_from(0, sessions.0, &sessions.1, before + 1.0);
    assert_eq!(farm.visit(&clients, 1), 1);
    drop((back, host));
}

/// Makes three terminators and their store, which outlives them. `None` = only root may make
/// networks.
pub(super) fn farm_with_store() -> Option<(Farm, (Redis, Host))> {
    let network = Network::new()?;
    let mut store = None;
    let farm = Farm::with(network, |network, hosts| {
        let host = network.host();
        let place = host.at(6379);
        let redis = start(&host, place);
        store = Some((redis, host));
        let table = format!(
            "[cluster]\nsecret = SECRET\n[cluster.store]\nurl = \"redis://{place}\"\nfetch-timeout = \
             \"1s\"\n"
        );
        (vec![table; hosts.len()], None)
    });
    (0..3).for_each(|node| farm.wait_from(node, UP, &[], 1.0));
    Some((farm, store?))
}

fn start(host: &Host, place: SocketAddr) -> Redis {
    let mut command = host.command(&redis::command());
    Redis::start_by(&mut command, place, &["--protected-mode", "no"])
}
