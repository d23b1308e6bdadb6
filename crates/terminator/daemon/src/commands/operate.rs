//! The commands about the lariat that runs: `status`, `reload`, `upgrade`, `drain`, `server` and
//! `certificate`. Each asks or signals it by `control`, and waits for what comes of that.

use std::time::Duration;

use serde_json::to_string_pretty;
use sys::signal::Signal;
use telemetry::catalogue::{ProcessMetric, ServiceGauge};

use super::args::{NamedCertificate, StatusSocket};
use super::console::{Console, Exit, print};
use super::control::{self, ControlError, RunningLariat};
use crate::admin::{
    AcmeStatus, RunState, ServerState, ServerStatus, StatusDocument, acme_text, render_status_text,
};
use crate::named_servers::{MaintenanceChange, ServerName};
use crate::status_parts::{CertificateChange, NOT_STORED};

type CommandEnd = Result<Exit, ControlError>;

/// Rates are taken over this long: enough to be steady, not enough to bore.
const RATE_TIME: Duration = Duration::from_millis(500);

/// More than the supervisor gives the reader to read the files, and then the worker process to
/// build a plan.
const RELOAD_TIME_MAX: Duration = Duration::from_secs(2400);

/// More than the steps of an upgrade may take, and a reload before them.
const UPGRADE_TIME_MAX: Duration = Duration::from_secs(2445);

/// The time from the end of the status socket to the end of a process that has to stop.
const END_TIME_MAX: Duration = Duration::from_secs(3);

/// The time between looks at a process that drains.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);

/// An order about a server or certificate crosses two processes that answer within milliseconds,
/// unless a plan of many certificates is being built.
const ORDER_TIME_MAX: Duration = Duration::from_secs(30);

/// Prints what the running one does, for people or as JSON.
pub(super) fn status(socket: &StatusSocket, json: bool, console: Console) -> CommandEnd {
    let path = control::socket(socket)?;
    let answer = control::ask_patiently(&path, console)?;
    answer.name_other_owner(console);
    if json {
        print(answer.text());
        return Ok(Exit::Success);
    }
    let earlier = answer.document()?;
    std::thread::sleep(RATE_TIME);
    let now = control::ask_patiently(&path, console)?.document()?;
    print(render_status_text(&now, Some(&earlier)));
    Ok(Exit::Success)
}

/// Reads the configuration of the running one again.
pub(super) fn reload(socket: &StatusSocket, strict: bool, console: Console) -> CommandEnd {
    let running = RunningLariat::find_serving(socket, console)?;
    running.supervisor.signal(Signal::Hangup)?;
    let waits = control::say_if_slow(
        console,
        "waiting: another reload is under way, a new process is taking over, or the files are read \
         slowly; the messages of the running lariat say which",
    );
    let count = |document: &StatusDocument| {
        let count = |result| document.process.metrics.get(result);
        count(ProcessMetric::ReloadsOk).saturating_add(count(ProcessMetric::ReloadsRefused))
    };
    let before = count(&running.document);
    let document = running
        .wait_for(RELOAD_TIME_MAX, |now| Ok(now.filter(|now| count(now) > before).cloned()))?;
    drop(waits);
    let Some(document) = document else {
        console.error("the reload is still under way");
        console.hint("`lariat status` shows when it has ended, and how");
        return Ok(Exit::Failed);
    };
    let last = document.last_reload.as_ref();
    if let Some(why) = last.and_then(|last| last.refused.as_ref()) {
        console.refusal(why);
        console.error("the new configuration was refused; the old one is still served");
        return Ok(Exit::Refused);
    }
    let generation = document.process.metrics.get(ProcessMetric::Generation);
    print(format_args!("reloaded: configuration {generation} is served\n"));
    let warnings = last.and_then(|last| last.warnings.as_ref());
    if let Some(warnings) = warnings {
        console.say(warnings);
    }
    Ok(if strict && warnings.is_some() { Exit::Warned } else { Exit::Success })
}

