//! Keys of certificates from ACME (RFC 8555), and their requirements on the whole configuration.
//!
//! Reads the issued certificates from the folder; a process of the daemon orders them.

use std::fmt::Write;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use options::quantity::{DAY, SECOND};
use options::row::{boolean, duration, path, row, text};
use options::{Key, Kind, Problem, Value, choice, section, table};
use tls::identity::sha256;
use tls::options::{CertificateSource, PemSource, Placeholder};
use wire::http::host_and_port;
use zeroize::Zeroizing;

use crate::files::bundle_of_host;
use crate::resolver::{FileResolver, optional};
use crate::settings::{AcmeChallenge, AcmeEntry, AcmeOptions, Password};

/// Most names in a certificate: Let's Encrypt's limit.
const DOMAINS_MAX: usize = 100;

section! {
    table("acme").absent("").example(r#"acme = { folder = "/srv/acme" }"#);
    /// Certificates by ACME: see `service.front.tls.acme`.
    pub(crate) struct WrittenAcme<'a> {
        /// The directory of accounts, keys and certificates, made with mode 0700; it must be the
        /// supervisor's user's own.
        folder: String = path()
            .default("/var/lib/lariat/acme").flag("acme-folder").example(r#"folder = "/srv/acme""#),
    }
}

section! {
    table("service.front.tls.acme")
        .absent("certificates come from files alone").shorthand("domains")
        .example(r#"acme = { domains = ["a.example"], accept-terms = true }"#);
    /// A certificate that Lariat orders and renews by ACME (RFC 8555). See docs/guide/acme.md.
    pub(crate) struct WrittenServiceAcme<'a> {
        /// The certificate's names and IP addresses (RFC 8738). Names with `*.` need
        /// `challenge.dns`.
        domains: Vec<String> = row(Kind::Text("DOMAIN"), domain)
            .many().flag("acme").example(r#"domains = ["a.example", "*.b.example", "192.0.2.1"]"#),
        /// Whether you accept the authority's terms of service; else nothing is ordered.
        accept_terms: bool = boolean().flag("acme-accept-terms").example("accept-terms = true"),
        /// Mail addresses at which the authority may reach you.
        contact: Vec<String> = row(Kind::Text("ADDRESS"), contact)
            .many().absent("none").flag("acme-contact").example(r#"contact = ["ops@a.example"]"#),
        /// The authority: `letsencrypt`, `letsencrypt-staging`, or the URL of a directory.
        directory: String = row(Kind::Text("URL"), directory)
            .default("letsencrypt").flag("acme-directory").example(r#"directory = "letsencrypt-staging""#),
        /// PEM files with the authorities of the directory's own certificate.
        roots: Vec<String> = path()
            .many().absent("those of this host").flag("acme-root").example(r#"roots = ["/etc/lariat/ca.pem"]"#),
        /// The certificate profile, of those that the directory offers.
        profile: Option<String> = text("NAME")
            .absent("the authority chooses").flag("acme-profile").example(r#"profile = "shortlived""#),
        /// The kinds of keys; each gets a certificate.
        key: Vec<&'static str> = choice![
            "ecdsa-p256" => "ecdsa-p256",
            "ecdsa-p384" => "ecdsa-p384",
            "rsa-2048" => "rsa-2048",
            "rsa-3072" => "rsa-3072",
            "rsa-4096" => "rsa-4096",
        ].many().default("ecdsa-p256").flag("acme-key").example(r#"key = ["ecdsa-p256", "rsa-2048"]"#),
        challenge: WrittenChallenge<'a>,
        eab: Option<WrittenEab<'a>>,
    }
}

section! {
    table("service.front.tls.acme.challenge")
        .absent("`tls-alpn`").shorthand("kind")
        .example(r#"challenge = { dns = "/etc/lariat/dns-hook" }"#);
    /// The proof to the authority that the names are ours.
    pub(crate) struct WrittenChallenge<'a> {
        /// `tls-alpn`: the authority connects to port 443 of each name (RFC 8737); `http`: to port
        /// 80.
        kind: bool = choice!["tls-alpn" => false, "http" => true]
            .default("tls-alpn").flag("acme-challenge").example(r#"kind = "http""#),
        /// A program that puts a TXT record into the DNS, and removes it (dns-01): `PROGRAM
        /// present|cleanup NAME VALUE`.
        dns: Option<String> = path()
            .absent("`kind`").flag("acme-dns").example(r#"dns = "/etc/lariat/dns-hook""#),
        /// How long the program may take before it is killed.
        timeout: Duration = duration(SECOND, DAY)
            .default("5m").flag("acme-dns-timeout").example(r#"timeout = "10m""#),
    }
}

section! {
    table("service.front.tls.acme.eab")
        .absent("none").example(r#"eab = { key-id = "kid-1", key = "/etc/lariat/eab.key" }"#);
    /// An external account to bind ours to (RFC 8555, 7.3.4).
    pub(crate) struct WrittenEab<'a> {
        /// The key's name, as the authority gave it.
        key_id: String = text("NAME").flag("acme-eab-key-id").example(r#"key-id = "kid-1""#),
        /// A file with the key in base64url.
        key: String = path().flag("acme-eab-key").example(r#"key = "/etc/lariat/eab.key""#),
    }
}

/// Reads a front's certificates that ACME has issued so far. Records in `resolver.acme` which
/// certificate is to be ordered.
pub(crate) fn certificates(
    written: &WrittenServiceAcme<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<(Vec<CertificateSource>, Placeholder)> {
    let entry = entry(written, resolver)?;
    let mut certificates = Vec::new();
    for key in &entry.keys {
        let file = resolver.acme_folder.join(certificate_file(&entry.name, key));
        match resolver.files.read(&file) {
            Ok(pem) => {
                let place = file.display().to_string();
                certificates.push(CertificateSource::whole(&place, pem));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return resolver.unreadable(&written.at, &file, &error),
        }
    }
    let why = format!("there is no certificate yet for {} by ACME", entry.domains.join(", "));
    let placeholder = Placeholder { names: entry.domains.clone(), why };
    resolver.acme.push(entry);
    Some((certificates, placeholder))
}

/// Returns the path of a certificate with its key, relative to the ACME folder.
pub fn certificate_file(name: &str, key: &str) -> PathBuf {
    Path::new("certificates").join(format!("{name}.{key}.pem"))
}

fn entry(written: &WrittenServiceAcme<'_>, resolver: &mut FileResolver<'_>) -> Option<AcmeEntry> {
    let roots = resolver.pem_files(&written.roots);
    let eab = optional(written.eab.as_ref().map(|eab| external_account(eab, resolver)));
    let challenge = challenge(&written.challenge, resolver);
    if !written.accept_terms.value? {
        let hint = "read them at the authority, and write accept-terms = true";
        let message = "nothing is ordered without your consent to the terms";
        return written.accept_terms.fail(message, hint);
    }
    let (domains, directory) = (written.domains.value.clone()?, written.directory.value.clone()?);
    let (keys, challenge) = (written.key.value.clone()?, challenge?);
    if domains.is_empty() || domains.len() > DOMAINS_MAX {
        let hint = format!("list from 1 to {DOMAINS_MAX}");
        return written.domains.fail(format!("lists {} domains", domains.len()), hint);
    }
    let is_wildcard = |domain: &&String| domain.starts_with("*.");
    let is_address = |domain: &&String| domain.parse::<IpAddr>().is_ok();
    let is_dns = matches!(challenge, AcmeChallenge::Dns { .. });
    if let (Some(domain), false) = (domains.iter().find(is_wildcard), is_dns) {
        let message =
            format!("\"{domain}\" stands for names that only the DNS can prove to be ours");
        let hint = "add challenge = { dns = \"PROGRAM\" }, or list names";
        return written.domains.fail(message, hint);
    }
    if let (Some(domain), true) = (domains.iter().find(is_address), is_dns) {
        let message = format!("{domain} is an address, which the DNS cannot prove to be ours");
        return written.domains.fail(message, "give it a service with another `challenge`");
    }
    if let Some(domain) = redundant(&domains) {
        let message = format!("\"{domain}\" is covered twice, which authorities refuse");
        return written.domains.fail(message, "take it out: another of the list covers it");
    }
    Some(AcmeEntry {
        name: entry_name(&domains, &directory, &keys),
        service: String::new(),
        contact: written.contact.value.clone()?,
        domains,
        directory,
        roots: roots?,
        profile: written.profile.value.clone()?,
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        challenge,
        eab: eab?,
    })
}

/// Returns a domain that another one covers: a duplicate, or a wildcard one level above it.
fn redundant(domains: &[String]) -> Option<&String> {
    let mut others = domains.iter().enumerate();
    let covered = others.find(|(place, domain)| {
        let wildcard = domain.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        domains.iter().take(*place).any(|one| one == *domain)
            || wildcard.is_some_and(|wildcard| wildcard != **domain && domains.contains(&wildcard))
    });
    covered.map(|(_, domain)| domain)
}

/// Returns the name of an entry in the folder and for operators, made of everything that requires a
/// different certificate.
fn entry_name(domains: &[String], directory: &str, keys: &[&str]) -> String {
    let mut sorted = domains.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let digest = sha256([&sorted.join(","), directory, &keys.join(",")].join("\n").as_bytes());
    let first = sorted.first().map_or("", |domain| domain).replace(['*', ':'], "_");
    let mut name = format!("{first}-");
    for byte in digest.iter().take(4) {
        // Writing to a text cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
    name
}

fn challenge(written: &WrittenChallenge<'_>, resolver: &FileResolver<'_>) -> Option<AcmeChallenge> {
    let (is_http, dns) = (written.kind.value?, written.dns.value.as_ref()?);
    let Some(dns) = dns else {
        let message = "has no effect: no program is run";
        written.timeout.warn_unless(false, message, "add dns = \"PROGRAM\", or take it out");
        return Some(if is_http { AcmeChallenge::Http } else { AcmeChallenge::TlsAlpn });
    };
    if written.kind.is_written() {
        let message = "stands beside `dns`, which is another kind";
        return written.kind.fail(message, "take one of both out");
    }
    Some(AcmeChallenge::Dns { hook: resolver.base.join(dns), timeout: written.timeout.value? })
}

fn external_account(
    eab: &WrittenEab<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<(String, Password)> {
    let (path, bytes) = resolver.secret(&eab.key, eab.key.value.as_ref()?)?;
    let key = str::from_utf8(&bytes).unwrap_or_default().trim();
    let of_base64url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte);
    if key.is_empty() || !key.bytes().all(of_base64url) {
        let message = format!("{} holds no key in base64url", path.display());
        return eab.key.fail(message, "store the key there as the authority gave it");
    }
    Some((eab.key_id.value.clone()?, Password(Zeroizing::new(key.to_owned()))))
}

fn domain(value: &Value, key: &Key) -> Result<String, Problem> {
    let text = options::as_text(value)?.trim_end_matches('.').to_ascii_lowercase();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let name = text.strip_prefix("*.").unwrap_or(&text);
    // A last label of digits alone makes the name an address (RFC 1123 section 2.1).
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    if text.len() <= 253 && name.split('.').all(is_label) && !is_number {
        return Ok(text);
    }
    let message = format!("\"{}\" is neither a DNS name nor an IP address", text.escape_debug());
    Err(Problem::new(message).hint(key.for_example()))
}

fn contact(value: &Value, key: &Key) -> Result<String, Problem> {
    let text = options::as_text(value)?;
    let address = text.strip_prefix("mailto:").unwrap_or(text);
    let has_parts = address.split_once('@').is_some_and(|(user, host)| {
        !user.is_empty() && !host.is_empty() && !address.contains(char::is_whitespace)
    });
    if has_parts {
        return Ok(format!("mailto:{address}"));
    }
    let message = format!("\"{}\" is no mail address", text.escape_debug());
    Err(Problem::new(message).hint(key.for_example()))
}

/// Directory URLs of authorities by their words.
const DIRECTORIES: [(&str, &str); 2] = [
    ("letsencrypt", "https://acme-v02.api.letsencrypt.org/directory"),
    ("letsencrypt-staging", "https://acme-staging-v02.api.letsencrypt.org/directory"),
];

fn directory(value: &Value, _: &Key) -> Result<String, Problem> {
    let text = options::as_text(value)?;
    let known = DIRECTORIES.iter().find(|(word, _)| *word == text);
    if let Some((_, url)) = known {
        return Ok((*url).to_owned());
    }
    let rest = text.strip_prefix("https://").unwrap_or_default();
    let host = &rest[..rest.find(['/', '?']).unwrap_or(rest.len())];
    if host_and_port(host.as_bytes()).is_some() && text.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Ok(text.to_owned());
    }
    let message = format!("\"{}\" is no directory of an authority", text.escape_debug());
    let hint = "write \"letsencrypt\", \"letsencrypt-staging\", or a URL that begins with https://";
    Err(Problem::new(message).hint(hint))
}

/// The certificates that are to be ordered for the services that were read.
pub(crate) fn options(resolver: &mut FileResolver<'_>) -> AcmeOptions {
    let entries = std::mem::take(&mut resolver.acme);
    let bundle =
        entries.iter().any(|one| one.roots.is_empty()).then(|| bundle_of_host(resolver.files));
    let host_roots = bundle.flatten().map(|(place, pem)| PemSource { place, pem: pem.into() });
    AcmeOptions { folder: resolver.acme_folder.clone(), entries, host_roots }
}

/// Returns the folder of `[acme]`, its only key.
pub(crate) fn folder(written: &WrittenAcme<'_>, base: &Path) -> PathBuf {
    base.join(written.folder.value.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_covered_once() {
        for (domains, covered) in [
            (&["a.example", "b.a.example", "*.b.a.example"][..], None),
            (&["*.example", "example", "x.a.example"], None),
            (&["a.example", "b.example", "a.example"], Some("a.example")),
            (&["*.example", "*.example"], Some("*.example")),
            (&["a.example", "*.example"], Some("a.example")),
            (&["192.0.2.1", "192.0.2.1"], Some("192.0.2.1")),
        ] {
            let domains: Vec<_> = domains.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(redundant(&domains).map(String::as_str), covered, "{domains:?}");
        }
    }

    #[test]
    fn an_entrys_name_says_all_that_makes_another_certificate() {
        let of = |domains: &[&str], directory, keys: &[&str]| {
            let domains: Vec<_> = domains.iter().map(|name| (*name).to_owned()).collect();
            entry_name(&domains, directory, keys)
        };
        let first = of(&["b", "*.a"], "x", &["rsa-2048"]);
        assert!(first.starts_with("_.a-") && first.len() == 12, "{first}");
        assert_eq!(first, of(&["*.a", "b", "b"], "x", &["rsa-2048"]));
        for other in [
            of(&["*.a"], "x", &["rsa-2048"]),
            of(&["*.a", "b"], "y", &["rsa-2048"]),
            of(&["*.a", "b"], "x", &["rsa-2048", "ecdsa-p256"]),
        ] {
            assert_ne!(first, other);
        }
    }
}
