//! Settings of a plan as they would be typed: what defaults came to.

use std::net::IpAddr;
use std::time::Duration;

use crate::plan::{Arrival, ClientSelection, Plan, Spacing, Tls, Verification, Versions};

pub(crate) fn clients(plan: &Plan) -> Option<String> {
    Some(plan.clients.count.to_string())
}

/// Empty where every client is new: there is nothing to select.
pub(crate) fn client_selection(plan: &Plan) -> Option<String> {
    if plan.requests_per_arrival().is_some() {
        return None;
    }
    let name = match plan.clients.selection {
        ClientSelection::RoundRobin => "round-robin",
        ClientSelection::Fewest => "fewest",
    };
    Some(name.to_owned())
}

pub(crate) fn method(plan: &Plan) -> Option<String> {
    Some(plan.request.as_ref()?.method.clone())
}

pub(crate) fn versions(plan: &Plan) -> Option<String> {
    let name = match plan.tls.as_ref()?.versions {
        Versions::Tls12 => "1.2",
        Versions::Tls13 => "1.3",
        Versions::Both => "both",
    };
    Some(name.to_owned())
}

pub(crate) fn suites(plan: &Plan) -> Option<String> {
    list(plan, |tls| {
        tls.suites.iter().map(|one| one.name()).collect()
    })
}

pub(crate) fn groups(plan: &Plan) -> Option<String> {
    list(plan, |tls| {
        tls.groups.iter().map(|one| one.name()).collect()
    })
}

pub(crate) fn signatures(plan: &Plan) -> Option<String> {
    list(plan, |tls| {
        tls.signatures.iter().map(|one| one.name()).collect()
    })
}

fn list(plan: &Plan, names: impl FnOnce(&Tls) -> Vec<&'static str>) -> Option<String> {
    Some(names(plan.tls.as_ref()?).join(","))
}

/// An address is checked for, but never sent.
pub(crate) fn server_name(plan: &Plan) -> Option<String> {
    let name = plan.tls.as_ref()?.server_name.as_deref();
    let sent = name.filter(|name| name.parse::<IpAddr>().is_err());
    Some(sent.unwrap_or("none").to_owned())
}

pub(crate) fn verify(plan: &Plan) -> Option<String> {
    let name = match plan.tls.as_ref()?.verification {
        // No flag asks for certificates byte by byte.
        Verification::Off | Verification::These(_) => "off",
        Verification::Signature => "signature",
        Verification::Authority(_) => "full",
    };
    Some(name.to_owned())
}

pub(crate) fn connections(plan: &Plan) -> Option<String> {
    match plan.arrival {
        Arrival::Closed { connections } => Some(connections.to_string()),
        Arrival::Open { .. } => None,
    }
}

pub(crate) fn spacing(plan: &Plan) -> Option<String> {
    let name = match plan.arrival {
        Arrival::Closed { .. } => return None,
        Arrival::Open {
            spacing: Spacing::Constant,
            ..
        } => "constant",
        Arrival::Open {
            spacing: Spacing::Poisson,
            ..
        } => "poisson",
    };
    Some(name.to_owned())
}

pub(crate) fn duration(plan: &Plan) -> Option<String> {
    Some(time(plan.duration))
}

pub(crate) fn threads(plan: &Plan) -> Option<String> {
    Some(plan.threads.count.to_string())
}

pub(crate) fn cpus(plan: &Plan) -> Option<String> {
    let cpus: Vec<_> = plan.threads.cpus.iter().map(u16::to_string).collect();
    Some(match cpus.is_empty() {
        true => "none".to_owned(),
        false => cpus.join(","),
    })
}

/// In the greatest unit that leaves a whole number.
pub(crate) fn time(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let units: [(&str, u128); 4] = [
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1000),
        ("ns", 1),
    ];
    let fits = units.iter().find(|(_, unit)| ns.is_multiple_of(*unit));
    let (name, unit) = fits.unwrap_or(&units[3]);
    format!("{}{name}", ns / unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_typed_in_whole_units() {
        let shown = |ns| time(Duration::from_nanos(ns));
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(90_000_000_000), "90s");
        assert_eq!(shown(1_500_000_000), "1500ms");
        assert_eq!(shown(80_000), "80us");
        assert_eq!(shown(7), "7ns");
    }
}
