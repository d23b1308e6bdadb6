//! Routes from a frontend to backends, and their clients: rules with conditions on names, protocols
//! and addresses, as far as Lariat can evaluate those.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use toml::Value;

use crate::convert::is_among;
use crate::haproxy::syntax::HaproxyReading;
use crate::import::{Import, Importer};
use crate::source::{SourceFiles, Statement, Statements};

const NAMES: &str = "service.front.names";
const RULES: &str = "Lariat tells clients apart by server name, protocol and address alone";
const LETS_IN: &str =
    "clients are let in that HAProxy refused: Lariat knows their addresses alone here";
const KEEP: &str = "keep it in HAProxy, behind Lariat";

/// Clients of a backend.
#[derive(Clone, Debug)]
pub(super) struct HaproxyRoute {
    /// `None` for the default route.
    pub(super) rule: Option<Statement>,
    pub(super) backend: String,
    pub(super) names: Vec<String>,
    pub(super) protocols: Vec<String>,
}

impl HaproxyRoute {
    /// Returns the route of clients that match no other.
    pub(super) fn default_to(backend: &str) -> Self {
        let (names, protocols) = (Vec::new(), Vec::new());
        Self { rule: None, backend: backend.to_owned(), names, protocols }
    }
}

/// Reads the routes of a section, the default last.
pub(super) fn read(acls: &AclQuestions<'_>, import: &mut Importer<'_>) -> Vec<HaproxyRoute> {
    let mut routes: Vec<HaproxyRoute> = Vec::new();
    report_acls(acls, import);
    // Names of earlier routes, by their protocols.
    let mut taken: HashMap<Vec<String>, HashSet<String>> = HashMap::new();
    for rule in acls.options.all("use_backend") {
        if !import.has_room(routes.len(), &rule.place) {
            break;
        }
        let (words, condition) = split(&rule.words, acls, import.files);
        let backend = words.first().cloned().unwrap_or_default();
        let Some(condition) = condition else {
            let remedy = "default_backend";
            import.lacks(rule, "has no condition, so that no later rule is asked", remedy);
            continue;
        };
        match clients(&condition) {
            Some((mut names, protocols, is_of_request)) if !backend.starts_with("%[") => {
                if !import.take_options(names.len() / NAMES_PER_OPTION, &rule.place) {
                    break;
                }
                let taken = taken.entry(protocols.clone()).or_default();
                names.retain(|name| taken.insert(name.clone()));
                let difference = if is_of_request {
                    "by the server name of the TLS hello, not by the field Host"
                } else {
                    ""
                };
                import.joined(rule, NAMES, difference);
                if !names.is_empty() || !protocols.is_empty() {
                    routes.push(HaproxyRoute {
                        rule: Some(rule.clone()),
                        backend,
                        names,
                        protocols,
                    });
                }
            }
            _ => import.lacks(rule, RULES, KEEP),
        }
    }
    if let Some(rule) = acls.options.find("default_backend") {
        import.joined(rule, "service.back", "");
        routes.push(HaproxyRoute::default_to(&rule.value()));
    }
    routes
}

/// Reports the ACLs that are in use.
pub(super) fn report_acls(acls: &AclQuestions<'_>, import: &mut Import) {
    for (acl, question) in acls.options.all("acl").zip(&acls.all) {
        match **question {
            AclQuestion::Other => import.lacks(acl, RULES, KEEP),
            _ => import.mapped(acl, "where a rule names it"),
        }
    }
}

/// Returns names and protocols of a condition on nothing else, and whether it reads requests.
fn clients(condition: &RuleCondition) -> Option<(Vec<String>, Vec<String>, bool)> {
    let (mut names, mut protocols, mut is_of_request) = (Vec::new(), Vec::new(), false);
    let is_alone = condition.alternatives.len() == 1;
    for terms in &condition.alternatives {
        let mut is_named = false;
        for term in terms {
            for question in &term.questions {
                match &**question {
                    _ if term.is_negated || condition.is_unless => return None,
                    AclQuestion::Hello | AclQuestion::Always => {}
                    AclQuestion::Names { names: these, is_of_request: of_request } => {
                        names.extend(these.iter().cloned());
                        is_of_request |= of_request;
                        is_named = true;
                    }
                    AclQuestion::Protocols(these) if is_alone => {
                        protocols.extend(these.iter().cloned());
                        is_named = true;
                    }
                    _ => return None,
                }
            }
        }
        // Hardly any client satisfies two terms on names.
        let on_names = |one: &Rc<AclQuestion>| matches!(**one, AclQuestion::Names { .. });
        let terms_on_names = terms.iter().filter(|term| term.questions.iter().any(on_names));
        if !is_named || terms_on_names.count() > 1 {
            return None;
        }
    }
    (!condition.alternatives.is_empty()).then_some((names, protocols, is_of_request))
}

