//! The request of an `http` check, and the names in it.

use std::net::IpAddr;

use backend::options::{HttpCheck, HttpMethod};
use wire::address::{Address, Endpoint, without_zone};

/// The value of the `Host` field for a server: a Unix socket has no host, and what HTTP client
/// there is says `localhost` then.
pub(super) fn host_of(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Address(Address::Unix(_)) => "localhost".to_owned(),
        Endpoint::Service { host, .. } => host.clone(),
        other => without_zone(&other.to_string()),
    }
}

/// The name that a `Host` field has for SNI: no port, and no address (RFC 6066 section 3).
pub(super) fn server_name(host: &str) -> Option<String> {
    let is_address = |text: &str| text.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    (!is_address(host) && !is_address(name)).then(|| name.to_owned())
}

/// A request for one path, after whose answer the connection ends.
pub(super) fn request(check: &HttpCheck, host: &str) -> Vec<u8> {
    let agent = concat!("lariat-check/", env!("CARGO_PKG_VERSION"));
    let path = &check.path;
    let (method, length) = match check.method {
        HttpMethod::Get => ("GET", ""),
        HttpMethod::Head => ("HEAD", ""),
        HttpMethod::Options => ("OPTIONS", ""),
        HttpMethod::Post => ("POST", "Content-Length: 0\r\n"),
    };
    format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\
         {length}Connection: close\r\n\r\n"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_whole() {
        let check = HttpCheck::of("/health?a=b");
        let request = String::from_utf8(request(&check, "app.example:80")).unwrap();
        assert!(request.starts_with("GET /health?a=b HTTP/1.1\r\nHost: app.example:80\r\n"));
        assert!(request.ends_with("\r\nConnection: close\r\n\r\n"));
    }

    #[test]
    fn a_host_names_a_server_unless_it_is_an_address() {
        for (host, name) in [
            ("db.example:8008", Some("db.example")),
            ("db.example", Some("db.example")),
            ("10.0.0.3:8008", None),
            ("[::1]:8008", None),
            ("::1", None),
        ] {
            assert_eq!(server_name(host).as_deref(), name, "{host}");
        }
    }
}
