//! Asking an OCSP responder (RFC 6960 appendix A): where it is, and one exchange with it.

use super::fetch::{FetchError, Question, fetch};
use base64::Engine;
use sealane_tls::{MAX_OCSP_RESPONSE_BYTES, Responder};
use sealane_upstream::resolve::{Resolve, ResolveError};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Questions that are no longer than this in a URL are sent by GET, which caches can answer
/// (RFC 5019 section 5).
const MAX_GET_BYTES: usize = 255;

/// What responses have to be declared as.
const RESPONSE_TYPE: &str = "application/ocsp-response";
const REQUEST_TYPE: &str = "application/ocsp-request";

/// Why a responder gave no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Its name comes from outside, and there is no `resolver`.
    NoResolver(String),
    Resolve(ResolveError),
    System(std::io::Error),
    Fetch(SocketAddr, FetchError),
    Type(SocketAddr, String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::NoResolver(host) => {
                write!(f, "no resolver defined to resolve {host}")
            }
            Unanswered::Resolve(error) => write!(f, "host not found ({error})"),
            Unanswered::System(error) => write!(f, "host not found ({error})"),
            Unanswered::Fetch(_, error) => error.fmt(f),
            Unanswered::Type(_, kind) => {
                write!(f, "the server sent \"{kind}\" and not \"{RESPONSE_TYPE}\"")
            }
        }
    }
}

impl Unanswered {
    fn peer(&self) -> Option<&SocketAddr> {
        match self {
            Unanswered::NoResolver(_) | Unanswered::Resolve(_) | Unanswered::System(_) => None,
            Unanswered::Fetch(peer, _) | Unanswered::Type(peer, _) => Some(peer),
        }
    }
}

/// Why the status of a certificate is not known; `R` is what is wrong with a response.
#[derive(Debug)]
pub(super) enum Failure<R> {
    Unanswered(Unanswered),
    Refused(SocketAddr, R),
}

impl<R: fmt::Display> fmt::Display for Failure<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unanswered(why) => why.fmt(f),
            Failure::Refused(_, why) => why.fmt(f),
        }
    }
}

impl<R> Failure<R> {
    /// Of whom, for the log: nothing if nobody was reached.
    pub(super) fn peer(&self) -> String {
        let peer = match self {
            Failure::Unanswered(why) => why.peer(),
            Failure::Refused(peer, _) => Some(peer),
        };
        peer.map(|peer| format!(", peer: {peer}"))
            .unwrap_or_default()
    }
}

/// What finds responders by name.
pub(super) enum Names {
    /// The `resolver` of a server.
    Resolver(Arc<dyn Resolve>),
    /// The system, as its operator trusts the name.
    System,
    /// Nothing: only addresses are found.
    Nothing,
}

/// Where a responder is: at least one address.
pub(super) async fn addresses(
    responder: &Responder,
    names: &Names,
) -> Result<Vec<SocketAddr>, Unanswered> {
    let at = |address: &IpAddr| SocketAddr::new(*address, responder.port);
    if let Ok(address) = responder.host.parse() {
        return Ok(vec![at(&address)]);
    }
    let found: Vec<SocketAddr> = match names {
        Names::Resolver(resolver) => {
            let found = resolver.lookup(&responder.host).await;
            found.map_err(Unanswered::Resolve)?.iter().map(at).collect()
        }
        Names::System => {
            let name = (responder.host.as_str(), responder.port);
            let found = tokio::net::lookup_host(name).await;
            found.map_err(Unanswered::System)?.collect()
        }
        Names::Nothing => return Err(Unanswered::NoResolver(responder.host.clone())),
    };
    match found.is_empty() {
        true => Err(Unanswered::Resolve(ResolveError::NotFound)),
        false => Ok(found),
    }
}

/// What the responder says to a request in DER: bytes that are declared as a response.
pub(super) async fn ask(
    peer: SocketAddr,
    responder: &Responder,
    request: &[u8],
) -> Result<Vec<u8>, Unanswered> {
    let url = get_path(&responder.path, request);
    let short = "http://".len() + responder.authority.len() + url.len() <= MAX_GET_BYTES;
    let answer = fetch(
        peer,
        Question {
            authority: &responder.authority,
            path: if short { url } else { responder.path.clone() },
            body: (!short).then(|| (REQUEST_TYPE, request.to_vec())),
            max_bytes: MAX_OCSP_RESPONSE_BYTES,
        },
    );
    let answer = answer
        .await
        .map_err(|error| Unanswered::Fetch(peer, error))?;
    let kind = answer.content_type.split(';').next().unwrap_or_default();
    match kind.trim().eq_ignore_ascii_case(RESPONSE_TYPE) {
        true => Ok(answer.body),
        false => Err(Unanswered::Type(peer, answer.content_type)),
    }
}

/// The request as a part of the path (RFC 6960 appendix A.1).
fn get_path(path: &str, request: &[u8]) -> String {
    let mut url = String::from(path);
    if !url.ends_with('/') {
        url.push('/');
    }
    for byte in base64::engine::general_purpose::STANDARD
        .encode(request)
        .bytes()
    {
        match byte {
            b'+' => url.push_str("%2B"),
            b'/' => url.push_str("%2F"),
            b'=' => url.push_str("%3D"),
            _ => url.push(char::from(byte)),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_fit_into_paths() {
        assert_eq!(get_path("/", &[0xfb, 0xff]), "/%2B%2F8%3D");
        assert_eq!(get_path("/ocsp", b"abc"), "/ocsp/YWJj");
    }
}
