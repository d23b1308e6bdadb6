//! io_uring: whether the kernel gives us one.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

const PARAMS_BYTES: usize = 120;

/// Makes a ring of one entry and closes it. `Unsupported` = the kernel has none;
/// `PermissionDenied` = it is forbidden, by a setting, a sandbox or a container.
pub fn probe() -> io::Result<()> {
    let mut params = [0_u64; PARAMS_BYTES / 8];
    // SAFETY: the kernel reads and writes PARAMS_BYTES at `params`, which is as long, aligned as
    // the struct's widest field, and outlives the call; zeros ask for nothing special.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) };
    let Ok(descriptor) = libc::c_int::try_from(answer) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_made_or_refused_with_a_reason() {
        use io::ErrorKind::{OutOfMemory, PermissionDenied, Unsupported};
        match probe() {
            Ok(()) => {}
            Err(error) => {
                let kinds = [PermissionDenied, Unsupported, OutOfMemory];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
    }
}
