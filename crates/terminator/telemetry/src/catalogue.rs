//! Defines all metrics in one table, from which come the enums that code counts with, the
//! Prometheus exposition, the counts in the status document and the reference page.
//!
//! Handles names, units, labels and help; counts nothing.

use crate::outcome::{
    EarlyData, EchResult, HandshakeKind, OffloadRefusal, Reason, ResumptionMiss, Version,
};

/// Upper bounds of histogram buckets in microseconds, from 50 us to 60 s; one more bucket takes
/// longer durations. The 1-2-5 series is even on a logarithmic scale and read without a table.
pub const BUCKETS_US: [u64; 19] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 60_000_000,
];

/// Number of values of a histogram: its buckets, then the sum of all durations in microseconds.
pub(crate) const HISTOGRAM_SLOTS: usize = BUCKETS_US.len() + 2;

/// Type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MetricType {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Durations in buckets.
    Histogram,
}

/// Unit of a metric's number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Things.
    Count,
    Bytes,
    /// Seconds; counted in microseconds, shown to Prometheus in seconds.
    Microseconds,
    /// Seconds, or seconds since the epoch.
    Seconds,
}

/// A metric with all its rows, which differ in the values of its labels.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Family {
    /// Name in Prometheus.
    pub name: &'static str,
    /// Type in Prometheus.
    pub kind: MetricType,
    /// Unit of counting.
    pub unit: Unit,
    /// Labels besides those of the [`Scope`].
    pub labels: &'static [&'static str],
    /// Values of these labels for each row; empty if they are known only at run time.
    pub rows: &'static [&'static [&'static str]],
    /// One sentence.
    pub help: &'static str,
}

impl Family {
    /// Returns how many numbers make up a row.
    pub(crate) const fn row_slots(&self) -> usize {
        match self.kind {
            MetricType::Histogram => HISTOGRAM_SLOTS,
            MetricType::Counter | MetricType::Gauge => 1,
        }
    }

    /// Returns the name in the status document: without prefix and suffix, in the counting unit.
    pub fn key(&self) -> String {
        let name = self.name.trim_start_matches("lariat_");
        let name = name.trim_end_matches("_total");
        match (self.unit, name.strip_suffix("_seconds")) {
            (Unit::Microseconds, Some(name)) => format!("{name}_us"),
            _ => name.to_owned(),
        }
    }
}

/// The subject of counting: a service, one of its servers, a worker, or the process.
pub trait Scope: 'static {
    /// Labels that name the subject.
    const LABELS: &'static [&'static str];
    /// Families, in the order of their values.
    const FAMILIES: &'static [&'static [Family]];
    /// Number of values.
    const SLOTS: usize = slots(Self::FAMILIES);
}

/// A row of the table.
pub trait Row: Copy {
    /// Subject of the metric.
    type Scope: Scope;

    /// Returns the index of the row's first value within its scope.
    fn slot(self) -> usize;
}

const fn slots(lists: &[&[Family]]) -> usize {
    let (mut sum, mut list) = (0, 0);
    while list < lists.len() {
        let mut family = 0;
        while family < lists[list].len() {
            sum += lists[list][family].rows.len() * lists[list][family].row_slots();
            family += 1;
        }
        list += 1;
    }
    sum
}

macro_rules! scopes {
    ($($(#[$doc:meta])* $type:ident [$($label:literal),*] $lists:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            pub struct $type;

            impl Scope for $type {
                const LABELS: &'static [&'static str] = &[$($label),*];
                const FAMILIES: &'static [&'static [Family]] = $lists;
            }
        )*

        /// Returns all families with the labels of their scopes, in the order of the exposition.
        pub fn families() -> impl Iterator<Item = (&'static [&'static str], &'static Family)> {
            let scopes = [$(($type::LABELS, $type::FAMILIES)),*];
            scopes.into_iter().flat_map(|(labels, lists)| {
                lists.iter().copied().flatten().map(move |family| (labels, family))
            })
        }
    };
}