/// Returns the rule that redirects all requests to https.
pub(super) fn redirects(acls: &AclQuestions<'_>, import: &mut Importer<'_>) -> Option<Statement> {
    let mut found = None;
    for rule in acls.options.all("http-request redirect") {
        let (words, condition) = split(&rule.words, acls, import.files);
        let is_https = words.windows(2).any(|pair| pair == ["scheme", "https"]);
        let is_for_all = match condition.as_ref().map(RuleCondition::only) {
            None => true,
            Some(only) => {
                matches!(only, Some((true, AclQuestion::Tls)) | Some((false, AclQuestion::Always)))
            }
        };
        if is_https && is_for_all {
            import.joined(rule, "service.front.redirect", "301 for GET and HEAD, 308 for others");
            found = Some(rule.clone());
        } else {
            import.lacks(rule, "only all requests together are redirected, to https", KEEP);
        }
    }
    found
}

/// Writes the rules on addresses of clients.
pub(super) fn write_addresses(acls: &AclQuestions<'_>, import: &mut Importer<'_>) {
    for rule in acls.options.all("tcp-request connection") {
        let (words, condition) = split(&rule.words, acls, import.files);
        let refuses = is_among(REFUSALS, words.first().map_or("", String::as_str));
        match key_of_addresses(words, condition.as_ref(), acls.options) {
            Some(key) if condition.is_none() => import.joined(rule, key, ""),
            Some(key) => {
                let only = condition.as_ref().and_then(RuleCondition::only);
                if let Some((_, AclQuestion::Sources(networks))) = only {
                    for network in networks {
                        import.add(key, Value::from(network.clone()), rule, "");
                    }
                }
            }
            None => {
                let why = if refuses { LETS_IN } else { RULES };
                import.lacks(rule, why, "`front.allow`, `front.deny`");
            }
        }
    }
}

/// Returns the key for a rule on the addresses of clients.
fn key_of_addresses(
    words: &[String],
    condition: Option<&RuleCondition>,
    options: &Statements,
) -> Option<&'static str> {
    use AclQuestion::Sources;
    let mut rules = options.all("tcp-request connection");
    let is_closed = rules.any(|rule| rule.words == ["reject"]);
    match (words.first()?.as_str(), condition.map(RuleCondition::only)) {
        ("reject", Some(Some((false, Sources(_))))) => Some("service.front.deny"),
        ("reject", Some(Some((true, Sources(_))))) => Some("service.front.allow"),
        ("accept", Some(Some((false, Sources(_))))) if is_closed => Some("service.front.allow"),
        ("expect-proxy", Some(Some((false, Sources(_))))) => Some("service.front.accept-proxy"),
        ("reject", None) => Some("service.front.allow"),
        _ => None,
    }
}

/// Words of rules that refuse clients or answers.
const REFUSALS: &str = "close deny reject silent-drop tarpit";

/// Returns the first rule that refuses clients or answers in a way that no key covers.
pub(super) fn refusal(
    reading: &HaproxyReading,
    acls: &AclQuestions<'_>,
    files: &mut dyn SourceFiles,
) -> Option<Statement> {
    for rule in acls.options.all("use_backend") {
        let (words, condition) = split(&rule.words, acls, files);
        let is_lost = condition.is_some_and(|condition| clients(&condition).is_none());
        // HAProxy refuses clients of a section without servers.
        let section = words.first().and_then(|name| reading.backend(name));
        let is_server = |(name, _): (&str, &Statement)| is_among("server server-template", name);
        if is_lost && section.is_some_and(|one| !one.options.iter().any(is_server)) {
            return Some(rule.clone());
        }
    }
    // Each of these rules would add to the allowed networks.
    let (mut allowing, mut is_closed) = (Vec::new(), None);
    for rule in acls.options.all("tcp-request connection") {
        let (words, condition) = split(&rule.words, acls, files);
        let refuses = is_among(REFUSALS, words.first().map_or("", String::as_str));
        match key_of_addresses(words, condition.as_ref(), acls.options) {
            None if refuses => return Some(rule.clone()),
            Some("service.front.allow") if condition.is_none() => is_closed = Some(rule),
            Some("service.front.allow") => allowing.push((refuses, rule)),
            _ => {}
        }
    }
    let negated = allowing.iter().find(|(refuses, _)| *refuses && allowing.len() > 1);
    let nobody = is_closed.filter(|_| allowing.is_empty());
    if let Some(rule) = negated.map(|(_, rule)| *rule).or(nobody) {
        return Some(rule.clone());
    }
    let closes = closes_to_others(acls, files);
    for name in ["tcp-request content", "tcp-response content"] {
        for rule in acls.options.all(name) {
            let first = rule.words.first().map_or("", String::as_str);
            let refuses = is_among(REFUSALS, first) || first.starts_with("lua.");
            if refuses && !is_of_hello(rule, closes, acls, files) {
                return Some(rule.clone());
            }
        }
    }
    None
}

