//! Files of keys, and the ring made from them.

use super::*;
use crate::secrets::hkdf;

fn file(bytes: impl Into<Vec<u8>>) -> (String, Vec<u8>) {
    ("keys".to_owned(), bytes.into())
}

fn lines(keys: &[(u8, usize)]) -> String {
    let line = |(byte, length): &(u8, usize)| Base64::encode_string(&vec![*byte; *length]) + "\n";
    keys.iter().map(line).collect()
}

#[test]
fn the_first_of_nginx_files_encrypts() {
    let keys = ListedKeys::read(vec![file([1; 80]), file([2; 48])]).unwrap();
    assert_eq!((keys.count(), keys.encrypting()), (2, 0));
    assert_eq!(keys.secrets().next(), Some(&[1; 80][..]));
    let none = ListedKeys::read(Vec::new());
    assert_eq!(none, Err(KeyFileFault::Empty));
    let short = ListedKeys::read(vec![file([1; 80]), file([2; 47])]);
    assert_eq!(short, Err(KeyFileFault::Form("keys".into(), 47)));
    let twice = ListedKeys::read(vec![file([1; 80]), file([1; 80])]);
    assert_eq!(twice, Err(KeyFileFault::Twice("keys".into())));
}

#[test]
fn the_last_line_but_one_of_haproxys_file_encrypts() {
    let read = |keys: &[(u8, usize)]| ListedKeys::read(vec![file(lines(keys))]).unwrap();
    let three = read(&[(1, 48), (2, 80), (3, 48)]);
    assert_eq!((three.count(), three.encrypting()), (3, 1));
    assert_eq!(read(&[(1, 48), (2, 48)]).encrypting(), 0);
    assert_eq!(read(&[(1, 48)]).encrypting(), 0);
    let grown = read(&[(1, 48), (2, 48), (3, 48), (4, 48), (5, 48)]);
    assert_eq!((grown.count(), grown.encrypting()), (3, 1));
    assert_eq!(grown.secrets().next(), Some(&[3; 48][..]));
    let noted = format!("# made by hand\r\n\n{}", lines(&[(1, 80)]));
    assert_eq!(ListedKeys::read(vec![file(noted)]).unwrap().count(), 1);
}

#[test]
fn what_is_no_key_is_named() {
    let fault = |bytes: Vec<u8>| ListedKeys::read(vec![file(bytes)]).unwrap_err();
    let place = || "keys".to_owned();
    assert_eq!(fault(Vec::new()), KeyFileFault::Empty);
    assert_eq!(fault(b"\n# none\n".to_vec()), KeyFileFault::Empty);
    assert_eq!(fault(vec![0xff; 49]), KeyFileFault::Form(place(), 49));
    let second = lines(&[(1, 48), (2, 47)]).into_bytes();
    assert_eq!(fault(second), KeyFileFault::Line(place(), 2));
    let twice = lines(&[(1, 48), (1, 48)]).into_bytes();
    assert_eq!(fault(twice), KeyFileFault::Twice(place()));
    let mixed = vec![file([1; 48]), file(lines(&[(2, 48)]))];
    assert_eq!(ListedKeys::read(mixed), Err(KeyFileFault::Mixed(place())));
}

#[test]
fn a_secret_is_long_enough_and_its_line_end_does_not_count() {
    let read = |bytes: &[u8]| SharedSecret::read("s", bytes.to_vec());
    assert_eq!(read(&[b'x'; 32]), read(&[&[b'x'; 32][..], b"\r\n"].concat()));
    assert_ne!(read(&[b'x'; 32]), read(&[b'y'; 32]));
    assert_eq!(read(&[b'x'; 31]), Err(KeyFileFault::SecretShort("s".into(), 31)));
    assert_eq!(read(&[b'\n'; 64]), Err(KeyFileFault::SecretShort("s".into(), 0)));
}

#[test]
fn worker_processes_get_what_their_tasks_need_and_no_more() {
    let secret = [b'x'; 32];
    let whole = SharedSecret::read("s", secret.to_vec()).unwrap();
    let part = SharedSecret::read("s", whole.for_workers().to_vec()).unwrap();
    let expanded = |root: &Prk| {
        let mut out = [0; 32];
        hkdf::expand(root, &[b"test"], &mut out);
        out
    };
    for task in WorkerTask::ALL {
        // Hosts that keep the secret itself derive the same root.
        let root = expanded(&hkdf::extract(task.salt(), &secret));
        assert_eq!(root, expanded(&whole.root(task)), "{task:?}");
        assert_eq!(root, expanded(&part.root(task)), "{task:?}");
    }
    assert!(part.notices().is_none() && part != whole);
    let notices = &whole.notices().unwrap()[..];
    for hidden in [notices, &secret[..]] {
        assert!(!whole.for_workers().windows(32).any(|bytes| bytes == hidden));
    }
    assert_eq!(part.for_workers(), whole.for_workers());
}

