//! The certificates that come by ACME as text, for `lariat status` and `lariat certificate list`.

use std::fmt::Write;

use super::document::{AcmeStatus, StatusDocument};
use super::units::Age;

/// A paragraph for each, or nothing.
pub(crate) fn acme_text(now: &StatusDocument) -> String {
    now.acme.iter().map(|one| entry(one, now.time_ms / 1000)).collect()
}

fn entry(one: &AcmeStatus, now: u64) -> String {
    let AcmeStatus { name, services, domains, directory, stage, .. } = one;
    let mut text = format!("\nCERTIFICATE {name} for {}\n", domains.join(", "));
    let mut field = |name: &str, value: String| {
        // A text takes all that is written to it.
        let _ = writeln!(text, "  {name:<14}{value}");
    };
    field("services", services.join(", "));
    field("authority", directory.clone());
    field(
        "state",
        match &one.waits_for {
            Some(what) => format!("{stage}: waits for {what}"),
            None => stage.clone(),
        },
    );
    match one.not_after_seconds {
        None => field("validity", "there is none yet; see the service for what it shows".into()),
        Some(end) if end <= now => field("validity", format!("EXPIRED {} ago", Age(now - end))),
        Some(end) => field("validity", format!("{} left", Age(end - now))),
    }
    if one.is_overdue {
        field("renewal", "OVERDUE".into());
    }
    if let Some(next) = one.next_seconds {
        field("next attempt", format!("in {}", Age(next.saturating_sub(now))));
    }
    if let Some(why) = &one.last_failure {
        // Indented: a message cannot pass for a line of ours.
        let why = why.replace('\n', "\n                ");
        field("last failure", format!("{why} ({} in a row)", one.failures));
    }
    text
}
