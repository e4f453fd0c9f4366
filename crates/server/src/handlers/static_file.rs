//! Serves plain files.

use super::path::FilePath;
use super::returns::add_slash;
use super::symlinks;
use super::{Outcome, open, set_content_type};
use crate::exchange::{ETag, Exchange};
use crate::open_file_cache::{Errno, OpenFile, Opened};
use crate::request_log::{Text, log_request};
use bytes::Bytes;
use sealane_http::{Method, StatusCode};
use sealane_log::confinement;
use std::sync::Arc;

/// Serves the file that the URI leads to.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    let method = exchange.request.head.method;
    if !matches!(method, Method::Get | Method::Head | Method::Post) {
        return Outcome::Status(StatusCode::NOT_ALLOWED);
    }
    let path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Outcome::Status(status),
    };
    match open(exchange, &path).await {
        // As in nginx, the file is opened first: POST to a missing one is 404.
        Ok(Opened::File(..)) if method == Method::Post => Outcome::Status(StatusCode::NOT_ALLOWED),
        Ok(Opened::File(file, content)) => {
            set_content_type(exchange);
            exchange.response.allow_ranges = true;
            send(exchange, &file, content);
            Outcome::Answered
        }
        Ok(Opened::Directory) => add_slash(exchange),
        Ok(Opened::Other) => {
            log_request!(exchange, Crit, "\"{path}\" is not a regular file");
            Outcome::Status(StatusCode::NOT_FOUND)
        }
        Err(errno) => Outcome::Status(refuse(exchange, &path, errno)),
    }
}

/// Makes an open file the body, with its validators.
pub(super) fn send(exchange: &mut Exchange, file: &Arc<OpenFile>, content: Option<Bytes>) {
    let etag = exchange.conf().etag.then(|| ETag::of_file(file.version()));
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_length = Some(file.size());
    response.last_modified_s = Some(file.mtime_s());
    response.etag = etag;
    response.body.clear();
    match content {
        Some(bytes) => response.body.push_bytes(bytes),
        None => response.body.push_file(file.clone(), 0, file.size()),
    }
    exchange.features.request_log.doing = " while sending response to client";
}

/// Logs why a file could not be opened and returns the status.
pub(crate) fn refuse(exchange: &Exchange, path: &FilePath, errno: Errno) -> StatusCode {
    let (call, path) = (symlinks::call(exchange, "open()"), Text(path.as_bytes()));
    if errno.is_not_found() {
        if exchange.conf().log_not_found {
            log_request!(exchange, Error, "{call} \"{path}\" failed ({errno})");
        }
        return StatusCode::NOT_FOUND;
    }
    if errno.is_forbidden() {
        let reason = confinement::read_reason(Some(errno.0));
        log_request!(
            exchange,
            Error,
            "{call} \"{path}\" failed ({errno}){reason}"
        );
        return StatusCode::FORBIDDEN;
    }
    log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
    StatusCode::INTERNAL_SERVER_ERROR
}
