//! Hosts that share nothing but a store, which cannot read what they exchange.

use suite::redis::Redis;

use super::*;

fn with_store() -> (Redis, AcmeFarm) {
    let redis = Redis::start(&[]);
    let farm = AcmeFarm { store: Some(redis.address), ..AcmeFarm::new([""; 2]) };
    (redis, farm)
}

#[test]
fn one_of_the_hosts_that_share_only_a_store_orders_for_all() {
    let (redis, farm) = with_store();
    let hosts = one_host_orders(&farm);
    let mailboxes: Vec<_> = (0..16)
        .map(|place| redis.ask(&[b"GET", format!("lariat:notices-{place}").as_bytes()]))
        .filter_map(|mut contents| contents.pop())
        .filter(|contents| !contents.is_empty())
        .collect();
    assert!(mailboxes.len() >= hosts.len(), "each has one");
    let text = mailboxes.concat();
    let is_sealed = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=\n".contains(byte);
    assert!(text.iter().all(is_sealed), "{}", text.escape_ascii());
    for host in &hosts {
        assert!(!host.stderr().contains("is left out"), "each is taken once: {}", host.stderr());
    }
    // While the store is away each serves what it has, and one of them orders when it is back.
    let served = farm.served(0, &hosts[0]);
    redis.signal(Signal::STOP);
    until_true("hosts that hear nothing of each other", || {
        orderer(&hosts.iter().collect::<Vec<_>>()).is_none()
    });
    redis.signal(Signal::CONT);
    until_true("one that orders", || orderer(&hosts.iter().collect::<Vec<_>>()).is_some());
    assert!((0..3).all(|host| farm.served(host, &hosts[host]) == served));
    assert_eq!(farm.pebble.orders(), 2, "{}", farm.pebble.running.stdout());
}

#[test]
fn another_host_orders_when_the_first_that_shares_a_store_dies() {
    let (_redis, farm) = with_store();
    another_host_orders(&farm);
}
