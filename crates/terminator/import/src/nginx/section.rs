//! The blocks `http` and `stream`: what their servers, upstreams and maps say, and where servers
//! listen.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use crate::convert::{UnusableValue, is_among, milliseconds, split_endpoint, time_text};
use crate::import::Import;
use crate::meanings::{self, Conversion, OptionSupport, Predecessor};
use crate::nginx::syntax::NginxDirective;
use crate::source::{Statement, Statements, switch};

/// Directives with a path in their last word, which may begin at the main file's folder.
const PATHS: &str = "\
    pid proxy_ssl_certificate proxy_ssl_certificate_key proxy_ssl_crl \
    proxy_ssl_trusted_certificate ssl_certificate ssl_certificate_key ssl_client_certificate \
    ssl_crl ssl_stapling_file ssl_trusted_certificate";

/// Blocks whose lines are no directives.
const DATA: &str = "charset_map geo geoip2 keyval map match split_clients types";

/// Beginnings of variables that say who a client is that nginx has verified.
const OF_CLIENT: [&str; 2] = ["$ssl_client", "$remote_user"];

/// Fields of requests which nginx empties for its own sake, and not because servers trust them.
const EMPTIED: &str = "accept-encoding connection expect proxy te upgrade";

/// A server block, with the directives that it alone has.
#[derive(Debug)]
pub(super) struct NginxServer {
    pub(super) written: Statement,
    pub(super) options: Statements,
    pub(super) listens: Vec<NginxListen>,
    /// `return` of an `if` block, as certbot writes it: some hosts are redirected.
    pub(super) redirect: Option<Statement>,
    /// The first directive by which some requests are refused.
    pub(super) restriction: Option<Statement>,
    /// All `proxy_pass`, in blocks too.
    pub(super) passes: Vec<Statement>,
}

/// An upstream block, or the lines of a map.
#[derive(Debug)]
pub(super) struct NginxBlock {
    pub(super) written: Statement,
    pub(super) options: Statements,
    pub(super) lines: Vec<Statement>,
}

/// All of `http` or of `stream`.
#[derive(Debug, Default)]
pub(super) struct NginxSection {
    pub(super) is_http: bool,
    pub(super) options: Statements,
    pub(super) servers: Vec<NginxServer>,
    pub(super) upstreams: Vec<NginxBlock>,
    pub(super) maps: Vec<NginxBlock>,
    /// The place of the first upstream of each name.
    names: HashMap<String, usize>,
    pub(super) restriction: Option<Statement>,
}

impl NginxSection {
    /// Whether connections get lines in a log: in `http` unless they are told not to, in `stream`
    /// if they are told to.
    pub(super) fn logs_connections(&self) -> bool {
        let all = self.servers.iter().map(|server| &server.options).chain([&self.options]);
        let mut logs = all.flat_map(|options| options.all("access_log"));
        self.is_http || logs.any(|written| written.value() != "off")
    }

    pub(super) fn gather(
        import: &mut Import,
        root: &Path,
        block: Vec<NginxDirective>,
        is_http: bool,
    ) -> Self {
        let mut section = Self { is_http, ..Self::default() };
        for one in block {
            if one.block.is_some() && is_among("map server upstream", &one.written.option) {
                let [servers, upstreams] = [section.servers.len(), section.upstreams.len()];
                let blocks = servers.max(upstreams).max(section.maps.len());
                if !import.has_room(blocks, &one.written.place) {
                    break;
                }
            }
            if import.is_full {
                break;
            }
            match (one.written.option.as_str(), &one.block) {
                ("server", Some(_)) => {
                    section.servers.push(NginxServer::gather(import, root, one, is_http));
                }
                ("upstream", Some(_)) => {
                    let name = one.written.value();
                    section.names.entry(name).or_insert(section.upstreams.len());
                    section.upstreams.push(NginxBlock::upstream(import, root, one));
                }
                ("map", Some(_)) => {
                    let map = NginxBlock::map(one);
                    let source = map.written.value().to_ascii_lowercase();
                    // The servers may be told who the client is by the variable that it makes.
                    if is_http && OF_CLIENT.iter().any(|begin| source.contains(begin)) {
                        section.restriction.get_or_insert_with(|| map.written.clone());
                    }
                    section.maps.push(map);
                }
                _ => take(import, root, one, &mut section.options, &mut section.restriction),
            }
        }
        section
    }

