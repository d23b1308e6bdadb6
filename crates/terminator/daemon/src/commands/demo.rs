//! `lariat demo`: the whole thing at work, without a file or an argument.
//!
//! Makes certificates, a directory and a small HTTP/1.1 server, and hands the rest to the
//! supervisor that `serve` runs.

use std::convert::Infallible;
use std::fmt::Write;
use std::fs::{self, DirBuilder};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, RsaKeySize, SanType, date_time_ymd,
};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use wire::address::Address;
use wire::proxy_header::{self, Header, kind};

use super::console::{Console, Exit};
use super::serve::end_of;
use crate::reader::ConfigSource;
use crate::supervisor::{self, Failure, ServingFacts};

#[derive(Clone, Copy, Debug)]
pub(crate) struct DemoOptions {
    pub(crate) listen: SocketAddr,
    /// The address of the status page; `None` = the usual port, or another if that is taken.
    pub(crate) admin: Option<SocketAddr>,
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

pub(crate) fn run(options: DemoOptions, console: Console) -> Exit {
    match set_up(options) {
        Ok((stage, server)) => serve(options, &stage, server, console),
        Err(error) => {
            console.error(format_args!("cannot set up the demo: {error:#}"));
            Exit::Failed
        }
    }
}

fn set_up(options: DemoOptions) -> anyhow::Result<(DemoDirectory, TcpListener)> {
    let server = TcpListener::bind(loopback(0))?;
    let stage = DemoDirectory::new().map_err(no_room)?;
    for (name, text) in make_certificates(options.listen.ip())? {
        stage.write(name, &text)?;
    }
    let text = configuration(options, server.local_addr()?);
    stage.write("lariat.toml", &text)?;
    Ok((stage, server))
}

fn no_room(error: io::Error) -> anyhow::Error {
    let folder = std::env::temp_dir();
    let folder = folder.display();
    anyhow::anyhow!(
        "cannot make a directory in {folder}: {error}\n\
         hint: have TMPDIR name one that exists and is writable: `TMPDIR=/dev/shm lariat demo`"
    )
}

fn configuration(options: DemoOptions, server: SocketAddr) -> String {
    let admin = options.admin.unwrap_or_else(free_admin_address);
    let listen = options.listen;
    // Nothing here is anybody's.
    let insecure = !admin.ip().is_loopback();
    format!(
        r#"# What `lariat demo` serves.
[[service]]
name = "demo"
front = {{ listen = ["{listen}"], tls = {{ certificates = ["ecdsa.pem", "rsa.pem"], alpn = ["http/1.1"] }} }}
back = {{ servers = ["{server}"], send-proxy = "v2" }}

[admin]
listen = "{admin}"
insecure = {insecure}
status-socket = "status.sock"

[limits]
connections = 400

[process]
drain = "1s"
"#
    )
}

/// The usual port of the status page, if nobody has it. The demo must not fail for its second
/// port; should somebody take it in this moment, the supervisor says so.
fn free_admin_address() -> SocketAddr {
    let usual = loopback(8444);
    match TcpListener::bind(usual) {
        Ok(_) => usual,
        Err(_) => loopback(0),
    }
}

fn serve(
    options: DemoOptions,
    stage: &DemoDirectory,
    listener: TcpListener,
    console: Console,
) -> Exit {
    let mut waiting = Some(listener);
    let ended = supervisor::run(supervisor::Request {
        config: ConfigSource::File(stage.path("lariat.toml")),
        started: &mut |started: &ServingFacts| {
            if started.is_reload {
                return;
            }
            // Threads start here, after the supervisor has blocked the signals that it reads.
            match waiting.take().map(start_server) {
                Some(Err(error)) => {
                    console.error(format_args!("the demo server cannot start: {error}"))
                }
                Some(Ok(())) | None => tell(started, options, &stage.directory, console),
            }
        },
        colour: console.colour(),
    });
    let is_taken = matches!(&ended, Err(Failure::Listen(failure))
        if failure.error.kind() == io::ErrorKind::AddrInUse);
    let exit = end_of(ended, console);
    if is_taken {
        console.hint("`lariat demo --listen 127.0.0.1:0` takes a free port");
    }
    exit
}

fn tell(started: &ServingFacts, options: DemoOptions, directory: &Path, console: Console) {
    let address = started.listeners.iter().find_map(|(_, address)| match address {
        Address::Ip(address) => Some(*address),
        Address::Unix(_) | Address::Inherited(_) => None,
    });
    let address = address.unwrap_or(options.listen);
    let url = format!("https://{}:{}", host(address), address.port());
    let authority = directory.join("ca.pem");
    let curl = format!("curl --cacert {}", authority.display());
    let rsa = "--tls-max 1.2 --ciphers ECDHE-RSA-AES128-GCM-SHA256";
    let socket = started.status_socket.display();
    console.say(format_args!(
        "\
lariat terminates TLS at {address} and relays the plaintext to a small server.

See what the server sees (TLS 1.3, and an ECDSA certificate):
    {curl} {url}/

The same address for a client that knows RSA alone:
    {curl} {rsa} {url}/

Some bytes:
    {curl} --output /dev/null {url}/64k

The worker process {}.",
        started.rights
    ));
    if let Some(admin) = started.admin {
        console.say(format_args!("Status page:    http://{admin}/"));
    }
    console.say(format_args!("Status here:    lariat status --status-socket {socket}"));
    console.say(format_args!("Configuration:  {}", directory.join("lariat.toml").display()));
    console.say("Ctrl-C stops it and removes its files. Connections:\n");
}

/// A name that is in the certificates.
fn host(address: SocketAddr) -> String {
    let ip = address.ip();
    match ip {
        _ if ip.is_loopback() || ip.is_unspecified() => "localhost".to_owned(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The validity of certificates: the demo is over long before.
const LIFETIME: Duration = Duration::from_secs(30 * 86_400);

const SLACK: Duration = Duration::from_secs(3600);

/// Makes an authority and two leaves with their keys, all new, for localhost and that address; each
/// with the name of its file.
fn make_certificates(address: IpAddr) -> anyhow::Result<[(&'static str, String); 3]> {
    let authority = authority()?;
    let key = KeyPair::generate()?;
    let pem = authority.self_signed(&key)?.pem();
    let issuer = Issuer::new(authority, key);
    let ecdsa = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
    let rsa = KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048)?;
    Ok([
        ("ca.pem", pem),
        ("ecdsa.pem", leaf(address, &ecdsa, &issuer)?),
        ("rsa.pem", leaf(address, &rsa, &issuer)?),
    ])
}

fn authority() -> anyhow::Result<CertificateParams> {
    let mut params = dated(CertificateParams::default())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, "Lariat demo authority");
    Ok(params)
}

fn leaf(address: IpAddr, key: &KeyPair, issuer: &Issuer<'_, KeyPair>) -> anyhow::Result<String> {
    let mut params = dated(CertificateParams::new(vec!["localhost".to_owned()])?)?;
    let mut addresses = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if !address.is_unspecified() && !addresses.contains(&address) {
        addresses.push(address);
    }
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, "localhost");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(key, issuer)?;
    Ok(format!("{}{}", certificate.pem(), key.serialize_pem()))
}

fn dated(mut params: CertificateParams) -> anyhow::Result<CertificateParams> {
    let now = date_time_ymd(1970, 1, 1) + SystemTime::now().duration_since(UNIX_EPOCH)?;
    params.not_before = now - SLACK;
    params.not_after = now + LIFETIME;
    Ok(params)
}

/// The demo's temporary directory, which only its user may enter, gone when the demo is.
struct DemoDirectory {
    directory: PathBuf,
}

impl DemoDirectory {
    /// Makes it. A directory of that name that is there already is somebody else's: an error.
    fn new() -> io::Result<Self> {
        let name = format!("lariat-demo-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        fs::write(self.path(name), text)
    }
}

impl Drop for DemoDirectory {
    fn drop(&mut self) {
        // What cannot be removed is left to the cleaner of temporary files.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Signature, version, family and length of a version 2 header.
const FIXED_BYTES: usize = 16;

const TITLE: &str = "Lariat terminated TLS for this connection";

/// Starts the demo's server: it shows what reached it, and what the PROXY header before the first
/// request says. It serves in a thread of its own until the process ends.
fn start_server(listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve_client = move || runtime.block_on(accept(listener));
    thread::Builder::new().name("demo server".into()).spawn(serve_client).map(drop)
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        // A connection that is gone before it was accepted is no reason to stop.
        if let Ok((stream, peer)) = listener.accept().await {
            tokio::spawn(serve_client(stream, peer));
        }
    }
}

async fn serve_client(mut stream: TcpStream, peer: SocketAddr) {
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
    let text_page = |text_page: Option<&str>| text_page.unwrap_or("-").to_owned();
    let address = |address: Option<SocketAddr>| {
        address.map_or_else(|| "-".to_owned(), |address| address.to_string())
    };
    let mut facts = vec![
        ("Client", address(header.addresses.source())),
        ("Connected to", address(header.addresses.destination())),
        ("Server name", text_page(header.tlvs.authority())),
    ];
    if let Some(tls) = header.tlvs.ssl() {
        let field = |kind| text_page(tls.text(kind));
        facts.push(("TLS", field(kind::SSL_VERSION)));
        facts.push(("Cipher suite", field(kind::SSL_CIPHER)));
        facts.push(("Our key", field(kind::SSL_KEY_ALG)));
    }
    let protocol = header.tlvs.find(kind::ALPN).and_then(|name| std::str::from_utf8(name).ok());
    facts.push(("Protocol (ALPN)", text_page(protocol)));
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
        "/" => (StatusCode::OK, plain, text_page(facts)),
        "/1k" => (StatusCode::OK, plain, filler(1 << 10)),
        "/64k" => (StatusCode::OK, plain, filler(64 << 10)),
        _ => (StatusCode::NOT_FOUND, plain, "404: there are /, /1k and /64k\n".to_owned()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn text_page(facts: &Facts) -> String {
    let mut text_page = format!("{TITLE}.\n\n");
    for (name, value) in facts {
        let _ = writeln!(text_page, "  {name:<20}{value}");
    }
    text_page
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
    fn the_configuration_is_good() {
        let mut files = config::Recording::default();
        for (name, text) in make_certificates(Ipv4Addr::LOCALHOST.into()).unwrap() {
            files.insert(format!("d/{name}"), text.into_bytes());
        }
        let options = DemoOptions { listen: loopback(8443), admin: Some(loopback(0)) };
        let source = config::TypedConfiguration::of_text(
            "d/lariat.toml",
            configuration(options, loopback(80)),
        );
        let loaded = config::load(&source, &mut files).unwrap();
        assert_eq!(loaded.warnings, []);
        let terminated = loaded.settings.data_plane.services[0].front.terminated();
        assert_eq!(terminated.unwrap().certificates.len(), 2);
    }

    #[test]
    fn hosts_are_names_of_the_certificate() {
        assert_eq!(host(loopback(1)), "localhost");
        assert_eq!(host("0.0.0.0:1".parse().unwrap()), "localhost");
        assert_eq!(host("[2001:db8::1]:1".parse().unwrap()), "[2001:db8::1]");
    }

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
