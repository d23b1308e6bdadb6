//! Datagrams, notices and values of a store.

use std::time::Duration;

use wire::cluster::Stream;

use super::*;

fn secret(byte: u8) -> SharedSecret {
    SharedSecret::read("s", vec![byte; 32]).expect("32 bytes are a secret")
}

fn header(cipher: &ClusterCipher, boot: u8, sequence: u64) -> Header {
    Header {
        stream: Stream::All,
        key_id: cipher.key_id(),
        sender: [1; 8],
        boot: [boot; 8],
        sequence,
        time_ms: 7,
    }
}

fn sealed(cipher: &mut ClusterCipher, header: &Header) -> Vec<u8> {
    let mut body = b"a session".to_vec();
    cipher.seal(header, &header.to_bytes(), &mut body);
    body
}

fn opened(
    cipher: &mut ClusterCipher,
    header: &Header,
    sealed: &[u8],
) -> Result<Vec<u8>, ClusterRejection> {
    let mut sealed = sealed.to_vec();
    let body = cipher.open(header, &header.to_bytes(), &mut sealed);
    body.map(<[u8]>::to_vec)
}

#[test]
fn any_of_the_secrets_opens_and_the_first_seals() {
    let mut old = ClusterCipher::new(&[secret(1)]);
    let mut both = ClusterCipher::new(&[secret(2), secret(1)]);
    let mut new = ClusterCipher::new(&[secret(2)]);
    let of_old = header(&old, 1, 1);
    let bytes = sealed(&mut old, &of_old);
    assert_eq!(opened(&mut both, &of_old, &bytes).as_deref(), Ok(&b"a session"[..]));
    let of_both = header(&both, 2, 1);
    let bytes = sealed(&mut both, &of_both);
    assert_eq!(opened(&mut new, &of_both, &bytes).as_deref(), Ok(&b"a session"[..]));
    let unknown = Err(ClusterRejection::UnknownSecret);
    assert_eq!(opened(&mut old, &of_both, &bytes), unknown);
}

#[test]
fn nothing_that_was_changed_opens() {
    let mut cipher = ClusterCipher::new(&[secret(1)]);
    let sent = header(&cipher, 1, 1);
    let bytes = sealed(&mut cipher, &sent);
    let forged = Err(ClusterRejection::Forged);
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1;
        assert_eq!(opened(&mut cipher, &sent, &changed), forged, "byte {index}");
    }
    let changes: [fn(&mut Header); 5] = [
        |header| header.stream = Stream::One,
        |header| header.sender[0] ^= 1,
        |header| header.boot[7] ^= 1,
        |header| header.sequence += 1,
        |header| header.time_ms += 1,
    ];
    for change in changes {
        let mut changed = sent;
        change(&mut changed);
        assert_eq!(opened(&mut cipher, &changed, &bytes), forged, "{changed:?}");
    }
    assert_eq!(cipher.keys.len(), 1, "strangers' numbers keep no key");
}

#[test]
fn equal_sessions_look_different_in_every_datagram() {
    let mut cipher = ClusterCipher::new(&[secret(1)]);
    let headers = [header(&cipher, 1, 1), header(&cipher, 1, 2), header(&cipher, 2, 1)];
    let mut all: Vec<_> = headers.iter().map(|header| sealed(&mut cipher, header)).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 3);
}

#[test]
fn many_boots_keep_a_bounded_number_of_keys() {
    let mut cipher = ClusterCipher::new(&[secret(1)]);
    for number in 0..=KEYS_MAX {
        let mut header = header(&cipher, 0, 1);
        header.boot = (number as u64).to_be_bytes();
        let bytes = sealed(&mut cipher, &header);
        assert!(opened(&mut cipher, &header, &bytes).is_ok());
    }
    assert_eq!(cipher.keys.len(), KEYS_MAX);
}

const WINDOW: u64 = 30_000;
const NOW: u64 = 1_000_000;

fn cipher(own: u64, roots: &[u8]) -> NoticeCipher {
    let mut cipher = NoticeCipher::new(own, (Instant::now(), NOW - 2 * WINDOW));
    let roots: Vec<_> = roots.iter().map(|byte| [*byte; ROOT_BYTES]).collect();
    cipher.follow(&roots);
    cipher
}