scopes! {
    Service ["service"] &[
        ServiceCounter::FAMILIES,
        ServiceGauge::FAMILIES,
        Breakdown::FAMILIES,
        Histogram::FAMILIES,
    ];
    Server ["service", "server"] &[ServerCounter::FAMILIES, ServerGauge::FAMILIES];
    Worker ["worker"] &[WorkerCounter::FAMILIES, WorkerGauge::FAMILIES];
    Process [] &[ProcessMetric::FAMILIES, Labelled::FAMILIES];
}

macro_rules! catalogue {
    ($(
        $(#[$doc:meta])*
        $type:ident of $scope:ident after ($($before:ident),*) {
            $($kind:ident $unit:ident $name:literal $([$label:ident])? $help:literal
                { $($variant:ident $(= $value:literal)?),* })*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum $type {
            $($(#[doc = $help] $variant,)*)*
        }

        impl $type {
            pub(crate) const FAMILIES: &'static [Family] = &[$(Family {
                name: $name,
                kind: MetricType::$kind,
                unit: Unit::$unit,
                labels: &[$(stringify!($label))?],
                rows: &[$(&[$($value)?]),*],
                help: $help,
            }),*];
        }

        impl Row for $type {
            type Scope = $scope;

            #[inline]
            fn slot(self) -> usize {
                const BEFORE: usize = slots(&[$($before::FAMILIES),*]);
                BEFORE + self as usize * const { $type::FAMILIES[0].row_slots() }
            }
        }
    )*};
}

catalogue! {
    ServiceCounter of Service after () {
        Counter Count "lariat_connections_accepted_total" "Connections accepted from clients." { ConnectionsAccepted }
        Counter Bytes "lariat_relayed_bytes_total" [direction] "Plaintext bytes relayed."
            { BytesUp = "client-to-backend", BytesDown = "backend-to-client" }
        Counter Bytes "lariat_sent_bytes_total" [path] "Plaintext bytes sent to clients."
            { SentBySendfile = "sendfile", SentBySplice = "splice", SentToKernel = "kernel", SentByUserSpace = "user-space" }
        Counter Count "lariat_ktls_connections_total" "Connections whose sending was handed to the kernel." { Offloads }
        Counter Count "lariat_ktls_rekeys_total" "Keys that the kernel changed." { Rekeys }
        Counter Count "lariat_file_responses_total" [class] "Responses with static files."
            { FilesFound = "2xx", FilesElsewhere = "3xx", FilesRefused = "4xx", FilesFailed = "5xx" }
        Counter Count "lariat_file_tasks_total" [task] "Work handed to the file threads."
            { FileTasksFind = "find", FileTasksRead = "read" }
        Counter Count "lariat_file_task_failures_total" [kind] "Work of file threads that was refused, or not done within `timeouts.file`."
            { FileTasksRefused = "refused", FileTasksTimedOut = "timeout" }
        Counter Count "lariat_dial_retries_total" "Dials of a further server after one that failed." { DialRetries }
        Counter Count "lariat_affinity_connections_total" [session] "Clients with a session of TLS 1.2 at a service with `back.affinity`."
            { AffinityKept = "kept", AffinityMoved = "moved", AffinityUnknown = "unknown" }
        Counter Count "lariat_hello_retry_requests_total" "Handshakes that needed a HelloRetryRequest (RFC 8446, 4.1.4)." { HelloRetryRequests }
        Counter Count "lariat_starttls_plaintext_total" "Clients relayed in plaintext (`front.starttls.policy`)." { StarttlsPlaintext }
        Counter Count "lariat_key_updates_total" "KeyUpdate messages received (RFC 8446, 4.6.3)." { KeyUpdates }
        Counter Count "lariat_log_lines_suppressed_total" "Lines about connections that were counted, not written." { LogLinesSuppressed }
    }

    ServiceGauge of Service after (ServiceCounter) {
        Gauge Count "lariat_connections_open" "Client connections open." { ConnectionsOpen }
        Gauge Count "lariat_handshakes_in_progress" "Handshakes begun and not finished." { HandshakesInProgress }
        Gauge Count "lariat_queue_connections" "Connections that wait for a place at a server with `max-connections`." { Queued }
        Gauge Count "lariat_file_tasks_waiting" "Connections that wait for a file thread." { FileTasksWaiting }
        Gauge Count "lariat_ktls_connections_open" "Client connections open that the kernel encrypts for." { Offloaded }
        Gauge Count "lariat_queue_connections_limit" "`back.queue.length`." { QueueLimit }
        Gauge Count "lariat_certificates" "Certificates loaded." { Certificates }
        Gauge Count "lariat_certificates_expired" "Certificates past their notAfter." { CertificatesExpired }
        Gauge Count "lariat_certificates_skipped" "Certificates that are skipped (`bad-certificate`)." { CertificatesSkipped }
        Gauge Count "lariat_ocsp_responses" "OCSP responses loaded." { OcspResponses }
        Gauge Count "lariat_ocsp_responses_expired" "OCSP responses past their nextUpdate; they are not stapled." { OcspResponsesExpired }
        Gauge Count "lariat_authorities" "Certificates in `ca`, those of the host's own bundle apart." { Authorities }
        Gauge Count "lariat_authorities_expired" "Certificates in `ca` past their notAfter." { AuthoritiesExpired }
        Gauge Count "lariat_crls" "Certificate revocation lists loaded, the newest of each issuer." { Crls }
        Gauge Count "lariat_crls_expired" "Certificate revocation lists past their nextUpdate." { CrlsExpired }
    }

    /// Durations of a service.
    Histogram of Service after (ServiceCounter, ServiceGauge, Breakdown) {
        Histogram Microseconds "lariat_handshake_duration_seconds" [kind] "From the first byte of the ClientHello to the end of the handshake."
            {
                HandshakeFull = "full",
                HandshakeSessionId = "session-id",
                HandshakeTicket = "ticket",
                HandshakePsk = "psk",
                HandshakePskCache = "psk-cache"
            }
        Histogram Microseconds "lariat_dial_duration_seconds" "One dial of one server that succeeded." { Dial }
        Histogram Microseconds "lariat_queue_wait_duration_seconds" "The wait for a place at a server with `max-connections`, of connections that got one." { QueueWait }
        Histogram Microseconds "lariat_file_task_duration_seconds" "From giving work to the file threads to the answer." { FileTask }
        Histogram Microseconds "lariat_connection_duration_seconds" "From accept to the connection's end." { Connection }
    }

    /// Counters of a service for each of its servers.
    ServerCounter of Server after () {
        Counter Count "lariat_dials_total" "Dials begun." { Dials }
        Counter Count "lariat_dial_failures_total" [kind] "Dials that failed."
            {
                DialsRefused = "refused",
                DialsTimedOut = "timeout",
                DialsBusy = "busy",
                DialsHost = "host",
                DialsUnreachable = "unreachable",
                DialsTls = "tls",
                DialsTunnel = "tunnel"
            }
        Counter Count "lariat_server_changes_total" [to] "Changes of the server's state by active checks." { WentDown = "down", WentUp = "up" }
        Counter Bytes "lariat_server_bytes_total" [direction] "Bytes exchanged with the server."
            { BytesUp = "client-to-backend", BytesDown = "backend-to-client" }
    }

    ServerGauge of Server after (ServerCounter) {
        Gauge Count "lariat_server_connections_open" "Connections open to the server." { ConnectionsOpen }
        Gauge Count "lariat_server_workers_up" "Workers that would send a connection to the server." { WorkersUp }
        Gauge Count "lariat_server_up" "1 if any worker would send a connection to the server, else 0." { Up }
        Gauge Count "lariat_server_addresses" "Addresses that the server's name stands for." { Addresses }
        Gauge Count "lariat_server_addresses_down" "Addresses that some worker avoids, since dials or checks failed." { AddressesDown }
        Gauge Seconds "lariat_server_slow_start_end_timestamp_seconds" "When the server has its whole share after `back.slow-start`; 0 if it never came back up." { SlowStartEnd }
        Gauge Seconds "lariat_server_last_change_timestamp_seconds" "When the server last went down or came back up, or was first served." { Changed }
        Gauge Count "lariat_server_disabled" "1 if an operator has disabled the server, or given it the weight 0, else 0." { Disabled }
        Gauge Count "lariat_server_connections_limit" "The server's `max-connections`; 0 = any number." { ConnectionsLimit }
    }

    WorkerCounter of Worker after () {
        Counter Count "lariat_worker_loop_iterations_total" "Iterations of the event loop." { LoopIterations }
        Counter Count "lariat_worker_events_total" "Events taken from the kernel." { Events }
        Counter Microseconds "lariat_worker_busy_seconds_total" "Time not spent waiting for events." { BusyMicroseconds }
        Counter Bytes "lariat_worker_log_lost_bytes_total" "Bytes of log lines that were dropped because the log's writer did not keep up." { LogBytesLost }
        Counter Count "lariat_worker_accept_errors_total" "Calls of accept that failed for want of descriptors or memory." { AcceptErrors }
    }

    WorkerGauge of Worker after (WorkerCounter) {
        Gauge Count "lariat_worker_connections_open" "Client connections open." { ConnectionsOpen }
        Gauge Count "lariat_worker_buffers_in_use" "Buffers that hold bytes." { BuffersInUse }
        Gauge Count "lariat_worker_buffers_pooled" "Buffers that wait to be used again." { BuffersPooled }
    }

    /// Metrics of the whole process.
    ProcessMetric of Process after () {
        Counter Microseconds "process_cpu_seconds_total" "CPU time of the worker process." { CpuMicroseconds }
        Gauge Bytes "process_resident_memory_bytes" "The worker process's resident memory; 0 without `/proc`." { ResidentMemory }
        Gauge Bytes "process_virtual_memory_bytes" "Memory that the worker process has mapped; 0 without `/proc`." { VirtualMemory }
        Gauge Count "process_open_fds" "Descriptors that the worker process has open; 0 without `/proc`." { OpenDescriptors }
        Gauge Count "process_max_fds" "Descriptors that the worker process may have open." { MostDescriptors }
        Gauge Seconds "process_start_time_seconds" "When the worker process started." { StartTime }
        Gauge Seconds "lariat_supervisor_start_time_seconds" "When the supervisor started." { SupervisorStartTime }
        Counter Count "lariat_worker_process_restarts_total" "Worker processes started after one died." { Restarts }
        Gauge Count "lariat_config_generation" "The number of the configuration that is served; 1 is the first." { Generation }
        Gauge Count "lariat_config_last_reload_successful" "0 if the last reload was refused, else 1." { LastReloadOk }
        Gauge Seconds "lariat_config_last_reload_success_timestamp_seconds" "When the configuration that is served was read." { LastReloadOkTime }
        Counter Count "lariat_reloads_total" [result] "Reloads attempted." { ReloadsOk = "ok", ReloadsRefused = "refused" }
        Counter Bytes "lariat_log_lost_bytes_total" "Bytes of log lines that the log did not take." { LogBytesUnwritten }
        Gauge Count "lariat_log_write_failing" "1 if the last log lines could not be written, or the file not opened, else 0." { LogFails }
        Gauge Count "lariat_connections_limit" "`limits.connections`." { ConnectionsLimit }
        Gauge Count "lariat_handshakes_in_progress_limit" "`limits.handshakes`." { HandshakesLimit }
        Gauge Count "lariat_sources" "Client addresses, of IPv6 networks, that `limits.per-source` counts." { Sources }
        Gauge Count "lariat_session_cache_entries" "Sessions in the cache." { SessionsStored }
        Gauge Count "lariat_session_cache_limit_entries" "`resumption.session-cache.entries`." { SessionsLimit }
        Gauge Bytes "lariat_session_cache_bytes" "Bytes that the sessions in the cache take." { SessionBytes }
        Gauge Bytes "lariat_session_cache_limit_bytes" "`resumption.session-cache.bytes`." { SessionBytesLimit }
        Counter Count "lariat_session_cache_lookups_total" [result] "Look-ups of sessions in the cache."
            { SessionHits = "hit", SessionsExpired = "expired", SessionsDamaged = "damaged", SessionsUnknown = "unknown" }
        Counter Count "lariat_session_cache_evictions_total" "Sessions that left before their time, to make room." { SessionEvictions }
        Gauge Count "lariat_session_cache_recovered" "Sessions that this worker process took over from the one before it." { SessionsRecovered }
        Counter Count "lariat_session_cache_refusals_total" "Sessions that were too large to be stored." { SessionRefusals }
        Counter Count "lariat_key_signatures_total" [result] "Signatures asked of the key process; `late`: not within a second."
            { KeySigned = "signed", KeyLate = "late", KeyFailed = "failed" }
        Counter Microseconds "lariat_key_signature_waiting_seconds_total" "Time that workers have waited for the key process." { KeyWaiting }
        Gauge Count "lariat_cluster_peers" "Peers of the cluster that were heard in the last four seconds." { ClusterPeers }
        Counter Count "lariat_cluster_datagrams_total" [direction] "Datagrams exchanged with peers, counted once for each peer."
            { ClusterDatagramsSent = "sent", ClusterDatagramsReceived = "received" }
        Counter Bytes "lariat_cluster_bytes_total" [direction] "Bytes of these datagrams, without headers."
            { ClusterBytesSent = "sent", ClusterBytesReceived = "received" }
        Counter Count "lariat_cluster_datagrams_lost_total" "Datagrams of peers that did not come." { ClusterDatagramsLost }
        Counter Count "lariat_cluster_datagrams_rejected_total" [reason] "Datagrams dropped."
            {
                ClusterMalformed = "malformed",
                ClusterVersion = "version",
                ClusterUnknownSecret = "unknown-secret",
                ClusterForged = "forged",
                ClusterReflected = "reflected",
                ClusterOutOfTime = "out-of-time",
                ClusterBeforeStart = "before-start",
                ClusterReplayed = "replayed",
                ClusterTooManySenders = "too-many-senders",
                ClusterRateLimited = "rate-limited"
            }
        Counter Count "lariat_cluster_sessions_total" [update] "Sessions that were to be shared with the cluster."
            {
                ClusterPublished = "published",
                ClusterStored = "stored",
                ClusterAnswered = "answered",
                ClusterDeleted = "deleted",
                ClusterRemoved = "removed",
                ClusterTooLarge = "too-large",
                ClusterIncomplete = "incomplete",
                ClusterDropped = "dropped"
            }
        Counter Count "lariat_cluster_fetches_total" [tier] "Sessions looked for in the cluster, by where they were found."
            { ClusterFetchedPeers = "peers", ClusterFetchedStore = "store", ClusterFetchedNowhere = "nowhere" }
        Counter Count "lariat_cluster_requests_dropped_total" "Sessions and look-ups dropped because too many waited." { ClusterRequestsDropped }
        Gauge Count "lariat_cluster_store_up" "Whether the session store answers: 1, or 0." { StoreUp }
        Gauge Count "lariat_cluster_store_writable" "Whether the session store takes sessions: 1, or 0." { StoreWritable }
        Counter Count "lariat_cluster_store_sessions_total" [update] "Sessions that were to go to the session store."
            { StorePublished = "published", StoreDeleted = "deleted", StoreFailed = "failed", StoreDropped = "dropped" }
        Counter Count "lariat_cluster_store_failures_total" [reason] "Requests to the session store that failed."
            {
                StoreTimeout = "timeout",
                StoreConnection = "connection",
                StoreAuthentication = "authentication",
                StoreFull = "full",
                StoreReadOnly = "read-only",
                StoreUnready = "unready",
                StoreRedirect = "redirect",
                StoreRefused = "refused"
            }
        Counter Count "lariat_cluster_store_values_rejected_total" [reason] "Values of the session store that were not taken for sessions."
            {
                StoreMalformed = "malformed",
                StoreVersion = "version",
                StoreUnknownSecret = "unknown-secret",
                StoreForged = "forged",
                StoreExpired = "expired",
                StoreReplayed = "replayed"
            }
        Counter Count "lariat_cluster_store_breaker_openings_total" "Times that the session store was given up for a while." { StoreOpenings }
    }
}

macro_rules! breakdowns {
    ($(
        $(#[$doc:meta])*
        $type:ident {
            $($variant:ident: $kind:ident $unit:ident $name:literal
                [$($label:ident),*] $rows:expr, $help:literal;)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $type {
            $(#[doc = $help] $variant,)*
        }

        impl $type {
            /// All variants, in the order of the exposition.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Families, one for each variant.
            pub(crate) const FAMILIES: &'static [Family] = &[$(Family {
                name: $name,
                kind: MetricType::$kind,
                unit: Unit::$unit,
                labels: &[$(stringify!($label)),*],
                rows: $rows,
                help: $help,
            }),*];

            /// Returns the row in the table.
            pub const fn family(self) -> &'static Family {
                &Self::FAMILIES[self as usize]
            }
        }
    )*};
}

