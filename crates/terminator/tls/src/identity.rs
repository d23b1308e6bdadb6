//! Reads and compares the identities of client certificates: those that an operator allows, and
//! those in a certificate; also a certificate's PEM form, and the fingerprint that represents it in
//! sessions made with it.
//!
//! Decides no trust: the chain has been verified before. Identities are compared byte by byte as
//! the authority wrote them, except that host names ignore case (RFC 4343). Identities that are not
//! valid text are ignored.

use std::fmt::{self, Display, Formatter};

use aws_lc_rs::digest;
use pem_rfc7468::LineEnding;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Length of a SHA-256 fingerprint, in bytes.
const SHA256_BYTES: usize = 32;

/// Maximum number of identities in a log line, and of characters of each: the client wrote them.
const NAMED_MAX: usize = 8;
const NAMED_CHARS_MAX: usize = 100;

/// Maximum number of compared alternative names, and of units. An authority may put thousands into
/// one certificate; with an `allow` of a thousand this is half a million comparisons, some ms.
const COMPARED_MAX: usize = 512;

/// One allowed identity.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AllowedIdentity {
    /// A DNS name among the alternative names, in lower case; `*.` stands for one label, as in
    /// certificates (RFC 9525 section 6.3).
    Dns(String),
    /// A URI among the alternative names, such as a SPIFFE ID; `/*` at its end stands for one or
    /// more segments.
    Uri(String),
    /// A mailbox among the alternative names (RFC 5280 section 4.2.1.6).
    Email(String),
    /// A common name of the subject.
    CommonName(String),
    /// An organizational unit of the subject.
    OrganizationalUnit(String),
    /// SHA-256 of the whole certificate (DER).
    Fingerprint([u8; SHA256_BYTES]),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IdentityFault {
    #[error("is empty")]
    Empty,
    /// The text is no DNS name, with or without a wildcard.
    #[error("is no DNS name; `*.` may stand at its start only, for one label")]
    Dns,
    #[error("is no URI; it begins with a scheme, and `/*` may stand at its end only")]
    Uri,
    #[error("is no mail address; patterns are not possible")]
    Email,
    #[error("is no SHA-256 fingerprint, which has 64 hexadecimal digits, with or without colons")]
    Fingerprint,
}

/// Reads an operator's text as an identity of one kind.
pub type ReadIdentity = fn(&str) -> Result<AllowedIdentity, IdentityFault>;

