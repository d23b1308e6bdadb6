//! Prints messages for people to the standard error; the standard output is for data.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use options::Complaint;
use options::diagnostic::{File, Paint};
use wire::text::lines;

use crate::fault::{Exit, LabFault, LabResult};

/// Columns of a line of text.
pub(crate) const WIDTH: usize = 80;

/// Prints messages, with colours if they are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    paint: Paint,
}

impl Console {
    /// Uses colours on a terminal, unless `NO_COLOR` is set (<https://no-color.org>).
    pub(crate) fn to_stderr() -> Self {
        let colour = io::stderr().is_terminal() && colours_wanted();
        Self { paint: Paint { colour } }
    }

    pub(crate) fn colour(self) -> bool {
        self.paint.colour
    }

    /// Prints an error. Lines that begin with `hint: ` name the remedy.
    pub(crate) fn error(self, text: impl Display) {
        self.labelled(&self.paint.red("error"), &text.to_string());
    }

    /// Prints an error and its remedy.
    pub(crate) fn fail(self, text: impl Display, hint: impl Display) {
        self.error(text);
        self.hint(hint);
    }

    /// Prints a warning.
    pub(crate) fn warn(self, text: impl Display) {
        self.labelled(&self.paint.yellow("warning"), &text.to_string());
    }

    /// Prints a warning and its remedy.
    pub(crate) fn advise(self, text: impl Display, hint: impl Display) {
        self.warn(text);
        self.hint(hint);
    }

    /// Prints the remedy for the message before.
    pub(crate) fn hint(self, text: impl Display) {
        self.labelled(&self.paint.cyan("hint"), &text.to_string());
    }

    /// Prints complaints about a file, each with its place and remedy, separated by empty lines.
    pub(crate) fn tell(self, complaints: Vec<Complaint>, file: Option<File<'_>>) {
        let rendered = complaints.into_iter().map(|one| one.at(file).render(self.paint.colour));
        self.say(rendered.collect::<Vec<_>>().join("\n\n"));
    }

    /// Prints a line as it is. Ignores a closed standard error.
    pub(crate) fn say(self, text: impl Display) {
        let _ = writeln!(io::stderr(), "{text}");
    }

    fn labelled(self, label: &str, text: &str) {
        if !text.is_empty() {
            self.say(self.message(label, text));
        }
    }

    fn message(self, label: &str, text: &str) -> String {
        // The text may repeat a stranger's words: a name in a certificate, a line of a file.
        let text = lines(text).to_string();
        let labelled = |(index, line): (usize, &str)| match line.strip_prefix("hint: ") {
            Some(hint) => format!("{}: {hint}", self.paint.cyan("hint")),
            None if index == 0 => format!("{label}: {line}"),
            None => line.to_owned(),
        };
        let all: Vec<_> = text.lines().enumerate().map(labelled).collect();
        all.join("\n")
    }
}

fn colours_wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    !set("NO_COLOR") && !dumb
}

/// Reports whether data on the standard output may have colours.
pub(crate) fn stdout_colour() -> bool {
    io::stdout().is_terminal() && colours_wanted()
}

/// Writes data to the standard output. Ignores a closed one; a full disk is an error.
pub(crate) fn print(text: impl Display) -> LabResult<Exit> {
    let mut output = io::stdout();
    match write!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(LabFault::failed(
            format_args!("cannot write to the standard output: {error}"),
            "look where it goes: a full disk, or a closed descriptor",
        )),
        _ => Ok(Exit::Success),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_hold_nothing_that_a_terminal_obeys() {
        let paint = Paint { colour: false };
        let console = Console { paint };
        let text = "evil\u{1b}]0;x\u{7}\u{9b}2J\nmore\nhint: exe\u{202e}gnp";
        let shown = "error: evil\\u001b]0;x\\u0007\\u009b2J\nmore\nhint: exe\\u202egnp";
        assert_eq!(console.message("error", text), shown);
    }
}
