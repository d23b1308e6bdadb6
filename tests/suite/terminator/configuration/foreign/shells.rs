//! Other shells take the scripts of `completion`, and man the pages of `manual`.

use suite::lariat::{self, path_to};
use suite::prelude::*;

fn programs() -> [(&'static str, Command); 2] {
    [("lariat", lariat::command()), ("lariat-lab", lab::command())]
}

#[test]
fn zsh_and_fish_read_the_scripts() {
    for shell in ["zsh", "fish"] {
        for (name, mut program) in programs() {
            let folder = Directory::new();
            let script = run(program.args(["completion", shell])).success();
            let path = folder.write(name, script);
            let answer = run(Command::new(shell).arg("-n").arg(path));
            assert_eq!((answer.code(), answer.stderr.as_str()), (0, ""), "{shell} {name}");
        }
    }
}

#[test]
fn fish_completes() {
    let folder = Directory::new();
    let script = run(lariat::command().args(["completion", "fish"])).success();
    let path = folder.write("lariat.fish", script);
    for (line, expected) in [
        ("lariat dra", &["drain"][..]),
        ("lariat serve --ktls=", &["--ktls=auto", "--ktls=off", "--ktls=require"]),
        ("lariat status --j", &["--json"]),
        ("lariat completion z", &["zsh"]),
    ] {
        let command = format!("source $argv[1]; complete -C '{line}'");
        let mut fish = Command::new("fish");
        fish.env("HOME", folder.path());
        fish.env("PATH", path_to(&lariat::command()));
        let answer = run(fish.args(["--no-config", "-c", &command]).arg(&path)).success();
        let mut found: Vec<_> = answer.lines().filter_map(|line| line.split('\t').next()).collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{line}");
    }
}

#[test]
fn the_pages_are_right_to_mandoc() {
    let folder = Directory::new();
    let pages = [
        run(lariat::command().arg("manual")),
        run(lariat::command().args(["manual", "lariat.toml"])),
        run(lab::command().arg("manual")),
    ];
    for page in pages {
        // Packages write the date of the version.
        let page = page.success().replacen(" \"\" ", " \"2026-01-01\" ", 1);
        let path = folder.write("page", &page);
        let answer = run(Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(path));
        assert_eq!((answer.code(), answer.stdout.as_str()), (0, ""), "{page}");
    }
}
