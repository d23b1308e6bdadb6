//! A section of stunnel's file, and its TLS options: versions, suites and curves, and the
//! verification of the other side.

use std::path::Path;

use crate::certificates;
use crate::convert::is_among;
use crate::import::{Import, Importer};
use crate::meanings::{self, Conversion, Predecessor};
use crate::source::{SourceLine, Statement, Statements};
use crate::tls_policy::{OLDER, SpokenVersions, VersionBound, WrittenSuites};

/// Section, with the defaults before its own options.
#[derive(Clone, Debug)]
pub(super) struct StunnelSection {
    pub(super) name: String,
    pub(super) place: SourceLine,
    pub(super) options: Statements,
}

impl StunnelSection {
    pub(super) fn new(name: &str, place: SourceLine) -> Self {
        Self { name: name.to_owned(), place, options: Statements::default() }
    }

    /// Returns the section with defaults, which its own options override.
    pub(super) fn with(&self, defaults: &Statements) -> Self {
        Self { options: defaults.and(&self.options), ..self.clone() }
    }

    /// Returns a statement for an option that is not written.
    pub(super) fn lacking(&self, option: &str) -> Statement {
        Statement::new(&self.place, option, vec!["(not written)".to_owned()])
    }

    /// Reports whether clients of the section speak plaintext, and servers TLS.
    pub(super) fn is_client(&self) -> bool {
        self.options.is_on("client")
    }

    /// Returns the table of the side that speaks TLS.
    pub(super) fn tls(&self) -> &'static str {
        if self.is_client() { "back.tls" } else { "front.tls" }
    }

    /// Returns the section that owns this section's address, as `sni = PRIMARY:NAME` names it.
    pub(super) fn primary<'s>(&self, sections: &'s [Self]) -> Option<&'s Self> {
        let sni = self.options.value("sni").filter(|_| !self.is_client())?;
        let (name, _) = sni.split_once(':')?;
        sections.iter().find(|one| one.name == name)
    }
}

/// OpenSSL's options that Lariat has in any case.
const AS_HERE: &str = "\
    ALL CIPHER_SERVER_PREFERENCE DONT_INSERT_EMPTY_FRAGMENTS NO_COMPRESSION \
    NO_RENEGOTIATION NO_SESSION_RESUMPTION_ON_RENEGOTIATION NO_SSLV2 NO_SSLV3 NO_TLSV1 \
    NO_TLSV1.1 NO_TLSV1_1 SINGLE_DH_USE SINGLE_ECDH_USE";

/// Writes the section's TLS options.
pub(super) fn write_policy(section: &StunnelSection, import: &mut Import) {
    let (options, side) = (&section.options, section.tls());
    let mut spoken = SpokenVersions::all();
    for (option, bound) in [
        ("sslVersion", VersionBound::Only),
        ("sslVersionMin", VersionBound::Least),
        ("sslVersionMax", VersionBound::Most),
    ] {
        match options.find(option) {
            Some(written) if written.value().eq_ignore_ascii_case("all") => {
                import.joined(written, &format!("service.{side}.versions"), OLDER);
            }
            Some(written) => spoken.bound(import, written, (bound, &written.value()), side),
            None => {}
        }
    }
    for written in options.all("options") {
        ssl_option(import, written, &mut spoken, side);
    }
    for written in options.all("config") {
        let value = written.value();
        let (command, value) = value.split_once(':').unwrap_or((&value, ""));
        let one = written.with([value.trim()]);
        if !spoken.bound_by_command(import, &one, command.trim(), side)
            && let Some(meaning) = meanings::find(Predecessor::Stunnel, "config")
        {
            import.apply(meaning, written);
        }
    }
    spoken.write(import, side);
    let curves = options.find("curves");
    import.apply_key(&format!("service.{side}.groups"), Conversion::Groups, "", curves);
    let [tls12, tls13] = ["ciphers", "ciphersuites"].map(|name| options.find(name).cloned());
    WrittenSuites { tls12, tls13 }.write(import, side);
}

/// Applies one of OpenSSL's options (SSL_CTX_set_options(3ssl)).
fn ssl_option(import: &mut Import, written: &Statement, spoken: &mut SpokenVersions, side: &str) {
    let value = written.value().to_ascii_uppercase();
    let name = value.trim_start_matches("SSL_OP_");
    let off = match name {
        "NO_TLSV1.2" | "NO_TLSV1_2" => Some("tlsv1.2"),
        "NO_TLSV1.3" | "NO_TLSV1_3" => Some("tlsv1.3"),
        _ => None,
    };
    match off {
        Some(version) => spoken.bound(import, written, (VersionBound::Not, version), side),
        _ if name == "NO_TICKET" => {
            let remedy = "`resumption.tickets.count = 0`, for TLS 1.3";
            import.lacks(written, "tickets are given by all services", remedy);
        }
        _ if is_among(AS_HERE, name) => import.mapped(written, "in any case"),
        _ => {
            let remedy = "none is needed, or see the keys of `front.tls`";
            import.lacks(written, "options of OpenSSL are not set", remedy);
        }
    }
}

