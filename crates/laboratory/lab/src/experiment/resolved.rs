//! The targets of a run: their programs and versions.

use std::path::Path;

use measure::experiment;

use crate::target::form::{Serves, Target};
use crate::target::program::{self, Builds, Missing, Program};

/// A target, and its program on this host.
#[derive(Debug)]
pub(crate) struct ResolvedTarget {
    pub(crate) target: Target,
    pub(crate) program: Result<Program, Missing>,
    /// What the program says about its version; looked at by [`ResolvedTarget::probe`].
    version: Vec<String>,
}

impl ResolvedTarget {
    /// Looks for the program of a target.
    pub(crate) fn find(target: Target, builds: &Builds) -> Self {
        Self {
            program: builds.find(&target),
            target,
            version: Vec::new(),
        }
    }

    /// Asks the program for its version. `folder` is one that it may write to.
    pub(crate) fn probe(&mut self, folder: &Path) {
        if let Ok(program) = &self.program {
            let said = program::version_lines(&self.target, program, folder);
            self.version = said.unwrap_or_else(|fault| vec![fault.to_string()]);
        }
    }

    pub(crate) fn recorded(&self) -> experiment::Target {
        let program = self.program.as_ref().ok();
        experiment::Target {
            name: self.target.name.clone(),
            title: self.target.form.title.clone(),
            program: program.map_or_else(String::new, last_name),
            version: self.version.clone(),
            from: program.map_or_else(String::new, |program| program.from.to_string()),
            missing: self.program.as_ref().err().map(ToString::to_string),
            serves: match self.target.form.serves {
                Serves::Origin => "origin".to_owned(),
                Serves::Itself | Serves::Files => "itself".to_owned(),
            },
            scheme: self.target.form.scheme.name().to_owned(),
        }
    }
}

fn last_name(program: &Program) -> String {
    let name = program.path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
