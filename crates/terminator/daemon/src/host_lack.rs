//! Errors of a host that temporarily lacks room or descriptors.

use std::io;

/// Whether the host temporarily lacks something, which is no fault of the configuration: a service
/// manager may try again.
pub(crate) fn is_lack(error: &io::Error) -> bool {
    const EIO: i32 = 5;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        || matches!(error.raw_os_error(), Some(EIO | ENFILE | EMFILE))
}

const ENXIO: i32 = 6;

/// Returns the remedy for a file that cannot be written.
pub(crate) fn file_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on its file system (`df` and `df -i` show what is left)"
        }
        _ if is_lack(error) => {
            "raise `LimitNOFILE=` of the unit or `ulimit -n` if files are too many, and see what \
             the kernel's log says of the device"
        }
        _ if error.raw_os_error() == Some(ENXIO) => {
            "it is a FIFO that nobody reads, or a socket: start the reader of the FIFO before"
        }
        _ => "its directory must exist and be writable, as must the file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_fault_of_the_configuration() {
        const ENOENT: i32 = 2;
        const EMFILE: i32 = 24;
        const ENOSPC: i32 = 28;
        let of = io::Error::from_raw_os_error;
        assert!(is_lack(&of(ENOSPC)) && file_hint(&of(ENOSPC)).contains("df"));
        assert!(is_lack(&of(EMFILE)) && file_hint(&of(EMFILE)).contains("LimitNOFILE"));
        assert!(file_hint(&of(ENXIO)).contains("FIFO"));
        assert!(!is_lack(&of(ENOENT)) && file_hint(&of(ENOENT)).contains("must exist"));
    }
}
