//! The key of the key log: the file of secrets, and whose they are.

use options::row::{path, text};
use options::{Field, nearest, section, table};
use proxy::options::{FrontTls, ServiceOptions};

use crate::settings::KeyLogOptions;
use crate::shelf::Shelf;

section! {
    table("process.key-log")
        .absent("no secret is written").shorthand("path")
        .example(r#"key-log = { path = "/run/lariat/keys.log", services = ["web"] }"#);
    /// Writes the secrets of connections to a file, to read what was captured of them
    /// (`SSLKEYLOGFILE`, RFC 9850; Wireshark), while a fault is searched for: a reader of the file
    /// decrypts them all.
    pub(crate) struct WrittenKeyLog<'a> {
        /// The file, to whose end lines are added. The supervisor makes it with mode 0600, writes
        /// to none that others may read, and through no symbolic link. What a full or slow disk
        /// does not take is dropped and counted.
        path: String = path().flag("key-log").example(r#"path = "/run/lariat/keys.log""#),
        /// The services whose connections are meant, with clients and with servers.
        services: Vec<String> = text("NAME")
            .many().absent("all services").flag("key-log-service")
            .example(r#"services = ["web"]"#),
    }
}

/// Reads `process.key-log`, and marks the services.
#[allow(clippy::option_option, reason = "left out and reported are two things")]
pub(crate) fn key_log_options(
    written: Option<&WrittenKeyLog<'_>>,
    services: &mut [ServiceOptions],
    shelf: &Shelf<'_>,
) -> Option<Option<KeyLogOptions>> {
    let Some(keys) = written else {
        return Some(None);
    };
    let chosen = names(&keys.services, services)?;
    for service in services.iter_mut().filter(|one| chosen.contains(&one.name)) {
        mark(service);
    }
    let message = format!(
        "writes the secrets of all connections of {}: a reader of them decrypts what was captured",
        chosen.join(", ")
    );
    keys.at.warn(message, "take it out, and remove the file, when the fault is found");
    let path = shelf.base.join(keys.path.value.as_ref()?);
    Some(Some(KeyLogOptions { path, services: chosen }))
}

fn names(written: &Field<'_, Vec<String>>, services: &[ServiceOptions]) -> Option<Vec<String>> {
    let all: Vec<_> = services.iter().map(|one| one.name.clone()).collect();
    let named = written.value.clone()?;
    if named.is_empty() {
        return Some(all);
    }
    let Some(unknown) = named.iter().find(|name| !all.contains(name)) else {
        return Some(named);
    };
    let message = format!("\"{}\" is no service", unknown.escape_debug());
    match nearest(unknown, all.iter().map(String::as_str)) {
        Some(near) => written.fail(message, format!("did you mean \"{near}\"?")),
        None => written.fail(message, "write names of services"),
    }
}

fn mark(service: &mut ServiceOptions) {
    if let FrontTls::Terminate(tls) = &mut service.front.tls {
        tls.key_log = true;
    }
    if let Some(tls) = service.back.servers_mut().and_then(|one| one.tls.as_mut()) {
        tls.client.key_log = true;
    }
}
