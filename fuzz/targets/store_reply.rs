//! Any bytes as a store's answer: no panic, only announced bytes are read, the result is the same
//! for every cut, and an unfinished reply has its limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::store::{REPLY_BYTES_MAX, Redirect, Reply, request, slot};

fuzz_target!(|bytes: &[u8]| {
    let (mut at, mut replies) = (0, Vec::new());
    let whole = loop {
        match Reply::read(&bytes[at..]) {
            Ok(Some((reply, count))) => {
                assert!((1..=bytes.len() - at).contains(&count));
                at += count;
                replies.push(reply);
            }
            Ok(None) => break Ok(()),
            Err(fault) => break Err(fault),
        }
    };
    // Reads by pieces, as a connection does, and keeps only the unfinished part.
    let step = usize::from(bytes.first().copied().unwrap_or(0)) + 1;
    let (mut held, mut again) = (Vec::new(), Vec::new());
    let mut cut = Ok(());
    'pieces: for piece in bytes.chunks(step) {
        held.extend_from_slice(piece);
        loop {
            match Reply::read(&held) {
                Ok(Some((reply, count))) => {
                    held.drain(..count);
                    again.push(reply);
                }
                Ok(None) => break,
                Err(fault) => {
                    cut = Err(fault);
                    break 'pieces;
                }
            }
        }
        assert!(held.len() < REPLY_BYTES_MAX);
    }
    assert_eq!((&replies, whole), (&again, cut));
    for reply in &replies {
        if let Reply::Error(error) = reply {
            assert!(Redirect::read(error).is_none_or(|to| to.slot < 16384));
        }
    }
    assert!(slot(bytes) < 16384);
    // A request has the form of a list.
    let asked = Reply::read(&request(&[b"SET", &bytes[..bytes.len().min(1000)]]));
    assert!(matches!(asked, Ok(Some((Reply::List(words), _))) if words.len() == 2));
});
