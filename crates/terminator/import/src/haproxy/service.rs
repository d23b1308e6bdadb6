//! Services: each listener of a section with each of its routes.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::convert::{UnusableValue, array, is_among, milliseconds, split};
use crate::draft::DraftTable;
use crate::haproxy::back::{self, HaproxyBack};
use crate::haproxy::front::{self, HaproxyFront};
use crate::haproxy::route::{self, AclQuestions, HaproxyRoute, NAMES_PER_OPTION};
use crate::haproxy::syntax::{HaproxyReading, HaproxySection, find};
use crate::import::{Import, Importer};
use crate::meanings::{self, Conversion, OptionSupport, Predecessor};
use crate::source::{SourceLine, Statement, Statements};

const KEEP: &str = "keep it in HAProxy, behind Lariat";
const TWICE: &str = "`ssl` of its servers would put TLS around the clients' own, which the front \
                     keeps closed";
const ONCE: &str = "take it out, or give the `bind` its certificates by `ssl crt`";

/// Options of which a section has many, and which are read once for all of its services.
const LINES: &str = "acl bind server server-template use_backend";

/// A section with listeners, and what its services have in common.
struct HaproxyFrontend<'s> {
    reading: &'s HaproxyReading,
    section: &'s HaproxySection,
    options: &'s Statements,
    /// The options of which each service has keys of its own.
    common: Statements,
    routes: Vec<HaproxyRoute>,
    backs: &'s HashMap<String, HaproxyBackend>,
    /// The rules on addresses of clients.
    addresses: DraftTable,
    is_http: bool,
    is_passthrough: bool,
    redirect: Option<Statement>,
    /// Refuses clients in a way that cannot be said.
    refusal: Option<Statement>,
}

/// A section with servers, and what its services have in common.
struct HaproxyBackend {
    /// `None` = no server is left.
    back: Option<HaproxyBack>,
    refusal: Option<Statement>,
    reads_hellos: bool,
}

impl HaproxyBackend {
    fn read(reading: &HaproxyReading, section: &HaproxySection, import: &mut Importer<'_>) -> Self {
        let options = reading.options(section);
        let acls = AclQuestions::of(options, import);
        route::report_contents(&acls, import);
        Self {
            back: back::read(reading, section, import),
            refusal: route::refusal(reading, &acls, import.files),
            reads_hellos: route::reads_hellos(options),
        }
    }
}

/// Names that routes before have, and all beneath those that begin with a star.
#[derive(Debug, Default)]
struct TakenNames {
    names: HashSet<String>,
    /// The lengths of the ends behind stars.
    ends: BTreeSet<usize>,
}

impl TakenNames {
    fn add(&mut self, name: &str) {
        self.ends.extend(name.strip_prefix('*').map(str::len));
        self.names.insert(name.to_owned());
    }

    fn have(&self, name: &str) -> bool {
        let ends = self.ends.range(..name.len()).filter_map(|end| name.get(name.len() - end..));
        self.names.contains(name)
            || ends.into_iter().any(|end| self.names.contains(&format!("*{end}")))
    }
}

/// Writes all services.
pub(super) fn write(reading: &HaproxyReading, import: &mut Importer<'_>) {
    let mut backs: HashMap<String, HaproxyBackend> = HashMap::new();
    for section in reading.sections.iter().filter(|one| one.kind != "defaults") {
        if !import.take_options(reading.count(section), &section.place) {
            return;
        }
    }
    for section in reading.sections.iter().filter(|one| one.has_front()) {
        if !import.is_full && is_served(section, reading.options(section), import) {
            write_section(reading, section, &mut backs, import);
        }
    }
    // What nobody uses is read all the same, so that the report is whole.
    for section in reading.sections.iter().filter(|one| one.kind == "backend") {
        if !backs.contains_key(&section.name) {
            import.lacks(&section.statement(), "no service leads to it", "name it in a frontend");
            let options = reading.options(section);
            HaproxyBackend::read(reading, section, import);
            write_keys(options, false, import);
            write_sticks(options, false, import);
        }
    }
}

