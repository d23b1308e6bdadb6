//! `cargo bench -p tls --bench after_rest`: what the host adds to a handshake at little load.
//!
//! Both ends of full handshakes of TLS 1.3 in memory, without a system call: one after the other,
//! each after two milliseconds of a loop that touches no memory, and each after two asleep, as
//! between the events of a server at a tenth of its capacity. CPU time of the thread, which is
//! pinned to the first CPU. How much a server's connections cost more at little load is to be read
//! beside it.

use std::time::{Duration, Instant};

use sys::cpu::{pin_current_thread, thread_time};
use testkit::authority::Authority;
use testkit::client::ClientChoice;
use testkit::tls_server::TlsServerChoice;

const ROUNDS: usize = 5;
const HANDSHAKES: u32 = 500;
const GAP: Duration = Duration::from_millis(2);

fn main() {
    pin_current_thread(0).expect("there is a first CPU");
    let authority = Authority::root("bench");
    let server = TlsServerChoice::new(&authority.leaf(&["localhost"]).issue(), true);
    let client = ClientChoice::new(authority.pem(), true, &[]).without_tickets();
    let handshake = || {
        let (mut client, mut server) = (client.connect("localhost"), server.accept());
        while !client.is_established() || server.is_handshaking() {
            let mut plain = Vec::new();
            let to_server = client.take_wire();
            server.hear(&to_server, &mut plain).expect("it is a client's");
            let to_client = server.take_wire();
            client.receive(&to_client, &mut plain).expect("it is a server's");
        }
    };
    let spin = || {
        let begun = Instant::now();
        while begun.elapsed() < GAP {
            std::hint::spin_loop();
        }
    };
    let gaps: [(&str, &dyn Fn()); 3] = [
        ("one after the other", &|| {}),
        ("after 2 ms of spinning", &spin),
        ("after 2 ms asleep", &|| std::thread::sleep(GAP)),
    ];
    println!("CPU time of a handshake, both ends, least to greatest of {ROUNDS} rounds");
    let mut figures = vec![Vec::new(); gaps.len()];
    for _ in 0..ROUNDS {
        for ((_, gap), figures) in gaps.iter().zip(&mut figures) {
            let mut used = Duration::ZERO;
            for _ in 0..HANDSHAKES {
                gap();
                let before = thread_time();
                handshake();
                used += thread_time() - before;
            }
            figures.push(used / HANDSHAKES);
        }
    }
    for ((name, _), mut figures) in gaps.iter().zip(figures) {
        figures.sort();
        println!("{name:24} {figures:.1?}");
    }
}
