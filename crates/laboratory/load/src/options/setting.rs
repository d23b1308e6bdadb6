//! One setting: how it is typed, what holds without it, and how it is told.

use super::settings::Options;
use super::value::Read;
use crate::plan::Plan;

/// A setting: a flag of `lariat-lab load`, and the key of a plan file with the same name.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Without dashes.
    pub name: &'static str,
    /// Where it is told.
    pub group: Group,
    /// How it is typed.
    pub shape: Shape,
    /// What holds if nobody types it.
    pub otherwise: Otherwise,
    /// Whether it says something about TLS, so that `http://` has no place for it.
    pub of_tls: bool,
    /// One or more sentences; the first is the short help.
    pub help: &'static str,
    /// A value, as a flag would take it; empty for a switch.
    pub example: &'static str,
    /// Puts a text into the options; for a list, one of its texts.
    pub(crate) read: fn(&mut Options, &str) -> Read<()>,
}

/// How a setting is typed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shape {
    /// A flag alone, or `true` and `false` in a file.
    Switch,
    /// One value of this kind.
    One(&'static str),
    /// Values with commas between them, or a list in a file.
    Commas(&'static str),
    /// A flag that may be given again, or a list in a file.
    Repeated(&'static str),
}

/// What holds if nobody types a setting.
#[derive(Clone, Copy, Debug)]
pub enum Otherwise {
    /// Nothing; the words say what that means. Empty: there is nothing to say.
    Absent(&'static str),
    /// This, as it would be typed.
    Text(&'static str),
    /// It follows from the rest: the rule in words, and what came of it in a plan.
    Derived(&'static str, fn(&Plan) -> Option<String>),
}

/// What settings are about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Group {
    /// Whom to load.
    Target,
    /// What a client does.
    Client,
    /// What it asks for.
    Request,
    /// How it speaks TLS.
    Tls,
    /// How load arrives.
    Arrival,
    /// The search for capacity.
    Capacity,
    /// How the program runs, and what it writes.
    Run,
}

impl Group {
    /// All of them, in the order of the reference.
    pub const ALL: [Self; 7] = [
        Self::Target,
        Self::Client,
        Self::Request,
        Self::Tls,
        Self::Arrival,
        Self::Capacity,
        Self::Run,
    ];

    /// The heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Target => "Whom to load",
            Self::Client => "What a client does",
            Self::Request => "What it asks for",
            Self::Tls => "How it speaks TLS",
            Self::Arrival => "How load arrives",
            Self::Capacity => "The search for capacity",
            Self::Run => "The run",
        }
    }
}

impl Setting {
    /// What stands for its value in the help; empty for a switch.
    #[must_use]
    pub fn value_name(&self) -> &'static str {
        match self.shape {
            Shape::Switch => "",
            Shape::One(word) | Shape::Commas(word) | Shape::Repeated(word) => word,
        }
    }

    /// Whether a plan file gives it a list.
    #[must_use]
    pub fn is_list(&self) -> bool {
        matches!(self.shape, Shape::Commas(_) | Shape::Repeated(_))
    }

    /// The help's first sentence, without its full stop.
    #[must_use]
    pub fn short_help(&self) -> &'static str {
        let first = self
            .help
            .split_once(". ")
            .map_or(self.help, |(first, _)| first);
        first.trim_end_matches('.')
    }
}

/// A setting with nothing but its name; the methods below say the rest.
pub(crate) const fn setting(
    name: &'static str,
    group: Group,
    shape: Shape,
    read: fn(&mut Options, &str) -> Read<()>,
) -> Setting {
    Setting {
        name,
        group,
        shape,
        otherwise: Otherwise::Absent(""),
        of_tls: matches!(group, Group::Tls),
        help: "",
        example: "",
        read,
    }
}

impl Setting {
    pub(crate) const fn absent(mut self, meaning: &'static str) -> Self {
        self.otherwise = Otherwise::Absent(meaning);
        self
    }

    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.otherwise = Otherwise::Text(text);
        self
    }

    pub(crate) const fn derived(
        mut self,
        rule: &'static str,
        of: fn(&Plan) -> Option<String>,
    ) -> Self {
        self.otherwise = Otherwise::Derived(rule, of);
        self
    }

    pub(crate) const fn of_tls(mut self) -> Self {
        self.of_tls = true;
        self
    }

    pub(crate) const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }

    pub(crate) const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }
}
