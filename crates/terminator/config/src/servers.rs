//! Keys of a service's servers: addresses, balancing, checks and PROXY headers.

use std::net::IpAddr;
use std::time::Duration;

use backend::options::{PassiveOptions, QueueOptions, ServerOptions};
use options::quantity::{DAY, HOUR};
use options::row::{boolean, count, duration, parsed};
use options::{Field, Kind, Problem, Severity, Tables, all, choice, section, table};
use proxy::options::{CertificateForm, ProxyTlvs, SendProxy, SourceAddress};
use sys::socket::AddressWithZone;
use wire::address::Endpoint;

/// Most servers of a service: a connection remembers the servers it tried, and this many fit.
const SERVERS_MAX: usize = 1024;

section! {
    table("service.back.servers")
        .many().absent("the service has `files`").shorthand("address").flag("backend")
        .example("servers = [\"10.0.0.3:80\", { address = \"unix:/run/app.sock\", backup = true \
         }]");
    /// The servers, at most 1024. Flags of the keys beneath follow their `--backend`. See
    /// docs/guide/servers.md.
    pub(crate) struct WrittenServer<'a> {
        /// An IP address or host name with a port, `unix:/path`, abstract `unix:@name`, or
        /// `srv:_service._tcp.name` for the servers of SRV records (RFC 2782).
        address: AddressWithZone<Endpoint> = parsed(Kind::Endpoint)
            .example(r#"address = "app.internal:8080""#),
        /// The most servers that a `srv:` address stands for; records with the highest priority
        /// numbers are left out.
        instances: u16 = count(1, 64).default("8").flag("instances").example("instances = 4"),
        /// The server's share of connections, relative to the others'.
        weight: u16 = count(1, 256).default("1").flag("weight").example("weight = 3"),
        /// Used only while no other server is up.
        backup: bool = boolean().default("false").flag("backup").example("backup = true"),
        /// Connections and dials of the server at once, over all workers; others go elsewhere, or
        /// wait (`back.queue`).
        max_connections: Option<u32> = count(1, 10_000_000)
            .absent("no limit").flag("server-max-connections").example("max-connections = 100"),
    }
}

