//! Any bytes as a name server's answer: no panic, and each parsed target could be a server.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::address::Endpoint;
use wire::dns::service_records;

fuzz_target!(|bytes: &[u8]| {
    let Ok(records) = service_records(bytes) else { return };
    for record in records {
        assert!(record.port != 0);
        let endpoint = format!("{}:{}", record.host, record.port).parse();
        let is_dialled = matches!(endpoint, Ok(Endpoint::Name { .. } | Endpoint::Address(_)));
        assert!(is_dialled, "{}", record.host);
    }
});
