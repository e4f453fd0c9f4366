//! `dav_methods`: PUT, DELETE, MKCOL, COPY and MOVE (RFC 4918, as far as nginx goes).
//!
//! ```text
//! mod    which method, what its headers say     on the worker thread
//! put    a body becomes a file                  both
//! tree   what is done to files and directories  on a disk thread
//! ```
//!
//! Responses are nginx's. Where nginx would destroy the files it works on, or leave the root, the
//! request is refused or undone: a copy onto or into itself gets a 403; a tree that cannot be
//! copied completely is not copied, and never moved; links to directories are not followed; a
//! file gets its name when it is complete.

mod destination;
mod put;
mod tree;

pub(crate) use put::give_name;
pub(crate) use tree::NotNamed;

use super::Outcome;
use super::path::FilePath;
use crate::exchange::Exchange;
use crate::open_file_cache::Errno;
use crate::request_log::{Text, log_request};
use sealane_conf::model::{Dav, DavMethods};
use sealane_http::h1::Framing;
use sealane_http::headers::KnownHeader;
use sealane_http::uri::{EscapeKind, escape_into};
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use sealane_log::confinement;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

/// A failed system call on a file, in nginx's words.
#[derive(Debug)]
pub(crate) struct DavError {
    call: &'static str,
    path: PathBuf,
    errno: Errno,
}

/// As in nginx's lines: `rename() "/a" to "/b" failed (2: No such file or directory)`.
impl fmt::Display for DavError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, path, errno) = (self.call, self.path.display(), self.errno);
        let reason = confinement::reason(Some(errno.0));
        write!(f, "{call} \"{path}\" failed ({errno}){reason}")
    }
}

/// How deep a method is to go: `Depth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Zero,
    One,
    Infinity,
    Invalid,
}

/// Handles the request if its method is one of `dav_methods`.
pub(crate) async fn answer(exchange: &mut Exchange, dav: Arc<Dav>) -> Outcome {
    let method = exchange.request.head.method;
    if !allows(&dav.methods, method) {
        return Outcome::Declined;
    }
    let done = match method {
        Method::Put => return put::answer(exchange, &dav).await,
        Method::Delete => delete(exchange, &dav).await,
        Method::Mkcol => mkcol(exchange, &dav).await,
        _ => destination::copy_or_move(exchange, &dav).await,
    };
    match done {
        Ok(status) | Err(status) => Outcome::Status(status),
    }
}

fn allows(methods: &DavMethods, method: Method) -> bool {
    match method {
        Method::Put => methods.put,
        Method::Delete => methods.delete,
        Method::Mkcol => methods.mkcol,
        Method::Copy => methods.copy,
        Method::Move => methods.move_,
        _ => false,
    }
}

async fn delete(exchange: &mut Exchange, dav: &Dav) -> Result<StatusCode, StatusCode> {
    refuse_body(exchange, "DELETE with body is")?;
    check_depth_of_uri(exchange, dav.min_delete_depth)?;
    let is_collection = exchange.request.uri.ends_with(b"/");
    let path = path_of(&FilePath::of(exchange)?);
    let target = path.clone();
    let looked = disk::run(move || tree::look(&target)).await;
    let is_directory = match looked {
        Ok(facts) => facts.is_dir(),
        Err(failure) => {
            let not_found = match failure.errno.0 {
                libc::ENOTDIR => StatusCode::CONFLICT,
                _ => StatusCode::NOT_FOUND,
            };
            return Err(refuse(exchange, &failure, not_found));
        }
    };
    if is_directory && !is_collection {
        let errno = Errno(libc::EISDIR);
        let path = path.display();
        log_request!(exchange, Error, "DELETE \"{path}\" failed ({errno})");
        return Err(StatusCode::CONFLICT);
    }
    let depth = depth(exchange).unwrap_or(if is_directory {
        Depth::Infinity
    } else {
        Depth::Zero
    });
    if is_directory && depth != Depth::Infinity {
        log_request!(exchange, Error, "\"Depth\" header must be infinity");
        return Err(StatusCode::BAD_REQUEST);
    }
    if !matches!(depth, Depth::Zero | Depth::Infinity) {
        log_request!(exchange, Error, "\"Depth\" header must be 0 or infinity");
        return Err(StatusCode::BAD_REQUEST);
    }
    let target = without_slash(path);
    let (noted, deleted) = disk::run(move || tree::delete(&target, is_directory)).await;
    note(exchange, &noted);
    match deleted {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(failure) => Err(refuse(exchange, &failure, StatusCode::NOT_FOUND)),
    }
}

