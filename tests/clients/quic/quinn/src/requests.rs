//! Requests that are all in flight at once, and their responses.

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::error::StreamError;
use h3_quinn::OpenStreams;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::time::Duration;
use tokio::time::timeout;

/// Bytes of a body that are handed over at once.
const CHUNK_BYTES: u64 = 64 * 1024;

#[derive(Clone, Deserialize)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body_bytes: i64,
}

#[derive(Default, Serialize)]
pub struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body_bytes: u64,
    sha256: String,
    sent_sha256: String,
    complete: bool,
    reset: Option<u64>,
}

/// Sends all of them, and gives their responses in the same order.
pub async fn all(
    sender: &SendRequest<OpenStreams, Bytes>,
    base: &str,
    requests: &[Request],
    limit: Duration,
) -> Vec<Response> {
    let tasks: Vec<_> = requests
        .iter()
        .map(|request| {
            let (sender, request) = (sender.clone(), request.clone());
            let url = format!("{base}{}", request.path);
            tokio::spawn(async move {
                timeout(limit, one(sender, &url, request))
                    .await
                    .unwrap_or_default()
            })
        })
        .collect();
    let mut responses = Vec::new();
    for task in tasks {
        responses.push(task.await.unwrap_or_default());
    }
    responses
}

async fn one(sender: SendRequest<OpenStreams, Bytes>, url: &str, request: Request) -> Response {
    let mut response = Response::default();
    let mut received = Sha256::new();
    let mut sent = Sha256::new();
    let done = exchange(
        sender,
        url,
        &request,
        &mut response,
        &mut received,
        &mut sent,
    )
    .await;
    response.sha256 = hexadecimal(received);
    response.sent_sha256 = hexadecimal(sent);
    match done {
        Ok(()) => response.complete = true,
        Err(error) => {
            eprintln!("{} {}: {error}", request.method, request.path);
            if let StreamError::RemoteTerminate { code, .. } = error {
                response.reset = Some(code.value());
            }
        }
    }
    response
}

async fn exchange(
    mut sender: SendRequest<OpenStreams, Bytes>,
    url: &str,
    request: &Request,
    response: &mut Response,
    received: &mut Sha256,
    sent: &mut Sha256,
) -> Result<(), StreamError> {
    let mut head = http::Request::builder()
        .method(request.method.as_str())
        .uri(url);
    for (name, value) in &request.headers {
        head = head.header(name, value);
    }
    let body = u64::try_from(request.body_bytes).ok();
    if let Some(bytes) = body {
        head = head.header("content-length", bytes);
    }
    let head = head.body(()).expect("a script has valid requests");
    let stream = sender.send_request(head).await?;
    let (mut outgoing, mut incoming) = stream.split();
    // A server may answer before it has read the body.
    let sending = async {
        let mut at = 0;
        while at < body.unwrap_or(0) {
            let end = (at + CHUNK_BYTES).min(body.unwrap_or(0));
            let chunk = pattern(at, end);
            sent.update(&chunk);
            outgoing.send_data(chunk).await?;
            at = end;
        }
        outgoing.finish().await
    };
    let receiving = async {
        let head = incoming.recv_response().await?;
        response.status = head.status().as_u16();
        for (name, value) in head.headers() {
            let value = String::from_utf8_lossy(value.as_bytes());
            response
                .headers
                .push((name.to_string(), value.into_owned()));
        }
        while let Some(mut data) = incoming.recv_data().await? {
            while data.has_remaining() {
                let piece = data.chunk();
                received.update(piece);
                let count = piece.len();
                response.body_bytes += u64::try_from(count).expect("64 bits suffice");
                data.advance(count);
            }
        }
        Ok(())
    };
    let (sending, receiving) = tokio::join!(sending, receiving);
    if let Err(error) = sending {
        eprintln!("the body of {url}: {error}");
    }
    receiving
}

/// A part of the body that scripts send: each byte is its position modulo 251.
fn pattern(from: u64, to: u64) -> Bytes {
    (from..to)
        .map(|at| u8::try_from(at % 251).expect("less than 251"))
        .collect()
}

fn hexadecimal(digest: Sha256) -> String {
    digest
        .finalize()
        .iter()
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes everything");
            text
        })
}
