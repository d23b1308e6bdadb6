//! What was typed to a draft of the plan, or to all that is wrong with it.

use std::fs;
use std::io::Read;
use std::path::Path;

use load::options::reference::line_of_file;
use load::options::table::{self, Setting, Shape};
use load::options::{Files, Options, PlanFault, UnresolvedPlan, ValueFault};

use super::complaint::Complaint;
use super::given::{Given, Spot, Text};
use options::diagnostic::nearest;

/// Reads the texts. `complaints` are those about their form, which are told together.
pub(crate) fn options(
    given: &[Given],
    mut complaints: Vec<Complaint>,
) -> Result<Options, Vec<Complaint>> {
    let mut options = Options::default();
    for one in given {
        for text in &one.texts {
            if let Err(fault) = table::apply(&mut options, one.setting, &text.text) {
                complaints.push(of_value(one.setting, text, &fault));
            }
        }
    }
    match complaints.is_empty() {
        true => Ok(options),
        false => Err(complaints),
    }
}

/// Holds the options against each other and against the files that they name.
pub(crate) fn draft(
    options: &Options,
    given: &[Given],
    allowed_cpus: &[u16],
) -> Result<UnresolvedPlan, Vec<Complaint>> {
    let named = options.files().into_iter();
    let files: Files = named.map(|(name, path)| (name, read(path))).collect();
    let drafted = options.validate(&files, allowed_cpus);
    drafted.map_err(|faults| of_plan(&faults, given))
}

/// What is wrong with a plan as a whole, each where its setting was typed.
pub(crate) fn of_plan(faults: &[PlanFault], given: &[Given]) -> Vec<Complaint> {
    let complaints = faults.iter().map(|fault| {
        let typed = given.iter().find(|one| one.setting.name == fault.about);
        let spot = typed.map(|one| one.spot.clone());
        Complaint {
            subject: Some(subject(fault.about, spot.as_ref())),
            message: fault.reason.clone(),
            spot,
            hint: fault.remedy.clone(),
        }
    });
    complaints.collect()
}

fn subject(name: &str, spot: Option<&Spot>) -> String {
    match (name, spot) {
        ("url", _) => "the URL".to_owned(),
        (_, Some(Spot::File(_))) => name.to_owned(),
        _ => format!("--{name}"),
    }
}

fn of_value(setting: &'static Setting, text: &Text, fault: &ValueFault) -> Complaint {
    let typed = text.text.escape_debug();
    let (message, hint) = match fault {
        ValueFault::Form(wanted, example) => (
            format!("`{typed}` is not {wanted}"),
            format!("for example: {example}"),
        ),
        ValueFault::Refused(why, hint) => (format!("`{typed}` {why}"), (*hint).to_owned()),
        ValueFault::Name(known) => unknown(&text.text, known),
    };
    let hint = match (fault, &text.spot) {
        (ValueFault::Form(..), Spot::File(_)) => format!("for example: {}", line_of_file(setting)),
        _ => hint,
    };
    Complaint {
        subject: Some(subject(setting.name, Some(&text.spot))),
        message: match setting.shape {
            Shape::Switch => format!("is a switch, and `{typed}` neither true nor false"),
            _ => message,
        },
        spot: Some(text.spot.clone()),
        hint,
    }
}

/// Longer lists of names stand in the hint.
const NAMES_MAX: usize = 6;

fn unknown(typed: &str, known: &[&'static str]) -> (String, String) {
    let shown = typed.escape_debug();
    let all = known.join(", ");
    let near = nearest(typed, known.iter().copied());
    match (near, known.len() <= NAMES_MAX) {
        (Some(near), true) => (
            format!("`{shown}` is not one of: {all}"),
            format!("did you mean {near}?"),
        ),
        (None, true) => (
            format!("`{shown}` is unknown"),
            format!("take one of {all}"),
        ),
        (Some(near), false) => (
            format!("`{shown}` is unknown"),
            format!("did you mean {near}?"),
        ),
        (None, false) => (format!("`{shown}` is unknown"), format!("known are {all}")),
    }
}

/// Files of more than this are slips: 64 MiB.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A file's bytes. One that never ends, such as a device, is not read for ever.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let file = fs::File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let taken = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    match taken.map_err(unreadable)? as u64 > FILE_BYTES_MAX {
        true => Err(format!("{shown} is larger than 64 MiB")),
        false => Ok(bytes),
    }
}

