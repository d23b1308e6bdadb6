//! Chooses among the services that share an address, by a client's hello.
//!
//! Pure: holds the patterns of names and the rule of choice. The most specific name decides, then
//! the protocol: exact names come before wildcards, long wildcards before short ones, and services
//! without names last. Among services of one name those that ask for a protocol of the client's
//! come before the one that asks for none. A name costs one look-up for each of its labels, however
//! many names there are.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use wire::client_hello::host_name;

/// Largest number of protocols of a hello that are considered. Clients offer two or three; a hello
/// has room for thousands.
const PROTOCOLS_MAX: usize = 64;

/// A name that clients ask for, or all names beneath one: lower case, without a closing dot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum NamePattern {
    Exact(Box<str>),
    /// `*.shop.example`: names with any number of labels in front, but not `shop.example`.
    Beneath(Box<str>),
}

/// Reason why a text is no [`NamePattern`]; the text is the sentence's subject.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoName {
    #[error("is no name: a service without `names` takes all that no other has")]
    All,
    #[error("has an asterisk that is not its whole first label, as in \"*.example\"")]
    Asterisk,
    /// Letters that hellos do not carry.
    #[error("must be written in ASCII, as clients send it (\"xn--…\")")]
    Unicode,
    /// An invalid host name, or an address.
    #[error("is no host name")]
    Invalid,
}

impl FromStr for NamePattern {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Self, NoName> {
        if text == "*" {
            return Err(NoName::All);
        }
        let beneath = text.strip_prefix("*.");
        let name = beneath.unwrap_or(text);
        if name.contains('*') {
            return Err(NoName::Asterisk);
        }
        if !name.is_ascii() {
            return Err(NoName::Unicode);
        }
        let name = host_name(name).ok_or(NoName::Invalid)?;
        let name = name.to_ascii_lowercase().into();
        Ok(match beneath {
            Some(_) => Self::Beneath(name),
            None => Self::Exact(name),
        })
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => f.write_str(name),
            Self::Beneath(name) => write!(f, "*.{name}"),
        }
    }
}

/// The clients at an address that a service is for.
#[derive(Clone, Copy, Debug)]
pub struct ClientSelector<'a> {
    /// Names that the clients ask for; empty = any.
    pub names: &'a [NamePattern],
    /// Protocols (RFC 7301), one of which the clients offer; empty = any, or none.
    pub protocols: &'a [Vec<u8>],
}

impl ClientSelector<'_> {
    /// Reports whether the service is for all clients that are for no other.
    pub fn is_default(&self) -> bool {
        self.names.is_empty() && self.protocols.is_empty()
    }
}

/// Two services are for the same clients.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Overlap {
    /// Place of the first service in the list of wishes.
    pub first: usize,
    /// Place of the second.
    pub second: usize,
    /// The name; `None` = all that no other service has.
    pub name: Option<NamePattern>,
    /// The protocol; `None` = all that no other service of the name has.
    pub protocol: Option<Vec<u8>>,
}

/// The services of an address, by their places in the list of wishes.
#[derive(Debug, Default)]
pub struct RouteTable {
    exact: HashMap<Box<str>, Candidates>,
    /// Keyed by what follows `*.`.
    beneath: HashMap<Box<str>, Candidates>,
    unnamed: Candidates,
}

/// The services of one name.
#[derive(Debug, Default)]
struct Candidates {
    by_protocol: HashMap<Box<[u8]>, usize>,
    any: Option<usize>,
}

impl RouteTable {
    /// Builds the table of numbered wishes.
    ///
    /// # Errors
    /// Returns for each service the first of its wishes that an earlier one has.
    pub fn build<'a>(
        selectors: impl Iterator<Item = (usize, ClientSelector<'a>)>,
    ) -> Result<Self, Vec<Overlap>> {
        let mut table = Self::default();
        let overlaps = selectors.filter_map(|(place, selector)| table.add(place, selector).err());
        let overlaps: Vec<_> = overlaps.collect();
        if overlaps.is_empty() { Ok(table) } else { Err(overlaps) }
    }

