//! Names of clients: `server_name`, maps of the name that a client asks TLS for, and servers of
//! HTTP that pass requests on to the same upstream. nginx chooses one of those by a request's field
//! Host, Lariat by the name that a client asks TLS for, and any Host passes there.

use std::collections::{BTreeSet, HashMap};

use crate::convert::{UnusableValue, is_among};
use crate::import::Import;
use crate::nginx::section::{NginxSection, NginxServer, comparable, within};
use crate::nginx::sockets::ServiceSockets;
use crate::source::{Statement, Statements};

/// Servers for clients by their names; without names for all others.
#[derive(Debug)]
pub(super) struct NginxRoute {
    pub(super) target: String,
    pub(super) names: Vec<(String, Statement)>,
    /// Whether TLS stays closed.
    pub(super) is_preread: bool,
}

/// The names of a server, none for the default one; and whether it has any.
pub(super) fn server_names(
    server: &NginxServer,
    import: &mut Import,
    sockets: &ServiceSockets<'_>,
) -> (Vec<(String, Statement)>, bool) {
    const KEY: &str = "service.front.names";
    let mut names = Vec::new();
    for written in server.options.all("server_name") {
        let (mut others, mut foreign) = (Vec::new(), Vec::new());
        for word in &written.words {
            match comparable(word) {
                Some(all) => {
                    let is_own = |name: &String| !sockets.foreign.contains(name);
                    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_own);
                    // Not with all other names, which may be many.
                    let alone = written.with([word.as_str()]);
                    names.extend(own.into_iter().map(|name| (name, alone.clone())));
                    foreign.extend(others);
                }
                None if ["_", ""].contains(&word.as_str()) => {}
                None => others.push(word.as_str()),
            }
        }
        let host = "the name that a client asks TLS for counts, and not a request's field Host";
        if sockets.is_default {
            let words = "the default server: clients with these names, and all that are left";
            import.mapped(written, words);
        } else if others.is_empty() && foreign.is_empty() {
            import.joined(written, KEY, host);
        } else if others.is_empty() {
            let names = foreign.join(", ");
            let note = format!("without {names}: an earlier server has that name, as in nginx");
            import.joined(written, KEY, &note);
        } else {
            let why = format!("{}: such patterns are not compared", others.join(", "));
            import.lacks(written, &why, "each name, or `*.example`, in `front.names`");
        }
    }
    let is_named = !names.is_empty();
    (if sockets.is_default { Vec::new() } else { names }, is_named)
}

/// The way of clients: all to one target, or by a map.
pub(super) fn routes(
    section: &NginxSection,
    pass: &Statement,
    import: &mut Import,
    names: Vec<(String, Statement)>,
) -> Result<Vec<NginxRoute>, UnusableValue> {
    let value = pass.value();
    let variable = value.replace(['{', '}'], "");
    let map = section.maps.iter().find(|one| one.written.words.get(1) == Some(&variable));
    let Some(map) = map.filter(|_| value.starts_with('$') && !section.is_http) else {
        return Ok(vec![NginxRoute { target: value, names, is_preread: false }]);
    };
    let source = map.written.words.first().map_or("", String::as_str);
    let is_preread = source == "$ssl_preread_server_name";
    if !is_preread && source != "$ssl_server_name" {
        let why = "clients are told apart by the name that they ask TLS for alone";
        import.lacks(&map.written, why, "services of their own: `front.names`");
        return Err(UnusableValue::new(why, "keep this in nginx"));
    }
    let has_hostnames = map.lines.iter().any(|one| one.option == "hostnames");
    let mut routes: Vec<NginxRoute> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    if !import.take_options(map.lines.len(), &map.written.place) {
        return Ok(routes);
    }
    let (mut default, mut others) = (None, None);
    for written in &map.lines {
        let target = written.value();
        let key = written.option.strip_prefix('\\').unwrap_or(&written.option);
        let all = comparable(key).filter(|all| has_hostnames || !all[0].starts_with("*."));
        match (written.option.as_str(), all) {
            ("hostnames" | "volatile", _) => import.mapped(written, "as here"),
            ("default", _) => {
                import.mapped(written, "the service without names");
                default = Some(written.clone());
            }
            (_, Some(all)) => {
                let names = all.into_iter().map(|name| (name, written.clone()));
                import.joined(written, "service.front.names", "");
                let next = routes.len();
                match routes.get_mut(*places.entry(target.clone()).or_insert(next)) {
                    Some(route) => route.names.extend(names),
                    None => {
                        let names = names.collect();
                        routes.push(NginxRoute { target, names, is_preread });
                    }
                }
            }
            (_, None) => {
                let remedy = "each name, or `*.example`, in `front.names`";
                import.lacks(written, "such patterns are not compared", remedy);
                others = Some(written);
            }
        }
    }
    let refused = routes.iter().find(|one| one.target.is_empty());
    let refused = refused.and_then(|one| one.names.first()).map(|(_, written)| written);
    if let Some(other) = others.or(refused).filter(|_| default.is_some()) {
        let why = format!("its default would have the clients of `{}` too", other.option);
        return Err(UnusableValue::new(why, "a service for each name: `front.names`"));
    }
    routes.retain(|one| !one.target.is_empty());
    let default = default.map(|one| one.value()).filter(|target| !target.is_empty());
    routes.extend(default.map(|target| NginxRoute { target, names, is_preread }));
    import.joined(&map.written, "service.front.names", "");
    Ok(routes)
}