/// Settings whose relative paths in a file begin at its directory.
const PATHS: [&str; 5] = [
    "body-file",
    "client-certificate",
    "client-key",
    "ca",
    "record",
];

/// Makes paths of a plan file what they are from the working directory.
pub(crate) fn rebase(given: &mut [Given], file: &Path) {
    let Some(directory) = file.parent() else {
        return;
    };
    for one in given
        .iter_mut()
        .filter(|one| PATHS.contains(&one.setting.name))
    {
        for text in &mut one.texts {
            let is_path = !text.text.is_empty() && !["none", "-"].contains(&text.text.as_str());
            if is_path {
                text.text = directory.join(&text.text).display().to_string();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::plan_file;

    fn complaints(text: &str) -> String {
        let (given, malformed) = plan_file::parse(text);
        let found = options(&given, malformed);
        let found = found.and_then(|options| draft(&options, &given, &[0, 1]));
        let lines = found.unwrap_err().into_iter().map(|one| {
            format!(
                "{}: {} ({})\n",
                one.subject.unwrap_or_default(),
                one.message,
                one.hint
            )
        });
        lines.collect()
    }

    #[test]
    fn every_text_is_read_before_anything_is_said() {
        let text = "url = \"localhost\"\nrate = \"much\"\nhandshake = \"sesion-id\"\n\
                    suites = [\"TLS_AES_128_GCM_SHA265\"]\nearly-data = \"x\"\ncount = 0\n\
                    raet = 5\n";
        let told = complaints(text);
        for line in [
            "the URL: `localhost` is not a URL that begins with https:// or http://",
            "rate: `much` is not a rate: transactions a second (for example: rate = 500)",
            "(did you mean session-id?)",
            "(did you mean TLS_AES_128_GCM_SHA256?)",
            "early-data: is a switch, and `x` neither true nor false",
            "count: `0` is nothing",
            "there is no setting `raet` (did you mean `rate`?)",
        ] {
            assert!(told.contains(line), "{line} in {told}");
        }
    }

    #[test]
    fn contradictions_stand_where_they_were_typed() {
        let text = "url = \"https://h/\"\nhandshake = \"psk\"\ntls = \"1.2\"\nca = \"/nowhere\"\n";
        let (given, malformed) = plan_file::parse(text);
        let options = options(&given, malformed).unwrap();
        let found = draft(&options, &given, &[0]).unwrap_err();
        assert_eq!(found.len(), 2);
        let psk = text.find("\"psk\"").unwrap();
        assert_eq!(found[0].spot, Some(Spot::File(psk..psk + 5)));
        assert!(found[1].message.starts_with("cannot read /nowhere: "));
    }

    #[test]
    fn paths_begin_at_the_file() {
        let (mut given, _) =
            plan_file::parse("ca = \"ca.pem\"\nrecord = \"none\"\nbody-file = \"/b\"");
        rebase(&mut given, Path::new("plans/a.toml"));
        let texts: Vec<_> = given.iter().map(|one| one.texts[0].text.as_str()).collect();
        assert_eq!(texts, ["plans/ca.pem", "none", "/b"]);
    }

    #[test]
    fn the_examples_are_plans() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/load");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let (given, malformed) = plan_file::parse(&text);
            let options = options(&given, malformed);
            let options = options.unwrap_or_else(|found| panic!("{found:?}"));
            draft(&options, &given, &[0, 1]).unwrap_or_else(|found| panic!("{found:?}"));
            count += 1;
        }
        assert!(count >= 3, "{count}");
    }
}