    pub(super) fn upstream(&self, name: &str) -> Option<&NginxBlock> {
        self.names.get(name).and_then(|place| self.upstreams.get(*place))
    }
}

impl NginxServer {
    fn gather(import: &mut Import, root: &Path, one: NginxDirective, is_http: bool) -> Self {
        let mut server = Self {
            written: one.written,
            options: Statements::default(),
            listens: Vec::new(),
            redirect: None,
            restriction: None,
            passes: Vec::new(),
        };
        one.block.iter().flatten().for_each(|inner| find_passes(inner, &mut server.passes));
        let mut of_root = Statements::default();
        for inner in one.block.unwrap_or_default() {
            let is_root = inner.written.option == "location" && inner.written.value() == "/";
            match (inner.written.option.as_str(), inner.block) {
                ("listen", None) => {
                    server.listens.extend(NginxListen::read(import, &inner.written, is_http));
                }
                ("if", Some(block)) if inner.written.value().starts_with("($host = ") => {
                    import.mapped(&inner.written, "requests of all hosts are alike");
                    for deeper in block {
                        let is_return = deeper.written.option == "return";
                        if is_return && deeper.written.value().starts_with("301 https://") {
                            import.expect(&deeper.written);
                            server.redirect = Some(deeper.written);
                        } else {
                            let restriction = server.restriction;
                            server.restriction = restriction.or_else(|| restricting(&deeper, true));
                            leave_out(import, &deeper);
                        }
                    }
                }
                ("location", Some(block)) if is_root => {
                    import.mapped(&inner.written, "all requests, as here");
                    let location = &mut of_root;
                    for deeper in block {
                        take(import, root, deeper, location, &mut server.restriction);
                    }
                }
                (_, block) => {
                    let one = NginxDirective { written: inner.written, block };
                    take(import, root, one, &mut server.options, &mut server.restriction);
                }
            }
        }
        // Each address has the names of the server, and its networks.
        let words = |name: &str| server.options.all(name).map(|one| one.words.len()).sum::<usize>();
        let names = words("server_name") + server.options.all("set_real_ip_from").count() + 1;
        if !import.take_options(names.saturating_mul(server.listens.len()), &server.written.place) {
            server.listens.clear();
        }
        server.options = within(&server.options, &of_root);
        let has_port = |port| server.listens.iter().any(|one| one.port() == port);
        if server.listens.is_empty() && is_http && !has_port("80") {
            let written = Statement::new(&server.written.place, "listen", vec!["80".to_owned()]);
            server.listens.extend(NginxListen::read(import, &written, is_http));
        }
        server
    }
}

impl NginxBlock {
    fn upstream(import: &mut Import, root: &Path, one: NginxDirective) -> Self {
        let (mut options, mut lines) = (Statements::default(), Vec::new());
        for inner in one.block.unwrap_or_default() {
            if inner.written.option == "server" && inner.block.is_none() {
                import.expect(&inner.written);
                lines.push(inner.written);
            } else {
                take(import, root, inner, &mut options, &mut None);
            }
        }
        Self { written: one.written, options, lines }
    }

    fn map(one: NginxDirective) -> Self {
        let lines = one.block.unwrap_or_default().into_iter().map(|inner| inner.written);
        Self { written: one.written, options: Statements::default(), lines: lines.collect() }
    }
}

/// Takes a directive of a block: into its options, or reported at once.
fn take(
    import: &mut Import,
    root: &Path,
    mut one: NginxDirective,
    options: &mut Statements,
    restriction: &mut Option<Statement>,
) {
    if let Some(found) = restricting(&one, false) {
        restriction.get_or_insert(found);
    }
    let meaning =
        meanings::find(Predecessor::Nginx, &one.written.option).filter(|_| one.block.is_none());
    let Some(meaning) = meaning else { return leave_out(import, &one) };
    import.expect(&one.written);
    absolute(root, &mut one.written);
    match meaning.support {
        OptionSupport::Key { .. } | OptionSupport::Joined { .. } => {
            options.push(meaning.option, one.written)
        }
        _ => _ = import.apply(meaning, &one.written),
    }
}

