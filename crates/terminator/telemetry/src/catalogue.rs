//! The one table of metrics: it yields the enums that code counts with, the Prometheus exposition
//! and the reference page.
//!
//! Owns names, units and help; counts nothing.

use std::fmt::Write;

/// What a metric is to Prometheus.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// What a metric's number counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds; counted in microseconds, shown in seconds.
    Microseconds,
    /// Seconds, or seconds since the epoch.
    Seconds,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Metric {
    /// The family's name. Rows that share it stand together and differ in `fixed`.
    pub name: &'static str,
    /// What it is to Prometheus.
    pub kind: Kind,
    /// What is counted.
    pub unit: Unit,
    /// Labels whose values come from what is counted.
    pub labels: &'static [&'static str],
    /// A label whose value this row has.
    pub fixed: Option<(&'static str, &'static str)>,
    /// One sentence.
    pub help: &'static str,
}

macro_rules! catalogue {
    ($(
        $(#[$doc:meta])*
        $type:ident {
            $($variant:ident: $kind:ident $unit:ident $name:literal
                [$($label:ident),*] $({$fixed:ident = $value:literal})? $help:literal;)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
            #[repr(u8)]
            pub enum $type {
                $(#[doc = $help] $variant,)*
            }

            impl $type {
                /// All of them, in the order of their numbers.
                pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

                const METRICS: &'static [Metric] = &[$(Metric {
                    name: $name,
                    kind: Kind::$kind,
                    unit: Unit::$unit,
                    labels: &[$(stringify!($label)),*],
                    fixed: fixed_label!($($fixed = $value)?),
                    help: $help,
                },)*];

                /// How many there are.
                pub const COUNT: usize = Self::ALL.len();

                /// Its row in the catalogue.
                pub fn metric(self) -> &'static Metric {
                    &Self::METRICS[self as usize]
                }
            }
        )*

        /// All rows, in the order of the exposition.
        pub fn metrics() -> impl Iterator<Item = &'static Metric> {
            [$($type::METRICS),*].into_iter().flatten()
        }
    };
}

macro_rules! fixed_label {
    () => {
        None
    };
    ($label:ident = $value:literal) => {
        Some((stringify!($label), $value))
    };
}

