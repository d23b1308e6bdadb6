//! Keys of `[log]`: lines about connections, messages, and the log daemons that receive them.

use options::row::{count, path, row, text};
use options::{Key, Kind, Problem, Value, choice, section, table};
use proxy::options::{Envelope, Facility, LineFormat, LogConnections, LogOptions};
use sys::socket::AddressWithZone;
use wire::address::Address;

use crate::resolver::{FileResolver, optional};
use crate::settings::{LogDaemon, LogOutput, MessageForm};

const SYSLOG: &str = "syslog";
const JOURNALD: &str = "journald";

section! {
    table("log")
        .absent("").shorthand("output")
        .example(r#"log = { format = "json", connections = "failed" }"#);
    /// Log lines about connections, and messages. See docs/guide/logs.md.
    pub(crate) struct WrittenLog<'a> {
        /// The destination of lines about connections: `stdout`, `stderr`, `syslog`, `journald`, or
        /// a file to append to.
        output: String = text("PATH")
            .default("stdout").flag("log").example(r#"output = "/var/log/lariat.log""#),
        /// The connections that get a line.
        connections: LogConnections = choice![
            "all" => LogConnections::All,
            "failed" => LogConnections::Failed,
            "none" => LogConnections::None,
        ].default("all").flag("log-connections").example(r#"connections = "failed""#),
        /// `key=value` pairs, or one JSON object per line; for `syslog` and `journald`, the text of
        /// an entry.
        format: LineFormat = choice![
            "text" => LineFormat::Text,
            "json" => LineFormat::Json,
        ].default("text").flag("log-format").example(r#"format = "json""#),
        /// The form of messages on the standard error. `text`: with time and level; `json`: objects
        /// with `time`, `level`, `message` and `hint`; `plain`: without time. `auto` is `plain` at
        /// a terminal, else `text`; for journald, with priority in place of time.
        messages: MessageForm = choice![
            "auto" => MessageForm::Auto,
            "plain" => MessageForm::Plain,
            "text" => MessageForm::Text,
            "json" => MessageForm::Json,
        ].default("auto").flag("log-messages").example(r#"messages = "json""#),
        /// The destination of messages about the program, once the configuration has been read; why
        /// it ends goes to the standard error.
        messages_output: Option<DaemonWord> = choice![
            "stderr" => None,
            "syslog" => Some(DaemonWord::Syslog),
            "journald" => Some(DaemonWord::Journald),
        ].default("stderr").flag("log-messages-output").example(r#"messages-output = "journald""#),
        syslog: WrittenSyslog<'a>,
        /// The journal's socket.
        journald: String = path()
            .default("/run/systemd/journal/socket").flag("log-journald")
            .example(r#"journald = "/run/systemd/journal.edge/socket""#),
        /// Lines per second and worker for each reason of failure; the number of further ones is
        /// logged.
        failures_per_second: u32 = count(0, 1_000_000)
            .default("10").flag("log-failures").example("failures-per-second = 100"),
        /// Lines per second and worker for each other reason, in at most 50 kB.
        successes_per_second: u32 = count(0, 1_000_000)
            .default("100").flag("log-successes").example("successes-per-second = 1000"),
        /// One of so many connections without a failure gets a line, per worker, with the number as
        /// `sampled`.
        sample: u32 = count(1, 1_000_000).default("1").flag("log-sample").example("sample = 100"),
    }
}

section! {
    table("log.syslog")
        .absent("").shorthand("address")
        .example(r#"syslog = { address = "10.0.0.9:514", facility = "local0" }"#);
    /// The daemon of `syslog` (RFC 5424).
    pub(crate) struct WrittenSyslog<'a> {
        /// A Unix datagram socket, or an IP address and UDP port (RFC 5426).
        address: Address = row(Kind::Address, syslog_address)
            .default("unix:/dev/log").flag("log-syslog").example(r#"address = "10.0.0.9:514""#),
        /// The facility of all entries.
        facility: Facility = choice!(of Facility: &Facility::NAMED)
            .default("daemon").flag("log-facility").example(r#"facility = "local0""#),
    }
}

/// Log daemon in the words of `output` and `messages-output`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DaemonWord {
    Syslog,
    Journald,
}

/// Reads the options of connection lines, for the workers.
pub(crate) fn lines(log: &WrittenLog<'_>) -> Option<LogOptions> {
    Some(LogOptions {
        connections: log.connections.value?,
        format: log.format.value?,
        envelope: match log.output.value.as_deref()? {
            SYSLOG => Envelope::Syslog(log.syslog.facility.value?),
            JOURNALD => Envelope::Journal,
            _ => Envelope::Bare,
        },
        failures_per_second: log.failures_per_second.value?,
        successes_per_second: log.successes_per_second.value?,
        sample: log.sample.value?,
    })
}

pub(crate) struct LogOutputs {
    pub(crate) connections: LogOutput,
    pub(crate) message_form: MessageForm,
    /// Log daemon for messages; `None` = the standard error.
    pub(crate) messages: Option<LogDaemon>,
}

/// Reads where lines and messages go.
pub(crate) fn outputs(log: &WrittenLog<'_>, resolver: &FileResolver<'_>) -> Option<LogOutputs> {
    let output = log.output.value.as_deref()?;
    let connections = match output {
        "stdout" => LogOutput::Stdout,
        "stderr" => LogOutput::Stderr,
        SYSLOG => LogOutput::Daemon(log_daemon(log, DaemonWord::Syslog, resolver)?),
        JOURNALD => LogOutput::Daemon(log_daemon(log, DaemonWord::Journald, resolver)?),
        path => LogOutput::File(resolver.base.join(path)),
    };
    let daemon = log.messages_output.value?;
    let messages = optional(daemon.map(|daemon| log_daemon(log, daemon, resolver)))?;
    for (place, word, name) in [
        (&log.syslog.at, DaemonWord::Syslog, SYSLOG),
        (&*log.journald, DaemonWord::Journald, JOURNALD),
    ] {
        if place.is_written() && output != name && daemon != Some(word) {
            let hint = format!(
                "write output = \"{name}\" or messages-output = \"{name}\", or take it out"
            );
            place.warn("has no effect: nothing goes there", hint);
        }
    }
    Some(LogOutputs { connections, message_form: log.messages.value?, messages })
}

fn log_daemon(
    log: &WrittenLog<'_>,
    word: DaemonWord,
    resolver: &FileResolver<'_>,
) -> Option<LogDaemon> {
    if word == DaemonWord::Syslog {
        return Some(LogDaemon::Syslog {
            address: log.syslog.address.value.clone()?,
            facility: log.syslog.facility.value?,
        });
    }
    let text = log.journald.value.as_deref()?;
    let path = resolver.base.join(text.strip_prefix("unix:").unwrap_or(text));
    let address = format!("unix:{}", path.display());
    if let Err(error) = address.parse::<Address>() {
        let message = format!("{} {error}", path.display());
        return log.journald.fail(message, "name a socket");
    }
    Some(LogDaemon::Journal(path))
}

fn syslog_address(value: &Value, key: &Key) -> Result<Address, Problem> {
    let example = || key.for_example();
    let text = options::as_text(value).map_err(|problem| problem.hint(example()))?;
    match text.parse().map(|AddressWithZone(address)| address) {
        Ok(Address::Ip(address)) if address.port() == 0 => {
            Err(Problem::new("has the port 0").hint("syslog over UDP is usually at port 514"))
        }
        Ok(Address::Ip(address)) if address.ip().is_unspecified() => {
            Err(Problem::new(format!("\"{text}\" is no address to send to")).hint(example()))
        }
        Ok(Address::Inherited(_)) => Err(Problem::new("is a listening socket").hint(example())),
        Ok(address) => Ok(address),
        Err(error) => Err(Problem::new(format!("\"{text}\" {error}")).hint(example())),
    }
}
