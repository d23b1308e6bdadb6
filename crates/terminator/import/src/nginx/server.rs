//! A server block of nginx: the services that come of it.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

use crate::convert::{FACILITIES, UnusableValue, is_among, milliseconds};
use crate::finding::ImportFinding;
use crate::import::{Import, Importer};
use crate::meanings::{self, Conversion, OptionSupport, Predecessor};
use crate::nginx::names::{HostGuards, NginxRoute, routes, server_names};
use crate::nginx::section::{NginxSection, NginxServer, within};
use crate::nginx::servers::NginxTarget;
use crate::nginx::sockets::{ServiceSockets, Sockets, network};
use crate::nginx::tls;
use crate::source::{Statement, Statements};

const BEHIND: &str = "keep nginx behind Lariat, at an address without TLS: `listen 127.0.0.1:8080 proxy_protocol`, \
     and `back.send-proxy = \"v1\"`";

/// Writes the services of all servers of a section.
pub(super) fn write_all(
    section: &NginxSection,
    number: usize,
    sockets: &Sockets,
    import: &mut Importer<'_>,
) {
    let logs = section.options.all("access_log").chain(section.options.all("error_log"));
    logs.for_each(|written| take_log(import, written));
    let guards = HostGuards::of(section, import);
    for (place_of, server) in section.servers.iter().enumerate() {
        let options = within(&section.options, &server.options);
        if import.is_full {
            return;
        }
        let (before, first) = (import.draft.services.len(), import.findings.len());
        let mut reason = UnusableValue::new("it listens nowhere", "write `listen`");
        for sockets in &sockets.services((number, place_of), server) {
            let (options, guards) = (&options, &guards);
            let block = ServerBlock { section, server, options, sockets, guards };
            match block.write(import) {
                Ok(()) => import.joined(&server.written, "service", ""),
                Err(unfit) => {
                    for (_, listen) in &sockets.listens {
                        let why = format!("no service comes of it: {}", unfit.why);
                        import.lacks(&listen.written, &why, &unfit.remedy);
                    }
                    reason = unfit;
                }
            }
        }
        if import.draft.services.len() == before {
            report_left_out(server, import, first);
            import.report_refused(&server.written, reason);
        }
    }
    report_unused(section, import);
}

/// Reports blocks and directives that no service uses.
fn report_unused(section: &NginxSection, import: &mut Import) {
    let found: HashSet<_> = import.findings.iter().map(|one| one.place.clone()).collect();
    for upstream in section.upstreams.iter().filter(|one| !found.contains(&one.written.place)) {
        let lines = upstream.options.iter().map(|(_, written)| written).chain(&upstream.lines);
        for written in lines.chain([&upstream.written]) {
            let remedy = "see the servers that name it";
            import.lacks(written, "no imported server uses this upstream", remedy);
        }
    }
    for map in section.maps.iter().filter(|one| !found.contains(&one.written.place)) {
        import.lacks(&map.written, "Lariat has no variables", "services: `front.names`");
    }
    for (_, written) in section.options.iter() {
        if !found.contains(&written.place) {
            let why = "no service comes of a server block that it is for";
            import.lacks(written, why, "see the server blocks");
        }
    }
}

struct ServerBlock<'s> {
    section: &'s NginxSection,
    server: &'s NginxServer,
    options: &'s Statements,
    sockets: &'s ServiceSockets<'s>,
    guards: &'s HostGuards,
}

