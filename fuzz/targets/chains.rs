//! Any chain of certificates of a few authorities with two keys each: it is accepted only if a path
//! of right signatures leads to the trusted one, and then always, unless there are too many.
//!
//! The runner's time limit for an input bounds the cost: unbounded, such chains take seconds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use testkit::authority::{Authority, Trait};
use testkit::leaf::{Key, certificates};
use tls::options::PemSource;
use tls::verify::BareVerifier;
use wire::certificate_chain::{INTERMEDIATES_MAX, intermediates};

/// Authorities; the first is trusted, by its first key.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const CERTIFICATES_MAX: usize = 200;
/// Time at which all certificates of the tests are valid.
const NOW: u64 = 1_782_000_000;

/// Authority, and the index of its key.
type Signer = (usize, usize);

/// Key of a certificate, and its signer.
#[derive(Clone, Copy)]
struct Link {
    key: Signer,
    signer: Signer,
}

thread_local! {
    static STAGE: Stage = Stage::new();
}

fuzz_target!(|bytes: &[u8]| {
    let Some((own, script)) = bytes.split_first() else { return };
    STAGE.with(|stage| {
        let signer = signer_of(*own);
        let mut chain = vec![stage.leaves[number_of(signer)].clone()];
        let mut links = Vec::new();
        let mut is_empty = false;
        for step in script.chunks_exact(2).take(CERTIFICATES_MAX) {
            let link = Link { key: signer_of(step[0]), signer: signer_of(step[0] >> 4) };
            let mut one = stage.certificates[number_of(link.key)][number_of(link.signer)].clone();
            match step[1] {
                0 => one.clear(),
                cut @ 1..16 => one.truncate(one.len() - usize::from(cut)),
                16..32 => chain.push(one.clone()),
                _ => {}
            }
            is_empty |= one.is_empty();
            if step[1] >= 16 {
                links.push(link);
            }
            chain.push(one);
        }
        let others: Vec<_> = chain[1..].iter().map(Vec::as_slice).collect();
        let bounded = intermediates(&chain[0], &others);
        assert!(bounded.as_ref().map_or(0, Vec::len) <= INTERMEDIATES_MAX);
        match stage.verifier.verify(&chain, NOW) {
            Ok(()) => assert!(!is_empty && leads(signer, &links)),
            Err(why) => {
                let has_path = bounded.is_ok() && leads(signer, &links);
                assert!(!has_path || why.contains("MaximumSignature"), "{why}");
            }
        }
    });
});

fn signer_of(bits: u8) -> Signer {
    (usize::from(bits & 3), usize::from(bits >> 2 & 1))
}

fn number_of(signer: Signer) -> usize {
    signer.0 * 2 + signer.1
}

/// Reports whether right signatures lead from certificates of this signer to the trusted authority.
fn leads(signer: Signer, links: &[Link]) -> bool {
    let mut reached = vec![signer];
    let mut next = 0;
    while let Some(signer) = reached.get(next).copied() {
        let above = links.iter().filter(|link| link.key == signer);
        for link in above {
            if !reached.contains(&link.signer) {
                reached.push(link.signer);
            }
        }
        next += 1;
    }
    reached.contains(&(0, 0))
}

/// Keys and certificates that all runs share, because making them is slow.
struct Stage {
    verifier: BareVerifier,
    leaves: Vec<Vec<u8>>,
    /// Certificates by their key, and by their signer.
    certificates: Vec<Vec<Vec<u8>>>,
}

impl Stage {
    fn new() -> Self {
        let keys: Vec<(&str, String)> = NAMES
            .iter()
            .flat_map(|name| [(); 2].map(|()| (*name, Key::EcdsaP256.generate_pem())))
            .collect();
        let issued =
            |name: &str, key: &str, (issuer, signer): &(&str, String), traits: &[Trait]| {
                certificates(&Authority::certificate(key, name, issuer, signer, traits)).remove(0)
            };
        let own = Key::EcdsaP256.generate_pem();
        let (name, key) = &keys[0];
        let trusted = PemSource {
            place: "ca.pem".to_owned(),
            pem: Authority::certificate(key, name, name, key, &[]).into(),
        };
        let leaf = |signer| issued("leaf", &own, signer, &[Trait::EndEntity]);
        let all = |(name, key): &(&str, String)| {
            let by = |signer| issued(name, key, signer, &[]);
            keys.iter().map(by).collect()
        };
        Self {
            verifier: BareVerifier::new(&[trusted], &[], true).expect("an authority"),
            leaves: keys.iter().map(leaf).collect(),
            certificates: keys.iter().map(all).collect(),
        }
    }
}
