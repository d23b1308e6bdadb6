//! The texts of `lariat-lab help`.

use load::options::table::{self, Group, Otherwise, Setting, Shape};

use crate::exit::Exit;

const PROGRAM: &str = "\
lariat-lab: load a TLS endpoint, and show what came of it

  lariat-lab load URL          load it, and count what it did
  lariat-lab origin            serve objects of any size, as plain HTTP, to load what is before it
  lariat-lab targets             which other programs can be measured here; installs them
  lariat-lab host              what this host has for TLS, and how fast its keys and ciphers are
  lariat-lab run SCENARIO…     put servers under test side by side, and record how they did
  lariat-lab report RECORD…    tables, figures and a page from records
  lariat-lab compare A B       two records: what changed from one to the other
  lariat-lab help COMMAND      more about one of these
  lariat-lab version

Begin with: lariat-lab load https://127.0.0.1:8443/
";

const LOAD: &str = "\
lariat-lab load: load a TLS endpoint, and count what it did

  lariat-lab load URL [FLAGS]
  lariat-lab load --plan FILE.toml [URL] [FLAGS]

Says how it goes every second, prints a summary and writes a record of the run.
A plan file says what flags say, a key for each flag; flags replace what it
says. A plan that contradicts itself is refused before the first packet.
docs/reference/load.md tells more of each flag.
";

const LOAD_EXAMPLES: &str = "
Examples:
  What can it do? 50 connections at once, full handshakes, for 10 seconds:
    lariat-lab load https://127.0.0.1:8443/1k

  500 transactions a second, of which three in four resume a TLS 1.2 session:
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

const TARGETS: &str = "\
lariat-lab targets: which programs can be put under test here

  lariat-lab targets [TARGET|SCENARIO]… [FLAGS]

Tells of all there are, or of those that are named and those of the scenarios that are named: what
each is, where it lies, whose build it is, and what it says about its version and its TLS library.
Exit code 6: some are missing.

  --install
      Install the Debian packages of those that are missing (apt-get, with sudo unless root);
      servers of the packages are not started
  --program NAME=PATH
      Another build for the target of that name; may be given again
  --target-folder DIR
      Targets of your own beside ours, a folder for each with a target.toml as in targets/README.md

Examples:
  lariat-lab targets --install implementations
  lariat-lab targets haproxy-tcp --program haproxy-tcp=/opt/haproxy-3.2/sbin/haproxy
";

const HOST: &str = "\
lariat-lab host: what this host has for TLS, and how fast its keys and ciphers are

  lariat-lab host [--json] [--speeds none|quick|full] [--seconds T]

Tells of the CPU and what it makes cheap, of caches and memory nodes, of kTLS and io_uring (which
are tried) and why they are not there, of limits, network cards, quotas and whatever else figures
depend on. Where something should be done about it, a hint says what.

  --speeds none|quick|full
      Which keys and ciphers are measured [default: quick]. On one CPU, in CPU time, by the library
      that lariat-lab is built with and by `openssl speed`, if openssl is installed
  --seconds T
      How long for each row [default: 0.2 for quick, 1 for full]; openssl takes whole seconds
  --json
      Print one JSON document instead of text

docs/guide/host.md tells how to read it.
";

const RUN: &str = "\
lariat-lab run: put servers under test, and record how they did

  lariat-lab run SCENARIO… [FLAGS]
  lariat-lab run all --full
  lariat-lab run --resume RECORD.jsonl

