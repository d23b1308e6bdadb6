//! Which libraries this build was made from.

const LOCK_FILE: &str = include_str!("../../../../Cargo.lock");

/// The version of a library that is in this build.
pub(crate) fn version(name: &str) -> &'static str {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let rest = LOCK_FILE.split_once(&entry).map(|(_, rest)| rest);
    rest.and_then(|rest| rest.split('"').next()).unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_versions() {
        assert!(version("rustls").starts_with("0."));
        assert_eq!(version("no such library"), "?");
    }
}
