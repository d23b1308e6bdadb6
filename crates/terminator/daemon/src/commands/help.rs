//! `lariat help`, `manual` and `completion`: texts made of the command line and the table of keys.

use options::command_line::{help, manual_page};

use crate::commands::args;

const FILES: &str = "\
/etc/lariat/lariat.toml: the configuration of the service that a package installs.
/run/lariat/status.sock: where the lariat that root runs answers `lariat status`.
";

/// More about a command, a key, the end of its path, or a flag; about the program without a name.
pub(super) fn text(name: Option<&str>) -> Result<String, String> {
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
pub(super) fn page(name: &str) -> String {
    if name == "lariat.toml" {
        let (purpose, version) = ("configuration of lariat", env!("CARGO_PKG_VERSION"));
        return config::TABLE.manual_page(name, purpose, "lariat", version);
    }
    let sections = [
        ("EXIT STATUS", &*args::exit_codes()),
        ("FILES", FILES),
        ("SEE ALSO", "lariat.toml(5), lariat-lab(1)"),
    ];
    manual_page(args::command(), &sections)
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
            let text = text(Some(name)).unwrap();
            let titles = text.lines().filter(|line| line.starts_with("service."));
            assert_eq!(titles.count(), paths, "{name}: {text}");
        }
        let acme = text(Some("acme")).unwrap();
        assert!(acme.contains("Keys: domains, accept-terms, contact,"), "{acme}");
        assert!(text(Some("drain")).unwrap().contains("Usage: lariat drain"));
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
            let fault = text(Some(name)).unwrap_err();
            assert!(fault.contains(remedy), "{fault}");
        }
    }
}
