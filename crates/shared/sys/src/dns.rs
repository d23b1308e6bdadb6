//! Questions to name servers that `getaddrinfo` does not ask, by the C library's own resolver: it
//! reads `/etc/resolv.conf`, asks again, and takes TCP for what fits into no datagram.
//!
//! Owns the call. What an answer says is `wire`'s to read.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::io::{self, ErrorKind};

/// The longest message (RFC 1035 section 4.2.2).
const MESSAGE_BYTES_MAX: usize = 65_535;

/// The class of the internet, and the type of service records (RFC 2782).
const INTERNET: c_int = 1;
const SRV: c_int = 33;

#[link(name = "resolv")]
unsafe extern "C" {
    /// resolver(3); its state is of the calling thread.
    fn res_query(
        name: *const c_char,
        class: c_int,
        kind: c_int,
        answer: *mut c_uchar,
        answer_bytes: c_int,
    ) -> c_int;

    /// netdb.h: why the thread's last question has no answer.
    fn __h_errno_location() -> *mut c_int;
}

/// Asks for the service records of a name, which is taken to be whole: no search domain is
/// appended. It may wait for as long as `getaddrinfo` does. Returns the message that answers.
///
/// # Errors
/// There is no such name, or no name server answers.
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