    /// Returns the service for a client that asks for `name` (lower case, without a closing dot)
    /// and offers these protocols, the preferred one first.
    pub fn choose<'h>(
        &self,
        name: Option<&str>,
        protocols: impl Iterator<Item = &'h [u8]> + Clone,
    ) -> Option<usize> {
        let exact = name.and_then(|name| self.exact.get(name));
        let beneath = parents(name).filter_map(|parent| self.beneath.get(parent));
        let mut all = exact.into_iter().chain(beneath).chain([&self.unnamed]);
        all.find_map(|candidates| candidates.choose(protocols.clone()))
    }

    /// Reports whether the table has no service.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.beneath.is_empty() && self.unnamed.is_empty()
    }

    /// Returns the service for clients that are for no other.
    pub fn default_service(&self) -> Option<usize> {
        self.unnamed.any
    }

    fn add(&mut self, place: usize, selector: ClientSelector<'_>) -> Result<(), Overlap> {
        let add = |candidates: &mut Candidates, name: Option<&NamePattern>| {
            let added = candidates.add(place, selector.protocols);
            added.map_err(|(first, protocol)| Overlap {
                first,
                second: place,
                name: name.cloned(),
                protocol,
            })
        };
        if selector.names.is_empty() {
            return add(&mut self.unnamed, None);
        }
        for pattern in selector.names {
            let (map, name) = match pattern {
                NamePattern::Exact(name) => (&mut self.exact, name),
                NamePattern::Beneath(name) => (&mut self.beneath, name),
            };
            add(map.entry(name.clone()).or_default(), Some(pattern))?;
        }
        Ok(())
    }
}

impl Candidates {
    fn is_empty(&self) -> bool {
        self.by_protocol.is_empty() && self.any.is_none()
    }

    /// Adds a service. The error holds the place of the present one, and the protocol.
    fn add(&mut self, place: usize, protocols: &[Vec<u8>]) -> Result<(), (usize, Option<Vec<u8>>)> {
        if protocols.is_empty() {
            return match self.any.replace(place) {
                None => Ok(()),
                Some(first) => Err((first, None)),
            };
        }
        for protocol in protocols {
            let key = protocol.clone().into_boxed_slice();
            if let Some(first) = self.by_protocol.insert(key, place) {
                return Err((first, Some(protocol.clone())));
            }
        }
        Ok(())
    }

    fn choose<'h>(&self, mut protocols: impl Iterator<Item = &'h [u8]>) -> Option<usize> {
        if self.by_protocol.is_empty() {
            return self.any;
        }
        let found = protocols
            .by_ref()
            .take(PROTOCOLS_MAX)
            .find_map(|protocol| self.by_protocol.get(protocol));
        found.copied().or(self.any)
    }
}

