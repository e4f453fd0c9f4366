//! Reads the whole request body for features that need it complete:
//! `proxy_request_buffering on`, `mirror`, `$request_body`.
//!
//! ```text
//! client --- pieces ---> memory (client_body_buffer_size) --- more ---> temporary file
//! ```
//!
//! As in nginx, a file contains the body from its first byte: `$request_body_file` is all of it.
//! The body is read once; a second attempt, a mirror or another location gets the same memory or
//! file.

use crate::client_link::BodyError;
use crate::exchange::{Exchange, RequestBody};
use crate::open_file_cache::OpenFile;
use crate::request_log::{Text, log_request};
use crate::temp_file::{Keep, TempFile, TempFileError};
use bytes::Bytes;
use sealane_conf::model::{BodyInFile, LocationConf};
use sealane_http::h1::{Framing, Version};
use sealane_http::{Method, StatusCode};
use sealane_io::chain::OutputChain;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are written to a temporary file at a time, unless `client_body_buffer_size` is
/// larger: each write is a job for a disk thread.
const WRITE_BYTES: usize = 64 << 10;

/// A complete request body. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ReceivedBody(Stored);

#[derive(Debug, Clone)]
enum Stored {
    Memory(Bytes),
    File { file: Arc<OpenFile>, len: u64 },
}

impl Default for Stored {
    fn default() -> Stored {
        Stored::Memory(Bytes::new())
    }
}

impl ReceivedBody {
    /// Its length in bytes, without its framing.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Stored::Memory(bytes) => bytes.len() as u64,
            Stored::File { len, .. } => *len,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The body, to be sent from its beginning. It is a single segment, whatever
    /// `client_body_in_single_buffer` says.
    pub fn chain(&self) -> OutputChain {
        let mut chain = OutputChain::new();
        match &self.0 {
            Stored::Memory(bytes) => chain.push_bytes(bytes.clone()),
            Stored::File { file, len } => chain.push_file(Arc::clone(file), 0, *len),
        }
        chain
    }

    /// The body if it is in memory: `$request_body`.
    pub fn memory(&self) -> Option<&Bytes> {
        match &self.0 {
            Stored::Memory(bytes) => Some(bytes),
            Stored::File { .. } => None,
        }
    }

    /// The whole body. Blocks if it is in a file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(crate) fn read_blocking(&self) -> io::Result<Vec<u8>> {
        match &self.0 {
            Stored::Memory(bytes) => Ok(bytes.to_vec()),
            Stored::File { file, len } => {
                let file = std::fs::File::from(file.as_fd().try_clone_to_owned()?);
                let mut bytes = vec![0; usize::try_from(*len).map_err(io::Error::other)?];
                std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, 0)?;
                Ok(bytes)
            }
        }
    }

    /// The name of its temporary file: `$request_body_file`. The file no longer has that name
    /// unless `client_body_in_file_only` keeps it.
    pub fn file_path(&self) -> Option<&[u8]> {
        match &self.0 {
            Stored::Memory(_) => None,
            Stored::File { file, .. } => Some(file.path()),
        }
    }
}

/// Reads the request body to its end. Only the first call reads; later ones get its result, or an
/// empty body if it failed: an `error_page` goes on without one.
///
/// # Errors
/// The status to respond with; the reason is logged. If the response would not be read (the
/// client has gone or has stopped sending), the connection is marked to be dropped.
pub(crate) async fn receive(exchange: &mut Exchange) -> Result<ReceivedBody, StatusCode> {
    if let Some(body) = &exchange.request.received {
        return Ok(body.clone());
    }
    let in_file = exchange.conf().client_body_in_file_only;
    receive_first(exchange, in_file, true).await
}

