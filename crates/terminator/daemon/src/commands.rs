//! The commands of the program: `args` reads the command line. The texts made of that and of the
//! table of keys, which are help and manual, are here, as are the records of encrypted hellos.
//!
//! `serve`, `hitch` and `demo` run a supervisor in this process; `check` looks at a configuration.
//! `operate` has the commands about the lariat that runs, which `control` asks and signals. Each
//! returns how the program ends; what it says goes through `console`, its data to the standard
//! output.

pub(crate) mod args;
mod check;
pub(crate) mod console;
mod control;
mod demo;
mod hitch;
mod operate;
mod predecessors;
mod serve;

use std::process::ExitCode;

use base64ct::{Base64, Encoding};
use config::{Diagnostic, Disk};
use options::command_line::{help, manual_page};
use proxy::options::{EchOptions, Options};
use serde_json::json;
use tls::ech::EchKeys;
use wire::date::civil_from_days;
use wire::ech::config_list;

use crate::named_servers::ChangeWord;
use crate::reader::ConfigSource;
use crate::status_parts::CertificateChange;
use crate::{messages, supervisor};

use args::{CertificateAction, ConfigArguments, EchAction, TerminatorCommand as Command};
use console::{Console, Exit, print};
use control::ControlError;
use demo::DemoOptions;

/// Says to a running lariat whether this program would serve in its place.
pub(crate) fn check_upgrade(config: &ConfigSource) -> ExitCode {
    let ended = supervisor::answer_check(|| check::errors(config));
    messages::end_of_helper("lariat: check", ended)
}

/// How the program ends; or what is wrong with its arguments, with lines that begin with `hint: `.
pub(crate) fn run(command: Command, console: Console) -> Result<ExitCode, String> {
    let told = |text: String| {
        print(text);
        Exit::Success
    };
    let ordered = |ended: Result<Exit, ControlError>| -> Exit {
        ended.unwrap_or_else(|error| error.tell(console))
    };
    let exit = match command {
        Command::Text(text) => told(text),
        Command::Help { name } => told(help_text(name.as_deref())?),
        Command::Completion { shell } => told(options::command_line::script(&shell, "lariat")),
        Command::Manual { page } => told(manual(&page)),
        Command::Version => {
            let fips = if tls::policy::is_fips() { " (FIPS)" } else { "" };
            told(format!("lariat {}{fips}\n", env!("CARGO_PKG_VERSION")))
        }
        Command::Demo { listen, admin } => demo::run(DemoOptions { listen, admin }, console),
        Command::Serve(arguments) => serve::run(arguments.source_to_serve()?, console),
        Command::Hitch { words } => hitch::run(words, console),
        Command::Ech { action: EchAction::Show { config, json } } => {
            show_ech(config, json, console)?
        }
        Command::Check(options) => check::run(options, console)?,
        Command::Import { kind, files, output } => {
            predecessors::import(kind, &files, output.as_deref(), console)
        }
        Command::Status { socket, json } => ordered(operate::status(&socket.into(), json, console)),
        Command::Reload { socket, strict } => {
            ordered(operate::reload(&socket.into(), strict, console))
        }
        Command::Upgrade(socket) => ordered(operate::upgrade(&socket.into(), console)),
        Command::Drain(socket) => ordered(operate::drain(&socket.into(), console)),
        Command::Server { word, name, mut weight, close, mut socket } => {
            if word != ChangeWord::Weight {
                socket = socket.with_file(&mut weight);
            }
            match word.with(weight.as_deref(), close) {
                Ok(change) => {
                    ordered(operate::change_server(&socket.into(), change, &name, console))
                }
                Err(fault) => {
                    console.error(fault);
                    console.hint("for example: lariat server weight web/10.0.0.3:80 10");
                    Exit::Usage
                }
            }
        }
        Command::Certificate { action } => ordered(match action {
            CertificateAction::List { json, socket } => {
                operate::list_certificates(&socket.into(), json, console)
            }
            CertificateAction::Renew(named) => {
                operate::change_certificate(CertificateChange::Renew, named, console)
            }
            CertificateAction::Revoke(named) => {
                operate::change_certificate(CertificateChange::Revoke, named, console)
            }
        }),
        Command::Helper(run) => return Ok(run()),
    };
    Ok(console::unless_cut(exit).into())
}

const MANUAL_FILES: &str = "\
/etc/lariat/lariat.toml: the configuration of the service that a package installs.
/run/lariat/status.sock: where the lariat that root runs answers `lariat status`.
";

