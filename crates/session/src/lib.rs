//! Opaque bytes under opaque keys: the session cache.
#![forbid(unsafe_code)]
