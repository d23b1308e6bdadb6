//! Colours can be read: text has 4.5 : 1 against what is behind it, and what is drawn has 3 : 1
//! (WCAG 2.2, success criteria 1.4.3 and 1.4.11), in light and in dark.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::collections::BTreeMap;

const PALETTE: &str = include_str!("../src/style/palette.css");
const CARD: &str = include_str!("../src/style/card.css");

type Rgb = [f64; 3];

fn rgb(hex: &str) -> Rgb {
    let digits = hex.trim_start_matches('#');
    let wide: String = match digits.len() {
        3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
        _ => digits.to_owned(),
    };
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()) / 255.0)
}

/// The relative luminance as WCAG 2.2 defines it.
fn luminance(colour: Rgb) -> f64 {
    let linear = |part: f64| match part {
        ..=0.04045 => part / 12.92,
        _ => ((part + 0.055) / 1.055).powf(2.4),
    };
    let [red, green, blue] = colour.map(linear);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// A colour through which so much of what is behind it is not seen.
fn over(colour: Rgb, opacity: f64, behind: Rgb) -> Rgb {
    [0, 1, 2].map(|at| colour[at] * opacity + behind[at] * (1.0 - opacity))
}

/// The colours of a scheme by their names.
fn colours(css: &str) -> BTreeMap<&str, Rgb> {
    let named = css.split("--").skip(1).filter_map(|one| one.split_once(':'));
    named.map(|(name, rest)| (name, rgb(rest.split(';').next().unwrap().trim()))).collect()
}

#[test]
fn the_formula_is_that_of_the_standard() {
    assert!((contrast(rgb("#000"), rgb("#fff")) - 21.0).abs() < 1e-9);
    // The lightest grey that passes on white, as is known.
    assert!(contrast(rgb("#767676"), rgb("#fff")) >= 4.5);
    assert!(contrast(rgb("#777777"), rgb("#fff")) < 4.5);
}

#[test]
fn colours_can_be_read_in_light_and_dark() {
    let (light, dark) = PALETTE.split_once("@media").unwrap();
    for (scheme, css) in [("light", light), ("dark", dark)] {
        let colours = colours(css);
        let check = |front: Rgb, behind: &str, least: f64, name: &str| {
            let found = contrast(front, colours[behind]);
            assert!(found >= least, "{scheme}: {name} on {behind} has {found:.2} : 1");
        };
        for name in ["ink", "soft", "faint", "good", "warn", "bad"] {
            check(colours[name], "page", 4.5, name);
            check(colours[name], "card", 4.5, name);
        }
        for (name, wash) in [("good", "good-wash"), ("warn", "warn-wash"), ("bad", "bad-wash")] {
            check(colours[name], wash, 4.5, name);
        }
        for name in
            ["blue", "amber", "teal", "violet", "brown", "sky", "olive", "plum", "rose", "grey"]
        {
            for behind in ["page", "card"] {
                // Bars let something through.
                check(over(colours[name], 0.85, colours[behind]), behind, 3.0, name);
            }
        }
    }
}

#[test]
fn colours_of_a_card_can_be_read() {
    let page = rgb("#f6f6f3");
    assert!(CARD.contains(".page { fill: #f6f6f3; }"));
    for line in CARD.lines().filter(|line| !line.starts_with(".page")) {
        let Some((_, rest)) = line.split_once("fill: #") else {
            continue;
        };
        let colour = rgb(rest.split(';').next().unwrap().trim());
        let (colour, least) =
            if line.starts_with(".bar") { (over(colour, 0.85, page), 3.0) } else { (colour, 4.5) };
        let found = contrast(colour, page);
        assert!(found >= least, "{line}: {found:.2} : 1");
    }
}
