//! The reference of all options, as Markdown.

use super::written::TABLE;

const PREFACE: &str = "\
<!-- Made by `cargo xtask generate` from the table of options. Do not edit. -->

# lariat-lab load

```
lariat-lab load URL [FLAGS]
lariat-lab load --plan FILE.toml [URL] [FLAGS]
```

A plan file has a key for each flag, with the same name. Flags replace what the
file says; one that says how load arrives (`--connections`, `--rate`, `--ramp`, `--steps`,
`--find-capacity`) replaces every other way in the file. Unknown keys and flags are errors, and so
is a plan that contradicts itself.

```toml
url = \"https://127.0.0.1:8443/1k\"
handshake = \"session-id\"
tls = \"1.2\"
requests-per-session = 4
rate = 500
duration = \"10s\"
record = \"out.json\"
```

Times are written `250us`, `80ms`, `1.5s`, `10m`, `1h` or `1d`; sizes `512`, `64k`, `1m` or `1g`,
which are powers of 1024; rates are transactions a second. Lists are written with commas, in a file
as arrays. The flag of a boolean with a default takes `on` or `off`, any other may stand alone.
Relative paths in a file begin at its directory, those in flags at the working directory.

The summary goes to the standard output, all talk to the standard error. How it ends:
[exit codes](lab-exit-codes.md). Plans to begin with: [examples/load](../../examples/load).
";

#[must_use]
pub fn render() -> String {
    PREFACE.to_owned() + &TABLE.page_by_group()
}
