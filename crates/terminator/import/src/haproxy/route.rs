//! The ways from a frontend to backends, and the clients that may go them.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use toml::Value;

use crate::convert::is_among;
use crate::draft::DraftTable;
use crate::haproxy::condition::{
    AclQuestion, AclQuestions, NAMES_PER_OPTION, RuleCondition, split,
};
use crate::haproxy::reading::HaproxyReading;
use crate::import::{Import, Importer};
use crate::source::{SourceFiles, Statement};
use crate::statements::Statements;

const NAMES: &str = "service.front.names";
const RULES: &str = "Lariat tells clients apart by server name, protocol and address alone";
const LETS_IN: &str =
    "clients are let in that HAProxy refused: Lariat knows their addresses alone here";
const KEEP: &str = "keep it in HAProxy, behind Lariat";

/// The clients that a backend is for.
#[derive(Clone, Debug)]
pub(super) struct HaproxyRoute {
    /// None = the default.
    pub(super) rule: Option<Statement>,
    pub(super) backend: String,
    pub(super) names: Vec<String>,
    pub(super) protocols: Vec<String>,
}

impl HaproxyRoute {
    /// The route of all who have no other.
    pub(super) fn default_to(backend: &str) -> Self {
        let (names, protocols) = (Vec::new(), Vec::new());
        Self { rule: None, backend: backend.to_owned(), names, protocols }
    }
}

/// The routes of a section, the default last.
pub(super) fn read(
    options: &Statements,
    acls: &AclQuestions,
    import: &mut Importer<'_>,
) -> Vec<HaproxyRoute> {
    let mut routes: Vec<HaproxyRoute> = Vec::new();
    report_acls(options, acls, import);
    // The names of the routes before, by their protocols.
    let mut taken: HashMap<Vec<String>, HashSet<String>> = HashMap::new();
    for rule in options.all("use_backend") {
        if !import.has_room(routes.len(), &rule.place) {
            break;
        }
        let (words, condition) = split(&rule.words, acls, import.files);
        let backend = words.first().cloned().unwrap_or_default();
        let Some(condition) = condition else {
            import.lacks(
                rule,
                "has no condition, so that no later rule is asked",
                "default_backend",
            );
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
    if let Some(rule) = options.find("default_backend") {
        import.joined(rule, "service.back", "");
        routes.push(HaproxyRoute::default_to(&rule.value()));
    }
    routes
}

/// Reports which questions are asked.
pub(super) fn report_acls(options: &Statements, acls: &AclQuestions, import: &mut Import) {
    for (acl, question) in options.all("acl").zip(&acls.all) {
        match **question {
            AclQuestion::Other => import.lacks(acl, RULES, KEEP),
            _ => import.mapped(acl, "where a rule names it"),
        }
    }
}

/// Names and protocols of a condition on nothing else; and whether requests are asked.
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
        // Two terms on names hold together for hardly any client.
        let on_names = |one: &Rc<AclQuestion>| matches!(**one, AclQuestion::Names { .. });
        let terms_on_names = terms.iter().filter(|term| term.questions.iter().any(on_names));
        if !is_named || terms_on_names.count() > 1 {
            return None;
        }
    }
    (!condition.alternatives.is_empty()).then_some((names, protocols, is_of_request))
}

