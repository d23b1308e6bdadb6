//! `lariat status`: what the running one does, for people or as JSON.

use std::path::Path;
use std::time::Duration;

use super::control::{self, ControlError};
use crate::admin::render_status_text;
use crate::commands::args::StatusSocket;
use crate::commands::console::{Console, print};
use crate::commands::exit::Exit;

/// Rates are taken over this long: enough to be steady, not enough to bore.
const RATE_TIME: Duration = Duration::from_millis(500);

pub(super) fn run(socket: &StatusSocket, json: bool, console: Console) -> Exit {
    match control::socket(socket).and_then(|path| text(&path, json, console)) {
        Ok(text) => {
            print(text);
            Exit::Success
        }
        Err(error) => error.tell(console),
    }
}

fn text(path: &Path, json: bool, console: Console) -> Result<String, ControlError> {
    let answer = control::ask_patiently(path, console)?;
    answer.name_other_owner(console);
    if json {
        return Ok(answer.text());
    }
    let earlier = answer.document()?;
    std::thread::sleep(RATE_TIME);
    let now = control::ask_patiently(path, console)?.document()?;
    Ok(render_status_text(&now, Some(&earlier)))
}
