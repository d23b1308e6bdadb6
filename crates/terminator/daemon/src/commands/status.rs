//! `lariat status`: what the running one does, for people or as JSON.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::peer::{self, PeerError};
use crate::admin::render_status_text;
use crate::exit::Exit;
use crate::talk::{Talk, print};

/// Rates are taken over this long: enough to be steady, not enough to bore.
const RATE_TIME: Duration = Duration::from_millis(500);

pub(super) fn run(socket: Option<PathBuf>, json: bool, talk: Talk) -> Exit {
    match text(&peer::socket(socket), json, talk) {
        Ok(text) => {
            print(text);
            Exit::Success
        }
        Err(error) => error.tell(talk),
    }
}

fn text(path: &Path, json: bool, talk: Talk) -> Result<String, PeerError> {
    let answer = peer::ask(path)?;
    answer.name_other_owner(talk);
    if json {
        return Ok(answer.text());
    }
    let earlier = answer.document()?;
    std::thread::sleep(RATE_TIME);
    let now = peer::ask(path)?.document()?;
    Ok(render_status_text(&now, Some(&earlier)))
}
