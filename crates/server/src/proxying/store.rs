//! `proxy_store`: a complete response becomes a file.
//!
//! The body is written to a temporary file while it passes by, and the file gets its name when the
//! response is complete: nobody ever sees part of one. What cannot be stored is logged and served
//! all the same.

use crate::exchange::Exchange;
use crate::handlers::dav::{NotNamed, give_name};
use crate::handlers::path::FilePath;
use crate::request_log::{Text, log_request};
use crate::temp_file::{Keep, TempFile};
use crate::template;
use bytes::Bytes;
use sealane_conf::model::{Store, TempPath, UpstreamSettings};
use sealane_http::StatusCode;
use sealane_io::disk;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Bytes that wait for the disk before no more are read from the peer.
const MAX_WAITING_BYTES: u64 = 256 << 10;

/// A response on its way into a file.
pub(super) struct StoredBody {
    to: PathBuf,
    access: u32,
    place: Arc<TempPath>,
    /// `Last-Modified`, in seconds since 1970.
    modified_s: Option<i64>,
    /// `Content-Length`.
    expected_bytes: Option<u64>,
    arrived_bytes: u64,
    waiting: Vec<Bytes>,
    waiting_bytes: u64,
    is_complete: bool,
    file: Option<TempFile>,
    work: Option<Work>,
}

/// Gives the file back, or nothing once it has its name; or what failed, in nginx's words.
type Work = Pin<Box<dyn Future<Output = Result<Option<TempFile>, String>> + Send>>;

/// What has become of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The disk works.
    Busy,
    /// There is nothing to write. With `true`, there was.
    Idle(bool),
    /// The file is there.
    Stored,
    /// It cannot be stored.
    Failed(String),
}

impl StoredBody {
    /// The file for a response of which the head is there; `None` if it is not to be stored.
    pub(super) fn of(
        exchange: &Exchange,
        settings: &UpstreamSettings,
        buffers: bool,
    ) -> Option<Box<StoredBody>> {
        let store = settings.store.as_ref()?;
        let response = &exchange.response;
        if response.status != StatusCode::OK || !buffers {
            return None;
        }
        Some(Box::new(StoredBody {
            to: path_of(exchange, store)?,
            access: store.access,
            place: Arc::clone(&settings.temp_path),
            modified_s: response.last_modified_s,
            expected_bytes: response.content_length,
            arrived_bytes: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            is_complete: false,
            file: None,
            work: None,
        }))
    }

    /// More of the body.
    pub(super) fn push(&mut self, piece: Bytes) {
        let bytes = piece.len() as u64;
        self.arrived_bytes += bytes;
        self.waiting_bytes += bytes;
        self.waiting.push(piece);
    }

    /// Whether the disk is so far behind that the peer has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting_bytes >= MAX_WAITING_BYTES
    }

    /// The body is complete. Returns whether it is as long as it was said to be; if not, it must
    /// be dropped.
    #[must_use]
    pub(super) fn complete(&mut self) -> bool {
        self.is_complete = true;
        let arrived = self.arrived_bytes;
        self.expected_bytes.is_none_or(|bytes| bytes == arrived)
    }

    /// Writes what waits, and names the file at the end.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Progress {
        let mut has_moved = false;
        loop {
            if let Some(work) = &mut self.work {
                let Poll::Ready(done) = work.as_mut().poll(cx) else {
                    return Progress::Busy;
                };
                self.work = None;
                match done {
                    Ok(Some(file)) => self.file = Some(file),
                    Ok(None) => return Progress::Stored,
                    Err(failure) => return Progress::Failed(failure),
                }
                has_moved = true;
            }
            let is_empty = self.waiting.is_empty();
            if is_empty && !self.is_complete {
                return Progress::Idle(has_moved);
            }
            self.waiting_bytes = 0;
            let pieces = std::mem::take(&mut self.waiting);
            self.work = Some(match self.file.take() {
                Some(file) if is_empty => Box::pin(self.name(file)),
                file => Box::pin(write(file, Arc::clone(&self.place), pieces)),
            });
        }
    }

    fn name(
        &self,
        file: TempFile,
    ) -> impl Future<Output = Result<Option<TempFile>, String>> + use<> {
        let file = file.into_file();
        let (to, access, modified_s) = (self.to.clone(), self.access, self.modified_s);
        disk::run(
            move || match give_name(&file, &to, modified_s, access, true) {
                Ok(_) => Ok(None),
                Err(NotNamed::Directory) => Err(format!(
                    "rename() to \"{}\" failed (21: Is a directory)",
                    to.display()
                )),
                Err(NotNamed::Failed(failure)) => Err(failure.to_string()),
            },
        )
    }
}

async fn write(
    file: Option<TempFile>,
    place: Arc<TempPath>,
    pieces: Vec<Bytes>,
) -> Result<Option<TempFile>, String> {
    let mut file = match file {
        Some(file) => file,
        // The name is gone with the file unless it becomes another.
        None => TempFile::create(&place, Keep::WhileUsed)
            .await
            .map_err(|error| error.to_string())?,
    };
    let written = file.append(pieces).await;
    written.map_err(|error| error.to_string())?;
    Ok(Some(file))
}

/// Where the response belongs; `None`, logged, where it must not be.
fn path_of(exchange: &Exchange, store: &Store) -> Option<PathBuf> {
    let path = match &store.path {
        Some(template) => {
            let path = template::evaluate(template, exchange);
            match path.first() {
                Some(b'/') => path.into_owned(),
                _ => [&exchange.snapshot.prefix[..], b"/", &path].concat(),
            }
        }
        None => FilePath::of(exchange).ok()?.as_bytes().to_vec(),
    };
    let is_unsafe = path.contains(&0) || path.split(|byte| *byte == b'/').any(|part| part == b"..");
    if is_unsafe || path.ends_with(b"/") {
        let path = Text(&path);
        let reason = match is_unsafe {
            true => "it has \"..\" or NUL in it; use $uri rather than $request_uri",
            false => "it is a directory",
        };
        log_request!(
            exchange,
            Error,
            "the response is not stored at \"{path}\": {reason}"
        );
        return None;
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}
