//! What was asked for, setting by setting. Nothing of it has been held against the rest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wire::address::Endpoint;

use super::limit::Limit;
use super::url::Url;
use super::value::{Kinds, OrNone, Ramp, Times, Verify};
use crate::plan::{
    ClientSelection, ConnectionEnding, Group, ProxyVersion, Signature, Spacing, Suite, Versions,
};

/// Every setting as it was typed; what nobody typed is absent. Filled in by
/// [`super::table::apply`] alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// What was typed, in the order of typing: names in the table, and texts.
    pub(crate) given: Vec<(&'static str, String)>,
    pub(crate) url: Option<Url>,
    pub(crate) connect: Option<Endpoint>,
    pub(crate) sources: Vec<IpAddr>,
    pub(crate) send_proxy: Option<ProxyVersion>,
    pub(crate) kinds: Option<Kinds>,
    pub(crate) requests_per_session: Option<Times>,
    pub(crate) requests_per_connection: Option<Times>,
    pub(crate) clients: Option<u32>,
    pub(crate) selection: Option<ClientSelection>,
    pub(crate) think: Option<Duration>,
    pub(crate) ending: Option<ConnectionEnding>,
    pub(crate) method: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<String>,
    pub(crate) body_file: Option<PathBuf>,
    pub(crate) size: Option<u64>,
    pub(crate) no_request: bool,
    pub(crate) versions: Option<Versions>,
    pub(crate) suites: Vec<Suite>,
    pub(crate) groups: Vec<Group>,
    pub(crate) signatures: Vec<Signature>,
    pub(crate) alpn: Vec<Vec<u8>>,
    pub(crate) server_name: Option<OrNone<String>>,
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) verify: Option<Verify>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) tickets: Option<bool>,
    pub(crate) session_ids: Option<bool>,
    pub(crate) early_data: bool,
    pub(crate) connections: Option<u32>,
    pub(crate) rate_per_s: Option<f64>,
    pub(crate) spacing: Option<Spacing>,
    pub(crate) session_arrivals: bool,
    pub(crate) ramp: Option<Ramp>,
    pub(crate) steps_per_s: Vec<f64>,
    pub(crate) step_duration: Option<Duration>,
    pub(crate) duration: Option<Duration>,
    pub(crate) count: Option<u64>,
    pub(crate) warm_up: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) find_capacity: bool,
    pub(crate) limit: Option<Limit>,
    pub(crate) precision: Option<f64>,
    pub(crate) threads: Option<u16>,
    pub(crate) cpus: Option<OrNone<Vec<u16>>>,
    pub(crate) seed: Option<u64>,
    pub(crate) record: Option<OrNone<PathBuf>>,
    pub(crate) quiet: bool,
}

impl Options {
    /// Whether a setting was typed.
    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| *given == name)
    }

    /// The files that were named, by the settings that name them.
    #[must_use]
    pub fn files(&self) -> Vec<(&'static str, &Path)> {
        let named = [
            ("body-file", &self.body_file),
            ("client-certificate", &self.client_certificate),
            ("client-key", &self.client_key),
            ("ca", &self.ca),
        ];
        let present = named.into_iter();
        present
            .filter_map(|(name, path)| Some((name, path.as_deref()?)))
            .collect()
    }

    /// Where the record is to be written: nothing was said, nowhere, or there.
    #[must_use]
    pub fn record(&self) -> Option<&OrNone<PathBuf>> {
        self.record.as_ref()
    }

    /// Whether nothing is to be said while it runs.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// What the named files hold, by the settings that name them; or why they cannot be read.
pub type Files = BTreeMap<&'static str, Result<Vec<u8>, String>>;
