//! The demo's server: a small HTTP/1.1 server that shows what reached it.
//!
//! It reads a PROXY header, version 2, before the first request, and tells what that says.

use std::convert::Infallible;
use std::fmt::Write;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use wire::proxy_header::{self, Header, kind};

/// Signature, version, family and length of a version 2 header.
const FIXED_BYTES: usize = 16;

const TITLE: &str = "Lariat terminated TLS for this connection";

/// Serves in a thread of its own until the process ends.
pub(super) fn start(listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve = move || runtime.block_on(accept(listener));
    thread::Builder::new().name("demo server".into()).spawn(serve).map(drop)
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        // A connection that is gone before it was accepted is no reason to stop.
        if let Ok((stream, peer)) = listener.accept().await {
            tokio::spawn(serve(stream, peer));
        }
    }
}

async fn serve(mut stream: TcpStream, peer: SocketAddr) {
    let Ok(facts) = read_header(&mut stream, peer).await else {
        return;
    };
    let service = service_fn(|request| {
        let response = answer(&request, &facts);
        async { Ok::<_, Infallible>(response) }
    });
    // A client that leaves early misses the rest.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

/// Facts that the server knows of a connection, as pairs of a name and a value.
type Facts = Vec<(&'static str, String)>;

async fn read_header(stream: &mut TcpStream, peer: SocketAddr) -> io::Result<Facts> {
    let mut bytes = vec![0; FIXED_BYTES];
    stream.read_exact(&mut bytes).await?;
    let length = bytes.last_chunk().copied().map_or(0, u16::from_be_bytes);
    let mut rest = vec![0; usize::from(length)];
    stream.read_exact(&mut rest).await?;
    bytes.append(&mut rest);
    let parsed = proxy_header::read(&bytes).map_err(|_| io::ErrorKind::InvalidData)?;
    let parsed = parsed.ok_or(io::ErrorKind::InvalidData)?;
    Ok(facts(&parsed.header, peer))
}

fn facts(header: &Header<'_>, peer: SocketAddr) -> Facts {
    let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let address = |address: Option<SocketAddr>| {
        address.map_or_else(|| "-".to_owned(), |address| address.to_string())
    };
    let mut facts = vec![
        ("Client", address(header.addresses.source())),
        ("Connected to", address(header.addresses.destination())),
        ("Server name", text(header.tlvs.authority())),
    ];
    if let Some(tls) = header.tlvs.ssl() {
        let field = |kind| text(tls.text(kind));
        facts.push(("TLS", field(kind::SSL_VERSION)));
        facts.push(("Cipher suite", field(kind::SSL_CIPHER)));
        facts.push(("Our key", field(kind::SSL_KEY_ALG)));
    }
    let protocol = header.tlvs.find(kind::ALPN).and_then(|name| std::str::from_utf8(name).ok());
    facts.push(("Protocol (ALPN)", text(protocol)));
    facts.push(("We were dialled by", peer.to_string()));
    facts
}

fn answer(request: &Request<Incoming>, facts: &Facts) -> Response<Full<Bytes>> {
    let browser = request
        .headers()
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"));
    let plain = "text/plain; charset=utf-8";
    let (status, kind, body) = match request.uri().path() {
        "/" if browser => (StatusCode::OK, "text/html; charset=utf-8", page(facts)),
        "/" => (StatusCode::OK, plain, text(facts)),
        "/1k" => (StatusCode::OK, plain, filler(1 << 10)),
        "/64k" => (StatusCode::OK, plain, filler(64 << 10)),
        _ => (StatusCode::NOT_FOUND, plain, "404: there are /, /1k and /64k\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn text(facts: &Facts) -> String {
    let mut text = format!("{TITLE}.\n\n");
    for (name, value) in facts {
        let _ = writeln!(text, "  {name:<20}{value}");
    }
    text
}

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:16px/1.6 system-ui,sans-serif;max-width:36rem;margin:12vh auto;padding:0 1.5rem}\
h1{font-size:1.5rem;font-weight:600}\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.4rem 1.5rem}\
dt{opacity:.65}dd{margin:0;font-family:ui-monospace,monospace;overflow-wrap:anywhere}";

fn page(facts: &Facts) -> String {
    let mut page = format!(
        "<!doctype html><html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">\
         <title>Lariat</title><style>{STYLE}</style>\
         <h1>{TITLE}</h1><p>This is what the server behind it saw:</p><dl>"
    );
    for (name, value) in facts {
        let _ = write!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(value));
    }
    page.push_str("</dl></html>\n");
    page
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Lines of 64 bytes.
fn filler(bytes: usize) -> String {
    let line = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ.\n";
    line.repeat(bytes / line.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fillers_are_as_long_as_they_say() {
        assert_eq!(filler(1 << 10).len(), 1024);
        assert_eq!(filler(64 << 10).len(), 65_536);
    }

    #[test]
    fn a_page_holds_no_markup_of_clients() {
        let facts = vec![("Server name", "<script>".to_owned())];
        assert!(!page(&facts).contains("<script>"));
    }
}
