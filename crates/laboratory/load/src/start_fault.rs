//! Why a load does not begin.

use std::net::IpAddr;

use crate::tls::configurations::TlsFault;

/// Why a load does not begin; nothing was sent then.
#[derive(Debug, thiserror::Error)]
pub enum StartFault {
    /// The plan's TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsFault),
    /// This address is not one of ours.
    #[error("--source {0}: {1}")]
    Source(IpAddr, std::io::Error),
    /// The kernel refused a descriptor or a CPU.
    #[error("the kernel refused: {0}")]
    Kernel(#[from] std::io::Error),
}
