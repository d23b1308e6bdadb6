//! Each kind of resumption, in each version that has it, with each kind of key, against each
//! server: the resumed share is as asked for, or the record tells why not.

use suite::haproxy::Haproxy;
use suite::hitch::Hitch;
use suite::load::Record;
use suite::nginx::Nginx;
use suite::prelude::*;

/// Kind, version, and the kinds of 20 handshakes of two clients: all but the first of each are
/// resumed.
const KINDS: [(&str, &str, [u64; 4]); 5] = [
    ("full", "1.2", [20, 0, 0, 0]),
    ("full", "1.3", [20, 0, 0, 0]),
    ("session-id", "1.2", [2, 18, 0, 0]),
    ("ticket", "1.2", [2, 0, 18, 0]),
    ("psk", "1.3", [2, 0, 0, 18]),
];

/// Keys, and how the names of their signature schemes begin: the server chooses among these.
const KEYS: [(Key, &str, &str); 2] =
    [(Key::EcdsaP256, "p256.pem", "ecdsa_"), (Key::Rsa2048, "rsa.pem", "rsa_")];

fn site() -> Site {
    let site = Site::new();
    for (key, file, _) in KEYS {
        let leaf = site.authority.leaf(&["localhost"]).key(key).issue();
        leaf.write(&site.directory, file);
    }
    site
}

fn cell(address: SocketAddr, handshake: &str, version: &str) -> Record {
    Load::of(address)
        .args(&format!("--handshake {handshake} --tls {version} --count 20"))
        .args("--verify signature")
        .record()
}

/// Checks all kinds against a server with this kind of key.
fn row(address: SocketAddr, scheme: &str) {
    for (handshake, version, kinds) in KINDS {
        let record = cell(address, handshake, version);
        assert_eq!(record.totals(), [20, 20, 0], "{handshake} {version}");
        assert_eq!(record.kinds(), kinds, "{handshake} {version}");
        let of_version = [("version", &*format!("TLSv{version}"))];
        assert_eq!(record.handshakes_with(&of_version), 20, "{handshake}");
        for row in record.list("/handshakes") {
            // A resuming server signs nothing.
            let signature = row["signature"].as_str();
            let is_as_wanted = if row["kind"] == "full" {
                signature.is_some_and(|name| name.starts_with(scheme))
            } else {
                signature.is_none()
            };
            assert!(is_as_wanted, "{handshake} {version}: {row}");
        }
    }
}

#[test]
fn lariat_does_all_of_it() {
    let (site, server) = (site(), Server::start(http()));
    let services = KEYS.map(|(_, file, scheme)| {
        let service = Service::new(&site, &server)
            .named(file)
            .certificates(&format!("[{:?}]", site.path(file)));
        (service, scheme)
    });
    let toml = services.iter().map(|(service, _)| service.toml());
    let _lariat = Lariat::start(&toml.collect::<String>());
    for (service, scheme) in services {
        row(service.address, scheme);
    }
}

#[test]
fn nginx_does_all_of_it() {
    let site = site();
    for (_, file, scheme) in KEYS {
        let nginx = Nginx::terminate(
            &site.path(file),
            "ssl_protocols TLSv1.2 TLSv1.3; ssl_session_cache shared:sessions:1m;",
        );
        row(nginx.address, scheme);
    }
}

#[test]
fn haproxy_does_all_of_it() {
    let site = site();
    for (_, file, scheme) in KEYS {
        let haproxy = Haproxy::terminate(&site.path(file), "");
        row(haproxy.address, scheme);
    }
}

#[test]
fn hitch_does_all_of_it() {
    let (site, origin) = (site(), Origin::start());
    for (_, file, scheme) in KEYS {
        let hitch = Hitch::start(&site.path(file), origin.address);
        row(hitch.address, scheme);
    }
}
