//! A probe beside `testssl.sh`, which takes a minute per server: `./run-tests testssl`.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "what fails in a test's own tools fails the test")]

mod foreign {
    mod agreement;
}
