//! One of three terminators that share a store dies under load: its clients resume at the others.

use suite::network::Network;
use suite::redis::{self, Redis};

use super::super::farm::Farm;
use super::super::node_death::assert_resumed_by_id;

/// The store has what the dead one had.
#[test]
fn session_ids_are_all_resumed_elsewhere_by_the_store() {
    let Some((farm, store)) = farm_with_store() else {
        return;
    };
    let record = farm.lose_one("--tls 1.2 --handshake any --tickets off");
    assert_resumed_by_id(&record);
    drop(store);
}

/// Three terminators and their store, which is to outlive them. `None` = only root may make
/// networks.
pub(super) fn farm_with_store() -> Option<(Farm, impl Sized)> {
    let network = Network::new()?;
    let mut store = None;
    let farm = Farm::with(network, |network, hosts| {
        let host = network.host();
        let place = host.at(6379);
        let mut command = host.command(&redis::command());
        let redis = Redis::start_by(&mut command, place, &["--protected-mode", "no"]);
        store = Some((redis, host));
        let table = format!(
            "[cluster]\nsecret = SECRET\n[cluster.store]\nurl = \"redis://{place}\"\nfetch-timeout = \
             \"1s\"\n"
        );
        (vec![table; hosts.len()], None)
    });
    let up = "lariat_cluster_store_up";
    (0..3).for_each(|node| farm.wait_from(node, up, &[], 1.0));
    Some((farm, store?))
}
