//! `lariat server disable`, `enable` and `weight`: takes a server of the running one out of use, or
//! back in, or changes its share.

use std::time::Duration;

use super::control::{ControlError, RunningLariat};
use crate::admin::{ServerState, ServerStatus, StatusDocument};
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;
use crate::maintenance::{Change, ServerName};

/// The order crosses two processes that answer within milliseconds, unless a plan of many
/// certificates is being built.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

pub(super) fn run(
    socket: &StatusSocket,
    change: Change,
    name: &ServerName,
    console: Console,
) -> Exit {
    match changed(socket, change, name, console) {
        Ok(Some(open)) => {
            let outcome = match change {
                Change::Disable | Change::DisableAndClose => {
                    format!("is disabled; open connections to it: {open}")
                }
                Change::Enable => "is enabled".to_owned(),
                Change::Weight(Some(weight)) => format!("has weight {weight}"),
                Change::Weight(None) => "has its configured weight".to_owned(),
            };
            print(format_args!("{name} {outcome}\n"));
            Exit::Success
        }
        Ok(None) => {
            console.error(format_args!("the order about {name} has had no effect yet"));
            console.hint("its standard error says why, and `lariat status` what it does");
            Exit::Failed
        }
        Err(error) => error.tell(console),
    }
}

/// Connections open to the server when it is as ordered; `None` if it does not come to that.
fn changed(
    socket: &StatusSocket,
    change: Change,
    name: &ServerName,
    console: Console,
) -> Result<Option<u64>, ControlError> {
    let running = RunningLariat::find_serving(socket, console)?;
    find(&running.document, name)?;
    running.supervisor.order(name.order(change))?;
    running.wait_for(ANSWER_TIME_MAX, |now| {
        let Some(now) = now else { return Ok(None) };
        let server = find(now, name)?;
        Ok(is_done(server, change).then(|| {
            warn_of_last(now, name, console);
            server.open()
        }))
    })
}

/// A disabled server, or one of weight 0, is down once each worker has heard of it; one that is
/// enabled may be down for other reasons.
fn is_done(server: &ServerStatus, change: Change) -> bool {
    match change {
        Change::Disable => server.disabled && server.state == ServerState::Down,
        Change::DisableAndClose => is_done(server, Change::Disable) && server.open() == 0,
        Change::Enable => !server.disabled,
        Change::Weight(weight) => {
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
fn find<'d>(
    document: &'d StatusDocument,
    name: &ServerName,
) -> Result<&'d ServerStatus, ControlError> {
    let services = document.services.iter();
    let of_service = services.clone().filter(|one| one.name == name.service);
    let mut servers = of_service.flat_map(|one| &one.servers);
    if let Some(server) = servers.find(|one| one.name == name.server) {
        return Ok(server);
    }
    if document.services_left_out > 0 && is_of_no_service(document, name) {
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

fn is_of_no_service(document: &StatusDocument, name: &ServerName) -> bool {
    document.services.iter().all(|one| one.name != name.service)
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
            let found = find(&document, &name).map(|server| server.name.clone());
            found.map_err(|error| error.to_string())
        };
        assert_eq!(found("web/10.0.0.4:80").unwrap(), "10.0.0.4:80");
        let near = found("wep/10.0.0.3:80").unwrap_err();
        assert!(near.contains("did you mean web/10.0.0.3:80?"), "{near}");
        let short = StatusDocument { services_left_out: 5, ..document.clone() };
        let left_out = find(&short, &ServerName::parse("wep/10.0.0.3:80").unwrap()).unwrap_err();
        assert!(left_out.to_string().contains("5 services more than"), "{left_out}");
        let near = found("app/unix:/run/ap.sock").unwrap_err();
        assert!(near.contains("app/unix:/run/app.sock"), "{near}");
        let far = found("other/203.0.113.9:7").unwrap_err();
        assert!(!far.contains("did you mean"), "{far}");
    }
}
