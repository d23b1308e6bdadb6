//! Any bytes as a server's first, passed through: no panic, and the same session for every cut, by
//! id or by ticket.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::server_session::{Outcome, ServerHelloReader};

fuzz_target!(|bytes: &[u8]| {
    let whole = ServerHelloReader::default().take(bytes);
    if let Outcome::Session(session) = whole {
        let names = [session.id, session.ticket];
        assert!(names.iter().any(Option::is_some));
        let mut names = names.iter().flatten();
        assert!(names.all(|name| (1..=32).contains(&name.as_bytes().len())));
    }
    // The last byte chooses the cut; it is a part of the stream as well.
    let size = bytes.last().map_or(1, |last| usize::from(*last).max(1));
    let mut watch = ServerHelloReader::default();
    let mut pieces = bytes.chunks(size).map(|piece| watch.take(piece));
    let decided = pieces.find(|outcome| *outcome != Outcome::Incomplete);
    assert_eq!(decided.unwrap_or(Outcome::Incomplete), whole);
});
