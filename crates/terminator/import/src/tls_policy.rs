//! Versions and suites together: every enabled version needs a suite. OpenSSL's lists of cipher
//! suites (ciphers(1)) become suites by their standard names.

use crate::convert::{array, is_among};
use crate::draft::DraftKey;
use crate::import::Import;
use crate::source::{SourceLine, Statement};

/// OpenSSL's lists of suites as written; one option may be both lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenSuites {
    pub(crate) tls12: Option<Statement>,
    pub(crate) tls13: Option<Statement>,
}

/// Note that the order of suites is always the server's.
pub(crate) const ORDER: &str =
    "the order of suites is Lariat's own; by `auto` it is what costs this CPU least";

/// All suites of TLS 1.2, used when only those of TLS 1.3 are listed.
const EVERY_TLS12: &str = "ALL";

impl WrittenSuites {
    /// Writes `suites` into a table such as `front.tls`, after its `versions`, and reports.
    pub(crate) fn write(&self, import: &mut Import, table: &str) {
        let Some(first) = self.tls12.as_ref().or(self.tls13.as_ref()) else { return };
        let key = format!("service.{table}.suites");
        let versions = format!("{table}.versions");
        let written = import.service.find(&versions);
        let spoken = written.map(|key| key.values.iter().map(|one| one.value.to_string()));
        let spoken: Option<String> = spoken.map(Iterator::collect);
        let speaks = |version: &str| spoken.as_ref().is_none_or(|all| all.contains(version));
        let tls12 = self.tls12.as_ref().map_or_else(|| EVERY_TLS12.to_owned(), Statement::value);
        let tls12 = of_tls12(&tls12);
        let tls13 = self.tls13.as_ref().map_or_else(|| TLS13.join(":"), Statement::value);
        let tls13 = of_tls13(&tls13);
        let sides = [("1.2", &self.tls12, &tls12), ("1.3", &self.tls13, &tls13)];
        let chosen = sides.iter().filter(|(version, ..)| speaks(version));
        let chosen: Vec<_> = chosen.filter(|(.., chosen)| !chosen.suites.is_empty()).collect();
        if chosen.is_empty() {
            let why = "none of these suites is supported";
            let remedy = "leave it out: the suites that Lariat has are all secure";
            return import.lacks(self.tls12.iter().chain(&self.tls13), why, remedy);
        }
        let suites: Vec<_> = chosen.iter().rev().flat_map(|(.., it)| it.suites.clone()).collect();
        let kept: Vec<_> = chosen.iter().map(|(version, ..)| *version).collect();
        for (version, written, chosen) in &sides {
            let is_lost = speaks(version) && !kept.contains(version);
            import.joined(written.iter(), &key, &difference(version, chosen, is_lost));
        }
        if sides.iter().any(|(version, ..)| speaks(version) && !kept.contains(version)) {
            import.service.set(&versions, array(kept), first.place.clone());
        }
        import.service.set(&format!("{table}.suites"), array(suites), first.place.clone());
    }
}

fn difference(version: &str, chosen: &ChosenSuites, is_lost: bool) -> String {
    let mut words = Vec::new();
    if !chosen.unsupported.is_empty() {
        let names = chosen.unsupported.join(", ");
        words.push(format!("without {names}: Lariat has suites with ECDHE and AEAD alone"));
    }
    if is_lost {
        words.push(format!("so that TLS {version} is off, for which no suite is left"));
    }
    words.join("; ")
}

/// Versions within the bounds, by their indices in `VERSIONS`.
pub(crate) struct SpokenVersions {
    left: Vec<usize>,
    origin: Option<SourceLine>,
}

/// How an option bounds the versions.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum VersionBound {
    Least,
    Most,
    Only,
    Not,
}

/// Names of versions, from the oldest; Lariat speaks the last two.
const VERSIONS: [&str; 6] = ["sslv2", "sslv3", "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3"];

/// Versions that Lariat speaks, and the index of the first of them in `VERSIONS`.
const OURS: [&str; 2] = ["1.2", "1.3"];
const FIRST_OURS: usize = VERSIONS.len() - OURS.len();

/// Reason why older versions are not spoken.
pub(crate) const OLDER: &str = "nothing older than TLS 1.2 is spoken (RFC 8996)";

impl SpokenVersions {
    pub(crate) fn all() -> Self {
        Self { left: (0..VERSIONS.len()).collect(), origin: None }
    }

