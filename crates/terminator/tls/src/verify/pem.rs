//! PEM files for the verification of clients.

use rustls_pki_types::pem::PemObject;

use super::fault::VerifyFault;
use crate::certificate::pem_fault;
use crate::options::PemSource;

/// All blocks of one kind in a file.
pub(super) fn read_pem<T: PemObject>(source: &PemSource) -> Result<Vec<T>, VerifyFault> {
    T::pem_slice_iter(&source.pem)
        .collect::<Result<_, _>>()
        .map_err(|error| VerifyFault::Pem {
            place: source.place.clone(),
            what: pem_fault(&error),
        })
}
