//! Options for serving the files of a folder.

use crate::challenge::HttpChallenges;

/// Options for all requests of a service.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// Files that answer for a folder, in order of preference; empty = none.
    pub index: Vec<String>,
    /// Whether names that begin with a dot are served.
    pub hidden: bool,
    /// Whether `name.br` and `name.gz` are served in place of `name` to clients that accept them.
    pub precompressed: bool,
    /// Whether requests are redirected. Only files that prove our identity to a certificate
    /// authority are served then, if there are any.
    pub redirect: Option<Redirect>,
    /// Answers to authorities that validate us.
    pub challenges: HttpChallenges,
}

/// Answers requests with the https address of the same resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Redirect {
    /// TCP port of https.
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