/// Upgrades the running one to the program as installed now.
pub(super) fn upgrade(socket: &StatusSocket, console: Console) -> CommandEnd {
    let upgraded = upgraded(socket, console).map_err(|error| match error {
        ControlError::Silent { path, error } => ControlError::Absent { path, error },
        other => other,
    });
    let document = match upgraded? {
        Some(Upgraded::Here(document)) => document,
        Some(Upgraded::Elsewhere) => {
            print("the new program has taken over, with another status socket\n");
            return Ok(Exit::Success);
        }
        None => {
            console.error("the upgrade is still under way");
            console.hint("`lariat status` says how far it is");
            return Ok(Exit::Failed);
        }
    };
    let last = document.last_upgrade.as_ref();
    if let Some(why) = last.and_then(|last| last.refused.as_ref()) {
        console.refusal(why);
        console.error("the new program has not taken over; the running one stays");
        return Ok(Exit::Refused);
    }
    let program = last.map_or("", |last| &last.program);
    let pid = document.process.supervisor_pid;
    print(format_args!("process {pid}, lariat {program}, has taken over\n"));
    Ok(Exit::Success)
}

/// An upgrade that has ended.
enum Upgraded {
    /// This is the status after it.
    Here(Box<StatusDocument>),
    /// It has ended well, and its status is at another place.
    Elsewhere,
}

/// Begins an upgrade, and waits for its end; `None` if it does not end.
fn upgraded(socket: &StatusSocket, console: Console) -> Result<Option<Upgraded>, ControlError> {
    let running = RunningLariat::find_serving(socket, console)?;
    if let Some(upgrade) = &running.document.upgrade {
        console.say(format_args!("an upgrade is under way already: {}", upgrade.stage));
    }
    running.supervisor.signal(Signal::User2)?;
    let _waits = control::say_if_slow(
        console,
        "waiting for the new program to take over; `lariat status` says how far it is",
    );
    let number =
        |document: &StatusDocument| document.last_upgrade.as_ref().map_or(0, |last| last.number);
    let before = number(&running.document);
    running.wait_for(UPGRADE_TIME_MAX, |now| {
        // The new configuration may name another status socket.
        let is_gone = || !running.path.exists();
        Ok(match now {
            Some(now) if number(now) > before => Some(Upgraded::Here(Box::new(now.clone()))),
            None if is_gone() && !running.supervisor.has_ended_within(END_TIME_MAX) => {
                Some(Upgraded::Elsewhere)
            }
            _ => None,
        })
    })
}

/// Drains the running one, and waits until it has ended: its own deadline (`process.drain`) bounds
/// that.
pub(super) fn drain(socket: &StatusSocket, console: Console) -> CommandEnd {
    let RunningLariat { document, supervisor, .. } = RunningLariat::find(socket, console)?;
    if document.process.state == RunState::Draining {
        console.say("it drains already; a signal to it would end it at once");
    } else {
        // Not the one by which a service manager restarts it: this one is not to come back.
        supervisor.signal(Signal::Interrupt)?;
    }
    let services = document.services.iter();
    let counts = services.map(|one| one.metrics.get(ServiceGauge::ConnectionsOpen));
    let open = counts.fold(0, u64::saturating_add);
    if open > 0 {
        console.say(format_args!(
            "waiting for {open} open connections; the last message of lariat says how many the \
             deadline cut"
        ));
    }
    while !supervisor.has_ended_within(LOOK_INTERVAL) {}
    print("drained: it has ended\n");
    Ok(Exit::Success)
}

