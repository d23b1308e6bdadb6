//! Command lines by clap: flags of a table, errors with hints, manual pages and shell completions.
//!
//! Knows no command of any program.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter, complete};
use clap_complete::env::{CompleteEnv, EnvCompleter, Fish, Shells, Zsh};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::key::{Default, Key, Kind, Table};

/// Most words a flag's help lists; longer lists are left to the reference.
const WORDS_MAX: usize = 6;

/// Type that stands for the table of a program.
pub trait FlagTable {
    const TABLE: &'static Table;
}

/// Typed flags of a table, in their order: names without dashes, and values.
#[derive(Clone, Debug)]
pub struct TableFlags<T> {
    pub typed: Vec<(&'static str, String)>,
    table: PhantomData<T>,
}

impl<T: FlagTable> Args for TableFlags<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::TABLE.arguments())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: FlagTable> FromArgMatches for TableFlags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut placed = Vec::new();
        for flag in T::TABLE.keys.iter().filter_map(|key| key.flag) {
            let places = matches.indices_of(flag).into_iter().flatten();
            let values = matches.get_many::<String>(flag).into_iter().flatten();
            placed.extend(places.zip(values).map(|(place, value)| (place, flag, value)));
        }
        placed.sort_unstable();
        let typed = placed.into_iter().map(|(_, flag, value)| (flag, value.clone()));
        Ok(Self { typed: typed.collect(), table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Table {
    fn arguments(&'static self) -> impl Iterator<Item = Arg> {
        let flagged = |key: &'static Key| Some(self.argument(key, key.flag?));
        self.keys.iter().filter_map(flagged)
    }

    fn argument(&self, key: &'static Key, flag: &'static str) -> Arg {
        let argument = Arg::new(flag)
            .long(flag)
            .help_heading(key.group)
            .action(ArgAction::Append)
            .value_name(self.value_name(key))
            .help(short_help(key))
            .long_help(self.long_help(key, flag));
        let argument = match (key.kind, key.alone) {
            // Only after `=`, because a word behind a switch is an argument of its own.
            (Kind::Switch, _) => argument
                .value_name("on|off")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            (_, Some(alone)) => argument.num_args(0..=1).default_missing_value(alone),
            (Kind::Text(_), None) => argument.allow_hyphen_values(true),
            (_, None) => argument.allow_negative_numbers(true),
        };
        match self.shorthand_key(key).unwrap_or(key).kind {
            Kind::Choice(words) => argument.add(proposals(move || words)),
            Kind::Boolean | Kind::Switch => argument.add(proposals(|| ["on", "off"])),
            Kind::Path | Kind::Networks => argument.value_hint(ValueHint::AnyPath),
            _ => argument.value_hint(ValueHint::Other),
        }
    }

    fn long_help(&self, key: &Key, flag: &str) -> String {
        let mut text = format!("{}{}", key.help, default(key));
        if key.path != flag {
            text += &format!(" [key: {}]", key.path);
        }
        text.replace('`', "")
    }

    /// Renders the manual page of section 5 for a file of these keys, as roff.
    pub fn manual_page(&self, file: &str, purpose: &str, program: &str, version: &str) -> String {
        let mut page = Roff::new();
        let (title, source) = (file.to_uppercase(), format!("{program} {version}"));
        page.control("TH", [&title, "5", NO_DATE, &source, program]);
        page.control("SH", ["NAME"]);
        page.text([roman(format!("{file} - {purpose}"))]);
        page.control("SH", ["DESCRIPTION"]);
        page.text([roman("The file is TOML. Dots divide a key from its tables.")]);
        page.control("SH", ["KEYS"]);
        for key in self.keys {
            page.control("SS", [key.path]);
            for line in self.entry_text(key).lines().skip(1) {
                // Each fact about the key gets a line of its own.
                if !line.starts_with("      ") {
                    page.control("br", []);
                }
                page.text([roman(line.trim())]);
            }
        }
        page.control("SH", ["SEE ALSO"]);
        page.text([bold(program), roman("(1)")]);
        page.render()
    }
}

/// Returns the first sentence of the help, the accepted words, and the default.
fn short_help(key: &Key) -> String {
    let words = match key.kind {
        Kind::Choice(words) if words.len() <= WORDS_MAX => format!(": {}", words.join(", ")),
        _ => String::new(),
    };
    format!("{}{words}{}", key.short_help(), default(key)).replace('`', "")
}

fn default(key: &Key) -> String {
    match key.default {
        Default::Absent("") | Default::Required => String::new(),
        Default::Absent(text) | Default::Text(text) => format!(" [default: {text}]"),
    }
}

/// Proposes words to a shell for an argument that accepts other values as well.
pub fn proposals<W, T>(words: W) -> ArgValueCandidates
where
    W: Fn() -> T + Send + Sync + 'static,
    T: IntoIterator<Item: Into<OsString>>,
{
    ArgValueCandidates::new(move || words().into_iter().map(CompletionCandidate::new).collect())
}

/// Proposes these words and file paths to a shell.
pub fn proposals_and_paths(words: fn() -> Vec<String>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_string_lossy();
        let fitting = words().into_iter().filter(|word| word.starts_with(&*typed));
        let paths = PathCompleter::any().complete(OsStr::new(&*typed));
        fitting.map(CompletionCandidate::new).chain(paths).collect()
    })
}

