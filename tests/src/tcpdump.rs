//! The program `tcpdump`: sees what a reader of the network between hosts sees.

use std::net::UdpSocket;
use std::process::Command;

use crate::network::{Host, Network};
use crate::patience::until;
use crate::program::Running;

const MARK: &[u8] = b"here the capture may end";

/// A capture of packets that pass a network's bridge.
#[derive(Debug)]
pub struct Capture(Running);

impl Capture {
    /// Begins a capture; `filter` selects packets, in the words of pcap-filter(7).
    pub fn start(network: &Network, filter: &str) -> Self {
        let mut command = network.command(&Command::new("tcpdump"));
        // Each packet is written at once, and under our own user, as our folder is.
        command.args(["-i", "any", "-U", "--immediate-mode", "-Z", "root"]);
        // Room for thousands of packets: by default each takes the longest one's, and few fit.
        command.args(["-s", "9000", "-B", "32768"]);
        let running = Running::start(command.args(["-w", "-", filter]));
        running.wait_for_stderr("listening on");
        Self(running)
    }

    /// Returns all packets so far, with the headers around.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.stdout_bytes()
    }

    /// Returns all packets sent before now that are UDP or pass the filter anyway: a datagram from
    /// one host to another marks the end.
    pub fn until_now(&self, from: &Host, to: &Host) -> Vec<u8> {
        from.within(|| {
            let socket = UdpSocket::bind((from.ipv4(), 0)).expect("a free port");
            let sent = socket.send_to(MARK, to.at(9));
            sent.expect("the host is there");
        });
        until("the capture to go as far", || {
            let bytes = self.bytes();
            holds(&bytes, MARK).then_some(bytes)
        })
    }
}

/// Reports whether these bytes are somewhere in those.
pub fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|here| here == part)
}