/// Reports whether a rule on the first bytes only waits for a hello, as Lariat does. A rule without
/// condition does if it `closes` for others.
fn is_of_hello(
    rule: &Statement,
    closes: bool,
    acls: &AclQuestions<'_>,
    files: &mut dyn SourceFiles,
) -> bool {
    let (words, condition) = split(&rule.words, acls, files);
    match condition.as_ref().map(RuleCondition::only) {
        Some(Some((is_negated, AclQuestion::Hello))) => {
            words == [if is_negated { "reject" } else { "accept" }]
        }
        None => closes && words == ["reject"],
        _ => false,
    }
}

/// Reports whether a rule that rejects everything follows rules that accept hellos.
fn closes_to_others(acls: &AclQuestions<'_>, files: &mut dyn SourceFiles) -> bool {
    let mut others = acls.options.all("tcp-request content").filter(|one| one.words != ["reject"]);
    let is_first = others.next().is_some_and(|one| is_of_hello(one, false, acls, files));
    is_first && others.all(|one| is_of_hello(one, false, acls, files))
}

/// Reports whether the section reads TLS hellos that it does not answer.
pub(super) fn reads_hellos(options: &Statements) -> bool {
    let names = ["acl", "use_backend", "tcp-request content", "tcp-response content", "stick on"];
    let is_hello = |one: &Statement| {
        let value = one.value();
        ["req_ssl", "req.ssl", "rep_ssl", "res.ssl"].iter().any(|word| value.contains(word))
    };
    names.iter().any(|name| options.all(name).any(is_hello))
}

/// Reports rules on the first bytes. Lariat waits for a hello in any case.
pub(super) fn report_contents(acls: &AclQuestions<'_>, import: &mut Importer<'_>) {
    let closes = closes_to_others(acls, import.files);
    for name in ["tcp-request content", "tcp-response content"] {
        for rule in acls.options.all(name) {
            if is_of_hello(rule, closes, acls, import.files) {
                import.joined(rule, "service.front.tls.mode", "");
            } else {
                import.lacks(rule, RULES, KEEP);
            }
        }
    }
}

/// Question that an ACL asks.
#[derive(Clone, Debug, PartialEq)]
enum AclQuestion {
    /// Names of servers, `*.` for subdomains; from the TLS hello, or from the field Host.
    Names {
        names: Vec<String>,
        is_of_request: bool,
    },
    Protocols(Vec<String>),
    /// Whether a connection begins with a TLS hello.
    Hello,
    /// Networks of clients, or files of them.
    Sources(Vec<String>),
    /// Whether the client uses TLS.
    Tls,
    Always,
    Other,
}

/// Question whose answer may be negated; one of several answers must hold.
#[derive(Clone, Debug)]
struct RuleTerm {
    is_negated: bool,
    questions: Vec<Rc<AclQuestion>>,
}

/// Alternatives; all terms of one of them must hold.
#[derive(Clone, Debug)]
struct RuleCondition {
    is_unless: bool,
    alternatives: Vec<Vec<RuleTerm>>,
}

impl RuleCondition {
    /// Returns the only question of the condition, and whether its answer must be no.
    fn only(&self) -> Option<(bool, &AclQuestion)> {
        let [terms] = self.alternatives.as_slice() else { return None };
        let [RuleTerm { is_negated, questions }] = terms.as_slice() else { return None };
        let [one] = questions.as_slice() else { return None };
        Some((*is_negated != self.is_unless, &**one))
    }
}

/// Splits a rule into the words before its condition, and that condition.
fn split<'w>(
    words: &'w [String],
    acls: &AclQuestions<'_>,
    files: &mut dyn SourceFiles,
) -> (&'w [String], Option<RuleCondition>) {
    let begin = words.iter().position(|word| word == "if" || word == "unless");
    let Some(begin) = begin else { return (words, None) };
    let (before, behind) = words.split_at(begin);
    let is_unless = behind.first().is_some_and(|word| word == "unless");
    let mut alternatives = vec![Vec::new()];
    let mut is_negated = false;
    let mut rest = behind.iter().skip(1);
    while let Some(word) = rest.next() {
        let (mark, word) = match word.strip_prefix('!') {
            Some(word) => (true, word),
            None => (false, word.as_str()),
        };
        is_negated ^= mark;
        let questions = match word {
            "" => continue,
            "or" | "||" => {
                alternatives.push(Vec::new());
                continue;
            }
            "{" => {
                let inside: Vec<_> =
                    rest.by_ref().take_while(|word| *word != "}").cloned().collect();
                vec![Rc::new(question(&inside, files))]
            }
            "TRUE" => vec![Rc::new(AclQuestion::Always)],
            "HTTP" | "FALSE" => vec![Rc::new(AclQuestion::Other)],
            name => acls.by_name.get(name).cloned().unwrap_or_default(),
        };
        if let Some(last) = alternatives.last_mut() {
            last.push(RuleTerm { is_negated: std::mem::take(&mut is_negated), questions });
        }
    }
    (before, Some(RuleCondition { is_unless, alternatives }))
}