catalogue! {
    /// What a service counts.
    ServiceCounter {
        ConnectionsAccepted: Counter Count "lariat_connections_accepted_total" [service] "Connections accepted from clients.";
        BytesUp: Counter Bytes "lariat_relayed_bytes_total" [service] {direction = "client-to-backend"} "Plaintext bytes relayed.";
        BytesDown: Counter Bytes "lariat_relayed_bytes_total" [service] {direction = "backend-to-client"} "Plaintext bytes relayed.";
        SentBySendfile: Counter Bytes "lariat_sent_bytes_total" [service] {path = "sendfile"} "Plaintext bytes sent to clients, by what moved and encrypted them.";
        SentBySplice: Counter Bytes "lariat_sent_bytes_total" [service] {path = "splice"} "Plaintext bytes sent to clients, by what moved and encrypted them.";
        SentToKernel: Counter Bytes "lariat_sent_bytes_total" [service] {path = "kernel"} "Plaintext bytes sent to clients, by what moved and encrypted them.";
        SentByUserSpace: Counter Bytes "lariat_sent_bytes_total" [service] {path = "user-space"} "Plaintext bytes sent to clients, by what moved and encrypted them.";
        Offloads: Counter Count "lariat_ktls_connections_total" [service] "Connections whose sending was handed to the kernel.";
        Rekeys: Counter Count "lariat_ktls_rekeys_total" [service] "Keys that the kernel changed of connections that it encrypts for.";
        FilesFound: Counter Count "lariat_file_responses_total" [service] {class = "2xx"} "Responses of services of files, by the class of their status.";
        FilesElsewhere: Counter Count "lariat_file_responses_total" [service] {class = "3xx"} "Responses of services of files, by the class of their status.";
        FilesRefused: Counter Count "lariat_file_responses_total" [service] {class = "4xx"} "Responses of services of files, by the class of their status.";
        FilesFailed: Counter Count "lariat_file_responses_total" [service] {class = "5xx"} "Responses of services of files, by the class of their status.";
        FileTasksFind: Counter Count "lariat_file_tasks_total" [service] {task = "find"} "Work of services of files that may wait for a disk and was handed to the file threads, by kind.";
        FileTasksList: Counter Count "lariat_file_tasks_total" [service] {task = "list"} "Work of services of files that may wait for a disk and was handed to the file threads, by kind.";
        FileTasksRead: Counter Count "lariat_file_tasks_total" [service] {task = "read"} "Work of services of files that may wait for a disk and was handed to the file threads, by kind.";
        FileTasksRefused: Counter Count "lariat_file_task_failures_total" [service] {kind = "refused"} "Work for file threads that came to nothing: refused, as too much waits or the file system hangs, or not done within `timeouts.file`.";
        FileTasksTimedOut: Counter Count "lariat_file_task_failures_total" [service] {kind = "timeout"} "Work for file threads that came to nothing: refused, as too much waits or the file system hangs, or not done within `timeouts.file`.";
        DialRetries: Counter Count "lariat_dial_retries_total" [service] "Dials of a further server after one that failed.";
        HelloRetryRequests: Counter Count "lariat_hello_retry_requests_total" [service] "Handshakes that needed a HelloRetryRequest (RFC 8446, 4.1.4).";
        KeyUpdates: Counter Count "lariat_key_updates_total" [service] "KeyUpdate messages received (RFC 8446, 4.6.3).";
        LogLinesSuppressed: Counter Count "lariat_log_lines_suppressed_total" [service] "Lines about failed connections that were counted, not written.";
    }

    /// What a service counts by something of its own.
    ServiceBreakdown {
        ConnectionsEnded: Counter Count "lariat_connections_ended_total" [service, reason, fault] "Connections ended, by reason and by whose fault it was.";
        Handshakes: Counter Count "lariat_handshakes_total" [service, kind, version] "Handshakes finished, by kind and TLS version.";
        ResumptionMisses: Counter Count "lariat_resumption_misses_total" [service, reason] "Sessions that clients offered and that were not resumed, by reason.";
        EarlyData: Counter Count "lariat_early_data_total" [service, result] "Hellos that offered early data, by what became of it.";
        OffloadRefusals: Counter Count "lariat_ktls_refusals_total" [service, reason] "Connections long enough for the kernel to encrypt that went on in user space, by reason.";
        Suites: Counter Count "lariat_handshake_suites_total" [service, suite] "Handshakes finished, by cipher suite.";
        Groups: Counter Count "lariat_handshake_groups_total" [service, group] "Handshakes finished, by key exchange group; none for a resumption without key exchange.";
    }

    /// What of a service rises and falls.
    ServiceGauge {
        ConnectionsOpen: Gauge Count "lariat_connections_open" [service] "Client connections open.";
        HandshakesInProgress: Gauge Count "lariat_handshakes_in_progress" [service] "Handshakes begun and not finished.";
        FileTasksWaiting: Gauge Count "lariat_file_tasks_waiting" [service] "Connections that wait for a file thread, or for what it does.";
        Offloaded: Gauge Count "lariat_ktls_connections_open" [service] "Client connections open that the kernel encrypts for.";
    }

    /// What of a service is timed.
    Histogram {
        HandshakeFull: Histogram Microseconds "lariat_handshake_duration_seconds" [service] {kind = "full"} "From the first byte of the ClientHello to the end of the handshake.";
        HandshakeSessionId: Histogram Microseconds "lariat_handshake_duration_seconds" [service] {kind = "session-id"} "From the first byte of the ClientHello to the end of the handshake.";
        HandshakeTicket: Histogram Microseconds "lariat_handshake_duration_seconds" [service] {kind = "ticket"} "From the first byte of the ClientHello to the end of the handshake.";
        HandshakePsk: Histogram Microseconds "lariat_handshake_duration_seconds" [service] {kind = "psk"} "From the first byte of the ClientHello to the end of the handshake.";
        HandshakePskCache: Histogram Microseconds "lariat_handshake_duration_seconds" [service] {kind = "psk-cache"} "From the first byte of the ClientHello to the end of the handshake.";
        Dial: Histogram Microseconds "lariat_dial_duration_seconds" [service] "One dial of one server that succeeded.";
        FileTask: Histogram Microseconds "lariat_file_task_duration_seconds" [service] "From giving work to the file threads to the answer.";
        Connection: Histogram Microseconds "lariat_connection_duration_seconds" [service] "From accept to the connection's end.";
    }

    /// What a service counts for each of its servers.
    ServerCounter {
        Dials: Counter Count "lariat_dials_total" [service, server] "Dials begun.";
        DialsRefused: Counter Count "lariat_dial_failures_total" [service, server] {kind = "refused"} "Dials that failed, by kind.";
        DialsTimedOut: Counter Count "lariat_dial_failures_total" [service, server] {kind = "timeout"} "Dials that failed, by kind.";
        DialsBusy: Counter Count "lariat_dial_failures_total" [service, server] {kind = "busy"} "Dials that failed, by kind.";
        DialsHost: Counter Count "lariat_dial_failures_total" [service, server] {kind = "host"} "Dials that failed, by kind.";
        DialsUnreachable: Counter Count "lariat_dial_failures_total" [service, server] {kind = "unreachable"} "Dials that failed, by kind.";
        WentDown: Counter Count "lariat_server_changes_total" [service, server] {to = "down"} "Changes of a server's state that active checks decided.";
        WentUp: Counter Count "lariat_server_changes_total" [service, server] {to = "up"} "Changes of a server's state that active checks decided.";
        BytesUp: Counter Bytes "lariat_server_bytes_total" [service, server] {direction = "client-to-backend"} "Bytes exchanged with the server.";
        BytesDown: Counter Bytes "lariat_server_bytes_total" [service, server] {direction = "backend-to-client"} "Bytes exchanged with the server.";
    }

    /// What of a server rises and falls.
    ServerGauge {
        ConnectionsOpen: Gauge Count "lariat_server_connections_open" [service, server] "Connections open to the server.";
        WorkersUp: Gauge Count "lariat_server_workers_up" [service, server] "Workers that would send a connection to the server.";
    }

    /// What of a server follows from the rest.
    ServerState {
        Up: Gauge Count "lariat_server_up" [service, server] "1 if any worker would send a connection to the server, else 0.";
    }

    /// What a worker counts.
    WorkerCounter {
        LoopIterations: Counter Count "lariat_worker_loop_iterations_total" [worker] "Iterations of the event loop.";
        Events: Counter Count "lariat_worker_events_total" [worker] "Events taken from the kernel.";
        BusyMicroseconds: Counter Microseconds "lariat_worker_busy_seconds_total" [worker] "Time not spent waiting for events.";
        LogBytesLost: Counter Bytes "lariat_worker_log_lost_bytes_total" [worker] "Bytes of lines about connections that were dropped because the log's writer did not keep up.";
        AcceptErrors: Counter Count "lariat_worker_accept_errors_total" [worker] "Calls of accept that failed for want of descriptors or memory.";
    }

    /// What of a worker rises and falls.
    WorkerGauge {
        ConnectionsOpen: Gauge Count "lariat_worker_connections_open" [worker] "Client connections open.";
        BuffersInUse: Gauge Count "lariat_worker_buffers_in_use" [worker] "Buffers that hold bytes.";
        BuffersPooled: Gauge Count "lariat_worker_buffers_pooled" [worker] "Buffers that wait to be used again.";
    }

    /// What is known of the whole process.
    ProcessMetric {
        BuildInfo: Gauge Count "lariat_build_info" [version] "1; the labels name what was built.";
        StartTime: Gauge Seconds "lariat_start_time_seconds" [] "When the worker process started, in seconds since the epoch.";
        SupervisorStartTime: Gauge Seconds "lariat_supervisor_start_time_seconds" [] "When the supervisor started, in seconds since the epoch.";
        Restarts: Counter Count "lariat_worker_process_restarts_total" [] "Worker processes that were started again after one died.";
        Generation: Gauge Count "lariat_config_generation" [] "The number of the configuration that is served; 1 is the first.";
        ReloadsOk: Counter Count "lariat_reloads_total" [] {result = "ok"} "Reloads attempted, by result.";
        ReloadsRefused: Counter Count "lariat_reloads_total" [] {result = "refused"} "Reloads attempted, by result.";
        LogBytesUnwritten: Counter Bytes "lariat_log_lost_bytes_total" [] "Bytes of lines about connections that the log did not take: its disk was full, or its reader had left.";
        LogFails: Gauge Count "lariat_log_write_failing" [] "1 if the last lines about connections could not be written, else 0.";
        Certificates: Gauge Count "lariat_certificates" [service] "Certificates loaded.";
        CertificatesExpired: Gauge Count "lariat_certificates_expired" [service] "Certificates past their notAfter.";
        CertificateExpiry: Gauge Seconds "lariat_certificate_expiry_timestamp_seconds" [service, file, name, key] "When a certificate expires (notAfter), by its file, its first name and the kind of its key; of each service the 256 that expire first.";
        OcspResponses: Gauge Count "lariat_ocsp_responses" [service] "OCSP responses loaded, to be stapled.";
        OcspResponsesExpired: Gauge Count "lariat_ocsp_responses_expired" [service] "OCSP responses past their nextUpdate; they are not stapled.";
        OcspResponseExpiry: Gauge Seconds "lariat_ocsp_response_expiry_timestamp_seconds" [service, file, name, key] "When an OCSP response reaches its nextUpdate, by its certificate; of each service the 256 that expire first.";
        Crls: Gauge Count "lariat_crls" [service] "Certificate revocation lists loaded, the newest of each issuer.";
        CrlsExpired: Gauge Count "lariat_crls_expired" [service] "Certificate revocation lists past their nextUpdate.";
        CrlExpiry: Gauge Seconds "lariat_crl_expiry_timestamp_seconds" [service, file, issuer] "When a certificate revocation list reaches its nextUpdate; of each service the 256 that expire first.";
        TicketKeyAge: Gauge Seconds "lariat_ticket_key_age_seconds" [key, purpose] "How long each ticket key has been in use, by the first bytes of its name; one key encrypts, all decrypt.";
        SessionsStored: Gauge Count "lariat_session_cache_entries" [] "Sessions in the cache.";
        SessionBytes: Gauge Bytes "lariat_session_cache_bytes" [] "Bytes that the sessions in the cache take.";
        SessionHits: Counter Count "lariat_session_cache_lookups_total" [] {result = "hit"} "Look-ups of sessions in the cache, by result.";
        SessionsExpired: Counter Count "lariat_session_cache_lookups_total" [] {result = "expired"} "Look-ups of sessions in the cache, by result.";
        SessionsDamaged: Counter Count "lariat_session_cache_lookups_total" [] {result = "damaged"} "Look-ups of sessions in the cache, by result.";
        SessionsUnknown: Counter Count "lariat_session_cache_lookups_total" [] {result = "unknown"} "Look-ups of sessions in the cache, by result.";
        SessionEvictions: Counter Count "lariat_session_cache_evictions_total" [] "Sessions that left before their time, to make room.";
        SessionsRecovered: Gauge Count "lariat_session_cache_recovered" [] "Sessions that this worker process took over from the one before it.";
        SessionRefusals: Counter Count "lariat_session_cache_refusals_total" [] "Sessions that were too large to be stored.";
    }
}

