//! The keys of a service's back: servers, or what we answer ourselves.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use backend::options::{
    Balance, CheckKind, CheckOptions, Options, PassiveOptions, QueueOptions, ServerOptions,
};
use options::{Problem, Section, all};
use proxy::options::{
    AddressFamily, BackOptions, CertificateForm, FileTimeouts, FilesOptions, ProxyTlvs, RateMin,
    SendProxy, ServersOptions, SourceAddress,
};
use static_files::options::Redirect;
use sys::socket::Zoned;
use wire::address::Endpoint;

use crate::back_tls;
use crate::certificates::Shelf;
use crate::front::liveness;

/// A connection remembers the servers it tried; this many fit.
const SERVERS_MAX: usize = 1024;

const KEYS_OF_SERVERS: &[&str] = &[
    "keepalive",
    "source",
    "balance",
    "affinity",
    "slow-start",
    "resolve",
    "resolve-family",
    "queue",
    "check",
    "passive",
    "send-proxy",
    "early-data-safe",
    "starttls",
    "tls",
];

/// What only files can be told, in `service.timeouts`; the first holds for redirects too.
const TIMEOUTS_OF_FILES: [&str; 2] = ["request", "file"];

/// What means nothing for files that are served beside redirects.
const KEYS_OF_NO_CHALLENGE: [&str; 3] = ["index", "hidden", "precompressed"];

/// Reads `service.back`, and what of `service.timeouts` is for files; relative paths begin at
/// the shelf's base.
pub(crate) fn read(
    back: &Section<'_>,
    times: &Section<'_>,
    redirect: Option<Redirect>,
    unacknowledged: Option<Option<Duration>>,
    shelf: &mut Shelf<'_>,
) -> Option<BackOptions> {
    let (has_files, is_redirected) = (back.has("files"), redirect.is_some());
    for (name, has_effect) in TIMEOUTS_OF_FILES.iter().zip([is_redirected, false]) {
        if !has_files && !has_effect && times.has(name) {
            let problem = Problem::new("has no effect: there are no files");
            times.warn(name, problem.hint("take it out"));
        }
    }
    match (back.has("servers"), has_files || is_redirected) {
        (false, true) => {
            let files = files(back, times, redirect, &shelf.base);
            for name in KEYS_OF_SERVERS.iter().filter(|name| back.has(name)) {
                let problem = Problem::new("has no effect: there are no servers");
                back.warn(name, problem.hint("take it out"));
            }
            files.map(BackOptions::Files)
        }
        (true, true) if is_redirected => {
            let message = "is no use beside `front.redirect`: no request would get there";
            back.refuse("servers", message, "take one of them out");
            None
        }
        (true, true) => {
            let problem = Problem::new("stands beside `servers`, and one connection gets one");
            let hint = "take one of them out, or make two services";
            back.error("files", problem.hint(hint));
            None
        }
        (true, false) => servers_options(back, unacknowledged, shelf).map(BackOptions::Servers),
        (false, false) => {
            back.neither("servers", "files");
            None
        }
    }
}

/// In place of a back with a fault: never to be served.
pub(crate) fn nothing() -> BackOptions {
    BackOptions::Files(FilesOptions {
        folder: None,
        serving: static_files::options::Options::default(),
        timeouts: FileTimeouts {
            request: Duration::ZERO,
            file: Duration::ZERO,
            rate_min: None,
        },
    })
}

