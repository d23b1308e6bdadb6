//! What `lariat` does, seen from outside: a module a behaviour.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    reason = "what fails in a test's own tools fails the test"
)]

mod admin_access;
mod alpn;
mod bad_config;
mod bad_input;
mod balance;
mod chaos;
mod client_cert;
mod connect_ports;
mod crash_restart;
mod demo;
mod drain;
mod dual_cert;
mod early_data;
mod examples;
mod failover;
mod files;
mod files_bad_input;
mod files_browser;
mod files_changes;
mod files_disk;
mod files_rights;
mod files_slow;
mod flags;
mod half_close;
mod http2;
mod kernel_fallback;
mod lab_host;
mod lab_interrupt;
mod lab_measure;
mod lab_page;
mod lab_peers;
mod lab_run;
mod limits;
mod listen;
mod load_counts;
mod load_failures;
mod load_interrupt;
mod load_matrix;
mod load_offers;
mod load_page;
mod load_plan;
mod load_record;
mod load_settings;
mod load_shapes;
mod log;
mod metrics;
mod ocsp;
mod origin;
mod policy;
mod port_in_use;
mod privilege;
mod proxy_header_in;
mod proxy_header_out;
mod record_layer;
mod relay;
mod reload;
mod report_files;
mod resolver;
mod resumption;
mod resumption_clients;
mod resumption_flood;
mod resumption_keys;
mod resumption_misses;
mod resumption_programs;
mod server_name;
mod sni;
mod status;
mod status_forged;
mod status_page;
mod supervisor_stalls;
mod unix_server;
