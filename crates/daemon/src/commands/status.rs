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
    let path = peer::socket(socket);
    let text = if json { document(&path) } else { table(&path) };
    match text {
        Ok(text) => {
            print(text);
            Exit::Success
        }
        Err(error) => error.tell(talk),
    }
}

fn document(path: &Path) -> Result<String, PeerError> {
    let bytes = peer::document_bytes(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn table(path: &Path) -> Result<String, PeerError> {
    let earlier = peer::document(path)?;
    std::thread::sleep(RATE_TIME);
    let now = peer::document(path)?;
    Ok(render_status_text(&now, Some(&earlier)))
}
