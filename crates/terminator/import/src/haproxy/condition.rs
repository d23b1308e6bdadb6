//! Conditions of rules: those on names, protocols and addresses that Lariat can tell.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use crate::import::Importer;
use crate::source::SourceFiles;
use crate::statements::Statements;

/// The question that an ACL asks.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AclQuestion {
    /// HaproxyServer names, `*.` for those beneath; by the TLS hello, or by the field Host.
    Names {
        names: Vec<String>,
        is_of_request: bool,
    },
    Protocols(Vec<String>),
    /// Whether a connection begins with a hello of TLS.
    Hello,
    /// Networks of clients, or files of them.
    Sources(Vec<String>),
    /// Whether the client speaks TLS.
    Tls,
    Always,
    Other,
}

/// A question, the answer to which may be turned round; several answers of which one must hold.
#[derive(Clone, Debug)]
pub(super) struct RuleTerm {
    pub(super) is_negated: bool,
    pub(super) questions: Vec<Rc<AclQuestion>>,
}

/// Alternatives, of each of which all terms must hold.
#[derive(Clone, Debug)]
pub(super) struct RuleCondition {
    pub(super) is_unless: bool,
    pub(super) alternatives: Vec<Vec<RuleTerm>>,
}

impl RuleCondition {
    /// The only question that is asked, and whether the answer must be no.
    pub(super) fn only(&self) -> Option<(bool, &AclQuestion)> {
        match self.alternatives.as_slice() {
            [terms] => match terms.as_slice() {
                [RuleTerm { is_negated, questions }] => match questions.as_slice() {
                    [one] => Some((*is_negated != self.is_unless, &**one)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

/// Words of a rule before its condition, and that condition.
pub(super) fn split<'w>(
    words: &'w [String],
    acls: &AclQuestions,
    files: &mut dyn SourceFiles,
) -> (&'w [String], Option<RuleCondition>) {
    let begin = words.iter().position(|word| word == "if" || word == "unless");
    let Some(begin) = begin else {
        return (words, None);
    };
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

/// Names in a file of an ACL that take about as much time as one option.
pub(super) const NAMES_PER_OPTION: usize = 16;

/// The questions of all lines `acl NAME …` of a section.
#[derive(Debug, Default)]
pub(super) struct AclQuestions {
    /// In the order of the lines.
    pub(super) all: Vec<Rc<AclQuestion>>,
    by_name: HashMap<String, Vec<Rc<AclQuestion>>>,
}

impl AclQuestions {
    pub(super) fn of(options: &Statements, import: &mut Importer<'_>) -> Self {
        let mut these = Self::default();
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

/// Names as `front.names` has them.
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
