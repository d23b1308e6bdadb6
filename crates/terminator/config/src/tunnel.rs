//! Keys of a proxy between this host and the servers.

use std::sync::Arc;

use options::row::{parsed, path, text};
use options::{Kind, choice, section, table};
use wire::address::{Address, Endpoint};
use wire::tunnel::{SOCKS_TEXT_BYTES_MAX, Tunnel, TunnelLogin, TunnelProtocol};

use crate::resolver::{FileResolver, password};
use crate::settings::Password;

section! {
    table("service.back.tunnel").group("Back")
        .absent("servers are connected to directly").shorthand("to")
        .example(r#"tunnel = { to = "db.example:5432", protocol = "socks5" }"#);
    /// Makes the `servers` proxies, which are asked for a connection to one host.
    pub(crate) struct WrittenTunnel<'a> {
        /// The host behind the proxies, which look up its name.
        to: Endpoint = parsed(Kind::Endpoint)
            .flag("tunnel").example(r#"to = "db.example:5432""#),
        /// `CONNECT` of HTTP/1.1 (RFC 9110, 9.3.6), or SOCKS5 (RFC 1928).
        protocol: TunnelProtocol = choice![
            "http" => TunnelProtocol::HttpConnect,
            "socks5" => TunnelProtocol::Socks5,
        ].default("http").flag("tunnel-protocol")
            .example(r#"protocol = "socks5""#),
        /// The user for the proxies (`Basic`, RFC 7617, or RFC 1929), sent unencrypted.
        user: Option<String> = text("NAME")
            .absent("no login is offered").flag("tunnel-user")
            .example(r#"user = "lariat""#),
        /// The user's password, best as a variable of the environment.
        password: Option<String> = text("TEXT")
            .absent("the one of `password-file`").flag("tunnel-password")
            .example(r#"password = "${PROXY_PASSWORD}""#),
        /// A file with the user's password.
        password_file: Option<String> = path()
            .absent("the one of `password`").flag("tunnel-password-file")
            .example(r#"password-file = "/etc/lariat/proxy.password""#),
    }
}

/// Reads `service.back.tunnel`.
pub(crate) fn tunnel_options(
    written: &WrittenTunnel<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<Arc<Tunnel>> {
    let login = login(written, resolver);
    let (host, port) = match written.to.value.clone()? {
        Endpoint::Address(Address::Ip(address)) => (address.ip().to_string(), address.port()),
        Endpoint::Name { host, port } => (host, port),
        other => {
            let message = format!("{other} is no host that a proxy connects to");
            return written.to.fail(message, "write HOST:PORT");
        }
    };
    if port == 0 {
        return written.to.fail("has port 0, which nobody listens at", "write HOST:PORT");
    }
    let protocol = written.protocol.value?;
    if protocol == TunnelProtocol::Socks5 && host.len() > SOCKS_TEXT_BYTES_MAX {
        return written.to.fail("is too long a name for SOCKS5", "write its IP address");
    }
    Some(Arc::new(Tunnel { protocol, host, port, login: login? }))
}

/// `Some(None)` = none is offered.
fn login(
    written: &WrittenTunnel<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<Option<TunnelLogin>> {
    let of_file = password(&written.password_file, resolver)?;
    let (protocol, user) = (written.protocol.value?, written.user.value.clone()?);
    let place =
        if written.password.is_written() { &written.password } else { &written.password_file };
    let password = match (written.password.value.clone()?, of_file) {
        (Some(_), Some(_)) => {
            let hint = "keep the file alone";
            return written.password.fail("stands beside `password-file`", hint);
        }
        (Some(text), None) => Some(text),
        (None, of_file) => of_file.map(|Password(text)| text.to_string()),
    };
    let Some(user) = user else {
        if password.is_some() {
            return place.fail("is of no `user`", "add user = \"NAME\", or take it out");
        }
        return Some(None);
    };
    let password = password.unwrap_or_default();
    let fits = |text: &str| (1..=SOCKS_TEXT_BYTES_MAX).contains(&text.len());
    let is_clean = |text: &str| !text.contains(char::is_control);
    match protocol {
        TunnelProtocol::Socks5 if !fits(&user) || !fits(&password) => {
            let message = "has a user or a password that SOCKS5 cannot say";
            written.user.fail(message, "each has from 1 to 255 bytes (RFC 1929)")
        }
        TunnelProtocol::HttpConnect if user.contains(':') => {
            written.user.fail("has a colon, which ends it (RFC 7617)", "take it out")
        }
        _ if !is_clean(&user) || !is_clean(&password) => {
            written.user.fail("or its password has a control character", "take it out")
        }
        _ => Some(Some(TunnelLogin { user, password })),
    }
}