/// How the certificate of the other side is verified.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verification {
    None,
    /// A client may have no certificate.
    Optional,
    Chain,
    /// The certificate itself must be in `CAfile`.
    Peer,
}

/// Directories of the authorities that the host trusts.
const HOST_AUTHORITIES: &[&str] =
    &["/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted/pem"];

/// Options that count only where a certificate is verified.
const OF_VERIFICATION: &[&str] =
    &["CAfile", "CApath", "CRLfile", "checkEmail", "checkHost", "checkIP", "requireCert"];

/// Writes the verification of the other side. Returns whether Lariat refuses everyone whom stunnel
/// refuses; otherwise there is no service.
pub(super) fn write_verification(section: &StunnelSection, import: &mut Importer<'_>) -> bool {
    let verification = verification(section);
    import.look_for(section.options.each(&["CAfile", "CRLfile"]));
    let ca = section.options.value("CAfile").filter(|_| verification == Verification::Peer);
    let is_mixed = ca.is_some_and(|path| {
        let text = import.files.read(Path::new(&path)).unwrap_or_default();
        // Reading a file counts as this many options, because it takes as much time.
        let is_read = import.take_options(text.len() >> 10, &section.place);
        is_read && certificates::are_mixed(&text)
    });
    let mut is_whole = if section.is_client() {
        server(section, import, verification)
    } else {
        clients(section, import, verification)
    };
    if verification == Verification::None {
        for written in section.options.each(OF_VERIFICATION) {
            if written.option == "requireCert" && section.options.is_on("requireCert") {
                let why = "a certificate that nobody verifies is not asked for";
                import.lacks(written, why, "verifyChain, and `ca`");
                is_whole &= section.is_client();
            } else if !(section.is_client() && ["checkHost", "checkIP"].contains(&&*written.option))
            {
                import.mapped(written, "without effect: nothing is verified");
            }
        }
    }
    if let Some(written) = section.options.find("CAfile").filter(|_| is_mixed) {
        let why = "with authorities in it, all that they issued is trusted, and not some alone";
        import.lacks(written, why, "take the authorities out, if no certificate needs them");
        is_whole = false;
    }
    is_whole
}

fn verification(section: &StunnelSection) -> Verification {
    let level = section.options.find("verify").map(Statement::value);
    match level.as_deref() {
        _ if section.options.is_on("verifyPeer") => Verification::Peer,
        _ if section.options.is_on("verifyChain") => Verification::Chain,
        Some("1") => Verification::Optional,
        Some("2") => Verification::Chain,
        Some("3" | "4") => Verification::Peer,
        _ => Verification::None,
    }
}

/// Reports the options that set the degree of verification.
fn report(section: &StunnelSection, import: &mut Import, key: &str, difference: &str) {
    for option in ["verify", "verifyChain", "verifyPeer"] {
        match section.options.find(option) {
            Some(written) if written.value() == "no" => import.mapped(written, "`no`, as here"),
            Some(written) => import.joined(written, key, difference),
            None => {}
        }
    }
}

/// Writes the verification of clients' certificates, of a service of TLS.
fn clients(section: &StunnelSection, import: &mut Import, verification: Verification) -> bool {
    const TABLE: &str = "service.front.tls.client-certificates";
    let key = |name: &str| format!("{TABLE}.{name}");
    let mode = match verification {
        Verification::None => {
            report(section, import, &key("mode"), NOT_ASKED);
            return true;
        }
        Verification::Optional => "optional",
        Verification::Chain | Verification::Peer => "required",
    };
    let Some(ca) = section.options.find("CAfile") else {
        let why = "clients are verified by CAfile alone here, which is not written";
        let remedy = "join the files of CApath into one, and name that by CAfile";
        let options = ["CApath", "verify", "verifyChain", "verifyPeer"];
        import.lacks(section.options.each(&options), why, remedy);
        return false;
    };
    let origin = ca.place.clone();
    import.service.set("front.tls.client-certificates.mode", mode, origin);
    import.apply_key(&key("ca"), Conversion::Paths, "", ca);
    let difference = if verification == Verification::Peer { PEER_OF_AUTHORITY } else { "" };
    report(section, import, &key("mode"), difference);
    import.joined(section.options.find("requireCert"), &key("mode"), "");
    import.apply_key(&key("crl"), Conversion::Paths, "", section.options.find("CRLfile"));
    let remedy = "join its files into one, and name that in `ca`";
    import.lacks(section.options.find("CApath"), "directories of hashes are not read", remedy);
    for (option, name) in [("checkHost", "allow.dns"), ("checkEmail", "allow.email")] {
        for written in section.options.all(option) {
            import.add(&key(name), written.value(), written, "");
        }
    }
    for written in section.options.all("checkIP") {
        let remedy = "`allow.fingerprint`, or another name in `allow`";
        import.lacks(written, "IP addresses of clients are not compared", remedy);
    }
    // `CApath` would let in more clients, not fewer.
    section.options.find("checkIP").is_none()
}

