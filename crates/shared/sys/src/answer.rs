//! The answers of system calls that are made through libc: 0 or more, or -1 and `errno`.

use std::io;

/// The answer, or the error that goes with it.
pub(crate) fn checked(answer: libc::c_int) -> io::Result<libc::c_int> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer)
}
