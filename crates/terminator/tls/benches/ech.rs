//! `cargo bench -p tls --bench ech`: what an encrypted hello costs above a plain one.
//!
//! A hello of the library's own client, in memory, without a system call: read as passthrough reads
//! it, and opened as well, by a key that is there, by each of those that are looked for, and by
//! none. CPU time of the thread, which is pinned to the first CPU.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::{EchConfig, EchMode};
use rustls::crypto::aws_lc_rs;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use rustls_pki_types::EchConfigListBytes;
use sys::cpu::{pin_current_thread, thread_time};
use tls::ech::{EchKeySource, EchKeys, OpenedHello};
use tls::resumption::keys::SharedSecret;
use wire::client_hello::{ClientHello, Peek, read};
use wire::ech::config_list;

const ROUNDS: usize = 5;
const HELLOS: u32 = 5000;

/// A week, in seconds.
const ROTATE_SECONDS: u64 = 7 * 86_400;

fn main() {
    pin_current_thread(0).expect("there is a first CPU");
    let (ours, others) = (keys(1), keys(2));
    let opened = hello(&ours);
    let cases: [(&str, &dyn Fn()); 3] = [
        ("read, as of a plain hello", &|| {
            black_box(read_whole(&opened).server_name());
        }),
        ("read and opened", &|| {
            let hello = read_whole(&opened);
            assert!(matches!(black_box(ours.open(&hello)), OpenedHello::Accepted(_)));
        }),
        ("read and not opened (GREASE with a number that is there)", &|| {
            let hello = read_whole(&opened);
            assert!(matches!(black_box(others.open(&hello)), OpenedHello::Rejected(_)));
        }),
    ];
    println!("CPU time of a hello of {} bytes, least to greatest of {ROUNDS} rounds", opened.len());
    for (name, act) in cases {
        let mut figures: Vec<Duration> = (0..ROUNDS).map(|_| time_of(act)).collect();
        figures.sort();
        println!("{name}: {:?} to {:?}", figures[0], figures[ROUNDS - 1]);
    }
}

fn time_of(act: &dyn Fn()) -> Duration {
    let before = thread_time();
    (0..HELLOS).for_each(|_| act());
    (thread_time() - before) / HELLOS
}

fn keys(byte: u8) -> EchKeys {
    let secrets = vec![SharedSecret::read("s", vec![byte; 32]).expect("it is long enough")];
    let source = EchKeySource::Derived { secrets, rotate_seconds: ROTATE_SECONDS };
    EchKeys::new("front.example", source)
}

/// The records of a client that encrypts for these keys.
fn hello(keys: &EchKeys) -> Vec<u8> {
    let list = config_list(&keys.published().0);
    let list = EchConfigListBytes::from(list);
    let config = EchConfig::new(list, aws_lc_rs::hpke::ALL_SUPPORTED_SUITES);
    let mode = EchMode::from(config.expect("the client has its cipher"));
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_ech(mode)
        .expect("the client speaks TLS 1.3")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = "hidden.example".try_into().expect("it is a name");
    let mut client = ClientConnection::new(Arc::new(config), name).expect("it is a client");
    let mut hello = Vec::new();
    client.write_tls(&mut hello).expect("memory takes everything");
    hello
}

fn read_whole(bytes: &[u8]) -> ClientHello<'_> {
    match read(bytes) {
        Ok(Peek::Hello(hello)) => hello,
        _ => unreachable!("it is a whole hello"),
    }
}