/// Takes a server of the running one out of use, or back in, or changes its share.
pub(super) fn change_server(
    socket: &StatusSocket,
    change: MaintenanceChange,
    name: &ServerName,
    console: Console,
) -> CommandEnd {
    let running = RunningLariat::find_serving(socket, console)?;
    server_in(&running.document, name)?;
    running.supervisor.order(name.order(change))?;
    let open = running.wait_for(ORDER_TIME_MAX, |now| {
        let Some(now) = now else { return Ok(None) };
        let server = server_in(now, name)?;
        Ok(is_done(server, change).then(|| {
            warn_of_last(now, name, console);
            server.open()
        }))
    })?;
    let Some(open) = open else {
        console.error(format_args!("the order about {name} has had no effect yet"));
        console.hint("its standard error says why, and `lariat status` what it does");
        return Ok(Exit::Failed);
    };
    let outcome = match change {
        MaintenanceChange::Disable | MaintenanceChange::DisableAndClose => {
            format!("is disabled; open connections to it: {open}")
        }
        MaintenanceChange::Enable => "is enabled".to_owned(),
        MaintenanceChange::Weight(Some(weight)) => format!("has weight {weight}"),
        MaintenanceChange::Weight(None) => "has its configured weight".to_owned(),
    };
    print(format_args!("{name} {outcome}\n"));
    Ok(Exit::Success)
}

/// A disabled server, or one of weight 0, is down once each worker has heard of it; one that is
/// enabled may be down for other reasons.
fn is_done(server: &ServerStatus, change: MaintenanceChange) -> bool {
    match change {
        MaintenanceChange::Disable => server.disabled && server.state == ServerState::Down,
        MaintenanceChange::DisableAndClose => {
            is_done(server, MaintenanceChange::Disable) && server.open() == 0
        }
        MaintenanceChange::Enable => !server.disabled,
        MaintenanceChange::Weight(weight) => {
            let is_out = weight != Some(0) || server.state == ServerState::Down;
            server.weight_ordered == weight && is_out
        }
    }
}

/// The last server of a service may be taken out of use, but not by an oversight.
fn warn_of_last(document: &StatusDocument, name: &ServerName, console: Console) {
    let mut services = document.services.iter();
    let its = services.find(|one| one.name == name.service);
    if its.is_some_and(|one| one.servers.iter().all(|server| server.state == ServerState::Down)) {
        console.warn(format_args!("no server of {} is up: its clients are refused", name.service));
        console.hint("`lariat status` says of each why");
    }
}

/// The server in a document, or which one may have been meant.
fn server_in<'d>(
    document: &'d StatusDocument,
    name: &ServerName,
) -> Result<&'d ServerStatus, ControlError> {
    let services = document.services.iter();
    let mut of_service = services.clone().filter(|one| one.name == name.service).peekable();
    let is_service_known = of_service.peek().is_some();
    if let Some(server) =
        of_service.flat_map(|one| &one.servers).find(|one| one.name == name.server)
    {
        return Ok(server);
    }
    if document.services_left_out > 0 && !is_service_known {
        return Err(ControlError::LeftOut {
            name: name.to_string(),
            services: document.services_left_out,
        });
    }
    let names = services.flat_map(|service| {
        let named = |server: &ServerStatus| format!("{}/{}", service.name, server.name);
        service.servers.iter().map(named)
    });
    let names: Vec<String> = names.collect();
    let near = config::nearest(&name.to_string(), names.iter().map(String::as_str));
    Err(ControlError::NoServer { name: name.to_string(), near: near.map(str::to_owned) })
}

/// Prints what the running one has by ACME.
pub(super) fn list_certificates(socket: &StatusSocket, json: bool, console: Console) -> CommandEnd {
    let document = RunningLariat::find(socket, console)?.document;
    if json {
        print(to_string_pretty(&document.acme).expect("a status is JSON as it came") + "\n");
    } else {
        if document.acme.is_empty() {
            console.hint("none comes by ACME; `lariat status` has those in files");
        }
        print(acme_text(&document).trim_start());
    }
    Ok(Exit::Success)
}

