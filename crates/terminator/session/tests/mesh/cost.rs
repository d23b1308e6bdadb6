//! Tests of the cost of sharing, and of how it grows with the number of hosts.

use std::time::Duration;

use session::mesh::Mesh;
use telemetry::outcome::ClusterUpdate;

use crate::network::*;

/// Few of the many holders answer at once; if none does, they answer the repeated request.
#[test]
fn a_session_that_is_asked_for_is_answered_by_few_of_many() {
    let mut network = Network::new(40, 15, CLEAN);
    for number in 0..100 {
        network.publish(0, number);
        network.run(Duration::from_millis(2));
        network.hosts[1].1.0.borrow_mut().clear();
        assert!(network.fetch(1, number), "{number}");
    }
    let answered = |host: &(Mesh, Cache)| host.0.counters().updates(ClusterUpdate::Answered);
    let answers: u64 = network.hosts.iter().map(answered).sum();
    assert!((300..1000).contains(&answers), "{answers} of 3900");
}

#[test]
fn the_cost_grows_with_the_hosts_that_a_session_is_sent_to() {
    let mut network = Network::new(2, 3, CLEAN);
    for hosts in [2, 4, 16, 100, 1000] {
        let copies = hosts as u64 - 1;
        for (sessions, pause_us, least, most) in [(7, 1000, 216, 216), (700, 10, 168, 170)] {
            let mut mesh = network.mesh(0, 1, hosts);
            mesh.tick(network.moment(0), &Cache::default());
            let before = mesh.counters().bytes_sent;
            assert_eq!(before, 56 * copies, "a sign of life");
            for number in 0..sessions {
                mesh.publish(key(number), &[7; SESSION_BYTES], HOUR, network.moment(0));
                network.now += Duration::from_micros(pause_us);
                mesh.tick(network.moment(0), &Cache::default());
            }
            network.now += Duration::from_millis(1);
            mesh.tick(network.moment(0), &Cache::default());
            let counters = mesh.counters();
            assert_eq!(counters.updates(ClusterUpdate::Dropped), 0);
            let each = (counters.bytes_sent - before) / u64::from(sessions) / copies;
            assert!((least..=most).contains(&each), "{each} bytes of each session and host");
        }
    }
}
