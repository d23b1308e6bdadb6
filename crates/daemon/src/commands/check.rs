//! `lariat check`: everything short of opening sockets.

use std::sync::Arc;

use config::{Disk, Loaded, Source};
use proxy::plan::Plan;
use tls::resumption::{KeySource, Resumption, ResumptionOptions, TicketOptions};

use crate::exit::Exit;
use crate::ground;
use crate::supervisor::Origin;
use crate::talk::{Talk, print};

pub(super) fn run(origin: &Origin, talk: Talk) -> Exit {
    let Some(loaded) = load(origin, talk) else {
        return Exit::Usage;
    };
    talk.diagnostics(&loaded.warnings);
    let summary = summary(&loaded);
    match Plan::build(loaded.settings.plane, &idle_resumption()) {
        Ok((_, warnings)) => {
            warnings.iter().for_each(|warning| talk.warn(warning));
            print(format_args!("{}: good: {summary}\n", name(origin)));
            Exit::Success
        }
        Err(error) => {
            talk.error(error);
            Exit::Usage
        }
    }
}

fn load(origin: &Origin, talk: Talk) -> Option<Loaded> {
    let source = match origin {
        Origin::File(path) => Source::read(path, &mut Disk),
        Origin::Flags(flags) => Ok(Source::Flags(flags.clone())),
    };
    let loaded = source.and_then(|source| {
        let loaded = config::load(&source, &mut Disk)?;
        ground::check(&source, &loaded.settings)?;
        Ok(loaded)
    });
    loaded
        .map_err(|diagnostics| talk.diagnostics(&diagnostics))
        .ok()
}

fn name(origin: &Origin) -> String {
    match origin {
        Origin::File(path) => path.display().to_string(),
        Origin::Flags(_) => "flags".to_owned(),
    }
}

/// No session will ever be stored in it, so its secret may be known.
fn idle_resumption() -> Arc<Resumption> {
    Arc::new(Resumption::new(&ResumptionOptions {
        secret: [0; 32],
        tickets: TicketOptions {
            keys: KeySource::Own,
            rotate: std::time::Duration::from_secs(3600),
            keep: 1,
            lifetime: None,
            count: 1,
        },
        session_entries: 1,
        session_bytes: 1 << 16,
        session_lifetime: std::time::Duration::from_secs(3600),
    }))
}

fn summary(loaded: &Loaded) -> String {
    let services = &loaded.settings.plane.services;
    let sum = |count: fn(&proxy::options::ServiceOptions) -> usize| -> usize {
        services.iter().map(count).sum()
    };
    let parts = [
        counted(services.len(), "service", "services"),
        counted(
            sum(|service| service.front.listen.len()),
            "address",
            "addresses",
        ),
        counted(
            sum(|service| service.front.tls.certificates.len()),
            "certificate",
            "certificates",
        ),
        counted(
            sum(|service| service.back.server_list().len()),
            "server",
            "servers",
        ),
    ];
    parts.join(", ")
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