impl AllowedIdentity {
    /// Readers of identities, by the name of the kind.
    pub const KINDS: [(&'static str, ReadIdentity); 6] = [
        ("dns", Self::dns),
        ("uri", Self::uri),
        ("email", Self::email),
        ("cn", |text| Ok(Self::CommonName(some(text)?))),
        ("ou", |text| Ok(Self::OrganizationalUnit(some(text)?))),
        ("fingerprint", Self::fingerprint),
    ];

    fn dns(text: &str) -> Result<Self, IdentityFault> {
        let name = some(text)?.to_ascii_lowercase();
        let host = name.strip_prefix("*.").unwrap_or(&name);
        if host.split('.').all(is_label) { Ok(Self::Dns(name)) } else { Err(IdentityFault::Dns) }
    }

    fn uri(text: &str) -> Result<Self, IdentityFault> {
        let uri = some(text)?;
        let (scheme, rest) = uri.split_once(':').ok_or(IdentityFault::Uri)?;
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
        // A wildcard needs a host before it: `spiffe://*` would be every trust domain.
        let fixed = rest.strip_suffix("/*").unwrap_or(rest);
        let has_place = !fixed.trim_start_matches('/').is_empty();
        let is_text = fixed.chars().all(|c| c.is_ascii_graphic() && c != '*');
        if is_scheme && has_place && is_text { Ok(Self::Uri(uri)) } else { Err(IdentityFault::Uri) }
    }

    fn email(text: &str) -> Result<Self, IdentityFault> {
        let mailbox = some(text)?;
        let parts = mailbox.rsplit_once('@').ok_or(IdentityFault::Email)?;
        let is_whole = !parts.0.is_empty() && !parts.1.is_empty();
        if is_whole && mailbox.chars().all(|c| c.is_ascii_graphic() && c != '*') {
            Ok(Self::Email(mailbox))
        } else {
            Err(IdentityFault::Email)
        }
    }

    fn fingerprint(text: &str) -> Result<Self, IdentityFault> {
        let digits = some(text)?.replace(':', "");
        let byte = |pair: &[u8]| {
            let digits = str::from_utf8(pair).ok().filter(|pair| !pair.contains('+'))?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes
            .filter(|_| digits.len() == 2 * SHA256_BYTES)
            .map(Self::Fingerprint)
            .ok_or(IdentityFault::Fingerprint)
    }
}

fn is_label(label: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    (1..=63).contains(&label.len()) && label.chars().all(is_allowed)
}

fn some(text: &str) -> Result<String, IdentityFault> {
    (!text.is_empty()).then(|| text.to_owned()).ok_or(IdentityFault::Empty)
}

/// Identities of one certificate.
pub(crate) struct Identities<'a> {
    fingerprint: [u8; SHA256_BYTES],
    texts: Vec<(&'static str, &'a str)>,
}

/// Calls `work` with the identities of a certificate (DER), while it is parsed.
pub(crate) fn with_identities<T>(der: &[u8], work: impl FnOnce(&Identities<'_>) -> T) -> T {
    let read = X509Certificate::from_der(der).map(|(_, read)| read).ok();
    let texts = read.iter().flat_map(texts).collect();
    work(&Identities { fingerprint: sha256(der), texts })
}

fn texts<'a>(read: &'a X509Certificate<'_>) -> impl Iterator<Item = (&'static str, &'a str)> {
    let subject = read.subject();
    // Only the name that logs and PROXY headers show, because operators see no other.
    let common_names = subject.iter_common_name().take(1);
    let common_names = common_names.map(|one| ("cn", one.as_str()));
    let units =
        subject.iter_organizational_unit().take(COMPARED_MAX).map(|one| ("ou", one.as_str()));
    let of_subject = common_names.chain(units);
    // An extension that is duplicated or does not parse has no names.
    let alternative = read.subject_alternative_name().ok().flatten();
    let names = alternative.into_iter().flat_map(|one| &one.value.general_names).take(COMPARED_MAX);
    let alternative = names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(("dns", *name)),
        GeneralName::URI(uri) => Some(("uri", *uri)),
        GeneralName::RFC822Name(mailbox) => Some(("email", *mailbox)),
        _ => None,
    });
    alternative.chain(of_subject.filter_map(|(kind, text)| Some((kind, text.ok()?))))
}

impl Identities<'_> {
    /// Reports whether one of these identities is allowed.
    pub(crate) fn are_among(&self, allowed: &[AllowedIdentity]) -> bool {
        allowed.iter().any(|one| self.have(one))
    }

    fn have(&self, allowed: &AllowedIdentity) -> bool {
        let any = |kind, is_it: &dyn Fn(&str) -> bool| {
            let mut texts = self.texts.iter();
            texts.any(|(of_kind, text)| *of_kind == kind && is_it(text))
        };
        match allowed {
            AllowedIdentity::Dns(name) => any("dns", &|shown| is_same_host(name, shown)),
            AllowedIdentity::Uri(uri) => any("uri", &|shown| is_same_uri(uri, shown)),
            AllowedIdentity::Email(mailbox) => {
                any("email", &|shown| is_same_mailbox(mailbox, shown))
            }
            AllowedIdentity::CommonName(name) => any("cn", &|shown| name == shown),
            AllowedIdentity::OrganizationalUnit(name) => any("ou", &|shown| name == shown),
            AllowedIdentity::Fingerprint(bytes) => *bytes == self.fingerprint,
        }
    }
}

/// Reports whether a name matches: a certificate for `*.example` is no host of that domain, and
/// matches only if the same pattern is listed.
fn is_same_host(listed: &str, shown: &str) -> bool {
    match (listed.strip_prefix("*."), shown.split_once('.')) {
        (Some(parent), Some((label, domain))) => {
            (label == "*" || is_label(label)) && parent.eq_ignore_ascii_case(domain)
        }
        (Some(_), None) => false,
        (None, _) => listed.eq_ignore_ascii_case(shown),
    }
}

/// Reports whether a URI matches. After a wildcard no segment may lead elsewhere (RFC 3986 section
/// 5.2.4).
fn is_same_uri(listed: &str, shown: &str) -> bool {
    let Some(parent) = listed.strip_suffix("/*") else {
        return listed == shown;
    };
    let below = shown.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/'));
    below.is_some_and(|below| {
        let is_plain = |segment| !["", ".", ".."].contains(&segment);
        let is_allowed = |c: char| c.is_ascii_graphic() && !"%?#\\".contains(c);
        below.split('/').all(is_plain) && below.chars().all(is_allowed)
    })
}

