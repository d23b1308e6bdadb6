//! Reasons to refuse a PROXY header.

/// A fault of the sending proxy, or of a peer that is not a proxy.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProxyFault {
    /// Neither signature: a client spoke where a proxy must.
    #[error("no PROXY header begins so")]
    NotProxy,
    /// The line of version 1 breaks the grammar.
    #[error("a version 1 line with a wrong {0}")]
    Line(&'static str),
    /// No line end within 107 bytes.
    #[error("a version 1 line longer than 107 bytes")]
    LineTooLong,
    /// The signature of version 2, and another version after it.
    #[error("version {0} of the binary header")]
    Version(u8),
    #[error("command {0}")]
    Command(u8),
    /// An address family or transport that version 2 does not have.
    #[error("address family and transport {0:#04x}")]
    Family(u8),
    /// The length field is less than the family's addresses need.
    #[error("{0} bytes are too few for the addresses")]
    AddressesCut(u16),
    /// The length field is more than we read.
    #[error("a header of {0} bytes")]
    TooLarge(usize),
    /// The field of that type does not parse.
    #[error("field {0:#04x} does not parse")]
    Tlv(u8),
    /// The last field is cut short.
    #[error("the last field is cut short")]
    TlvCut,
    /// The CRC-32C is not that of the header.
    #[error("the checksum is wrong")]
    Checksum,
}