/// Reads the request body to its end into a file that keeps its name as long as it is in use, so
/// that it can be renamed.
///
/// # Errors
/// As [`receive`].
pub(crate) async fn receive_as_file(exchange: &mut Exchange) -> Result<Arc<OpenFile>, StatusCode> {
    let body = match exchange.request.received.clone() {
        Some(body) => body,
        None => {
            let body = receive_first(exchange, BodyInFile::Clean, false).await?;
            if let Stored::File { file, .. } = body.0 {
                return Ok(file);
            }
            body
        }
    };
    // It was read before without a file, or it is empty.
    let copied = match copy_to_file(exchange, body).await {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    log_request!(exchange, Crit, "{copied}");
    Err(StatusCode::INTERNAL_SERVER_ERROR)
}

async fn copy_to_file(
    exchange: &Exchange,
    body: ReceivedBody,
) -> Result<Arc<OpenFile>, TempFileError> {
    let temp_path = &exchange.conf().client_body_temp_path;
    let mut file = TempFile::create(temp_path, Keep::WhileUsed).await?;
    match body.0 {
        Stored::Memory(bytes) => file.append(vec![bytes]).await?,
        Stored::File { file: from, len } => file.append_from(from, len).await?,
    }
    Ok(file.into_file())
}

/// What a request keeps about its body.
#[derive(Default)]
pub(crate) struct RequestBodyState {
    /// It was found too large (413); an error page is not refused for it again.
    pub(crate) refused: bool,
}

/// The first call of [`receive`].
async fn receive_first(
    exchange: &mut Exchange,
    in_file: BodyInFile,
    is_noted: bool,
) -> Result<ReceivedBody, StatusCode> {
    if exchange.request.body == RequestBody::None {
        return Ok(ReceivedBody::default());
    }
    // The result if it cannot be read.
    exchange.request.received = Some(ReceivedBody::default());
    if exchange.features.request_body.refused {
        return Ok(ReceivedBody::default());
    }
    if exchange.request.body == RequestBody::Taken {
        return without_taken(exchange);
    }
    limit(exchange);
    // Boxed: few requests have a body, and a future should be small.
    let body = Box::pin(read(exchange, in_file, is_noted)).await?;
    exchange.request.received = Some(body.clone());
    count_received(exchange);
    Ok(body)
}

/// Counts a body that has been read, for `$request_length`.
fn count_received(exchange: &mut Exchange) {
    let head_bytes = exchange.request.head.head_bytes as u64;
    exchange.transfer.request_bytes = head_bytes + exchange.client.framed_bytes();
}

/// What of a request body can be had without waiting for the client.
pub(crate) enum Arrived {
    /// All of it, as if it had been received.
    Whole(ReceivedBody),
    /// Its beginning. The rest is to be read from [`Exchange::client`].
    Part(Bytes),
}

/// Reads what has arrived of the body, up to `client_body_buffer_size`. As in nginx, a body that
/// came with its head is a received one for `proxy_request_buffering off`, too.
///
/// # Errors
/// As [`receive`].
pub(crate) async fn receive_arrived(exchange: &mut Exchange) -> Result<Arrived, StatusCode> {
    limit(exchange);
    let max_bytes = exchange.conf().client_body_buffer_bytes;
    let mut buffer = Vec::new();
    while (buffer.len() as u64) < max_bytes {
        match exchange.client.read_arrived().await {
            Some(Ok(Some(piece))) => buffer.extend_from_slice(&piece),
            Some(Ok(None)) => {
                let body = ReceivedBody(Stored::Memory(buffer.into()));
                exchange.request.received = Some(body.clone());
                count_received(exchange);
                return Ok(Arrived::Whole(body));
            }
            Some(Err(error)) => {
                exchange.request.received = Some(ReceivedBody::default());
                return Err(failed(exchange, error));
            }
            None => break,
        }
    }
    exchange.request.body = RequestBody::Taken;
    Ok(Arrived::Part(buffer.into()))
}

/// Sets the limits of the location for the body, before it is read.
pub(crate) fn limit(exchange: &Exchange) {
    let conf = exchange.conf();
    let (max_bytes, timeout) = (conf.client_max_body_bytes, conf.client_body_timeout);
    exchange.client.limit_body(max_bytes, timeout);
}

/// Logs why the body could not be read, and returns the status. Also for readers of
/// [`Exchange::client`] that do not use [`receive`].
pub(crate) fn failed(exchange: &mut Exchange, error: BodyError) -> StatusCode {
    match error {
        // Logged already, with the reason.
        BodyError::Malformed => {}
        BodyError::ClientClosed => {
            log_request!(exchange, Info, "{error}");
            exchange.response.drop_connection = true;
        }
        BodyError::TimedOut => {
            log_request!(exchange, Info, "{error} while reading client request body");
            exchange.response.drop_connection = true;
            if exchange.conf().reset_timedout_connection && !exchange.connection.is_quic() {
                let socket = exchange.connection.socket().as_fd();
                let _ = sealane_sys::socket::set_linger(socket, Some(Duration::ZERO));
            }
        }
        BodyError::TooLarge => {
            exchange.features.request_body.refused = true;
            let (before, more) = exchange.client.refused_bytes();
            log_request!(
                exchange,
                Error,
                "client intended to send too large chunked body: {before}+{more} bytes"
            );
        }
    }
    error.status()
}

/// The body was streamed elsewhere and is gone. An error page does not need it; anything else would
/// see an empty body.
fn without_taken(exchange: &Exchange) -> Result<ReceivedBody, StatusCode> {
    if matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Ok(ReceivedBody::default());
    }
    log_request!(
        exchange,
        Error,
        "the request body was passed on without buffering and cannot be sent again; \
         enable request buffering if \
         another location may have to respond"
    );
    Err(StatusCode::INTERNAL_SERVER_ERROR)
}

