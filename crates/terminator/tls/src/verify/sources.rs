//! The blocks of PEM in a file of authorities or of revocation lists, and where in it a fault is.

use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};

use super::fault::{FileFault, VerifyFault};
use crate::certificate::pem::{self, BlockKind, PemBlock};
use crate::options::PemSource;

/// All certificates of a file, each with the line where it begins; there is one at least.
pub(super) fn read_certificates(
    source: &PemSource,
) -> Result<Vec<(usize, CertificateDer<'static>)>, VerifyFault> {
    let read = read_blocks(source, BlockKind::Certificate, FileFault::NoCertificate)?;
    let certificate = |mut block: PemBlock| (block.line, std::mem::take(&mut *block.der).into());
    Ok(read.into_iter().map(certificate).collect())
}

/// All revocation lists of a file; there is one at least.
pub(super) fn read_revocation_lists(
    source: &PemSource,
) -> Result<Vec<CertificateRevocationListDer<'static>>, VerifyFault> {
    let read = read_blocks(source, BlockKind::RevocationList, FileFault::NoList)?;
    let list = |mut block: PemBlock| std::mem::take(&mut *block.der).into();
    Ok(read.into_iter().map(list).collect())
}

fn read_blocks(
    source: &PemSource,
    kind: BlockKind,
    empty: FileFault,
) -> Result<Vec<PemBlock>, VerifyFault> {
    let mut blocks = pem::read(&source.pem).map_err(|fault| {
        let line = fault.line.map(|line| format!(":{line}"));
        let place = format!("{}{}", source.place, line.unwrap_or_default());
        VerifyFault::File(place, FileFault::Pem(fault.sentence(&source.place)))
    })?;
    // OpenSSL writes behind such a certificate what it is trusted for, and what not.
    if let Some(block) = blocks.iter().find(|one| one.label == "TRUSTED CERTIFICATE") {
        let text = "has a TRUSTED CERTIFICATE, whose trusted and rejected uses are not read; name a \
                    file of plain certificates (`openssl x509 -in FILE -out FILE.pem` writes one)";
        let place = format!("{}:{}", source.place, block.line);
        return Err(VerifyFault::File(place, FileFault::Pem(text.to_owned())));
    }
    blocks.retain(|block| block.kind == kind);
    if blocks.is_empty() {
        return Err(fault_in(source, empty));
    }
    Ok(blocks)
}

/// With the line of the block at fault, if it is one.
pub(super) fn fault_in(source: &PemSource, fault: FileFault) -> VerifyFault {
    let place = &source.place;
    let line = match fault {
        FileFault::AuthorityMalformed(number) => {
            pem::line_of(&source.pem, BlockKind::Certificate, number - 1)
        }
        FileFault::ListMalformed(number) | FileFault::ListUnsupported(number, _) => {
            pem::line_of(&source.pem, BlockKind::RevocationList, number - 1)
        }
        FileFault::Pem(_) | FileFault::NoCertificate | FileFault::NoList => None,
    };
    let place = line.map_or_else(|| place.clone(), |line| format!("{place}:{line}"));
    VerifyFault::File(place, fault)
}