async fn mkcol(exchange: &mut Exchange, dav: &Dav) -> Result<StatusCode, StatusCode> {
    refuse_body(exchange, "MKCOL with body is")?;
    if !exchange.request.uri.ends_with(b"/") {
        log_request!(exchange, Error, "MKCOL can create a collection only");
        return Err(StatusCode::CONFLICT);
    }
    let path = without_slash(path_of(&FilePath::of(exchange)?));
    let access = directory_access(dav.access);
    match disk::run(move || tree::make_directory(&path, access)).await {
        Ok(()) => {
            set_location(exchange);
            Ok(StatusCode::CREATED)
        }
        Err(failure) => Err(refuse(exchange, &failure, StatusCode::CONFLICT)),
    }
}

/// `min_delete_depth`: nginx counts slashes, and requires something after the last.
fn check_depth_of_uri(exchange: &Exchange, wanted: u64) -> Result<(), StatusCode> {
    if wanted == 0 {
        return Ok(());
    }
    let uri = &exchange.request.uri;
    let mut depth = 0;
    for (at, _) in uri.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
        depth += 1;
        if depth >= wanted && at + 1 < uri.len() {
            return Ok(());
        }
    }
    log_request!(exchange, Error, "insufficient URI depth:{depth} to DELETE");
    Err(StatusCode::CONFLICT)
}

/// Only PUT has a body.
fn refuse_body(exchange: &Exchange, what: &str) -> Result<(), StatusCode> {
    match exchange.request.head.framing {
        Framing::None | Framing::Length(0) => Ok(()),
        _ => {
            log_request!(exchange, Error, "{what} unsupported");
            Err(StatusCode::UNSUPPORTED_MEDIA_TYPE)
        }
    }
}

/// The value of `Depth`, if there is one.
fn depth(exchange: &Exchange) -> Option<Depth> {
    Some(match header(exchange, KnownHeader::Depth)? {
        b"0" => Depth::Zero,
        b"1" => Depth::One,
        b"infinity" => Depth::Infinity,
        other => {
            let other = Text(other);
            log_request!(
                exchange,
                Error,
                "client sent invalid \"Depth\" header: \"{other}\""
            );
            Depth::Invalid
        }
    })
}

fn header(exchange: &Exchange, name: KnownHeader) -> Option<&[u8]> {
    let span = exchange.request.head.get(name)?;
    Some(span.of(&exchange.request.buffer))
}

/// `Location` of the new file: the path of the request.
fn set_location(exchange: &mut Exchange) {
    let uri = &exchange.request.uri;
    let mut location = Vec::with_capacity(uri.len() + 8);
    escape_into(&mut location, uri, EscapeKind::Uri);
    exchange.response.location = Some(location);
}

/// Read permission for a directory includes search permission.
fn directory_access(access: u32) -> u32 {
    access | (access & 0o444) >> 2
}

fn path_of(path: &FilePath) -> PathBuf {
    PathBuf::from(OsString::from_vec(path.as_bytes().to_vec()))
}

fn without_slash(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes() {
        [path @ .., b'/'] if !path.is_empty() => PathBuf::from(OsString::from_vec(path.to_vec())),
        _ => path,
    }
}

/// Logs failures that did not change the result.
fn note(exchange: &Exchange, failures: &[DavError]) {
    for failure in failures {
        let _ = refuse(exchange, failure, StatusCode::NOT_FOUND);
    }
}

/// Logs a failure and returns the status (nginx's `ngx_http_dav_error()`).
fn refuse(exchange: &Exchange, failure: &DavError, not_found: StatusCode) -> StatusCode {
    let DavError { call, path, errno } = failure;
    let (path, reason) = (path.display(), confinement::reason(Some(errno.0)));
    let status = match errno.0 {
        libc::ENOENT | libc::ENOTDIR | libc::ENAMETOOLONG => not_found,
        libc::EACCES | libc::EPERM => StatusCode::FORBIDDEN,
        libc::EEXIST => StatusCode::NOT_ALLOWED,
        libc::ENOSPC | libc::EDQUOT => {
            log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
            return StatusCode::INSUFFICIENT_STORAGE;
        }
        _ => {
            log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
    };
    log_request!(
        exchange,
        Error,
        "{call} \"{path}\" failed ({errno}){reason}"
    );
    status
}