async fn read(
    exchange: &mut Exchange,
    in_file: BodyInFile,
    is_noted: bool,
) -> Result<ReceivedBody, StatusCode> {
    let head = &exchange.request.head;
    let mut spool = Spool::new(exchange.conf(), head.version, head.framing, in_file);
    spool.is_noted = is_noted;
    loop {
        let written = match exchange.client.read_body().await {
            Ok(Some(piece)) => spool.push(exchange, &piece).await,
            Ok(None) => match spool.finish(exchange).await {
                Ok(body) => return Ok(body),
                Err(error) => Err(error),
            },
            Err(error) => return Err(failed(exchange, error)),
        };
        if let Err(error) = written {
            log_request!(exchange, Crit, "{error}");
            return Err(StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
}

/// Collects a body that is arriving. Pieces are copied: those of a slow client are small and may
/// occupy much larger buffers.
struct Spool {
    /// The part that is not in a file yet.
    buffer: Vec<u8>,
    file: Option<TempFile>,
    /// Bytes so far.
    len: u64,
    /// Longer bodies go to a file.
    memory_bytes: u64,
    write_bytes: usize,
    in_file: BodyInFile,
    /// The log tells of a file.
    is_noted: bool,
}

impl Spool {
    fn new(conf: &LocationConf, version: Version, framing: Framing, in_file: BodyInFile) -> Spool {
        let buffer_bytes = conf.client_body_buffer_bytes;
        // As in nginx, a body of known length may be a quarter longer than the buffer in HTTP/1.
        let (memory_bytes, goes_to_file, expected) = match framing {
            Framing::Length(len) => {
                let more = match version {
                    Version::Http2 | Version::Http3 => 1,
                    _ => buffer_bytes / 4,
                };
                let limit = buffer_bytes.saturating_add(more);
                (limit.saturating_sub(1), len >= limit, len)
            }
            Framing::Chunked | Framing::None => (buffer_bytes, false, 0),
        };
        let write_bytes = usize::try_from(buffer_bytes).unwrap_or(usize::MAX);
        let write_bytes = write_bytes.max(WRITE_BYTES);
        let capacity = if goes_to_file || in_file != BodyInFile::Off {
            expected.min(WRITE_BYTES as u64)
        } else {
            expected
        };
        Spool {
            // Bounded by the configured size of the buffer.
            buffer: Vec::with_capacity(capacity as usize),
            file: None,
            len: 0,
            memory_bytes: if goes_to_file { 0 } else { memory_bytes },
            write_bytes,
            in_file,
            is_noted: true,
        }
    }

    fn goes_to_file(&self) -> bool {
        self.in_file != BodyInFile::Off || self.len > self.memory_bytes
    }

    async fn push(&mut self, exchange: &Exchange, piece: &[u8]) -> Result<(), TempFileError> {
        self.len += piece.len() as u64;
        let is_full = self.buffer.len() + piece.len() > self.write_bytes;
        if is_full && self.goes_to_file() && !self.buffer.is_empty() {
            self.write(exchange).await?;
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    async fn finish(&mut self, exchange: &Exchange) -> Result<ReceivedBody, TempFileError> {
        if self.goes_to_file() {
            self.write(exchange).await?;
        }
        let stored = match self.file.take() {
            Some(file) => Stored::File {
                len: file.len(),
                file: file.into_file(),
            },
            None => Stored::Memory(std::mem::take(&mut self.buffer).into()),
        };
        Ok(ReceivedBody(stored))
    }

    /// Moves the contents of memory to the file, which is created for it.
    async fn write(&mut self, exchange: &Exchange) -> Result<(), TempFileError> {
        let bytes = std::mem::take(&mut self.buffer);
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let keep = match self.in_file {
                    BodyInFile::Off => Keep::Unnamed,
                    BodyInFile::Clean => Keep::WhileUsed,
                    BodyInFile::On => Keep::Forever,
                };
                let temp_path = &exchange.conf().client_body_temp_path;
                let file = TempFile::create(temp_path, keep).await?;
                if !bytes.is_empty() && self.is_noted {
                    note_file(exchange, &file, self.in_file);
                }
                self.file.insert(file)
            }
        };
        if bytes.is_empty() {
            return Ok(());
        }
        file.append(vec![bytes.into()]).await?;
        if self.len > file.len() {
            self.buffer.reserve(WRITE_BYTES);
        }
        Ok(())
    }
}

/// If files are configured, one is not worth a warning.
fn note_file(exchange: &Exchange, file: &TempFile, in_file: BodyInFile) {
    const BUFFERED: &str = "a client request body is buffered to a temporary file";
    let path = Text(file.path());
    match in_file {
        BodyInFile::Off => log_request!(exchange, Warn, "{BUFFERED} {path}"),
        BodyInFile::On | BodyInFile::Clean => {
            log_request!(exchange, Notice, "{BUFFERED} {path}");
        }
    }
}

#[cfg(test)]
mod tests;
