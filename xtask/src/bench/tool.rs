//! The load generators that are compared: how each is called, and what its output says it did.
//!
//! Numbers are the tools' own; whether they are right is checked against the server elsewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::arguments::Options;
use super::server::find_program;

/// A load generator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tool {
    /// `lariat-lab load`.
    Lab,
    /// `openssl s_time`.
    STime,
    /// `wrk`.
    Wrk,
    /// `h2load`.
    H2load,
    /// `ab`.
    Ab,
}

/// How much a tool is told to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    /// So many operations.
    Operations(u64),
    /// For so many seconds: the tool knows nothing else.
    Seconds(u64),
}

impl Amount {
    /// So many times as much; at least a second, or an operation for each of many connections.
    pub(crate) fn scaled(self, scale: f64) -> Self {
        // The casts saturate.
        match self {
            Self::Operations(count) => Self::Operations((count as f64 * scale).max(64.0) as u64),
            Self::Seconds(count) => Self::Seconds((count as f64 * scale).round().max(1.0) as u64),
        }
    }
}

/// A call of a tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Words beyond those that every call has.
    pub(crate) words: &'a str,
    /// `https://127.0.0.1:PORT/1k`.
    pub(crate) url: &'a str,
    /// Whether a connection carries a request, where the tool leaves the choice.
    pub(crate) asks: bool,
    /// How much.
    pub(crate) amount: Amount,
    /// Connections at once.
    pub(crate) connections: u64,
    /// Key exchange groups by OpenSSL's names, with colons between them.
    pub(crate) groups: &'a str,
    /// Where it runs.
    pub(crate) core: usize,
}

/// What a tool says it did.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    /// Operations that succeeded.
    pub(crate) operations: u64,
    /// Full handshakes and resumed ones, where it tells.
    pub(crate) handshakes: Option<(u64, u64)>,
}

/// Where lariat-lab's record goes, in the folder that it runs in.
const RECORD: &str = "record.json";

impl Tool {
    /// The program.
    pub(crate) fn program(self, options: &Options) -> Result<PathBuf> {
        let name = match self {
            Self::Lab => return options.lab_program(),
            Self::STime => "openssl",
            Self::Wrk => "wrk",
            Self::H2load => "h2load",
            Self::Ab => "ab",
        };
        find_program(name)
    }

