//! The names of servers and what addresses they have, for the plan that is served and for one
//! that may be.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;

use super::inbox::{News, Post};
use crate::handover::Resolved;
use crate::resolve::{INTERVAL_DEFAULT, Name, Resolution, Resolver};

/// What is known about names. No thread runs while there are none.
#[derive(Default)]
pub(super) struct Names {
    resolver: Option<Resolver>,
    wanted: BTreeSet<Name>,
    known: BTreeMap<Name, Vec<SocketAddr>>,
    /// Those that have been looked up at least once, were it in vain.
    heard_of: BTreeSet<Name>,
}

impl Names {
    /// Resolves these from now on.
    pub(super) fn want(&mut self, names: BTreeSet<Name>, post: &Post) -> io::Result<()> {
        if names == self.wanted {
            return Ok(());
        }
        match &self.resolver {
            Some(resolver) => resolver.replace(names.clone()),
            None => {
                let post = post.clone();
                let report = move |news| post.send(News::Resolved(news));
                self.resolver = Some(Resolver::start(names.clone(), INTERVAL_DEFAULT, report)?);
            }
        }
        self.known.retain(|name, _| names.contains(name));
        self.heard_of.retain(|name| names.contains(name));
        self.wanted = names;
        Ok(())
    }

    /// Those that are resolved.
    pub(super) fn wanted(&self) -> &BTreeSet<Name> {
        &self.wanted
    }

    /// Whether each of these has been looked up.
    pub(super) fn have_heard_of(&self, names: &BTreeSet<Name>) -> bool {
        names.is_subset(&self.heard_of)
    }

    /// Notes news, and says what is new to the data process.
    pub(super) fn note(&mut self, news: &Resolution) -> Option<Resolved> {
        let (Resolution::Addresses(name, _) | Resolution::Failed(name, _)) = news;
        // What was on its way when the name was dropped.
        if !self.wanted.contains(name) {
            return None;
        }
        self.heard_of.insert(name.clone());
        let Resolution::Addresses(_, addresses) = news else {
            return None;
        };
        let before = self.known.insert(name.clone(), addresses.clone());
        (before.as_ref() != Some(addresses)).then(|| resolved(name, addresses))
    }

    /// All that is known about these.
    pub(super) fn known(&self, names: &BTreeSet<Name>) -> Vec<Resolved> {
        let known = self.known.iter().filter(|(name, _)| names.contains(name));
        known
            .map(|(name, addresses)| resolved(name, addresses))
            .collect()
    }
}

fn resolved(name: &Name, addresses: &[SocketAddr]) -> Resolved {
    Resolved {
        host: name.host.clone(),
        port: name.port,
        addresses: addresses.to_vec(),
    }
}