/// Reports whether a mailbox matches: only its host ignores case (RFC 5280 section 7.5).
fn is_same_mailbox(listed: &str, shown: &str) -> bool {
    match (listed.rsplit_once('@'), shown.rsplit_once('@')) {
        (Some((name, host)), Some((shown_name, shown_host))) => {
            name == shown_name && host.eq_ignore_ascii_case(shown_host)
        }
        _ => false,
    }
}

/// Log format. Texts are quoted and escaped, because the client's authority wrote them.
impl Display for Identities<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("fingerprint ")?;
        for byte in self.fingerprint {
            write!(f, "{byte:02x}")?;
        }
        for (kind, text) in self.texts.iter().take(NAMED_MAX) {
            let short: String = text.chars().take(NAMED_CHARS_MAX).collect();
            write!(f, ", {kind} {short:?}")?;
        }
        match self.texts.len().checked_sub(NAMED_MAX) {
            Some(more @ 1..) => write!(f, " and {more} more"),
            Some(0) | None => Ok(()),
        }
    }
}

/// Returns the first common name (CN) of the subject, if it is text.
pub fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let name = certificate.subject().iter_common_name().next()?;
    name.as_str().ok().map(str::to_owned)
}

/// Encodes the certificate as one `CERTIFICATE` block (RFC 7468).
pub fn pem(der: &[u8]) -> Option<String> {
    pem_rfc7468::encode_string("CERTIFICATE", LineEnding::LF, der).ok()
}

pub const FINGERPRINT_BYTES: usize = 8;

/// First bytes of a certificate's SHA-256: enough to distinguish those of one service, and an
/// attacker gains nothing by a collision.
pub type Fingerprint = [u8; FINGERPRINT_BYTES];

/// Returns the SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let digest = digest::digest(&digest::SHA256, bytes);
    *digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

