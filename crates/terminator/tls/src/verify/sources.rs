//! The blocks of PEM in a file of authorities or of revocation lists, and where in it a fault is.

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};

use super::fault::{FileFault, VerifyFault};
use crate::certificate::pem::{self, BlockKind};
use crate::options::PemSource;

/// All certificates of a file; there is one at least.
pub(super) fn read_certificates(
    source: &PemSource,
) -> Result<Vec<CertificateDer<'static>>, VerifyFault> {
    let read = read_blocks(source, BlockKind::Certificate, FileFault::NoCertificate)?;
    Ok(read.into_iter().map(CertificateDer::from).collect())
}

/// All revocation lists of a file; there is one at least.
pub(super) fn read_revocation_lists(
    source: &PemSource,
) -> Result<Vec<CertificateRevocationListDer<'static>>, VerifyFault> {
    let read = read_blocks(source, BlockKind::RevocationList, FileFault::NoList)?;
    Ok(read.into_iter().map(From::from).collect())
}

fn read_blocks(
    source: &PemSource,
    kind: BlockKind,
    empty: FileFault,
) -> Result<Vec<Vec<u8>>, VerifyFault> {
    let blocks = pem::read(&source.pem).map_err(|fault| {
        let line = fault.line.map(|line| format!(":{line}"));
        let place = format!("{}{}", source.place, line.unwrap_or_default());
        VerifyFault::File(place, FileFault::Pem(fault.sentence(&source.place)))
    })?;
    let of_kind: Vec<_> = pem::all_of(blocks, kind).collect();
    if of_kind.is_empty() {
        return Err(fault_in(source, empty));
    }
    Ok(of_kind)
}

/// With the line of the block at fault, if it is one.
pub(super) fn fault_in(source: &PemSource, fault: FileFault) -> VerifyFault {
    let place = &source.place;
    let line = match fault {
        FileFault::AuthorityMalformed(number) => line_of_certificate(source, number),
        FileFault::ListMalformed(number) | FileFault::ListUnsupported(number, _) => {
            pem::line_of(&source.pem, BlockKind::RevocationList, number - 1)
        }
        FileFault::Pem(_) | FileFault::NoCertificate | FileFault::NoList => None,
    };
    let place = line.map_or_else(|| place.clone(), |line| format!("{place}:{line}"));
    VerifyFault::File(place, fault)
}

/// The line where a certificate of a file begins; they count from 1.
pub(super) fn line_of_certificate(source: &PemSource, number: usize) -> Option<usize> {
    pem::line_of(&source.pem, BlockKind::Certificate, number - 1)
}
