//! The keys of `[log]`: lines about connections, messages, and the log daemons that take them.

use options::{Key, Problem, Section, Value};
use proxy::options::{Envelope, Facility, LineFormat, LogConnections, LogOptions};
use sys::socket::Zoned;
use wire::address::Address;

use crate::certificates::Shelf;
use crate::settings::{LogDaemon, LogOutput, MessageForm};

const SYSLOG: &str = "syslog";
const JOURNALD: &str = "journald";

/// Reads the part that the data plane needs.
pub(crate) fn lines(section: &Section<'_>) -> Option<LogOptions> {
    let connections = section.choice(
        "connections",
        &[
            ("all", LogConnections::All),
            ("failed", LogConnections::Failed),
            ("none", LogConnections::None),
        ],
    );
    let format = section.choice(
        "format",
        &[("text", LineFormat::Text), ("json", LineFormat::Json)],
    );
    let failures_per_second = section.count("failures-per-second");
    let successes_per_second = section.count("successes-per-second");
    let sample = section.count("sample");
    let envelope = match section.text("output")?.as_str() {
        SYSLOG => Envelope::Syslog(facility(section)?),
        JOURNALD => Envelope::Journal,
        _ => Envelope::Bare,
    };
    Some(LogOptions {
        connections: connections?,
        format: format?,
        envelope,
        failures_per_second: failures_per_second?,
        successes_per_second: successes_per_second?,
        sample: sample?,
    })
}

pub(crate) struct Outputs {
    pub(crate) connections: LogOutput,
    pub(crate) message_form: MessageForm,
    /// `None` = the standard error.
    pub(crate) messages: Option<LogDaemon>,
}

/// Reads where lines and messages go.
pub(crate) fn outputs(section: &Section<'_>, shelf: &Shelf<'_>) -> Option<Outputs> {
    let connections = match section.text("output")?.as_str() {
        "stdout" => LogOutput::Stdout,
        "stderr" => LogOutput::Stderr,
        name @ (SYSLOG | JOURNALD) => LogOutput::Daemon(log_daemon(section, name, shelf)?),
        path => LogOutput::File(shelf.base.join(path)),
    };
    let message_form = section.choice(
        "messages",
        &[
            ("auto", MessageForm::Auto),
            ("plain", MessageForm::Plain),
            ("text", MessageForm::Text),
            ("json", MessageForm::Json),
        ],
    );
    let daemons = [
        ("stderr", None),
        (SYSLOG, Some(SYSLOG)),
        (JOURNALD, Some(JOURNALD)),
    ];
    let messages = match section.choice("messages-output", &daemons)? {
        Some(name) => Some(log_daemon(section, name, shelf)?),
        None => None,
    };
    warn_of_unused_daemons(section)?;
    Some(Outputs {
        connections,
        message_form: message_form?,
        messages,
    })
}

/// The log daemon of this name, from `[log]`.
fn log_daemon(section: &Section<'_>, name: &str, shelf: &Shelf<'_>) -> Option<LogDaemon> {
    if name == JOURNALD {
        let text = section.text(JOURNALD)?;
        let path = shelf.base.join(text.strip_prefix("unix:").unwrap_or(&text));
        let address = format!("unix:{}", path.display());
        if let Err(error) = address.parse::<Address>() {
            section.refuse(
                JOURNALD,
                format!("{} {error}", path.display()),
                "name a socket",
            );
            return None;
        }
        return Some(LogDaemon::Journal(path));
    }
    let address = section.section(SYSLOG).one("address", syslog_address)?;
    Some(LogDaemon::Syslog {
        address,
        facility: facility(section)?,
    })
}

fn syslog_address(value: &Value, key: &Key) -> Result<Address, Problem> {
    let hint = || format!("for example: {}", key.example);
    let text = options::text(value).map_err(|problem| problem.hint(hint()))?;
    match text.parse().map(|Zoned(address)| address) {
        Ok(Address::Ip(address)) if address.port() == 0 => {
            Err(Problem::new("has the port 0").hint("syslog over UDP is usually at port 514"))
        }
        Ok(Address::Ip(address)) if address.ip().is_unspecified() => {
            Err(Problem::new(format!("\"{text}\" is no address to send to")).hint(hint()))
        }
        Ok(Address::Inherited(_)) => Err(Problem::new("is a listening socket").hint(hint())),
        Ok(address) => Ok(address),
        Err(error) => Err(Problem::new(format!("\"{text}\" {error}")).hint(hint())),
    }
}

fn facility(section: &Section<'_>) -> Option<Facility> {
    let syslog = section.section(SYSLOG);
    syslog.choice("facility", &Facility::NAMED)
}

fn warn_of_unused_daemons(section: &Section<'_>) -> Option<()> {
    let outputs = [section.text("output")?, section.text("messages-output")?];
    for name in [SYSLOG, JOURNALD] {
        if section.has(name) && !outputs.iter().any(|output| output == name) {
            let problem = Problem::new("has no effect: nothing goes there");
            let hint = format!(
                "write output = \"{name}\" or messages-output = \"{name}\", or take it out"
            );
            section.warn(name, problem.hint(hint));
        }
    }
    Some(())
}