/// Directives by which a server refuses clients, beside those that are no keys at all.
const REFUSING: &str = "\
    allow deny ssl_client_certificate ssl_crl ssl_ocsp ssl_trusted_certificate \
    ssl_verify_client";

/// The ways in which servers refuse clients, by the addresses that they pass requests on to.
#[derive(Debug, Default)]
pub(super) struct HostGuards(HashMap<String, Vec<Guard>>);

/// Refusals as they were written, and the first of them.
#[derive(Clone, Debug)]
struct Guard {
    refusals: BTreeSet<String>,
    first: Statement,
}

impl HostGuards {
    pub(super) fn of(section: &NginxSection, import: &mut Import) -> Self {
        let mut all = Self::default();
        for server in section.servers.iter().filter(|_| section.is_http) {
            let refusals = refusals(server, &within(&section.options, &server.options));
            let Some(first) = refusals.first().cloned() else { continue };
            let guard = Guard { refusals: said(&refusals), first };
            let targets: BTreeSet<_> = server.passes.iter().map(target).collect();
            let addresses = targets.into_iter().flat_map(|target| addresses(section, &target));
            let addresses: BTreeSet<_> = addresses.collect();
            for address in addresses {
                let known = all.0.entry(address).or_default();
                if !import.take_options(1, &server.written.place) {
                    return all;
                }
                // Whatever a server refuses, it differs from one of two.
                if known.len() < 2 && known.iter().all(|one| one.refusals != guard.refusals) {
                    known.push(guard.clone());
                }
            }
        }
        all
    }

    /// A refusal of another server that this one's clients would pass by.
    pub(super) fn passed_by(
        &self,
        section: &NginxSection,
        server: &NginxServer,
        options: &Statements,
    ) -> Option<&Statement> {
        let own = said(&refusals(server, options));
        let pass = options.find("proxy_pass")?;
        let mut guards = addresses(section, &target(pass))
            .into_iter()
            .filter_map(|one| self.0.get(&one))
            .flatten();
        guards.find(|one| one.refusals != own).map(|one| &one.first)
    }
}

fn refusals(server: &NginxServer, options: &Statements) -> Vec<Statement> {
    let of_options = options.iter().filter(|(name, _)| is_among(REFUSING, name));
    let is_on = |written: &&Statement| !["off", "all"].contains(&written.value().as_str());
    let of_options = of_options.map(|(_, written)| written).filter(is_on);
    let verifies = options.value("ssl_verify_client").is_some_and(|value| value != "off");
    let counts = |one: &&Statement| verifies || !one.option.starts_with("ssl_");
    server.restriction.iter().chain(of_options.filter(counts)).cloned().collect()
}

fn said(refusals: &[Statement]) -> BTreeSet<String> {
    refusals.iter().map(|one| format!("{} {}", one.option, one.value())).collect()
}

/// The upstream or the server in a URL of `proxy_pass`.
fn target(pass: &Statement) -> String {
    let value = pass.value();
    let rest = value.split_once("://").map_or(&*value, |(_, rest)| rest);
    rest.split('/').next().filter(|name| !name.is_empty()).unwrap_or(rest).to_owned()
}

/// The servers that are meant by it.
fn addresses(section: &NginxSection, name: &str) -> Vec<String> {
    let lines = section.upstream(name).map(|upstream| &upstream.lines);
    let words = lines.into_iter().flatten().filter_map(|line| line.words.first().cloned());
    words.chain([name.to_owned()]).collect()
}
