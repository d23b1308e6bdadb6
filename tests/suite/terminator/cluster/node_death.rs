//! One of three terminators behind a balancer dies under load: its clients resume at the others.

use suite::load::Record;
use suite::weather::Weather;

use super::farm::{CLIENTS, Farm, TRANSACTIONS, WAIT};

/// Checks that only transactions in progress at the dead node failed.
pub(super) fn assert_few_failed(record: &Record) {
    let [attempted, _, failed] = record.totals();
    assert!(failed <= CLIENTS, "{failed} of {attempted}: {:?}", record.failures());
    assert_eq!(attempted, TRANSACTIONS);
}

/// Terminators with the same secret resume each other's tickets.
#[test]
fn stateless_sessions_are_all_resumed_elsewhere() {
    for arguments in ["--tls 1.3 --handshake psk", "--tls 1.2 --handshake ticket"] {
        let Some(farm) = Farm::start("[resumption.tickets]\nsecret = SECRET\n") else {
            return;
        };
        let record = farm.lose_one(arguments);
        assert_few_failed(&record);
        let [full, by_id, by_ticket, by_psk] = record.kinds();
        assert_eq!(by_id, 0);
        // The first handshake of each client, and, where an answer was cut, the one that had
        // brought it a new ticket.
        assert!(full <= CLIENTS + record.totals()[2], "{full} full");
        assert!(by_ticket + by_psk >= record.totals()[1] - full);
    }
}

/// Without a shared cache, affinity keeps the sessions of the living nodes.
#[test]
fn session_ids_of_the_living_are_kept_by_affinity() {
    let Some(farm) = Farm::start("") else {
        return;
    };
    let record = farm.lose_one("--tls 1.2 --handshake any --tickets off");
    assert_few_failed(&record);
    let [full, by_id, by_ticket, by_psk] = record.kinds();
    assert_eq!((by_ticket, by_psk), (0, 0));
    // Each client's first, and once more for those of the node that died.
    assert!((CLIENTS + 1..=2 * CLIENTS).contains(&full), "{full} full, {by_id} resumed");
}

/// Checks that only each client's first handshake, and one where it was cut, was full.
pub(super) fn assert_resumed_by_id(record: &Record) {
    assert_few_failed(record);
    let [full, by_id, by_ticket, by_psk] = record.kinds();
    assert_eq!((by_ticket, by_psk), (0, 0));
    assert!(full <= CLIENTS + record.totals()[2], "{full} full");
    assert!(by_id >= record.totals()[1] - full);
}

/// Peers have the sessions of the dead one.
#[test]
fn session_ids_are_all_resumed_elsewhere_by_peers() {
    let Some(farm) = Farm::with_peers(Weather::default(), 1, WAIT) else {
        return;
    };
    (0..3).for_each(|node| farm.hears(node, 2.0));
    let record = farm.lose_one("--tls 1.2 --handshake any --tickets off");
    assert_resumed_by_id(&record);
}

/// The datagrams of some sessions are lost before their host dies, and those that ask for them.
#[test]
fn session_ids_are_resumed_elsewhere_by_peers_that_miss_datagrams() {
    for lost in [10, 100] {
        let weather = Weather { lost, ..Weather::default() };
        let Some(farm) = Farm::with_peers(weather, 5, WAIT) else {
            return;
        };
        (0..3).for_each(|node| farm.hears(node, 2.0));
        let record = farm.lose_one("--tls 1.2 --handshake any --tickets off");
        assert_few_failed(&record);
        let [full, by_id, ..] = record.kinds();
        eprintln!("{weather:?}: {by_id} resumed, {full} full");
        // Perhaps four sessions move; one may be missed.
        assert!(full <= CLIENTS + record.totals()[2] + 2, "{full} full");
    }
}
