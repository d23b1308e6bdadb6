//! Behaviour of the two programs, seen from outside: one module per behaviour.
//!
//! Modules named `foreign` need a browser or another server; `./run-tests fast` leaves them out.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what fails in a test's own tools fails the test")]

mod laboratory {
    mod experiment {
        mod host;
        mod interrupt;
        mod repeated;
        mod run;
        mod until;
        mod foreign {
            mod measurement;
            mod page;
            mod targets;
        }
    }
    mod load {
        mod outputs;
        mod plan;
        mod record;
        mod foreign {
            mod counts;
            mod failures;
            mod interrupt;
            mod matrix;
            mod offers;
            mod page;
            mod requests;
            mod settings;
            mod shapes;
        }
    }
    mod foreign {
        mod starttls;
    }
    mod probe {
        mod bad_input;
        mod hostile;
        mod survey;
        mod foreign {
            mod agreement;
            mod configurations;
            mod older;
        }
    }
    mod planning;
    mod report_files;
    mod test_server;
}
mod pages;
mod terminator {
    mod admin {
        mod access;
        mod history;
        mod log;
        mod log_socket;
        mod metrics;
        mod status;
        mod status_forged;
        mod foreign {
            mod alerts;
            mod conventions;
            mod log_daemons;
            mod page;
            mod rotation;
        }
    }
    mod configuration {
        mod bad_config;
        mod completion;
        mod composition;
        mod examples;
        mod flags;
        mod hitch;
        mod import;
        mod reload;
        mod watch;
        mod foreign {
            mod examples_served;
            mod import_pairs;
            mod pairs;
            mod schema;
            mod shells;
        }
    }
    mod connections {
        mod addresses;
        mod as_is;
        mod bad_input;
        mod half_close;
        mod lifetimes;
        mod limits;
        mod listen;
        mod relay;
        mod routing;
        mod sources;
        mod starttls;
        mod foreign {
            mod encrypted_hello;
            mod example_of_mail;
            mod mysql;
            mod passthrough;
            mod proxy_header_in;
            mod proxy_header_out;
            mod starttls;
            mod system_calls;
        }
    }
    mod files {
        mod bad_input;
        mod changes;
        mod disk;
        mod redirect;
        mod replies;
        mod rights;
        mod slow;
        mod foreign {
            mod browser;
        }
    }
    mod process {
        mod chaos;
        mod connect_ports;
        mod crash_restart;
        mod demo;
        mod descriptor_store;
        mod drain;
        mod handed_over;
        mod port_in_use;
        mod privilege;
        mod readiness;
        mod seized_worker;
        mod service_manager;
        mod supervisor_stalls;
        mod upgrade;
        mod upgrade_crossed;
        mod upgrade_refused;
        mod upgrade_versions;
        mod foreign {
            mod stopped;
        }
    }
    mod resumption {
        mod flood;
        mod keys;
        mod kinds;
        mod misses;
        mod foreign {
            mod programs;
        }
    }
    mod cluster {
        mod farm;
        mod node_death;
        mod peers;
        mod peers_apart;
        mod peers_watched;
        mod store_posers;
        mod foreign {
            mod capture;
            mod node_death;
            mod store;
            mod store_names;
        }
    }
    mod servers {
        mod affinity;
        mod balance;
        mod failover;
        mod maintenance;
        mod names;
        mod queue;
        mod resolver;
        mod several_addresses;
        mod tls;
        mod tls_policy;
        mod unix;
        mod foreign {
            mod tls;
            mod tunnel;
        }
    }
    mod tls {
        mod acme;
        mod alpn;
        mod authority;
        mod client_certificate;
        mod dual_certificate;
        mod early_data;
        mod encrypted_key;
        mod kernel_fallback;
        mod key_log;
        mod key_process;
        mod ocsp;
        mod policy;
        mod record_layer;
        mod resumption_group;
        mod sni;
        mod foreign {
            mod http2;
            mod token_key;
        }
    }
}
