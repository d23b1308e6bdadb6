//! Kernel TLS on this host: what its kernel seals, and whether that is what services require.
//!
//! Owns the sentences about it and its way to the worker process, which may not try it. Trying is
//! `sys`'s, sealing `proxy`'s.

use std::fmt;

use config::{Diagnostic, Problem, Settings, Severity, TypedConfiguration};
use proxy::options::{KtlsMode, ServiceOptions};
use serde::{Deserialize, Serialize};
use sys::ktls::{CIPHER_REMEDY, Cipher, KtlsDirection, KtlsProbe, PAIRS, Version, probe};
use tls::options::{Suite, Suites};

use crate::status_parts::KernelTlsStatus;

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct KernelTls {
    pub(crate) status: KernelTlsStatus,
    /// The suites that it seals, in the order of [`PAIRS`].
    seals: [bool; PAIRS.len()],
}

impl KernelTls {
    /// Tries it, if a service has a use for it. As root that also loads the kernel's module.
    pub(crate) fn try_for(settings: &Settings) -> Option<Self> {
        let mut services = settings.data_plane.services.iter();
        let is_wanted = services.any(|service| service.front.ktls.mode != KtlsMode::Off);
        is_wanted.then(|| Self::of(&probe()))
    }

    fn of(found: &KtlsProbe) -> Self {
        let seals =
            PAIRS.map(|(version, cipher)| found.takes(version, cipher, KtlsDirection::Send));
        let status = KernelTlsStatus {
            available: seals.contains(&true),
            sentence: found.sentence(),
            remedy: found.remedy().map(str::to_owned),
            rekeys: found.rekeys,
        };
        Self { status, seals }
    }

    pub(crate) fn sealed(&self) -> Vec<(Version, Cipher)> {
        let pairs = PAIRS.into_iter().zip(self.seals);
        pairs.filter_map(|(pair, seals)| seals.then_some(pair)).collect()
    }

    /// Whether every service that requires the kernel gets it.
    ///
    /// # Errors
    /// Each suite that the service may agree on and the kernel does not encrypt, where it was
    /// written.
    pub(crate) fn check(
        &self,
        source: &TypedConfiguration,
        settings: &Settings,
    ) -> Result<(), Vec<Diagnostic>> {
        let services = settings.data_plane.services.iter().enumerate();
        let requiring = services.filter(|(_, s)| s.front.ktls.mode == KtlsMode::Require);
        let faults = config::diagnose_all(
            source,
            requiring.filter_map(|(number, service)| {
                let (message, hint) = self.lack(service)?;
                let key = format!("service.{number}.front.tls.ktls.mode");
                Some((Severity::Error, key, Problem::new(message).hint(hint)))
            }),
        );
        if faults.is_empty() {
            return Ok(());
        }
        Err(faults)
    }

    /// The fault for a service that requires it, and the remedy.
    fn lack(&self, service: &ServiceOptions) -> Option<(String, String)> {
        if !self.status.available {
            let message = format!("this host has no kernel TLS: {}", self.status.sentence);
            let other = "write \"auto\": then Lariat encrypts";
            let hint = match &self.status.remedy {
                Some(remedy) => format!("{remedy}; or {other}"),
                None => other.to_owned(),
            };
            return Some((message, hint));
        }
        let missing: Vec<_> = PAIRS
            .into_iter()
            .zip(self.seals)
            .filter(|(pair, seals)| !seals && may_agree_on(service, *pair))
            .map(|((version, cipher), _)| format!("{cipher} by {version}"))
            .collect();
        let message = format!("the kernel does not encrypt with {}", missing.join(", "));
        let hint = format!("{CIPHER_REMEDY}; or leave those out of `suites` and `versions`");
        (!missing.is_empty()).then_some((message, hint))
    }
}

impl fmt::Display for KernelTls {
    /// With the remedy, without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.status.available { "yes" } else { "no" };
        write!(f, "{word}: {}", self.status.sentence)?;
        match &self.status.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

fn may_agree_on(service: &ServiceOptions, pair: (Version, Cipher)) -> bool {
    let Some(tls) = service.front.terminated() else {
        return false;
    };
    let suites = match &tls.suites {
        Suites::Auto => Suite::ALL,
        Suites::Listed(listed) => listed,
    };
    let spoken = tls.version_min..=tls.version_max;
    let mut agreeable = suites.iter().map(|suite| (suite.version(), suite.cipher()));
    spoken.contains(&pair.0) && agreeable.any(|agreeable| agreeable == pair)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::ktls::KtlsTrial;

    const EOPNOTSUPP: i32 = 95;

    fn source(tls: &str) -> TypedConfiguration {
        let text = format!(
            "[[service]]\nfront.listen = ['*:443']\n[service.front.tls]\n\
             certificates = ['site.pem']\n{tls}\n[service.back]\nfiles = '/data'\n"
        );
        TypedConfiguration::of_text("a.toml", text)
    }

    fn settings(source: &TypedConfiguration) -> Settings {
        let mut files = config::Recording::default();
        files.insert("site.pem", b"PEM".to_vec());
        config::load(source, &mut files).unwrap().settings
    }

    /// A kernel that seals all but what is named.
    fn kernel(missing: &[(Version, Cipher)]) -> KernelTls {
        let tried = |pair: (Version, Cipher)| KtlsTrial {
            version: pair.0,
            cipher: pair.1,
            half: KtlsDirection::Send,
            error: missing.contains(&pair).then_some(EOPNOTSUPP),
        };
        KernelTls::of(&KtlsProbe { lack: None, tried: PAIRS.map(tried).to_vec(), rekeys: true })
    }

    fn faults(kernel: &KernelTls, tls: &str) -> String {
        let source = source(tls);
        match kernel.check(&source, &settings(&source)) {
            Ok(()) => String::new(),
            Err(faults) => faults.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn without_ktls_the_kernel_is_not_tried() {
        assert_eq!(KernelTls::try_for(&settings(&source("ktls = 'off'"))), None);
        let tried = KernelTls::try_for(&settings(&source("ktls = 'auto'"))).unwrap();
        assert!(tried.status.available || tried.status.remedy.is_some(), "{tried:?}");
    }

    #[test]
    fn what_is_required_must_be_there() {
        let none = KernelTls::of(&KtlsProbe {
            lack: Some(sys::ktls::KtlsLack::NotLoaded),
            tried: Vec::new(),
            rekeys: false,
        });
        assert_eq!(faults(&none, "ktls = 'auto'"), "");
        let told = faults(&none, "ktls = 'require'");
        let message = "error: service.front.tls.ktls.mode: this host has no kernel TLS: its module \
                       is not loaded\n --> a.toml:5:8\n";
        assert!(told.starts_with(message), "{told}");
        assert!(told.contains("hint: `modprobe tls` as root"), "{told}");
    }

    #[test]
    fn only_what_may_be_agreed_on_counts() {
        let missing = [(Version::Tls12, Cipher::ChaCha20Poly1305)];
        let kernel = kernel(&missing);
        let told = faults(&kernel, "ktls = 'require'");
        let message = "the kernel does not encrypt with ChaCha20-Poly1305 by TLS 1.2\n";
        assert!(told.contains(message), "{told}");
        for narrower in [
            "versions = ['1.3']",
            "suites = ['TLS_AES_128_GCM_SHA256', 'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256']",
        ] {
            assert_eq!(faults(&kernel, &format!("ktls = 'require'\n{narrower}")), "");
        }
    }
}
