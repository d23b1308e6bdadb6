//! The reference page of the configuration.

use crate::keys::TABLE;

const PREFACE: &str = "\
<!-- Made by `cargo xtask generate` from the table of options. Do not edit. -->

# Configuration

A configuration is a TOML file (`lariat serve FILE`), or the flags of `lariat serve`, which
describe one service. Every flag means the key beside it. Unknown keys are errors.

Times are written `250ms`, `10s`, `5m`, `12h` or `7d`; sizes `512B`, `64KiB`, `32MiB` or `1GiB`.
Relative paths begin at the directory of the file, those in flags at the working directory.
A list of one value may be written as that value alone.

```toml
[[service]]
name = \"web\"
front = { listen = [\"[::]:443\"], tls = { certificates = [\"certs/\"], alpn = [\"h2\", \"http/1.1\"] } }
back  = { servers = [\"10.0.0.3:80\", \"unix:/run/app.sock\"], balance = \"least-connections\" }
```
";

/// The reference of all keys, as Markdown.
pub fn render() -> String {
    PREFACE.to_owned() + &TABLE.page()
}
