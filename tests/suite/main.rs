//! What the two programs do, seen from outside: one module per behaviour.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "what fails in a test's own tools fails the test"
)]

mod laboratory {
    mod experiment {
        mod host;
        mod interrupt;
        mod measurement;
        mod page;
        mod run;
        mod targets;
    }
    mod load {
        mod counts;
        mod failures;
        mod interrupt;
        mod matrix;
        mod offers;
        mod page;
        mod plan;
        mod record;
        mod settings;
        mod shapes;
    }
    mod report_files;
    mod test_server;
}
mod terminator {
    mod admin {
        mod access;
        mod log;
        mod metrics;
        mod page;
        mod status;
        mod status_forged;
    }
    mod configuration {
        mod bad_config;
        mod examples;
        mod flags;
        mod reload;
    }
    mod connections {
        mod bad_input;
        mod half_close;
        mod limits;
        mod listen;
        mod proxy_header_in;
        mod proxy_header_out;
        mod relay;
    }
    mod files {
        mod bad_input;
        mod browser;
        mod changes;
        mod disk;
        mod replies;
        mod rights;
        mod slow;
    }
    mod process {
        mod chaos;
        mod connect_ports;
        mod crash_restart;
        mod demo;
        mod drain;
        mod port_in_use;
        mod privilege;
        mod supervisor_stalls;
    }
    mod resumption {
        mod clients;
        mod flood;
        mod keys;
        mod kinds;
        mod misses;
        mod programs;
    }
    mod servers {
        mod balance;
        mod failover;
        mod names;
        mod resolver;
        mod unix;
    }
    mod tls {
        mod alpn;
        mod client_certificate;
        mod dual_certificate;
        mod early_data;
        mod http2;
        mod kernel_fallback;
        mod ocsp;
        mod policy;
        mod record_layer;
        mod sni;
    }
}
