//! Verification of the other side of TLS, in a section of stunnel's file.

use std::path::Path;

use crate::certificates;
use crate::draft::DraftTable;
use crate::import::{Import, Importer};
use crate::meaning::Conversion;
use crate::source::Statement;
use crate::stunnel::section::StunnelSection;

/// How the certificate of the other side is verified.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verification {
    None,
    /// A client may have none.
    Optional,
    Chain,
    /// The certificate itself must be in `CAfile`.
    Peer,
}

/// Directories that hold the authorities which the host trusts.
const HOST_AUTHORITIES: &[&str] =
    &["/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted/pem"];

/// Options that count only where something is verified.
const OF_VERIFICATION: &[&str] =
    &["CAfile", "CApath", "CRLfile", "checkEmail", "checkHost", "checkIP", "requireCert"];

/// Writes what the section says of the other side. Returns whether everyone is refused whom stunnel
/// refuses, without which there is no service.
pub(super) fn write(
    section: &StunnelSection,
    import: &mut Importer<'_>,
    service: &mut DraftTable,
) -> bool {
    let verification = verification(section);
    for option in ["CAfile", "CRLfile"] {
        if let Some(written) = section.options.find(option) {
            import.look_for(&written.value(), written);
        }
    }
    let ca = section.options.value("CAfile").filter(|_| verification == Verification::Peer);
    let is_mixed = ca.is_some_and(|path| {
        let text = import.files.read(Path::new(&path)).unwrap_or_default();
        // As much work as so many options.
        let is_read = import.take_options(text.len() >> 10, &section.place);
        is_read && certificates::are_mixed(&text)
    });
    let mut is_whole = if section.is_client() {
        server(section, import, service, verification)
    } else {
        clients(section, import, service, verification)
    };
    if verification == Verification::None {
        for written in OF_VERIFICATION.iter().filter_map(|option| section.options.find(option)) {
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

/// The options that say how much is verified, for the report.
fn report(section: &StunnelSection, import: &mut Import, key: &str, difference: &str) {
    for option in ["verify", "verifyChain", "verifyPeer"] {
        match section.options.find(option) {
            Some(written) if written.value() == "no" => import.mapped(written, "`no`, as here"),
            Some(written) => import.joined(written, key, difference),
            None => {}
        }
    }
}

/// Clients' certificates, of a service of TLS.
fn clients(
    section: &StunnelSection,
    import: &mut Import,
    service: &mut DraftTable,
    verification: Verification,
) -> bool {
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
        for option in ["CApath", "verify", "verifyChain", "verifyPeer"] {
            if let Some(written) = section.options.find(option) {
                import.lacks(written, why, remedy);
            }
        }
        return false;
    };
    let origin = ca.place.clone();
    service.set("front.tls.client-certificates.mode", mode, origin);
    import.apply_key(&key("ca"), Conversion::Paths, "", ca, service);
    let difference = if verification == Verification::Peer { PEER_OF_AUTHORITY } else { "" };
    report(section, import, &key("mode"), difference);
    if let Some(written) = section.options.find("requireCert") {
        import.joined(written, &key("mode"), "");
    }
    if let Some(written) = section.options.find("CRLfile") {
        import.apply_key(&key("crl"), Conversion::Paths, "", written, service);
    }
    if let Some(written) = section.options.find("CApath") {
        let remedy = "join its files into one, and name that in `ca`";
        import.lacks(written, "directories of hashes are not read", remedy);
    }
    for (option, name) in [("checkHost", "allow.dns"), ("checkEmail", "allow.email")] {
        for written in section.options.all(option) {
            import.add(service, &key(name), written.value(), written, "");
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

/// The server's certificate, of a service of plaintext.
fn server(
    section: &StunnelSection,
    import: &mut Import,
    service: &mut DraftTable,
    verification: Verification,
) -> bool {
    let origin = section.options.find("client").map(|one| one.place.clone());
    write_name(section, import, service, verification);
    if verification == Verification::None {
        service.set("back.tls.verify", "off", origin);
        service.remark("back.tls.verify", UNVERIFIED);
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
    if let Some(written) = section.options.find("CAfile") {
        import.apply_key("service.back.tls.ca", Conversion::Paths, "", written, service);
    }
    let mut is_whole = true;
    if let Some(written) = section.options.find("CApath") {
        let directory = written.value();
        let is_of_host = HOST_AUTHORITIES.contains(&directory.trim_end_matches('/'));
        // It begins at the directory of chroot, and another one may be there.
        if is_of_host && section.options.find("chroot").is_none() {
            let words = "the authorities that this host trusts, which is the default of `ca`";
            import.mapped(written, words);
        } else {
            let why = "directories of hashed certificates are not read";
            let remedy = "join its files into one, and name that in `back.tls.ca`";
            import.lacks(written, why, remedy);
            // This host's authorities would be trusted in their place.
            is_whole = section.options.find("CAfile").is_some();
        }
    } else if section.options.find("CAfile").is_none() {
        for option in ["verify", "verifyChain", "verifyPeer"] {
            if let Some(written) = section.options.find(option) {
                let why = "no authority is named, and this host's would be trusted";
                import.lacks(written, why, "name their file by CAfile");
            }
        }
        is_whole = false;
    }
    if let Some(written) = section.options.find("CRLfile") {
        import.apply_key("service.back.tls.crl", Conversion::Paths, "", written, service);
    }
    if let Some(written) = section.options.find("requireCert") {
        import.mapped(written, "servers always have one");
    }
    for written in section.options.all("checkEmail") {
        let remedy = "`back.tls.pins`";
        import.lacks(written, "mail addresses of servers are not compared", remedy);
        is_whole = false;
    }
    is_whole
}

const UNVERIFIED: &str =
    "stunnel was not told to verify servers. Take this out, and name the authorities in `ca`.";

/// The one name that is sent as SNI and compared: the first of `checkHost`, `checkIP` and `sni`.
fn write_name(
    section: &StunnelSection,
    import: &mut Import,
    service: &mut DraftTable,
    verification: Verification,
) {
    let checks = verification != Verification::None;
    let checked = section.options.all("checkHost").chain(section.options.all("checkIP"));
    let names: Vec<_> = checked.chain(section.options.all("sni")).collect();
    let key = "service.back.tls.name";
    let mut chosen: Option<String> = None;
    for written in names {
        let value = written.value();
        match &chosen {
            _ if value.is_empty() => {
                let why = "a server name is sent in any case";
                import.lacks(written, why, "none is needed");
            }
            _ if !checks && written.option != "sni" => {
                import.mapped(written, "without effect: nothing is verified");
            }
            None => {
                import.put(service, key, value.as_str(), written, "it is sent and compared");
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