/// Returns the help or version text that was asked for as `Ok`; else the error, with lines that
/// begin with `hint: `. The table knows flags' former names and other places. `known` is the
/// program's own hint.
pub fn outcome(
    error: &clap::Error,
    table: Option<&Table>,
    known: Option<String>,
) -> Result<String, String> {
    let rendered = error.render().to_string();
    if !error.use_stderr() {
        return Ok(format!("{}\n", rendered.trim_end()));
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let usage = rendered.lines().find(|line| line.starts_with("Usage: ")).unwrap_or_default();
        return Err(format!("a command is missing\nhint: {usage}\nhint: '--help' lists them"));
    }
    let text = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let message = message.trim_end();
    if message.contains("\nhint: ") {
        return Err(message.to_owned());
    }
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let tips = rest.lines().filter_map(|line| match line.strip_prefix("  tip: ") {
        None if is_missing && line.starts_with("Usage: ") => Some(line),
        tip => tip,
    });
    // An unknown flag is hardly ever meant as a value.
    let is_of_value = |tip: &&str| tip.starts_with("to pass '-") && tip.contains("' as a value");
    let tips: Vec<_> = tips.filter(|tip| !is_of_value(tip)).collect();
    let is_alone = !tips.iter().any(|tip| tip.contains("similar"));
    let of_table = table.and_then(|table| remedy(error, table, is_alone));
    let remedy =
        known.or_else(|| below_zero(error)).or(of_table).unwrap_or_else(|| match tips.as_slice() {
            [] => "for more information, try '--help'".to_owned(),
            tips => tips.join("\nhint: "),
        });
    Err(format!("{message}\nhint: {remedy}"))
}

/// Returns the word that is neither an argument nor a command, if that is the error.
pub fn unknown_word(error: &clap::Error) -> Option<&str> {
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        _ => return None,
    };
    match error.get(kind)? {
        ContextValue::String(word) => Some(word),
        _ => None,
    }
}

/// Returns the help of a program, or of the named command; `None` if no such command exists.
pub fn help(command: &mut Command, name: Option<&str>) -> Option<String> {
    command.build();
    let explained = match name {
        None => command,
        Some(name) => command.find_subcommand_mut(name)?,
    };
    let help = explained.render_long_help().to_string();
    Some(format!("{}\n", help.trim_end()))
}

/// Returns the hint about a value like `-5/s`, of which clap read only the first digit, as a flag.
fn below_zero(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let is_it = argument.strip_prefix('-')?.starts_with(|first: char| first.is_ascii_digit());
    let hint = "a value below 0 is read as a flag, and no flag here takes one";
    (is_it && error.kind() == ErrorKind::UnknownArgument).then(|| hint.to_owned())
}

/// Returns the table's hint about one of its flags or an unknown one. The nearest of all flags is
/// the better guess, because the command has more flags than its table, unless another program has
/// the flag.
fn remedy(error: &clap::Error, table: &Table, is_alone: bool) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = argument.split([' ', '=', '[']).next()?.trim_start_matches('-');
    match error.kind() {
        ErrorKind::UnknownArgument if !argument.starts_with('-') => None,
        ErrorKind::UnknownArgument if is_alone || table.foreign(flag).is_some() => {
            table.unknown_flag(flag).hint
        }
        ErrorKind::InvalidValue => table.flag_example(table.find_flag(flag)?),
        _ => None,
    }
}

/// Roff's notation for a page without a date, because packages insert the date of the version.
const NO_DATE: &str = "\"\"";

/// Renders the manual page of section 1: the program, each of its commands, and sections of lines.
pub fn manual_page(mut command: Command, sections: &[(&str, &str)]) -> String {
    command.build();
    let mut page = Vec::new();
    let written = write_page(&mut page, &command, sections);
    written.expect("a vector takes everything");
    let page = String::from_utf8(page).expect("made of strings");
    // Every part redefines the apostrophe; roff ignores an empty line.
    let (preamble, _) = page.split_at(page.find(".TH").unwrap_or_default());
    let body = page.replace(preamble, "").replace(".br\n\n.br\n", ".br\n");
    format!("{preamble}{}", body.replace("\n\n", "\n.PP\n"))
}

