//! Keys of monitoring: the status page, the metrics and the status socket.

use std::net::SocketAddr;

use options::row::{boolean, path, row};
use options::{Field, Key, Kind, Problem, Value, section, table};
use sys::socket::AddressWithZone;
use wire::address::{Address, UNIX_NAME_BYTES_MAX};

use crate::log::{self, WrittenLog};
use crate::resolver::FileResolver;
use crate::settings::{AdminToken, ControlOptions};

section! {
    table("admin").absent("").example(r#"admin = { listen = "127.0.0.1:9090" }"#);
    /// The status page, the metrics and the status socket.
    pub(crate) struct WrittenAdmin<'a> {
        /// The address of the status page and `/metrics`, over plain HTTP. One that is not loopback
        /// needs `token` or `insecure`.
        listen: Option<SocketAddr> = row(Kind::Address, admin_address)
            .absent("off").flag("admin").example(r#"listen = "127.0.0.1:9090""#),
        /// Host names that requests may be for, beside `localhost` and IP addresses.
        hosts: Vec<String> = row(Kind::Text("HOST"), host_name)
            .many().absent("none").flag("admin-hosts").example(r#"hosts = ["lariat.internal"]"#),
        /// A file with 16 or more visible ASCII characters, which requests must carry, unencrypted,
        /// as bearer token or as password of the user `lariat`.
        token: Option<String> = path()
            .absent("none is asked for").flag("admin-token")
            .example(r#"token = "/etc/lariat/admin.token""#),
        /// Whether other hosts may reach `listen` without a token.
        insecure: bool = boolean()
            .default("false").flag("admin-insecure").example("insecure = true"),
        /// The Unix socket for `lariat status`, `reload` and `drain`. `/tmp/lariat-UID/` (or in
        /// `$TMPDIR`) is made with mode 0700, and must be that user's.
        status_socket: Option<String> = row(Kind::Path, socket_path)
            .absent("`/run/lariat/status.sock` as root, else in `$XDG_RUNTIME_DIR/lariat/`, \
             else in `/tmp/lariat-UID/`")
            .flag("status-socket").example(r#"status-socket = "/run/lariat/status.sock""#),
    }
}

/// Reads `[admin]`, and the destinations of log and messages.
pub(crate) fn control_options(
    admin: &WrittenAdmin<'_>,
    log: &WrittenLog<'_>,
    resolver: &mut FileResolver<'_>,
) -> Option<ControlOptions> {
    let token = admin_token(&admin.token, resolver);
    let (listen, token) = (admin.listen.value?, token?);
    for place in [&*admin.hosts, &*admin.token, &*admin.insecure] {
        let message = "has no effect: `admin.listen` names no address";
        let hint = "add listen = \"127.0.0.1:9090\", or take it out";
        place.warn_unless(listen.is_some(), message, hint);
    }
    if let Some(address) = listen
        && !address.ip().is_loopback()
        && token.is_none()
        && !admin.insecure.value?
    {
        let message = format!("{address} may be reached by other hosts");
        let hint = "name a file with a token in `admin.token`, or write `insecure = true` if a \
                    firewall keeps others away";
        return admin.listen.fail(message, hint);
    }
    let outputs = log::outputs(log, resolver)?;
    let status_socket = admin.status_socket.value.clone()?;
    let status_socket = status_socket.map(|path| resolver.base.join(path));
    let length = status_socket.as_ref().map_or(0, |path| path.as_os_str().len());
    if length > UNIX_NAME_BYTES_MAX {
        let message =
            format!("has {length} bytes as a full path, of at most {UNIX_NAME_BYTES_MAX}");
        return admin.status_socket.fail(message, "choose a shorter path for the socket");
    }
    Some(ControlOptions {
        status_socket,
        listen,
        hosts: admin.hosts.value.clone()?,
        token,
        log: outputs.connections,
        messages: outputs.message_form,
        messages_daemon: outputs.messages,
    })
}

fn admin_token(
    key: &Field<'_, Option<String>>,
    resolver: &mut FileResolver<'_>,
) -> Option<Option<AdminToken>> {
    let Some(path) = key.value.as_ref()? else { return Some(None) };
    let (path, content) = resolver.secret(key, path)?;
    let token = AdminToken::read(&content);
    if token.is_none() {
        let (least, most) = (AdminToken::CHARACTERS.start(), AdminToken::CHARACTERS.end());
        let path = path.display();
        let message = format!("{path} does not hold {least} to {most} visible ASCII characters");
        key.refuse(message, "make one with `openssl rand -hex 32`");
    }
    token.map(Some)
}

/// Reads the socket's path; a successor replaces the socket by renaming.
fn socket_path(value: &Value, _: &Key) -> Result<String, Problem> {
    let path = options::as_text(value)?;
    if path.starts_with('@') || path.starts_with("unix:") {
        let problem = Problem::new("is a path in the file system, without \"unix:\" or \"@\"");
        return Err(problem.hint("for example /run/lariat/status.sock"));
    }
    Ok(path.to_owned())
}

/// Reads a host name as in requests, without a port.
fn host_name(value: &Value, key: &Key) -> Result<String, Problem> {
    let message = match value {
        Value::Text(text) if !text.is_empty() && !text.contains([':', '/', '*', ' ']) => {
            return Ok(text.strip_suffix('.').unwrap_or(text).to_owned());
        }
        Value::Text(text) => format!("\"{text}\" is no host name"),
        other => format!("is {}", other.kind()),
    };
    Err(Problem::new(message).hint(key.for_example()))
}

fn admin_address(value: &Value, key: &Key) -> Result<SocketAddr, Problem> {
    let Value::Text(text) = value else {
        return Err(Problem::new(format!("is {}", value.kind())).hint(key.for_example()));
    };
    let message = match text.parse().map(|AddressWithZone(address)| address) {
        Ok(Address::Ip(address)) => return Ok(address),
        Ok(Address::Unix(_)) => "is a Unix socket, but an IP address is wanted".to_owned(),
        Ok(Address::Inherited(_)) => {
            "is a name: a socket that is handed over for it is known by its address".to_owned()
        }
        Err(error) => format!("\"{text}\" {error}"),
    };
    Err(Problem::new(message).hint(key.for_example()))
}
