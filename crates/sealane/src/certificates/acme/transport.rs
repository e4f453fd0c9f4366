//! One HTTPS request to an ACME server: bounded in time and size.

use super::super::fetch::{CONNECT_TIMEOUT, EXCHANGE_TIMEOUT, FetchError, exchange};
use super::error::{AcmeError, Problem};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LINK, LOCATION,
    RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Uri};
use sealane_upstream::resolve::{Resolve, ResolveError};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// The longest body of an answer: a chain of certificates, a directory, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;

/// Redirections that are followed, of requests that only read.
const MAX_REDIRECTS: usize = 5;

/// The longest time that a server's Retry-After may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The type of signed requests.
const JOSE_JSON: &str = "application/jose+json";

/// Reaches one ACME server.
pub(super) struct Transport {
    tls: Arc<ClientConfig>,
    resolver: Option<Arc<dyn Resolve>>,
}

/// An answer, whatever its status.
pub(super) struct Answer {
    pub(super) status: u16,
    headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// A field as text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `Location`.
    pub(super) fn location(&self) -> Option<&str> {
        self.header(&LOCATION)
    }

    /// Other chains of the certificate (RFC 8555 section 7.4.2).
    pub(super) fn alternates(&self) -> Vec<String> {
        let links = self.headers.get_all(LINK).iter();
        let links = links.filter_map(|value| value.to_str().ok());
        links.flat_map(alternates_of).collect()
    }

    /// How long to wait before the next question, if the server says so in seconds.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let seconds = self.header(&RETRY_AFTER)?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds).min(MAX_RETRY_AFTER))
    }

    /// The answer if it is a good one.
    ///
    /// # Errors
    /// What the server says is wrong.
    pub(super) fn success(self) -> Result<Answer, AcmeError> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(mut problem) => {
                problem.retry_after = self.retry_after();
                Err(AcmeError::Problem(problem))
            }
            Err(_) => Err(AcmeError::Status(self.status)),
        }
    }
}

/// The targets of `rel="alternate"` in a Link field.
fn alternates_of(field: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = field;
    while let Some((_, tail)) = rest.split_once('<') {
        let Some((target, tail)) = tail.split_once('>') else {
            break;
        };
        let (parameters, next) = match tail.find('<') {
            Some(at) => tail.split_at(at),
            None => (tail, ""),
        };
        let is_alternate = parameters.split(';').any(|parameter| {
            let parameter = parameter.trim().trim_end_matches(',').trim();
            let value = parameter.strip_prefix("rel=");
            value.is_some_and(|value| value.trim_matches('"') == "alternate")
        });
        if is_alternate {
            found.push(target.to_owned());
        }
        rest = next;
    }
    found
}

impl Transport {
    /// Verifies servers with the CA certificates in `trusted`, or those of the system; without
    /// `verify` with none.
    ///
    /// # Errors
    /// When the certificates cannot be used.
    pub(super) fn new(
        trusted: Option<&[u8]>,
        verify: bool,
        resolver: Option<Arc<dyn Resolve>>,
    ) -> Result<Transport, AcmeError> {
        let builder = ClientConfig::builder();
        let config = match verify {
            true => builder
                .with_root_certificates(roots(trusted).map_err(AcmeError::Tls)?)
                .with_no_client_auth(),
            false => {
                let anybody = Anybody(Arc::clone(builder.crypto_provider()));
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(anybody))
                    .with_no_client_auth()
            }
        };
        Ok(Transport {
            tls: Arc::new(config),
            resolver,
        })
    }

    /// Reads something, at this URL or where it has moved.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn get(&self, url: &str) -> Result<Answer, AcmeError> {
        let mut url = url.to_owned();
        for _ in 0..MAX_REDIRECTS {
            let answer = self.request(Method::GET, &url, None).await?;
            let is_redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
            match answer.location() {
                Some(target) if is_redirect => url = resolved(&url, target)?,
                _ => return answer.success(),
            }
        }
        Err(AcmeError::Answer("target: it redirects again and again"))
    }

    /// Asks for the head only.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn head(&self, url: &str) -> Result<Answer, AcmeError> {
        self.request(Method::HEAD, url, None).await?.success()
    }

    /// Sends a signed request; the answer may be a problem.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(super) async fn post(&self, url: &str, body: Vec<u8>) -> Result<Answer, AcmeError> {
        self.request(Method::POST, url, Some(body)).await
    }

    async fn request(
        &self,
        method: Method,
        url: &str,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, AcmeError> {
        let uri: Uri = url.parse().map_err(|_| AcmeError::Answer("URL"))?;
        let authority = uri.authority().ok_or(AcmeError::Answer("URL"))?;
        if uri.scheme_str() != Some("https") {
            return Err(AcmeError::Answer("URL of https"));
        }
        let host = authority.host().trim_matches(['[', ']']);
        let port = authority.port_u16().unwrap_or(443);
        let request = request(method, &uri, authority.as_str(), body)
            .map_err(|error| AcmeError::Fetch(FetchError::Http(error.to_string())))?;
        let name = ServerName::try_from(host.to_owned()).map_err(|_| AcmeError::Answer("URL"))?;
        let exchanging = async {
            let stream = self.connect(host, port).await?;
            let connector = TlsConnector::from(Arc::clone(&self.tls));
            let stream = connector.connect(name, stream).await;
            let stream = stream.map_err(AcmeError::Tls)?;
            exchange(stream, request, MAX_BODY_BYTES)
                .await
                .map_err(AcmeError::Fetch)
        };
        let timeout = CONNECT_TIMEOUT + EXCHANGE_TIMEOUT;
        let (head, body) = tokio::time::timeout(timeout, exchanging)
            .await
            .map_err(|_elapsed| AcmeError::Fetch(FetchError::TimedOut(timeout.as_secs())))??;
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }

    /// The first of the host's addresses that answers.
    async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, AcmeError> {
        let mut failure = AcmeError::Resolve(ResolveError::NotFound);
        for address in self.addresses(host, port).await? {
            let connecting = TcpStream::connect(SocketAddr::new(address, port));
            let timed_out = || FetchError::TimedOut(CONNECT_TIMEOUT.as_secs());
            match tokio::time::timeout(CONNECT_TIMEOUT, connecting).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => failure = AcmeError::Fetch(FetchError::Connect(error)),
                Err(_elapsed) => failure = AcmeError::Fetch(timed_out()),
            }
        }
        Err(failure)
    }

    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<IpAddr>, AcmeError> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        if let Some(resolver) = &self.resolver {
            let found = resolver.lookup(host).await;
            return found
                .map(|found| found.to_vec())
                .map_err(AcmeError::Resolve);
        }
        let found = tokio::net::lookup_host((host, port)).await;
        let found = found.map_err(AcmeError::System)?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