impl ServerBlock<'_> {
    /// Writes the services at addresses that have the same in common.
    fn write(&self, import: &mut Importer<'_>) -> Result<(), UnusableValue> {
        let restriction = self.server.restriction.as_ref().or(self.section.restriction.as_ref());
        if let Some(written) = restriction {
            let Statement { place, option, .. } = written;
            let why = format!("without `{option}` ({place}) more requests would be served");
            return Err(UnusableValue::new(why, BEHIND));
        }
        if let Some(written) = self.options.find("ssl_reject_handshake") {
            if self.options.is_on("ssl_reject_handshake") {
                let words = "a hello for no service is refused by the alert unrecognized_name";
                import.mapped(written, words);
                let why = "its clients are refused";
                return Err(UnusableValue::new(why, "none is needed, if it is the default server"));
            }
            import.mapped(written, "`off`, as here");
        }
        let (names, is_named) = server_names(self.server, import, self.sockets);
        if !self.sockets.is_default && !is_named {
            let why = "no client reaches it by a name that can be compared";
            return Err(UnusableValue::new(why, "write its names into `front.names`"));
        }
        if let Some(written) = self.options.find("return") {
            let redirect = self.server.redirect.as_ref();
            if redirect.is_some() {
                import.mapped(written, "without effect: requests of all hosts are redirected");
            }
            return self.write_redirect(redirect.unwrap_or(written), import, &names);
        }
        if self.section.is_http && !self.sockets.traits.has_tls {
            let why = "it has no TLS, and Lariat does not read HTTP";
            return Err(UnusableValue::new(why, "leave it in nginx"));
        }
        let Some(pass) = self.options.find("proxy_pass") else {
            let why = "no `proxy_pass` has all requests; Lariat itself answers with files alone (back.files)";
            return Err(UnusableValue::new(why, BEHIND));
        };
        if let Some(written) = self.guards.passed_by(self.section, self.server, self.options) {
            let Statement { place, option, .. } = written;
            let why = format!(
                "requests whose field Host names another server would pass by its \
                 `{option}` ({place}): both have the same servers behind them"
            );
            return Err(UnusableValue::new(why, BEHIND));
        }
        self.write_routes(&routes(self.section, pass, import, names)?, pass, import)
    }

    /// Writes the services of those that can be served; an error if there is none.
    fn write_routes(
        &self,
        routes: &[NginxRoute],
        pass: &Statement,
        import: &mut Importer<'_>,
    ) -> Result<(), UnusableValue> {
        let mut written = Err(UnusableValue::new("its map names no server", "write one"));
        for route in routes {
            let services = import.draft.services.len() + import.draft.refused.len();
            let place = &self.server.written.place;
            let options = self.options.len() + route.names.len();
            if !import.take_options(options, place) || !import.has_room(services, place) {
                break;
            }
            match self.write_route(route, pass, import) {
                Ok(()) => written = Ok(()),
                Err(unfit) => {
                    if let Some((_, name)) = route.names.first() {
                        import.lacks(name, &unfit.why, &unfit.remedy);
                    }
                    written = written.or(Err(unfit));
                }
            }
        }
        written
    }

    fn write_route(
        &self,
        route: &NginxRoute,
        pass: &Statement,
        import: &mut Importer<'_>,
    ) -> Result<(), UnusableValue> {
        let is_http = self.section.is_http;
        let mut target = NginxTarget::read(&route.target, is_http)?;
        target.has_tls |= !is_http && self.options.is_on("proxy_ssl");
        self.begin(import, &route.names, &target.address);
        let options = self.options;
        let mut is_whole = self.write_access(import);
        if self.sockets.traits.has_tls {
            is_whole &= tls::write_front(options, import, is_http);
        } else {
            let mode = if route.is_preread { "passthrough" } else { "off" };
            import.service.set("front.tls.mode", mode, pass.place.clone());
            tls::report_unused(options, import, "ssl");
        }
        self.report_preread(import, route);
        is_whole &= target.write(self.section, import, pass);
        if target.has_tls {
            is_whole &= tls::write_back(options, import, (pass, &target));
        } else {
            tls::report_unused(options, import, "proxy_ssl");
        }
        let difference = if is_http {
            "requests reach the servers as clients write them: no X-Forwarded-For or other field \
             is added; `back.send-proxy` tells the client's address"
        } else {
            ""
        };
        import.joined(pass, "service.back.servers", difference);
        self.write_rest(import, route);
        let defaults = meanings::defaults_of(Predecessor::Nginx).iter();
        let defaults = defaults.filter(|one| one.of.is_empty() || is_http && one.of == "http");
        import.defaults(defaults);
        if !is_whole {
            import.refuse();
            let why = "something that it needs, or by which it refuses, cannot be said";
            return Err(UnusableValue::new(why, "see its directives that are not mapped"));
        }
        import.keep();
        Ok(())
    }

    /// Begins a service with a name, addresses and the names of its clients.
    fn begin(&self, import: &mut Import, names: &[(String, Statement)], target: &str) {
        let port = self.sockets.listens.first().map_or("", |(_, listen)| listen.port());
        let of_server = self.server.options.all("server_name").flat_map(|one| &one.words);
        let mut of_server = of_server.filter(|name| name.starts_with(char::is_alphanumeric));
        let is_upstream = self.section.upstream(target).is_some();
        let name = match names.first().map(|(name, _)| name).or_else(|| of_server.next()) {
            Some(name) => name.trim_start_matches("*.").to_owned(),
            None if is_upstream => target.to_owned(),
            None => format!("port-{port}"),
        };
        import.begin(&name, self.server.written.place.clone());
        self.sockets.write(import);
        for (name, written) in names {
            import.service.push("front.names", name.as_str(), written.place.clone());
        }
        if let Some(written) = self.options.find("real_ip_header") {
            if written.value() == "proxy_protocol" {
                import.joined(written, "service.front.accept-proxy", "");
            } else {
                let remedy = "have the load balancer send a PROXY header: `front.accept-proxy`";
                import.lacks(written, "Lariat does not read HTTP", remedy);
            }
        }
        for written in self.options.all("set_real_ip_from") {
            if !self.sockets.traits.takes_proxy {
                let why = "no PROXY header comes here, by which alone Lariat knows clients";
                import.lacks(written, why, "`front.accept-proxy`");
            } else if network(&written.value()).is_some() {
                import.joined(written, "service.front.accept-proxy", "");
            } else {
                import.lacks(written, "names of hosts are not looked up here", "an address");
            }
        }
    }

    /// `return 301 https://…` of a server without TLS.
    fn write_redirect(
        &self,
        written: &Statement,
        import: &mut Import,
        names: &[(String, Statement)],
    ) -> Result<(), UnusableValue> {
        let url = written.words.last().map_or("", String::as_str);
        let same = ["$host", "$server_name", "$http_host", "$ssl_server_name"];
        let host = url.strip_prefix("https://").unwrap_or_default();
        let (host, path) = host.split_at(host.find(['/', ':']).unwrap_or(host.len()));
        let (host, path) = match url.strip_prefix("https://$") {
            Some(rest) => {
                let end = rest.find(|one: char| one != '_' && !one.is_ascii_lowercase());
                let end = "https://$".len() + end.unwrap_or(rest.len());
                (&url["https://".len()..end], &url[end..])
            }
            None => (host, path),
        };
        let own: Vec<_> =
            self.server.options.all("server_name").flat_map(|one| &one.words).collect();
        let is_own = own == [host];
        let (port, path) = match path.strip_prefix(':') {
            Some(rest) => rest.split_at(rest.find(['/', '$']).unwrap_or(rest.len())),
            None => ("", path),
        };
        if !(same.contains(&host) || is_own)
            || path != "$request_uri"
            || self.sockets.traits.has_tls
        {
            let why = "Lariat answers plain HTTP alone, by the same resource of the same host";
            let remedy = "`return 301 https://$host$request_uri`, or keep this in nginx";
            import.lacks(written, why, remedy);
            return Err(UnusableValue::new("its answers are not Lariat's", BEHIND));
        }
        if !self.sockets.is_default {
            // The service of the default server answers all names alike.
            import.mapped(written, "service.front.redirect, of the default server's service");
            let why = "names of plain HTTP are not told apart";
            return Err(UnusableValue::new(
                why,
                "none is needed, if the default server answers the same",
            ));
        }
        self.begin(import, names, "");
        let is_whole = self.write_access(import);
        let to = if port.is_empty() { "https".to_owned() } else { format!("https:{port}") };
        let note = "301 for GET and HEAD, and 308 for other methods";
        import.put("service.front.redirect", to, written, note);
        tls::report_unused(self.options, import, "ssl");
        tls::report_unused(self.options, import, "proxy_ssl");
        for (name, written) in self.options.iter() {
            if name == "proxy_pass" {
                import.mapped(written, "without effect: all requests are redirected");
            }
        }
        if !is_whole {
            return Err(UnusableValue::new(
                "it refuses clients in another way",
                "see allow and deny",
            ));
        }
        import.keep();
        Ok(())
    }

    /// `allow` and `deny`, of which the first that fits counts. Returns whether ours say the same.
    fn write_access(&self, import: &mut Import) -> bool {
        let is_rule = |name| name == "allow" || name == "deny";
        let rules: Vec<_> = self.options.iter().filter(|(name, _)| is_rule(*name)).collect();
        if self.compares_another_address() {
            let why = "nginx compares another address: that of the connection without \
                       set_real_ip_from, that of real_ip_header with it";
            let remedy = "`front.deny` and `front.allow` by hand";
            import.lacks(rules.iter().map(|(_, one)| *one), why, remedy);
            return rules.is_empty();
        }
        let end = rules.iter().position(|(_, one)| one.value() == "all").unwrap_or(rules.len());
        let (before, behind) = rules.split_at(end);
        let closes = behind.first().is_some_and(|(name, _)| *name == "deny");
        if let Some((_, written)) = before.iter().find(|(_, one)| network(&one.value()).is_none()) {
            let why = format!("`{}` is no network", written.value());
            import.fault(&written.place, &written.option, why, "write an address, or a network");
        }
        let is_sorted =
            before.iter().skip_while(|(name, _)| *name == "deny").all(|(name, _)| *name == "allow");
        let has_allowed = before.iter().any(|(name, _)| *name == "allow");
        if !is_sorted || closes && !has_allowed {
            for (_, written) in rules {
                let why = "here a denied network stays denied, whatever is allowed";
                import.lacks(written, why, "`front.deny` and `front.allow` by hand");
            }
            return false;
        }
        for (name, written) in before {
            let value =
                if written.value() == "unix:" { "unix".to_owned() } else { written.value() };
            let note = if self.section.is_http { "reset, and not answered with 403" } else { "" };
            if *name == "allow" && !closes {
                import.mapped(*written, "all may connect, as here");
            } else {
                import.add(&format!("service.front.{name}"), value, written, note);
            }
        }
        let behind = behind.iter().map(|(_, one)| *one);
        import.mapped(behind, "service.front.allow, service.front.deny");
        true
    }

    /// Whether the address of a client is not the one that ours is: that of the connection, or in
    /// a PROXY header where one must come.
    fn compares_another_address(&self) -> bool {
        let header = self.options.value("real_ip_header");
        let is_of_request = self.section.is_http && header.as_deref() != Some("proxy_protocol");
        match self.options.find("set_real_ip_from") {
            Some(_) => is_of_request,
            None => self.sockets.traits.takes_proxy,
        }
    }

    /// The directives that stand for themselves, and those that are left.
    fn write_rest(&self, import: &mut Import, route: &NginxRoute) {
        let options = self.options;
        for (name, written) in options.iter() {
            let is_key = meanings::find(Predecessor::Nginx, name)
                .filter(|one| matches!(one.support, OptionSupport::Key { .. }));
            match (name, is_key) {
                ("preread_timeout", _) if !route.is_preread => {
                    import.mapped(written, "without effect: no hello is read");
                }
                (_, Some(meaning)) => _ = import.apply(meaning, written),
                ("proxy_bind", _) => take_bind(import, written),
                _ => {}
            }
        }
        for written in self.server.options.all("access_log") {
            if written.value().starts_with("off") {
                let why = "connections of one service are not left out of the log";
                import.lacks(written, why, "`log.connections`, for all");
            } else {
                take_log(import, written);
            }
        }
        self.server.options.all("error_log").for_each(|written| take_log(import, written));
        self.write_idle(import);
    }

    /// The longer of the pauses that nginx allows in requests and between them.
    fn write_idle(&self, import: &mut Import) {
        let names = ["keepalive_timeout", "proxy_read_timeout"];
        let time = |written: &Statement| {
            milliseconds(written.words.first()?, 1000).filter(|time| *time > 0)
        };
        let written = names.iter().filter_map(|name| self.options.find(name));
        let written: Vec<_> = written.collect();
        let longest = written.iter().filter_map(|one| Some((time(one)?, *one)));
        let least = if self.options.find("keepalive_timeout").is_some() { 60_000 } else { 75_000 };
        let longest = longest.max_by_key(|(time, _)| *time).filter(|(time, _)| *time > least);
        let key = "service.timeouts.idle";
        let note = "it bounds every pause of a connection, in requests and between them";
        if let Some((_, one)) = longest {
            let first = one.with(one.words.first().cloned());
            import.apply_key(key, Conversion::Seconds, note, &first);
        }
        let is_other =
            |one: &&&Statement| longest.is_none_or(|(_, chosen)| chosen.option != one.option);
        import.joined(written.iter().filter(is_other).copied(), key, note);
    }

    fn report_preread(&self, import: &mut Import, route: &NginxRoute) {
        let Some(written) = self.options.find("ssl_preread") else { return };
        match (self.options.is_on("ssl_preread"), route.is_preread) {
            (true, true) => {
                let note = "clients that do not begin with TLS are refused";
                import.joined(written, "service.front.tls.mode", note);
            }
            (true, false) => import.mapped(written, "without effect: no map reads the name"),
            (false, _) => import.mapped(written, "`off`, as here"),
        }
    }
}