/// Returns the present instant with this time of the host's clock.
fn at(now_ms: u64) -> (Instant, u64) {
    (Instant::now(), now_ms)
}

#[test]
fn a_host_takes_nothing_from_before_its_start() {
    let mut theirs = cipher(2, &[7]);
    let mut sealed = |now_ms| theirs.seal(b"news", now_ms).unwrap();
    let started = Instant::now();
    let mut ours = NoticeCipher::new(1, (started, NOW));
    ours.follow(&[[7; ROOT_BYTES]]);
    let before = sealed(NOW - 1);
    assert_eq!(ours.open(&before, at(NOW), WINDOW), Err(NoticeFault::BeforeStart));
    ours.open(&sealed(NOW), at(NOW + 5), WINDOW).unwrap();
    // A second after the start the clock was set back by ten.
    let later = started + Duration::from_secs(1);
    let now = (later, NOW - 9000);
    let from_then = [sealed(NOW - 10_001), sealed(NOW - 10_000)];
    assert_eq!(ours.open(&from_then[0], now, WINDOW), Err(NoticeFault::BeforeStart));
    ours.open(&from_then[1], now, WINDOW).unwrap();
}

#[test]
fn who_has_the_secret_reads_what_another_host_says_once() {
    let (mut ours, mut theirs) = (cipher(1, &[7]), cipher(2, &[7]));
    let text = ours.seal(b"news", NOW).unwrap();
    let (host, notice) = theirs.open(&text, at(NOW + 5), WINDOW).unwrap();
    assert_eq!((host, &notice[..]), (1, &b"news"[..]));
    assert_eq!(theirs.open(&text, at(NOW + 6), WINDOW), Err(NoticeFault::Repeated));
    // A notice is remembered while it is new.
    for now in [NOW + WINDOW, NOW + WINDOW + 1] {
        let seen = theirs.open(&text, at(now), WINDOW).unwrap_err();
        let other = if now == NOW + WINDOW { NoticeFault::Repeated } else { NoticeFault::Old };
        assert_eq!(seen, other);
    }
    assert_eq!(cipher(3, &[7]).open(&text, at(NOW - WINDOW - 1), WINDOW), Err(NoticeFault::Old));
    assert_eq!(cipher(3, &[8]).open(&text, at(NOW), WINDOW), Err(NoticeFault::UnknownSecret));
    assert!(NoticeCipher::new(4, (Instant::now(), NOW)).seal(b"news", NOW).is_none());
}

#[test]
fn a_byte_that_was_changed_is_seen_and_a_text_cut_short() {
    let text = cipher(1, &[7]).seal(b"news", NOW).unwrap();
    let bytes = Base64::decode_vec(&text).unwrap();
    for place in 0..bytes.len() {
        let mut other = bytes.clone();
        other[place] ^= 1;
        let other = Base64::encode_string(&other);
        assert!(cipher(2, &[7]).open(&other, at(NOW), WINDOW).is_err(), "{place}");
        let short = Base64::encode_string(&bytes[..place]);
        assert!(cipher(2, &[7]).open(&short, at(NOW), WINDOW).is_err(), "{place}");
    }
}

#[test]
fn notices_may_overtake_each_other_and_none_comes_twice() {
    let (mut ours, mut theirs) = (cipher(1, &[7]), cipher(2, &[7]));
    let texts: Vec<_> = (0..100).map(|_| ours.seal(b"news", NOW).unwrap()).collect();
    let come = [(50, true), (0, true), (49, true), (50, false), (99, true), (36, true)];
    for (place, is_taken) in come.into_iter().chain([(35, false), (0, false)]) {
        assert_eq!(theirs.open(&texts[place], at(NOW), WINDOW).is_ok(), is_taken, "{place}");
    }
    let is_new = |text: &&String| theirs.open(text, at(NOW), WINDOW).is_ok();
    let again = texts.iter().filter(is_new).count();
    assert_eq!(again, 60, "of 64 that may be late, four had come");
}

