//! The blocks of PEM in a file of authorities or of revocation lists, and where in it a fault is.

use rustls_pki_types::pem::{PemObject, SectionKind};

use super::fault::{FileFault, VerifyFault};
use crate::certificate::{pem_fault, pem_lines};
use crate::options::PemSource;

/// All blocks of one kind in a file; there is one at least.
pub(super) fn read_pem<T: PemObject>(
    source: &PemSource,
    empty: FileFault,
) -> Result<Vec<T>, VerifyFault> {
    let read: Result<Vec<T>, _> = T::pem_slice_iter(&source.pem).collect();
    match read {
        Ok(blocks) if blocks.is_empty() => Err(fault_in(source, empty)),
        Ok(blocks) => Ok(blocks),
        Err(error) => Err(fault_in(source, FileFault::Pem(pem_fault(&error)))),
    }
}

/// With the line of the block at fault, if it is one.
pub(super) fn fault_in(source: &PemSource, fault: FileFault) -> VerifyFault {
    let place = &source.place;
    let line = match fault {
        FileFault::Pem(_) => pem_lines::line_of_damage::<PemBlock>(&source.pem),
        FileFault::AuthorityMalformed(number) => {
            pem_lines::line_of(&source.pem, "CERTIFICATE", number - 1)
        }
        FileFault::ListMalformed(number) | FileFault::ListUnsupported(number, _) => {
            pem_lines::line_of(&source.pem, "X509 CRL", number - 1)
        }
        FileFault::NoCertificate | FileFault::NoList => None,
    };
    let place = line.map_or_else(|| place.clone(), |line| format!("{place}:{line}"));
    VerifyFault::File(place, fault)
}

/// A block of any kind.
type PemBlock = (SectionKind, Vec<u8>);