/// Writes the services of a section with listeners.
fn write_section(
    reading: &HaproxyReading,
    section: &HaproxySection,
    backs: &mut HashMap<String, HaproxyBackend>,
    import: &mut Importer<'_>,
) {
    let options = reading.options(section);
    let acls = AclQuestions::of(options, import);
    let mut routes = route::read(&acls, import);
    let is_own = options.iter().any(|(name, _)| is_among("server server-template", name));
    if section.has_back() && is_own && !routes.iter().any(|route| route.rule.is_none()) {
        routes.push(HaproxyRoute::default_to(&section.name));
    }
    for section in routes.iter().filter_map(|route| reading.backend(&route.backend)) {
        if !backs.contains_key(&section.name) {
            let back = HaproxyBackend::read(reading, section, import);
            let options = reading.options(section);
            let acls = AclQuestions::of(options, import);
            route::report_acls(&acls, import);
            backs.insert(section.name.clone(), back);
        }
    }
    let mut targets = routes.iter().filter_map(|route| backs.get(&route.backend));
    let reads_hellos = route::reads_hellos(options) || targets.any(|one| one.reads_hellos);
    let is_http = options.value("mode").as_deref() == Some("http");
    let (fronts, refusal) = front::read(reading, options, import);
    if fronts.is_empty() {
        let remedy = "see what is not mapped at its `bind`";
        import.lacks(&section.statement(), "it listens nowhere", remedy);
    } else {
        route::write_addresses(&acls, import);
    }
    let frontend = HaproxyFrontend {
        reading,
        section,
        options,
        common: Statements::of(options.shared().filter(|(name, _)| !is_among(LINES, name))),
        routes,
        backs,
        addresses: import.take_service(),
        is_http,
        is_passthrough: !is_http && reads_hellos,
        redirect: route::redirects(&acls, import),
        refusal: refusal.or_else(|| route::refusal(reading, &acls, import.files)),
    };
    route::report_contents(&acls, import);
    for front in &fronts {
        let is_other = |one: &&HaproxyFront| front.names.is_empty() && one.shares(front);
        let mut taken = TakenNames::default();
        let others = fronts.iter().filter(is_other).flat_map(|one| &one.names);
        others.for_each(|name| taken.add(name));
        frontend.write_front(import, front, taken);
    }
}

/// Whether a section is used at all, and in a mode that is.
fn is_served(section: &HaproxySection, options: &Statements, import: &mut Import) -> bool {
    if let Some(written) = options.find("disabled") {
        let remedy = "add it when it is used";
        import.lacks(written, "a section without connections is left out", remedy);
        return false;
    }
    let mode = options.find("mode");
    match mode.map(|one| (one, one.value())) {
        Some((written, value)) if value == "http" => {
            let note = "requests and answers are relayed unread, and one client's go to one server";
            import.joined(written, "service", note);
        }
        Some((written, value)) if value != "tcp" => {
            import.lacks(written, "there is no such service", KEEP);
            let why = "the section is left out, because of its mode";
            import.lacks(&section.statement(), why, KEEP);
            return false;
        }
        Some((written, _)) => import.joined(written, "service", ""),
        None => {}
    }
    true
}

