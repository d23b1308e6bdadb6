//! The script of `completion bash` completes commands, flags, values, files and names.

use suite::lariat::{self, path_to};
use suite::prelude::*;

/// Returns Bash's proposals for the last of these words, as it divides a line into them.
fn proposed(mut program: Command, name: &str, words: &[&str]) -> Vec<String> {
    let folder = Directory::new();
    folder.write("lariat.toml", "");
    folder.write("a file.toml", "");
    let script = run(program.args(["completion", "bash"])).success();
    let function = format!("_{}", name.replace('-', "_"));
    let path = path_to(&program);
    let script = format!(
        "set -u\n{script}\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$(($# - 1))\n{function}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let mut bash = Command::new("bash");
    bash.current_dir(folder.path()).env("PATH", path);
    let answer = run(bash.args(["-c", &script, "bash", name]).args(words));
    assert_eq!(answer.stderr, "", "{words:?}");
    let lines = answer.stdout.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn of_lariat() {
    for (words, expected) in [
        (&["se"][..], &["serve", "server"][..]),
        (&["serve", "--kt"], &["--ktls", "--ktls-min-size"]),
        (&["serve", "--ktls", "o"], &["off"]),
        (&["serve", "--ktls", "=", "a"], &["auto"]),
        (&["serve", "--ktls", "="], &["auto", "off", "require"]),
        (&["serve", "--name", "l"], &[]),
        (&["serve", "--listen", "l"], &[]),
        (&["serve", "--certificate", "l"], &["lariat.toml"]),
        (&["serve", "a"], &["a file.toml"]),
        (&["check", "--config", "l"], &["lariat.toml"]),
        (&["server", "d"], &["disable"]),
        (&["status", "--j"], &["--json"]),
        (&["status", "--status-socket", "l"], &["lariat.toml"]),
        (&["completion", "f"], &["fish"]),
        (&["help", "process.us"], &["process.user"]),
    ] {
        let mut found = proposed(lariat::command(), "lariat", words);
        found.sort();
        assert_eq!(found, expected, "{words:?}");
    }
}

#[test]
fn of_the_laboratory() {
    for (words, expected) in [
        (&["comp"][..], &["compare", "completion"][..]),
        (&["load", "--handshake", "ses"], &["session-id"]),
        (&["host", "--speeds", "q"], &["quick"]),
        (&["run", "implem"], &["implementations"]),
        (&["run", "--quiet", "la"], &["lariat.toml"]),
        (&["report", "-o", "l"], &["lariat.toml"]),
        (&["manual", "l"], &[]),
    ] {
        assert_eq!(proposed(lab::command(), "lariat-lab", words), expected, "{words:?}");
    }
}