impl ServiceCounter {
    /// The one that takes responses of this status (RFC 9110 section 15).
    pub fn of_status(status: u16) -> Self {
        match status / 100 {
            2 => Self::FilesFound,
            3 => Self::FilesElsewhere,
            4 => Self::FilesRefused,
            _ => Self::FilesFailed,
        }
    }
}

/// A cipher suite's name by its number in IANA's registry; those we never negotiate are `other`, so
/// that the label stays bounded.
pub fn suite_name(code: u16) -> &'static str {
    SUITES[suite_index(code)].1
}

/// A group's name by its number in IANA's registry; 0 is `none`, those we never negotiate `other`.
pub fn group_name(code: u16) -> &'static str {
    GROUPS[group_index(code)].1
}

/// The suites that rustls negotiates; the last stands for all others.
pub(crate) const SUITES: [(u16, &str); 10] = [
    (0x1301, "TLS_AES_128_GCM_SHA256"),
    (0x1302, "TLS_AES_256_GCM_SHA384"),
    (0x1303, "TLS_CHACHA20_POLY1305_SHA256"),
    (0xc02b, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    (0xc02c, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    (0xc02f, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    (0xc030, "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    (0xcca8, "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0xcca9, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    (0, "other"),
];

/// The groups that rustls negotiates; the last stands for all others.
pub(crate) const GROUPS: [(u16, &str); 6] = [
    (0x11ec, "X25519MLKEM768"),
    (0x001d, "x25519"),
    (0x0017, "secp256r1"),
    (0x0018, "secp384r1"),
    (0, "none"),
    (0xffff, "other"),
];

pub(crate) fn suite_index(code: u16) -> usize {
    index(&SUITES, code)
}

pub(crate) fn group_index(code: u16) -> usize {
    index(&GROUPS, code)
}

fn index(table: &[(u16, &str)], code: u16) -> usize {
    let found = table.iter().position(|(known, _)| *known == code);
    found.unwrap_or(table.len() - 1)
}

/// The catalogue as a table in Markdown, for the reference.
pub fn write_reference(out: &mut String) {
    out.push_str("| metric | type | labels | meaning |\n|---|---|---|---|\n");
    let rows: Vec<&Metric> = metrics().collect();
    for family in rows.chunk_by(|one, next| one.name == next.name) {
        write_family(out, family);
    }
}

fn write_family(out: &mut String, rows: &[&Metric]) {
    let Some(first) = rows.first() else { return };
    let mut labels: Vec<String> = first.labels.iter().map(|l| format!("`{l}`")).collect();
    if let Some((label, _)) = first.fixed {
        let values: Vec<_> = rows.iter().filter_map(|row| row.fixed).collect();
        let values: Vec<_> = values.iter().map(|(_, v)| format!("`{v}`")).collect();
        labels.push(format!("`{label}`: {}", values.join(", ")));
    }
    let kind = first.kind.name();
    let labels = labels.join(", ");
    writeln!(
        out,
        "| `{}` | {kind} | {labels} | {} |",
        first.name, first.help
    )
    .expect("a String takes all that is written");
}

impl Kind {
    /// The word of the exposition format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        for metric in metrics() {
            assert!(metric.name.starts_with("lariat_"), "{}", metric.name);
            assert!(metric.help.ends_with('.'), "{}", metric.name);
            let is_total = metric.name.ends_with("_total");
            assert_eq!(is_total, metric.kind == Kind::Counter, "{}", metric.name);
            let unit = match metric.unit {
                Unit::Bytes => "_bytes",
                Unit::Microseconds | Unit::Seconds => "_seconds",
                Unit::Count => "",
            };
            assert!(metric.name.contains(unit), "{}", metric.name);
        }
    }

    #[test]
    fn rows_of_a_family_stand_together_and_differ() {
        let rows: Vec<_> = metrics().collect();
        let mut seen = HashSet::new();
        for family in rows.chunk_by(|one, next| one.name == next.name) {
            assert!(
                seen.insert(family[0].name),
                "{} stands apart",
                family[0].name
            );
            let values: HashSet<_> = family.iter().map(|row| row.fixed).collect();
            assert_eq!(values.len(), family.len(), "{}", family[0].name);
            for row in family {
                let same = (
                    family[0].kind,
                    family[0].unit,
                    family[0].labels,
                    family[0].help,
                );
                assert_eq!((row.kind, row.unit, row.labels, row.help), same);
            }
        }
    }

    #[test]
    fn the_reference_names_each_family_once() {
        let mut text = String::new();
        write_reference(&mut text);
        for metric in metrics() {
            assert_eq!(text.matches(&format!("| `{}` |", metric.name)).count(), 1);
        }
    }

    #[test]
    fn statuses_are_counted_by_class() {
        for (status, class) in [(206, "2xx"), (304, "3xx"), (416, "4xx"), (503, "5xx")] {
            let metric = ServiceCounter::of_status(status).metric();
            assert_eq!(metric.fixed, Some(("class", class)));
        }
    }

    #[test]
    fn unknown_codes_have_one_name() {
        assert_eq!(suite_name(0x1301), "TLS_AES_128_GCM_SHA256");
        assert_eq!(suite_name(0x0035), "other");
        assert_eq!(group_name(0), "none");
        assert_eq!(group_name(0x4588), "other");
    }
}