fn files(
    back: &Section<'_>,
    times: &Section<'_>,
    redirect: Option<Redirect>,
    base: &Path,
) -> Option<FilesOptions> {
    let files = &back.section("files");
    let root = if back.has("files") {
        files.text("root").map(Some)
    } else {
        Some(None)
    };
    let is_written = |name: &&&str| redirect.is_some() && files.has(name);
    for name in KEYS_OF_NO_CHALLENGE.iter().filter(is_written) {
        let message = "has no effect beside `front.redirect`: only ACME challenges are served";
        files.warn(name, Problem::new(message).hint("take it out"));
    }
    let index = index(files);
    let hidden = files.boolean("hidden");
    let precompressed = files.boolean("precompressed");
    let request = times.duration("request");
    let file = times.duration("file");
    let bytes_per_second = files.if_written("min-rate", Section::size);
    let window = files.duration("min-rate-window");
    if files.has("min-rate-window") && !files.has("min-rate") {
        let problem = Problem::new("has no effect: there is no `min-rate`");
        files.warn("min-rate-window", problem.hint("add min-rate = \"1KiB\""));
    }
    let rate_min = bytes_per_second.zip(window).map(|(bytes, window)| {
        bytes.map(|bytes| RateMin {
            bytes_per_second: bytes as u64,
            window,
        })
    });
    Some(FilesOptions {
        folder: root?.map(|root| base.join(root)),
        serving: static_files::options::Options {
            index: index?,
            hidden: hidden?,
            precompressed: precompressed?,
            redirect,
        },
        timeouts: FileTimeouts {
            request: request?,
            file: file?,
            rate_min: rate_min?,
        },
    })
}

fn index(files: &Section<'_>) -> Option<Vec<String>> {
    if !files.has("index") {
        return Some(static_files::options::Options::default().index);
    }
    let names = files.texts("index")?;
    let Some(bad) = names.iter().find(|name| !is_file_name(name)) else {
        return Some(names);
    };
    let problem = Problem::new(format!("\"{}\" is no name of a file", bad.escape_debug()));
    files.error("index", problem.hint("name it without its folder"));
    None
}

fn is_file_name(name: &str) -> bool {
    !matches!(name, "." | "..") && !name.contains(['/', '\0'])
}

fn servers_options(
    back: &Section<'_>,
    unacknowledged: Option<Option<Duration>>,
    shelf: &mut Shelf<'_>,
) -> Option<ServersOptions> {
    let servers = servers(back);
    let balance = back.choice(
        "balance",
        &[
            ("round-robin", Balance::RoundRobin),
            ("least-connections", Balance::LeastConnections),
            ("source", Balance::Source),
        ],
    );
    let by_session = |back: &Section<'_>, name: &str| back.choice(name, &[("session-id", ())]);
    let affinity = back.if_written("affinity", by_session);
    let passive = passive(&back.section("passive"));
    let resolve = back.duration("resolve");
    let resolve_family = back.choice(
        "resolve-family",
        &[
            ("any", AddressFamily::Any),
            ("ipv4", AddressFamily::Ipv4),
            ("ipv6", AddressFamily::Ipv6),
        ],
    );
    let slow_start = back.duration("slow-start");
    let queue = queue(back, servers.as_deref().unwrap_or_default());
    let check = match back.section_if_written("check") {
        Some(section) => check(&section).map(Some),
        None => Some(None),
    };
    let liveness = liveness(back, unacknowledged);
    let source = source(back);
    let send_proxy = match back.section_if_written("send-proxy") {
        Some(section) => send_proxy(&section),
        None => Some(SendProxy::Off),
    };
    let servers = servers?;
    let tls = back_tls::read(back, &servers, shelf);
    Some(ServersOptions {
        tls: tls?,
        affinity: affinity?.is_some(),
        pool: Options {
            servers,
            balance: balance?,
            passive: passive?,
            check: check?,
            slow_start: slow_start?,
            queue: queue?,
        },
        liveness: liveness?,
        resolve: resolve?,
        resolve_family: resolve_family?,
        source: source?,
        send_proxy: send_proxy?,
    })
}