section! {
    table("service.back.queue")
        .absent("").example(r#"queue = { length = 100, timeout = "2s" }"#);
    /// Connections that wait while all servers have `max-connections`.
    pub(crate) struct WrittenQueue<'a> {
        /// How many may wait, over all workers; further ones end. 0 = none.
        length: usize = count(0, 10_000)
            .default("1000").flag("queue-length").example("length = 100"),
        /// How long a connection may wait before it ends.
        timeout: Duration = duration(Duration::from_millis(10), HOUR)
            .default("5s").flag("queue-timeout").example(r#"timeout = "2s""#),
    }
}

section! {
    table("service.back.passive")
        .absent("")
        .example(r#"passive = { failures = 5, ejection-time = "30s" }"#);
    /// When failed dials eject a server.
    pub(crate) struct WrittenPassive<'a> {
        /// Failed dials in a row that eject a server; 0 = never.
        failures: u32 = count(0, 1000)
            .default("3").flag("passive-failures").example("failures = 5"),
        /// How long the server is ejected before one connection tries it again.
        ejection_time: Duration = duration(Duration::from_millis(100), DAY)
            .default("10s").flag("passive-ejection-time").example(r#"ejection-time = "30s""#),
    }
}

section! {
    table("service.back.send-proxy")
        .absent("no header is sent").shorthand("version")
        .example(r#"send-proxy = { version = "v2", crc32c = true }"#);
    /// The PROXY header that servers get first.
    pub(crate) struct WrittenSendProxy<'a> {
        /// `v1` is text, `v2` binary with the TLVs below; `pass` forwards the client's own, and
        /// needs `front.accept-proxy`.
        version: HeaderWord = choice![
            "off" => HeaderWord::Off,
            "v1" => HeaderWord::V1,
            "v2" => HeaderWord::V2,
            "pass" => HeaderWord::Pass,
        ].flag("send-proxy").example(r#"version = "v2""#),
        /// The negotiated protocol (PP2_TYPE_ALPN).
        alpn: bool = boolean().default("true").flag("send-proxy-alpn").example("alpn = false"),
        /// The server name that the client asked for (PP2_TYPE_AUTHORITY).
        authority: bool = boolean()
            .default("true").flag("send-proxy-authority").example("authority = false"),
        /// Version, cipher, client's common name, verify result, signature and key algorithm
        /// (PP2_TYPE_SSL).
        tls: bool = boolean().default("true").flag("send-proxy-tls").example("tls = false"),
        /// A checksum of the header (PP2_TYPE_CRC32C).
        crc32c: bool = boolean()
            .default("false").flag("send-proxy-crc32c").example("crc32c = true"),
        /// The connection's id as in our log (PP2_TYPE_UNIQUE_ID).
        unique_id: bool = boolean()
            .default("false").flag("send-proxy-unique-id").example("unique-id = true"),
        /// The JA4 fingerprint of the client's hello in TLV 0xe2, as text.
        ja4: bool = boolean().default("false").flag("send-proxy-ja4").example("ja4 = true"),
        /// Whether the header is inside of `back.tls`; most servers want it before.
        inside_tls: bool = boolean()
            .default("false").flag("send-proxy-inside-tls").example("inside-tls = true"),
        /// The client's certificate in TLV 0xe0, as of hitch. HAProxy refuses fields over 1024
        /// bytes.
        client_certificate: Option<CertificateForm> = choice![
            "off" => None,
            "der" => Some(CertificateForm::Der),
            "pem" => Some(CertificateForm::Pem),
        ].default("off").flag("send-proxy-client-certificate")
            .example(r#"client-certificate = "der""#),
    }
}

/// Version of a PROXY header, as written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HeaderWord {
    Off,
    Pass,
    V1,
    V2,
}

pub(crate) fn source_address(source: &Field<'_, Option<String>>) -> Option<SourceAddress> {
    let Some(text) = source.value.as_ref()? else { return Some(SourceAddress::Any) };
    if text == "client" {
        return Some(SourceAddress::Client);
    }
    let each = text.split(',').map(|one| one.trim().parse());
    let own: Result<Vec<IpAddr>, _> = each.collect();
    match own.as_deref() {
        Ok([first, second]) if first.is_ipv4() == second.is_ipv4() => {
            source.fail("has two addresses of one family", "keep one of them")
        }
        Ok(own @ ([_] | [_, _])) => Some(SourceAddress::Own(own.to_vec())),
        _ => {
            let hint = "write \"client\", or an IP address, or one of each family";
            source.fail("is no address that connections can come from", hint)
        }
    }
}

pub(crate) fn server_list(written: &Tables<'_, WrittenServer<'_>>) -> Option<Vec<ServerOptions>> {
    let tables = written.required();
    if tables.len() > SERVERS_MAX {
        let message = format!("has more than {SERVERS_MAX} servers");
        written.error(Problem::new(message));
        return None;
    }
    let each = all(tables.iter().map(server))?;
    repeated(tables, &each);
    let servers: Vec<_> = each.into_iter().flat_map(instances).collect();
    if servers.len() > SERVERS_MAX {
        let message = format!("has more than {SERVERS_MAX} servers, those of records among them");
        return written.fail(message, "lower `instances`");
    }
    if !servers.is_empty() && servers.iter().all(|server| server.backup) {
        let message = "are all backups, so they are used as if none were";
        written.warn(message, "leave `backup` out of those in daily use");
    }
    (!servers.is_empty()).then_some(servers)
}

fn server(written: &WrittenServer<'_>) -> Option<ServerOptions> {
    let AddressWithZone(mut endpoint) = written.address.value.clone()?;
    if let Endpoint::Service { count, .. } = &mut endpoint {
        *count = written.instances.value?;
        let message = "has no effect: records say it (RFC 2782)";
        written.weight.warn_unless(false, message, "take it out");
    } else {
        let message = "has no effect: the address has no SRV records";
        let hint = "write address = \"srv:_http._tcp.example\", or take it out";
        written.instances.warn_unless(false, message, hint);
    }
    if endpoint.tcp_port() == Some(0) {
        let problem = Problem::new("has port 0, which nobody listens at");
        written.address.error(problem);
        return None;
    }
    Some(ServerOptions {
        endpoint,
        weight: written.weight.value?,
        backup: written.backup.value?,
        connections_max: written.max_connections.value?,
    })
}

/// Returns one server for each possible SRV record.
fn instances(server: ServerOptions) -> Vec<ServerOptions> {
    let Endpoint::Service { host, count, .. } = &server.endpoint else { return vec![server] };
    let one = |number| ServerOptions {
        endpoint: Endpoint::Service { host: host.clone(), number, count: *count },
        ..server.clone()
    };
    (1..=*count).map(one).collect()
}

fn repeated(tables: &[WrittenServer<'_>], servers: &[ServerOptions]) {
    for (index, (table, server)) in tables.iter().zip(servers).enumerate() {
        let mut earlier = servers.iter().take(index);
        if earlier.any(|other| other.endpoint == server.endpoint) {
            let message = format!("{} stands there twice", server.endpoint);
            table.address.warn(message, "a larger share is written as a `weight`");
        }
    }
}

pub(crate) fn queue_options(
    queue: &WrittenQueue<'_>,
    servers: &[ServerOptions],
) -> Option<QueueOptions> {
    let is_limited = |server: &ServerOptions| server.connections_max.is_some();
    let message = "has no effect: no server has `max-connections`";
    queue.at.warn_unless(servers.iter().any(is_limited), message, "take it out");
    Some(QueueOptions { length: queue.length.value?, timeout: queue.timeout.value? })
}

pub(crate) fn passive_options(passive: &WrittenPassive<'_>) -> Option<PassiveOptions> {
    Some(PassiveOptions {
        failures: passive.failures.value?,
        ejection_time: passive.ejection_time.value?,
    })
}

pub(crate) fn send_proxy(written: &WrittenSendProxy<'_>) -> Option<SendProxy> {
    let version = written.version.value?;
    if version != HeaderWord::V2 {
        for place in [
            &*written.alpn,
            &*written.authority,
            &*written.tls,
            &*written.crc32c,
            &*written.unique_id,
            &*written.ja4,
            &*written.client_certificate,
        ]
        .into_iter()
        .filter(|place| place.is_written())
        {
            let problem = Problem::new("has an effect only with version = \"v2\"");
            place.say(Severity::Warning, problem);
        }
    }
    Some(match version {
        HeaderWord::Off => SendProxy::Off,
        HeaderWord::Pass => SendProxy::Pass,
        HeaderWord::V1 => SendProxy::V1,
        HeaderWord::V2 => SendProxy::V2(ProxyTlvs {
            alpn: written.alpn.value?,
            authority: written.authority.value?,
            ssl: written.tls.value?,
            crc32c: written.crc32c.value?,
            unique_id: written.unique_id.value?,
            ja4: written.ja4.value?,
            client_certificate: written.client_certificate.value?,
        }),
    })
}
