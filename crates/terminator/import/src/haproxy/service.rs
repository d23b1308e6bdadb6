//! Services: each listener of a section with each of its routes.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::convert::{Unfit, array, is_among, split};
use crate::draft::DraftTable;
use crate::haproxy::back::{self, HaproxyBack};
use crate::haproxy::condition::{AclQuestions, NAMES_PER_OPTION};
use crate::haproxy::front::{self, HaproxyFront};
use crate::haproxy::reading::{HaproxyReading, HaproxySection, find};
use crate::haproxy::route::{self, HaproxyRoute};
use crate::haproxy::timeouts;
use crate::import::Import;
use crate::meaning::Sense;
use crate::meanings;
use crate::predecessor::Predecessor;
use crate::source::{SourceFiles, SourceLine, Statement};
use crate::statements::Statements;

const KEEP: &str = "keep it in HAProxy, behind Lariat";
const TWICE: &str = "`ssl` of its servers would put TLS around the clients' own, which the front \
                     keeps closed";
const ONCE: &str = "take it out, or give the `bind` its certificates by `ssl crt`";

/// Options of which a section has many, and which are read once for all of its services.
const LINES: &str = "acl bind server server-template use_backend";

/// A section with listeners, and what its services have in common.
struct HaproxyFrontend<'s> {
    section: &'s HaproxySection,
    options: &'s Statements,
    /// The options of which each service has keys of its own.
    common: Statements,
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
    fn read(
        reading: &HaproxyReading,
        section: &HaproxySection,
        import: &mut Import,
        files: &mut dyn SourceFiles,
    ) -> Self {
        let options = reading.options(section);
        let acls = AclQuestions::of(options, import, files);
        route::report_contents(options, &acls, import, files);
        Self {
            back: back::read(reading, section, import, files),
            refusal: route::refusal(reading, options, &acls, files),
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
pub(super) fn write(
    reading: &HaproxyReading,
    import: &mut Import,
    files: &mut dyn SourceFiles,
    place: &SourceLine,
) {
    let mut backs: HashMap<String, HaproxyBackend> = HashMap::new();
    for section in reading.sections.iter().filter(|one| one.kind != "defaults") {
        if !import.take_options(reading.count(section), &section.place) {
            return;
        }
    }
    for section in reading.sections.iter().filter(|one| one.has_front()) {
        let options = reading.options(section);
        if import.is_full() || !is_served(section, options, import) {
            continue;
        }
        let acls = AclQuestions::of(options, import, files);
        let mut routes = route::read(options, &acls, import, files);
        let is_own = options.iter().any(|(name, _)| is_among("server server-template", name));
        if section.has_back() && is_own && !routes.iter().any(|route| route.rule.is_none()) {
            routes.push(HaproxyRoute::default_to(&section.name));
        }
        let sections = routes.iter().filter_map(|route| reading.backend(&route.backend));
        for section in sections {
            if !backs.contains_key(&section.name) {
                let back = HaproxyBackend::read(reading, section, import, files);
                let options = reading.options(section);
                let acls = AclQuestions::of(options, import, files);
                route::report_acls(options, &acls, import);
                backs.insert(section.name.clone(), back);
            }
        }
        let reads_hellos = routes.iter().filter_map(|route| backs.get(&route.backend));
        let reads_hellos = reads_hellos.into_iter().any(|one| one.reads_hellos);
        let is_http = options.value("mode").as_deref() == Some("http");
        let (fronts, refusal) = front::read(reading, options, import, files);
        let mut addresses = DraftTable::default();
        if !fronts.is_empty() {
            route::write_addresses(options, &acls, import, files, &mut addresses);
        }
        let frontend = HaproxyFrontend {
            section,
            common: Statements::of(options.shared().filter(|(name, _)| !is_among(LINES, name))),
            addresses,
            refusal: refusal.or_else(|| route::refusal(reading, options, &acls, files)),
            is_http,
            is_passthrough: !is_http && (route::reads_hellos(options) || reads_hellos),
            redirect: route::redirects(options, &acls, import, files),
            options,
        };
        if fronts.is_empty() {
            let remedy = "see what is not mapped at its `bind`";
            import.lacks(&section.statement(), "it listens nowhere", remedy);
        }
        route::report_contents(options, &acls, import, files);
        for front in &fronts {
            let found = (routes.as_slice(), &backs);
            let is_other = |one: &&HaproxyFront| front.names.is_empty() && one.shares(front);
            let mut taken = TakenNames::default();
            let others = fronts.iter().filter(is_other).flat_map(|one| &one.names);
            others.for_each(|name| taken.add(name));
            frontend.write_front(reading, import, front, found, (taken, place));
        }
    }
    // What nobody uses is read all the same, so that the report is whole.
    for section in reading.sections.iter().filter(|one| one.kind == "backend") {
        if !backs.contains_key(&section.name) {
            import.lacks(&section.statement(), "no service leads to it", "name it in a frontend");
            let options = reading.options(section);
            let mut unused = DraftTable::default();
            HaproxyBackend::read(reading, section, import, files);
            write_keys(options, false, import, &mut unused);
            write_sticks(options, false, import, &mut unused);
        }
    }
}

/// Whether a section is used at all, and in a mode that is.
fn is_served(section: &HaproxySection, options: &Statements, import: &mut Import) -> bool {
    if let Some(written) = options.find("disabled") {
        import.lacks(
            written,
            "a section without connections is left out",
            "add it when it is used",
        );
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
    fn write_front(
        &self,
        reading: &HaproxyReading,
        import: &mut Import,
        front: &HaproxyFront,
        (routes, backs): (&[HaproxyRoute], &HashMap<String, HaproxyBackend>),
        (mut taken, place): (TakenNames, &SourceLine),
    ) {
        if let Some(redirect) = self.redirect.as_ref().filter(|_| !front.is_tls && self.is_http) {
            let name = format!("{}-redirect", self.section.name);
            let mut service = self.service(import, front, &[], &name);
            import.put(&mut service, "service.front.redirect", "https", redirect, "");
            timeouts::write(self.options, &Statements::default(), false, import, &mut service);
            return finish(import, service, place, (self, None));
        }
        let has_name = front.is_tls || self.is_passthrough;
        for route in routes {
            if let Some(rule) = route.rule.as_ref().filter(|_| !has_name) {
                let why = "clients without TLS send no server name";
                import.lacks(rule, why, "front.redirect: let them come by https");
                continue;
            }
            if !import.has_room(import.draft.services.len(), &self.section.place) {
                return;
            }
            let Some(mut names) = self.names_of(route, front, import) else {
                return;
            };
            let is_limited = !names.is_empty() || !route.names.is_empty();
            names.retain(|name| !taken.have(name));
            if is_limited && names.is_empty() {
                continue;
            }
            if route.protocols.is_empty() {
                names.iter().for_each(|name| taken.add(name));
            }
            let Some(section) = reading.backend(&route.backend) else {
                let rule = route.rule.as_ref().or_else(|| self.options.find("default_backend"));
                let place = rule.map_or(&self.section.place, |rule| &rule.place);
                let why = format!("there is no backend `{}`", route.backend);
                import.fault(place, "backend", why, "write it");
                continue;
            };
            let backend = backs.get(&section.name);
            let Some((backend, back)) = backend.and_then(|one| Some((one, one.back.as_ref()?)))
            else {
                continue;
            };
            let options = reading.options(section);
            let own = self.common.len() + front.table.count() + self.addresses.count();
            if !import.take_options(own + options.len(), &self.section.place) {
                return;
            }
            let name = match route.rule {
                Some(_) => format!("{}-{}", self.section.name, route.backend),
                None => self.section.name.clone(),
            };
            let named_at = route.rule.as_ref().map_or(&self.section.place, |rule| &rule.place);
            let names: Vec<_> = names.into_iter().map(|name| (name, named_at)).collect();
            let mut service = self.service(import, front, &names, &name);
            if let Some(rule) = &route.rule {
                for protocol in &route.protocols {
                    service.push("front.protocols", protocol.clone(), rule.place.clone());
                }
            }
            self.write_back(import, options, front, back.clone(), &mut service);
            timeouts::write(self.options, options, self.is_passthrough, import, &mut service);
            if self.is_passthrough && !front.is_tls && service.has("back.tls.mode") {
                import.leave_out(service, &section.statement(), Unfit::new(TWICE, ONCE));
                continue;
            }
            let back = (options, backend.refusal.as_ref());
            finish(import, service, place, (self, Some(back)));
        }
        if routes.is_empty() {
            let why = "no servers are named that it is for";
            import.lacks(&self.section.statement(), why, "default_backend");
        }
    }

    /// The names of a route that are served at a front; `None` = there were too many.
    fn names_of(
        &self,
        route: &HaproxyRoute,
        front: &HaproxyFront,
        import: &mut Import,
    ) -> Option<Vec<String>> {
        let pairs = (route.names.len() + 1).saturating_mul(front.names.len() + 1);
        let has_room = import.take_options(pairs / NAMES_PER_OPTION, &self.section.place);
        has_room.then(|| front.names_of(&route.names))
    }

    /// A service with its front.
    fn service(
        &self,
        import: &mut Import,
        front: &HaproxyFront,
        names: &[(String, &SourceLine)],
        name: &str,
    ) -> DraftTable {
        let mut service = DraftTable::default();
        let origin = &self.section.place;
        service.set("name", import.draft.free_name(name), origin.clone());
        for (address, place) in &front.listen {
            service.push("front.listen", address.clone(), place.clone());
        }
        for (name, place) in names {
            service.push("front.names", name.clone(), (*place).clone());
        }
        let place = front.listen.first().map(|(_, place)| place.clone());
        match (front.is_tls, self.is_passthrough) {
            (true, _) => {}
            (false, true) => service.set("front.tls.mode", "passthrough", place),
            (false, false) => service.set("front.tls.mode", "off", place),
        }
        service.keys.extend(front.table.keys.iter().cloned());
        service.append(&self.addresses);
        write_keys(&self.common, true, import, &mut service);
        service
    }

    fn write_back(
        &self,
        import: &mut Import,
        options: &Statements,
        front: &HaproxyFront,
        back: HaproxyBack,
        service: &mut DraftTable,
    ) {
        let is_h2 = back.is_h2;
        if let Some(mode) = options.find("mode") {
            import.mapped(mode, "as the frontend");
        }
        service.keys.extend(back.table.keys);
        let is_passthrough = self.is_passthrough && !front.is_tls;
        let is_client = service.text("back.tls.name") == Some("client");
        if is_client && !front.is_tls && !is_passthrough {
            service.take("back.tls.name");
        }
        write_keys(options, false, import, service);
        write_sticks(options, is_passthrough, import, service);
        if let Some(alpn) = front.alpn.as_ref().filter(|_| self.is_http) {
            write_protocols(alpn, is_h2, import, service);
        }
    }
}

/// HAProxy speaks HTTP/2 to clients for servers that do not; Lariat does not.
fn write_protocols(alpn: &Statement, is_h2: bool, import: &mut Import, service: &mut DraftTable) {
    let key = "service.front.tls.alpn";
    let words: Vec<_> = split(&alpn.words).map(str::to_owned).collect();
    if is_h2 {
        return import.put(service, key, array(["h2"]), alpn, "servers speak HTTP/2 alone");
    }
    let offered = service.find("back.tls.alpn").and_then(|key| key.values.first());
    if offered.is_some_and(|one| one.value.to_string().contains("\"h2\"")) {
        service.take("back.tls.alpn");
        return;
    }
    if words.iter().any(|word| word == "h2") {
        let others: Vec<_> = words.into_iter().filter(|word| word != "h2").collect();
        let others = if others.is_empty() { vec!["http/1.1".to_owned()] } else { others };
        let note = "without h2: HAProxy translated it, and servers get what clients speak; \
                    add it if they speak HTTP/2";
        import.put(service, key, array(others), alpn, note);
    }
}

/// Writes the options that a key says by itself, of the front or of the back.
fn write_keys(options: &Statements, of_front: bool, import: &mut Import, service: &mut DraftTable) {
    for (name, written) in options.iter() {
        let Some(meaning) = find(name) else {
            continue;
        };
        let is_front = |key: &str| {
            ["service.front", "service.limits", "workers"].iter().any(|one| key.starts_with(one))
        };
        if let Sense::Key { key, .. } = meaning.sense
            && is_front(key) == of_front
        {
            import.apply(meaning, written, service);
        }
    }
}

/// Clients that come back to their server.
fn write_sticks(
    options: &Statements,
    is_passthrough: bool,
    import: &mut Import,
    service: &mut DraftTable,
) {
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
                import.put(service, "service.back.affinity", "session-id", written, note);
            }
            _ if is_tls(&value) => {
                import.lacks(written, "sessions of clients are Lariat's own here", remedy);
            }
            _ if written.words.first().is_some_and(|word| word == "src") => {
                let note = "a consistent hash of the address, in place of a table";
                import.put(service, "service.back.balance", "source", written, note);
            }
            _ => import.lacks(written, "clients are told apart by address and session", remedy),
        }
    }
}

/// Puts a service into the draft, with what HAProxy does where nobody wrote anything.
fn finish(
    import: &mut Import,
    mut service: DraftTable,
    place: &SourceLine,
    (frontend, back): (&HaproxyFrontend<'_>, Option<(&Statements, Option<&Statement>)>),
) {
    let of_back = |key: &str| key.starts_with("service.back") || key.ends_with(".dial");
    let defaults = meanings::defaults_of(Predecessor::Haproxy).iter();
    let fitting = defaults.filter(|one| back.is_some() || !of_back(one.key));
    import.defaults(fitting, place, &mut service);
    let of = frontend.section.statement();
    let refused = frontend.refusal.as_ref().or_else(|| back.and_then(|(_, refusal)| refusal));
    let all = back.map(|(options, _)| frontend.common.and(options));
    let all = all.unwrap_or_else(|| frontend.common.clone());
    match refused {
        Some(rule) => import.leave_out(service, &of, Unfit::refusal(rule)),
        None => import.finish(service, &all, &of),
    }
}
