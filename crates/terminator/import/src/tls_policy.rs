//! Versions and suites together: every enabled version needs a suite.

use crate::convert::{Unfit, array};
use crate::draft::DraftTable;
use crate::import::Import;
use crate::source::Statement;
use crate::suites::{ChosenSuites, TLS13, of_tls12, of_tls13};

/// OpenSSL's lists of suites as somebody wrote them; the same option may be both.
#[derive(Clone, Debug, Default)]
pub(crate) struct WrittenSuites {
    pub(crate) tls12: Option<Statement>,
    pub(crate) tls13: Option<Statement>,
}

/// The order of suites, which is always the server's.
pub(crate) const ORDER: &str =
    "the order of suites is Lariat's own; by `auto` it is what costs this CPU least";

/// All suites of TLS 1.2, for who lists only those of TLS 1.3.
const EVERY_TLS12: &str = "ALL";

impl WrittenSuites {
    /// Writes `suites` into a table such as `front.tls`, after its `versions`, and reports.
    pub(crate) fn write(&self, import: &mut Import, service: &mut DraftTable, table: &str) {
        let Some(first) = self.tls12.as_ref().or(self.tls13.as_ref()) else {
            return;
        };
        let key = format!("service.{table}.suites");
        let versions = format!("{table}.versions");
        let speaks = |service: &DraftTable, version: &str| {
            let written = service.find(&versions);
            let mut values = written.iter().flat_map(|key| &key.values);
            written.is_none() || values.any(|one| one.value.to_string().contains(version))
        };
        let tls12 = self.tls12.as_ref().map_or_else(|| EVERY_TLS12.to_owned(), Statement::value);
        let tls12 = of_tls12(&tls12);
        let tls13 = self.tls13.as_ref().map_or_else(|| TLS13.join(":"), Statement::value);
        let tls13 = of_tls13(&tls13);
        let sides = [("1.2", &self.tls12, &tls12), ("1.3", &self.tls13, &tls13)];
        let spoken = sides.iter().filter(|(version, ..)| speaks(service, version));
        let spoken: Vec<_> = spoken.filter(|(.., chosen)| !chosen.suites.is_empty()).collect();
        if spoken.is_empty() {
            let why = "none of these suites is supported";
            let remedy = "leave it out: the suites that Lariat has are all secure";
            for written in self.tls12.iter().chain(&self.tls13) {
                import.unmapped(written, Unfit::new(why, remedy));
            }
            return;
        }
        let suites: Vec<_> = spoken.iter().rev().flat_map(|(.., it)| it.suites.clone()).collect();
        let kept: Vec<_> = spoken.iter().map(|(version, ..)| *version).collect();
        for (version, written, chosen) in &sides {
            let is_lost = speaks(service, version) && !kept.contains(version);
            let Some(written) = written else {
                continue;
            };
            let difference = difference(version, chosen, is_lost);
            import.joined(written, &key, &difference);
        }
        if sides.iter().any(|(version, ..)| speaks(service, version) && !kept.contains(version)) {
            service.set(&versions, array(kept), first.place.clone());
        }
        service.set(&format!("{table}.suites"), array(suites), first.place.clone());
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::predecessor::Predecessor;
    use crate::source::SourceLine;

    fn written(tls12: &str, versions: &[&str]) -> (Import, DraftTable) {
        let mut import = Import::new(Predecessor::Hitch, &[]);
        let mut service = DraftTable::default();
        if !versions.is_empty() {
            service.set("front.tls.versions", array(versions.iter().copied()), None);
        }
        let place = SourceLine::first_of(Path::new("hitch.conf"));
        let words = vec![tls12.to_owned()];
        let statement = Statement { place, option: "ciphers".to_owned(), words };
        let suites = WrittenSuites { tls12: Some(statement), tls13: None };
        suites.write(&mut import, &mut service, "front.tls");
        (import, service)
    }

    fn value(service: &DraftTable, path: &str) -> String {
        service.find(path).map_or_else(String::new, |key| key.values[0].value.to_string())
    }

    #[test]
    fn each_version_has_suites() {
        let (_, service) = written("ECDHE-RSA-AES128-GCM-SHA256", &[]);
        let suites = value(&service, "front.tls.suites");
        assert!(
            suites.contains("TLS_AES_256_GCM_SHA384") && suites.contains("ECDHE_RSA_WITH_AES_128")
        );
        let (import, service) = written("AES128-SHA", &[]);
        assert_eq!(value(&service, "front.tls.versions"), "[\"1.3\"]");
        assert!(import.report().contains("TLS 1.2 is off"), "{}", import.report());
        let (import, service) = written("AES128-SHA", &["1.2"]);
        assert!(import.is_partial() && !service.has("front.tls.suites"));
        let (_, service) = written("HIGH", &["1.2"]);
        assert!(!value(&service, "front.tls.suites").contains("TLS_AES"));
    }
}