/// A directive by which requests are refused, here or in a block: there by address too. One that
/// nobody knows here may be of a module that refuses.
fn restricting(one: &NginxDirective, is_inner: bool) -> Option<Statement> {
    let NginxDirective { written, block } = one;
    let name = written.option.as_str();
    let is_refusal = name == "return" && written.value().starts_with(['4', '5']);
    let of_block = ["allow", "deny"].contains(&name) || is_refusal;
    let guards = meanings::find(Predecessor::Nginx, name)
        .is_none_or(|meaning| meaning.guards(&written.value()));
    if guards || is_emptied(written) || is_inner && of_block {
        return Some(written.clone());
    }
    let inner = block.iter().flatten().filter(|_| !is_among(DATA, name));
    inner.into_iter().find_map(|inner| restricting(inner, true))
}

fn find_passes(one: &NginxDirective, passes: &mut Vec<Statement>) {
    passes.extend(Some(&one.written).filter(|one| one.option == "proxy_pass").cloned());
    one.block.iter().flatten().for_each(|inner| find_passes(inner, passes));
}

/// Whether a field is taken out of requests, which servers then trust when nginx itself writes it.
fn is_emptied(written: &Statement) -> bool {
    let sets = ["proxy_set_header", "grpc_set_header"].contains(&written.option.as_str());
    let [field, value] = written.words.as_slice() else { return false };
    sets && value.is_empty() && !is_among(EMPTIED, &field.to_ascii_lowercase())
}

/// Reports a directive, and all in its block, that nothing is made of.
pub(super) fn leave_out(import: &mut Import, one: &NginxDirective) {
    let NginxDirective { written, block } = one;
    match meanings::find(Predecessor::Nginx, &written.option) {
        None => import.note_unknown(written),
        Some(meaning) => {
            if meaning.is_written() {
                let remedy = "keep nginx for it, behind Lariat";
                import.lacks(written, "stands where no service comes from", remedy);
            } else {
                import.apply(meaning, written);
            }
        }
    }
    if !is_among(DATA, &written.option) {
        block.iter().flatten().for_each(|inner| leave_out(import, inner));
    }
}

/// Begins a relative path at the main file's folder, from the root of the host: the new file may
/// stand elsewhere.
pub(super) fn absolute(root: &Path, written: &mut Statement) {
    let is_path = is_among(PATHS, &written.option) && written.value() != "off";
    if let Some(path) = written.words.last_mut().filter(|path| is_path && !path.contains('$')) {
        let joined = root.join(&*path);
        *path = std::path::absolute(&joined).unwrap_or(joined).display().to_string();
    }
}

/// Options of a block over those of the block around it: of each directive only the inner ones.
pub(super) fn within(outer: &Statements, inner: &Statements) -> Statements {
    let names: HashSet<_> = inner.iter().map(|(name, _)| name).collect();
    let has = |name| names.contains(name);
    let mut all = Statements::default();
    for (name, written) in outer.iter() {
        let is_of_access = ["allow", "deny"].contains(&name);
        if !has(name) && !(is_of_access && (has("allow") || has("deny"))) {
            all.push(name, written.clone());
        }
    }
    inner.iter().for_each(|(name, written)| all.push(name, written.clone()));
    all
}

/// Names as keys write them: `.example` is two of them, and those of other kinds are none.
pub(super) fn comparable(name: &str) -> Option<Vec<String>> {
    let lower = name.to_ascii_lowercase();
    let (exact, wild) = match (lower.strip_prefix('.'), lower.strip_prefix("*.")) {
        (Some(rest), _) => (Some(rest), Some(rest)),
        (None, Some(rest)) => (None, Some(rest)),
        (None, None) => (Some(lower.as_str()), None),
    };
    let fits = |one: char| one.is_ascii_alphanumeric() || "-_".contains(one);
    let is_label = |one: &str| (1..64).contains(&one.len()) && one.chars().all(fits);
    let rest = exact.or(wild)?;
    let is_name = rest.len() < 250 && rest.split('.').all(is_label) && rest != "_";
    // Nobody asks TLS for an address.
    if !is_name || rest.parse::<IpAddr>().is_ok() {
        return None;
    }
    let exact = exact.map(str::to_owned).into_iter();
    Some(exact.chain(wild.map(|rest| format!("*.{rest}"))).collect())
}

/// One address of one server block.
#[derive(Clone, Debug)]
pub(super) struct NginxListen {
    pub(super) written: Statement,
    /// As keys write it, but for `0.0.0.0`, which may be `[::]` with IPv6 beside it.
    pub(super) address: String,
    pub(super) is_default: bool,
    pub(super) traits: SocketTraits,
}

/// Options that hold before a hello tells services apart.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct SocketTraits {
    pub(super) has_tls: bool,
    pub(super) takes_proxy: bool,
    pub(super) is_deferred: bool,
    pub(super) keepalive: Option<String>,
    /// Networks that may send a PROXY header; empty = all.
    pub(super) networks: BTreeSet<String>,
}

