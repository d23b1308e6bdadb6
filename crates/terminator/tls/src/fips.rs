//! Builds whose cryptography is that of AWS-LC's FIPS module (the feature `fips`).
//!
//! Owns what such a build leaves out. The library says of its parts which are approved.

use rustls::crypto::SupportedKxGroup;
use rustls::{SupportedCipherSuite, crypto};

/// Whether this is such a build, and its module has passed its own tests.
pub fn is_on() -> bool {
    cfg!(feature = "fips") && crypto::aws_lc_rs::default_provider().fips()
}

/// Whether this build may use a suite.
pub(crate) fn allows_suite(suite: SupportedCipherSuite) -> bool {
    !cfg!(feature = "fips") || suite.fips()
}

/// Whether this build may use a group.
pub(crate) fn allows_group(group: &dyn SupportedKxGroup) -> bool {
    !cfg!(feature = "fips") || group.fips()
}
