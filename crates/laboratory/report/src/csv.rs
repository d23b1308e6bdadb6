//! Sheets as CSV (RFC 4180).

use crate::document::Document;

impl Document {
    /// All sheets as files: name without ending, and CSV.
    pub fn sheets(&self) -> Vec<(String, String)> {
        let sheets = self.sheets.iter().map(|sheet| {
            let rows = sheet.rows.iter().map(|row| line(row));
            let text = sheet.heads.join(",") + "\n" + &rows.collect::<String>();
            (sheet.name.clone(), text)
        });
        sheets.collect()
    }
}

fn line(fields: &[String]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    fields.join(",") + "\n"
}

/// In quotes where it must be. What a spreadsheet would take for a formula is made text.
fn quoted(field: &str) -> String {
    let is_formula = field.starts_with(['=', '+', '@'])
        || (field.starts_with('-') && field.parse::<f64>().is_err());
    let field = format!("{}{field}", if is_formula { "'" } else { "" });
    if field.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", field.replace('"', "\"\""));
    }
    field
}

/// A number as a field; empty without a number.
pub(crate) fn number(value: Option<f64>) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or_else(String::new, |value| value.to_string())
}
