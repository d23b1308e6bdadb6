//! A load by another program, which prints its counts.

use std::ffi::OsString;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::failure::{Cancel, Failure};
use crate::process::child::{Child, first_lines};
use crate::target::form::Target;
use crate::target::output::Counted;
use crate::target::templates::{self, ClientValues};

/// A load that takes longer hangs.
const FETCH_MAX: Duration = Duration::from_secs(180);

/// Between two checks whether it has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// The result of one run of a program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fetched {
    pub(crate) counted: Counted,
    /// How long it took, by its own clock, or else by ours with its start and end.
    pub(crate) took: Duration,
    /// Resident memory of the server while the program ran, at its most.
    pub(crate) server_bytes: u64,
    /// The same of the program itself.
    pub(crate) client_bytes: u64,
}

/// Runs it once, in its folder.
///
/// # Errors
/// It cannot be started, fails, hangs, or does not print its numbers; or it was cancelled.
pub(crate) fn fetch(
    client: &Target,
    values: &ClientValues<'_>,
    cpus: &[u16],
    server_bytes: impl Fn() -> u64,
    cancel: &dyn Cancel,
) -> Result<Fetched, Failure> {
    let mut child = start(client, values, cpus)?;
    let begun = Instant::now();
    let mut most = (server_bytes(), 0);
    let how = loop {
        if let Some(how) = child.ended() {
            break how.to_owned();
        }
        if cancel.is_requested() {
            return Err(Failure::Cancelled);
        }
        if begun.elapsed() > FETCH_MAX {
            let (name, seconds) = (&client.name, FETCH_MAX.as_secs());
            return Err(Failure::Failed(format!(
                "{name} has not ended after {seconds} s"
            )));
        }
        let own = child.tree().resident_bytes().unwrap_or(0);
        most = (most.0.max(server_bytes()), most.1.max(own));
        thread::sleep(PAUSE);
    };
    let took = begun.elapsed();
    let said = child.output();
    let is_over = how.ends_with(" 0");
    let output = &client.form.output;
    let written = output.file().map(|name| values.folder.join(name));
    let written = written.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let counted = output.read(written.as_ref().unwrap_or(&said));
    let counted = counted.filter(|_| is_over);
    let counted = counted.ok_or_else(|| {
        let said = first_lines(&said);
        Failure::Failed(format!("{} ended ({how}): {said}", client.name))
    })?;
    Ok(Fetched {
        counted,
        took: counted.took.unwrap_or(took),
        server_bytes: most.0,
        client_bytes: most.1,
    })
}

fn start(client: &Target, values: &ClientValues<'_>, cpus: &[u16]) -> Result<Child, Failure> {
    let folder: &Path = values.folder;
    for (name, text) in templates::files(client, values)? {
        std::fs::write(folder.join(name), text)?;
    }
    let words = templates::command(client, &client.form.start, values)?;
    let words: Vec<_> = words.into_iter().map(OsString::from).collect();
    let output = folder.join("output");
    Ok(Child::start(&words, cpus, folder, &output)?)
}
