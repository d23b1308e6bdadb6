//! Variables, as far as the section `global` sets them or takes them away.

use std::collections::HashMap;

use crate::source::{FILE_BYTES_MAX, SourceFiles};

/// The variables that the file names; the environment has the others.
#[derive(Debug, Default)]
pub(super) struct HaproxyVariables {
    /// `None` = taken away.
    own: HashMap<String, Option<String>>,
    /// Whether the environment does not count any more.
    is_reset: bool,
    /// The bytes of all values that stand in lines, so that lines that double do not fill memory.
    replaced_bytes: usize,
}

impl HaproxyVariables {
    /// The value for a line; an error if lines have got too long by all of them.
    pub(super) fn replace(
        &mut self,
        name: &str,
        files: &mut dyn SourceFiles,
    ) -> Result<Option<String>, String> {
        let value = self.value(name, files);
        self.replaced_bytes += value.as_ref().map_or(0, String::len);
        if self.is_spent() {
            let most = FILE_BYTES_MAX >> 20;
            return Err(format!("variables make more than {most} MiB, as in no configuration"));
        }
        Ok(value)
    }

    /// Whether no more lines are looked at.
    pub(super) fn is_spent(&self) -> bool {
        self.replaced_bytes > FILE_BYTES_MAX
    }

    fn value(&self, name: &str, files: &mut dyn SourceFiles) -> Option<String> {
        match self.own.get(name) {
            Some(own) => own.clone(),
            None if self.is_reset => None,
            None => files.variable(name),
        }
    }

    /// Does what a line of the section says.
    pub(super) fn take(&mut self, words: &[String], files: &mut dyn SourceFiles) {
        let Some((keyword, names)) = words.split_first() else {
            return;
        };
        match (keyword.as_str(), names) {
            ("setenv", [name, value, ..]) => {
                self.own.insert(name.clone(), Some(value.clone()));
            }
            ("presetenv", [name, value, ..]) if self.value(name, files).is_none() => {
                self.own.insert(name.clone(), Some(value.clone()));
            }
            ("unsetenv", names) => {
                self.own.extend(names.iter().map(|name| (name.clone(), None)));
            }
            ("resetenv", names) => {
                let kept = names.iter().map(|name| (name.clone(), self.value(name, files)));
                self.own = kept.collect();
                self.is_reset = true;
            }
            _ => {}
        }
    }
}