const NOT_ASKED: &str = "clients are asked for no certificate";

const PEER_OF_AUTHORITY: &str =
    "certificates in CAfile count themselves, and one of an authority also what it issued";

/// Writes the verification of the server's certificate, of a service of plaintext.
fn server(section: &StunnelSection, import: &mut Import, verification: Verification) -> bool {
    let origin = section.options.find("client").map(|one| one.place.clone());
    write_name(section, import, verification);
    if verification == Verification::None {
        import.service.set("back.tls.verify", "off", origin);
        import.remark("back.tls.verify", UNVERIFIED);
        report(section, import, "service.back.tls.verify", "off: servers are not verified");
        return true;
    }
    let difference = match verification {
        Verification::Peer => {
            "the name must fit too; for a certificate of another name: verify = \"off\" and `pins`"
        }
        _ if ["checkHost", "checkIP"].iter().any(|one| section.options.find(one).is_some()) => "",
        _ => "the name must fit too, that of the server's address, or `back.tls.name`",
    };
    report(section, import, "service.back.tls.verify", difference);
    import.apply_key("service.back.tls.ca", Conversion::Paths, "", section.options.find("CAfile"));
    let mut is_whole = true;
    if let Some(written) = section.options.find("CApath") {
        let directory = written.value();
        let is_of_host = HOST_AUTHORITIES.contains(&directory.trim_end_matches('/'));
        // The path is relative to chroot's directory, which may hold other authorities.
        if is_of_host && section.options.find("chroot").is_none() {
            let words = "the authorities that this host trusts, which is the default of `ca`";
            import.mapped(written, words);
        } else {
            let why = "directories of hashed certificates are not read";
            import.lacks(written, why, "join its files into one, and name that in `back.tls.ca`");
            // Without `CAfile`, this host's authorities would be trusted instead.
            is_whole = section.options.find("CAfile").is_some();
        }
    } else if section.options.find("CAfile").is_none() {
        let why = "no authority is named, and this host's would be trusted";
        let options = section.options.each(&["verify", "verifyChain", "verifyPeer"]);
        import.lacks(options, why, "name their file by CAfile");
        is_whole = false;
    }
    let written = section.options.find("CRLfile");
    import.apply_key("service.back.tls.crl", Conversion::Paths, "", written);
    import.mapped(section.options.find("requireCert"), "servers always have one");
    for written in section.options.all("checkEmail") {
        import.lacks(written, "mail addresses of servers are not compared", "`back.tls.pins`");
        is_whole = false;
    }
    is_whole
}

const UNVERIFIED: &str =
    "stunnel was not told to verify servers. Take this out, and name the authorities in `ca`.";

/// Writes the name sent as SNI and compared: the first of `checkHost`, `checkIP` and `sni`.
fn write_name(section: &StunnelSection, import: &mut Import, verification: Verification) {
    let checks = verification != Verification::None;
    let checked = section.options.all("checkHost").chain(section.options.all("checkIP"));
    let names: Vec<_> = checked.chain(section.options.all("sni")).collect();
    let key = "service.back.tls.name";
    let mut chosen: Option<String> = None;
    for written in names {
        let value = written.value();
        match &chosen {
            _ if value.is_empty() => {
                import.lacks(written, "a server name is sent in any case", "none is needed");
            }
            _ if !checks && written.option != "sni" => {
                import.mapped(written, "without effect: nothing is verified");
            }
            None => {
                import.put(key, value.as_str(), written, "it is sent and compared");
                chosen = Some(value);
            }
            Some(name) if *name == value => import.joined(written, key, ""),
            Some(name) => {
                let why = format!("one name is sent and compared: `{name}`");
                import.lacks(written, &why, "a service for each server");
            }
        }
    }
}
