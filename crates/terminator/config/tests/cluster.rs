//! `[cluster]`, and its effect on tickets and peers.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::time::Duration;

use config::{Recording, Settings, TypedConfiguration};
use tls::resumption::KeySource;

const SERVICE: &str = "
[[service]]
front = { listen = ['[::]:443'], tls = { certificates = ['site.pem'] } }
back = { servers = ['127.0.0.1:80'] }
";

fn settings(text: &str) -> Settings {
    load(&TypedConfiguration::of_text("lariat.toml", text))
}

fn load(source: &TypedConfiguration) -> Settings {
    let mut files = Recording::default();
    files.insert("site.pem", b"PEM".to_vec());
    files.insert("cluster.key", vec![7; 32]);
    files.insert("other.key", vec![8; 32]);
    config::load(source, &mut files).unwrap().settings
}

#[test]
fn a_cluster_has_one_secret_for_tickets_and_peers() {
    let text = "[cluster]\nsecret = 'cluster.key'\npeers.multicast = { group = '[ff05::7]:88', \
                interface = 'eth0', hops = 3 }\npeers.fetch-timeout = '9ms'\n";
    let with = |more: &str| settings(&format!("{text}{more}{SERVICE}"));
    let one = with("");
    let cluster = one.cluster.unwrap();
    let keys = KeySource::Shared(cluster.secrets.clone());
    assert_eq!(one.tickets.keys, keys);
    let peers = cluster.peers.unwrap();
    assert_eq!(peers.mesh.fetch_timeout, Some(Duration::from_millis(9)));
    let network = config::PeerNetwork::Multicast {
        group: "[ff05::7]:88".parse().unwrap(),
        interface: Some("eth0".to_owned()),
        hops: 3,
    };
    assert_eq!((peers.network, peers.mesh.copies()), (network, 1));
    let both = with("[resumption]\ntickets = { secret = 'other.key' }\n").tickets.keys;
    assert_ne!(both, keys);
    assert_eq!(settings(SERVICE).cluster, None);
}

#[test]
fn every_default_is_valid_when_written_out() {
    let flags = |more: Option<(&str, &str)>| {
        let all = [
            ("listen", "*:443"),
            ("certificate", "site.pem"),
            ("backend", "127.0.0.1:80"),
            ("cluster-secret", "cluster.key"),
            ("cluster-group", "239.1.1.1:8"),
            ("cluster-store", "redis://10.0.0.5"),
        ];
        let all = all.into_iter().chain(more);
        TypedConfiguration::Flags(all.map(|(name, text)| (name.into(), text.into())).collect())
    };
    let plain = load(&flags(None));
    let mut count = 0;
    for key in config::TABLE.keys {
        if let (options::Default::Text(text), Some(flag)) = (key.default, key.flag)
            && key.path.starts_with("cluster.")
        {
            assert_eq!(plain, load(&flags(Some((flag, text)))), "{}", key.path);
            count += 1;
        }
    }
    assert!(count >= 9);
}
