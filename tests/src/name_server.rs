//! A name server with a test's records: one SRV name, and hosts that are all this host.
//!
//! Listens on port 53, because `resolv.conf` has no other, at an address of 127.0.0.0/8 of its own.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Name that has the records.
pub const SERVICE_NAME: &str = "_app._tcp.test";

const A: u16 = 1;
const SRV: u16 = 33;

/// A record of [`SERVICE_NAME`]: priority, weight, port, and host.
pub type Record = (u16, u16, u16, &'static str);

/// A running name server; its thread ends with the test.
#[derive(Debug)]
pub struct NameServer {
    address: Ipv4Addr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    records: Vec<Record>,
    /// Questions for the records that were answered since these were set.
    answers: u32,
}

impl NameServer {
    /// Starts a name server; `None` = only root may listen there.
    pub fn start(records: &[Record]) -> Option<Self> {
        // The process's number makes the address its own, among tests that run at once.
        let [_, high, middle, low] = std::process::id().to_be_bytes();
        let address = Ipv4Addr::new(127, high | 0x80, middle, low);
        let socket = UdpSocket::bind((address, 53)).ok()?;
        let state = Arc::new(Mutex::new(State::default()));
        let server = Self { address, state: Arc::clone(&state) };
        server.set(records);
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut question) {
                if let Some(answer) = answer(&question[..length], &mut lock(&state)) {
                    let _ = socket.send_to(&answer, client);
                }
            }
        });
        Some(server)
    }

    pub fn resolv_conf(&self) -> String {
        format!("nameserver {}\noptions timeout:1 attempts:1\n", self.address)
    }

    /// Gives the name these records from now on; none = it has no SRV records.
    pub fn set(&self, records: &[Record]) {
        *lock(&self.state) = State { records: records.to_vec(), answers: 0 };
    }

    /// Returns how often its records were asked for since they were set.
    pub fn answers(&self) -> u32 {
        lock(&self.state).answers
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers a question of one name (RFC 1035 section 4).
fn answer(question: &[u8], state: &mut State) -> Option<Vec<u8>> {
    let mut at = 12;
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*question.get(at)?);
        if length == 0 {
            break;
        }
        let label = question.get(at + 1..at + 1 + length)?;
        labels.push(String::from_utf8_lossy(label).into_owned());
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([*question.get(at + 1)?, *question.get(at + 2)?]);
    let asked = question.get(12..at + 5)?;
    let is_service = labels.join(".") == SERVICE_NAME;
    let data: Vec<Vec<u8>> = match kind {
        SRV if is_service => {
            state.answers += 1;
            state.records.iter().map(service_data).collect()
        }
        A if !is_service => vec![vec![127, 0, 0, 1]],
        _ => Vec::new(),
    };
    let mut answer = question.get(..2)?.to_vec();
    answer.extend([0x85, 0x80, 0, 1, 0, data.len() as u8, 0, 0, 0, 0]);
    answer.extend(asked);
    for data in data {
        answer.extend([0xc0, 12, 0, kind as u8, 0, 1, 0, 0, 0, 0, 0, data.len() as u8]);
        answer.extend(data);
    }
    Some(answer)
}

fn service_data((priority, weight, port, host): &Record) -> Vec<u8> {
    let mut data: Vec<u8> =
        [priority, weight, port].into_iter().flat_map(|number| number.to_be_bytes()).collect();
    for label in host.split('.') {
        data.push(label.len() as u8);
        data.extend(label.as_bytes());
    }
    data.push(0);
    data
}
