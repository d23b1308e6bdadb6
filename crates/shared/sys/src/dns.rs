//! Asks name servers for record types that `getaddrinfo` does not know, by the C library's
//! resolver: it reads `/etc/resolv.conf`, retries, and uses TCP for large answers.
//!
//! Handles the call; `wire` parses the answer.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::io::{self, ErrorKind};

/// Longest DNS message (RFC 1035 section 4.2.2).
const MESSAGE_BYTES_MAX: usize = 65_535;

/// The class of the internet, and the type of service records (RFC 2782).
const INTERNET: c_int = 1;
const SRV: c_int = 33;

#[link(name = "resolv")]
unsafe extern "C" {
    /// resolver(3); its state belongs to the calling thread.
    fn res_query(
        name: *const c_char,
        class: c_int,
        kind: c_int,
        answer: *mut c_uchar,
        answer_bytes: c_int,
    ) -> c_int;

    /// netdb.h: reason why the thread's last query has no answer.
    fn __h_errno_location() -> *mut c_int;
}

/// Queries the service records of a fully qualified name: no search domain is appended. May wait
/// for as long as `getaddrinfo` does. Returns the answering message.
///
/// # Errors
/// Fails if there is no such name or no name server answers.
pub fn query_service(name: &str) -> io::Result<Vec<u8>> {
    let name = CString::new(name).map_err(|_| ErrorKind::InvalidInput)?;
    let mut answer = vec![0; MESSAGE_BYTES_MAX];
    // SAFETY: the name ends with a NUL, and the answer has room for as many bytes as are said.
    let length = unsafe {
        res_query(name.as_ptr(), INTERNET, SRV, answer.as_mut_ptr(), MESSAGE_BYTES_MAX as c_int)
    };
    let Ok(length) = usize::try_from(length) else {
        // SAFETY: it points to a number of this thread for as long as the thread lives.
        let reason = unsafe { *__h_errno_location() };
        return Err(io::Error::other(match reason {
            1 => "there is no such name",
            2 => "no name server answers now",
            4 => "the name has no SRV records",
            _ => "the name servers refuse the question",
        }));
    };
    answer.truncate(length);
    Ok(answer)
}
