//! `lariat certificate`: what the running one has by ACME, and orders about it.

use std::time::Duration;

use super::control::{ControlError, RunningLariat};
use crate::admin::{AcmeStatus, StatusDocument, acme_text};
use crate::certificates::{CertificateChange, NOT_STORED};
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;

/// The order crosses two processes that answer within milliseconds, unless a plan of many
/// certificates is being built.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

pub(super) fn list(socket: &StatusSocket, as_json: bool, console: Console) -> Exit {
    match RunningLariat::find(socket, console) {
        Ok(running) if as_json => {
            let acme = serde_json::to_string_pretty(&running.document.acme);
            print(acme.expect("a status is JSON as it came") + "\n");
            Exit::Success
        }
        Ok(running) => {
            if running.document.acme.is_empty() {
                console.hint("none comes by ACME; `lariat status` has those in files");
            }
            print(acme_text(&running.document).trim_start());
            Exit::Success
        }
        Err(error) => error.tell(console),
    }
}

pub(super) fn change(
    socket: &StatusSocket,
    change: CertificateChange,
    name: &str,
    console: Console,
) -> Exit {
    match ordered(socket, change, name, console) {
        Ok(Some(AcmeStatus { stage, name, last_failure, .. })) if stage == NOT_STORED => {
            let why = last_failure.unwrap_or_default();
            console.error(format_args!(
                "no other certificate is ordered for {name}: one has come already, and waits for \
                 the disk: {why}"
            ));
            console.hint(
                "make room; it is stored within a minute then, and served; \
                 `lariat certificate list` says when it is",
            );
            Exit::Failed
        }
        Ok(Some(AcmeStatus { name, .. })) => {
            print(format_args!(
                "the order to {} {name} is given; `lariat certificate list` shows what comes of \
                 it\n",
                change.word()
            ));
            Exit::Success
        }
        Ok(None) => {
            console.error(format_args!("the order about {name} has had no effect yet"));
            console.hint("its standard error says why");
            Exit::Failed
        }
        Err(error) => error.tell(console),
    }
}

/// The state of the certificate once the order has come there; `None` if it does not.
fn ordered(
    socket: &StatusSocket,
    change: CertificateChange,
    name: &str,
    console: Console,
) -> Result<Option<AcmeStatus>, ControlError> {
    let running = RunningLariat::find_serving(socket, console)?;
    let before = find(&running.document, name)?.clone();
    if change == CertificateChange::Revoke && before.not_after_seconds.is_none() {
        return Err(ControlError::NoneToRevoke { name: before.name });
    }
    running.supervisor.order(change.order(&before.name))?;
    running.wait_for(ANSWER_TIME_MAX, |now| {
        let Some(now) = now else { return Ok(None) };
        let after = find(now, &before.name)?;
        Ok((after.orders > before.orders).then(|| after.clone()))
    })
}

/// The certificate in a document, or which one may have been meant.
fn find<'d>(document: &'d StatusDocument, name: &str) -> Result<&'d AcmeStatus, ControlError> {
    if let Some(found) = document.acme.iter().find(|one| one.is_meant_by(name)) {
        return Ok(found);
    }
    let names = document.acme.iter().flat_map(|one| {
        std::iter::once(one.name.as_str()).chain(one.domains.iter().map(String::as_str))
    });
    let near = config::nearest(name, names).map(str::to_owned);
    Err(ControlError::NoCertificate { name: name.to_owned(), near })
}
