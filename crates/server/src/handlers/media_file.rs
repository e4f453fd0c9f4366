//! Shared by `flv` and `mp4`: a file that can be played from the middle.

use super::path::FilePath;
use super::{Outcome, open, set_content_type, static_file};
use crate::exchange::{ETag, Exchange};
use crate::open_file_cache::{OpenFile, Opened};
use bytes::Bytes;
use sealane_http::{Method, StatusCode};
use sealane_io::chain::Segment;
use sealane_io::open_file::FileVersion;
use std::ops::Range;
use std::sync::Arc;

/// An open file, and where it is.
pub(super) struct MediaFile {
    pub(super) path: FilePath,
    pub(super) file: Arc<OpenFile>,
    /// Its contents, if `open_file_cache_content` caches them.
    content: Option<Bytes>,
}

/// Part of a file, with something in front.
pub(super) struct MediaPart {
    pub(super) head: Segment,
    /// Positions in the file.
    pub(super) data: Range<u64>,
}

impl MediaFile {
    /// Opens the file of the URI.
    ///
    /// # Errors
    /// What is answered instead.
    pub(super) async fn open(exchange: &mut Exchange) -> Result<MediaFile, Outcome> {
        if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
            return Err(Outcome::Status(StatusCode::NOT_ALLOWED));
        }
        if exchange.request.uri.ends_with(b"/") {
            return Err(Outcome::Declined);
        }
        let path = FilePath::of(exchange).map_err(Outcome::Status)?;
        match open(exchange, &path).await {
            Ok(Opened::File(file, content)) => Ok(MediaFile {
                path,
                file,
                content,
            }),
            Ok(Opened::Directory | Opened::Other) => Err(Outcome::Declined),
            Err(errno) => Err(Outcome::Status(static_file::refuse(exchange, &path, errno))),
        }
    }

    /// Responds with the file, or with a part of it, whose validators are those of the part.
    pub(super) fn send(self, exchange: &mut Exchange, part: Option<MediaPart>) {
        set_content_type(exchange);
        exchange.response.allow_ranges = true;
        static_file::send(exchange, &self.file, self.content);
        let Some(MediaPart { head, data }) = part else {
            return;
        };
        let has_tag = exchange.conf().etag;
        let response = &mut exchange.response;
        let rest = response.body.slice(data.start, data.end - data.start);
        response.body.clear();
        response.body.push(head);
        response.body.append(rest);
        let len = response.body.len();
        response.content_length = Some(len);
        response.etag = has_tag.then(|| ETag::of_file(FileVersion::new(self.file.mtime_s(), len)));
    }
}
