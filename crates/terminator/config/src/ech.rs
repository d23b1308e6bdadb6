//! Keys of encrypted hellos (ECH): `[ech]`.

use std::time::Duration;

use options::quantity::DAY;
use options::row::{duration, parsed, path, text};
use options::{Kind, section, table};
use proxy::options::{EchOptions, FrontTls, ServiceOptions};
use proxy::routes::NamePattern;
use tls::ech::{EchKeySource, ListedEchKey};
use tls::resumption::keys::SharedSecret;
use wire::address::Address;

use crate::resolver::FileResolver;
use crate::resumption::shared_secret;

const HOUR: Duration = Duration::from_secs(3600);

section! {
    table("ech").group("Encrypted Client Hello")
        .absent("encrypted hellos are routed by their outer names")
        .example(r#"ech = { public-name = "front.example", services = ["shop"] }"#);
    /// Opens encrypted hellos (ECH, RFC 9849), and routes them by the name within. See
    /// docs/guide/ech.md.
    pub(crate) struct WrittenEch<'a> {
        /// The name that encrypted hellos have in clear. A service at the same addresses must
        /// answer for it.
        public_name: NamePattern = parsed(Kind::Text("NAME"))
            .example(r#"public-name = "front.example""#),
        /// The services that encrypted hellos alone lead to, all with `front.tls = "passthrough"`.
        services: Vec<String> = text("SERVICE").many().example(r#"services = ["shop", "mail"]"#),
        /// How long a key is published.
        rotate: Duration = duration(HOUR, DAY.saturating_mul(90))
            .default("7d").example(r#"rotate = "24h""#),
        /// A file with at least 32 random bytes from which keys are derived.
        secret: Option<String> = path()
            .absent("`cluster.secret`").example(r#"secret = "/etc/lariat/ech.secret""#),
        /// Files with a key and its configuration each (`PRIVATE KEY` and `ECHCONFIG`), as of
        /// OpenSSL.
        keys: Vec<String> = path()
            .many().absent("keys are derived and rotated")
            .example(r#"keys = ["/etc/lariat/ech.pem"]"#),
    }
}

pub(crate) fn ech_options(
    written: &WrittenEch<'_>,
    cluster: Vec<SharedSecret>,
    services: &[ServiceOptions],
    resolver: &mut FileResolver<'_>,
) -> Option<EchOptions> {
    let public_name = match written.public_name.value.as_ref()? {
        NamePattern::Exact(name) => name.to_string(),
        NamePattern::Beneath(_) => {
            let hint = "one name, for which a service here has a certificate";
            return written.public_name.fail("is more than one name", hint);
        }
    };
    let keys = key_source(written, cluster, resolver);
    let hidden = written.services.value.clone()?;
    for name in &hidden {
        can_be_hidden(written, name, &public_name, &hidden, services)?;
    }
    if let Some(inspector) = resolver.inspector {
        let name = [NamePattern::Exact(public_name.as_str().into())];
        // Services with names are checked by their names.
        let others = services.iter().filter(|one| one.front.names.is_empty());
        let is_beside = |one: &&ServiceOptions| shares_address(one, &hidden, services);
        for service in others.filter(is_beside) {
            inspector.names(&written.public_name, &service.front, &name);
        }
    }
    Some(EchOptions { public_name, keys: keys?, services: hidden })
}

/// Whether a service listens at an address where encrypted hellos are decrypted.
fn shares_address(service: &ServiceOptions, hidden: &[String], all: &[ServiceOptions]) -> bool {
    let hidden = all.iter().filter(|one| hidden.contains(&one.name));
    let mut addresses = hidden.flat_map(|one| &one.front.listen);
    addresses.any(|address| service.front.listen.contains(address))
}

fn key_source(
    written: &WrittenEch<'_>,
    cluster: Vec<SharedSecret>,
    resolver: &mut FileResolver<'_>,
) -> Option<EchKeySource> {
    let secret = &written.secret;
    if written.keys.is_written() {
        if secret.is_written() {
            return secret.fail("is one way to keys, `keys` is another", "write one of them");
        }
        let message = "has no effect on keys from files";
        written.rotate.warn_unless(false, message, "replace the files, then reload");
        return listed(written, resolver);
    }
    let secrets = match secret.value.as_ref()? {
        Some(path) => vec![shared_secret(secret, path, resolver)?],
        None if cluster.is_empty() => {
            let message = "is missing, and so are `keys` and `cluster.secret`";
            let hint = "DNS publishes keys of ECH, so that they have to outlive a restart: \
                        `openssl rand -base64 48` makes a secret";
            return secret.fail(message, hint);
        }
        None => cluster,
    };
    Some(EchKeySource::Derived { secrets, rotate_seconds: written.rotate.value?.as_secs() })
}

fn listed(written: &WrittenEch<'_>, resolver: &mut FileResolver<'_>) -> Option<EchKeySource> {
    let place = &written.keys;
    let mut keys = Vec::new();
    for path in place.value.as_ref()? {
        let (path, bytes) = resolver.secret(place, path)?;
        match ListedEchKey::read(&bytes) {
            Ok(key) => keys.push(key),
            Err(fault) => {
                let message = format!("{} {fault}", path.display());
                let hint = "`openssl ech` of OpenSSL 4 makes such a file";
                return place.fail(message, hint);
            }
        }
    }
    Some(EchKeySource::Listed(keys))
}

/// Checks that the service can receive encrypted hellos, and that another one receives the clients
/// whose hellos cannot be decrypted.
fn can_be_hidden(
    written: &WrittenEch<'_>,
    name: &str,
    public_name: &str,
    hidden: &[String],
    services: &[ServiceOptions],
) -> Option<()> {
    let place = &written.services;
    let Some(service) = services.iter().find(|one| one.name == name) else {
        return place.fail(format!("names \"{name}\", which is no service"), "take it out");
    };
    if service.front.tls != FrontTls::Passthrough {
        let message = format!("names `{name}`, which does not keep TLS closed");
        let hint = "an inner hello can be relayed and not terminated: write front.tls = \
                    \"passthrough\", with servers that accept it";
        return place.fail(message, hint);
    }
    let answers = |one: &ServiceOptions| {
        let is_exact = |name: &NamePattern| *name == NamePattern::Exact(public_name.into());
        let names = &one.front.names;
        !hidden.contains(&one.name) && (names.is_empty() || names.iter().any(is_exact))
    };
    let is_answered = |address: &&Address| {
        let at = services.iter().filter(|one| one.front.listen.contains(address));
        !address.is_ephemeral() && at.into_iter().any(answers)
    };
    if let Some(address) = service.front.listen.iter().find(|address| !is_answered(address)) {
        let message = format!("names `{name}`, and no service at {address} is for {public_name}");
        let hint = "clients whose hellos cannot be opened go to that name: add a service with a \
                    certificate of it at the same address";
        return place.fail(message, hint);
    }
    Some(())
}
