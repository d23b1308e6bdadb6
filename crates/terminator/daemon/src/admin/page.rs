//! The status page: one document that asks `/status` each second and draws what it says.
//!
//! Owns the document and the policy that goes with it: only the style and the script within it are
//! obeyed, and it may ask nobody but us.

use std::sync::OnceLock;

use aws_lc_rs::digest::{SHA256, digest};
use base64ct::{Base64, Encoding};

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
    format!("sha256-{}", Base64::encode_string(hash.as_ref()))
}

fn content_of(element: &str) -> Option<&'static str> {
    let (_, rest) = HTML.split_once(&format!("<{element}>"))?;
    let (content, _) = rest.split_once(&format!("</{element}>"))?;
    Some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance (WCAG 2.2).
    fn luminance(colour: &str) -> f64 {
        let long = match colour.len() {
            3 => colour.chars().flat_map(|digit| [digit, digit]).collect(),
            _ => colour.to_owned(),
        };
        let part = |place: usize| {
            let value = u8::from_str_radix(&long[place..place + 2], 16).unwrap();
            let value = f64::from(value) / 255.0;
            if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    }

    #[test]
    fn texts_and_lines_can_be_seen() {
        let style = content_of("style").unwrap();
        let themes = style.split("--page: #").skip(1);
        let mut count = 0;
        for theme in themes {
            let theme = format!("--page: #{theme}");
            let colour = |name: &str| {
                let (_, rest) = theme.split_once(&format!("--{name}: #")).unwrap();
                luminance(rest.split_once(';').unwrap().0)
            };
            let contrast = |one: &str, other: &str| {
                let (one, other) = (colour(one), colour(other));
                (one.max(other) + 0.05) / (one.min(other) + 0.05)
            };
            for (text, ground) in [
                ("ink", "page"),
                ("soft", "page"),
                ("faint", "page"),
                ("faint", "card"),
                ("good", "good-wash"),
                ("warn", "warn-wash"),
                ("bad", "bad-wash"),
            ] {
                assert!(contrast(text, ground) >= 4.5, "{text} on {ground}, theme {count}");
            }
            for line in ["blue", "teal", "amber", "violet", "rose", "grey"] {
                assert!(contrast(line, "card") >= 3.0, "{line}, theme {count}");
            }
            count += 1;
        }
        assert_eq!(count, 2);
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