/// Whether all requests are sent to https.
pub(super) fn redirects(
    options: &Statements,
    acls: &AclQuestions,
    import: &mut Importer<'_>,
) -> Option<Statement> {
    let mut found = None;
    for rule in options.all("http-request redirect") {
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
pub(super) fn write_addresses(
    options: &Statements,
    acls: &AclQuestions,
    import: &mut Importer<'_>,
    table: &mut DraftTable,
) {
    for rule in options.all("tcp-request connection") {
        let (words, condition) = split(&rule.words, acls, import.files);
        let refuses = is_among(REFUSALS, words.first().map_or("", String::as_str));
        match key_of_addresses(words, condition.as_ref(), options) {
            Some(key) if condition.is_none() => import.joined(rule, key, ""),
            Some(key) => {
                let only = condition.as_ref().and_then(RuleCondition::only);
                if let Some((_, AclQuestion::Sources(networks))) = only {
                    for network in networks {
                        import.add(table, key, Value::from(network.clone()), rule, "");
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

/// The key that says a rule on the addresses of clients.
fn key_of_addresses(
    words: &[String],
    condition: Option<&RuleCondition>,
    options: &Statements,
) -> Option<&'static str> {
    let mut rules = options.all("tcp-request connection");
    let is_closed = rules.any(|rule| rule.words == ["reject"]);
    match (words.first()?.as_str(), condition.map(RuleCondition::only)) {
        ("reject", Some(Some((false, AclQuestion::Sources(_))))) => Some("service.front.deny"),
        ("reject", Some(Some((true, AclQuestion::Sources(_))))) => Some("service.front.allow"),
        ("accept", Some(Some((false, AclQuestion::Sources(_))))) if is_closed => {
            Some("service.front.allow")
        }
        ("expect-proxy", Some(Some((false, AclQuestion::Sources(_))))) => {
            Some("service.front.accept-proxy")
        }
        ("reject", None) => Some("service.front.allow"),
        _ => None,
    }
}

/// Words of rules by which clients or answers are refused.
const REFUSALS: &str = "close deny reject silent-drop tarpit";

/// The first rule that refuses clients or answers in a way that cannot be said.
pub(super) fn refusal(
    reading: &HaproxyReading,
    options: &Statements,
    acls: &AclQuestions,
    files: &mut dyn SourceFiles,
) -> Option<Statement> {
    for rule in options.all("use_backend") {
        let (words, condition) = split(&rule.words, acls, files);
        let is_lost = condition.is_some_and(|condition| clients(&condition).is_none());
        // Clients that are sent to a section without servers are refused.
        let section = words.first().and_then(|name| reading.backend(name));
        let is_server = |(name, _): (&str, &Statement)| is_among("server server-template", name);
        if is_lost && section.is_some_and(|one| !one.options.iter().any(is_server)) {
            return Some(rule.clone());
        }
    }
    // Each of these would add to the networks that are let in.
    let (mut allowing, mut is_closed) = (Vec::new(), None);
    for rule in options.all("tcp-request connection") {
        let (words, condition) = split(&rule.words, acls, files);
        let refuses = is_among(REFUSALS, words.first().map_or("", String::as_str));
        match key_of_addresses(words, condition.as_ref(), options) {
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
    let closes = closes_to_others(options, acls, files);
    for name in ["tcp-request content", "tcp-response content"] {
        for rule in options.all(name) {
            let first = rule.words.first().map_or("", String::as_str);
            let refuses = is_among(REFUSALS, first) || first.starts_with("lua.");
            if refuses && !is_of_hello(rule, closes, acls, files) {
                return Some(rule.clone());
            }
        }
    }
    None
}

/// Whether a rule on the first bytes waits for a hello alone, as Lariat does. One without condition
/// does if it `closes` to others.
fn is_of_hello(
    rule: &Statement,
    closes: bool,
    acls: &AclQuestions,
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

/// Whether a rule that rejects all stands behind others that accept hellos.
fn closes_to_others(
    options: &Statements,
    acls: &AclQuestions,
    files: &mut dyn SourceFiles,
) -> bool {
    let mut others = options.all("tcp-request content").filter(|one| one.words != ["reject"]);
    let is_first = others.next().is_some_and(|one| is_of_hello(one, false, acls, files));
    is_first && others.all(|one| is_of_hello(one, false, acls, files))
}

/// Whether the section looks into hellos of TLS that it does not answer.
pub(super) fn reads_hellos(options: &Statements) -> bool {
    let names = ["acl", "use_backend", "tcp-request content", "tcp-response content", "stick on"];
    let is_hello = |one: &Statement| {
        let value = one.value();
        ["req_ssl", "req.ssl", "rep_ssl", "res.ssl"].iter().any(|word| value.contains(word))
    };
    names.iter().any(|name| options.all(name).any(is_hello))
}

/// Reports rules on the first bytes: those that wait for a hello hold here in any case.
pub(super) fn report_contents(
    options: &Statements,
    acls: &AclQuestions,
    import: &mut Importer<'_>,
) {
    let closes = closes_to_others(options, acls, import.files);
    for name in ["tcp-request content", "tcp-response content"] {
        for rule in options.all(name) {
            if is_of_hello(rule, closes, acls, import.files) {
                import.joined(rule, "service.front.tls.mode", "");
            } else {
                import.lacks(rule, RULES, KEEP);
            }
        }
    }
}
