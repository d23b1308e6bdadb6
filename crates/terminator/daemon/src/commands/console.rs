//! The answer of a command: messages to a person on the standard error, data on the standard
//! output, and the exit code.
//!
//! Much of it was written by others: the worker process, clients, servers. So a control character
//! reaches the terminal only as an escape; the colours alone are ours.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use config::{Diagnostic, Severity};
use options::diagnostic::Paint;
use telemetry::printable::lines;

use crate::messages::write_line;

/// Diagnostics that are alike and are written in full. A screen holds about as many; ten thousand
/// services may have the same fault ten thousand times, and hide another one.
const ALIKE_SHOWN_MAX: usize = 8;

/// Says things, with colours if the reader likes them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    paint: Paint,
}

impl Console {
    /// Colours for a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
    pub(crate) fn to_stderr() -> Self {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        let colour = io::stderr().is_terminal() && !set("NO_COLOR") && !dumb;
        Self { paint: Paint { colour } }
    }

    pub(crate) fn colour(self) -> bool {
        self.paint.colour
    }

    /// Something went wrong. Lines that begin with `hint: ` name the remedy.
    pub(crate) fn error(self, text: impl Display) {
        self.labelled(&self.paint.red("error"), &text.to_string());
    }

    /// Something deserves a second look.
    pub(crate) fn warn(self, text: impl Display) {
        self.labelled(&self.paint.yellow("warning"), &text.to_string());
    }

    /// The remedy for what was said before.
    pub(crate) fn hint(self, text: impl Display) {
        self.labelled(&self.paint.cyan("hint"), &text.to_string());
    }

    /// The faults of a configuration, with an empty line after each; of many that are alike the
    /// first ones, and how many more there are.
    pub(crate) fn diagnostics(self, diagnostics: &[Diagnostic]) {
        let mut counts: BTreeMap<HeaderGuess<'_>, usize> = BTreeMap::new();
        for diagnostic in diagnostics {
            let Diagnostic { severity, subject, hint, .. } = diagnostic;
            let likeness = (*severity, subject.as_deref(), hint.as_deref());
            let count = counts.entry(likeness).or_default();
            *count += 1;
            if *count <= ALIKE_SHOWN_MAX {
                write_line(format_args!("{}\n", diagnostic.render(self.paint.colour)));
            }
        }
        for ((severity, subject, _), count) in counts {
            let more = count.saturating_sub(ALIKE_SHOWN_MAX);
            if more > 0 {
                let text = format!("{}: and {more} more like these", subject.unwrap_or("file"));
                let remedy = "`lariat check --json` shows all of them";
                self.labelled(severity.word(), &format!("{text}\nhint: {remedy}\n"));
            }
        }
    }

    /// The reason why the running lariat refused. Diagnostics bring their severity along; what the
    /// host or the worker process said has none.
    pub(crate) fn refusal(self, why: &str) {
        if has_severity(why) {
            self.say(why);
        } else {
            self.error(why);
        }
    }

    pub(crate) fn say(self, text: impl Display) {
        write_line(lines(&text.to_string()));
    }

    fn labelled(self, label: &str, text: &str) {
        for (index, line) in lines(text).to_string().lines().enumerate() {
            match line.strip_prefix("hint: ") {
                Some(hint) => write_line(format_args!("{}: {hint}", self.paint.cyan("hint"))),
                None if index == 0 => write_line(format_args!("{label}: {line}")),
                None => write_line(line),
            }
        }
    }
}

/// Diagnostics with the same of these are alike: messages name the file or the service that they
/// are about.
type HeaderGuess<'a> = (Severity, Option<&'a str>, Option<&'a str>);

fn has_severity(text: &str) -> bool {
    ["error: ", "warning: "].iter().any(|severity| text.starts_with(severity))
}

/// Some of the data could not be written to the standard output.
static IS_OUTPUT_CUT: AtomicBool = AtomicBool::new(false);

/// Writes data to the standard output. A reader who has closed it wants no more, which is no
/// failure; a full disk is one.
pub(crate) fn print(text: impl Display) {
    let mut output = io::stdout();
    let written = write!(output, "{}", lines(&text.to_string())).and_then(|()| output.flush());
    let Err(error) = written.as_ref().map_err(io::Error::kind) else {
        return;
    };
    if error != io::ErrorKind::BrokenPipe && !IS_OUTPUT_CUT.swap(true, Ordering::Relaxed) {
        let console = Console::to_stderr();
        console.error(format_args!("cannot write to the standard output: {error}"));
        console.hint("look where it goes: a full disk, or a closed descriptor");
    }
}

/// The exit of a command, which has failed if its data is not whole.
pub(super) fn unless_cut(exit: Exit) -> Exit {
    if IS_OUTPUT_CUT.load(Ordering::Relaxed) { Exit::Failed } else { exit }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Exit {
    /// It did what it was asked.
    Success = 0,
    /// Something failed at run time.
    Failed = 1,
    /// The arguments or the configuration are wrong.
    Usage = 2,
    /// An address cannot be listened at.
    Listen = 3,
    /// Nobody listens at the status socket.
    NotRunning = 4,
    /// The running lariat refused: it goes on with what it had.
    Refused = 5,
    /// It did what it was asked, and has warnings to look at.
    Warned = 6,
}

impl Exit {
    /// All of them, for help and reference.
    pub(crate) const ALL: [Self; 7] = [
        Self::Success,
        Self::Failed,
        Self::Usage,
        Self::Listen,
        Self::NotRunning,
        Self::Refused,
        Self::Warned,
    ];

    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Success => "It did what it was asked.",
            Self::Failed => "Something failed at run time.",
            Self::Usage => "The arguments or the configuration are wrong; nothing was started.",
            Self::Listen => "An address cannot be listened at: taken, not ours, or not allowed.",
            Self::NotRunning => "No lariat runs: nobody listens at the status socket.",
            Self::Refused => {
                "The running lariat refused: a new configuration, or an upgrade; or it drains."
            }
            Self::Warned => {
                "It did what it was asked, with warnings (`lariat reload --strict`, `lariat import`)."
            }
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_error_once() {
        assert!(has_severity("error: log.output: is wrong"));
        assert!(has_severity("warning: service.front: is old\nerror: is wrong"));
        assert!(!has_severity("service `main`: holds no certificate"));
    }

    #[test]
    fn the_reference_tells_every_code() {
        let page = include_str!("../../../../../docs/reference/exit-codes.md");
        for exit in Exit::ALL {
            let row = format!("| {} | {} |", exit as u8, exit.help());
            assert!(page.contains(&row), "{row}");
        }
    }
}
