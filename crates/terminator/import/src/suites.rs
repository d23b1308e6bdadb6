//! OpenSSL's lists of cipher suites (ciphers(1)) to suites by their standard names.

use crate::convert;

/// A suite of TLS 1.2 that Lariat has.
struct Tls12Suite {
    openssl: &'static str,
    standard: &'static str,
    /// The words of ciphers(1) that it is among, beside those that all of them are among.
    words: &'static str,
}

/// They stand in OpenSSL's order.
const TLS12: &[Tls12Suite] = &[
    Tls12Suite {
        openssl: "ECDHE-ECDSA-AES256-GCM-SHA384",
        standard: "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        words: "aECDSA ECDSA AESGCM AES256 AES SHA384",
    },
    Tls12Suite {
        openssl: "ECDHE-RSA-AES256-GCM-SHA384",
        standard: "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        words: "aRSA AESGCM AES256 AES SHA384",
    },
    Tls12Suite {
        openssl: "ECDHE-ECDSA-CHACHA20-POLY1305",
        standard: "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        words: "aECDSA ECDSA CHACHA20",
    },
    Tls12Suite {
        openssl: "ECDHE-RSA-CHACHA20-POLY1305",
        standard: "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        words: "aRSA CHACHA20",
    },
    Tls12Suite {
        openssl: "ECDHE-ECDSA-AES128-GCM-SHA256",
        standard: "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        words: "aECDSA ECDSA AESGCM AES128 AES SHA256",
    },
    Tls12Suite {
        openssl: "ECDHE-RSA-AES128-GCM-SHA256",
        standard: "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        words: "aRSA AESGCM AES128 AES SHA256",
    },
];

/// Words that all suites of `TLS12` are among.
const OF_ALL: &str = "\
    ALL COMPLEMENTOFALL DEFAULT HIGH ECDHE EECDH kECDHE kEECDH ECDH TLSv1.2 AEAD SUITEB128 \
    SUITEB192 PROFILE=SYSTEM FIPS";

/// The suites of TLS 1.3 that Lariat has, in OpenSSL's order.
pub(crate) const TLS13: &[&str] =
    &["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"];

/// Suites of one version, the preferred one first, and the words that stand for none of ours.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ChosenSuites {
    pub(crate) suites: Vec<&'static str>,
    pub(crate) unsupported: Vec<String>,
}

/// The suites of TLS 1.2 that an OpenSSL list stands for.
pub(crate) fn of_tls12(list: &str) -> ChosenSuites {
    let mut chosen = ChosenSuites::default();
    let mut enabled: Vec<&Tls12Suite> = Vec::new();
    let mut killed: Vec<&str> = Vec::new();
    for word in list.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        if word.starts_with('@') {
            continue;
        }
        let (sign, names) = match word.split_at_checked(1) {
            Some((sign @ ("!" | "-" | "+"), names)) => (sign, names),
            _ => ("", word),
        };
        let among = |suite: &&Tls12Suite| names.split('+').all(|name| is_among(suite, name));
        let named: Vec<_> = TLS12.iter().filter(among).collect();
        let is_named = |suite: &&Tls12Suite| named.iter().any(|one| one.openssl == suite.openssl);
        match sign {
            "" if named.is_empty() => chosen.unsupported.push(word.to_owned()),
            "" => {
                let is_new = |suite: &&Tls12Suite| {
                    let enabled = enabled.iter().any(|one| one.openssl == suite.openssl);
                    !enabled && !killed.contains(&suite.openssl)
                };
                let new: Vec<_> = named.into_iter().filter(is_new).collect();
                enabled.extend(new);
            }
            "+" => enabled.sort_by_key(|suite| is_named(suite)),
            sign => {
                enabled.retain(|suite| !is_named(suite));
                if sign == "!" {
                    killed.extend(named.iter().map(|suite| suite.openssl));
                }
            }
        }
    }
    chosen.suites = enabled.into_iter().map(|suite| suite.standard).collect();
    chosen
}

fn is_among(suite: &Tls12Suite, name: &str) -> bool {
    suite.openssl == name
        || suite.standard == name
        || convert::is_among(suite.words, name)
        || convert::is_among(OF_ALL, name) && name != "COMPLEMENTOFALL"
}

/// The suites of TLS 1.3 in a list with colons between their standard names.
pub(crate) fn of_tls13(list: &str) -> ChosenSuites {
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
    use super::*;

    #[test]
    fn lists_of_openssl() {
        let aes =
            ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"];
        let hitch = of_tls12("EECDH+AESGCM:EDH+AESGCM:AES256+EECDH:AES256+EDH");
        assert_eq!(hitch.suites[..2], aes);
        assert_eq!((hitch.suites.len(), hitch.unsupported.len()), (4, 2));
        assert_eq!(of_tls12("HIGH:!aNULL:!MD5").suites.len(), 6);
        assert_eq!(of_tls12("HIGH:!CHACHA20:-AES128:!ECDSA").suites, aes[1..]);
        assert_eq!(of_tls12("AES128+aRSA:ALL:+AES128").suites.last(), Some(&TLS12[4].standard));
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