breakdowns! {
    /// Counters of a service, broken down by something that has its own names.
    Breakdown {
        Ended: Counter Count "lariat_connections_ended_total" [reason, fault] Reason::ROWS, "Connections ended.";
        Handshakes: Counter Count "lariat_handshakes_total" [kind, version] HANDSHAKES, "Handshakes finished.";
        ResumptionMisses: Counter Count "lariat_resumption_misses_total" [reason] ResumptionMiss::ROWS, "Sessions that clients offered and that were not resumed.";
        EarlyData: Counter Count "lariat_early_data_total" [result] EarlyData::ROWS, "Hellos that offered early data.";
        Ech: Counter Count "lariat_ech_hellos_total" [result] EchResult::ROWS, "Encrypted hellos (ECH).";
        OffloadRefusals: Counter Count "lariat_ktls_refusals_total" [reason] OffloadRefusal::ROWS, "Connections long enough for the kernel to encrypt that went on in user space.";
        Suites: Counter Count "lariat_handshake_suites_total" [suite] &SUITE_ROWS, "Handshakes finished, by cipher suite.";
        Groups: Counter Count "lariat_handshake_groups_total" [group] &GROUP_ROWS, "Handshakes finished, by key exchange group.";
    }

    /// Metrics of the whole process with labels that are known only at run time.
    Labelled {
        BuildInfo: Gauge Count "lariat_build_info" [version] &[], "1; the labels name what was built.";
        TicketKeyAge: Gauge Seconds "lariat_ticket_key_age_seconds" [key, purpose] &[], "How long each ticket key has been in use, by the first bytes of its name.";
        EchKeyAge: Gauge Seconds "lariat_ech_key_age_seconds" [config] &[], "How long ago each configuration of ECH that is still opened began to be published, by its number.";
        EchPublishEnd: Gauge Seconds "lariat_ech_publish_end_timestamp_seconds" [config] &[], "When the configuration of ECH that is published now gives way to the next one.";
        CertificateExpiry: Gauge Seconds "lariat_certificate_expiry_timestamp_seconds" [service, file, name, key] &[], "When a certificate expires (notAfter).";
        OcspResponseExpiry: Gauge Seconds "lariat_ocsp_response_expiry_timestamp_seconds" [service, file, name, key] &[], "When an OCSP response reaches its nextUpdate.";
        AuthorityExpiry: Gauge Seconds "lariat_authority_expiry_timestamp_seconds" [service, file, subject] &[], "When a certificate in `ca` expires (notAfter), but for the host's own bundle.";
        AcmeIssued: Gauge Seconds "lariat_acme_issued_timestamp_seconds" [certificate] &[], "From when on a certificate by ACME is valid (notBefore); 0 while there is none.";
        AcmeExpiry: Gauge Seconds "lariat_acme_expiry_timestamp_seconds" [certificate] &[], "When a certificate by ACME expires (notAfter); 0 while there is none.";
        AcmeNext: Gauge Seconds "lariat_acme_next_attempt_timestamp_seconds" [certificate] &[], "When the authority is asked next for a certificate; 0 while it is being asked.";
        AcmeFailures: Gauge Count "lariat_acme_failures" [certificate] &[], "Attempts to get the certificate that failed since the last success.";
        AcmeOverdue: Gauge Count "lariat_acme_overdue" [certificate] &[], "1 while less than a fifth of the certificate's life is left, or there has been none for an hour.";
        AcmeLastFailure: Gauge Count "lariat_acme_last_failure" [certificate, reason] &[], "1 while the last attempt to get the certificate failed.";
        KeyProcessUp: Gauge Count "lariat_key_process_up" [keys] &[], "1 if the process of these keys signs, else 0; `files`, or their token.";
        KeyProcessRestarts: Counter Count "lariat_key_process_restarts_total" [keys] &[], "Processes started again for these keys.";
        KeysUnopened: Gauge Count "lariat_keys_unopened" [keys] &[], "Keys that their process could not open.";
        CrlExpiry: Gauge Seconds "lariat_crl_expiry_timestamp_seconds" [service, file, issuer] &[], "When a certificate revocation list reaches its nextUpdate.";
    }
}

