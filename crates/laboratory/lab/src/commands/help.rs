//! The texts of `lariat-lab help`.

use load::options::TABLE;

use super::flags::Command;
use super::{compare, host, origin, probe, report, run_arguments as run, survey, targets};
use crate::exit::Exit;

/// All commands but `load`: its flags are the table of its settings.
pub(super) const TABLES: [&Command; 10] = [
    &probe::COMMAND,
    &survey::COMMAND,
    &origin::COMMAND,
    &targets::COMMAND,
    &host::COMMAND,
    &run::COMMAND,
    &report::COMMAND,
    &compare::COMMAND,
    &COMPLETION,
    &MANUAL,
];

pub(super) const COMPLETION: Command = Command {
    name: "completion",
    takes_words: true,
    help: "\
lariat-lab completion: print the script by which a shell completes commands

  lariat-lab completion bash|zsh|fish

Packages bring them along. Without one, for the user who types this:

  lariat-lab completion bash > ~/.local/share/bash-completion/completions/lariat-lab
  lariat-lab completion zsh > ~/.zfunc/_lariat-lab             # a folder of zsh's $fpath
  lariat-lab completion fish > ~/.config/fish/completions/lariat-lab.fish
",
};

pub(super) const MANUAL: Command = Command {
    name: "manual",
    takes_words: false,
    help: "\
lariat-lab manual: print lariat-lab(1), as man reads it

  lariat-lab manual

For example: lariat-lab manual | man -l -
",
};

/// The width of the commands in the list of them.
const COMMAND_WIDTH: usize = 17;

const LOAD: &str = "\
lariat-lab load: load a TLS server, and count what succeeded and how long it took

  lariat-lab load URL [FLAGS]
  lariat-lab load --plan FILE.toml [URL] [FLAGS]

Prints a line per second and a summary, and writes a record of the run. A plan
file has a key for each flag; flags replace what it says.
A plan that contradicts itself is refused before the first packet.
docs/reference/load.md describes each flag.
";

const LOAD_EXAMPLES: &str = "
Examples:
  What can it do? 50 connections at once, full handshakes, for 10 seconds:
    lariat-lab load https://127.0.0.1:8443/1k

  500 transactions per second, of which three in four resume a TLS 1.2 session:
    lariat-lab load https://127.0.0.1:8443/1k --tls 1.2 --handshake session-id \\
        --requests-per-session 4 --rate 500 --duration 10s --record out.json

  Where does it break? Handshakes alone, ever more of them, with the post-quantum group:
    lariat-lab load https://127.0.0.1:8443/ --no-request --groups X25519MLKEM768 \\
        --ramp 50:3000:60s

  The greatest rate at which 99 % of requests on kept connections take under 20 ms:
    lariat-lab load https://127.0.0.1:8443/1k --requests-per-connection unlimited \\
        --find-capacity --limit 'p99<20ms,error-rate<0.01%'

Ctrl-C ends a load early; its record is written all the same.
";

/// The commands and the exit codes.
pub(super) fn program() -> String {
    let line =
        |command: &str, purpose: &str| format!("  lariat-lab {command:COMMAND_WIDTH$} {purpose}\n");
    let commands = TABLES.map(|command| line(command.name, command.purpose()));
    format!(
        "lariat-lab: load TLS servers, probe them, measure them, and compare them\n\n{}{}{}{}\n{}\nExit codes:\n{}",
        line("load", "load a server: rates, latency, errors, resumption"),
        commands.concat(),
        line("help COMMAND", "more about one of these"),
        line("version", "the version"),
        "Begin with: lariat-lab load https://127.0.0.1:8443/\n",
        exit_codes()
    )
}

/// What each exit code means, a line each.
pub(super) fn exit_codes() -> String {
    let codes = Exit::ALL.map(|(exit, help)| format!("  {}  {help}\n", exit as u8));
    codes.concat()
}

/// More about a command, if there is one of that name.
pub(super) fn command(name: &str) -> Option<String> {
    if name == "load" {
        return Some(load());
    }
    let found = TABLES.iter().find(|command| command.name == name);
    found.map(|command| command.help.to_owned())
}

/// All flags of a load, by what they are about.
pub(super) fn load() -> String {
    let flags = TABLE.flags().replacen("  --url URL\n", "  URL\n", 1);
    let plan = "  --plan FILE.toml\n      A file with a key for each flag\n";
    format!("{LOAD}{flags}{plan}{LOAD_EXAMPLES}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_load_is_told() {
        let text = load();
        for key in TABLE.keys.iter().filter(|key| key.path != "url") {
            let flag = format!("\n  --{}", key.path);
            assert!(text.contains(&flag), "{flag}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }
}