fn request(
    method: Method,
    uri: &Uri,
    authority: &str,
    body: Option<Vec<u8>>,
) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let agent = concat!("sealane/", env!("CARGO_PKG_VERSION"));
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(HOST, authority)
        .header(USER_AGENT, agent)
        .header(CONNECTION, HeaderValue::from_static("close"));
    if body.is_some() {
        request = request.header(CONTENT_TYPE, HeaderValue::from_static(JOSE_JSON));
    }
    request.body(Full::new(Bytes::from(body.unwrap_or_default())))
}

/// Where a redirection leads: to a path of the same server, or to another https URL.
fn resolved(base: &str, target: &str) -> Result<String, AcmeError> {
    if target.starts_with("https://") {
        return Ok(target.to_owned());
    }
    let uri: Uri = base.parse().map_err(|_| AcmeError::Answer("URL"))?;
    match (target.strip_prefix('/'), uri.authority()) {
        (Some(_), Some(authority)) => Ok(format!("https://{authority}{target}")),
        _ => Err(AcmeError::Answer("target: it redirects to no https URL")),
    }
}

fn roots(trusted: Option<&[u8]>) -> std::io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let Some(pem) = trusted else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        return match (roots.is_empty(), found.errors.into_iter().next()) {
            (true, Some(error)) => Err(std::io::Error::other(error)),
            (true, None) => Err(std::io::Error::other("the system trusts no certificate")),
            _ => Ok(roots),
        };
    };
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(std::io::Error::other)?;
        roots.add(certificate).map_err(std::io::Error::other)?;
    }
    Ok(roots)
}

/// `ssl_verify off`: any certificate will do, but whoever shows it must have its key.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, tokio_rustls::rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternate_chains_are_found_in_link_fields() {
        let field = r#"<https://a.test/dir>;rel="index", <https://a.test/1>; rel="alternate", <https://a.test/2>;title="x";rel=alternate"#;
        assert_eq!(
            alternates_of(field),
            ["https://a.test/1", "https://a.test/2"]
        );
        assert!(alternates_of("<https://a.test/1").is_empty());
        assert!(alternates_of("rel=\"alternate\"").is_empty());
    }

    #[test]
    fn nobody_is_put_off_for_more_than_a_day() {
        for (field, expected_s) in [
            ("30", Some(30)),
            (" 86400 ", Some(86_400)),
            ("86401", Some(86_400)),
            ("18446744073709551615", Some(86_400)),
            ("18446744073709551616", None),
            ("-1", None),
            ("Fri, 31 Dec 1999 23:59:59 GMT", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(field));
            let answer = Answer {
                status: 503,
                headers,
                body: Vec::new(),
            };
            let expected = expected_s.map(Duration::from_secs);
            assert_eq!(answer.retry_after(), expected, "{field}");
        }
    }

    #[test]
    fn redirections_stay_on_https() {
        let to = |target| resolved("https://a.test:14000/x", target).ok();
        assert_eq!(to("/y").as_deref(), Some("https://a.test:14000/y"));
        assert_eq!(to("https://b.test/y").as_deref(), Some("https://b.test/y"));
        assert_eq!(to("http://b.test/y"), None);
        assert_eq!(to("y"), None);
    }
}