impl HaproxyFrontend<'_> {
    /// The services of one listener.
    fn write_front(&self, import: &mut Import, front: &HaproxyFront, mut taken: TakenNames) {
        if let Some(redirect) = self.redirect.as_ref().filter(|_| !front.is_tls && self.is_http) {
            let name = format!("{}-redirect", self.section.name);
            self.begin(import, front, &[], &name);
            import.put("service.front.redirect", "https", redirect, "");
            write_timeouts(self.options, &Statements::default(), false, import);
            return self.finish(import, None);
        }
        for route in &self.routes {
            if !self.write_route(import, front, route, &mut taken) {
                return;
            }
        }
        if self.routes.is_empty() {
            let why = "no servers are named that it is for";
            import.lacks(&self.section.statement(), why, "default_backend");
        }
    }

    /// The service of one route, unless it has no clients or no servers. Returns whether there is
    /// room for more.
    fn write_route(
        &self,
        import: &mut Import,
        front: &HaproxyFront,
        route: &HaproxyRoute,
        taken: &mut TakenNames,
    ) -> bool {
        if let Some(rule) = route.rule.as_ref().filter(|_| !front.is_tls && !self.is_passthrough) {
            let why = "clients without TLS send no server name";
            import.lacks(rule, why, "front.redirect: let them come by https");
            return true;
        }
        if !import.has_room(import.draft.services.len(), &self.section.place) {
            return false;
        }
        let pairs = (route.names.len() + 1).saturating_mul(front.names.len() + 1);
        if !import.take_options(pairs / NAMES_PER_OPTION, &self.section.place) {
            return false;
        }
        let mut names = front.names_of(&route.names);
        let is_limited = !names.is_empty() || !route.names.is_empty();
        names.retain(|name| !taken.have(name));
        if is_limited && names.is_empty() {
            return true;
        }
        if route.protocols.is_empty() {
            names.iter().for_each(|name| taken.add(name));
        }
        let place = route.rule.as_ref().map_or(&self.section.place, |rule| &rule.place);
        let Some(section) = self.reading.backend(&route.backend) else {
            let default = self.options.find("default_backend").filter(|_| route.rule.is_none());
            let place = default.map_or(place, |rule| &rule.place);
            let why = format!("there is no backend `{}`", route.backend);
            import.fault(place, "backend", why, "write it");
            return true;
        };
        let backend = self.backs.get(&section.name);
        let Some((backend, back)) = backend.and_then(|one| Some((one, one.back.as_ref()?))) else {
            return true;
        };
        let options = self.reading.options(section);
        let own = self.common.len() + front.table.count() + self.addresses.count();
        if !import.take_options(own + options.len(), &self.section.place) {
            return false;
        }
        let mut name = self.section.name.clone();
        if route.rule.is_some() {
            name = format!("{name}-{}", route.backend);
        }
        let names: Vec<_> = names.into_iter().map(|name| (name, place)).collect();
        self.begin(import, front, &names, &name);
        for protocol in route.protocols.iter().filter(|_| route.rule.is_some()) {
            import.service.push("front.protocols", protocol.clone(), place.clone());
        }
        self.write_back(import, options, front, back.clone());
        write_timeouts(self.options, options, self.is_passthrough, import);
        if self.is_passthrough && !front.is_tls && import.service.has("back.tls.mode") {
            import.leave_out(&section.statement(), UnusableValue::new(TWICE, ONCE));
        } else {
            self.finish(import, Some((options, backend)));
        }
        true
    }

    /// Begins a service with its front.
    fn begin(
        &self,
        import: &mut Import,
        front: &HaproxyFront,
        names: &[(String, &SourceLine)],
        name: &str,
    ) {
        import.begin(name, self.section.place.clone());
        for (address, place) in &front.listen {
            import.service.push("front.listen", address.clone(), place.clone());
        }
        for (name, place) in names {
            import.service.push("front.names", name.clone(), (*place).clone());
        }
        let place = front.listen.first().map(|(_, place)| place.clone());
        match (front.is_tls, self.is_passthrough) {
            (true, _) => {}
            (false, true) => import.service.set("front.tls.mode", "passthrough", place),
            (false, false) => import.service.set("front.tls.mode", "off", place),
        }
        import.service.keys.extend(front.table.keys.iter().cloned());
        import.service.append(&self.addresses);
        write_keys(&self.common, true, import);
    }

    fn write_back(
        &self,
        import: &mut Import,
        options: &Statements,
        front: &HaproxyFront,
        back: HaproxyBack,
    ) {
        let is_h2 = back.is_h2;
        import.mapped(options.find("mode"), "as the frontend");
        import.service.keys.extend(back.table.keys);
        let is_passthrough = self.is_passthrough && !front.is_tls;
        let is_client = import.service.text("back.tls.name") == Some("client");
        if is_client && !front.is_tls && !is_passthrough {
            import.service.take("back.tls.name");
        }
        write_keys(options, false, import);
        write_sticks(options, is_passthrough, import);
        if let Some(alpn) = front.alpn.as_ref().filter(|_| self.is_http) {
            write_protocols(alpn, is_h2, import);
        }
    }

    /// Puts a service into the draft, with what HAProxy does where nobody wrote anything.
    fn finish(&self, import: &mut Import, back: Option<(&Statements, &HaproxyBackend)>) {
        let of_back = |key: &str| key.starts_with("service.back") || key.ends_with(".dial");
        let defaults = meanings::defaults_of(Predecessor::Haproxy).iter();
        let fitting = defaults.filter(|one| back.is_some() || !of_back(one.key));
        import.defaults(fitting);
        let of = self.section.statement();
        let of_back = || back.and_then(|(_, backend)| backend.refusal.as_ref());
        if let Some(rule) = self.refusal.as_ref().or_else(of_back) {
            return import.leave_out(&of, UnusableValue::refusal(rule));
        }
        let all = back.map(|(options, _)| self.common.and(options));
        import.finish(all.as_ref().unwrap_or(&self.common), &of);
    }
}