#[test]
fn a_secret_is_changed_host_by_host() {
    let (mut ours, mut theirs) = (cipher(1, &[7, 8]), cipher(2, &[8, 7]));
    let text = ours.seal(b"news", NOW).unwrap();
    theirs.open(&text, at(NOW), WINDOW).unwrap();
    let text = theirs.seal(b"news", NOW).unwrap();
    ours.open(&text, at(NOW), WINDOW).unwrap();
    ours.follow(&[[8; ROOT_BYTES]]);
    let text = ours.seal(b"news", NOW).unwrap();
    theirs.open(&text, at(NOW), WINDOW).unwrap();
}

#[test]
fn hosts_that_are_remembered_are_few_and_go() {
    let mut theirs = cipher(0, &[7]);
    for host in 1..=HOSTS_MAX as u64 + 1 {
        let text = cipher(host, &[7]).seal(b"news", NOW).unwrap();
        assert_eq!(theirs.open(&text, at(NOW), WINDOW).is_ok(), host <= HOSTS_MAX as u64);
    }
    let now = NOW + WINDOW + 1;
    let text = cipher(1000, &[7]).seal(b"news", now).unwrap();
    theirs.open(&text, at(now), WINDOW).unwrap();
    assert_eq!(theirs.heard.len(), 1);
}

const ENTRY: &[u8] = b"an entry with a master secret";

fn session(byte: u8, once: bool) -> Offered {
    let key = Key::new(&[byte; 32]).unwrap();
    Offered { key, once }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn a_value_opens_under_its_name_until_it_ends_and_shows_nothing() {
    let cipher = StoreCipher::new(&[secret(1)]);
    let name = cipher.names(&session(7, false))[0];
    let value = cipher.seal(&name, ENTRY, 5000);
    assert!(!contains(&value, &ENTRY[..8]) && !contains(&name.0, &[7; 4]));
    assert_ne!(value, cipher.seal(&name, ENTRY, 5000), "nonces differ");
    let (entry, left) = cipher.open(&name, value.clone(), 2000).unwrap();
    assert_eq!((&entry[..], left), (ENTRY, Duration::from_secs(3)));
    let ended = cipher.open(&name, value.clone(), 5000);
    assert_eq!(ended.unwrap_err(), StoreRejection::Expired);
    for other in [session(8, false), session(7, true)] {
        let other = cipher.names(&other)[0];
        let moved = cipher.open(&other, value.clone(), 2000);
        assert_eq!(moved.unwrap_err(), StoreRejection::Forged);
    }
}

#[test]
fn no_value_that_was_changed_opens() {
    let cipher = StoreCipher::new(&[secret(1)]);
    let name = cipher.names(&session(7, false))[0];
    let value = cipher.seal(&name, ENTRY, 5000);
    for index in 0..value.len() {
        let mut changed = value.clone();
        changed[index] ^= 1;
        let expected = match index {
            0 => StoreRejection::Version,
            1..5 => StoreRejection::UnknownSecret,
            _ => StoreRejection::Forged,
        };
        let opened = cipher.open(&name, changed, 2000);
        assert_eq!(opened.unwrap_err(), expected, "byte {index}");
    }
    for length in 0..value.len() {
        let cut = cipher.open(&name, value[..length].to_vec(), 2000);
        let why = cut.unwrap_err();
        let expected = if length < store::HEADER_BYTES + TAG_BYTES {
            StoreRejection::Malformed
        } else {
            StoreRejection::Forged
        };
        assert_eq!(why, expected, "{length} bytes");
    }
}

#[test]
fn any_of_the_secrets_opens_a_value_and_the_first_seals() {
    let old = StoreCipher::new(&[secret(1)]);
    let both = StoreCipher::new(&[secret(2), secret(1)]);
    let new = StoreCipher::new(&[secret(2)]);
    assert!(new.is_of_others(old.mark()) && !new.is_of_others(both.mark()));
    assert!(!both.is_of_others(old.mark()) && !new.is_of_others(b"nonsense".to_vec()));
    let session = session(7, true);
    let names = both.names(&session);
    assert_eq!(names[1].text(), old.names(&session)[0].text());
    let of_old = old.seal(&names[1], ENTRY, 9);
    assert!(both.open(&names[1], of_old.clone(), 1).is_ok());
    let of_both = both.seal(&names[0], ENTRY, 9);
    assert!(new.open(&names[0], of_both, 1).is_ok());
    let unknown = new.open(&names[1], of_old, 1);
    assert_eq!(unknown.unwrap_err(), StoreRejection::UnknownSecret);
}
