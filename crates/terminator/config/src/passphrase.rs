//! Passphrases of private keys: where they are written, and keys that are opened by them.
//!
//! The process that reads the configuration opens the keys. The worker process gets them open, and
//! never a passphrase.

use std::path::Path;

use options::{Field, KeyPlace};
use tls::certificate::encrypted;
use zeroize::Zeroizing;

use crate::shelf::Shelf;

/// The passphrase of a certificate's keys, read when the first of them needs it.
pub(crate) struct Passphrase<'w, 'a> {
    file: &'w Field<'a, Option<String>>,
    command: &'w Field<'a, Vec<String>>,
    read: Option<Zeroizing<Vec<u8>>>,
}

impl<'w, 'a> Passphrase<'w, 'a> {
    pub(crate) fn new(
        file: &'w Field<'a, Option<String>>,
        command: &'w Field<'a, Vec<String>>,
    ) -> Option<Self> {
        if file.is_written() && command.is_written() {
            return command
                .fail("stands beside a file with the passphrase", "take one of them out");
        }
        (file.value.is_some() && command.value.is_some()).then_some(Self {
            file,
            command,
            read: None,
        })
    }

    /// The text of a file with its keys opened, if they are encrypted and a passphrase is named.
    pub(crate) fn open(
        &mut self,
        path: &Path,
        pem: Vec<u8>,
        shelf: &mut Shelf<'_>,
    ) -> Option<Vec<u8>> {
        let is_named = self.file.is_written() || self.command.is_written();
        if !is_named || !encrypted::is_encrypted(&pem) {
            return Some(pem);
        }
        let passphrase = match self.read.take() {
            Some(passphrase) => passphrase,
            None => self.read_from(shelf)?,
        };
        let opened = encrypted::decrypt(&pem, &passphrase);
        self.read = Some(passphrase);
        match opened {
            Ok(opened) => {
                shelf.files.replace(path, &opened);
                Some(opened)
            }
            Err(fault) => {
                let place = path.display().to_string();
                let message = format!("the key in {place} {fault}");
                shelf.fault(self.place(), &message, &fault.remedy(&place))
            }
        }
    }

    fn place(&self) -> &KeyPlace<'a> {
        if self.file.is_written() { self.file } else { self.command }
    }

    fn read_from(&self, shelf: &mut Shelf<'_>) -> Option<Zeroizing<Vec<u8>>> {
        let (mut passphrase, origin) = match self.file.value.as_ref()? {
            Some(path) => {
                let path = shelf.base.join(path);
                let bytes = Zeroizing::new(shelf.read(self.file, &path)?);
                shelf.files.forget(&path);
                shelf.is_private(self.file, &path);
                (bytes, path.display().to_string())
            }
            None => {
                let mut words = self.command.value.clone()?;
                let program = words.first_mut()?;
                *program = shelf.base.join(&*program).display().to_string();
                let program = program.clone();
                match shelf.files.output_of(&words) {
                    Ok(output) => (output, program),
                    Err(error) => {
                        let message = format!("cannot have {program} write a passphrase: {error}");
                        let hint = "run it as the user that starts lariat, and see what it writes";
                        return shelf.fault(self.command, &message, hint);
                    }
                }
            }
        };
        // The first line, as OpenSSL takes it.
        let end = passphrase.iter().position(|byte| b"\r\n".contains(byte));
        let bytes = end.unwrap_or(passphrase.len());
        passphrase.truncate(bytes);
        if passphrase.is_empty() {
            let message = format!("{origin} gives an empty passphrase");
            return shelf.fault(self.place(), &message, "its first line is the passphrase");
        }
        Some(passphrase)
    }
}