/// Yields the names that a name is beneath, the longest first.
fn parents(name: Option<&str>) -> impl Iterator<Item = &str> {
    fn parent(name: &str) -> Option<&str> {
        name.split_once('.').map(|(_, parent)| parent)
    }
    std::iter::successors(name.and_then(parent), |name| parent(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(names: &[&str]) -> Vec<NamePattern> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    struct ClientSelectors(Vec<(Vec<NamePattern>, Vec<Vec<u8>>)>);

    impl ClientSelectors {
        fn new(all: &[(&[&str], &[&str])]) -> Self {
            let bytes = |names: &[&str]| names.iter().map(|one| one.as_bytes().to_vec()).collect();
            let each = all.iter().map(|(names, protocols)| (patterns(names), bytes(protocols)));
            Self(each.collect())
        }

        fn build(&self) -> Result<RouteTable, Vec<Overlap>> {
            let each = self.0.iter().map(|(names, protocols)| ClientSelector { names, protocols });
            RouteTable::build(each.enumerate())
        }
    }

    fn choose(table: &RouteTable, name: &str, protocols: &[&str]) -> Option<usize> {
        let name = Some(name).filter(|name| !name.is_empty());
        table.choose(name, protocols.iter().map(|one| one.as_bytes()))
    }

    #[test]
    fn the_most_specific_name_decides_then_the_protocol_then_the_default() {
        let table = ClientSelectors::new(&[
            (&["shop.example"], &[]),
            (&["*.example"], &[]),
            (&["*.shop.example", "Shop.Example."], &["h2", "acme-tls/1"]),
            (&[], &["postgresql"]),
            (&[], &[]),
        ]);
        let table = table.build().unwrap();
        for (name, protocols, place) in [
            ("shop.example", &[][..], 0),
            ("shop.example", &["http/1.1", "h2"], 2),
            ("a.shop.example", &["h2"], 2),
            // The longer wildcard has no service for this protocol, the shorter one has.
            ("a.shop.example", &["http/1.1"], 1),
            ("a.b.example", &[], 1),
            ("example", &[], 4),
            ("other.test", &["postgresql"], 3),
            ("b.example", &["postgresql"], 1),
            ("", &[], 4),
            ("", &["postgresql"], 3),
        ] {
            assert_eq!(choose(&table, name, protocols), Some(place), "{name} {protocols:?}");
        }
    }

    #[test]
    fn without_a_default_what_nobody_asked_for_is_nobodys() {
        let table = ClientSelectors::new(&[(&["a.test"], &[]), (&["b.test"], &["h2"])]);
        let table = table.build().unwrap();
        assert_eq!(choose(&table, "a.test", &["h2"]), Some(0));
        for (name, protocols) in [("", &[][..]), ("c.test", &[]), ("b.test", &["h3"])] {
            assert_eq!(choose(&table, name, protocols), None, "{name}");
        }
    }

    #[test]
    fn two_that_want_the_same_are_both_named() {
        let overlaps = ClientSelectors::new(&[
            (&["a.test", "b.test"], &[]),
            (&["*.a.test", "B.test."], &[]),
            (&["b.test"], &["h2"]),
            (&["b.test"], &["h3", "h2"]),
            (&[], &[]),
            (&[], &[]),
        ]);
        let overlaps = overlaps.build().unwrap_err();
        let overlap = |first, second, name: Option<&str>, protocol: Option<&str>| Overlap {
            first,
            second,
            name: name.map(|name| name.parse().unwrap()),
            protocol: protocol.map(|one| one.as_bytes().to_vec()),
        };
        let expected = [
            overlap(0, 1, Some("b.test"), None),
            overlap(2, 3, Some("b.test"), Some("h2")),
            overlap(4, 5, None, None),
        ];
        assert_eq!(overlaps, expected);
    }

    #[test]
    fn only_names_that_hellos_may_carry_are_taken() {
        for good in ["a.test", "*.a.test", "_x.A", "xn--a.b.", "a-.b", "-a.b", "a.1"] {
            assert!(good.parse::<NamePattern>().is_ok(), "{good}");
        }
        for bad in ["", "*", "*.", "a*.test", "*.*.test", "a.*", "b\u{fc}cher.test", "a b", "a\0"] {
            assert!(bad.parse::<NamePattern>().is_err(), "{bad}");
        }
        for address in ["127.0.0.1", "::1", "a:1"] {
            assert_eq!(address.parse::<NamePattern>(), Err(NoName::Invalid));
        }
    }

    #[test]
    fn a_hello_of_many_protocols_is_not_read_to_its_end() {
        let table = ClientSelectors::new(&[(&[], &["h2"])]).build().unwrap();
        let mut looked_at = 0;
        let endless = std::iter::repeat_n(&b"x"[..], 16_000).inspect(|_| looked_at += 1);
        assert_eq!(table.unnamed.choose(endless), None);
        assert_eq!(looked_at, PROTOCOLS_MAX);
    }
}
