//! Prepares and observes a load for `lariat-lab load`.
//!
//! The load itself is the crate `load`'s. [`PlanFile`] reads a file of settings, [`resolve`]
//! resolves a name to addresses once before the load begins, `live` makes a line per second, `view`
//! fills a terminal, `metrics` serves Prometheus, and `destination` writes the files.

pub(crate) mod destination;
pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod view;

use std::fs;
use std::io::{self, Read};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use load::ech::EchOption;
use load::options::TABLE;
use options::{Kind, Node, Report, Value, document};
use wire::address::{Address, Endpoint};

/// The address that is loaded, and the name's other addresses, which are not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct ResolvedAddress {
    pub(crate) address: Address,
    pub(crate) others: Vec<SocketAddr>,
}

/// Resolves the endpoint once before the load, so that lookups are not measured. The error is a
/// text for people.
pub(crate) fn resolve(endpoint: &Endpoint) -> Result<ResolvedAddress, String> {
    let (host, port) = match endpoint {
        Endpoint::Address(address) => {
            return Ok(ResolvedAddress { address: address.clone(), others: Vec::new() });
        }
        Endpoint::Name { host, port } => (host.as_str(), *port),
        Endpoint::Service { .. } => return Err("it stands for several servers".to_owned()),
    };
    let mut found: Vec<SocketAddr> = Vec::new();
    for address in (host, port).to_socket_addrs().map_err(|error| error.to_string())? {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    let mut found = found.into_iter();
    let first = found.next().ok_or("it has no address")?;
    Ok(ResolvedAddress { address: Address::Ip(first), others: found.collect() })
}

pub(crate) struct PlanFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl PlanFile {
    /// Opens the file, or returns why it cannot be read.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let shown = path.display().to_string();
        let text = String::from_utf8(read(path)?).map_err(|_| format!("{shown} is no text"))?;
        Ok(Self { path: shown, text })
    }

    /// Returns the file's options, with relative paths resolved from the working directory. `None`
    /// if the file is no TOML, which has been reported.
    pub(crate) fn root(&self, report: &Report<'_>) -> Option<Node> {
        let mut root = options::flags::retyped(document::parse(&self.text, report)?, &TABLE);
        let directory = Path::new(&self.path).parent();
        if let (Some(directory), Value::Table(entries)) = (directory, &mut root.value) {
            for entry in entries {
                let key = TABLE.find(&entry.key);
                if let (Some(Kind::Path), Value::Text(text)) =
                    (key.map(|key| key.kind), &mut entry.node.value)
                    && !["", "none", "-"].contains(&text.as_str())
                    && EchOption::written_out(text).is_none()
                {
                    *text = directory.join(&text).display().to_string();
                }
            }
        }
        Some(root)
    }
}

/// Limit of a file's size, 64 MiB; a larger one is a mistake.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads a file's bytes, up to the limit, because a device may never end.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    bounded(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Reads a file's text, up to the limit.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(bounded(path)?).map_err(|_| io::Error::other("it is no text"))
}

fn bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let taken = fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if taken as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it is larger than 64 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_a_name() {
        let ResolvedAddress { address, others } = resolve(&"localhost:7".parse().unwrap()).unwrap();
        let Address::Ip(address) = address else {
            panic!("a name is of no Unix socket");
        };
        assert!(address.ip().is_loopback() && address.port() == 7);
        assert!(!others.contains(&address));
    }

    fn faults(path: &str, text: &str) -> String {
        let file = PlanFile { path: path.to_owned(), text: text.to_owned() };
        let report = Report::new(Some((&file.path, &file.text)));
        let root = file.root(&report).expect("a TOML file");
        let _ = load::options::read(&root, &read, &[0, 1], &report);
        let told = report.into_diagnostics().into_iter();
        told.map(|one| format!("{one}\n")).collect()
    }

    #[test]
    fn every_value_is_read_before_anything_is_said() {
        let told = faults(
            "p.toml",
            "url = \"localhost\"\nrate = \"much\"\nhandshake = \"sesion-id\"\n\
             suites = [\"TLS_AES_128_GCM_SHA265\"]\nearly-data = \"x\"\ncount = 0\n\
             raet = 5\nseed = [1]\nsteps = [[1]]\n",
        );
        for line in [
            "url: \"localhost\" is not a URL that begins with https:// or http://",
            "rate: \"much\" is not a rate: transactions a second",
            "hint: for example: rate = 500",
            "hint: did you mean \"session-id\"?",
            "hint: did you mean \"TLS_AES_128_GCM_SHA256\"?",
            "early-data: is a string, but `true` or `false` is wanted",
            "count: is out of range: 1 to ",
            "unknown key `raet`",
            "hint: did you mean `rate`?",
            "seed: is a list, but one value is wanted",
            "steps: is a list, but one value is wanted",
        ] {
            assert!(told.contains(line), "{line} in {told}");
        }
    }

    #[test]
    fn paths_begin_at_the_file() {
        let file = PlanFile {
            path: "plans/a.toml".to_owned(),
            text: "ca = \"ca.pem\"\nrecord = \"none\"\nbody-file = \"/b\"".to_owned(),
        };
        let root = file.root(&Report::new(None)).unwrap();
        let texts = ["ca", "record", "body-file"].map(|key| root.get(key).unwrap().texts());
        assert_eq!(texts, [["plans/ca.pem"], ["none"], ["/b"]]);
    }

    #[test]
    fn the_examples_are_plans() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/load");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(faults(path.to_str().unwrap(), &text), "");
            count += 1;
        }
        assert!(count >= 3, "{count}");
    }
}
