//! `cargo bench -p tls --bench chains`: maximum cost of the verification of a peer's chain, in CPU
//! time, on one thread.
//!
//! The peer chooses its chain; a handshake accepts 64 KiB of it. Each row is the worst of its kind
//! that reaches the library, or that is refused before. Authorities and revocation lists are the
//! operator's, and as large here as some have them.

use sys::cpu::thread_time;
use testkit::authority::{Authority, Trait};
use testkit::leaf::{Key, certificates};
use tls::options::PemSource;
use tls::verify::BareVerifier;

/// Number of measurements of which the median is taken.
const ROUNDS: usize = 15;

/// Time at which all certificates of the tests are valid.
const NOW: u64 = 1_782_000_000;

/// A row's title, the trusted authorities, the revocation lists, and the chain that is sent.
type Row = (&'static str, Vec<String>, Vec<String>, Vec<Vec<u8>>);

fn main() {
    println!("{:>10}  {:>6}  chain", "ms", "bytes");
    for (what, authorities, lists, chain) in rows() {
        let verifier = BareVerifier::new(&sources(authorities), &sources(lists), true);
        let verifier = verifier.expect("what can be used");
        let bytes: usize = chain.iter().map(|one| one.len() + 3).sum();
        let mut answer = String::new();
        let mut counts: Vec<_> = (0..ROUNDS)
            .map(|_| {
                let start = thread_time();
                let refused = verifier.verify(&chain, NOW).err();
                let taken = thread_time() - start;
                answer = refused.unwrap_or_else(|| "is good".to_owned());
                taken
            })
            .collect();
        counts.sort();
        let milliseconds = counts[ROUNDS / 2].as_secs_f64() * 1e3;
        let answer: String = answer.chars().take(60).collect();
        println!("{milliseconds:>10.3}  {bytes:>6}  {what}: {answer}");
    }
}

fn sources(texts: Vec<String>) -> Vec<PemSource> {
    let source = |pem: String| PemSource { place: "a.pem".to_owned(), pem: pem.into() };
    texts.into_iter().map(source).collect()
}

fn rows() -> Vec<Row> {
    let root = Authority::root("root");
    let trusted = vec![root.pem().to_owned()];
    let mut between = root.intermediate("1");
    for name in ["2", "3", "4", "5", "6"] {
        between = between.intermediate(name);
    }
    let good = between.client("alice");
    let flat = |count: usize, traits: &[Trait]| -> String {
        let one = |_| Authority::forged("x", "x", traits);
        (0..count).map(one).collect()
    };
    // Three authorities, each twice, with each issuer above it: 15 steps among six.
    let pairs = |traits: &[Trait]| -> String {
        let names = ["x", "y", "z", "w"];
        let pair = |two: &[&str]| Authority::forged(two[0], two[1], traits);
        let twice = names.windows(2).flat_map(|two| [pair(two), pair(two)]);
        twice.collect()
    };
    let of_x = |above: String| Authority::root("x").client("mallory").above(&above);
    let chain = |above: String| certificates(&of_x(above).chain_pem());
    let mut rows: Vec<Row> = vec![
        ("six intermediates, all right", trusted.clone(), vec![], certificates(&good.chain_pem())),
        ("200 of one name", trusted.clone(), vec![], chain(flat(200, &[]))),
        ("3 of one name", trusted.clone(), vec![], chain(flat(3, &[]))),
        ("3 pairs", trusted.clone(), vec![], chain(pairs(&[]))),
        (
            "3 pairs, full of extensions",
            trusted.clone(),
            vec![],
            chain(pairs(&[Trait::Extensions(720)])),
        ),
        (
            "3 pairs, full of extended key usages",
            trusted.clone(),
            vec![],
            chain(pairs(&[Trait::Usages(1400)])),
        ),
    ];
    let parts = &[Trait::EndEntity, Trait::NameParts(3000)];
    rows.push((
        "a name of 3,000 parts",
        trusted,
        vec![],
        certificates(&Authority::forged("mallory", "x", parts)),
    ));
    rows.extend(at_the_authority());
    rows.extend(by_the_operator());
    rows
}

/// Makes chains in which all certificates name the authority: each step costs a signature.
fn at_the_authority() -> Vec<Row> {
    let keys = [
        ("ECDSA on P-256", "-newkey ec -pkeyopt ec_paramgen_curve:P-256"),
        ("ECDSA on P-521", "-newkey ec -pkeyopt ec_paramgen_curve:P-521"),
        ("RSA of 4096 bits", "-newkey rsa:4096"),
        ("RSA of 8192 bits", "-newkey rsa:8192"),
    ];
    let rows = keys.map(|(what, key)| {
        let root = Authority::own_issuer_by_openssl(key);
        let key = &root[root.find("-----BEGIN PRIVATE KEY").expect("its key")..];
        let one = |name, traits| {
            let own = Key::EcdsaP256.generate_pem();
            Authority::certificate(&own, name, "localhost", key, traits)
        };
        let leaf = one("mallory", &[Trait::EndEntity]);
        let above = [(); 3].map(|()| one("localhost", &[]));
        let mut chain = certificates(&(leaf + &above.concat()));
        // Makes each signature wrong in its last bit.
        for last in chain.iter_mut().filter_map(|one| one.last_mut()) {
            *last ^= 1;
        }
        (what, vec![root.clone()], vec![], chain)
    });
    rows.into()
}

/// Makes the rows that are costly because of what the operator trusts and loads.
fn by_the_operator() -> Vec<Row> {
    let bounded = Authority::root_with("bounded", &[], &[Trait::NameConstraints(100)]);
    let names: Vec<String> = (0..3500).map(|at| format!("{at}.99.example")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let many = bounded.leaf(&names).for_client().issue();
    let root = Authority::root("listed");
    let list = |count: u64| {
        let serials: Vec<u64> = (1 << 40..(1 << 40) + count).collect();
        vec![root.revocation_list_for(&serials, NOW - 60, NOW + 60)]
    };
    let alice = certificates(&root.client("alice").chain_pem());
    let row = |what, count| (what, vec![root.pem().to_owned()], list(count), alice.clone());
    vec![
        (
            "100 name constraints, 3,500 names",
            vec![bounded.pem().to_owned()],
            vec![],
            certificates(&many.chain_pem()),
        ),
        row("a list of 1,000 entries", 1000),
        row("a list of 100,000 entries", 100_000),
    ]
}
