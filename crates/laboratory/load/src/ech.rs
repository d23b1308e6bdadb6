//! Represents the requested offer of Encrypted Client Hello (RFC 9849): a configuration, or GREASE.
//!
//! Opens no file; the caller does.

use std::path::Path;

use measure::choice::EchOutcome;
use rustls::PeerIncompatible;
use rustls::client::{EchConfig, EchGreaseConfig, EchMode, EchStatus};
use rustls::crypto::aws_lc_rs::hpke;
use rustls::crypto::hpke::Hpke;
use rustls_pki_types::EchConfigListBytes;
use rustls_pki_types::pem::PemObject;

#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EchOption {
    /// A payload that nobody can decrypt (RFC 9849 section 6.2).
    Grease,
    /// An ECHConfigList, as in DNS.
    Configurations(Vec<u8>),
}

/// Word for [`EchOption::Grease`].
const GREASE: &str = "GREASE";

impl EchOption {
    /// Reads `GREASE`, an ECHConfigList in Base64, or the name of a file that holds one: in binary,
    /// in Base64, or in PEM with ECHCONFIG.
    ///
    /// # Errors
    /// Fails with the reason, without the option's name.
    pub fn read(
        text: &str,
        files: &dyn Fn(&Path) -> Result<Vec<u8>, String>,
    ) -> Result<Self, String> {
        let read = match Self::written_out(text) {
            Some(written) => written,
            None => Self::in_file(text, &files(Path::new(text))?)?,
        };
        match read.mode() {
            Ok(_) => Ok(read),
            Err(error) => Err(format!("no configuration that we could use: {error}")),
        }
    }

    fn in_file(name: &str, content: &[u8]) -> Result<Self, String> {
        let list = std::str::from_utf8(content).ok().and_then(of_text);
        let list = list.or_else(|| is_list(content).then(|| content.to_vec()));
        list.map(Self::Configurations).ok_or_else(|| format!("{name} holds no ECHConfigList"))
    }

    /// Reads a value that needs no file.
    pub fn written_out(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case(GREASE) {
            return Some(Self::Grease);
        }
        of_base64(text).map(Self::Configurations)
    }

    /// Converts the offer for the library.
    ///
    /// # Errors
    /// Fails if the library lacks the cipher, or cannot read the form, of all configurations.
    pub(crate) fn mode(&self) -> Result<EchMode, rustls::Error> {
        match self {
            Self::Configurations(list) => {
                let list = EchConfigListBytes::from(list.as_slice());
                EchConfig::new(list, hpke::ALL_SUPPORTED_SUITES).map(EchMode::from)
            }
            Self::Grease => {
                let suite = hpke::DH_KEM_X25519_HKDF_SHA256_AES_128;
                let (key, _) = suite.generate_key_pair()?;
                Ok(EchGreaseConfig::new(suite, key).into())
            }
        }
    }
}

fn of_text(text: &str) -> Option<Vec<u8>> {
    if text.contains("-----BEGIN ") { of_pem(text) } else { of_base64(text) }
}

fn of_base64(text: &str) -> Option<Vec<u8>> {
    of_pem(&format!("-----BEGIN ECHCONFIG-----\n{}\n-----END ECHCONFIG-----\n", text.trim()))
}

fn of_pem(text: &str) -> Option<Vec<u8>> {
    let list = EchConfigListBytes::from_pem_slice(text.as_bytes()).ok()?;
    is_list(&list).then(|| list.to_vec())
}

/// Checks the length in a list's head (RFC 9849 section 4); the library reads the rest.
fn is_list(bytes: &[u8]) -> bool {
    let length = bytes.split_first_chunk().map(|(length, rest)| (*length, rest.len()));
    length.is_some_and(|(length, rest)| rest > 0 && usize::from(u16::from_be_bytes(length)) == rest)
}

/// Returns the outcome of a handshake, if there was one; `None` if ECH was not offered.
pub(crate) fn outcome(status: EchStatus) -> Option<EchOutcome> {
    match status {
        EchStatus::Accepted => Some(EchOutcome::Accepted),
        EchStatus::Grease => Some(EchOutcome::Grease),
        EchStatus::Rejected | EchStatus::Offered => Some(EchOutcome::Rejected),
        EchStatus::NotOffered => None,
    }
}

/// Returns the number of configurations that replace ours; `None` if ECH was not rejected.
pub(crate) fn retry_configurations(error: &rustls::Error) -> Option<usize> {
    match error {
        rustls::Error::PeerIncompatible(PeerIncompatible::ServerRejectedEncryptedClientHello(
            configs,
        )) => Some(configs.as_ref().map_or(0, Vec::len)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ech::{self, config_list};

    fn none(_: &Path) -> Result<Vec<u8>, String> {
        Err("no such file".to_owned())
    }

    /// List of a configuration with the number 7, for `front.example`.
    const BASE64: &str = "AET+DQBABwAgACAJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQAIAAEAAQABAANA\
                          DWZyb250LmV4YW1wbGUAAA==";

    #[test]
    fn every_form_of_a_list_is_read() {
        let list = config_list(&[ech::EchConfig::new(7, "front.example", [9; 32])]);
        let pem = format!("x\n-----BEGIN ECHCONFIG-----\n{BASE64}\n-----END ECHCONFIG-----\n");
        let written = Ok(EchOption::Configurations(list.clone()));
        assert_eq!(EchOption::read(BASE64, &none), written);
        for content in [list, format!("{BASE64}\n").into_bytes(), pem.into_bytes()] {
            let file = |path: &Path| {
                assert_eq!(path, Path::new("ech.pem"));
                Ok(content.clone())
            };
            assert_eq!(EchOption::read("ech.pem", &file), written);
        }
        assert_eq!(EchOption::read("grease", &none), Ok(EchOption::Grease));
    }

    #[test]
    fn what_holds_no_list() {
        assert_eq!(EchOption::read("AAb+DQACAQ==", &none).unwrap_err(), "no such file");
        for content in ["", "\0\0", "AAb+DQACAQ==", "-----BEGIN ECHCONFIG-----"] {
            let file = |_: &Path| Ok(content.as_bytes().to_vec());
            let fault = EchOption::read("ech.pem", &file).unwrap_err();
            assert_eq!(fault, "ech.pem holds no ECHConfigList", "{content:?}");
        }
        let fault = EchOption::read("AAb+DQACAQI=", &none).unwrap_err();
        assert!(fault.starts_with("no configuration that we could use: "), "{fault}");
    }
}
