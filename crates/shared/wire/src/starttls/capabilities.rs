//! Lists of capabilities in line protocols: hides some of the server's from a client, and adds
//! ours.

use super::words::{ProtocolWords, ReplyFraming};

/// Rewriting of the lists for one client, by its present state.
#[derive(Clone, Copy, Debug)]
pub(super) struct CapabilityLists {
    pub(super) words: &'static ProtocolWords,
    /// Reports whether the client may still ask for TLS.
    pub(super) is_before_tls: bool,
    pub(super) must_use_tls: bool,
}

impl CapabilityLists {
    /// Reports whether a capability of the server is hidden from the client.
    fn is_hidden(&self, word: &[u8]) -> bool {
        let before: &[&str] = if self.must_use_tls { self.words.hidden_before } else { &[] };
        let hidden = self.words.hidden.iter().chain(before);
        hidden
            .into_iter()
            .any(|one| is_word(word, one) || one.ends_with('=') && begins(word, one.as_bytes()))
    }

    fn offered(&self) -> impl Iterator<Item = &'static str> {
        let [always, if_required] = self.words.offered;
        let always = if self.is_before_tls { always } else { &[] };
        let if_required = if self.must_use_tls { if_required } else { &[] };
        if_required.iter().chain(always).copied()
    }

    /// Rewrites a line of a server that lists all capabilities at once (RFC 9051 section 7.2.2).
    pub(super) fn edited(&self, line: Vec<u8>) -> Vec<u8> {
        const LIST: &[u8] = b"CAPABILITY ";
        if self.words.framing != ReplyFraming::Tagged {
            return line;
        }
        let upper = line.to_ascii_uppercase();
        let is_begin = |at: &usize| upper[..*at].ends_with(b"[") || &upper[..*at] == b"* ";
        let mut all = (0..upper.len()).filter(|at| upper[*at..].starts_with(LIST));
        let Some(begin) = all.find(is_begin).map(|at| at + LIST.len()) else {
            return line;
        };
        let rest = &line[begin..];
        let is_end = |byte: &u8| matches!(byte, b']' | b'\r' | b'\n');
        let (list, behind) = rest.split_at(rest.iter().position(is_end).unwrap_or(rest.len()));
        let kept = list.split(|byte| *byte == b' ');
        let kept = kept.filter(|word| !word.is_empty() && !self.is_hidden(word));
        let offered = self.offered().map(str::as_bytes);
        let all: Vec<&[u8]> = kept.chain(offered.map(|one| -> &[u8] { one })).collect();
        [&line[..begin], &all.join(&b' '), behind].concat()
    }

    /// Rewrites a reply that lists capabilities, one per line.
    pub(super) fn relisted(&self, reply: &[u8]) -> Vec<u8> {
        let framing = self.words.framing;
        let mut lines: Vec<_> = reply.split_inclusive(|byte| *byte == b'\n').collect();
        let is_good = match framing {
            ReplyFraming::Codes => reply.starts_with(b"2"),
            ReplyFraming::CodesAndDot => reply.starts_with(b"101"),
            ReplyFraming::Pop3 => begins(reply, b"+OK"),
            ReplyFraming::Sieve => begins(last_line(reply), b"OK"),
            ReplyFraming::Tagged => false,
        };
        if !is_good || lines.is_empty() {
            return reply.to_vec();
        }
        let has_head = framing != ReplyFraming::Sieve;
        let mut index = 0;
        lines.retain(|line| {
            index += 1;
            has_head && index == 1 || !self.is_hidden(keyword(line, framing))
        });
        let code = &reply[..reply.len().min(3)];
        let end = [code, b" End\r\n"].concat();
        let added: Vec<_> = self
            .offered()
            .map(|one| match framing {
                ReplyFraming::Codes if !one.starts_with(' ') => {
                    [code, b"-", one.as_bytes(), b"\r\n"].concat()
                }
                _ => [one.as_bytes(), b"\r\n"].concat(),
            })
            .collect();
        if lines.len() == 1 && added.iter().any(|one| one.starts_with(b" ")) {
            // RFC 2389 section 3.2: an empty list has no closing line.
            lines.push(&end);
        }
        // Ours go before the last line, which closes most lists; never before the first.
        let at = lines.len().saturating_sub(1).max(usize::from(has_head));
        lines.splice(at..at, added.iter().map(|one| &one[..]));
        let mut lines: Vec<_> = lines.into_iter().map(<[u8]>::to_vec).collect();
        if framing == ReplyFraming::Codes {
            let last = lines.len() - 1;
            for (index, line) in lines.iter_mut().enumerate() {
                let mark = if index == last { b' ' } else { b'-' };
                if let Some(byte @ (b' ' | b'-')) = line.get_mut(3) {
                    *byte = mark;
                }
            }
        }
        lines.concat()
    }
}

pub(super) fn last_line(reply: &[u8]) -> &[u8] {
    let mut lines = reply.split_inclusive(|byte| *byte == b'\n');
    lines.next_back().unwrap_or_default()
}

/// Reports whether the text begins like that, ignoring case.
pub(super) fn begins(text: &[u8], begin: &[u8]) -> bool {
    let head = text.get(..begin.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(begin))
}

pub(super) fn is_word(word: &[u8], other: &str) -> bool {
    word.eq_ignore_ascii_case(other.as_bytes())
}

/// Returns the word that names the capability in a line of a list.
pub(super) fn keyword(line: &[u8], framing: ReplyFraming) -> &[u8] {
    let text = match (framing, line.get(3)) {
        (ReplyFraming::Codes, Some(b' ' | b'-')) if line[0].is_ascii_digit() => &line[4..],
        _ => line,
    };
    let text = text.trim_ascii();
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    let is_end = |byte: &u8| matches!(byte, b' ' | b'"');
    &text[..text.iter().position(is_end).unwrap_or(text.len())]
}