/// Number of names in an ACL's file that take about as much time as one option.
pub(super) const NAMES_PER_OPTION: usize = 16;

/// Options of a section, and the questions of all its lines `acl NAME …`.
#[derive(Debug)]
pub(super) struct AclQuestions<'s> {
    options: &'s Statements,
    /// In the order of the lines.
    all: Vec<Rc<AclQuestion>>,
    by_name: HashMap<String, Vec<Rc<AclQuestion>>>,
}

impl<'s> AclQuestions<'s> {
    pub(super) fn of(options: &'s Statements, import: &mut Importer<'_>) -> Self {
        let mut these = Self { options, all: Vec::new(), by_name: HashMap::new() };
        for acl in options.all("acl") {
            let question = Rc::new(question(acl.words.get(1..).unwrap_or_default(), import.files));
            if !import.take_options(question.names() / NAMES_PER_OPTION, &acl.place) {
                break;
            }
            let name = acl.words.first().cloned().unwrap_or_default();
            these.by_name.entry(name).or_default().push(Rc::clone(&question));
            these.all.push(question);
        }
        these
    }
}

impl AclQuestion {
    fn names(&self) -> usize {
        match self {
            Self::Names { names, .. } => names.len(),
            _ => 1,
        }
    }
}

fn question(words: &[String], files: &mut dyn SourceFiles) -> AclQuestion {
    let mut words = words.iter();
    let fetch = words.next().map_or("", String::as_str);
    let (fetch, converters) = fetch.split_once(',').unwrap_or((fetch, ""));
    if !["", "lower", "field(1,:)", "field(1,:),lower", "lower,field(1,:)"].contains(&converters) {
        return AclQuestion::Other;
    }
    let mut matching = "str";
    let mut values: Vec<String> = Vec::new();
    let is_source = fetch == "src";
    while let Some(word) = words.next() {
        match word.as_str() {
            "-i" | "-n" | "--" => {}
            "-m" => matching = words.next().map_or("", String::as_str),
            "-f" if is_source => values.extend(words.next().cloned()),
            "-f" => match words.next().map(|path| files.read(Path::new(path))) {
                Some(Ok(text)) => {
                    let lines = text.lines().map(str::trim);
                    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
                    values.extend(lines.map(str::to_owned));
                }
                _ => return AclQuestion::Other,
            },
            value => values.push(value.to_owned()),
        }
    }
    let (fetch, matching) = match fetch.strip_suffix("_end") {
        Some(fetch) => (fetch, "end"),
        None => (fetch, matching),
    };
    match fetch {
        "req_ssl_sni" | "req.ssl_sni" | "ssl_fc_sni" => names(values, matching, false),
        "hdr(host)" | "req.hdr(host)" | "hdr(Host)" | "req.hdr(Host)" => {
            names(values, matching, true)
        }
        "hdr_dom(host)" | "hdr_beg(host)" | "hdr_sub(host)" => AclQuestion::Other,
        "req.ssl_alpn" | "ssl_fc_alpn" if matching == "str" => AclQuestion::Protocols(values),
        "req_ssl_hello_type" | "req.ssl_hello_type" | "rep_ssl_hello_type"
        | "res.ssl_hello_type" => AclQuestion::Hello,
        "src" if !values.is_empty() => AclQuestion::Sources(values),
        "ssl_fc" => AclQuestion::Tls,
        "always_true" => AclQuestion::Always,
        _ => AclQuestion::Other,
    }
}

/// Converts names to the form of `front.names`.
fn names(values: Vec<String>, matching: &str, is_of_request: bool) -> AclQuestion {
    let is_name = |name: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        name.len() < 254 && name.chars().all(fits) && !name.split('.').any(str::is_empty)
    };
    let ours = values.into_iter().map(|value| {
        let value = value.to_ascii_lowercase();
        match (matching, value.strip_prefix('.')) {
            ("str", None) if is_name(&value) => Some(value),
            ("end", Some(beneath)) if is_name(beneath) => Some(format!("*.{beneath}")),
            _ => None,
        }
    });
    match ours.collect::<Option<Vec<_>>>() {
        Some(names) if !names.is_empty() => AclQuestion::Names { names, is_of_request },
        _ => AclQuestion::Other,
    }
}