/// Returns the fingerprint of a certificate (DER).
pub(crate) fn fingerprint_of(certificate: &[u8]) -> Fingerprint {
    *sha256(certificate).first_chunk().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use testkit::authority::Authority;

    use super::*;

    fn read(kind: &str, text: &str) -> Result<AllowedIdentity, IdentityFault> {
        let found = AllowedIdentity::KINDS.iter().find(|(name, _)| *name == kind);
        found.expect("a kind").1(text)
    }

    #[test]
    fn what_is_no_identity_of_its_kind_is_refused() {
        for (kind, texts) in [
            ("dns", &["", "*", "*.", "a*.b", "*.*.b", "a..b", "a b", "https://a"][..]),
            ("uri", &["", "web", "spiffe://*", "spiffe://", "spiffe://a/*/b", "a://b c", "1a://b"]),
            ("email", &["", "a", "@b", "a@", "*@b"]),
            ("cn", &[""]),
            ("ou", &[""]),
            ("fingerprint", &["", "ab", "+1"]),
        ] {
            for text in texts {
                assert!(read(kind, text).is_err(), "{kind} {text:?}");
            }
        }
        for wrong in [&"ab".repeat(31)[..], &"ab".repeat(33), &"+1".repeat(32), &"gg".repeat(32)] {
            assert_eq!(read("fingerprint", wrong), Err(IdentityFault::Fingerprint));
        }
        let colons = vec!["Ab"; 32].join(":");
        assert_eq!(read("fingerprint", &colons), Ok(AllowedIdentity::Fingerprint([0xab; 32])));
    }

    /// Reports whether one rule allows a certificate with these names (the first is its CN).
    fn enters(names: &[&str], kind: &str, listed: &str) -> bool {
        let root = Authority::root("root");
        let leaf = root.leaf(names).unit("ops, night").issue();
        let allowed = [read(kind, listed).expect("an identity")];
        with_identities(leaf.certificate_der(), |shown| shown.are_among(&allowed))
    }

    #[test]
    fn names_are_compared_by_the_rules_of_their_kind() {
        let names = &["Web-1.A.example", "spiffe://td/ns/web/1", "Ann@Mail.example"];
        for (kind, listed) in [
            ("dns", "web-1.a.Example"),
            ("dns", "*.a.example"),
            ("uri", "spiffe://td/ns/web/1"),
            ("uri", "spiffe://td/ns/web/*"),
            ("uri", "spiffe://td/*"),
            ("email", "Ann@mail.EXAMPLE"),
            ("cn", "Web-1.A.example"),
            ("ou", "ops, night"),
        ] {
            assert!(enters(names, kind, listed), "{kind} {listed}");
        }
        for (kind, listed) in [
            ("dns", "*.example"),
            ("dns", "a.example"),
            ("dns", "*.web-1.a.example"),
            ("uri", "spiffe://td/ns/we/*"),
            ("uri", "spiffe://td/ns/web"),
            ("uri", "spiffe://td/ns/web/1/*"),
            ("uri", "SPIFFE://td/ns/web/1"),
            ("email", "ann@mail.example"),
            ("cn", "web-1.a.example"),
            ("cn", "Ann@Mail.example"),
            ("ou", "ops"),
        ] {
            assert!(!enters(names, kind, listed), "{kind} {listed}");
        }
    }

    /// Logs and PROXY headers show the first.
    #[test]
    fn of_several_common_names_the_first_counts() {
        let root = Authority::root("root");
        let leaf = root.leaf(&["a"]).second_common_name("b").issue();
        for (cn, enters) in [("a", true), ("b", false)] {
            let allowed = [read("cn", cn).expect("an identity")];
            let is_let_in =
                with_identities(leaf.certificate_der(), |shown| shown.are_among(&allowed));
            assert_eq!(is_let_in, enters, "{cn}");
        }
    }

    #[test]
    fn no_name_enters_as_another() {
        for (shown, kind, listed) in [
            ("spiffe://td/web/../admin", "uri", "spiffe://td/web/*"),
            ("spiffe://td/web/", "uri", "spiffe://td/web/*"),
            ("spiffe://td/web/%2e%2e/admin", "uri", "spiffe://td/web/*"),
            ("spiffe://td/web/1?as=admin", "uri", "spiffe://td/web/*"),
            ("spiffe://td/web/1\0", "uri", "spiffe://td/web/*"),
            ("spiffe://td.evil/x", "uri", "spiffe://td/*"),
            ("a\0.a.example", "dns", "*.a.example"),
            ("a b.a.example", "dns", "*.a.example"),
            ("b*.a.example", "dns", "*.a.example"),
            ("*.a.example", "dns", "b.a.example"),
            ("a.example.evil", "dns", "a.example"),
            ("x@y@mail.example", "email", "y@mail.example"),
        ] {
            assert!(!enters(&["cn", shown], kind, listed), "{shown} as {listed}");
        }
        assert!(enters(&["cn", "*.a.example"], "dns", "*.a.example"));
    }

    #[test]
    fn a_fingerprint_is_of_the_whole_certificate() {
        let root = Authority::root("root");
        let (one, other) = (root.client("a"), root.client("a"));
        let digest = sha256(one.certificate_der());
        let allowed = [AllowedIdentity::Fingerprint(digest)];
        let among = |shown: &Identities<'_>| shown.are_among(&allowed);
        assert!(with_identities(one.certificate_der(), among));
        assert!(!with_identities(other.certificate_der(), among));
        assert!(!with_identities(b"no certificate", among));
    }

    #[test]
    fn the_log_names_few_and_escapes_all() {
        let many: Vec<String> = (0..12).map(|n| format!("n{n}.example")).collect();
        let names: Vec<&str> =
            ["a\", cn \"b\n"].into_iter().chain(many.iter().map(|n| &n[..])).collect();
        let leaf = Authority::root("root").leaf(&names[1..]).common_name(names[0]).issue();
        let said = with_identities(leaf.certificate_der(), |its| its.to_string());
        assert!(said.contains(", dns \"n0.example\"") && said.ends_with(" and 5 more"), "{said}");
        let leaf = Authority::root("root").leaf(&[]).common_name(names[0]).issue();
        let said = with_identities(leaf.certificate_der(), |its| its.to_string());
        assert!(said.ends_with(r#", cn "a\", cn \"b\n""#), "{said}");
    }

    #[test]
    fn of_thousands_of_names_the_first_are_compared() {
        let names: Vec<String> = (0..2000).map(|at| format!("{at}.example")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let leaf = Authority::root("root").leaf(&names).issue();
        for (place, is_compared) in [(0, true), (511, true), (512, false), (1999, false)] {
            let allowed = [read("dns", names[place]).expect("a name")];
            let found = with_identities(leaf.certificate_der(), |its| its.are_among(&allowed));
            assert_eq!(found, is_compared, "{place}");
        }
    }
}
