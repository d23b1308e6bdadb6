//! `lariat manual` and `lariat completion`: what is made of the helps of all commands.

use options::completion::Shell;
use options::manual::{Command, Program};

use super::help;
use crate::args::{Page, Topic};
use crate::console::print;
use crate::exit::Exit;

const PURPOSE: &str = "terminates TLS in front of any TCP service";
const VERSION: &str = env!("CARGO_PKG_VERSION");

const FILES: &str = "\
  /etc/lariat/lariat.toml
      The configuration of the service that a package installs
  /run/lariat/status.sock
      Where the lariat that root runs answers `lariat status`
";

/// Prints the script for a shell.
pub(super) fn completion(shell: Shell) -> Exit {
    with_program(|program| print(program.completion(shell)));
    Exit::Success
}

pub(super) fn page(page: Page) -> Exit {
    match page {
        Page::Commands => with_program(|program| print(program.manual_page())),
        Page::Configuration => {
            let purpose = "configuration of lariat";
            print(config::TABLE.manual_page("lariat.toml", purpose, "lariat", VERSION));
        }
    }
    Exit::Success
}

fn with_program(act: impl FnOnce(&Program<'_>)) {
    let texts = Topic::NAMES.map(|(_, topic)| help::text(topic));
    let table = Some(&config::TABLE);
    let commands = texts
        .iter()
        .map(|text| Command::read("lariat", text, table));
    let mut commands: Vec<_> = commands.collect();
    let mut explain = Command::read("lariat", EXPLAIN, None);
    let names = Topic::NAMES.iter().map(|(name, _)| *name);
    explain.words = names
        .chain(config::TABLE.keys.iter().map(|key| key.path))
        .collect();
    commands.push(explain);
    commands.push(Command::read(
        "lariat",
        "lariat version: print the version\n",
        None,
    ));
    act(&Program {
        name: "lariat",
        version: VERSION,
        purpose: PURPOSE,
        commands,
        sections: &[
            ("Exit status", &help::exit_codes()),
            ("Files", FILES),
            ("See also", "lariat.toml(5), lariat-lab(1)\n"),
        ],
    });
}

const EXPLAIN: &str = "\
lariat help: explain a command, a key of the file, or a flag

  lariat help COMMAND
  lariat help KEY
  lariat help --FLAG
";
