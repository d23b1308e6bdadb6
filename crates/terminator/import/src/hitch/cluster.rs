//! The shared cache of stud: the exchange of sessions among peers.

use std::net::IpAddr;

use crate::convert::{address, split_endpoint};
use crate::draft::DraftTable;
use crate::import::Import;
use crate::source::Statement;
use crate::statements::Statements;

/// The file for the secret of a cluster.
const SECRET: &str = "/etc/lariat/cluster.key";

/// Writes `[cluster]`, if anything says so.
pub(super) fn write(options: &Statements, import: &mut Import) {
    let interface = options.find("shared-cache-if");
    let peers: Vec<_> = options.all("shared-cache-peer").collect();
    let Some(listen) = options.find("shared-cache-listen") else {
        if let Some(first) = peers.first().copied().or(interface) {
            let remedy = "write shared-cache-listen too";
            import.fault(&first.place, &first.option, "no address is listened at", remedy);
        }
        return;
    };
    let mut unused = DraftTable::default();
    let process = &mut import.draft.process;
    process.set("cluster.secret", SECRET, listen.place.clone());
    let make = "Make it once, for all hosts: head -c 32 /dev/urandom > /etc/lariat/cluster.key";
    process.remark("cluster.secret", make);
    let note = format!("with {SECRET}, which must be made and be the same on all hosts");
    let at = endpoint(listen);
    import.put(&mut unused, "cluster.peers.listen", address(&at.0, &at.1), listen, &note);
    let mut has_group = false;
    for peer in peers {
        let (host, port) = endpoint(peer);
        let at = address(&host, &port);
        if host.parse::<IpAddr>().is_ok_and(|address| address.is_multicast()) {
            has_group = true;
            import.put(&mut unused, "cluster.peers.multicast.group", at, peer, "");
        } else {
            let note = "datagrams are encrypted, and not those of stud: change all hosts at once";
            import.add(&mut unused, "cluster.peers.send-to", at, peer, note);
        }
    }
    let Some(written) = interface else {
        return;
    };
    if !has_group {
        return import.mapped(written, "without effect: no peer is a multicast group");
    }
    let value = written.value();
    let (name, hops) = value.split_once(',').unwrap_or((&value, ""));
    import.put(&mut unused, "cluster.peers.multicast.interface", name, written, "");
    if let Ok(hops) = hops.parse::<u8>() {
        let hops = i64::from(hops.max(1));
        import.put(&mut unused, "cluster.peers.multicast.hops", hops, written, "");
    }
}

fn endpoint(written: &Statement) -> (String, String) {
    split_endpoint(&written.value())
}