/// HAProxy speaks HTTP/2 to clients for servers that do not; Lariat does not.
fn write_protocols(alpn: &Statement, is_h2: bool, import: &mut Import) {
    let key = "service.front.tls.alpn";
    let words: Vec<_> = split(&alpn.words).map(str::to_owned).collect();
    if is_h2 {
        return import.put(key, array(["h2"]), alpn, "servers speak HTTP/2 alone");
    }
    let offered = import.service.find("back.tls.alpn").and_then(|key| key.values.first());
    if offered.is_some_and(|one| one.value.to_string().contains("\"h2\"")) {
        import.service.take("back.tls.alpn");
        return;
    }
    if words.iter().any(|word| word == "h2") {
        let others: Vec<_> = words.into_iter().filter(|word| word != "h2").collect();
        let others = if others.is_empty() { vec!["http/1.1".to_owned()] } else { others };
        let note = "without h2: HAProxy translated it, and servers get what clients speak; \
                    add it if they speak HTTP/2";
        import.put(key, array(others), alpn, note);
    }
}

/// Writes the options that a key says by itself, of the front or of the back.
fn write_keys(options: &Statements, of_front: bool, import: &mut Import) {
    for (name, written) in options.iter() {
        let Some(meaning) = find(name) else { continue };
        let is_front = |key: &str| {
            ["service.front", "service.limits", "workers"].iter().any(|one| key.starts_with(one))
        };
        if let OptionSupport::Key { key, .. } = meaning.support
            && is_front(key) == of_front
        {
            import.apply(meaning, written);
        }
    }
}

/// Clients that come back to their server.
fn write_sticks(options: &Statements, is_passthrough: bool, import: &mut Import) {
    let is_tls = |value: &str| value.replace(' ', "").contains("payload_lv(43,1");
    let remedy = "`balance = \"source\"`";
    for (name, written) in options.iter().filter(|(name, _)| name.starts_with("stick")) {
        let value = written.value();
        match name {
            "stick-table" if value.contains(" store ") => {
                import.lacks(written, "there are no counters of clients", "`limits`, `front.deny`");
            }
            "stick-table" => {
                let note = "its size is that of the session cache; addresses need none";
                import.joined(written, "resumption.session-cache", note);
            }
            _ if is_tls(&value) && is_passthrough => {
                let note = "sessions of TLS 1.2, by their id or ticket";
                import.put("service.back.affinity", "session-id", written, note);
            }
            _ if is_tls(&value) => {
                import.lacks(written, "sessions of clients are Lariat's own here", remedy);
            }
            _ if written.words.first().is_some_and(|word| word == "src") => {
                let note = "a consistent hash of the address, in place of a table";
                import.put("service.back.balance", "source", written, note);
            }
            _ => import.lacks(written, "clients are told apart by address and session", remedy),
        }
    }
}