/// The most ports of a range.
const PORTS_MAX: u16 = 256;

impl NginxListen {
    /// Reads a directive: an address, or one for each port of a range.
    pub(super) fn read(import: &mut Import, written: &Statement, is_http: bool) -> Vec<Self> {
        import.expect(written);
        let Some((first, parameters)) = written.words.split_first() else {
            import.fault(&written.place, "listen", "names no address", "write a port");
            return Vec::new();
        };
        if parameters.iter().any(|one| one == "udp" || one == "quic") {
            import.lacks(written, "UDP and QUIC are not relayed", "keep this in nginx");
            return Vec::new();
        }
        let mut listen = Self {
            written: written.clone(),
            address: String::new(),
            is_default: false,
            traits: SocketTraits::default(),
        };
        for parameter in parameters {
            listen.take(import, parameter);
        }
        match addresses(first, is_http) {
            Ok(addresses) => {
                addresses.into_iter().map(|address| Self { address, ..listen.clone() }).collect()
            }
            Err(unfit) => {
                import.unmapped(written, unfit);
                Vec::new()
            }
        }
    }

    fn take(&mut self, import: &mut Import, parameter: &str) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let one = Statement::new(&self.written.place, "listen", vec![value.to_owned()]);
        let named = one.with([parameter]);
        match name {
            "default_server" | "default" => self.is_default = true,
            "ssl" => self.traits.has_tls = true,
            "proxy_protocol" => self.traits.takes_proxy = true,
            "deferred" => self.traits.is_deferred = true,
            "backlog" => {
                let note = "of each listener and worker";
                import.apply_key("workers.backlog", Conversion::Number, note, &one);
            }
            "fastopen" => {
                import.apply_key("workers.fast-open", Conversion::Number, "of all listeners", &one);
            }
            "so_keepalive" => self.traits.keepalive = keepalive(value),
            // `ipv6only` is looked at with the addresses of all servers.
            "reuseport" | "bind" | "ipv6only" | "multipath" => {}
            "http2" | "spdy" => {
                let why = "a server that speaks HTTP/1.1 alone would get HTTP/2";
                let remedy = "`front.tls.alpn = [\"h2\", \"http/1.1\"]` if the server speaks it";
                import.lacks(&named, why, remedy);
            }
            _ => import.lacks(&named, "this option of sockets is not set", "sysctl"),
        }
    }

    pub(super) fn port(&self) -> &str {
        self.address.rsplit_once(':').map_or("", |(_, port)| port)
    }
}

/// `on|off|[idle]:[interval]:[count]`.
fn keepalive(value: &str) -> Option<String> {
    if let Some(is_on) = switch(value) {
        return Some(if is_on { "2h" } else { "0s" }.to_owned());
    }
    let idle = value.split(':').next().and_then(|idle| milliseconds(idle, 1000))?;
    // The key takes whole seconds, nine hours at most.
    Some(time_text(idle.clamp(1000, 9 * 3_600_000).div_ceil(1000) * 1000))
}

/// The addresses of `listen`, as keys write them.
fn addresses(text: &str, is_http: bool) -> Result<Vec<String>, UnusableValue> {
    if text.starts_with("unix:") {
        return Ok(vec![text.to_owned()]);
    }
    // A number is a port; any other word without a colon is a host.
    let is_port = text.chars().all(|one| one.is_ascii_digit() || one == '-');
    let is_alone = text.ends_with(']') || !text.contains(':') && !is_port;
    let (host, port) = match split_endpoint(text) {
        _ if is_alone && is_http => (text.trim_matches(['[', ']']).to_owned(), "80".to_owned()),
        (host, port) => (host, port),
    };
    let host = match host.as_str() {
        "" | "*" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let Ok(host) = host.parse::<IpAddr>() else {
        return Err(UnusableValue::new(
            "names of hosts are not listened at",
            "write its IP address",
        ));
    };
    let (first, last) = port.split_once('-').unwrap_or((&port, &port));
    let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    match bounds.filter(|(first, last)| first <= last && last - first < PORTS_MAX) {
        Some((first, last)) => {
            Ok((first..=last).map(|port| SocketAddr::from((host, port)).to_string()).collect())
        }
        None => Err(UnusableValue::new(format!("`{port}` is no port"), "write a number")),
    }
}
