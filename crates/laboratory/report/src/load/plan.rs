//! What a run was planned to do, option by option, in the words of its flags.

use measure::quantity::{Bytes, Count, Nanoseconds};
use measure::record::{Arrival, Plan, PlannedRate, Request, Tls};

/// Names and values; options that say nothing in this plan are left out.
pub(crate) fn rows(plan: &Plan) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("source", list(&plan.sources, ToString::to_string)),
        ("send-proxy", shown(plan.proxy_header.map(|it| it.name()))),
        ("move-sessions", shown(plan.move_sessions.then_some("on"))),
    ];
    rows.extend(plan.tls.iter().flat_map(of_tls));
    match &plan.request {
        None => rows.push(("request", "none".to_owned())),
        Some(request) => rows.extend(of_request(request)),
    }
    let (kind, arrival) = match &plan.arrival {
        Arrival::Closed(connections) => ("connections", connections.to_string()),
        Arrival::Open(rates) => ("rate", list(rates, rate)),
    };
    rows.extend([
        (kind, arrival),
        ("spacing", shown(plan.spacing.map(|it| it.name()))),
        ("requests-per-arrival", shown(plan.requests_per_arrival)),
        ("clients", plan.clients.to_string()),
        ("client-selection", plan.client_selection.name().to_owned()),
        ("requests-per-session", shown(plan.requests_per_session)),
        (
            "requests-per-connection",
            or_unlimited(plan.requests_per_connection),
        ),
        ("think-time", time(plan.think_time_ns)),
        ("close", plan.ending.name().to_owned()),
        ("duration", time(plan.duration_ns)),
        ("count", shown(plan.count_max)),
        ("warm-up", time(plan.warm_up_ns)),
        ("timeout", time(plan.timeout_ns)),
        ("threads", plan.threads.to_string()),
        ("cpus", list(&plan.cpus, ToString::to_string)),
        ("seed", plan.seed.to_string()),
    ]);
    rows.retain(|(_, value)| !value.is_empty());
    rows
}

fn of_request(request: &Request) -> [(&'static str, String); 4] {
    let body = Some(request.body_bytes).filter(|bytes| *bytes > 0);
    let header = |(name, value): &(String, String)| format!("{name}: {value}");
    [
        ("method", request.method.clone()),
        ("path", request.path.clone()),
        ("header", list(&request.headers, header)),
        ("body", shown(body.map(Bytes))),
    ]
}

fn of_tls(tls: &Tls) -> Vec<(&'static str, String)> {
    let on_off = |is_on| if is_on { "on" } else { "off" }.to_owned();
    vec![
        ("starttls", shown(tls.starttls.as_ref())),
        ("tls", tls.versions.name().to_owned()),
        (
            "handshake",
            list(&tls.handshakes, |it| it.name().to_owned()),
        ),
        ("suites", list(&tls.suites, |it| it.name().to_owned())),
        ("groups", list(&tls.groups, |it| it.name().to_owned())),
        (
            "signatures",
            list(&tls.signatures, |it| it.name().to_owned()),
        ),
        ("alpn", list(&tls.alpn, Clone::clone)),
        (
            "server-name",
            tls.server_name.clone().unwrap_or_else(|| "none".to_owned()),
        ),
        ("client-certificate", on_off(tls.client_certificate)),
        ("verify", tls.verify.name().to_owned()),
        ("tickets", on_off(tls.tickets)),
        ("session-ids", on_off(tls.session_ids)),
        ("early-data", on_off(tls.early_data)),
    ]
}

fn rate(rate: &PlannedRate) -> String {
    let (from, to) = (Count(rate.from_per_s), Count(rate.to_per_s));
    let time = Nanoseconds(rate.length_ns as f64);
    if rate.from_per_s == rate.to_per_s {
        format!("{from}/s for {time}")
    } else {
        format!("{from}/s to {to}/s in {time}")
    }
}

fn time(ns: u64) -> String {
    Nanoseconds(ns as f64).to_string()
}

fn shown(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn or_unlimited(bound: Option<u32>) -> String {
    bound.map_or_else(|| "unlimited".to_owned(), |bound| bound.to_string())
}

fn list<T>(values: &[T], text: impl Fn(&T) -> String) -> String {
    values.iter().map(text).collect::<Vec<_>>().join(", ")
}