fn write_page(
    page: &mut dyn Write,
    command: &Command,
    sections: &[(&str, &str)],
) -> io::Result<()> {
    let man = |command: &Command| {
        let manual = Man::new(command.clone()).date(NO_DATE);
        manual.title(command.get_name().to_uppercase())
    };
    let program = man(command).manual(command.get_name());
    program.render_title(page)?;
    program.render_name_section(page)?;
    program.render_synopsis_section(page)?;
    let mut commands: Vec<_> = command.get_subcommands().collect();
    commands.sort_by_key(|one| one.get_display_order());
    for one in commands {
        let mut part = Vec::new();
        let man = man(one);
        man.render_synopsis_section(&mut part)?;
        man.render_description_section(&mut part)?;
        man.render_options_section(&mut part)?;
        if one.get_after_help().is_some() {
            man.render_extra_section(&mut part)?;
        }
        let part = String::from_utf8_lossy(&part).replace(".SH EXTRA", ".SH NOTES");
        let title = one.get_bin_name().unwrap_or_default();
        write!(page, ".SH \"{title}\"\n{}", part.replace(".SH ", ".SS "))?;
    }
    for (heading, lines) in sections {
        let mut section = Roff::new();
        section.control("SH", [*heading]);
        for line in lines.lines() {
            section.text([roman(line)]);
        }
        section.to_writer(page)?;
    }
    Ok(())
}

/// Environment variable by which a shell's script asks this program for proposals.
const VARIABLE: &str = "LARIAT_COMPLETE";

pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

const COMPLETERS: Shells<'static> = Shells(&[&Bash, &Zsh, &Fish]);

/// Returns the script by which a shell completes commands: the script asks the program itself.
pub fn script(shell: &str, program: &str) -> String {
    let mut script = Vec::new();
    if let Some(shell) = COMPLETERS.completer(shell) {
        let written = shell.write_registration(VARIABLE, program, program, program, &mut script);
        written.expect("a vector takes everything");
    }
    String::from_utf8_lossy(&script).into_owned()
}

/// Prints what a shell may propose, if a shell started this program with these arguments in this
/// folder.
pub fn answer_shell(
    command: fn() -> Command,
    arguments: impl IntoIterator<Item = OsString>,
    folder: Option<&Path>,
) -> bool {
    let asked = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .shells(COMPLETERS)
        .try_complete(arguments, folder);
    asked.unwrap_or(true)
}

/// Adapter for Bash, which splits `--flag=value` into three words (clap's takes them as arguments).
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        variable: &str,
        name: &str,
        program: &str,
        completer: &str,
        script: &mut dyn Write,
    ) -> io::Result<()> {
        let function = format!("_{}", name.replace('-', "_"));
        write!(
            script,
            "# Completes `{program}` in bash.
{function}() {{
    local word words=()
    for word in \"${{COMP_WORDS[@]:0:COMP_CWORD+1}}\"; do
        [ \"$word\" = = ] || words+=(\"$word\")
    done
    [ \"${{COMP_WORDS[COMP_CWORD]}}\" = = ] && words+=('')
    mapfile -t COMPREPLY < <({variable}=bash {completer} -- \"${{words[@]}}\" 2>/dev/null)
    # Names of files are quoted, and a folder is not the end of a word.
    [ -e \"${{COMPREPLY-}}\" ] && compopt -o filenames 2>/dev/null
    [[ ${{COMPREPLY-}} != */ ]] || compopt -o nospace 2>/dev/null
}}
complete -F {function} {program}
"
        )
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        lines: &mut dyn Write,
    ) -> io::Result<()> {
        let last = words.len().saturating_sub(1);
        for one in complete(command, words, last, folder)? {
            writeln!(lines, "{}", one.get_value().to_string_lossy())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> String {
        let one = Command::new("one").arg(Arg::new("name")).arg(Arg::new("time").long("time"));
        let group = Command::new("group").subcommand(Command::new("list"));
        let group = group.subcommand_required(true).arg_required_else_help(true);
        let program = Command::new("program").subcommand(one).subcommand(group);
        let error = program.try_get_matches_from(line.split_whitespace()).expect_err("a slip");
        outcome(&error, None, None).expect_err("no help")
    }

    #[test]
    fn an_unknown_flag_is_not_taken_for_a_value() {
        let unknown = refused("program one --flag");
        assert!(unknown.contains("'--flag'") && unknown.contains("try '--help'"), "{unknown}");
        let near = refused("program one --tme 5s");
        assert!(near.contains("'--time'"), "{near}");
        for told in [unknown, near] {
            assert!(!told.contains("as a value"), "{told}");
        }
        let below = refused("program one --time -1s");
        assert!(below.contains("a value below 0"), "{below}");
    }

    #[test]
    fn a_missing_command_is_said() {
        let told = refused("program group");
        assert!(told.starts_with("a command is missing\nhint: Usage: program group"), "{told}");
    }
}
