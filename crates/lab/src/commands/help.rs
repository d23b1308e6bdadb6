//! The texts of `lariat-lab help`.

use crate::exit::Exit;

const PROGRAM: &str = "\
lariat-lab: load a TLS endpoint, and show what came of it

  lariat-lab load URL          load it, and count what it did
  lariat-lab origin            serve objects of any size, as plain HTTP, to load what is before it
  lariat-lab report RECORD…    tables, figures and a page from records of loads
  lariat-lab help COMMAND      more about one of these
  lariat-lab version

Begin with: lariat-lab load https://127.0.0.1:8443/
";

const LOAD: &str = "\
lariat-lab load: load a TLS endpoint
";

const ORIGIN: &str = "\
lariat-lab origin: serve objects of any size, as plain HTTP

  lariat-lab origin [--listen ADDRESS]… [--unix PATH] [FLAGS]

  --listen ADDRESS
      Where to listen [default: 127.0.0.1:8000]; port 0 takes a free one; may be given again
  --unix PATH
      A Unix socket to listen at
  --threads N
      Threads, each with its own socket and loop [default: the allowed CPUs]
  --cpus LIST|none
      CPUs that threads are pinned to, as in 0,2-3, or none
  --idle-timeout TIME
      Closes a connection that says nothing for so long [default: 60s]
  --quiet
      Say nothing but errors

/1k, /64k, /10m and /1g have that many bytes. /?size=64k&time=20&close=1&chunked=1&code=503 is
64 KiB after 20 ms, chunked, with status 503, and closes the connection.
";

const REPORT: &str = "\
lariat-lab report: tables, figures and a page from records of loads

  lariat-lab report RECORD… [-o PAGE.html] [--svg DIR] [--csv DIR]

  -o PAGE.html
      Write one page that needs no network, instead of tables to the standard output
  --svg DIR
      Write each figure as an SVG file
  --csv DIR
      Write the figures' data as CSV files
";

/// What there is.
pub(super) fn program() -> String {
    let codes = Exit::ALL.map(|exit| format!("  {}  {}\n", exit as u8, exit.help()));
    format!("{PROGRAM}\nExit codes:\n{}", codes.concat())
}

/// More about a command, if there is one of that name.
pub(super) fn command(name: &str) -> Option<String> {
    match name {
        "load" => Some(LOAD.to_owned()),
        "origin" => Some(ORIGIN.to_owned()),
        "report" => Some(REPORT.to_owned()),
        _ => None,
    }
}
