//! Values of other parts of the program as the status document has them.

use proxy::options::{KtlsMode, KtlsOptions};
use tls::validity::Ends;

use crate::handover::{EndedReload, EndedUpgrade};
use crate::kernel::KernelTls;

use super::document::{
    CERTIFICATES_MAX, CertificateStatus, KernelTlsStatus, KtlsStatus, LastReload, LastUpgrade,
};
use super::servers::milliseconds;

pub(super) fn last_reload(ended: &EndedReload) -> LastReload {
    LastReload {
        time_ms: milliseconds(ended.time),
        refused: ended.refused.clone(),
        warnings: Some(ended.warnings.clone()).filter(|text| !text.is_empty()),
    }
}

pub(super) fn last_upgrade(ended: &EndedUpgrade) -> LastUpgrade {
    LastUpgrade {
        number: ended.number,
        time_ms: milliseconds(ended.time),
        program: ended.program.clone(),
        refused: ended.refused.clone(),
    }
}

pub(super) fn kernel_status(kernel_tls: &KernelTls) -> KernelTlsStatus {
    KernelTlsStatus {
        available: kernel_tls.is_there(),
        sentence: kernel_tls.sentence.clone(),
        remedy: kernel_tls.remedy.clone(),
        rekeys: kernel_tls.rekeys,
    }
}

pub(super) fn certificates(ends: &Ends) -> Vec<CertificateStatus> {
    let first = ends.listed.iter().take(CERTIFICATES_MAX);
    let each = first.map(|one| CertificateStatus {
        file: one.file.to_string(),
        name: one.name.to_string(),
        key: one.key.to_string(),
        expiry_seconds: since_epoch(one.time),
    });
    each.collect()
}

pub(super) fn ktls(options: KtlsOptions) -> KtlsStatus {
    let mode = match options.mode {
        KtlsMode::Off => "off",
        KtlsMode::Auto => "auto",
        KtlsMode::Require => "require",
    };
    KtlsStatus { mode: mode.to_owned(), min_bytes: options.from }
}

/// An end before the epoch is over as well.
pub(super) fn since_epoch(unix_seconds: i64) -> u64 {
    u64::try_from(unix_seconds).unwrap_or(0)
}

/// How many of each a service has, how many are over, and how many are skipped.
pub(super) fn count_expiries(
    service: &mut telemetry::counters::ServiceSnapshot,
    expiries: &tls::server::Expiries,
) {
    let counts = &mut service.counts;
    use telemetry::catalogue::ServiceGauge as Gauge;
    for (loaded, expired, ends) in [
        (Gauge::Certificates, Gauge::CertificatesExpired, &expiries.certificates),
        (Gauge::OcspResponses, Gauge::OcspResponsesExpired, &expiries.staples),
        (Gauge::Authorities, Gauge::AuthoritiesExpired, &expiries.authorities),
        (Gauge::Crls, Gauge::CrlsExpired, &expiries.lists),
    ] {
        counts.set(loaded, ends.loaded);
        counts.set(expired, ends.expired);
    }
    counts.set(Gauge::CertificatesSkipped, expiries.skipped.len() as u64);
}
