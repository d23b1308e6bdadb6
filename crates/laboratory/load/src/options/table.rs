//! The table of settings as a whole: finding, reading, and telling what a run went by.

use super::rows;
pub use super::setting::{Group, Otherwise, Setting, Shape};
use super::settings::Options;
use super::value::ValueFault;
use crate::plan::Plan;

/// Every setting, in the order of the reference.
pub const SETTINGS: &[Setting] = rows::SETTINGS;

/// Settings of former versions, and how the same is typed now, after `--`.
pub const RENAMED: &[(&str, &str)] = &[
    ("turns", "client-selection"),
    ("arrival", "session-arrivals"),
];

/// What a setting of former versions is now.
#[must_use]
pub fn renamed(name: &str) -> Option<&'static str> {
    let (_, now) = RENAMED.iter().find(|(old, _)| *old == name)?;
    Some(now)
}

/// The setting of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The settings of a group, in the order of the reference.
pub fn of(group: Group) -> impl Iterator<Item = &'static Setting> {
    SETTINGS
        .iter()
        .filter(move |setting| setting.group == group)
}

/// Puts a typed text into the options; for a list, one of its texts.
///
/// # Errors
/// If it is no value of the setting.
pub fn apply(options: &mut Options, setting: &Setting, text: &str) -> Result<(), ValueFault> {
    (setting.read)(options, text)?;
    options.given.push((setting.name, text.to_owned()));
    Ok(())
}

/// Every setting that a run goes by, typed or by default, as it would be typed. Those that have
/// no value in this plan are left out.
#[must_use]
pub fn settings(options: &Options, plan: &Plan) -> Vec<(&'static str, String)> {
    let mut list = Vec::new();
    for setting in SETTINGS {
        let given = typed(options, setting);
        if !given.is_empty() {
            list.extend(given.into_iter().map(|text| (setting.name, text)));
        } else if !is_implied(options, setting) {
            list.extend(by_default(setting, plan).map(|text| (setting.name, text)));
        }
    }
    list
}

/// Steps, ramps and searches bring their own time: it cannot be typed beside them.
fn is_implied(options: &Options, setting: &Setting) -> bool {
    let brings_time =
        options.find_capacity || options.ramp.is_some() || !options.steps_per_s.is_empty();
    setting.name == "duration" && brings_time
}

/// What was typed for a setting, a flag each.
fn typed(options: &Options, setting: &Setting) -> Vec<String> {
    let given = options.given.iter();
    let texts: Vec<_> = given
        .filter(|(name, _)| *name == setting.name)
        .map(|(_, text)| text.clone())
        .collect();
    match setting.shape {
        Shape::Commas(_) if !texts.is_empty() => vec![texts.join(",")],
        _ => texts,
    }
}

fn by_default(setting: &Setting, plan: &Plan) -> Option<String> {
    match setting.otherwise {
        Otherwise::Text(_) if setting.of_tls && plan.tls.is_none() => None,
        Otherwise::Text(text) => Some(text.to_owned()),
        Otherwise::Derived(_, of) => of(plan),
        Otherwise::Absent(_) => None,
    }
}

/// The arguments of `lariat-lab` that ask for the same, without a plan file.
#[must_use]
pub fn command(options: &Options) -> Vec<String> {
    let mut words = vec!["load".to_owned()];
    for setting in SETTINGS {
        for text in typed(options, setting) {
            match (setting.name, setting.shape, text.as_str()) {
                ("url", ..) => words.push(text),
                (name, Shape::Switch, "true") => words.push(format!("--{name}")),
                (_, Shape::Switch, _) => {}
                (name, ..) => words.extend([format!("--{name}"), text]),
            }
        }
    }
    words
}
