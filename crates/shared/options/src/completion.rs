//! Scripts by which shells complete the commands, flags and values of a program.

use std::fmt::Write as _;

use crate::manual::{Flag, Holds, Program};

/// A shell that completes commands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Shell {
    /// All of them, by their names.
    pub const ALL: [(&'static str, Self); 3] = [
        ("bash", Self::Bash),
        ("zsh", Self::Zsh),
        ("fish", Self::Fish),
    ];

    /// The shell of that name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(known, _)| *known == name)
            .map(|(_, shell)| shell)
    }
}

impl Program<'_> {
    /// The script for a shell.
    pub fn completion(&self, shell: Shell) -> String {
        match shell {
            Shell::Bash => self.bash_completion(),
            Shell::Zsh => self.zsh_completion(),
            Shell::Fish => self.fish_completion(),
        }
    }

    /// For bash. It needs nothing of the package bash-completion.
    fn bash_completion(&self) -> String {
        let function = self.function();
        let commands = join(self.commands.iter().map(|command| command.name));
        let (mut values, mut words) = (String::new(), String::new());
        for command in &self.commands {
            for flag in &command.flags {
                values.push_str(&bash_value(command.name, flag, &function));
            }
            let flags = command.flags.iter().map(|flag| format!("--{}", flag.name));
            let all = join(
                command
                    .words
                    .iter()
                    .map(|&word| word.to_owned())
                    .chain(flags),
            );
            let paths = if command.takes_files {
                format!("; {function}_add_paths")
            } else {
                String::new()
            };
            _ = writeln!(
                words,
                "        {}) {function}_words '{all} --help'{paths} ;;",
                command.name
            );
        }
        format!(
            "# Completes `{name}` in bash.\n\
{function}_words() {{ mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$current\"); }}
{function}_paths() {{ COMPREPLY=(); {function}_add_paths; }}
{function}_add_paths() {{
    local path
    compopt -o filenames 2>/dev/null
    while IFS= read -r path; do COMPREPLY+=(\"$path\"); done < <(compgen -f -- \"$current\")
}}
{function}() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
    COMPREPLY=()
    if [ \"$COMP_CWORD\" -eq 1 ]; then
        {function}_words '{commands}'
        return
    fi
    # `--flag=value` is three words to bash.
    if [ \"$current\" = = ]; then
        current=
    elif [ \"$previous\" = = ]; then
        previous=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    case \"${{COMP_WORDS[1]}} $previous\" in
{values}    esac
    case \"${{COMP_WORDS[1]}}\" in
{words}    esac
}}
complete -F {function} {name}\n",
            name = self.name,
        )
    }

    /// For zsh, as a file of its function path.
    fn zsh_completion(&self) -> String {
        let (mut commands, mut cases) = (String::new(), String::new());
        for command in &self.commands {
            let row = format!("{}:{}", command.name, command.purpose);
            _ = writeln!(commands, "        {}", quoted(&row));
            _ = writeln!(
                cases,
                "        {})\n            _arguments \\",
                command.name
            );
            for flag in &command.flags {
                for spec in zsh_flag(flag) {
                    _ = writeln!(cases, "                {} \\", quoted(&spec));
                }
            }
            let rest = match (command.takes_files, command.words.is_empty()) {
                (true, true) => "*:file:_files".to_owned(),
                (false, true) => "*: :".to_owned(),
                (true, false) => format!(
                    "*: :{{_alternative \"words:word:({})\" \"files:file:_files\"}}",
                    join(command.words.iter().copied())
                ),
                (false, false) => format!("*: :({})", join(command.words.iter().copied())),
            };
            _ = writeln!(cases, "                {}\n            ;;", quoted(&rest));
        }
        format!(
            "#compdef {name}\n# Completes `{name}` in zsh.\n\
{function}() {{
    local -a commands=(\n{commands}    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in\n{cases}    esac
}}
{function} \"$@\"\n",
            name = self.name,
            function = self.function(),
        )
    }

    fn fish_completion(&self) -> String {
        let name = self.name;
        let mut script = format!("# Completes `{name}` in fish.\ncomplete -c {name} -f\n");
        for command in &self.commands {
            _ = writeln!(
                script,
                "complete -c {name} -n __fish_use_subcommand -a {} -d {}",
                command.name,
                fish_quoted(command.purpose)
            );
            let chosen = format!(
                "complete -c {name} -n '__fish_seen_subcommand_from {}'",
                command.name
            );
            let mut line = |rest: String| _ = writeln!(script, "{chosen} {rest}");
            if command.takes_files {
                line("-F".to_owned());
            }
            if !command.words.is_empty() {
                line(format!(
                    "-a {}",
                    fish_quoted(&join(command.words.iter().copied()))
                ));
            }
            command.flags.iter().for_each(|flag| line(fish_flag(flag)));
        }
        script
    }

    fn function(&self) -> String {
        format!("_{}", self.name.replace('-', "_"))
    }
}

