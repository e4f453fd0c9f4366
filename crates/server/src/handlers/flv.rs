//! `flv`: a file from the position on that `?start=` names, behind a header of its own.

use super::path::FilePath;
use super::{Step, open, set_content_type, static_file};
use crate::exchange::{ETag, Exchange};
use crate::open_file_cache::Opened;
use crate::variables;
use bytes::Bytes;
use sealane_http::decimal::parse_offset;
use sealane_http::{Method, StatusCode};

/// The header of an FLV file with audio and video, and the size of no tag before the first.
const HEADER: &[u8; 13] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// Sends the file that the URI leads to, or what of it is asked for.
pub(crate) async fn answer(exchange: &mut Exchange) -> Step {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Step::Status(StatusCode::NOT_ALLOWED);
    }
    if exchange.request.uri.ends_with(b"/") {
        return Step::Declined;
    }
    let path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Step::Status(status),
    };
    let (file, content) = match open(exchange, &path).await {
        Ok(Opened::File(file, content)) => (file, content),
        Ok(Opened::Directory | Opened::Other) => return Step::Declined,
        Err(errno) => return Step::Status(static_file::refuse(exchange, &path, errno)),
    };
    let size = file.size();
    let start = variables::argument(&exchange.request.args, b"start")
        .and_then(parse_offset)
        .filter(|start| (1..size).contains(start));
    set_content_type(exchange);
    exchange.response.allow_ranges = true;
    static_file::send(exchange, &file, content);
    if let Some(start) = start {
        let has_tag = exchange.conf().etag;
        let response = &mut exchange.response;
        let rest = response.body.slice(start, size - start);
        response.body.clear();
        response.body.push_bytes(Bytes::from_static(HEADER));
        response.body.append(rest);
        let len = response.body.len();
        response.content_length = Some(len);
        // Of what is sent, not of the file.
        response.etag = has_tag.then(|| ETag::of_file(file.mtime_s(), len));
    }
    Step::Answered
}
