//! The text of a plan file to settings with their places.

use std::ops::Range;

use load::options::table::{self, SETTINGS, Setting, Shape};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::complaint::Complaint;
use super::given::{Given, Spot, Text, split};
use options::diagnostic::nearest;

/// A file with this many syntax errors is no TOML; the rest would only hide the first.
const SYNTAX_ERRORS_MAX: usize = 10;

/// Settings in the order of the file, and all that is wrong with its form.
pub(crate) fn parse(text: &str) -> (Vec<Given>, Vec<Complaint>) {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let complaints = errors.iter().take(SYNTAX_ERRORS_MAX).map(syntax);
        return (Vec::new(), complaints.collect());
    }
    entries(table.get_ref())
}

/// The same of a table that is a part of a file.
pub(crate) fn entries(table: &DeTable<'_>) -> (Vec<Given>, Vec<Complaint>) {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let (mut given, mut complaints) = (Vec::new(), Vec::new());
    for (key, value) in entries {
        match entry(key.get_ref(), key.span(), value) {
            Ok(one) => given.push(one),
            Err(complaint) => complaints.push(complaint),
        }
    }
    (given, complaints)
}

fn syntax(error: &toml::de::Error) -> Complaint {
    Complaint {
        subject: None,
        message: error.message().lines().collect::<Vec<_>>().join(", "),
        spot: error.span().map(Spot::File),
        hint: "a plan is a TOML file: a line for each setting, texts in quotes".to_owned(),
    }
}

fn entry(
    key: &str,
    key_span: Range<usize>,
    value: &Spanned<DeValue<'_>>,
) -> Result<Given, Complaint> {
    let setting = table::find(key).ok_or_else(|| unknown(key, key_span))?;
    Ok(Given {
        setting,
        spot: Spot::File(value.span()),
        texts: texts(setting, value)?,
    })
}

fn unknown(key: &str, span: Range<usize>) -> Complaint {
    let near = nearest(key, SETTINGS.iter().map(|setting| setting.name));
    Complaint {
        subject: None,
        message: format!("there is no setting `{}`", key.escape_debug()),
        spot: Some(Spot::File(span)),
        hint: match (table::renamed(key), near) {
            (Some(now), _) => format!("it is now `{now}`"),
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => {
                "`lariat-lab load --help` lists them; a key has its flag's name".to_owned()
            }
        },
    }
}

fn texts(setting: &Setting, value: &Spanned<DeValue<'_>>) -> Result<Vec<Text>, Complaint> {
    let spot = Spot::File(value.span());
    if let DeValue::Array(elements) = value.get_ref() {
        if !setting.is_list() {
            return Err(misshapen(
                setting,
                spot,
                "is a list, but one value is wanted",
            ));
        }
        let one = |element: &Spanned<DeValue<'_>>| {
            let spot = Spot::File(element.span());
            let text = scalar(element.get_ref())
                .ok_or_else(|| misshapen(setting, spot.clone(), "holds no plain value"))?;
            Ok(Text { text, spot })
        };
        return elements.iter().map(one).collect();
    }
    let text = scalar(value.get_ref())
        .ok_or_else(|| misshapen(setting, spot.clone(), "is neither a text nor a number"))?;
    Ok(match setting.shape {
        Shape::Commas(_) => split(&text, &spot),
        _ => vec![Text { text, spot }],
    })
}

/// A value as a flag would say it.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(boolean) => Some(boolean.to_string()),
        DeValue::Integer(number) => {
            let number = i64::from_str_radix(number.as_str(), number.radix()).ok();
            number.map(|number| number.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Array(_) | DeValue::Table(_) | DeValue::Datetime(_) => None,
    }
}

fn misshapen(setting: &Setting, spot: Spot, message: &str) -> Complaint {
    Complaint {
        subject: Some(setting.name.to_owned()),
        message: message.to_owned(),
        spot: Some(spot),
        hint: format!(
            "for example: {}",
            load::options::reference::line_of_file(setting)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let (given, complaints) = parse(text);
        assert!(complaints.is_empty(), "{complaints:?}");
        let line = |given: &Given| {
            let texts: Vec<_> = given.texts.iter().map(|text| text.text.as_str()).collect();
            format!("{} {}", given.setting.name, texts.join("|"))
        };
        given.iter().map(line).collect()
    }

    fn complaint(text: &str) -> String {
        let (_, complaints) = parse(text);
        let mut told = String::new();
        for one in complaints {
            let subject = one.subject.unwrap_or_default();
            told += &format!("{subject} {} ({}); ", one.message, one.hint);
        }
        told
    }

    #[test]
    fn a_file_says_what_flags_say() {
        let text = "url = \"https://h/\"\nrate = 2.5\nsteps = [500, 1_000]\nearly-data = true\n\
                    header = [\"A: b, c\"]\nsuites = \"a,b\"\ntickets = false\n";
        let expected = [
            "url https://h/",
            "rate 2.5",
            "steps 500|1000",
            "early-data true",
            "header A: b, c",
            "suites a|b",
            "tickets false",
        ];
        assert_eq!(told(text), expected);
    }

    #[test]
    fn slips_have_remedies() {
        assert!(complaint("handshaek = 1").contains("did you mean `handshake`?"));
        assert!(complaint("rate = [1]").contains("one value is wanted (for example: rate = 500)"));
        assert!(complaint("rate = 1979-05-27").contains("neither a text nor a number"));
        assert!(complaint("steps = [[1]]").contains("steps holds no plain value"));
        assert!(complaint("rate = \"500").contains("TOML"));
        let two = complaint("aaaaaa = 1\n[rate]\nx = 1");
        assert!(
            two.contains("no setting `aaaaaa`") && two.contains("rate is neither"),
            "{two}"
        );
    }
}
