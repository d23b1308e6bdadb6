//! The grammar of hitch's file and of its command line.

use crate::convert::is_among;
use crate::meanings::{self, Predecessor};
use crate::source::{SourceLine, Statement};

/// Option, with the options in its block if it has one.
#[derive(Debug)]
pub(super) struct HitchEntry {
    pub(super) statement: Statement,
    pub(super) block: Option<Vec<Self>>,
}

impl HitchEntry {
    /// Returns the option's name in the table of meanings.
    pub(super) fn name(&self) -> Option<&'static str> {
        meanings::find(Predecessor::Hitch, &self.statement.option).map(|one| one.option)
    }
}

/// Place and text of a fault.
pub(super) type SyntaxFault = (SourceLine, String);

/// Maximum depth of nested blocks: a certificate in a frontend.
const DEPTH_MAX: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Token<'t> {
    Word(&'t str),
    /// Word in quotes.
    Text(&'t str),
    Equals,
    Open,
    Close,
}

/// Parses a file: `option = words` and `option = { ... }`; `#` begins a comment.
pub(super) fn parse(text: &str, place: &SourceLine) -> Result<Vec<HitchEntry>, SyntaxFault> {
    let tokens = tokens(text, place)?;
    let mut reader = Reader { tokens: &tokens, end: place.at(text.lines().count().max(1)) };
    let entries = reader.entries(0)?;
    match reader.tokens.first() {
        Some((place, _)) => Err((place.clone(), "`}` closes no block".to_owned())),
        None => Ok(entries),
    }
}

fn tokens<'t>(
    text: &'t str,
    place: &SourceLine,
) -> Result<Vec<(SourceLine, Token<'t>)>, SyntaxFault> {
    let mut tokens = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let mut rest = line.trim_start_matches('\u{feff}').trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                '#' => break,
                '=' | '{' | '}' => 1,
                '"' => match rest.get(1..).and_then(|tail| tail.find('"')) {
                    Some(end) => end + 2,
                    None => return Err((place.at(number), "a quote is not closed".to_owned())),
                },
                _ => rest
                    .find(|c: char| c.is_whitespace() || "={}\"#".contains(c))
                    .unwrap_or(rest.len()),
            };
            let (word, tail) = rest.split_at(length);
            let token = match first {
                '=' => Token::Equals,
                '{' => Token::Open,
                '}' => Token::Close,
                '"' => Token::Text(word.trim_matches('"')),
                _ => Token::Word(word),
            };
            tokens.push((place.at(number), token));
            rest = tail.trim_start();
        }
    }
    Ok(tokens)
}

struct Reader<'r, 't> {
    tokens: &'r [(SourceLine, Token<'t>)],
    end: SourceLine,
}

impl Reader<'_, '_> {
    /// Parses entries until the end of the file, or of the block.
    fn entries(&mut self, depth: usize) -> Result<Vec<HitchEntry>, SyntaxFault> {
        let mut entries = Vec::new();
        loop {
            match self.tokens {
                [(place, Token::Word(flag)), ..] if flag.starts_with('-') => {
                    return Err((place.clone(), format!("`{flag}`: flags stand in no file")));
                }
                [(place, Token::Word(option)), (_, Token::Equals), ..] => {
                    self.tokens = self.tokens.get(2..).unwrap_or_default();
                    entries.push(self.entry(place, option, depth)?);
                }
                [] | [(_, Token::Close), ..] => return Ok(entries),
                [(place, Token::Word(word) | Token::Text(word)), ..] => {
                    return Err((place.clone(), format!("`{word}`: `=` must follow an option")));
                }
                [(place, _), ..] => {
                    return Err((
                        place.clone(),
                        "the name of an option must stand here".to_owned(),
                    ));
                }
            }
        }
    }

    fn entry(
        &mut self,
        place: &SourceLine,
        option: &str,
        depth: usize,
    ) -> Result<HitchEntry, SyntaxFault> {
        let mut statement = Statement::new(place, option, Vec::new());
        if let [(_, Token::Open), rest @ ..] = self.tokens {
            if depth == DEPTH_MAX {
                return Err((place.clone(), format!("`{option}`: a block too deep in others")));
            }
            self.tokens = rest;
            let block = self.entries(depth + 1)?;
            let [(_, Token::Close), rest @ ..] = self.tokens else {
                return Err((self.end.clone(), format!("the block of `{option}` is not closed")));
            };
            self.tokens = rest;
            return Ok(HitchEntry { statement, block: Some(block) });
        }
        loop {
            match self.tokens {
                // Name of the next option.
                [(_, Token::Word(_)), (_, Token::Equals), ..] => break,
                [(_, Token::Word(word) | Token::Text(word)), rest @ ..] => {
                    statement.words.push((*word).to_owned());
                    self.tokens = rest;
                }
                _ => break,
            }
        }
        if statement.words.is_empty() {
            return Err((place.clone(), format!("`{option}` has no value")));
        }
        if let [_, second, ..] = statement.words.as_slice()
            && option != LIST
        {
            return Err((place.clone(), format!("`{second}` follows the value of `{option}`")));
        }
        Ok(HitchEntry { statement, block: None })
    }
}

