//! The URI of a private key in a token (RFC 7512).
//!
//! Handles the grammar, and which attributes choose a key; attributes about the library or a slot's
//! hardware are refused, because they would be ignored.

/// Beginning of such a URI.
pub const SCHEME: &str = "pkcs11:";

/// A key and its token; attributes that are not given match anything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pkcs11Uri {
    pub token: Option<String>,
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub serial: Option<String>,
    pub slot_id: Option<u64>,
    /// Label of the key.
    pub object: Option<String>,
    pub id: Option<Vec<u8>>,
    /// Path of the library that accesses tokens.
    pub module_path: Option<String>,
    /// File that holds the PIN.
    pub pin_source: Option<String>,
}

/// Mistake in a URI. No value is quoted, because it may be a PIN.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Pkcs11UriFault {
    #[error("does not begin with `pkcs11:`")]
    Scheme,
    #[error("has no attribute `{0}`, as RFC 7512 names them")]
    Unknown(String),
    #[error("has an attribute `{0}`, by which no key is chosen here")]
    Unused(String),
    #[error("has the attribute `{0}` twice")]
    Twice(String),
    #[error("has an attribute without a value")]
    NoValue,
    #[error("has a character in `{0}` that must be written as % and two hexadecimal digits")]
    Character(String),
    #[error("has a % in `{0}` without two hexadecimal digits behind it")]
    Escape(String),
    #[error("has a `{0}` that is no UTF-8")]
    Text(String),
    #[error("has a `slot-id` that is no number")]
    SlotId,
    #[error("has a `type` other than `private`")]
    Type,
    #[error("holds the PIN itself, which logs and `ps` would show")]
    PinValue,
    #[error("has a `pin-source` that is no file")]
    PinSource,
    #[error("says neither `object` nor `id`")]
    NoKey,
}

/// Attributes of the RFC about a library or a slot's hardware.
const UNUSED: [&str; 5] = [
    "library-description",
    "library-manufacturer",
    "library-version",
    "slot-description",
    "slot-manufacturer",
];

impl Pkcs11Uri {
    /// Returns a name for the token that reveals no more than the URI: two URIs that name it by the
    /// same attributes have the same name.
    pub fn token_name(&self) -> String {
        let slot = self.slot_id.map(|id| id.to_string());
        let named = [
            ("token", &self.token),
            ("manufacturer", &self.manufacturer),
            ("model", &self.model),
            ("serial", &self.serial),
            ("slot-id", &slot),
            ("module-path", &self.module_path),
        ];
        let named = named.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let named: Vec<_> = named.map(|(name, value)| format!("{name}={value}")).collect();
        if named.is_empty() { "token".to_owned() } else { named.join(";") }
    }

    pub fn parse(text: &str) -> Result<Self, Pkcs11UriFault> {
        // Schemes are case-insensitive (RFC 3986 section 3.1).
        let (scheme, rest) = text.split_at_checked(SCHEME.len()).ok_or(Pkcs11UriFault::Scheme)?;
        if !scheme.eq_ignore_ascii_case(SCHEME) {
            return Err(Pkcs11UriFault::Scheme);
        }
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self::default();
        let mut seen = Vec::new();
        let attributes = path.split(';').map(|one| (one, true));
        for (text, is_path) in attributes.chain(query.split('&').map(|one| (one, false))) {
            if text.is_empty() {
                continue;
            }
            let (name, value) = text.split_once('=').ok_or(Pkcs11UriFault::NoValue)?;
            if seen.contains(&name) {
                return Err(Pkcs11UriFault::Twice(name.to_owned()));
            }
            seen.push(name);
            let value = unescaped(name, value)?;
            if is_path {
                uri.take_path(name, value)?;
            } else {
                uri.take_query(name, value)?;
            }
        }
        if uri.object.is_none() && uri.id.is_none() {
            return Err(Pkcs11UriFault::NoKey);
        }
        Ok(uri)
    }

    fn take_path(&mut self, name: &str, value: Vec<u8>) -> Result<(), Pkcs11UriFault> {
        match name {
            "token" => self.token = Some(text(name, value)?),
            "manufacturer" => self.manufacturer = Some(text(name, value)?),
            "model" => self.model = Some(text(name, value)?),
            "serial" => self.serial = Some(text(name, value)?),
            "object" => self.object = Some(text(name, value)?),
            "id" => self.id = Some(value),
            "slot-id" => {
                let number = text(name, value)?.parse();
                self.slot_id = Some(number.map_err(|_| Pkcs11UriFault::SlotId)?);
            }
            "type" if value == b"private" => {}
            "type" => return Err(Pkcs11UriFault::Type),
            _ => return Err(other(name)),
        }
        Ok(())
    }