/// The case of what follows a flag. Where that is unknown, nothing is better than something wrong.
fn bash_value(command: &str, flag: &Flag<'_>, function: &str) -> String {
    let Some(value) = &flag.value else {
        return String::new();
    };
    let action = match &value.holds {
        Holds::Words(words) => format!("{function}_words '{}'; return", join(words)),
        Holds::Path => format!("{function}_paths; return"),
        Holds::Text if value.is_optional => return String::new(),
        Holds::Text => "return".to_owned(),
    };
    let letter = flag.letter.map(|letter| format!("|'{command} -{letter}'"));
    let letter = letter.unwrap_or_default();
    format!("        '{command} --{}'{letter}) {action} ;;\n", flag.name)
}

fn zsh_flag(flag: &Flag<'_>) -> Vec<String> {
    let mut help = flag.help.replace('\\', "\\\\");
    for special in ['[', ']', ':'] {
        help = help.replace(special, &format!("\\{special}"));
    }
    let value = flag.value.as_ref().map_or(String::new(), |value| {
        let action = match &value.holds {
            Holds::Words(words) => format!("({})", join(words.iter().copied())),
            Holds::Path => "_files".to_owned(),
            Holds::Text => " ".to_owned(),
        };
        let colon = if value.is_optional { "::" } else { ":" };
        format!("{colon}{}:{action}", value.name.replace(':', "\\:"))
    });
    let equals = if flag.value.is_some() { "=" } else { "" };
    let long = format!("*--{}{equals}[{help}]{value}", flag.name);
    let short = flag
        .letter
        .map(|letter| format!("*-{letter}[{help}]{value}"));
    [long].into_iter().chain(short).collect()
}

fn fish_flag(flag: &Flag<'_>) -> String {
    let mut line = format!("-l {}", flag.name);
    if let Some(letter) = flag.letter {
        _ = write!(line, " -s {letter}");
    }
    match flag
        .value
        .as_ref()
        .map(|value| (&value.holds, value.is_optional))
    {
        None => {}
        Some((Holds::Words(words), is_optional)) => {
            line.push_str(if is_optional { " -a " } else { " -xa " });
            line.push_str(&fish_quoted(&join(words.iter().copied())));
        }
        Some((Holds::Path, _)) => line.push_str(" -rF"),
        Some((Holds::Text, false)) => line.push_str(" -x"),
        Some((Holds::Text, true)) => {}
    }
    if !flag.help.is_empty() {
        _ = write!(line, " -d {}", fish_quoted(&flag.help));
    }
    line
}

fn join<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> String {
    let mut line = String::new();
    for word in words {
        let gap = if line.is_empty() { "" } else { " " };
        _ = write!(line, "{gap}{}", word.as_ref());
    }
    line
}

/// One word to bash and zsh.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// One word to fish, where a backslash escapes between single quotes too.
fn fish_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

#[cfg(test)]
mod tests {
    use crate::manual::tests::program;

    // That the shells complete by these scripts is a test of the programs.
    #[test]
    fn words_that_mean_something_to_a_shell_are_quoted() {
        let program = program();
        let zsh = program.zsh_completion();
        assert!(
            zsh.contains(r"'help:it'\''s [more] about: all $(of) these'"),
            "{zsh}"
        );
        let fish = program.fish_completion();
        assert!(
            fish.contains(r"-a help -d 'it\'s [more] about: all $(of) these'"),
            "{fish}"
        );
    }
}
