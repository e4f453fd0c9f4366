//! One HTTP exchange with a server that the control plane asks: bounded in time and size.

use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::http::response::Parts;
use hyper::{Method, Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use sealane_log::OsError;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How long a connection attempt may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the whole exchange may take after that.
pub(super) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// The head of a response, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;

/// A question.
pub(super) struct Question<'a> {
    /// The `Host` field.
    pub(super) authority: &'a str,
    /// Path and query.
    pub(super) path: String,
    /// A body with its type; without one the method is GET.
    pub(super) body: Option<(&'static str, Vec<u8>)>,
    /// The longest body of the response, in bytes.
    pub(super) max_bytes: usize,
}

/// A response with status 200.
pub(super) struct Answer {
    pub(super) content_type: String,
    pub(super) body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// It cannot be reached.
    Connect(std::io::Error),
    /// It took longer than allowed, in seconds.
    TimedOut(u64),
    /// Another status than 200.
    Status(StatusCode),
    /// A longer body than this, in bytes.
    TooLong(usize),
    /// It ends too soon, or is no HTTP.
    Http(String),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Connect(error) => write!(f, "connect() failed ({})", OsError(error)),
            FetchError::TimedOut(seconds) => write!(f, "no response within {seconds} s"),
            FetchError::Status(status) => write!(f, "the server answered {}", status.as_u16()),
            FetchError::TooLong(bytes) => {
                write!(f, "the server sent a response of more than {bytes} bytes")
            }
            FetchError::Http(why) => write!(f, "the server sent an invalid response ({why})"),
        }
    }
}

/// Asks a server at this address. Redirections are not followed.
///
/// # Errors
/// Why there is no answer.
pub(super) async fn fetch(
    address: SocketAddr,
    question: Question<'_>,
) -> Result<Answer, FetchError> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let stream = connecting
        .map_err(|_elapsed| FetchError::TimedOut(CONNECT_TIMEOUT.as_secs()))?
        .map_err(FetchError::Connect)?;
    tokio::time::timeout(EXCHANGE_TIMEOUT, ask(stream, question))
        .await
        .map_err(|_elapsed| FetchError::TimedOut(EXCHANGE_TIMEOUT.as_secs()))?
}

async fn ask(stream: TcpStream, question: Question<'_>) -> Result<Answer, FetchError> {
    let max_bytes = question.max_bytes;
    let request = request(question).map_err(|error| FetchError::Http(error.to_string()))?;
    let (head, body) = exchange(stream, request, max_bytes).await?;
    if head.status != StatusCode::OK {
        return Err(FetchError::Status(head.status));
    }
    let content_type = head.headers.get(CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    Ok(Answer {
        content_type: content_type.unwrap_or_default().to_owned(),
        body,
    })
}

/// One request and its response on a connection of its own, with a body of at most `max_bytes`.
///
/// # Errors
/// Why there is no response.
pub(crate) async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    request: Request<Full<Bytes>>,
    max_bytes: usize,
) -> Result<(Parts, Vec<u8>), FetchError> {
    let (mut sender, connection) = hyper::client::conn::http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(invalid)?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(invalid)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, max_bytes).collect().await;
        let body = body.map_err(|error| match error.is::<LengthLimitError>() {
            true => FetchError::TooLong(max_bytes),
            false => FetchError::Http(error.to_string()),
        })?;
        Ok((head, body.to_bytes().to_vec()))
    };
    // The connection is driven here, so that nothing of it is left when this returns.
    let mut connection = std::pin::pin!(connection);
    let mut asking = std::pin::pin!(asking);
    let mut ended = false;
    loop {
        tokio::select! {
            biased;
            answer = &mut asking => return answer,
            _ = &mut connection, if !ended => ended = true,
        }
    }
}

fn request(question: Question<'_>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let agent = concat!("sealane/", env!("CARGO_PKG_VERSION"));
    let mut request = Request::builder()
        .uri(question.path.parse::<Uri>()?)
        .header(HOST, question.authority)
        .header(USER_AGENT, agent)
        .header(CONNECTION, HeaderValue::from_static("close"));
    let body = match question.body {
        None => Bytes::new(),
        Some((kind, body)) => {
            request = request.method(Method::POST).header(CONTENT_TYPE, kind);
            body.into()
        }
    };
    request.body(Full::new(body))
}

fn invalid(error: hyper::Error) -> FetchError {
    let cause = std::error::Error::source(&error);
    FetchError::Http(match cause {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    })
}
