//! How what `tls` finds in a configuration is told: where the configuration names it, or by the
//! service's name, with the remedy apart.

use std::path::Path;

use config::{Diagnostic, Severity, Source};
use tls::server::{BuildError, BuildFault, Warning};

/// The reason why the TLS of the service of this number cannot be built.
pub(crate) fn fault(source: &Source, service: usize, error: &BuildError) -> Vec<Diagnostic> {
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