A scenario is a question: what a cipher costs, what a second core brings. Each of its cells starts
a server, loads it, reads what it used, and ends it; the record is written as it goes. A scenario
that ends in .toml is a file of your own: docs/guide/lab.md tells what it holds.

  --list
      The scenarios that there are, and how long they take
  --dry-run
      Tell what would be done, with the command that makes the load of each cell
  --quick
      Few repeats of the main cells [default]
  --full
      All cells, more often
  --targets NAME,…
      Who takes part, the one that the others are compared with first [default: the scenario's]
  --only FACTOR=LEVEL,…
      Cells at these levels alone; target is a factor too; may be given again
  --repeats N
      How often each cell is read [default: the scenario's]
  --duration TIME
      How long each load lasts [default: the scenario's]
  --program TARGET=PATH
      Another build of a target than the packaged one; may be given again
  --server-cpus LIST
      The CPUs of servers, as in 0,2-3 [default: half of the cores]
  --client-cpus LIST
      The CPUs of the load and of the origin behind servers [default: the other half]
  --speeds none|quick|full
      How long keys and ciphers of this host are measured first [default: quick; full with --full]
  --seed N
      Repeats the order of cells of another run [default: by the clock; the record tells it]
  --record RECORD.jsonl
      Where the record is written [default: lariat-run-DATE-TIME.jsonl in the working directory]
  --resume RECORD.jsonl
      Take up a run that was stopped, or read again what failed in one that came to its end
  --scenario-folder DIR
      Scenarios in place of ours
  --target-folder DIR
      Targets beside ours, or in their place
  --keep
      Keep the folder with the configurations of servers
  --quiet
      Say nothing but faults

Examples:
  Which terminator costs least on one core? Under five minutes:
    lariat-lab run implementations

  Two of them, and one cipher:
    lariat-lab run ciphers --targets lariat,haproxy-tcp --only suite=aes-128-gcm

Ctrl-C ends a run; --resume takes it up. `lariat-lab report RECORD.jsonl -o page.html` makes a page.
";

const REPORT: &str = "\
lariat-lab report: tables, figures and a page from records of loads or experiments

  lariat-lab report RECORD… [-o PAGE.html] [--svg DIR] [--csv DIR]

Tells one record of a load as the load itself does, and compares several in the order in which they
are named. Of an experiment it says first where a target is ahead, then tells each scenario. Of
records that cannot be read, each is named, and the others are reported. - is the standard input.

  -o, --output PAGE.html
      Write one page that needs no network, instead of tables to the standard output
  --svg DIR
      Write each figure as an SVG file: of loads named after their record, of one experiment after
      scenario and figure, as in implementations-server-cpu.svg
  --csv DIR
      Write the data as CSV files, named after their record: of loads seconds, latencies and steps;
      of experiments cells and readings

Examples:
  Four kinds of handshake side by side:
    lariat-lab report full.json session-id.json ticket.json psk.json -o handshakes.html

  All that a run of experiments found:
    lariat-lab report run.jsonl -o run.html

docs/reference/record.md and docs/reference/experiment.md tell what records hold, and which numbers
programs can read off a page.
";

const COMPARE: &str = "\
lariat-lab compare: what changed from one record to another

  lariat-lab compare A B [-o PAGE.html] [--svg DIR]

Two records of experiments, of two platforms, versions or settings: in what they differ, and each
cell that was read in both, with the change from A to B and its 95 % interval. Two records of loads
are told side by side.

  -o, --output PAGE.html
      Write one page that needs no network, instead of tables to the standard output
  --svg DIR
      Write the figures as SVG files: the loss of B against A, in percent, a file a scenario

Example:
  What does the hypervisor take?
    lariat-lab run object-sizes --record metal.jsonl     # and on the other host: virtual.jsonl
    lariat-lab compare metal.jsonl virtual.jsonl -o loss.html
";

/// What there is.
pub(super) fn program() -> String {
    let codes = Exit::ALL.map(|exit| format!("  {}  {}\n", exit as u8, exit.help()));
    format!("{PROGRAM}\nExit codes:\n{}", codes.concat())
}

/// More about a command, if there is one of that name.
pub(super) fn command(name: &str) -> Option<String> {
    match name {
        "host" => Some(HOST.to_owned()),
        "load" => Some(load()),
        "origin" => Some(ORIGIN.to_owned()),
        "targets" => Some(TARGETS.to_owned()),
        "report" => Some(REPORT.to_owned()),
        "run" => Some(RUN.to_owned()),
        "compare" => Some(COMPARE.to_owned()),
        _ => None,
    }
}

/// All flags of a load, by what they are about.
pub(super) fn load() -> String {
    let mut text = LOAD.to_owned();
    for group in Group::ALL {
        text.push_str(&format!("\n{}:\n", group.title()));
        for setting in table::of(group) {
            text.push_str(&row(&flag(setting), &about(setting)));
        }
        if group == Group::Run {
            text.push_str(&row(
                "--plan FILE.toml",
                "A file that says what flags would say",
            ));
        }
    }
    text + LOAD_EXAMPLES
}

fn flag(setting: &Setting) -> String {
    match (setting.name, setting.shape) {
        ("url", _) => "URL".to_owned(),
        (name, Shape::Switch) => format!("--{name}"),
        (name, Shape::Commas(word)) => format!("--{name} {word},…"),
        (name, Shape::One(word) | Shape::Repeated(word)) => format!("--{name} {word}"),
    }
}

/// The first sentence, and the default.
fn about(setting: &Setting) -> String {
    let first = setting.short_help().replace('`', "");
    let again = match setting.shape {
        Shape::Repeated(_) => "; may be given again",
        _ => "",
    };
    match setting.otherwise {
        Otherwise::Absent("") => format!("{first}{again}"),
        Otherwise::Absent(words) | Otherwise::Text(words) | Otherwise::Derived(words, _) => {
            format!("{first}{again} [default:{GLUE}{words}]")
        }
    }
}

/// The columns of a terminal.
const COLUMNS: usize = 80;

/// Where explanations begin.
const INDENT: usize = 26;

/// Stands for a space that no line ends at.
const GLUE: char = '\u{a0}';

/// A flag, and beside it what it does; below it if it is long.
fn row(flag: &str, about: &str) -> String {
    let head = format!("  {flag}");
    let width = head.chars().count();
    let (mut text, mut line) = match width + 2 > INDENT {
        true => (format!("{head}\n"), " ".repeat(INDENT)),
        false => (String::new(), format!("{head:<INDENT$}")),
    };
    let mut is_empty = true;
    for word in about.split(' ').filter(|word| !word.is_empty()) {
        if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            text.push_str(&format!("{line}\n"));
            line = " ".repeat(INDENT);
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(word);
        is_empty = false;
    }
    (text + &line + "\n").replace(GLUE, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_of_a_load_is_told() {
        let text = load();
        for setting in table::SETTINGS
            .iter()
            .filter(|setting| setting.name != "url")
        {
            let flag = format!("\n  --{}", setting.name);
            assert!(text.contains(&flag), "{flag}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn explanations_stand_beside_short_flags_and_below_long_ones() {
        let words = "one two ".repeat(12);
        let beside = row("--a B", &words);
        assert!(
            beside.starts_with("  --a B                   one two"),
            "{beside}"
        );
        assert!(beside.lines().all(|line| line.chars().count() <= COLUMNS));
        let below = row("--requests-per-session N|unlimited", "x");
        let expected = format!("  --requests-per-session N|unlimited\n{:26}x\n", "");
        assert_eq!(below, expected);
    }
}
