//! What the program says of itself, beside the lines about connections: a text with its time and
//! how grave it is, in the forms that people and collectors of logs read.
//!
//! Owns the forms. No clock is read and nothing is sent.

use wire::date::put_time;
use wire::text;

use crate::line::put_json_string;

/// How grave something is, by the names and numbers of syslog (RFC 5424, 6.2.1).
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// Something is broken, and clients notice.
    Error = 3,
    /// Somebody should look.
    Warning = 4,
    /// What an operator has done, or a change for the better.
    Notice = 5,
    /// What happens all the time.
    Info = 6,
}

impl Level {
    const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Notice, Self::Info];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
            Self::Info => "info",
        }
    }

    /// Its number in syslog.
    pub fn severity(self) -> u8 {
        self as u8
    }

    /// The level of this number; of an unknown one, a warning.
    pub fn of_severity(severity: u8) -> Self {
        let found = Self::ALL.into_iter().find(|one| one.severity() == severity);
        found.unwrap_or(Self::Warning)
    }

    /// The level that a text names in its first words, `error: ` or `warning: `, and the rest.
    pub fn split(text: &str) -> Option<(Self, &str)> {
        [Self::Error, Self::Warning].into_iter().find_map(|level| {
            let rest = text.strip_prefix(level.name())?.strip_prefix(": ")?;
            Some((level, rest))
        })
    }
}

/// Something that is said. Lines of the text that begin with `hint: ` name the remedy.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// When, in microseconds since the epoch.
    pub time_us: u64,
    /// How grave it is.
    pub level: Level,
    /// One or more lines. Control characters in it are escaped.
    pub text: &'a str,
}

impl Message<'_> {
    /// For a person: the level is named if it is a warning or an error.
    pub fn plain(&self) -> String {
        let label = match self.level {
            Level::Error | Level::Warning => format!("{}: ", self.level.name()),
            Level::Notice | Level::Info => String::new(),
        };
        format!("lariat: {label}{}\n", text::lines(self.text.trim_end()))
    }

    /// Each line with time and level before it.
    pub fn text(&self) -> String {
        let mut time = Vec::new();
        put_time(&mut time, self.time_us);
        let (time, level) = (String::from_utf8_lossy(&time), self.level.name());
        self.each_line(&format!("{time} lariat: {level}: "))
    }

    /// Each line with its priority before it, as journald reads standard errors (sd-daemon(3)); it
    /// adds the time.
    pub fn priority(&self) -> String {
        self.each_line(&format!("<{}>", self.level.severity()))
    }

    /// One JSON object, with the remedies apart.
    pub fn json(&self) -> String {
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

    /// What is said, and the remedies.
    pub fn parts(&self) -> (String, Option<String>) {
        let (mut said, mut hints) = (Vec::new(), Vec::new());
        for line in self.text.lines() {
            match line.trim_start().strip_prefix("hint: ") {
                Some(hint) => hints.push(hint),
                None => said.push(line),
            }
        }
        (
            said.join("\n"),
            Some(hints.join("\n")).filter(|_| !hints.is_empty()),
        )
    }

    fn each_line(&self, before: &str) -> String {
        let lines = self.text.lines().filter(|line| !line.trim().is_empty());
        let shown = lines.map(|line| {
            let hint = line.trim_start().starts_with("hint: ");
            text::line(if hint { line.trim_start() } else { line })
        });
        shown.map(|line| format!("{before}{line}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_what_its_reader_needs() {
        let message = |level, text| Message {
            time_us: 1_709_164_800_000_042,
            level,
            text,
        };
        let one = message(
            Level::Warning,
            "service `a` is \"b\"\u{1b}\n   hint: look\n",
        );
        assert_eq!(
            one.plain(),
            "lariat: warning: service `a` is \"b\"\\u001b\n   hint: look\n"
        );
        assert_eq!(
            one.text(),
            "2024-02-29T00:00:00.000042Z lariat: warning: service `a` is \"b\"\\u001b\n\
             2024-02-29T00:00:00.000042Z lariat: warning: hint: look\n"
        );
        assert_eq!(
            one.priority(),
            "<4>service `a` is \"b\"\\u001b\n<4>hint: look\n"
        );
        assert_eq!(
            one.json(),
            "{\"time\":\"2024-02-29T00:00:00.000042Z\",\"level\":\"warning\",\
             \"message\":\"service `a` is \\\"b\\\"\\u001b\",\"hint\":\"look\"}\n"
        );
        let two = message(Level::Notice, "a\nb");
        assert_eq!(two.plain(), "lariat: a\nb\n");
        assert_eq!(
            two.json(),
            "{\"time\":\"2024-02-29T00:00:00.000042Z\",\"level\":\"notice\",\
             \"message\":\"a\\u000ab\",\"hint\":null}\n"
        );
    }

    #[test]
    fn levels_are_syslogs() {
        for (level, severity, name) in [
            (Level::Error, 3, "error"),
            (Level::Warning, 4, "warning"),
            (Level::Notice, 5, "notice"),
            (Level::Info, 6, "info"),
        ] {
            assert_eq!((level.severity(), level.name()), (severity, name));
            assert_eq!(Level::of_severity(severity), level);
        }
        assert_eq!(Level::of_severity(0), Level::Warning);
        assert_eq!(Level::split("error: a: b"), Some((Level::Error, "a: b")));
        assert_eq!(Level::split("notice: a"), None);
    }
}
