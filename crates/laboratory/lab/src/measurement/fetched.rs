//! A program other than ours that fetches one thing from a server, and says how long it took.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::missed::{Halt, Missed};
use crate::process::child::{Child, first_lines};
use crate::scenario::cell::{Output, ProgramClient};
use crate::scenario::cells;

/// A transfer that takes longer hangs.
const FETCH_MAX: Duration = Duration::from_secs(600);

/// Between two looks whether it has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// Lines of its own in a message.
const LINES_MAX: usize = 4;

/// What one run of a program told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fetched {
    /// Bytes of the body, as it counted them.
    pub(crate) bytes: u64,
    /// How long it took, by its own clock.
    pub(crate) took: Duration,
    /// Resident memory of the server, as it was asked while the program ran, the greatest.
    pub(crate) resident_bytes: u64,
}

/// Runs it once.
///
/// # Errors
/// It cannot be started, fails, hangs, or says something else than numbers; or we are to end.
pub(crate) fn fetch(
    client: &ProgramClient,
    url: &str,
    (cpus, folder): (&[u16], &Path),
    mut look: impl FnMut() -> u64,
    halt: &dyn Halt,
) -> Result<Fetched, Missed> {
    let words = cells::fetch(client, url).into_iter().map(OsString::from);
    let words: Vec<_> = words.collect();
    let (program, arguments) = words.split_first().map_or_else(
        || (OsStr::new(""), &words[..]),
        |(first, rest)| (first, rest),
    );
    let output = folder.join("client.output");
    let child = Child::start(program, arguments, cpus, folder, &output);
    let mut child = child.map_err(Missed::failed)?;
    let begun = Instant::now();
    let mut resident_bytes = look();
    let how = loop {
        if let Some(how) = child.ended() {
            break how.to_owned();
        }
        if halt.is_asked() {
            return Err(Missed::Interrupted);
        }
        if begun.elapsed() > FETCH_MAX {
            let (name, seconds) = (&client.program, FETCH_MAX.as_secs());
            return Err(Missed::Failed(format!(
                "{name} has not ended after {seconds} s"
            )));
        }
        resident_bytes = resident_bytes.max(look());
        thread::sleep(PAUSE);
    };
    let said = child.said();
    let told = how.ends_with(" 0").then(|| read(&client.output, &said));
    let (bytes, took) = told.flatten().ok_or_else(|| {
        let said = first_lines(&said, LINES_MAX);
        Missed::Failed(format!("{} ended ({how}): {said}", client.program))
    })?;
    Ok(Fetched {
        bytes,
        took,
        resident_bytes,
    })
}

/// The numbers at the end of what it said; before them it may have said other things.
fn read(wanted: &[Output], said: &str) -> Option<(u64, Duration)> {
    let words: Vec<_> = said.split_whitespace().collect();
    let first = words.len().checked_sub(wanted.len())?;
    let (mut bytes, mut took) = (0, None);
    for (what, word) in wanted.iter().zip(&words[first..]) {
        match what {
            Output::Bytes => bytes = word.parse().ok()?,
            Output::Seconds => took = Duration::try_from_secs_f64(word.parse().ok()?).ok(),
        }
    }
    Some((bytes, took?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Output; 2] = [Output::Bytes, Output::Seconds];

    #[test]
    fn numbers_are_read_in_their_order() {
        let took = Duration::from_millis(1250);
        assert_eq!(read(&BOTH, "1024 1.25\n"), Some((1024, took)));
        assert_eq!(read(&BOTH, "warning: x\n1024 1.25"), Some((1024, took)));
        assert_eq!(read(&[Output::Seconds], "1.25"), Some((0, took)));
        assert_eq!(
            read(&[Output::Seconds, Output::Bytes], "1.25 7"),
            Some((7, took))
        );
    }

    #[test]
    fn what_is_no_number_is_none() {
        for said in ["", "1024", "many 1.25", "1024 -1", "1024 long", "-1 1.25"] {
            assert_eq!(read(&BOTH, said), None, "{said}");
        }
        assert_eq!(read(&[Output::Bytes], "1024"), None, "no time was told");
    }
}
