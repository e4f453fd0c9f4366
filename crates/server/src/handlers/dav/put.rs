//! PUT: the body is written to a temporary file, which gets the name when it is complete.

use super::tree::{Finished, Named, NotNamed};
use super::{header, path_of, set_location};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::handlers::path::FilePath;
use crate::open_file_cache::{Errno, OpenFile};
use crate::request_body;
use crate::request_log::log_request;
use sealane_conf::model::Dav;
use sealane_http::h1::Framing;
use sealane_http::headers::KnownHeader;
use sealane_http::{StatusCode, date};
use sealane_io::disk;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Stores the body of the request.
pub(super) async fn answer(exchange: &mut Exchange, dav: &Dav) -> Outcome {
    if exchange.request.uri.ends_with(b"/") {
        log_request!(exchange, Error, "cannot PUT to a collection");
        return Outcome::Status(StatusCode::CONFLICT);
    }
    if header(exchange, KnownHeader::ContentRange).is_some() {
        log_request!(exchange, Error, "PUT with range is unsupported");
        return Outcome::Status(StatusCode::NOT_IMPLEMENTED);
    }
    // Like nginx, do not create an empty file for a request that does not declare a body. In HTTP/2
    // only the length declares an empty one.
    let says_nothing = header(exchange, KnownHeader::ContentLength).is_none();
    if exchange.request.head.framing == Framing::None && says_nothing {
        log_request!(exchange, Error, "PUT request body must be in a file");
        return Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let named = match store(exchange, dav).await {
        Ok(named) => named,
        Err(status) => return Outcome::Status(status),
    };
    let response = &mut exchange.response;
    response.body.clear();
    match named {
        Named::New => {
            response.status = StatusCode::CREATED;
            response.content_length = Some(0);
            set_location(exchange);
        }
        Named::Replaced => response.status = StatusCode::NO_CONTENT,
    }
    Outcome::Answered
}

async fn store(exchange: &mut Exchange, dav: &Dav) -> Result<Named, StatusCode> {
    let temporary = request_body::receive_as_file(exchange).await?;
    let to = path_of(&FilePath::of(exchange)?);
    let mtime_s = header(exchange, KnownHeader::Date).and_then(date::parse);
    let (access, create_path) = (dav.access, dav.create_full_put_path);
    let target = to.clone();
    let named = disk::run(move || give_name(&temporary, &target, mtime_s, access, create_path));
    match named.await {
        Ok(named) => Ok(named),
        Err(NotNamed::Directory) => {
            let (path, errno) = (to.display(), Errno(libc::EISDIR));
            log_request!(exchange, Error, "\"{path}\" could not be created ({errno})");
            Err(StatusCode::CONFLICT)
        }
        Err(NotNamed::Failed(failure)) => {
            log_request!(exchange, Crit, "{failure}");
            Err(match failure.errno.0 {
                libc::ENOSPC | libc::EDQUOT => StatusCode::INSUFFICIENT_STORAGE,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            })
        }
    }
}

/// Gives a complete temporary file its name, with these permissions and, if known, this time in
/// seconds since 1970. Blocks: for disk threads.
///
/// # Errors
/// See [`NotNamed`]; the file keeps its temporary name.
pub(crate) fn give_name(
    temporary: &Arc<OpenFile>,
    to: &Path,
    mtime_s: Option<i64>,
    access: u32,
    create_path: bool,
) -> Result<Named, NotNamed> {
    let from = PathBuf::from(OsStr::from_bytes(temporary.path()));
    let file = temporary.as_fd().try_clone_to_owned();
    let file = File::from(file.map_err(|error: io::Error| {
        NotNamed::Failed(super::tree::failure("dup()", &from, &error))
    })?);
    let finished = Finished {
        file: &file,
        from: &from,
        to,
        access,
        mtime_s,
        create_path,
    };
    let (named, has_moved) = finished.name()?;
    if has_moved {
        // Another process may be using the temporary name already.
        temporary.lost_its_name();
    }
    Ok(named)
}
