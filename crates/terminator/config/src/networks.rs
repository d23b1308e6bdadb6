//! Networks that a configuration lists, itself or in files.

use options::{Problem, Section};
use wire::network::{Network, NetworkSet};

use crate::certificates::Shelf;

/// Broken lines of a file that are named one by one.
const FAULTS_MAX: usize = 10;

/// Reads a list of networks, and of files with a network per line.
pub(crate) fn read(section: &Section<'_>, name: &str, shelf: &mut Shelf<'_>) -> Option<NetworkSet> {
    let mut networks = Vec::new();
    let mut is_whole = true;
    for text in section.texts(name)? {
        match text.parse() {
            Ok(network) => networks.push(network),
            Err(_) => match listed(section, name, &text, shelf) {
                Some(listed) => networks.extend(listed),
                None => is_whole = false,
            },
        }
    }
    is_whole.then(|| networks.into_iter().collect())
}

/// The networks of a file; reports all lines that are none.
fn listed(
    section: &Section<'_>,
    name: &str,
    text: &str,
    shelf: &mut Shelf<'_>,
) -> Option<Vec<Network>> {
    let path = shelf.base.join(text);
    let Ok(content) = shelf.files.read(&path) else {
        // It says why there is no such file, but it may have been meant for a network.
        if text.starts_with(|first: char| first.is_ascii_digit() || first == ':') {
            let problem = format!("\"{text}\" is neither a network nor a file");
            let hint = "write 10.0.0.0/8, 2001:db8::/32, one IP address, unix, or a file's path";
            section.error(name, Problem::new(problem).hint(hint));
            return None;
        }
        return shelf.read(section, name, &path).and(None);
    };
    let content = String::from_utf8_lossy(&content);
    let content = content.strip_prefix('\u{feff}').unwrap_or(&content);
    let (mut networks, mut faults) = (Vec::new(), Vec::new());
    for (number, line) in content.lines().enumerate() {
        let entry = line.split(['#', ';']).next().unwrap_or_default().trim();
        match entry.parse() {
            _ if entry.is_empty() => {}
            Ok(network) => networks.push(network),
            Err(_) => faults.push((number + 1, entry)),
        }
    }
    if faults.is_empty() {
        return Some(networks);
    }
    let broken = faults.len();
    for (number, entry) in faults.into_iter().take(FAULTS_MAX) {
        let entry: String = entry.chars().take(60).collect();
        let entry = entry.escape_debug();
        let problem = format!("{}:{number}: \"{entry}\" is no network", path.display());
        let hint = "write 10.0.0.0/8, 2001:db8::/32, one IP address or unix, one per line";
        section.error(name, Problem::new(problem).hint(hint));
    }
    if broken > FAULTS_MAX {
        let problem = format!(
            "{} has {} more such lines",
            path.display(),
            broken - FAULTS_MAX
        );
        section.error(name, Problem::new(problem));
    }
    None
}
