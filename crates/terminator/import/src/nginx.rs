//! Files of nginx: the blocks `stream` and `http`, whose servers become services.

mod hosts;
mod listen;
mod names;
mod process;
mod section;
mod server;
mod servers;
mod sockets;
mod syntax;
mod tls;

use std::path::{Path, PathBuf};

use crate::draft::DraftTable;
use crate::import::Importer;
use crate::meanings;
use crate::predecessor::Predecessor;
use process::NginxProcess;
use section::NginxSection;
use sockets::Sockets;
use syntax::{NginxDirective, NginxReader};

/// Reads files of nginx into a draft.
pub(crate) fn read(import: &mut Importer<'_>, paths: &[PathBuf]) {
    let main = paths.first().map_or_else(|| Path::new(""), PathBuf::as_path);
    let mut reader = NginxReader::new(main);
    let all: Vec<_> = paths.iter().flat_map(|path| reader.read(import, path, None)).collect();
    if import.is_faulty() {
        return;
    }
    let mut process = NginxProcess::default();
    let mut sections = Vec::new();
    // A file that `http` or `stream` includes has servers outside of all blocks.
    let (loose, all): (Vec<_>, Vec<_>) = all.into_iter().partition(is_of_section);
    if !loose.is_empty() {
        let is_stream = |one: &NginxDirective| {
            let names = one.block.iter().flatten().map(|inner| inner.written.option.as_str());
            names.into_iter().any(|name| ["proxy_pass", "ssl_preread"].contains(&name))
        };
        let is_http = !loose.iter().any(is_stream);
        sections.push(NginxSection::gather(import, &reader.root, loose, is_http));
    }
    for NginxDirective { written, block } in all {
        match (written.option.as_str(), block) {
            ("http" | "stream", Some(block)) => {
                let is_http = written.option == "http";
                import.mapped(&written, "services");
                sections.push(NginxSection::gather(import, &reader.root, block, is_http));
            }
            ("events", Some(block)) => {
                import.mapped(&written, "workers and limits");
                block.into_iter().for_each(|one| process.take(import, &reader.root, one));
            }
            (_, block) => process.take(import, &reader.root, NginxDirective { written, block }),
        }
    }
    let place = import.place();
    process.finish(import, &place);
    for section in &sections {
        let place = section.servers.first().map_or(&place, |server| &server.written.place);
        let servers = section.servers.iter();
        let own: usize = servers.map(|one| one.options.len() + one.listens.len()).sum();
        // Servers have the options around them.
        let shared = section.options.len().saturating_mul(section.servers.len());
        if !import.take_options(own.saturating_add(shared), place) {
            return;
        }
    }
    let sockets = Sockets::of(&sections);
    for (number, section) in sections.iter().enumerate() {
        server::write_all(section, number, &sockets, import, &place);
    }
    let logs = sections.iter().any(NginxSection::logs_connections);
    let kind = if logs { "access_log" } else { "stream without access_log" };
    let defaults = meanings::defaults_of(Predecessor::Nginx).iter();
    import.defaults(defaults.filter(|one| one.of == kind), &place, &mut DraftTable::default());
}

fn is_of_section(one: &NginxDirective) -> bool {
    let names = ["map", "server", "upstream"];
    names.contains(&one.written.option.as_str()) && one.block.is_some()
}