/// The only option that takes several words.
const LIST: &str = "tls-protos";

/// Flags whose value, if any, follows `=`.
const SWITCHES: &str = "\
    --client --daemon --default-config --enable-tcp-fastopen --help \
    --prefer-server-ciphers --proxy-proxy --quiet --sni-nomatch-abort --ssl --syslog \
    --test --tls --version --write-ip --write-proxy --write-proxy-v1 --write-proxy-v2 -O \
    -V -h -q -s -t";

/// Reports whether an option is a switch, on or off.
pub(super) fn is_switch(option: &str) -> bool {
    let flags = SWITCHES.split_ascii_whitespace();
    let mut names = flags.filter_map(|flag| flag.strip_prefix("--"));
    names.any(|name| name == option)
}

/// Parses a command line: flags with their values, and files as `PEM`.
pub(super) fn parse_flags(
    words: &[String],
    place: &SourceLine,
) -> Result<Vec<HitchEntry>, SyntaxFault> {
    let mut entries = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((flag, value)) if word.starts_with("--") => (flag, Some(value)),
            _ if word.starts_with("--") => (word.as_str(), None),
            _ if word.starts_with('-') && word.is_char_boundary(2) && word.len() > 2 => {
                let (flag, value) = word.split_at(2);
                (flag, Some(value))
            }
            _ if word.starts_with('-') => (word.as_str(), None),
            _ => ("PEM", Some(word.as_str())),
        };
        let value = match value {
            Some(value) => value.to_owned(),
            None if is_among(SWITCHES, option) => "on".to_owned(),
            None => match words.next() {
                Some(value) => value.clone(),
                None => return Err((place.clone(), format!("`{option}` has no value"))),
            },
        };
        let statement = Statement::new(place, option, vec![value]);
        entries.push(HitchEntry { statement, block: None });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shown(entries: &[HitchEntry]) -> String {
        let shown = entries.iter().map(|one| {
            let block = one.block.as_ref().map(|block| format!("{{{}}}", shown(block)));
            let Statement { place, option, words } = &one.statement;
            format!("{place} {option}={}{};", words.join(","), block.unwrap_or_default())
        });
        shown.collect()
    }

    fn parsed(text: &str) -> Result<String, String> {
        let entries = parse(text, &SourceLine::first_of(Path::new("h")));
        entries.map(|entries| shown(&entries)).map_err(|(place, why)| format!("{place}: {why}"))
    }

    #[test]
    fn options_and_blocks() {
        let text = "a = \"x # y\" # z\nfrontend = { host = \"*\" port = \"443\"\n\
                    pem-file = {\ncert = \"c\" } }\ntls-protos = TLSv1.2 TLSv1.3\nb=1";
        let expected = "h:1 a=x # y;h:2 frontend={h:2 host=*;h:2 port=443;h:3 pem-file={h:4 cert=c;};}\
                        ;h:5 tls-protos=TLSv1.2,TLSv1.3;h:6 b=1;";
        assert_eq!(parsed(text).unwrap(), expected);
    }

    #[test]
    fn what_is_cut_off_has_a_place() {
        for (text, place) in [
            ("a = \"x", "h:1: a quote"),
            ("a = 1\nfrontend = {\nhost = \"*\"\n", "h:3: the block of `frontend`"),
            ("a", "h:1: `a`"),
            ("--config = \"h\"", "h:1: `--config`"),
            ("a =", "h:1: `a` has no value"),
            ("a = }", "h:1: `a` has no value"),
            ("a = 1 }", "h:1: `}`"),
            ("a = { b = { c = { d = 1 } } }", "h:1: `c`"),
        ] {
            let fault = parsed(text).unwrap_err();
            assert!(fault.starts_with(place), "{text}: {fault}");
        }
    }

    #[test]
    fn flags() {
        let words =
            ["-f", "[*]:443", "-n4", "--tls", "--write-proxy=off", "-U", "[::1]:1", "a.pem"];
        let words: Vec<_> = words.map(str::to_owned).into();
        let entries = parse_flags(&words, &SourceLine::outside("stud")).unwrap();
        let expected = "stud -f=[*]:443;stud -n=4;stud --tls=on;stud --write-proxy=off;\
                        stud -U=[::1]:1;stud PEM=a.pem;";
        assert_eq!(shown(&entries), expected);
        assert!(parse_flags(&words[..1], &SourceLine::outside("stud")).is_err());
    }
}
