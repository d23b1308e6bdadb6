//! HTTP to an authority: over TLS, to the host of its directory alone, bounded in bytes and time.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::ServerName;
use tls::options::PemSource;
use tls::verify::reason_of;
use tls::verify::server::server_verifier;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::schedule::WAIT_MAX;

/// Bytes of an answer. A chain has ten thousand, a directory two.
const ANSWER_BYTES_MAX: usize = 256 << 10;

/// From the look-up of the name to the last byte of the answer.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(60);

/// Requests at a time to an authority, each of which may need a connection.
const REQUESTS_MAX: usize = 4;

/// Requests to an authority that may be under way, by one of its clients after the other.
#[derive(Clone)]
pub(crate) struct RequestPlaces(Arc<Semaphore>);

impl Default for RequestPlaces {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(REQUESTS_MAX)))
    }
}

/// A client of one authority, whose copies share a connection.
#[derive(Clone)]
pub(crate) struct AuthorityClient(Arc<AuthorityConnection>);

struct AuthorityConnection {
    /// The host of the directory, with its port if it is not 443.
    authority: String,
    host: String,
    port: u16,
    tls: TlsConnector,
    places: RequestPlaces,
    idle: Mutex<Option<SendRequest<BodyWrapper<Bytes>>>>,
    /// Until when the last refusal asked us to wait, in seconds since the epoch.
    retry_at: Mutex<Option<u64>>,
}

impl AuthorityClient {
    /// A client of the authority with this directory, whose certificate leads to one of `roots`
    /// (PEM).
    ///
    /// # Errors
    /// The URL or the roots cannot be used: a sentence without a full stop.
    pub(crate) fn new(
        directory: &str,
        roots: &[String],
        places: RequestPlaces,
    ) -> Result<Self, String> {
        let uri: Uri = directory.parse().map_err(|error| format!("{directory}: {error}"))?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("{directory} does not begin with https://"));
        }
        let authority = uri.authority().ok_or_else(|| format!("{directory} names no host"))?;
        let of_roots = |pem: &String| {
            let place = "roots".to_owned();
            PemSource { place, pem: pem.as_str().into() }
        };
        let roots: Vec<_> = roots.iter().map(of_roots).collect();
        let verifier = server_verifier(&roots)
            .map_err(|error| format!("the roots for {directory}: {error}"))?;
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self(Arc::new(AuthorityConnection {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(443),
            authority: authority.to_string(),
            tls: TlsConnector::from(Arc::new(config)),
            places,
            idle: Mutex::new(None),
            retry_at: Mutex::new(None),
        })))
    }

    /// Until when the last refusal asked us to wait, in seconds since the epoch; once.
    pub(crate) fn take_retry_at(&self) -> Option<u64> {
        self.0.retry_at.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    async fn ask(&self, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let uri = request.uri().clone();
        let is_ours = uri.scheme_str() == Some("https")
            && uri.authority().is_some_and(|one| one.as_str() == self.0.authority);
        if !is_ours {
            let authority = &self.0.authority;
            return Err(fault(format!("it names {uri}, which is not https://{authority}")));
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse()?;
        let host = HeaderValue::from_str(&self.0.authority).map_err(http::Error::from)?;
        request.headers_mut().insert(HOST, host);
        let mut sender = self.connection().await?;
        let response = sender.send_request(request).await.map_err(fault)?;
        let (parts, body) = self.checked(response)?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => fault(format!("it answers with more than {ANSWER_BYTES_MAX} bytes")),
            None => Error::Other(error),
        })?;
        *self.0.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        Ok(BytesResponse { parts, body: Box::new(body.to_bytes()) })
    }

    /// The connection that is idle, or a new one.
    async fn connection(&self) -> Result<SendRequest<BodyWrapper<Bytes>>, Error> {
        let idle = self.0.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut idle) = idle
            && idle.ready().await.is_ok()
        {
            return Ok(idle);
        }
        let AuthorityConnection { host, port, tls, .. } = &*self.0;
        let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(fault)?;
        let name = ServerName::try_from(host.clone()).map_err(fault)?;
        let stream = tls.connect(name, stream).await.map_err(of_handshake)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(fault)?;
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Refuses redirects and what is no ACME; notes how long a refusal asks us to wait. Bounds
    /// every time to wait, because the library adds it to the time and that may overflow.
    fn checked(&self, mut response: Response<Incoming>) -> Result<Response<Incoming>, Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let asked = response.headers_mut().remove(RETRY_AFTER);
        let at = asked.and_then(|value| retry_at(value.to_str().ok()?.trim(), now));
        if let Some(at) = at {
            let seconds = HeaderValue::from(at.saturating_sub(now));
            response.headers_mut().insert(RETRY_AFTER, seconds);
        }
        let (status, headers) = (response.status(), response.headers());
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        if status.is_redirection() {
            let to = text(LOCATION).unwrap_or("nowhere");
            return Err(fault(format!("it redirects to {to}, which is not followed")));
        }
        if !status.is_success() {
            *self.0.retry_at.lock().unwrap_or_else(PoisonError::into_inner) = at;
        }
        let kind = text(CONTENT_TYPE).unwrap_or_default();
        if !kind.is_empty() && !kind.contains("json") && !kind.contains("pem") {
            return Err(fault(format!("it answers with status {status} and {kind}")));
        }
        Ok(response)
    }
}

/// A Retry-After (RFC 9110 section 10.2.3) as seconds since the epoch.
fn retry_at(value: &str, now: u64) -> Option<u64> {
    let at = match value.parse::<u64>() {
        Ok(seconds) => now.saturating_add(seconds),
        Err(_) => {
            let date = httpdate::parse_http_date(value).ok()?;
            date.duration_since(UNIX_EPOCH).ok()?.as_secs()
        }
    };
    Some(at.min(now + WAIT_MAX))
}

fn of_handshake(error: io::Error) -> Error {
    let text = error.to_string();
    if ["UnknownIssuer", "CaUsedAsEndEntity"].iter().any(|one| text.contains(one)) {
        return fault(
            "its own certificate leads to no authority that is known here: `roots` beside \
             `directory` names others, or that certificate itself",
        );
    }
    match error.get_ref().and_then(|inner| inner.downcast_ref()).and_then(reason_of) {
        Some(why) => fault(format!("its own certificate is refused: {why}")),
        None => fault(error),
    }
}

fn fault(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Other(error.into())
}

impl HttpClient for AuthorityClient {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move {
            let _place = client.0.places.0.acquire().await.map_err(fault)?;
            let asked = timeout(REQUEST_TIME_MAX, client.ask(request)).await;
            asked.unwrap_or_else(|_| {
                let seconds = REQUEST_TIME_MAX.as_secs();
                Err(fault(io::Error::other(format!("it does not answer within {seconds} s"))))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_to_wait_is_read_and_bounded() {
        assert_eq!(retry_at("120", 1000), Some(1120));
        assert_eq!(retry_at("Thu, 01 Jan 1970 00:30:00 GMT", 1000), Some(1800));
        assert_eq!(retry_at("99999999999999999", 1000), Some(1000 + WAIT_MAX));
        assert_eq!(retry_at("soon", 1000), None);
    }

    #[test]
    fn an_authority_has_a_host_and_https() {
        let fault = |url: &str| {
            AuthorityClient::new(url, &[], RequestPlaces::default()).err().unwrap_or_default()
        };
        assert!(fault("http://a.example/dir").contains("does not begin with https://"));
        // No root is trusted then.
        assert!(!fault("https://a.example/dir").is_empty());
    }
}
