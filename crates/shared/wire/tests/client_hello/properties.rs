//! Properties of every hello and of every input.

use crate::build::{Build, numbers, pre_shared_key, records, server_name, vector8, vector16};
use crate::captured::CAPTURED;
use crate::{Said, hello};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::client_hello::{HelloProgress, read};

prop_compose! {
    fn lists()(
        groups in vec(any::<u16>(), 1..9),
        schemes in vec(any::<u16>(), 1..20),
        cert_schemes in vec(any::<u16>(), 1..5),
        alpn in vec(vec(any::<u8>(), 1..20), 1..5),
        versions in vec(any::<u16>(), 0..6),
        shares in vec((any::<u16>(), vec(any::<u8>(), 1..80)), 0..4),
        identities in vec(vec(any::<u8>(), 1..200), 1..4),
    ) -> Lists {
        Lists { groups, schemes, cert_schemes, alpn, versions, shares, identities }
    }
}

#[derive(Clone, Debug)]
struct Lists {
    groups: Vec<u16>,
    schemes: Vec<u16>,
    cert_schemes: Vec<u16>,
    alpn: Vec<Vec<u8>>,
    versions: Vec<u16>,
    shares: Vec<(u16, Vec<u8>)>,
    identities: Vec<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Sample {
    session_id: Vec<u8>,
    suites: Vec<u16>,
    name: Option<String>,
    ticket: Option<Vec<u8>>,
    flags: (bool, bool),
    lists: Lists,
}

prop_compose! {
    fn sample()(
        session_id in vec(any::<u8>(), 0..33),
        suites in vec(any::<u16>(), 1..40),
        name in proptest::option::of("[a-zA-Z0-9_]{1,12}(\\.[a-z]{1,12}){0,4}\\.[a-z]{2,6}"),
        ticket in proptest::option::of(vec(any::<u8>(), 0..300)),
        flags in any::<(bool, bool)>(),
        lists in lists(),
    ) -> Sample {
        Sample { session_id, suites, name, ticket, flags, lists }
    }
}

impl Sample {
    fn versions(&self) -> Vec<u16> {
        [&self.lists.versions[..], &[0x0304]].concat()
    }

    fn build(&self) -> Build {
        let lists = &self.lists;
        let alpn: Vec<u8> = lists.alpn.iter().flat_map(|p| vector8(p)).collect();
        let share =
            |(group, key): &(u16, Vec<u8>)| [&group.to_be_bytes()[..], &vector16(key)].concat();
        let shares: Vec<u8> = lists.shares.iter().flat_map(share).collect();
        let mut extensions = vec![
            (0x1a1a, vec![]),
            (10, vector16(&numbers(&lists.groups))),
            (13, vector16(&numbers(&lists.schemes))),
            (16, vector16(&alpn)),
            (43, vector8(&numbers(&self.versions()))),
            (50, vector16(&numbers(&lists.cert_schemes))),
            (51, vector16(&shares)),
        ];
        extensions.extend(self.name.iter().map(|n| (0, server_name(n.as_bytes()))));
        extensions.extend(self.ticket.iter().map(|t| (35, t.clone())));
        extensions.extend(self.flags.0.then(|| (42, vec![])));
        extensions.extend(self.flags.1.then(|| (23, vec![])));
        let binders = lists.identities.len();
        extensions.push((41, pre_shared_key(&lists.identities, binders)));
        Build {
            session_id: self.session_id.clone(),
            suites: self.suites.clone(),
            extensions,
            ..Build::default()
        }
    }

    fn said(&self) -> Said {
        Said {
            versions: (0x0303, 0x0304, self.versions()),
            random: [7; 32],
            session_id: self.session_id.clone(),
            suites: self.suites.clone(),
            name: self.name.clone(),
            alpn: self.lists.alpn.clone(),
            groups: (
                self.lists.groups.clone(),
                self.lists.shares.iter().map(|share| share.0).collect(),
            ),
            signatures: (self.lists.schemes.clone(), self.lists.cert_schemes.clone()),
            ticket: self.ticket.clone(),
            identities: self.lists.identities.clone(),
            has_early_data: self.flags.0,
            body: self.build().message()[4..].to_vec(),
        }
    }
}

/// Kind of an answer, without its content.
#[derive(Debug, Eq, PartialEq)]
enum Answer {
    Incomplete,
    Hello { wire_bytes: usize },
    Fault(wire::client_hello::HelloFault),
}

/// Returns the answer; also calls every method of a hello.
fn answer(bytes: &[u8]) -> Answer {
    match read(bytes) {
        Ok(HelloProgress::Incomplete) => Answer::Incomplete,
        Ok(HelloProgress::Hello(hello)) => {
            assert!(Said::from(&hello).versions.1 >= 0x0303);
            Answer::Hello { wire_bytes: hello.wire_bytes() }
        }
        Err(fault) => Answer::Fault(fault),
    }
}

/// Checks that a decided answer is not changed by later bytes.
fn decided_once(bytes: &[u8], cuts: impl Iterator<Item = usize>) -> Result<(), TestCaseError> {
    let whole = answer(bytes);
    for cut in cuts {
        let prefix = answer(&bytes[..cut]);
        if prefix != Answer::Incomplete {
            prop_assert_eq!(&prefix, &whole, "cut at {}", cut);
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_is_built_reads_back_however_it_is_cut(
        sample in sample(),
        sizes in vec(1usize..400, 0..20),
        after in vec(any::<u8>(), 0..10),
        cut in any::<prop::sample::Index>(),
    ) {
        let wire = records(&sample.build().message(), &sizes);
        let prefix = &wire[..cut.index(wire.len())];
        prop_assert_eq!(answer(prefix), Answer::Incomplete);
        let bytes = [&wire[..], &after].concat();
        let hello = hello(&bytes);
        prop_assert_eq!(hello.wire_bytes(), wire.len());
        prop_assert_eq!(Said::from(&hello), sample.said());
    }

    #[test]
    fn any_bytes_are_decided_once(bytes in vec(any::<u8>(), 0..200)) {
        decided_once(&bytes, 0..bytes.len())?;
    }

    #[test]
    fn any_bytes_in_a_record_are_decided_once(
        body in vec(any::<u8>(), 0..300),
        sizes in vec(1usize..100, 0..6),
    ) {
        let bytes = records(&crate::build::handshake(1, &body), &sizes);
        decided_once(&bytes, 0..bytes.len())?;
    }

    #[test]
    fn spoilt_hellos_are_decided_once(
        (_, bytes) in prop::sample::select(CAPTURED),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cuts in vec(any::<prop::sample::Index>(), 8),
    ) {
        let mut bytes = bytes.to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let length = bytes.len();
        decided_once(&bytes, (0..16).chain(cuts.iter().map(|cut| cut.index(length))))?;
    }
}
