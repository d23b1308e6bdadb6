//! Answers an authority that validates us by plain HTTP (RFC 8555 section 8.3), before files are
//! served, requests redirected, or a client's bytes relayed unread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Longest token that is looked up; authorities use 43 characters.
const TOKEN_BYTES_MAX: usize = 128;

/// Current answers of all services: a key authorization for each token. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct HttpChallenges(Arc<HttpAnswers>);

#[derive(Debug, Default)]
struct HttpAnswers {
    /// Each connection reads this flag, nearly always while there are no answers.
    are_there: AtomicBool,
    by_token: RwLock<BTreeMap<String, String>>,
}

/// Two handles are always equal, because a handle is no option.
impl PartialEq for HttpChallenges {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for HttpChallenges {}

/// Judgement of a client's first bytes, on a connection that we otherwise relay unread.
#[derive(Debug, Eq, PartialEq)]
pub enum FirstBytes {
    /// The bytes may become an authority's request.
    Perhaps,
    /// The bytes are somebody else's.
    Other,
    /// The response to the authority, the last one of its connection.
    Answered(Vec<u8>),
}

impl HttpChallenges {
    /// Sets the tokens to answer, in place of all earlier ones.
    pub fn set(&self, answers: impl IntoIterator<Item = (String, String)>) {
        let mut by_token = self.0.by_token.write().unwrap_or_else(PoisonError::into_inner);
        *by_token = answers.into_iter().collect();
        self.0.are_there.store(!by_token.is_empty(), Ordering::Release);
    }

    /// Reports whether an authority may ask.
    pub fn are_there(&self) -> bool {
        self.0.are_there.load(Ordering::Acquire)
    }

    /// Returns the answer at a decoded path beneath the root.
    pub(crate) fn answer(&self, path: &[u8]) -> Option<String> {
        let token = path.strip_prefix(FOLDER)?;
        let answers = self.0.by_token.read().unwrap_or_else(PoisonError::into_inner);
        answers.get(str::from_utf8(token).ok()?).cloned()
    }

    /// Judges the first line of a request as authorities write it: HTTP/1, with an unencoded path.
    /// Reads no more than that of any client.
    pub fn judge(&self, bytes: &[u8]) -> FirstBytes {
        let begin = [b"GET /", FOLDER].concat();
        if begin.starts_with(bytes) {
            return FirstBytes::Perhaps;
        }
        let Some(rest) = bytes.strip_prefix(&begin[..]) else {
            return FirstBytes::Other;
        };
        let Some(end) = rest.iter().position(|byte| *byte == b' ') else {
            let is_short = rest.len() <= TOKEN_BYTES_MAX && !rest.contains(&b'\n');
            return if is_short { FirstBytes::Perhaps } else { FirstBytes::Other };
        };
        let (token, version) = rest.split_at(end);
        match self.answer(&[FOLDER, token].concat()) {
            Some(answer) if version.starts_with(b" HTTP/1.") => FirstBytes::Answered(
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\
                     Content-Length: {}\r\nConnection: close\r\n\r\n{answer}",
                    answer.len()
                )
                .into_bytes(),
            ),
            Some(_) if b" HTTP/1.".starts_with(version) => FirstBytes::Perhaps,
            _ => FirstBytes::Other,
        }
    }
}

/// Folder of the answers, decoded, beneath the root.
pub(crate) const FOLDER: &[u8] = b".well-known/acme-challenge/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authority_is_answered_at_any_split_and_nobody_else() {
        let challenges = HttpChallenges::default();
        challenges.set([("t0".to_owned(), "t0.thumb".to_owned())]);
        assert!(challenges.are_there());
        let request = b"GET /.well-known/acme-challenge/t0 HTTP/1.1\r\nHost: a\r\n\r\n";
        let decided = request.len() - "1\r\nHost: a\r\n\r\n".len();
        for end in 0..request.len() {
            match challenges.judge(&request[..end]) {
                FirstBytes::Perhaps => assert!(end < decided, "{end}"),
                FirstBytes::Answered(text) => {
                    assert!(end >= decided && text.ends_with(b"\r\n\r\nt0.thumb"), "{end}");
                }
                FirstBytes::Other => panic!("{end}"),
            }
        }
        let long = format!("GET /.well-known/acme-challenge/{}", "x".repeat(TOKEN_BYTES_MAX + 1));
        for other in [
            "GET / HTTP/1.1\r\n",
            "get /.well-known/acme-challenge/t0 HTTP/1.1\r\n",
            "POST /.well-known/acme-challenge/t0 HTTP/1.1\r\n",
            "GET /.well-known/acme-challenge/t1 HTTP/1.1\r\n",
            "GET /.well-known/acme-challenge/t0 HTTP/2",
            "GET /.well-known/acme-challenge/t0\r\n",
            "PRI * HTTP/2.0",
            "\0",
            &long,
        ] {
            assert_eq!(challenges.judge(other.as_bytes()), FirstBytes::Other, "{other}");
        }
        challenges.set([]);
        assert!(!challenges.are_there());
        assert_eq!(challenges.judge(request), FirstBytes::Other);
    }
}