/// More about a command, a key, the end of its path, or a flag; about the program without a name.
fn help_text(name: Option<&str>) -> Result<String, String> {
    let mut command = args::command();
    if let Some(help) = help(&mut command, name) {
        return Ok(help);
    }
    let name = name.unwrap_or_default();
    let keys = config::TABLE.meant(name);
    if !keys.is_empty() {
        let entries = keys.iter().map(|key| config::TABLE.help_text(key));
        return Ok(entries.collect::<Vec<_>>().join("\n"));
    }
    let rows = config::TABLE.keys.iter();
    let known = rows.flat_map(|key| [Some(key.path), Some(key.name()), key.flag]);
    let commands = command.get_subcommands().map(clap::Command::get_name);
    let bare = name.trim_start_matches('-');
    let near = config::nearest(bare, commands.chain(known.flatten()));
    let hint = match (config::TABLE.foreign(bare), near) {
        (Some((foreign, key)), _) => {
            format!("`{bare}` of {} is `{}` here: `lariat help {1}`", foreign.of, key.path)
        }
        (None, Some(near)) => format!("did you mean `lariat help {near}`?"),
        (None, None) => "`lariat help` and `lariat help serve` list them".to_owned(),
    };
    let name = name.escape_debug();
    Err(format!("there is no command, key or flag `{name}`\nhint: {hint}"))
}

/// A page of the manual, as roff.
fn manual(name: &str) -> String {
    if name == "lariat.toml" {
        let (purpose, version) = ("configuration of lariat", env!("CARGO_PKG_VERSION"));
        return config::TABLE.manual_page(name, purpose, "lariat", version);
    }
    let sections = [
        ("EXIT STATUS", &*args::exit_codes()),
        ("FILES", MANUAL_FILES),
        ("SEE ALSO", "lariat.toml(5), lariat-lab(1)"),
    ];
    manual_page(args::command(), &sections)
}

/// How long resolvers may keep a record, in seconds: less than any rotation lasts.
const TTL_SECONDS: u32 = 1800;

fn show_ech(arguments: ConfigArguments, is_json: bool, console: Console) -> Result<Exit, String> {
    let told = |diagnostics: Vec<Diagnostic>| {
        console.diagnostics(&diagnostics);
        Ok(Exit::Usage)
    };
    let source = match arguments.source()?.read(&mut Disk) {
        Ok(source) => source,
        Err(diagnostics) => return told(diagnostics),
    };
    let data_plane = match config::load(&source, &mut Disk) {
        Ok(loaded) => loaded.settings.data_plane,
        Err(diagnostics) => return told(diagnostics),
    };
    let Some(ech) = &data_plane.ech else {
        console.error("the configuration has no `ech`");
        console.hint("lariat help ech");
        return Ok(Exit::Failed);
    };
    let keys = EchKeys::new(&ech.public_name, ech.keys.clone());
    let (configs, until) = keys.published();
    let list = Base64::encode_string(&config_list(&configs));
    let hidden_names = hidden_names(ech, &data_plane);
    if is_json {
        let record = |name: &String| {
            let value = format!("1 . ech={list}");
            json!({ "name": name, "type": "HTTPS", "ttl": TTL_SECONDS, "content": value })
        };
        let records: Vec<_> = hidden_names.iter().map(record).collect();
        let public_name = configs.first().map(|one| &one.public_name);
        let document = json!({
            "public_name": public_name,
            "config_list": list,
            "until_seconds": until,
            "records": records,
        });
        print(format_args!("{document:#}\n"));
        return Ok(Exit::Success);
    }
    print(format_args!("; ECHConfigList: {list}\n"));
    if let Some(until) = until {
        let (year, month, day) = civil_from_days(until / 86_400);
        print(format_args!("; to be published until {year:04}-{month:02}-{day:02} (UTC)\n"));
    }
    for name in &hidden_names {
        print(format_args!("{name}. {TTL_SECONDS} IN HTTPS 1 . ech=\"{list}\"\n"));
    }
    Ok(Exit::Success)
}

/// The hidden_names that are behind the front.
fn hidden_names(ech: &EchOptions, data_plane: &Options) -> Vec<String> {
    let hidden = data_plane.services.iter().filter(|one| ech.services.contains(&one.name));
    hidden.flat_map(|one| one.front.names.iter().map(ToString::to_string)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_explained_by_path_by_its_end_and_by_flag() {
        for (name, paths) in [
            ("service.back.balance", 1),
            ("back.balance", 1),
            ("--balance", 1),
            ("--backend", 1),
            // Of both sides.
            ("tls.versions", 2),
            // The tables too, not only the flag's key.
            ("tls", 5),
            ("service.front.tls.acme", 1),
        ] {
            let text = help_text(Some(name)).unwrap();
            let titles = text.lines().filter(|line| line.starts_with("service."));
            assert_eq!(titles.count(), paths, "{name}: {text}");
        }
        let acme = help_text(Some("acme")).unwrap();
        assert!(acme.contains("Keys: domains, accept-terms, contact,"), "{acme}");
        assert!(help_text(Some("drain")).unwrap().contains("Usage: lariat drain"));
    }

    #[test]
    fn slips_have_remedies() {
        for (name, remedy) in [
            ("balanse", "did you mean `lariat help balance`?"),
            ("--lisen", "did you mean `lariat help listen`?"),
            ("--front.listen", "`--front.listen`"),
            ("ssl-handshake-timeout", "of hitch is `service.timeouts.handshake` here"),
            ("kubernetes", "list them"),
        ] {
            let fault = help_text(Some(name)).unwrap_err();
            assert!(fault.contains(remedy), "{fault}");
        }
    }
}