/// Renews or revokes a certificate of the running one.
pub(super) fn change_certificate(
    change: CertificateChange,
    NamedCertificate { name, socket }: NamedCertificate,
    console: Console,
) -> CommandEnd {
    let running = RunningLariat::find_serving(&socket.into(), console)?;
    let before = certificate_in(&running.document, &name)?.clone();
    if change == CertificateChange::Revoke && before.not_after_seconds.is_none() {
        return Err(ControlError::NoneToRevoke { name: before.name });
    }
    running.supervisor.order(change.order(&before.name))?;
    let after = running.wait_for(ORDER_TIME_MAX, |now| {
        let Some(now) = now else { return Ok(None) };
        let after = certificate_in(now, &before.name)?;
        Ok((after.orders > before.orders).then(|| after.clone()))
    })?;
    match after {
        Some(AcmeStatus { stage, name, last_failure, .. }) if stage == NOT_STORED => {
            let why = last_failure.unwrap_or_default();
            console.error(format_args!(
                "no other certificate is ordered for {name}: one has come already, and waits for \
                 the disk: {why}"
            ));
            console.hint(
                "make room; it is stored within a minute then, and served; \
                 `lariat certificate list` says when it is",
            );
            Ok(Exit::Failed)
        }
        Some(AcmeStatus { name, .. }) => {
            print(format_args!(
                "the order to {} {name} is given; `lariat certificate list` shows what comes of \
                 it\n",
                change.word()
            ));
            Ok(Exit::Success)
        }
        None => {
            console.error(format_args!("the order about {name} has had no effect yet"));
            console.hint("its standard error says why");
            Ok(Exit::Failed)
        }
    }
}

/// The certificate in a document, or which one may have been meant.
fn certificate_in<'d>(
    document: &'d StatusDocument,
    name: &str,
) -> Result<&'d AcmeStatus, ControlError> {
    let is_meant =
        |one: &&AcmeStatus| one.name == name || one.domains.iter().any(|one| one == name);
    if let Some(found) = document.acme.iter().find(is_meant) {
        return Ok(found);
    }
    let names = document.acme.iter().flat_map(|one| {
        std::iter::once(one.name.as_str()).chain(one.domains.iter().map(String::as_str))
    });
    let near = config::nearest(name, names).map(str::to_owned);
    Err(ControlError::NoCertificate { name: name.to_owned(), near })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::ServiceStatus;

    #[test]
    fn an_unknown_server_has_a_neighbour() {
        let server = |name: &str| ServerStatus { name: name.to_owned(), ..ServerStatus::default() };
        let service = |name: &str, servers: &[&str]| ServiceStatus {
            name: name.to_owned(),
            servers: servers.iter().map(|name| server(name)).collect(),
            ..ServiceStatus::default()
        };
        let services = [
            service("web", &["10.0.0.3:80", "10.0.0.4:80"]),
            service("app", &["unix:/run/app.sock"]),
        ];
        let text = r#"{"version":2,"time_ms":0,"process":{"program":"","state":"serving","pid":2,
            "supervisor_pid":1,"start_ms":0,"supervisor_start_ms":0,"metrics":{}},
            "workers":[],"services":[],"bounds_us":[]}"#;
        let mut document = StatusDocument::from_json(text.as_bytes()).unwrap();
        document.services = services.to_vec();
        let found = |text: &str| {
            let name = ServerName::parse(text).unwrap();
            let found = server_in(&document, &name).map(|server| server.name.clone());
            found.map_err(|error| error.to_string())
        };
        assert_eq!(found("web/10.0.0.4:80").unwrap(), "10.0.0.4:80");
        let near = found("wep/10.0.0.3:80").unwrap_err();
        assert!(near.contains("did you mean web/10.0.0.3:80?"), "{near}");
        let short = StatusDocument { services_left_out: 5, ..document.clone() };
        let left_out =
            server_in(&short, &ServerName::parse("wep/10.0.0.3:80").unwrap()).unwrap_err();
        assert!(left_out.to_string().contains("5 services more than"), "{left_out}");
        let near = found("app/unix:/run/ap.sock").unwrap_err();
        assert!(near.contains("app/unix:/run/app.sock"), "{near}");
        let far = found("other/203.0.113.9:7").unwrap_err();
        assert!(!far.contains("did you mean"), "{far}");
    }
}
