//! Options of nginx.

use crate::meaning::{Meaning, OldDefault};

pub(super) const DEFAULTS: &[OldDefault] = &[];

pub(super) const MEANINGS: &[Meaning] = &[];
