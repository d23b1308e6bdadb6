//! The page of the reference about metrics, made of the catalogue.

use crate::catalogue::{Family, Kind, families};

/// The catalogue as a table in Markdown, for the reference.
pub fn write_reference(out: &mut String) {
    for kind in [Kind::Counter, Kind::Gauge, Kind::Histogram] {
        out.push_str(&format!("\n## Type `{}`\n\n", kind.name()));
        for (scope_labels, family) in families().filter(|(_, family)| family.kind == kind) {
            let own = family.labels.iter().map(|label| family.label(label));
            let scope_labels = scope_labels.iter().map(|label| (*label).to_owned());
            let labels: Vec<_> = scope_labels.chain(own).collect();
            let Family { name, help, .. } = family;
            let series = match labels.join(",") {
                none if none.is_empty() => (*name).to_owned(),
                labels => format!("{name}{{{labels}}}"),
            };
            out.push_str(&format!("- `{series}`: {help}\n"));
        }
    }
}

impl Family {
    /// A label, with its values if they are known and it has no other beside it.
    fn label(&self, label: &str) -> String {
        let values: Vec<_> = self.rows.iter().map(|row| row[0]).collect();
        if self.labels.len() == 1 && !values.is_empty() {
            format!("{label}={}", values.join("|"))
        } else {
            label.to_owned()
        }
    }
}