    /// Bounds the versions by one option, and reports it.
    pub(crate) fn bound(
        &mut self,
        import: &mut Import,
        written: &Statement,
        (bound, version): (VersionBound, &str),
        side: &str,
    ) {
        let name = version.to_ascii_lowercase();
        let name = if name == "tlsv1" { "tlsv1.0" } else { &name };
        let Some(at) = VERSIONS.iter().position(|one| *one == name) else {
            let why = format!("`{version}` is no version of TLS");
            return import.fault(&written.place, &written.option, why, "write TLSv1.2 or TLSv1.3");
        };
        let fits = |place: &usize| match bound {
            VersionBound::Least => *place >= at,
            VersionBound::Most => *place <= at,
            VersionBound::Only => *place == at,
            VersionBound::Not => *place != at,
        };
        let left: Vec<_> = self.left.iter().copied().filter(fits).collect();
        if left.last().is_none_or(|last| *last < FIRST_OURS) {
            let remedy = "renew the other side; TLS 1.2 and 1.3 are enabled now";
            return import.lacks(written, OLDER, remedy);
        }
        self.left = left;
        self.origin = Some(written.place.clone());
        let is_older = at < FIRST_OURS && bound != VersionBound::Not;
        let difference = if is_older { OLDER } else { "" };
        import.joined(written, &format!("service.{side}.versions"), difference);
    }

    /// Bounds the versions by a command of OpenSSL (SSL_CONF_cmd(3ssl)), whose words are the
    /// statement's. Returns whether the command is about versions.
    pub(crate) fn bound_by_command(
        &mut self,
        import: &mut Import,
        written: &Statement,
        command: &str,
        side: &str,
    ) -> bool {
        let bound = match command.to_ascii_lowercase().as_str() {
            "minprotocol" => VersionBound::Least,
            "maxprotocol" => VersionBound::Most,
            _ => return false,
        };
        match written.value() {
            value if value.eq_ignore_ascii_case("none") => import.mapped(written, "no bound"),
            value => self.bound(import, written, (bound, &value), side),
        }
        true
    }

    /// Writes the remaining versions, unless all that Lariat has remain. Removes the others from
    /// versions already written.
    pub(crate) fn write(self, import: &mut Import, side: &str) {
        let ours = self.left.iter().filter_map(|place| OURS.get(place.checked_sub(FIRST_OURS)?));
        let written = import.service.find(&format!("{side}.versions"));
        let text = |key: &DraftKey| key.values.iter().map(|one| one.value.to_string()).collect();
        let written: Option<String> = written.map(text);
        let is_written = |one: &&&str| written.as_ref().is_none_or(|list| list.contains(**one));
        let ours: Vec<_> = ours.filter(is_written).copied().collect();
        if let Some(origin) = self.origin.filter(|_| ours.len() < OURS.len()) {
            import.service.set(&format!("{side}.versions"), array(ours), origin);
        }
    }
}

/// Reports whether a command of OpenSSL is about verifying the other side, or about the versions in
/// a form that is not read.
pub(crate) fn is_of_verification(command: &str) -> bool {
    let lower = command.to_ascii_lowercase();
    ["verify", "clientca", "requestca", "protocol"].iter().any(|begin| lower.starts_with(begin))
}

/// Suites of TLS 1.2 in Lariat, in OpenSSL's order: OpenSSL's name, the standard name, and the
/// words of ciphers(1) that include the suite, beside those that include all of them.
const TLS12: [&str; 6] = [
    "ECDHE-ECDSA-AES256-GCM-SHA384 TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 aECDSA ECDSA AESGCM AES256 AES SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384 TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 aRSA AESGCM AES256 AES SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 aECDSA ECDSA CHACHA20",
    "ECDHE-RSA-CHACHA20-POLY1305 TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 aRSA CHACHA20",
    "ECDHE-ECDSA-AES128-GCM-SHA256 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 aECDSA ECDSA AESGCM AES128 AES SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256 TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 aRSA AESGCM AES128 AES SHA256",
];

/// Words that include all suites of `TLS12`.
const OF_ALL: &str = "\
    ALL DEFAULT HIGH ECDHE EECDH kECDHE kEECDH ECDH TLSv1.2 AEAD SUITEB128 \
    SUITEB192 PROFILE=SYSTEM FIPS";

/// Suites of TLS 1.3 in Lariat, in OpenSSL's order.
const TLS13: &[&str] =
    &["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];

/// Suites of one version, the preferred one first, and the words that match no suite of Lariat.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct ChosenSuites {
    pub(crate) suites: Vec<&'static str>,
    pub(crate) unsupported: Vec<String>,
}