#[test]
fn a_secret_that_a_person_thought_of_is_told_from_a_random_one() {
    let is_guessable = |text: &str| {
        let secret = SharedSecret::read("s", text.into()).unwrap();
        secret.is_guessable()
    };
    for text in [
        &"s".repeat(64),
        &"0123".repeat(16),
        "correct horse battery staple and more of it",
        "CHANGE-ME-CHANGE-ME-CHANGE-ME-CHANGE-ME",
    ] {
        assert!(is_guessable(text), "{text}");
    }
    for text in [
        "c7b2f48d1e6a9035c7b2f48d1e6a9035",
        "1yR0f9uXk3r9KQxqv0JXq1m8cTn5mJ4kXh2wQe7dLZb3V6sGtYaUoPiEwRzNcBvH",
    ] {
        assert!(!is_guessable(text), "{text}");
    }
    let drawn = SharedSecret::read("s", (0..32).map(|byte| (byte * 7) | 0x80).collect());
    assert!(!drawn.unwrap().is_guessable());
}

#[test]
fn secrets_are_not_in_debug_forms() {
    let keys = ListedKeys::read(vec![file([0x41; 48])]).unwrap();
    let secret = SharedSecret::read("s", vec![0x41; 32]).unwrap();
    let told = format!("{keys:?}{secret:?}");
    assert!(!told.contains("65") && !told.contains('A'), "{told}");
}

const HOUR: u64 = 3600;
const NOON: u64 = 12 * HOUR;

fn listed(secrets: &[&[u8]], encrypting: usize, before: Option<&Ring>, now: u64) -> Ring {
    Ring::listed(secrets.iter().copied(), encrypting, before, now)
}

#[test]
fn a_key_derives_ages_retires_and_is_forgotten() {
    let ring = Ring::derived(vec![root_of(&[7; 32])], HOUR, 2);
    let name = ring.at(NOON).encrypting().name;
    let found = |now| matches!(ring.at(now).find(name), FoundKey::Key(_));
    assert!(found(NOON - HOUR) && found(NOON) && found(NOON + 2 * HOUR));
    let retired = |now| matches!(ring.at(now).find(name), FoundKey::Retired);
    assert!(retired(NOON + 3 * HOUR) && retired(NOON + (2 + RETIRED_MAX) * HOUR));
    assert!(!retired(NOON + (3 + RETIRED_MAX) * HOUR));
}

#[test]
fn a_secret_that_is_being_replaced_still_decrypts_and_does_not_encrypt() {
    let roots = |bytes: &[u8]| bytes.iter().map(|byte| root_of(&[*byte; 32])).collect();
    let ring = |bytes: &[u8]| Ring::derived(roots(bytes), HOUR, 2);
    let (old, both, new) = (ring(&[1]), ring(&[2, 1]), ring(&[2]));
    let name_of = |ring: &Ring| ring.at(NOON).encrypting().name;
    assert_eq!(name_of(&both), name_of(&new));
    assert!(matches!(both.at(NOON).find(name_of(&old)), FoundKey::Key(_)));
    assert!(matches!(new.at(NOON).find(name_of(&old)), FoundKey::Stranger));
    let late = NOON + 4 * HOUR;
    assert!(matches!(both.at(late).find(name_of(&old)), FoundKey::Retired));
}

#[test]
fn no_two_processes_encrypt_with_the_same_key_and_no_nonce_comes_twice() {
    let rings = [(); 2].map(|()| listed(&[&[1; 48]], 0, None, NOON));
    let [one, other] = rings.each_ref().map(|ring| ring.at(NOON));
    assert_eq!(one.encrypting().name, other.encrypting().name);
    assert_ne!(one.own().salt, other.own().salt);
    let numbers: Vec<_> = (0..100).map(|_| one.own().next()).collect();
    let mut nonces: Vec<_> = numbers.iter().copied().map(nonce_of).collect();
    nonces.dedup();
    assert_eq!(nonces.len(), 100);
}

#[test]
fn ages_are_told_of_every_key() {
    let ring = Ring::derived(vec![root_of(&[7; 32])], HOUR, 2);
    let facts = ring.at(NOON + 60).facts(NOON + 60);
    let ages: Vec<_> = facts.iter().map(|key| key.age_seconds).collect();
    assert_eq!(ages, [0, 60, HOUR + 60, 2 * HOUR + 60]);
    let encrypting: Vec<_> = facts.iter().map(|key| key.purpose == KeyPurpose::Encrypt).collect();
    assert_eq!(encrypting, [false, true, false, false]);
    assert!(facts.iter().all(|key| key.name.len() == 8));
}

#[test]
fn a_list_that_follows_another_keeps_ages_and_the_names_of_what_is_gone() {
    let (a, b, c): (&[u8], &[u8], &[u8]) = (&[1; 48], &[2; 48], &[3; 80]);
    let first = listed(&[a, b], 0, None, NOON);
    let second = listed(&[c, a], 0, Some(&first), NOON + HOUR);
    let ages: Vec<_> = second.at(0).facts(NOON + HOUR).iter().map(|key| key.age_seconds).collect();
    assert_eq!(ages, [0, HOUR]);
    let name_of_b = first.at(0).keys[1].name;
    assert!(matches!(second.at(0).find(name_of_b), FoundKey::Retired));
    let third = listed(&[c], 0, Some(&second), NOON + 2 * HOUR);
    assert!(matches!(third.at(0).find(name_of_b), FoundKey::Retired));
    let back = listed(&[b], 0, Some(&third), NOON + 2 * HOUR);
    assert!(matches!(back.at(0).find(name_of_b), FoundKey::Key(_)));
    assert!(matches!(first.at(0).find([0; NAME_BYTES]), FoundKey::Stranger));
}