const IDLE: &str = "service.timeouts.idle";
const HANDSHAKE: &str = "service.timeouts.handshake";
const NO_LIMIT: &str = "no limit: what is not written is HAProxy's";

/// Writes the times of a frontend and of a backend together; what is said by keys alone is there
/// already.
fn write_timeouts(
    front: &Statements,
    back: &Statements,
    is_passthrough: bool,
    import: &mut Import,
) {
    let tunnel = back.find("timeout tunnel").or_else(|| front.find("timeout tunnel"));
    let [client, server] = [front.find("timeout client"), back.find("timeout server")];
    write_idle([client, server], tunnel, import);
    let delay =
        front.find("tcp-request inspect-delay").or_else(|| back.find("tcp-request inspect-delay"));
    if let Some(delay) = delay.filter(|_| is_passthrough) {
        import.apply_key(HANDSHAKE, Conversion::Milliseconds, "", delay);
    } else if let Some(client) = client.filter(|one| !is_endless(one)) {
        import.apply_key(HANDSHAKE, Conversion::Milliseconds, "", client);
        import.remark("timeouts.handshake", "`timeout client` bounds the handshake too");
    }
    for written in
        front.all("tcp-request inspect-delay").chain(back.all("tcp-request inspect-delay"))
    {
        if !is_passthrough {
            import.mapped(written, "without effect: no rule waits for bytes");
        }
    }
    write_keepalive(front, ["option clitcpka", "clitcpka-idle"], "front", import);
    write_keepalive(back, ["option srvtcpka", "srvtcpka-idle"], "back", import);
    let waits = import.service.find("back.servers").is_some_and(|servers| {
        servers.values.iter().any(|one| one.value.to_string().contains("max-connections"))
    });
    if let Some(dial) = import.service.text("timeouts.dial").filter(|_| waits).map(str::to_owned) {
        let remark = "without `timeout queue`, HAProxy waits for as long as `timeout connect`";
        import.service.set_default("back.queue.timeout", dial, remark);
    }
}

/// The shorter time of the two sides, unless there is one for both.
fn write_idle(sides: [Option<&Statement>; 2], tunnel: Option<&Statement>, import: &mut Import) {
    let mut sides: Vec<_> = sides.into_iter().flatten().collect();
    let endless: Vec<_> = sides.iter().copied().filter(|one| is_endless(one)).collect();
    import.mapped(endless, NO_LIMIT);
    sides.retain(|one| !is_endless(one));
    sides.sort_by_key(|one| milliseconds(&one.value(), 1));
    let chosen = tunnel.or_else(|| sides.first().copied());
    let same = |one: &Statement| Some(one.value()) == chosen.map(Statement::value);
    let (alike, others): (Vec<_>, Vec<_>) = sides.iter().partition(|one| same(one));
    let note = match tunnel {
        Some(_) => "`timeout tunnel` counts for both sides",
        None => "the shorter of both sides counts for both",
    };
    import.joined(others, IDLE, note);
    import.joined(alike, IDLE, "");
    match chosen {
        Some(written) if is_endless(written) => import.mapped(written, NO_LIMIT),
        Some(written) => import.apply_key(IDLE, Conversion::Milliseconds, "", written),
        None => {}
    }
}

fn write_keepalive(
    options: &Statements,
    [option, idle]: [&str; 2],
    side: &str,
    import: &mut Import,
) {
    let key = format!("service.{side}.keepalive");
    let switches = [options.find("option tcpka"), options.find(option)];
    let on = switches.into_iter().flatten().last();
    let idle = options.find(idle);
    match (on, idle) {
        (Some(on), Some(idle)) => {
            import.apply_key(&key, Conversion::Seconds, "", idle);
            import.joined(on, &key, "");
        }
        (Some(on), None) => import.put(&key, "2h", on, "the kernel's own time"),
        (None, Some(idle)) => import.mapped(idle, "without effect: no client or server is asked"),
        (None, None) => {}
    }
}

/// Whether HAProxy takes a time as none.
fn is_endless(written: &Statement) -> bool {
    milliseconds(&written.value(), 1) == Some(0)
}
