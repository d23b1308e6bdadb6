//! `lariat check`: everything short of opening sockets.

use std::sync::Arc;

use config::{Disk, Loaded, Source};
use proxy::plan::Plan;
use tls::resumption::{Resumption, ResumptionOptions};

use crate::console::{Console, print};
use crate::exit::Exit;
use crate::kernel::KernelTls;
use crate::preflight;
use crate::reader::ConfigSource;
use crate::user;

pub(super) fn run(config: &ConfigSource, console: Console) -> Exit {
    let Some(Checked {
        source,
        loaded,
        kernel_tls,
    }) = load(config, console)
    else {
        return Exit::Usage;
    };
    console.diagnostics(&loaded.warnings);
    let summary = summary(&loaded);
    let services = loaded.settings.plane.services.len();
    let note = kernel_note(&source, kernel_tls.as_ref(), services);
    match Plan::build(loaded.settings.plane, &idle_resumption()) {
        Ok((_, warnings)) => {
            warnings.iter().for_each(|warning| console.warn(warning));
            print(format_args!("{}: good: {summary}\n{note}", name(config)));
            Exit::Success
        }
        Err(error) => {
            console.error(error);
            Exit::Usage
        }
    }
}

/// A configuration that this host can serve, as far as can be told without opening sockets.
struct Checked {
    source: Source,
    loaded: Loaded,
    kernel_tls: Option<KernelTls>,
}

fn load(config: &ConfigSource, console: Console) -> Option<Checked> {
    let source = match config {
        ConfigSource::File(path) => Source::read(path, &mut Disk),
        ConfigSource::Flags(flags) => Ok(Source::Flags(flags.clone())),
    };
    let loaded = source.and_then(|source| {
        let mut loaded = config::load(&source, &mut Disk)?;
        preflight::check(&source, &loaded.settings)?;
        // Who it will be that cannot be found out is told when serving.
        if let Ok(chosen) = user::choose(&loaded.settings.process) {
            let concerns = preflight::concerns(&source, &loaded.settings, user::identity(chosen));
            loaded.warnings.extend(concerns);
        }
        let kernel_tls = KernelTls::try_for(&loaded.settings);
        if let Some(kernel_tls) = &kernel_tls {
            kernel_tls.check(&source, &loaded.settings)?;
        }
        Ok(Checked {
            source,
            loaded,
            kernel_tls,
        })
    });
    loaded
        .map_err(|diagnostics| console.diagnostics(&diagnostics))
        .ok()
}

/// What the kernel does of TLS, for those who wrote that they want it.
fn kernel_note(source: &Source, kernel_tls: Option<&KernelTls>, services: usize) -> String {
    let is_asked = |number| config::is_written(source, &format!("service.{number}.front.tls.ktls"));
    match kernel_tls.filter(|_| (0..services).any(is_asked)) {
        Some(kernel_tls) => format!("kernel TLS: {kernel_tls}\n"),
        None => String::new(),
    }
}

fn name(config: &ConfigSource) -> String {
    match config {
        ConfigSource::File(path) => path.display().to_string(),
        ConfigSource::Flags(_) => "flags".to_owned(),
    }
}

/// No session will ever be stored in it, so its secret may be known.
fn idle_resumption() -> Arc<Resumption> {
    Arc::new(Resumption::new(&ResumptionOptions::new([0; 32])))
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
            sum(|service| {
                let tls = service.front.terminated();
                tls.map_or(0, |tls| tls.certificates.len())
            }),
            "certificate",
            "certificates",
        ),
        counted(
            sum(|service| service.back.server_list().len()),
            "server",
            "servers",
        ),
    ];
    let folders = sum(|service| usize::from(service.back.folder().is_some()));
    let folders = (folders > 0).then(|| counted(folders, "folder", "folders"));
    let parts: Vec<_> = parts.into_iter().chain(folders).collect();
    parts.join(", ")
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
