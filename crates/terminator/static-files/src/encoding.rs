//! The content codings that a client takes (RFC 9110 sections 8.4.1 and 12.5.3, RFC 7932), among
//! those that files can lie in beside the original. Compresses nothing.

/// A coding of a file that lies beside the original.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Coding {
    Brotli,
    Gzip,
}

impl Coding {
    /// In our order: brotli is the smaller one.
    pub(crate) const ALL: [Self; 2] = [Self::Brotli, Self::Gzip];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// The end of its files' names.
    pub(crate) const fn suffix(self) -> &'static str {
        match self {
            Self::Brotli => ".br",
            Self::Gzip => ".gz",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes())
            // RFC 9110 section 8.4.1.3.
            || (self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip"))
    }
}

/// The weights of a field, in thousandths; nothing for what it does not name.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    codings: [Option<u16>; Coding::ALL.len()],
    identity: Option<u16>,
    others: Option<u16>,
}

/// The codings that the client likes at least as well as the original, best first.
pub(crate) fn preferred(accept_encoding: &[u8]) -> [Option<Coding>; Coding::ALL.len()] {
    let mut weights = Weights::default();
    for element in accept_encoding.split(|byte| *byte == b',') {
        weights.take(element);
    }
    let others = weights.others.unwrap_or(0);
    let [brotli, gzip] = weights.codings.map(|weight| weight.unwrap_or(others));
    let least = weights.identity.unwrap_or(others).max(1);
    let brotli_if = (brotli >= least).then_some(Coding::Brotli);
    let gzip_if = (gzip >= least).then_some(Coding::Gzip);
    if gzip > brotli { [gzip_if, brotli_if] } else { [brotli_if, gzip_if] }
}

impl Weights {
    /// Takes one element; what is malformed is not taken.
    fn take(&mut self, element: &[u8]) {
        let mut pieces = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let name = pieces.next().unwrap_or_default();
        let weight = match pieces.next() {
            Some(text) => weight(text),
            None => Some(1000),
        };
        if weight.is_none() || pieces.next().is_some() {
            return;
        }
        if name == b"*" {
            self.others = weight;
        } else if name.eq_ignore_ascii_case(b"identity") {
            self.identity = weight;
        }
        for (coding, slot) in Coding::ALL.iter().zip(&mut self.codings) {
            if coding.is_named(name) {
                *slot = weight;
            }
        }
    }
}

/// `q=` and a number from 0 to 1 with up to three decimals (RFC 9110 section 12.4.2).
fn weight(text: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', value @ ..] = text else {
        return None;
    };
    let (whole, decimals) = match value {
        [whole @ (b'0' | b'1')] | [whole @ (b'0' | b'1'), b'.'] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let places = decimals.iter().zip([100, 10, 1]);
    let fraction: u16 = places.map(|(digit, place)| u16::from(digit - b'0') * place).sum();
    let weight = u16::from(whole - b'0') * 1000 + fraction;
    (weight <= 1000).then_some(weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coding::{Brotli, Gzip};

    #[test]
    fn the_client_chooses() {
        let both = [Some(Brotli), Some(Gzip)];
        let cases = [
            ("", [None, None]),
            ("gzip, deflate, br, zstd", both),
            ("gzip", [None, Some(Gzip)]),
            ("x-gzip", [None, Some(Gzip)]),
            ("GZIP;Q=1.0", [None, Some(Gzip)]),
            ("br;q=0.5, gzip;q=0.8", [Some(Gzip), Some(Brotli)]),
            ("br;q=0, gzip", [Some(Gzip), None]),
            ("*", both),
            ("*;q=0.5", both),
            ("*, br;q=0", [Some(Gzip), None]),
            ("*;q=0, gzip;q=0.001", [Some(Gzip), None]),
            ("identity;q=1, *;q=0", [None, None]),
            ("identity, gzip;q=0.5", [None, None]),
            ("identity;q=0.5, gzip;q=0.5", [Some(Gzip), None]),
            ("identity;q=0, br", [Some(Brotli), None]),
            ("deflate, zstd", [None, None]),
            ("gzip;q=2", [None, None]),
            ("gzip;q=1.001", [None, None]),
            ("gzip;q=0.1234", [None, None]),
            ("gzip;q=-1", [None, None]),
            ("gzip;q=", [None, None]),
            ("gzip;level=9", [None, None]),
            ("gzip;q=1;x", [None, None]),
            (";;,,;q=1,br;q=0.", [None, None]),
        ];
        for (field, expected) in cases {
            let mut found = preferred(field.as_bytes());
            let mut expected = expected;
            if found.iter().flatten().count() < 2 {
                // Where one is missing its place does not matter.
                found.sort_unstable_by_key(|coding| coding.is_none());
                expected.sort_unstable_by_key(|coding| coding.is_none());
            }
            assert_eq!(found, expected, "{field}");
        }
    }
}
