//! Writes the program's messages about itself, as opposed to lines about connections: a text with
//! time and severity, in the forms that people and log collectors read.
//!
//! Handles the forms. No clock is read and nothing is sent.

use wire::date::put_time;
use wire::text;

use crate::form;
use crate::form::{Facility, Origin, put_json_string};

pub use crate::outcome::LogLevel;

/// A message. Lines of the text that begin with `hint: ` name the remedy; a line that begins with
/// `error: ` or `warning: `, as in a rendered diagnostic, has that level, and so have the lines
/// that follow it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Time, in microseconds since the epoch.
    pub time_us: u64,
    pub level: LogLevel,
    /// One or more lines. Control characters are escaped.
    pub text: &'a str,
}

impl Message<'_> {
    /// Returns the form for a person: names the level only of a warning or an error.
    pub fn plain(&self) -> String {
        let label = match self.level {
            LogLevel::Error | LogLevel::Warning => format!("{}: ", self.level.name()),
            LogLevel::Notice | LogLevel::Info => String::new(),
        };
        format!("lariat: {label}{}\n", text::lines(self.text.trim_end()))
    }

    /// Returns each line after its time and level.
    pub fn text(&self) -> String {
        let mut time = Vec::new();
        put_time(&mut time, self.time_us);
        let time = String::from_utf8_lossy(&time);
        let written = |(level, line): (LogLevel, String)| {
            format!("{time} lariat: {}: {line}\n", level.name())
        };
        self.levelled_lines().map(written).collect()
    }

    /// Returns each line after its priority, as journald reads standard error (sd-daemon(3));
    /// journald adds the time.
    pub fn priority(&self) -> String {
        let written = |(level, line): (LogLevel, String)| format!("<{}>{line}\n", level.severity());
        self.levelled_lines().map(written).collect()
    }

    /// Returns one JSON object, with remedies apart, and one for each diagnostic after the first.
    pub fn json(&self) -> String {
        let mut starts = vec![0];
        let (mut at, mut diagnostics) = (0, 0);
        for line in self.text.split_inclusive('\n') {
            diagnostics += usize::from(LogLevel::split(line).is_some());
            if diagnostics > starts.len() {
                starts.push(at);
            }
            at += line.len();
        }
        let ends = starts.iter().skip(1).copied().chain([at]);
        let parts = starts.iter().zip(ends);
        let parts = parts.filter_map(|(start, end)| self.text.get(*start..end));
        let object = |(number, part): (usize, &str)| {
            let (level, text) = match LogLevel::split(part) {
                Some(labelled) if number > 0 => labelled,
                _ => (self.level, part),
            };
            Message { level, text, ..*self }.object()
        };
        parts.enumerate().map(object).collect()
    }

    fn object(&self) -> String {
        let mut out = br#"{"time":""#.to_vec();
        put_time(&mut out, self.time_us);
        out.extend_from_slice(
            format!("\",\"level\":\"{}\",\"message\":", self.level.name()).as_bytes(),
        );
        let (message, hint) = self.parts();
        put_json_string(&mut out, &message);
        out.extend_from_slice(b",\"hint\":");
        match hint {
            Some(hint) => put_json_string(&mut out, &hint),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b"}\n");
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Returns entries for syslog, one for each line.
    pub fn syslog(&self, facility: Facility, origin: &Origin) -> Vec<Vec<u8>> {
        let entry = |(level, line): (LogLevel, String)| {
            form::syslog_message((facility, level), self.time_us, origin, &line)
        };
        self.levelled_lines().map(entry).collect()
    }

    pub fn journal(&self) -> Vec<u8> {
        let shown: Vec<_> = self.lines().collect();
        let hint = self.parts().1.map(|hint| text::lines(&hint).to_string());
        form::journal_message(self.level, &shown.join("\n"), hint.as_deref())
    }

    pub fn parts(&self) -> (String, Option<String>) {
        let (mut said, mut hints) = (Vec::new(), Vec::new());
        for line in self.text.lines() {
            match line.trim_start().strip_prefix("hint: ") {
                Some(hint) if hints.contains(&hint) => {}
                Some(hint) => hints.push(hint),
                None => said.push(line),
            }
        }
        (said.join("\n"), Some(hints.join("\n")).filter(|_| !hints.is_empty()))
    }

    /// Returns each line with its level, for forms that write the level before each.
    fn levelled_lines(&self) -> impl Iterator<Item = (LogLevel, String)> {
        let mut level = self.level;
        self.lines().map(move |line| match LogLevel::split(&line) {
            Some((named, rest)) => {
                level = named;
                (level, rest.to_owned())
            }
            None => (level, line),
        })
    }

    /// Returns the lines that are not empty, escaped.
    fn lines(&self) -> impl Iterator<Item = String> {
        let lines = self.text.lines().filter(|line| !line.trim().is_empty());
        lines.map(|line| {
            let hint = line.trim_start().starts_with("hint: ");
            text::line(if hint { line.trim_start() } else { line }).to_string()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_what_its_reader_needs() {
        let message = |level, text| Message { time_us: 1_709_164_800_000_042, level, text };
        let one = message(LogLevel::Warning, "service `a` is \"b\"\u{1b}\n   hint: look\n");
        assert_eq!(one.plain(), "lariat: warning: service `a` is \"b\"\\u001b\n   hint: look\n");
        assert_eq!(
            one.text(),
            "2024-02-29T00:00:00.000042Z lariat: warning: service `a` is \"b\"\\u001b\n\
             2024-02-29T00:00:00.000042Z lariat: warning: hint: look\n"
        );
        assert_eq!(one.priority(), "<4>service `a` is \"b\"\\u001b\n<4>hint: look\n");
        assert_eq!(
            one.json(),
            "{\"time\":\"2024-02-29T00:00:00.000042Z\",\"level\":\"warning\",\
             \"message\":\"service `a` is \\\"b\\\"\\u001b\",\"hint\":\"look\"}\n"
        );
        let refused = message(LogLevel::Error, "refused:\nerror: a\n --> b\nwarning: c\nhint: d");
        assert_eq!(refused.priority(), "<3>refused:\n<3>a\n<3> --> b\n<4>c\n<4>hint: d\n");
        let refused =
            message(LogLevel::Error, "refused:\nerror: a\n --> b\nhint: c\nwarning: d\nhint: c");
        let objects = refused.json();
        let objects: Vec<_> = objects.lines().map(|one| one.split_once(",\"level\"")).collect();
        assert_eq!(
            objects.iter().map(|one| one.unwrap().1).collect::<Vec<_>>(),
            [
                r#":"error","message":"refused:\u000aerror: a\u000a --> b","hint":"c"}"#,
                r#":"warning","message":"d","hint":"c"}"#,
            ]
        );
        let two = message(LogLevel::Notice, "a\nb");
        assert_eq!(two.plain(), "lariat: a\nb\n");
        assert_eq!(
            two.json(),
            "{\"time\":\"2024-02-29T00:00:00.000042Z\",\"level\":\"notice\",\
             \"message\":\"a\\u000ab\",\"hint\":null}\n"
        );
    }

    #[test]
    fn daemons_of_logs_get_the_whole_of_a_message_and_nothing_forged() {
        let one = Message {
            time_us: 1_709_164_800_000_042,
            level: LogLevel::Warning,
            text: "a\u{1b}\r]\"\n<0>1 - - - - - forged\n  hint: look",
        };
        let (facility, origin) = (Facility::named("daemon").unwrap(), Origin::new("h", 7));
        let start = "<28>1 2024-02-29T00:00:00.000042Z h lariat 7 message - ";
        let lines = [r#"a\u001b\u000d]""#, "<0>1 - - - - - forged", "hint: look"];
        let entries = one.syslog(facility, &origin);
        let expected = lines.map(|line| format!("{start}{line}").into_bytes());
        assert_eq!(entries, expected);
        let text = lines.join("\n");
        let length = String::from_utf8((text.len() as u64).to_le_bytes().to_vec()).unwrap();
        let expected = format!(
            "PRIORITY=4\nSYSLOG_IDENTIFIER=lariat\nMESSAGE\n{length}{text}\nLARIAT_HINT=look\n"
        );
        assert_eq!(one.journal(), expected.as_bytes());
    }
}
