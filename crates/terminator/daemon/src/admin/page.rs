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

    /// Relative luminance of the colour that the style gives this name (WCAG 2.2).
    fn luminance(palette: &str, name: &str) -> f64 {
        let (_, rest) = palette.split_once(&format!("--{name}: #")).expect("a colour");
        let digits = rest.split(';').next().expect("its digits");
        let step = digits.len() / 3;
        let channel = |i: usize| {
            let digits = &digits[i * step..(i + 1) * step].repeat(3 - step);
            let value = f64::from(u8::from_str_radix(digits, 16).expect("hexadecimal")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
    }

    #[test]
    fn words_and_lines_stand_out_in_both_schemes() {
        let palettes: Vec<_> = HTML.split(":root {").skip(1).collect();
        assert_eq!(palettes.len(), 2, "light and dark");
        let words = ["ink", "soft", "faint"];
        let plain = words.iter().flat_map(|&word| [(word, "page"), (word, "card")]);
        let washed = [("good", "good-wash"), ("warn", "warn-wash"), ("bad", "bad-wash")];
        let lines = ["blue", "teal", "amber", "plum", "rose", "grey"];
        let lines = lines.map(|line| (line, "card", 3.0));
        let words = plain.chain(washed).map(|(front, back)| (front, back, 4.5));
        for (front, back, ratio_min) in words.chain(lines) {
            for palette in &palettes {
                let (one, other) = (luminance(palette, front), luminance(palette, back));
                let ratio = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(ratio >= ratio_min, "--{front} on --{back} has a contrast of {ratio:.2}");
            }
        }
    }

    #[test]
    fn the_page_names_no_other_host() {
        let namespace = "http://www.w3.org/2000/svg";
        assert!(!HTML.replace(namespace, "").contains("://"));
    }
}
