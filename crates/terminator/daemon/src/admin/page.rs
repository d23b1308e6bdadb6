//! The status page: one document that asks `/status` each second and draws what it says.
//!
//! Owns the document and the policy that goes with it: only the style and the script within it are
//! obeyed, and it may ask nobody but us.

use std::sync::OnceLock;

use aws_lc_rs::digest::{SHA256, digest};

/// The page, complete: it needs no other file.
pub(crate) const HTML: &str = include_str!("page.html");

/// The value of `Content-Security-Policy` (W3C, CSP Level 3): style and script by their hashes.
pub(crate) fn content_security_policy() -> &'static str {
    static POLICY: OnceLock<String> = OnceLock::new();
    POLICY.get_or_init(|| {
        let (style, script) = (hash_of("style"), hash_of("script"));
        format!(
            "default-src 'none'; style-src '{style}'; script-src '{script}'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    })
}

/// The hash source of the first element of this name.
fn hash_of(element: &str) -> String {
    let text = content_of(element).expect("the page has one style and one script");
    let hash = digest(&SHA256, text.as_bytes());
    format!("sha256-{}", base64(hash.as_ref()))
}

fn content_of(element: &str) -> Option<&'static str> {
    let (_, rest) = HTML.split_once(&format!("<{element}>"))?;
    let (content, _) = rest.split_once(&format!("</{element}>"))?;
    Some(content)
}

/// RFC 4648, section 4.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let encoded =
            ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|t| base64(t.as_bytes()));
        let expected = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(encoded, expected);
    }

    #[test]
    fn the_policy_covers_all_style_and_script_of_the_page() {
        for element in ["style", "script"] {
            assert_eq!(HTML.matches(&format!("<{element}")).count(), 1);
            assert!(content_security_policy().contains(&hash_of(element)));
        }
        for forbidden in
            [" style=", " onclick=", " onload=", "rel=\"stylesheet", "src=", "innerHTML", "@import"]
        {
            assert!(!HTML.contains(forbidden), "the policy forbids {forbidden}");
        }
    }

    #[test]
    fn the_page_names_no_other_host() {
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!HTML.replace(namespace, "").contains("://"));
    }
}
