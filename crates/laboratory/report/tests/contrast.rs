//! Tests that colours are legible: text has a contrast of 4.5 : 1 to its background, and drawings
//! have 3 : 1 (WCAG 2.2, success criteria 1.4.3 and 1.4.11), in light and in dark.
#![allow(clippy::unwrap_used, reason = "what a test cannot read fails it")]

use std::collections::BTreeMap;

const PALETTE: &str = include_str!("../src/style/palette.css");
const CARD: &str = include_str!("../src/style/card.css");

/// Source file with the names of the targets' colours.
const CHART: &str = include_str!("../src/figure/chart.rs");

type Rgb = [f64; 3];

fn rgb(hex: &str) -> Rgb {
    let digits = hex.trim_start_matches('#');
    let wide: String = match digits.len() {
        3 => digits.chars().flat_map(|digit| [digit, digit]).collect(),
        _ => digits.to_owned(),
    };
    [0, 2, 4].map(|at| f64::from(u8::from_str_radix(&wide[at..at + 2], 16).unwrap()) / 255.0)
}

/// Returns amounts of light (sRGB, IEC 61966-2-1).
fn linear(colour: Rgb) -> Rgb {
    colour.map(|part| match part {
        ..=0.04045 => part / 12.92,
        _ => ((part + 0.055) / 1.055).powf(2.4),
    })
}

/// Returns the relative luminance as WCAG 2.2 defines it.
fn luminance(colour: Rgb) -> f64 {
    let [red, green, blue] = linear(colour);
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

type Matrix = [[f64; 3]; 3];

fn times(matrix: &Matrix, of: Rgb) -> Rgb {
    matrix.map(|row| row[0] * of[0] + row[1] * of[1] + row[2] * of[2])
}

/// Light that a reader without one kind of cones perceives, as a matrix (Machado, Oliveira and
/// Fernandes, IEEE Transactions on Visualization 15 (2009), severity 1).
const VISIONS: [(&str, Matrix); 4] = [
    ("trichromacy", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    ),
];

/// Returns the place in Oklab (B. Ottosson, A perceptual color space for image processing, 2020),
/// in which distances are perceived differences: about 0.02 is the least.
fn oklab(light: Rgb) -> Rgb {
    const CONES: Matrix = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ];
    const PLACE: Matrix = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ];
    times(&PLACE, times(&CONES, light.map(|part| part.clamp(0.0, 1.0))).map(f64::cbrt))
}

fn distance(vision: &Matrix, one: Rgb, other: Rgb) -> f64 {
    let place = |colour| oklab(times(vision, linear(colour)));
    let (one, other) = (place(one), place(other));
    (0..3).map(|at| (one[at] - other[at]).powi(2)).sum::<f64>().sqrt()
}

/// Returns the names of the targets' colours.
fn of_targets() -> Vec<&'static str> {
    let (_, rest) = CHART.split_once("const COLOURS").unwrap();
    let (list, _) = rest.split_once("];").unwrap();
    list.split('"').skip(1).step_by(2).collect()
}

fn contrast(one: Rgb, other: Rgb) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Returns the colours of a scheme by their names.
fn colours(css: &str) -> BTreeMap<&str, Rgb> {
    let named = css.split("--").skip(1).filter_map(|one| one.split_once(':'));
    named.map(|(name, rest)| (name, rgb(rest.split(';').next().unwrap().trim()))).collect()
}

#[test]
fn the_formula_is_that_of_the_standard() {
    assert!((contrast(rgb("#000"), rgb("#fff")) - 21.0).abs() < 1e-9);
    // The lightest grey known to pass on white.
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
        for name in of_targets().into_iter().chain(["rose", "grey"]) {
            for behind in ["page", "card"] {
                check(colours[name], behind, 3.0, name);
            }
        }
    }
}

/// Lines and bars of any two targets may be beside each other.
#[test]
fn targets_are_told_apart_with_any_colour_vision() {
    const DISTANCE_MIN: f64 = 0.1;
    let (light, dark) = PALETTE.split_once("@media").unwrap();
    let names = of_targets();
    assert!(names.len() > 4, "{names:?}");
    for (scheme, css) in [("light", light), ("dark", dark)] {
        let colours = colours(css);
        for (place, one) in names.iter().enumerate() {
            for other in &names[place + 1..] {
                for (vision, matrix) in &VISIONS {
                    let found = distance(matrix, colours[one], colours[other]);
                    assert!(
                        found >= DISTANCE_MIN,
                        "{scheme}, {vision}: {one} and {other} are {found:.3} apart"
                    );
                }
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
        let least = if line.starts_with(".bar") { 3.0 } else { 4.5 };
        let found = contrast(colour, page);
        assert!(found >= least, "{line}: {found:.2} : 1");
    }
}