fn source(back: &Section<'_>) -> Option<SourceAddress> {
    let Some(text) = back.text_if_written("source")? else {
        return Some(SourceAddress::Any);
    };
    if text == "client" {
        return Some(SourceAddress::Client);
    }
    let each = text.split(',').map(|one| one.trim().parse());
    let own: Result<Vec<IpAddr>, _> = each.collect();
    match own.as_deref() {
        Ok([first, second]) if first.is_ipv4() == second.is_ipv4() => {
            back.refuse(
                "source",
                "has two addresses of one family",
                "keep one of them",
            );
            None
        }
        Ok(own @ ([_] | [_, _])) => Some(SourceAddress::Own(own.to_vec())),
        _ => {
            let hint = "write \"client\", or an IP address, or one of each family";
            back.refuse(
                "source",
                "is no address that connections can come from",
                hint,
            );
            None
        }
    }
}

fn servers(back: &Section<'_>) -> Option<Vec<ServerOptions>> {
    let sections = back.sections("servers");
    if sections.len() > SERVERS_MAX {
        back.error(
            "servers",
            Problem::new(format!("has more than {SERVERS_MAX} servers")),
        );
        return None;
    }
    let each = all(sections.iter().map(server))?;
    repeated(&sections, &each);
    let servers: Vec<_> = each.into_iter().flat_map(instances).collect();
    if servers.len() > SERVERS_MAX {
        let message = format!("has more than {SERVERS_MAX} servers, those of records among them");
        back.refuse("servers", message, "lower `instances`");
        return None;
    }
    if !servers.is_empty() && servers.iter().all(|server| server.backup) {
        let problem = Problem::new("are all backups, so they are used as if none were");
        back.warn(
            "servers",
            problem.hint("leave `backup` out of those in daily use"),
        );
    }
    (!servers.is_empty()).then_some(servers)
}

fn server(section: &Section<'_>) -> Option<ServerOptions> {
    let endpoint = section.parsed::<Zoned<Endpoint>>("address");
    let weight = section.count("weight");
    let backup = section.boolean("backup");
    let connections_max = if section.has("max-connections") {
        section.count("max-connections").map(Some)
    } else {
        Some(None)
    };
    let instances = section.count("instances");
    let Zoned(mut endpoint) = endpoint?;
    if let Endpoint::Service { count, .. } = &mut endpoint {
        *count = instances?;
        let message = "has no effect: records say it (RFC 2782)";
        if section.has("weight") {
            section.warn("weight", Problem::new(message).hint("take it out"));
        }
    } else if section.has("instances") {
        let problem = Problem::new("has no effect: the address has no SRV records");
        let hint = "write address = \"srv:_http._tcp.example\", or take it out";
        section.warn("instances", problem.hint(hint));
    }
    if endpoint.tcp_port() == Some(0) {
        section.error(
            "address",
            Problem::new("has port 0, which nobody listens at"),
        );
        return None;
    }
    Some(ServerOptions {
        endpoint,
        weight: weight?,
        backup: backup?,
        connections_max: connections_max?,
    })
}

/// One for each record that there may be.
fn instances(server: ServerOptions) -> Vec<ServerOptions> {
    let Endpoint::Service { host, count, .. } = &server.endpoint else {
        return vec![server];
    };
    let one = |number| ServerOptions {
        endpoint: Endpoint::Service {
            host: host.clone(),
            number,
            count: *count,
        },
        ..server.clone()
    };
    (1..=*count).map(one).collect()
}