/// Returns the suites of TLS 1.2 that an OpenSSL list selects.
fn of_tls12(list: &str) -> ChosenSuites {
    let mut chosen = ChosenSuites::default();
    let (mut enabled, mut killed): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        if word.starts_with('@') {
            continue;
        }
        let (sign, names) = match word.split_at_checked(1) {
            Some((sign @ ("!" | "-" | "+"), names)) => (sign, names),
            _ => ("", word),
        };
        let is_one = |suite: &str, name| is_among(suite, name) || is_among(OF_ALL, name);
        let among = |suite: &&str| names.split('+').all(|name| is_one(suite, name));
        let named: Vec<_> = TLS12.into_iter().filter(among).collect();
        match sign {
            "" if named.is_empty() => chosen.unsupported.push(word.to_owned()),
            "" => {
                let is_new = |suite: &&str| !enabled.contains(suite) && !killed.contains(suite);
                let new: Vec<_> = named.into_iter().filter(is_new).collect();
                enabled.extend(new);
            }
            "+" => enabled.sort_by_key(|suite| named.contains(suite)),
            sign => {
                enabled.retain(|suite| !named.contains(suite));
                if sign == "!" {
                    killed.extend(named);
                }
            }
        }
    }
    chosen.suites = enabled.into_iter().filter_map(|suite| suite.split(' ').nth(1)).collect();
    chosen
}

/// Returns the suites of TLS 1.3 in a list of standard names separated by colons.
fn of_tls13(list: &str) -> ChosenSuites {
    let mut chosen = ChosenSuites::default();
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        match TLS13.iter().find(|name| **name == word) {
            Some(name) => chosen.suites.push(name),
            None => chosen.unsupported.push(word.to_owned()),
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use options::Table;

    use super::*;
    use crate::meanings::Predecessor;
    use crate::source::SourceLine;

    static NO_KEYS: Table = Table { keys: &[], foreign: || &[], later: &[], help: "" };

    fn written(tls12: &str, versions: &[&str]) -> Import {
        let mut import = Import::new(Predecessor::Hitch, &[], &NO_KEYS);
        if !versions.is_empty() {
            import.service.set("front.tls.versions", array(versions.iter().copied()), None);
        }
        let place = SourceLine::first_of(Path::new("hitch.conf"));
        let words = vec![tls12.to_owned()];
        let statement = Statement { place, option: "ciphers".to_owned(), words };
        let suites = WrittenSuites { tls12: Some(statement), tls13: None };
        suites.write(&mut import, "front.tls");
        import
    }

    fn value(import: &Import, path: &str) -> String {
        import.service.find(path).map_or_else(String::new, |key| key.values[0].value.to_string())
    }

    #[test]
    fn each_version_has_suites() {
        let import = written("ECDHE-RSA-AES128-GCM-SHA256", &[]);
        let suites = value(&import, "front.tls.suites");
        assert!(
            suites.contains("TLS_AES_256_GCM_SHA384") && suites.contains("ECDHE_RSA_WITH_AES_128")
        );
        let import = written("AES128-SHA", &[]);
        assert_eq!(value(&import, "front.tls.versions"), "[\"1.3\"]");
        assert!(import.report().contains("TLS 1.2 is off"), "{}", import.report());
        let import = written("AES128-SHA", &["1.2"]);
        assert!(import.is_partial() && !import.service.has("front.tls.suites"));
        let import = written("HIGH", &["1.2"]);
        assert!(!value(&import, "front.tls.suites").contains("TLS_AES"));
    }

    #[test]
    fn lists_of_openssl() {
        let aes =
            ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"];
        let hitch = of_tls12("EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH");
        assert_eq!(hitch.suites[..2], aes);
        assert_eq!((hitch.suites.len(), hitch.unsupported.len()), (4, 2));
        assert_eq!(of_tls12("HIGH:!aNULL:!MD5").suites.len(), 6);
        assert_eq!(of_tls12("HIGH:!CHACHA20:-AES128:!ECDSA").suites, aes[1..]);
        assert_eq!(
            of_tls12("AES128+aRSA:ALL:+AES128").suites.last(),
            Some(&"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")
        );
        assert_eq!(of_tls12("!AES:AES").suites, Vec::<&str>::new());
        assert_eq!(of_tls12("AES128-SHA").unsupported, ["AES128-SHA"]);
        assert_eq!(of_tls12("HIGH:@SECLEVEL=1").suites.len(), 6);
    }

    #[test]
    fn suites_of_tls_1_3() {
        let chosen = of_tls13("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256");
        assert_eq!(chosen.suites, ["TLS_AES_128_GCM_SHA256"]);
        assert_eq!(chosen.unsupported, ["TLS_AES_128_CCM_SHA256"]);
    }
}
