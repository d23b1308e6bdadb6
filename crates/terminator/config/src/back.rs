//! Keys of a service's back: servers, or responses by Lariat itself.

use std::path::Path;
use std::time::Duration;

use backend::options::{Balance, DownAction, Options};
use options::quantity::{DAY, HOUR};
use options::row::{boolean, duration, path, size, text};
use options::{Field, KeyPlace, Nested, Tables, choice, section, table};
use proxy::options::{
    AddressFamily, BackOptions, BackTlsOptions, FileTimeouts, FilesOptions, RateMin, SendProxy,
    ServersOptions,
};
use static_files::options::Redirect;
use wire::starttls::Dialect;

use crate::back_tls::{WrittenBackTls, back_tls_options};
use crate::resolver::{FileResolver, optional};
use crate::server_check::{WrittenCheck, check_options};
use crate::servers::{self, WrittenPassive, WrittenQueue, WrittenSendProxy, WrittenServer};
use crate::timeouts::{KEEPALIVE_MAX, WrittenTimeouts, liveness};
use crate::tunnel::{WrittenTunnel, tunnel_options};

section! {
    table("service.back").group("Back")
        .absent("the service has `front.redirect`")
        .example(r#"back = { servers = ["127.0.0.1:80"] }"#);
    /// Servers, or static files of this host.
    pub(crate) struct WrittenBack<'a> {
        files: Option<WrittenFiles<'a>>,
        servers: Tables<'a, WrittenServer<'a>>,
        /// How often servers' names are looked up again, whatever the TTL. For a name of several
        /// services the shortest counts.
        resolve: Duration = duration(Duration::from_secs(1), DAY)
            .default("10s").flag("resolve").example(r#"resolve = "1m""#),
        /// The addresses of names that are used.
        resolve_family: AddressFamily = choice![
            "any" => AddressFamily::Any,
            "ipv4" => AddressFamily::Ipv4,
            "ipv6" => AddressFamily::Ipv6,
        ].default("any").flag("resolve-family").example(r#"resolve-family = "ipv4""#),
        /// How long a server that comes back up, or is enabled, grows from a tenth of its share.
        slow_start: Duration = duration(Duration::ZERO, DAY)
            .default("0s").flag("slow-start").example(r#"slow-start = "30s""#),
        /// Whether a server's open connections are kept when it goes down or is disabled, or reset
        /// on both sides (`close`).
        on_down: DownAction = choice![
            "keep" => DownAction::Keep,
            "close" => DownAction::Close,
        ].default("keep").flag("on-down").example(r#"on-down = "close""#),
        queue: WrittenQueue<'a>,
        /// How a server is chosen: in turn, by fewest open connections, or by client address
        /// (consistent hash); each by weight.
        balance: Balance = choice![
            "round-robin" => Balance::RoundRobin,
            "least-connections" => Balance::LeastConnections,
            "source" => Balance::Source,
        ].default("round-robin").flag("balance").example(r#"balance = "least-connections""#),
        /// With `passthrough`, clients go to the server that made or last resumed their session of
        /// TLS 1.2.
        affinity: Option<()> = choice!["session-id" => ()]
            .absent("none").flag("affinity").example(r#"affinity = "session-id""#),
        check: Option<WrittenCheck<'a>>,
        passive: WrittenPassive<'a>,
        /// As `front.keepalive`, for servers.
        keepalive: Duration = duration(Duration::ZERO, KEEPALIVE_MAX)
            .default("2m").flag("backend-keepalive").example(r#"keepalive = "30s""#),
        /// The address that servers see: one of this host, or one per family with a comma between
        /// (a family without one is not used), or `client`, the client's own (IP_TRANSPARENT). See
        /// docs/guide/access.md.
        source: Option<String> = text("ADDRESS")
            .absent("an address that the kernel chooses").flag("source")
            .example(r#"source = "10.0.0.5""#),
        /// The protocol in which servers are asked for TLS; it needs `back.tls`.
        starttls: Option<Dialect> = choice!(of Dialect: Dialect::ALL)
            .absent("servers begin with TLS, if `back.tls` is there").flag("backend-starttls")
            .example(r#"starttls = "smtp""#),
        /// The name that servers of `smtp` and `lmtp` are told (RFC 5321, 4.1.1.1).
        ehlo_name: Option<String> = text("NAME")
            .absent("this host's name, where it or /etc/hosts has it fully qualified; else the \
             host's address, as `[192.0.2.1]`")
            .flag("backend-ehlo-name").example(r#"ehlo-name = "mx.example.org""#),
        send_proxy: Option<WrittenSendProxy<'a>>,
        /// Whether servers may get early data without being told which it is: only if all requests
        /// may be repeated.
        early_data_safe: bool = boolean()
            .default("false").flag("early-data-safe").example("early-data-safe = true"),
        tls: Option<WrittenBackTls<'a>>,
        tunnel: Option<WrittenTunnel<'a>>,
    }
}

section! {
    table("service.back.files")
        .absent("the service has `servers`").shorthand("root").example(r#"files = "/data""#);
    /// A folder that is served by HTTP/1.1 in place of servers. A change takes a restart. See
    /// docs/guide/files.md.
    pub(crate) struct WrittenFiles<'a> {
        /// The folder. The worker process's user must be able to read the files.
        root: String = path().flag("files").example(r#"root = "/data""#),
        /// Files that are served for their folder, the preferred one first; `[]` = none.
        index: Vec<String> = text("NAME")
            .many().absent("`index.html`").flag("index")
            .example(r#"index = ["index.html", "index.txt"]"#),
        /// Whether names that begin with a dot are served.
        hidden: bool = boolean().default("false").flag("hidden").example("hidden = true"),
        /// Whether clients that accept it get `x.br` or `x.gz` in place of `x`.
        precompressed: bool = boolean()
            .default("true").flag("precompressed").example("precompressed = false"),
        /// Bytes per second that a client must acknowledge on average; a slower one, such as a
        /// paused download, is reset.
        min_rate: Option<u64> = size(1, 1 << 40)
            .absent("a client may take as long as `timeouts.idle` lets it").flag("min-rate")
            .example(r#"min-rate = "1KiB""#),
        /// The time over which `min-rate` is averaged.
        min_rate_window: Duration = duration(Duration::from_secs(1), HOUR)
            .default("30s").flag("min-rate-window").example(r#"min-rate-window = "1m""#),
    }
}

/// Reads `service.back`, and the keys of `service.timeouts` that are for files. Relative paths
/// begin at `resolver.base`.
pub(crate) fn back_options(
    back: &WrittenBack<'_>,
    times: &WrittenTimeouts<'_>,
    redirect: Option<Redirect>,
    resolver: &mut FileResolver<'_>,
) -> Option<BackOptions> {
    let (has_files, is_redirected) = (back.files.is_some(), redirect.is_some());
    // Redirected requests have a timeout too.
    for (place, has_effect) in [(&times.request, is_redirected), (&times.file, false)] {
        let message = "has no effect: there are no files";
        place.warn_unless(has_files || has_effect, message, "take it out");
    }
    match (back.servers.is_written(), &back.files) {
        (true, _) if is_redirected => {
            let message = "is no use beside `front.redirect`: no request would get there";
            back.servers.fail(message, "take one of them out")
        }
        (true, Some(files)) => {
            let message = "stands beside `servers`, and one connection gets one";
            let hint = "take one of them out, or make two services";
            files.at.fail(message, hint)
        }
        (true, None) => servers_options(back, times, resolver).map(BackOptions::Servers),
        (false, files) if has_files || is_redirected => {
            let options = files_options(files.as_ref(), times, redirect, &resolver.base);
            for place in keys_of_servers(back) {
                place.warn("has no effect: there are no servers", "take it out");
            }
            options.map(BackOptions::Files)
        }
        (false, _) => {
            let wanted = [&WrittenServer::KEY, &WrittenFiles::KEY];
            back.at.table().lacks(&wanted);
            None
        }
    }
}

/// Returns the written keys that are for servers alone.
fn keys_of_servers<'a>(back: &WrittenBack<'a>) -> impl Iterator<Item = KeyPlace<'a>> {
    let written = back.at.table().written_keys();
    written.filter(|place| !matches!(place.key.name(), "files" | "ehlo-name"))
}

/// Makes the stand-in for a faulty back; it is never served.
pub(crate) fn nothing() -> BackOptions {
    BackOptions::Files(FilesOptions {
        folder: None,
        serving: static_files::options::Options::default(),
        timeouts: FileTimeouts { request: Duration::ZERO, file: Duration::ZERO, rate_min: None },
    })
}

fn files_options(
    files: Option<&WrittenFiles<'_>>,
    times: &WrittenTimeouts<'_>,
    redirect: Option<Redirect>,
    base: &Path,
) -> Option<FilesOptions> {
    let mut timeouts =
        FileTimeouts { request: times.request.value?, file: times.file.value?, rate_min: None };
    let mut serving =
        static_files::options::Options { redirect, ..static_files::options::Options::default() };
    let Some(files) = files else {
        return Some(FilesOptions { folder: None, serving, timeouts });
    };
    for place in [&*files.index, &*files.hidden, &*files.precompressed] {
        let message = "has no effect beside `front.redirect`: only ACME challenges are served";
        place.warn_unless(redirect.is_none(), message, "take it out");
    }
    let message = "has no effect: there is no `min-rate`";
    let hint = "add min-rate = \"1KiB\"";
    files.min_rate_window.warn_unless(files.min_rate.is_written(), message, hint);
    let window = files.min_rate_window.value?;
    timeouts.rate_min =
        files.min_rate.value?.map(|bytes_per_second| RateMin { bytes_per_second, window });
    if files.index.is_written() {
        serving.index = index(&files.index)?;
    }
    serving.hidden = files.hidden.value?;
    serving.precompressed = files.precompressed.value?;
    Some(FilesOptions { folder: Some(base.join(files.root.value.as_ref()?)), serving, timeouts })
}

fn index(written: &Field<'_, Vec<String>>) -> Option<Vec<String>> {
    let names = written.value.clone()?;
    let is_file_name =
        |name: &String| !matches!(&**name, "." | "..") && !name.contains(['/', '\0']);
    let Some(bad) = names.iter().find(|name| !is_file_name(name)) else { return Some(names) };
    let message = format!("\"{}\" is no name of a file", bad.escape_debug());
    written.fail(message, "name it without its folder")
}

fn servers_options(
    back: &WrittenBack<'_>,
    times: &WrittenTimeouts<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<ServersOptions> {
    let servers = servers::server_list(&back.servers);
    let queue = servers::queue_options(&back.queue, servers.as_deref().unwrap_or_default());
    let checked = servers.as_deref().unwrap_or_default();
    let check = optional(back.check.as_ref().map(|check| check_options(check, checked)));
    let source = servers::source_address(&back.source);
    let send_proxy = match &back.send_proxy {
        Some(written) => servers::send_proxy(written),
        None => Some(SendProxy::Off),
    };
    let tunnel = optional(back.tunnel.as_ref().map(|one| tunnel_options(one, resolver)));
    let servers = servers?;
    let tls = tls(back, &servers, resolver);
    Some(ServersOptions {
        tls: tls?,
        affinity: back.affinity.value?.is_some(),
        pool: Options {
            servers,
            balance: back.balance.value?,
            passive: servers::passive_options(&back.passive)?,
            check: check?.map(Box::new),
            slow_start: back.slow_start.value?,
            on_down: back.on_down.value?,
            queue: queue?,
        },
        liveness: liveness(&back.keepalive, times)?,
        resolve: back.resolve.value?,
        resolve_family: back.resolve_family.value?,
        source: source?,
        send_proxy: send_proxy?,
        tunnel: tunnel?,
    })
}

/// Reads the TLS towards the servers; `Some(None)` if they get plaintext.
fn tls(
    back: &WrittenBack<'_>,
    servers: &[backend::options::ServerOptions],
    resolver: &mut FileResolver<'_>,
) -> Option<Option<Box<BackTlsOptions>>> {
    let inside_tls = back.send_proxy.as_ref().map(|written| &written.inside_tls);
    let header_inside = inside_tls.map_or(Some(false), |key| key.value);
    match (&back.tls, inside_tls) {
        (Some(tls), _) => {
            // The certificate's name is that of the host behind the proxies.
            let servers = if back.tunnel.is_some() { &[] } else { servers };
            back_tls_options(tls, header_inside, servers, resolver)
        }
        (None, Some(key)) if header_inside? => {
            let message = "has no effect: servers get plaintext";
            key.warn(message, "add back.tls, or take it out");
            Some(None)
        }
        (None, _) => Some(None),
    }
}
