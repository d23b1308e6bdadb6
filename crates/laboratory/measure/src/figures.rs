//! Figures in files that others may have edited: none is negative, and none so large or so small
//! that what is reckoned from it would be nonsense.
//!
//! Whether figures agree with each other is judged where they are used.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// No figure is larger: in nanoseconds a hundred days, in bytes eight PiB. Some thousand of them
/// have a sum of 64 bits, and JSON keeps all their digits.
const LARGEST: u64 = 1 << 53;

/// None but zero is smaller: shares that are differences have such errors of rounding.
const SMALLEST: f64 = 1e-30;

/// Decides the order of a run, and may be any number.
const SEED: &str = "seed";

/// Refuses a JSON document with a figure that cannot have been measured.
///
/// # Errors
/// The first such figure, with its line and column; or the text is no JSON.
pub fn check(text: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice::<PlausibleFigures>(text).map(drop)
}

/// Any JSON value whose figures are plausible.
struct PlausibleFigures;

impl<'de> Deserialize<'de> for PlausibleFigures {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for PlausibleFigures {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("figures that can be measured")
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self, E> {
        if value <= LARGEST { Ok(self) } else { Err(implausible(&value)) }
    }

    /// The reader calls it for negative ones alone.
    fn visit_i64<E: Error>(self, value: i64) -> Result<Self, E> {
        if value >= 0 { Ok(self) } else { Err(implausible(&value)) }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self, E> {
        let is_plausible = value == 0.0 || (SMALLEST..=LARGEST as f64).contains(&value);
        if is_plausible { Ok(self) } else { Err(implausible(&format_args!("{value:e}"))) }
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        while let Some(Self) = all.next_element()? {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self, A::Error> {
        while let Some(name) = all.next_key::<String>()? {
            if name == SEED {
                all.next_value::<IgnoredAny>()?;
            } else {
                all.next_value::<Self>()?;
            }
        }
        Ok(self)
    }
}

fn implausible<E: Error>(value: &dyn fmt::Display) -> E {
    E::custom(format_args!("the figure {value} cannot have been measured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused_where_it_stands() {
        for good in ["0", "1.5", "[[1,2],[]]", r#"{"seed":18446744073709551615,"a":null}"#, "1e-17"]
        {
            assert!(check(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["-1", "-0.5", "1e308", "5e-324", "18446744073709551615", "9007199254740993"] {
            let text = format!("{{\"a\": true,\n \"b\": [\"x\", {{\"c\": {bad}}}]}}");
            let error = check(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("cannot have been measured at line 2"), "{bad}: {error}");
        }
        assert!(check(b"1e400").is_err() && check(b"{").is_err());
    }
}
