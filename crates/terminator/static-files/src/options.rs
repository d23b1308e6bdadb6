//! Options for the files of a folder.

use crate::challenge::HttpChallenges;

/// The options for all requests of a service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// The files that a folder is answered with, in the order of preference; empty = none.
    pub index: Vec<String>,
    /// Whether names that begin with a dot are served.
    pub hidden: bool,
    /// Whether `name.br` and `name.gz` are served in place of `name` to clients that take them.
    pub precompressed: bool,
    /// Whether requests are redirected. Then only files that prove who we are to a certificate
    /// authority are served, if there are any.
    pub redirect: Option<Redirect>,
    /// The answers to authorities that validate us.
    pub challenges: HttpChallenges,
}

/// Requests are answered by the address of the same resource by https.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Redirect {
    /// The TCP port of https.
    pub port: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            index: vec!["index.html".to_owned()],
            hidden: false,
            precompressed: true,
            redirect: None,
            challenges: HttpChallenges::default(),
        }
    }
}