    /// The line in which it tells its version.
    pub(crate) fn version(self, program: &Path) -> Result<String> {
        let word = match self {
            Self::Lab | Self::H2load => "--version",
            Self::STime => "version",
            Self::Wrk => "-v",
            Self::Ab => "-V",
        };
        // wrk tells its version and ends as if it had failed.
        let output = Command::new(program).arg(word).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// The words of a call.
    pub(crate) fn words(self, call: &Call<'_>) -> Vec<String> {
        let own = match self {
            Self::Lab => lab_words(call),
            Self::STime => s_time_words(call),
            Self::Wrk => format!("-t 1 -c {}", call.connections),
            Self::H2load => h2load_words(call),
            Self::Ab => format!("-q -c {}", call.connections),
        };
        let amount = match (self, call.amount) {
            (Self::Lab, Amount::Operations(count)) => format!("--count {count}"),
            (Self::Lab, Amount::Seconds(seconds)) => format!("--duration {seconds}s"),
            (Self::STime, Amount::Seconds(seconds)) => format!("-time {seconds}"),
            (Self::Wrk, Amount::Seconds(seconds)) => format!("-d {seconds}"),
            (_, Amount::Operations(count)) => format!("-n {count}"),
            (_, Amount::Seconds(seconds)) => format!("-D {seconds}"),
        };
        // A header is one word with a blank in it: `~` stands for that.
        let words = [own.as_str(), call.words, amount.as_str()].join(" ");
        let words = words.split_whitespace().map(|word| word.replace('~', " "));
        let url = match self {
            Self::STime => None,
            _ => Some(call.url.to_owned()),
        };
        self.command_word()
            .into_iter()
            .chain(words)
            .chain(url)
            .collect()
    }

    fn command_word(self) -> Option<String> {
        (self == Self::Lab).then(|| "load".to_owned())
    }

    /// What the output of a call tells; of lariat-lab, the record in `folder`.
    ///
    /// # Errors
    /// The output is not understood, or tells of operations that failed.
    pub(crate) fn tally(self, output: &str, folder: &Path) -> Result<Tally> {
        let tally = match self {
            Self::Lab => parse_record(&fs::read_to_string(folder.join(RECORD))?)?,
            Self::STime => parse_s_time(output),
            Self::Wrk => parse_wrk(output),
            Self::H2load => parse_h2load(output),
            Self::Ab => parse_ab(output),
        };
        let tally = tally.with_context(|| format!("it succeeded not wholly: {output}"))?;
        ensure!(tally.operations > 0, "it did nothing: {output}");
        Ok(tally)
    }
}

fn lab_words(call: &Call<'_>) -> String {
    let Call {
        connections, core, ..
    } = call;
    let group = match call.url.starts_with("https:") {
        true => format!("--groups {}", lab_groups(call.groups)),
        false => String::new(),
    };
    let request = if call.asks { "" } else { "--no-request" };
    format!(
        "--connections {connections} --threads 1 --cpus {core} --quiet --record {RECORD} {group} \
         {request}"
    )
}

/// Without the host's certificates, whose folder it would read again for each connection.
fn s_time_words(call: &Call<'_>) -> String {
    let (authority, path) = parts(call.url);
    let request = match call.asks {
        true => format!("-www {path}"),
        false => String::new(),
    };
    format!("s_time -no-CApath -no-CAfile -no-CAstore -connect {authority} {request}")
}

fn h2load_words(call: &Call<'_>) -> String {
    let protocol = match call.url.starts_with("https:") {
        true => format!("--h1 --groups={}", call.groups),
        false => "--no-tls-proto=http/1.1".to_owned(),
    };
    format!("{protocol} -t 1 -c {}", call.connections)
}

/// Groups by their names in the standards, which lariat-lab takes.
fn lab_groups(openssl_names: &str) -> String {
    let names = openssl_names.split(':').map(|name| match name {
        "X25519" => "x25519",
        "P-256" => "secp256r1",
        other => other,
    });
    names.collect::<Vec<_>>().join(",")
}

/// The authority and the path of a URL.
fn parts(url: &str) -> (&str, &str) {
    let (_, rest) = url.split_once("//").unwrap_or_default();
    rest.split_at(rest.find('/').unwrap_or(rest.len()))
}

/// All must have succeeded; one that failed is `None`.
fn parse_record(text: &str) -> Result<Option<Tally>> {
    let record: Value = serde_json::from_str(text).context("lariat-lab's record")?;
    let number = |value: &Value| value.as_u64().context("a number in lariat-lab's record");
    let (mut full, mut resumed) = (0, 0);
    for row in record["handshakes"].as_array().into_iter().flatten() {
        match row["kind"].as_str() {
            Some("full") => full += number(&row["count"])?,
            _ => resumed += number(&row["count"])?,
        }
    }
    let operations = number(&record["totals"]["succeeded"])?;
    let failed = number(&record["totals"]["failed"])?;
    Ok((failed == 0).then_some(Tally {
        operations,
        handshakes: Some((full, resumed)),
    }))
}

/// A letter a connection, `r` if it was resumed; then `N connections in`, once by CPU time and
/// once by the clock.
fn parse_s_time(output: &str) -> Option<Tally> {
    let (before, _) = output.split_once(" connections in ")?;
    let operations = before.split_whitespace().next_back()?.parse().ok()?;
    let letters = before.split_whitespace().nth_back(1)?;
    let resumed = letters.bytes().filter(|letter| *letter == b'r').count() as u64;
    Some(Tally {
        operations,
        handshakes: Some((letters.len() as u64 - resumed, resumed)),
    })
}

/// `90934 requests in 5.09s`. What failed with an answer is told as `Non-2xx`.
fn parse_wrk(output: &str) -> Option<Tally> {
    if output.contains("Non-2xx") || output.contains("Socket errors") {
        return None;
    }
    let (before, _) = output.split_once(" requests in ")?;
    Some(Tally {
        operations: before.split_whitespace().next_back()?.parse().ok()?,
        handshakes: None,
    })
}

/// `requests: 9 total, 9 started, 9 done, 9 succeeded, 0 failed, 0 errored, 0 timeout`.
fn parse_h2load(output: &str) -> Option<Tally> {
    let line = output.lines().find(|line| line.starts_with("requests: "))?;
    let number = |what: &str| -> Option<u64> {
        let (before, _) = line.split_once(what)?;
        before.split_whitespace().next_back()?.parse().ok()
    };
    let (total, succeeded) = (number(" total")?, number(" succeeded")?);
    (total == succeeded).then_some(Tally {
        operations: succeeded,
        handshakes: None,
    })
}

/// `Complete requests:` and `Failed requests:`; other answers have a line of their own.
fn parse_ab(output: &str) -> Option<Tally> {
    let number = |name: &str| -> Option<u64> {
        let line = output.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let failed = number("Failed requests:")? + number("Non-2xx responses:").unwrap_or(0);
    let operations = number("Complete requests:")?;
    (failed == 0).then_some(Tally {
        operations,
        handshakes: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(operations: u64, handshakes: Option<(u64, u64)>) -> Option<Tally> {
        Some(Tally {
            operations,
            handshakes,
        })
    }

    #[test]
    fn s_time_counts_connections_and_tells_resumed_ones() {
        let output = "\n\nNow timing with session id reuse.\nstarting\nrrr*r\n\n\
                      5 connections in 0.69s; 9843.48 connections/user sec, bytes read 0\n\
                      5 connections in 3 real seconds, 0 bytes read per connection\n";
        assert_eq!(parse_s_time(output), tally(5, Some((1, 4))));
        assert_eq!(parse_s_time("No CIPHER specified"), None);
    }

    #[test]
    fn wrk_must_have_met_no_error() {
        let output = "  1 threads and 32 connections\n  90934 requests in 5.09s, 101.81MB read\n";
        assert_eq!(parse_wrk(output), tally(90934, None));
        let refused = format!("{output}  Non-2xx or 3xx responses: 12\n");
        assert_eq!(parse_wrk(&refused), None);
    }

    #[test]
    fn h2load_must_have_done_all() {
        let line = |succeeded| {
            format!("x\nrequests: 9 total, 9 started, 9 done, {succeeded} succeeded, 0 failed\n")
        };
        assert_eq!(parse_h2load(&line(9)), tally(9, None));
        assert_eq!(parse_h2load(&line(8)), None);
    }

    #[test]
    fn ab_must_have_failed_at_nothing() {
        let output = "Complete requests:      2000\nFailed requests:        0\n";
        assert_eq!(parse_ab(output), tally(2000, None));
        let refused = format!("{output}Non-2xx responses:      3\n");
        assert_eq!(parse_ab(&refused), None);
    }

    #[test]
    fn a_record_with_failures_counts_nothing() {
        let record = |failed| {
            format!(
                r#"{{"totals":{{"succeeded":7,"failed":{failed}}},"handshakes":[
                {{"kind":"full","count":2}},{{"kind":"session-id","count":5}}]}}"#
            )
        };
        let parse = |failed| parse_record(&record(failed)).expect("a record");
        assert_eq!(parse(0), tally(7, Some((2, 5))));
        assert_eq!(parse(1), None);
    }

    #[test]
    fn amounts_are_scaled_but_never_to_nothing() {
        let operations = Amount::Operations(1000);
        assert_eq!(operations.scaled(0.5), Amount::Operations(500));
        assert_eq!(operations.scaled(0.0), Amount::Operations(64));
        assert_eq!(Amount::Seconds(3).scaled(0.1), Amount::Seconds(1));
    }

    #[test]
    fn a_call_has_the_words_of_its_tool() {
        let call = Call {
            words: "-H Connection:~close",
            url: "https://127.0.0.1:1/1k",
            asks: true,
            amount: Amount::Seconds(2),
            connections: 32,
            groups: "X25519:P-256",
            core: 0,
        };
        let words = "-t 1 -c 32 -H Connection: close -d 2 https://127.0.0.1:1/1k";
        assert_eq!(Tool::Wrk.words(&call).join(" "), words);
        assert!(
            Tool::Wrk
                .words(&call)
                .contains(&"Connection: close".to_owned())
        );
        let s_time = Tool::STime.words(&Call {
            words: "-new",
            ..call
        });
        let words = "-connect 127.0.0.1:1 -www /1k -new -time 2";
        assert!(s_time.join(" ").ends_with(words));
        assert_eq!(lab_groups(call.groups), "x25519,secp256r1");
    }
}
