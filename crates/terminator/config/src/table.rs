//! The one table of options: every key with its flag, kind, default, help and example.
//!
//! Everything that knows keys is made from it: the check for unknown ones, the reader's defaults
//! and ranges, the flags of `lariat serve`, its help, and the reference.

pub use crate::key::{Default, Key, Kind};
pub use crate::keys::KEYS;

/// Keys of former versions: each with its flag, and the key that it is now.
pub const RENAMED: &[(&str, &str, &str)] = &[
    (
        "service.back.accepts-replays",
        "accepts-replays",
        "service.back.early-data-safe",
    ),
    (
        "service.back.files.folder",
        "files",
        "service.back.files.root",
    ),
    (
        "service.back.passive.pause",
        "passive-pause",
        "service.back.passive.ejection-time",
    ),
    (
        "service.front.tls.former-certificates",
        "former-certificates",
        "service.front.tls.replaced-certificates",
    ),
    (
        "service.front.tls.ktls.from",
        "ktls-from",
        "service.front.tls.ktls.min-size",
    ),
];

/// What a key of former versions is now.
pub fn renamed(path: &str) -> Option<&'static Key> {
    let (.., now) = RENAMED.iter().find(|(old, ..)| *old == path)?;
    find(now)
}

/// What a flag of former versions is now.
pub fn renamed_flag(flag: &str) -> Option<&'static str> {
    let (.., now) = RENAMED.iter().find(|(_, old, _)| *old == flag)?;
    find(now)?.giving_flag()
}

/// The key of that path.
pub fn find(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

/// The key of that flag, given without dashes.
pub fn find_flag(flag: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.flag == Some(flag))
}

/// The keys that stand directly in a table; the empty path is the top.
pub fn children(parent: &str) -> impl Iterator<Item = &'static Key> {
    KEYS.iter().filter(move |key| key.parent() == parent)
}

/// What a key says with the help of others.
impl Key {
    /// The key that a value means which is no table.
    pub fn shorthand_key(&self) -> Option<&'static Self> {
        let name = self.shorthand?;
        children(self.path).find(|key| key.name() == name)
    }

    /// The flag that gives this key, itself or as what a value of its table means.
    pub fn giving_flag(&self) -> Option<&'static str> {
        let short_for_me = |table: &&Self| table.shorthand == Some(self.name());
        self.flag
            .or_else(|| find(self.parent()).filter(short_for_me)?.flag)
    }

    /// What a flag's value is called in the help.
    pub fn value_name(&self) -> &'static str {
        match self.kind {
            Kind::Table => self.shorthand_key().map_or("TABLE", |key| key.value_name()),
            Kind::Address | Kind::Endpoint => "ADDRESS",
            Kind::Network => "NETWORK",
            Kind::Path => "PATH",
            Kind::Text(what) => what,
            Kind::Boolean => "BOOL",
            Kind::Count(..) => "NUMBER",
            Kind::Duration(..) => "TIME",
            Kind::Size(..) => "SIZE",
            Kind::Choice(_) => "WORD",
            Kind::Ports => "PORTS",
            Kind::Threads => "NUMBER|CPUS",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::SUITES;

    #[test]
    fn every_key_stands_in_a_table_and_after_it() {
        for (index, key) in KEYS.iter().enumerate() {
            let parent = key.parent();
            let earlier = &KEYS[..index];
            let known = earlier
                .iter()
                .any(|k| k.path == parent && matches!(k.kind, Kind::Table));
            assert!(parent.is_empty() || known, "{}", key.path);
            assert!(
                earlier.iter().all(|k| k.path != key.path),
                "{} twice",
                key.path
            );
            let flag_free = earlier
                .iter()
                .all(|k| k.flag.is_none() || k.flag != key.flag);
            assert!(flag_free, "the flag of {} twice", key.path);
        }
    }

    #[test]
    fn every_key_is_documented() {
        for key in KEYS {
            assert!(key.help.ends_with('.'), "{}: help", key.path);
            assert!(!key.example.is_empty(), "{}: example", key.path);
            let parent = find(key.parent());
            let short = parent.is_some_and(|p| p.flag.is_some() && p.shorthand == Some(key.name()));
            let table = matches!(key.kind, Kind::Table);
            assert!(table || short || key.flag.is_some(), "{}: flag", key.path);
        }
    }

    #[test]
    fn renamed_keys_are_gone_and_have_successors() {
        for (path, flag, now) in RENAMED {
            assert!(find(path).is_none(), "{path}");
            assert!(renamed(path).is_some(), "{now}");
            let now = renamed_flag(flag).expect(now);
            assert!(find_flag(flag).is_none() || *flag == now, "{flag}");
        }
    }

    #[test]
    fn shorthands_name_keys() {
        for key in KEYS {
            if let Some(name) = key.shorthand {
                assert!(
                    children(key.path).any(|child| child.name() == name),
                    "{}",
                    key.path
                );
            }
        }
    }

    #[test]
    fn suites_and_groups_are_those_of_tls() {
        use tls::options::{Group, Suite};
        let suites: Vec<_> = Suite::ALL.iter().map(|suite| suite.name()).collect();
        assert_eq!(SUITES[1..], suites);
        let groups: Vec<_> = Group::ALL.iter().map(|group| group.name()).collect();
        let Some(Kind::Choice(known)) = find("service.front.tls.groups").map(|key| key.kind) else {
            panic!("groups are a choice");
        };
        assert_eq!(known, groups);
    }
}