impl Breakdown {
    /// Returns the index of the first value within the service's values.
    pub(crate) const fn slot(self) -> usize {
        let (before, _) = Self::FAMILIES.split_at(self as usize);
        slots(&[ServiceCounter::FAMILIES, ServiceGauge::FAMILIES, before])
    }
}

/// Rows of handshakes: PSKs resume in TLS 1.3 only, session ids and tickets only before it.
const HANDSHAKES: &[&[&str]] = &[
    &["full", "TLSv1.2"],
    &["full", "TLSv1.3"],
    &["session-id", "TLSv1.2"],
    &["ticket", "TLSv1.2"],
    &["psk", "TLSv1.3"],
    &["psk-cache", "TLSv1.3"],
];

/// Returns the row of a handshake in its family.
pub(crate) fn handshake_index(kind: HandshakeKind, version: Version) -> usize {
    match kind {
        HandshakeKind::Full => version as usize,
        resumed => resumed as usize + 1,
    }
}

impl ServiceGauge {
    /// Gauges that workers raise and lower, so that they have peaks; they come first.
    pub(crate) const RAISED: [Self; 5] = [
        Self::ConnectionsOpen,
        Self::HandshakesInProgress,
        Self::Queued,
        Self::FileTasksWaiting,
        Self::Offloaded,
    ];
}

