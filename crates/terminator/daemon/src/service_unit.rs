//! The unit of systemd that packages install, as far as a configuration asks more of it than it
//! allows by itself.
//!
//! Looks at files and changes nothing: `lariat check` is not run by the unit, whose rights it
//! cannot see in its own process.

use std::fs;
use std::path::Path;

use config::{Diagnostic, Problem, Settings, Severity, Source};
use proxy::options::SourceAddress;

/// A right of the unit is stated in one of these: itself, or a drop-in, by packages or by hand.
const UNIT: &str = "usr/lib/systemd/system/lariat.service";
const DROP_INS: [&str; 2] =
    ["usr/lib/systemd/system/lariat.service.d", "etc/systemd/system/lariat.service.d"];

const RIGHT: &str = "CAP_NET_RAW";

const HINT: &str = "for the service: install -D -t /etc/systemd/system/lariat.service.d \
                    /usr/share/lariat/systemd/client-source.conf && systemctl daemon-reload";

/// A note where the installed unit does not hold the right that `back.source = "client"` takes.
pub(crate) fn concern(source: &Source, settings: &Settings) -> Vec<Diagnostic> {
    let mut services = settings.plane.services.iter();
    let is_foreign = services.position(|service| {
        let pool = service.back.servers();
        pool.is_some_and(|pool| matches!(pool.source, SourceAddress::Client))
    });
    let Some(service) = is_foreign.filter(|_| lacks_right(Path::new("/"))) else {
        return Vec::new();
    };
    let problem = Problem::new(format!("{UNIT} does not hold {RIGHT}, which this takes"));
    let key = format!("service.{service}.back.source");
    config::diagnose(source, Severity::Note, &key, problem.hint(HINT))
}

/// Whether there is a unit below this root, and neither it nor a drop-in names the right.
fn lacks_right(root: &Path) -> bool {
    let names = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut lines = text.lines().map(str::trim_start);
        lines.any(|line| line.starts_with("CapabilityBoundingSet=") && line.contains(RIGHT))
    };
    let drop_ins = DROP_INS.iter().filter_map(|folder| fs::read_dir(root.join(folder)).ok());
    let mut drop_ins = drop_ins.flatten().flatten().map(|entry| entry.path());
    let unit = root.join(UNIT);
    unit.exists() && !names(&unit) && !drop_ins.any(|path| names(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_without_the_right_lacks_it_until_a_drop_in_brings_it() {
        let directory = testkit::directory::Directory::new();
        let root = directory.path();
        assert!(!lacks_right(root), "without a unit there is nothing to say");
        let pkg = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../pkg/systemd");
        let put = |from: &str, to: &Path| {
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(pkg.join(from), to).unwrap();
        };
        put("lariat.service", &root.join(UNIT));
        assert!(lacks_right(root));
        put("client-source.conf", &root.join(DROP_INS[1]).join("client-source.conf"));
        assert!(!lacks_right(root));
    }
}
