//! Editors check a configuration by the schema: it takes every example, and names faults.

use suite::prelude::*;

/// Prints a line for each fault that the schema finds in a file.
const VALIDATE: &str = "
import json, sys, tomllib
from jsonschema import Draft202012Validator as Validator
schema = json.load(open(sys.argv[1], 'rb'))
Validator.check_schema(schema)
for path in sys.argv[2:]:
    for fault in Validator(schema).iter_errors(tomllib.load(open(path, 'rb'))):
        print(path, '.'.join(map(str, fault.absolute_path)), fault.message[:200])
";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the faults of files, a line each.
fn faults(files: &[PathBuf]) -> String {
    let schema = repository().join("docs/reference/lariat.schema.json");
    let mut python = Command::new("python3");
    python.args(["-c", VALIDATE]).arg(schema).args(files);
    run(&mut python).success()
}

#[test]
fn the_schema_takes_every_example() {
    let entries = fs::read_dir(repository().join("examples")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_toml = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "toml");
    let files: Vec<_> = paths.filter(is_toml).collect();
    assert!(files.len() >= 8);
    assert_eq!(faults(&files), "");
}

#[test]
fn the_schema_names_faults() {
    let folder = Directory::new();
    for (text, place) in [
        ("", "service"),
        ("[[service]]\nfront = { lisen = '*:443' }\n", "service.0.front"),
        ("[[service]]\nfront = { listen = [] }\n", "service.0.front.listen"),
        ("[limits]\nconnections = 0\n", "limits.connections"),
        ("[process]\ndrain = 10\n", "process.drain"),
        ("[log]\nformat = 'xml'\n", "log"),
        ("workers = true\n", "workers"),
    ] {
        let path = folder.write("lariat.toml", text);
        let faults = faults(&[path]);
        let is_told = faults.lines().any(|line| line.contains(place));
        assert!(is_told, "{text} has {faults}");
    }
}