/// Reports the directives of a server that no service comes of.
fn report_left_out(server: &NginxServer, import: &mut Import, first: usize) {
    let found = import.findings.get(first..).unwrap_or_default();
    let found: HashSet<_> = found.iter().map(ImportFinding::named).collect();
    for (_, written) in server.options.iter() {
        if !found.contains(&(written.place.clone(), written.option.clone())) {
            import.lacks(written, "its server block is left out", "see the reason at `server`");
        }
    }
}

fn take_bind(import: &mut Import, written: &Statement) {
    let key = "service.back.source";
    let first = written.words.first().map_or("", String::as_str);
    match first {
        "off" => import.mapped(written, "`off`, as here"),
        "$remote_addr" | "$binary_remote_addr" => import.put(key, "client", written, ""),
        _ if first.contains('$') => {
            import.lacks(written, "Lariat has no variables", "an address of this host");
        }
        address => {
            let with_port = address.parse::<SocketAddr>().map(|address| address.ip());
            match address.parse::<IpAddr>().or(with_port) {
                Ok(address) => import.put(key, address.to_string(), written, ""),
                Err(_) => import.lacks(written, "names of hosts are no sources", "an address"),
            }
        }
    }
}

/// The log of messages, or of connections: there is one of each.
pub(super) fn take_log(import: &mut Import, written: &Statement) {
    let target = written.words.first().map_or("", String::as_str);
    let (key, note) = match written.option.as_str() {
        "error_log" => ("log.messages-output", "messages go to the standard error or the journal"),
        _ => ("log.output", "one log of all connections, with lines of Lariat's own"),
    };
    let syslog = target.strip_prefix("syslog:");
    match (key, syslog) {
        ("log.output", None) if target == "off" => {
            import.put("log.connections", "none", written, "for all services");
        }
        (key, Some(parameters)) => {
            import.put(key, "syslog", written, note);
            for parameter in parameters.split(',') {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                match name {
                    "facility" if is_among(FACILITIES, value) => {
                        import.put("log.syslog.facility", value, written, "");
                    }
                    "server"
                        if value.starts_with(|one: char| one.is_alphabetic())
                            && !value.starts_with("unix:") =>
                    {
                        let remedy = "write an IP address";
                        import.lacks(written, "names are not looked up here", remedy);
                    }
                    "server" => {
                        let has_port = value.starts_with("unix:") || value.contains(':');
                        let port = if has_port { "" } else { ":514" };
                        let (key, address) = ("log.syslog.address", format!("{value}{port}"));
                        import.put(key, address, written, "an IP address");
                    }
                    _ => import.joined(written, key, "tags and severities are Lariat's own"),
                }
            }
        }
        ("log.output", None) if target.contains('$') || target.is_empty() => {
            import.lacks(written, "Lariat has no variables", "`log.output`");
        }
        ("log.output", None) => {
            let target = target.strip_prefix("/dev/").filter(|name| name.starts_with("std"));
            let target = target.unwrap_or(&written.words[0]);
            import.put(key, target, written, note);
        }
        _ => import.joined(written, key, note),
    }
}