    fn take_query(&mut self, name: &str, value: Vec<u8>) -> Result<(), Pkcs11UriFault> {
        match name {
            "module-path" => self.module_path = Some(text(name, value)?),
            "pin-source" => {
                let source = text(name, value)?;
                // Section 2.4 leaves other forms to the implementation.
                let file = source.strip_prefix("file:").unwrap_or(&source);
                let file = file.strip_prefix("//").unwrap_or(file);
                if !file.starts_with('/') {
                    return Err(Pkcs11UriFault::PinSource);
                }
                self.pin_source = Some(file.to_owned());
            }
            "pin-value" => return Err(Pkcs11UriFault::PinValue),
            "module-name" => return Err(Pkcs11UriFault::Unused(name.to_owned())),
            _ => return Err(other(name)),
        }
        Ok(())
    }
}

fn other(name: &str) -> Pkcs11UriFault {
    let name: String = name.chars().take(40).filter(|one| one.is_ascii_graphic()).collect();
    if UNUSED.contains(&name.as_str()) {
        Pkcs11UriFault::Unused(name)
    } else {
        Pkcs11UriFault::Unknown(name)
    }
}

fn text(name: &str, value: Vec<u8>) -> Result<String, Pkcs11UriFault> {
    String::from_utf8(value).map_err(|_| Pkcs11UriFault::Text(name.to_owned()))
}

/// Returns a value with its escapes resolved (RFC 7512 section 2.3).
fn unescaped(name: &str, value: &str) -> Result<Vec<u8>, Pkcs11UriFault> {
    let mut bytes = value.bytes();
    let mut plain = Vec::with_capacity(value.len());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let both = digit().zip(digit());
                let (high, low) = both.ok_or_else(|| Pkcs11UriFault::Escape(name.to_owned()))?;
                (high * 16 + low) as u8
            }
            byte if byte.is_ascii_alphanumeric() || b"-._~:[]@!$'()*+,=/&|?".contains(&byte) => {
                byte
            }
            _ => return Err(Pkcs11UriFault::Character(name.to_owned())),
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        let text = "pkcs11:token=The%20Software%20PKCS%2311%20Softtoken;manufacturer=Snake%20Oil,\
                    %20Inc.;model=1.0;object=my-certificate;type=private;id=%69%95%3E%5C%F4\
                    ?pin-source=file:/etc/token_pin&module-path=/usr/lib/x.so";
        let uri = Pkcs11Uri::parse(text).unwrap();
        assert_eq!(uri.token.as_deref(), Some("The Software PKCS#11 Softtoken"));
        assert_eq!(uri.manufacturer.as_deref(), Some("Snake Oil, Inc."));
        assert_eq!(uri.id.as_deref(), Some(&b"i\x95>\\\xf4"[..]));
        assert_eq!(uri.pin_source.as_deref(), Some("/etc/token_pin"));
        assert_eq!(uri.module_path.as_deref(), Some("/usr/lib/x.so"));
        let uri = Pkcs11Uri::parse("PKCS11:object=a;slot-id=7?pin-source=file:///p").unwrap();
        assert_eq!((uri.slot_id, uri.pin_source.as_deref()), (Some(7), Some("/p")));
    }

    #[test]
    fn each_mistake_is_named_and_no_value_is_quoted() {
        use Pkcs11UriFault as Fault;
        for (text, fault) in [
            ("file:object=a", Fault::Scheme),
            ("pkcs", Fault::Scheme),
            ("pkcs11:", Fault::NoKey),
            ("pkcs11:token=a;type=private", Fault::NoKey),
            ("pkcs11:object=a;tokne=b", Fault::Unknown("tokne".into())),
            ("pkcs11:object=a;object=b", Fault::Twice("object".into())),
            ("pkcs11:object", Fault::NoValue),
            ("pkcs11:object=a b", Fault::Character("object".into())),
            ("pkcs11:object=a%2", Fault::Escape("object".into())),
            ("pkcs11:object=a%2g", Fault::Escape("object".into())),
            ("pkcs11:object=%ff", Fault::Text("object".into())),
            ("pkcs11:object=a;slot-id=x", Fault::SlotId),
            ("pkcs11:object=a;type=cert", Fault::Type),
            ("pkcs11:object=a?pin-value=1234", Fault::PinValue),
            ("pkcs11:object=a;pin-value=1234", Fault::Unknown("pin-value".into())),
            ("pkcs11:object=a?pin-source=pin", Fault::PinSource),
            ("pkcs11:object=a?pin-source=|/bin/pin", Fault::PinSource),
            ("pkcs11:object=a;library-version=3", Fault::Unused("library-version".into())),
        ] {
            assert_eq!(Pkcs11Uri::parse(text), Err(fault.clone()), "{text}");
            assert!(!fault.to_string().contains("1234"));
        }
    }
}
