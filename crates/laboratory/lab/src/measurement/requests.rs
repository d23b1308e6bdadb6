//! What a server logged of the requests of a program that loads it (`requests.log`).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;

use measure::kind::Kind;
use measure::record::Handshakes;

use super::failure::Failure;
use crate::target::server::REQUEST_LOG;
use crate::target::server_spec::ServerSpec;

/// All requests of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Requests {
    pub(crate) succeeded: u64,
    /// What was negotiated for the connections that they came by.
    pub(crate) handshakes: Vec<Handshakes>,
}

/// The requests that the server of this folder logged since it started, or since they were read.
///
/// # Errors
/// There is no log, or it is malformed.
pub(crate) fn read(folder: &Path, spec: &ServerSpec) -> Result<Requests, Failure> {
    let path = folder.join(REQUEST_LOG);
    let failed = |why: &dyn Display| Failure::Failed(format!("{}: {why}", path.display()));
    let log = fs::read_to_string(&path).map_err(|fault| failed(&fault))?;
    // It grows by megabytes, and the run's folder stays until its end.
    let _ = fs::remove_file(&path);
    parse(&log, spec).ok_or_else(|| failed(&"a line is malformed"))
}

/// Reads a log of nginx: `$ssl_protocol $ssl_cipher $ssl_curve $ssl_session_reused $status
/// $connection_requests` in each line, `-` for what is empty. By what a resumed session was
/// resumed the log does not say, but the server was asked for.
fn parse(log: &str, spec: &ServerSpec) -> Option<Requests> {
    let mut requests = Requests::default();
    let mut counts = BTreeMap::<(&str, &str, &str, bool), u64>::new();
    for line in log.lines() {
        let mut fields = line.split(' ');
        let mut next = || fields.next();
        let (version, suite, group) = (next()?, next()?, next()?);
        let is_resumed = next()? == "r";
        requests.succeeded += u64::from(next()?.starts_with('2'));
        if next()? == "1" {
            *counts
                .entry((version, suite, group, is_resumed))
                .or_default() += 1;
        }
    }
    let handshakes = counts.into_iter();
    let handshakes = handshakes.map(|((version, suite, group, is_resumed), count)| Handshakes {
        kind: match (is_resumed, version, spec.tickets) {
            (false, ..) => Kind::Full,
            (true, "TLSv1.3", _) => Kind::Psk,
            (true, _, true) => Kind::Ticket,
            (true, _, false) => Kind::SessionId,
        },
        version: version.to_owned(),
        suite: suite.to_owned(),
        group: (group != "-").then(|| group.to_ascii_lowercase()),
        signature: None,
        alpn: None,
        retried: false,
        early_data_accepted: None,
        count,
    });
    requests.handshakes = handshakes.collect();
    Some(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_once_and_a_request_each_time() {
        let log = "TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 . 200 1\n\
                   TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 . 200 2\n\
                   TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 r 404 1\n\
                   TLSv1.2 ECDHE-ECDSA-AES128-GCM-SHA256 - r 200 1\n";
        let requests = parse(log, &ServerSpec::default()).unwrap();
        assert_eq!(requests.succeeded, 3);
        let kinds: Vec<_> = requests.handshakes.iter().map(|row| row.kind).collect();
        assert_eq!(kinds, [Kind::Ticket, Kind::Full, Kind::Psk]);
        assert_eq!(requests.handshakes[0].group, None);
        assert_eq!(requests.handshakes[1].group.as_deref(), Some("x25519"));
        assert_eq!(parse("rubbish\n", &ServerSpec::default()), None);
    }
}
