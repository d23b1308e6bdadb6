//! How what `tls` finds in a configuration is told: where the configuration names it, or by the
//! service's name, with the remedy apart. And what it finds while that is served: certificates,
//! OCSP responses and revocation lists end.
//!
//! Owns when to look again and what was said already. What has ended and in which words is `tls`'s;
//! handshakes do not wait for a look, they judge for themselves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Severity, TypedConfiguration};
use proxy::plan::{Plan, ServicePlan};
use tls::server::{BuildError, BuildFault, Expiries, Warning};
use tls::validity::{Clock, Moment, seconds};

/// The reason why the TLS of the service of this number cannot be built.
pub(crate) fn fault(
    source: &TypedConfiguration,
    service: usize,
    error: &BuildError,
) -> Vec<Diagnostic> {
    let key = match &error.fault {
        BuildFault::Certificate(error) => {
            config::key_of_certificate(source, service, Path::new(&error.place))
        }
        _ if error.is_front => format!("service.{service}.front.tls"),
        _ => format!("service.{service}.back.tls"),
    };
    let problem = config::problem(&error.fault.to_string());
    config::diagnose(source, Severity::Error, &key, problem)
}

/// A message that begins with its level, if that is not a warning.
pub(crate) fn message(warning: &Warning) -> String {
    let label = if warning.concern.is_noticed() { "error: " } else { "" };
    let problem = config::problem(&warning.to_string());
    let hint = problem.hint.map(|hint| format!("\nhint: {hint}"));
    format!("{label}{}{}", problem.message, hint.unwrap_or_default())
}

/// The longest time between two looks: a clock may be set.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Watches the services of one plan.
pub(super) struct ExpiryWatch {
    services: Arc<[Arc<ServicePlan>]>,
    /// The time up to which all was said, in Unix seconds.
    since: i64,
}

impl ExpiryWatch {
    /// The state of a plan whose warnings as of `now` (Unix seconds) were said.
    pub(super) fn new(plan: &Plan, now: i64) -> Self {
        Self { services: plan.services().into(), since: now }
    }

    /// The changes since the last look, one message each.
    pub(super) fn look(&mut self, now: i64) -> Vec<String> {
        let since = Some(std::mem::replace(&mut self.since, now));
        let services = self.services.iter();
        let warnings = services.flat_map(|one| {
            let moment = Moment { since, now };
            let front = one.tls().map(|tls| tls.warnings(one.name(), moment));
            let back = one.back_tls();
            let back = back.map(|tls| tls.client.warnings(one.name(), moment));
            front.into_iter().chain(back).flatten()
        });
        warnings.map(|warning| message(&warning)).collect()
    }

    /// When what each service goes by ends.
    pub(super) fn expiries(&self, now: i64) -> impl Iterator<Item = (&str, Expiries)> {
        let services = self.services.iter();
        services.filter_map(move |one| {
            let front = one.tls().map(|tls| tls.expiries(now));
            let back = one.back_tls().map(|tls| tls.client.expiries(now));
            let both = front.into_iter().chain(back).reduce(Expiries::and)?;
            Some((one.name(), both))
        })
    }

    /// How long nothing changes, unless the clock is set.
    pub(super) fn pause(&self, now: i64) -> Duration {
        let services = self.services.iter();
        let changes = services.flat_map(|one| {
            let front = one.tls().and_then(|tls| tls.next_change(now));
            let back = one.back_tls().and_then(|tls| tls.client.next_change(now));
            front.into_iter().chain(back)
        });
        let next = changes.min();
        let left = next.and_then(|next| u64::try_from(next.saturating_sub(now)).ok());
        left.map_or(PAUSE_MAX, |left| Duration::from_secs(left).min(PAUSE_MAX))
    }
}

/// Now, by the system's clock.
pub(super) fn unix_seconds() -> i64 {
    seconds(Clock::default().now())
}