impl ServiceCounter {
    /// Returns the counter for responses of this status (RFC 9110 section 15).
    pub fn of_status(status: u16) -> Self {
        match status / 100 {
            2 => Self::FilesFound,
            3 => Self::FilesElsewhere,
            4 => Self::FilesRefused,
            _ => Self::FilesFailed,
        }
    }
}

/// Suites that rustls negotiates, by their numbers in IANA's registry; the last entry stands for
/// all others, so that the label stays bounded.
const SUITES: [(u16, &[&str]); 10] = [
    (0x1301, &["TLS_AES_128_GCM_SHA256"]),
    (0x1302, &["TLS_AES_256_GCM_SHA384"]),
    (0x1303, &["TLS_CHACHA20_POLY1305_SHA256"]),
    (0xc02b, &["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]),
    (0xc02c, &["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"]),
    (0xc02f, &["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]),
    (0xc030, &["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"]),
    (0xcca8, &["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"]),
    (0xcca9, &["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]),
    (0, &["other"]),
];

/// Groups that rustls negotiates; 0 is none, the last entry stands for all others.
const GROUPS: [(u16, &[&str]); 6] = [
    (0x11ec, &["X25519MLKEM768"]),
    (0x001d, &["x25519"]),
    (0x0017, &["secp256r1"]),
    (0x0018, &["secp384r1"]),
    (0, &["none"]),
    (0xffff, &["other"]),
];

static SUITE_ROWS: [&[&str]; SUITES.len()] = rows(SUITES);
static GROUP_ROWS: [&[&str]; GROUPS.len()] = rows(GROUPS);

const fn rows<const N: usize>(
    table: [(u16, &'static [&'static str]); N],
) -> [&'static [&'static str]; N] {
    let mut rows: [&'static [&'static str]; N] = [&[]; N];
    let mut index = 0;
    while index < N {
        rows[index] = table[index].1;
        index += 1;
    }
    rows
}

pub(crate) fn suite_index(code: u16) -> usize {
    index(&SUITES, code)
}

pub(crate) fn group_index(code: u16) -> usize {
    index(&GROUPS, code)
}

fn index(table: &[(u16, &[&str])], code: u16) -> usize {
    let found = table.iter().position(|(known, _)| *known == code);
    found.unwrap_or(table.len() - 1)
}

impl MetricType {
    /// Returns the type's word in the exposition format.
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
        for (_, family) in families() {
            let Family { name, help, .. } = family;
            assert!(["lariat_", "process_"].iter().any(|of| name.starts_with(of)), "{name}");
            assert!(help.ends_with('.') || help.ends_with("built."), "{name}");
            assert_eq!(name.ends_with("_total"), family.kind == MetricType::Counter, "{name}");
            let unit = match family.unit {
                Unit::Bytes => "_bytes",
                Unit::Microseconds | Unit::Seconds => "_seconds",
                Unit::Count => "",
            };
            assert!(name.contains(unit), "{name}");
        }
    }

    #[test]
    fn a_family_stands_once_and_its_rows_differ() {
        let mut seen = HashSet::new();
        for (_, family) in families() {
            assert!(seen.insert(family.name), "{} stands twice", family.name);
            let rows: HashSet<_> = family.rows.iter().collect();
            assert_eq!(rows.len(), family.rows.len(), "{}", family.name);
            let fits = |row: &&[&str]| row.len() == family.labels.len();
            assert!(family.rows.iter().all(fits), "{}", family.name);
        }
    }

    #[test]
    fn rows_of_a_scope_share_no_slot() {
        assert_eq!(
            ServiceCounter::LogLinesSuppressed.slot() + 1,
            ServiceGauge::ConnectionsOpen.slot()
        );
        assert_eq!(ServiceGauge::CrlsExpired.slot() + 1, Breakdown::Ended.slot());
        let groups = Breakdown::Groups.slot() + GROUPS.len();
        assert_eq!(groups, Histogram::HandshakeFull.slot());
        assert_eq!(Histogram::Connection.slot() + HISTOGRAM_SLOTS, Service::SLOTS);
    }

    #[test]
    fn gauges_with_peaks_are_the_first() {
        for (index, gauge) in ServiceGauge::RAISED.iter().enumerate() {
            assert_eq!(*gauge as usize, index);
        }
    }

    #[test]
    fn handshakes_have_the_row_of_their_kind_and_version() {
        for row in HANDSHAKES {
            let mut kinds = HandshakeKind::ALL.iter();
            let kind = kinds.find(|kind| kind.name() == row[0]).unwrap();
            let mut versions = Version::ALL.iter();
            let version = versions.find(|version| version.name() == row[1]).unwrap();
            assert_eq!(&HANDSHAKES[handshake_index(*kind, *version)], row);
        }
    }

    #[test]
    fn statuses_are_counted_by_class() {
        for (status, class) in [(206, 0), (304, 1), (416, 2), (503, 3)] {
            let first = ServiceCounter::FilesFound.slot();
            assert_eq!(ServiceCounter::of_status(status).slot(), first + class);
        }
    }

    #[test]
    fn unknown_codes_have_one_name() {
        assert_eq!(SUITE_ROWS[suite_index(0x1301)], ["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(SUITE_ROWS[suite_index(0x0035)], ["other"]);
        assert_eq!(GROUP_ROWS[group_index(0)], ["none"]);
        assert_eq!(GROUP_ROWS[group_index(0x4588)], ["other"]);
    }
}