fn repeated(sections: &[Section<'_>], servers: &[ServerOptions]) {
    for (index, (section, server)) in sections.iter().zip(servers).enumerate() {
        let earlier = servers.iter().take(index);
        if earlier
            .clone()
            .any(|other| other.endpoint == server.endpoint)
        {
            let problem = Problem::new(format!("{} stands there twice", server.endpoint));
            section.warn(
                "address",
                problem.hint("a larger share is written as a `weight`"),
            );
        }
    }
}

fn queue(back: &Section<'_>, servers: &[ServerOptions]) -> Option<QueueOptions> {
    let queue = back.section("queue");
    let length = queue.count("length");
    let timeout = queue.duration("timeout");
    if back.has("queue")
        && servers
            .iter()
            .all(|server| server.connections_max.is_none())
    {
        let problem = Problem::new("has no effect: no server has `max-connections`");
        back.warn("queue", problem.hint("take it out"));
    }
    Some(QueueOptions {
        length: length?,
        timeout: timeout?,
    })
}

fn passive(passive: &Section<'_>) -> Option<PassiveOptions> {
    let failures = passive.count("failures");
    let ejection_time = passive.duration("ejection-time");
    Some(PassiveOptions {
        failures: failures?,
        ejection_time: ejection_time?,
    })
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Asked {
    Http,
    Tcp,
    Tls,
}

fn check(check: &Section<'_>) -> Option<CheckOptions> {
    let asked = check.choice(
        "kind",
        &[
            ("tcp", Asked::Tcp),
            ("tls", Asked::Tls),
            ("http", Asked::Http),
        ],
    );
    let path = check.text("path");
    let host = if check.has("host") {
        check.text("host").map(Some)
    } else {
        Some(None)
    };
    let interval = check.duration("interval");
    let timeout = check.duration("timeout");
    let fall = check.count("fall");
    let rise = check.count("rise");
    let (asked, path, host) = (asked?, path?, host?);
    check_fits(check, asked, &path, host.as_deref())?;
    Some(CheckOptions {
        kind: match asked {
            Asked::Http => CheckKind::Http { path, host },
            Asked::Tcp => CheckKind::Tcp,
            Asked::Tls => CheckKind::Tls { name: host },
        },
        interval: interval?,
        timeout: timeout?,
        fall: fall?,
        rise: rise?,
    })
}

fn check_fits(check: &Section<'_>, asked: Asked, path: &str, host: Option<&str>) -> Option<()> {
    if asked != Asked::Http && check.has("path") {
        check.warn(
            "path",
            Problem::new("has no effect on a check that is not `http`"),
        );
    }
    if asked == Asked::Tcp && check.has("host") {
        check.warn("host", Problem::new("has no effect on a `tcp` check"));
    }
    let printable = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    if !path.starts_with('/') || !printable(path) {
        let problem = Problem::new(format!("\"{}\" is no path", path.escape_debug()));
        check.error("path", problem.hint("it begins with / and has no space"));
        return None;
    }
    if host.is_some_and(|host| !printable(host)) {
        check.error("host", Problem::new("is no host name"));
        return None;
    }
    Some(())
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Header {
    Off,
    Pass,
    V1,
    V2,
}

fn send_proxy(section: &Section<'_>) -> Option<SendProxy> {
    let header = section.choice(
        "version",
        &[
            ("off", Header::Off),
            ("v1", Header::V1),
            ("v2", Header::V2),
            ("pass", Header::Pass),
        ],
    );
    let tlvs = tlvs(section);
    let (header, tlvs) = (header?, tlvs?);
    if header != Header::V2 {
        const TLVS: [&str; 6] = [
            "alpn",
            "authority",
            "tls",
            "crc32c",
            "unique-id",
            "client-certificate",
        ];
        for name in TLVS.iter().filter(|name| section.has(name)) {
            section.warn(
                name,
                Problem::new("has an effect only with version = \"v2\""),
            );
        }
    }
    Some(match header {
        Header::Off => SendProxy::Off,
        Header::Pass => SendProxy::Pass,
        Header::V1 => SendProxy::V1,
        Header::V2 => SendProxy::V2(tlvs),
    })
}

fn tlvs(section: &Section<'_>) -> Option<ProxyTlvs> {
    let alpn = section.boolean("alpn");
    let authority = section.boolean("authority");
    let ssl = section.boolean("tls");
    let crc32c = section.boolean("crc32c");
    let unique_id = section.boolean("unique-id");
    let client_certificate = section.choice(
        "client-certificate",
        &[
            ("off", None),
            ("der", Some(CertificateForm::Der)),
            ("pem", Some(CertificateForm::Pem)),
        ],
    );
    Some(ProxyTlvs {
        alpn: alpn?,
        authority: authority?,
        ssl: ssl?,
        crc32c: crc32c?,
        unique_id: unique_id?,
        client_certificate: client_certificate?,
    })
}
