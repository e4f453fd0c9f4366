//! COPY and MOVE: the destination, and whether it may be overwritten.

use super::{
    DavError, Depth, depth, header, note, path_of, refuse, refuse_body, tree, without_slash,
};
use crate::exchange::Exchange;
use crate::handlers::path::FilePath;
use crate::open_file_cache::Errno;
use crate::proxying::safe_uri;
use crate::request_log::{Text, log_request};
use sealane_conf::model::{Dav, FilesAt};
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use sealane_log::confinement;
use std::path::PathBuf;

/// Copies or moves the file or directory that the URI leads to. Returns the status.
///
/// # Errors
/// The status to answer with.
pub(super) async fn copy_or_move(
    exchange: &mut Exchange,
    dav: &Dav,
) -> Result<StatusCode, StatusCode> {
    refuse_body(exchange, "COPY and MOVE with body are")?;
    let uri = destination(exchange)?;
    check_depth(exchange)?;
    let overwrite = overwrite(exchange)?;
    let from = path_of(&FilePath::of(exchange)?);
    let to = destination_path(exchange, uri)?;
    let order = tree::CopyOrMove {
        is_move: exchange.request.head.method == Method::Move,
        to_collection: ends_with_slash(&to),
        from_collection: exchange.request.uri.ends_with(b"/"),
        overwrite,
        access: dav.access,
        from,
        to: without_slash(to),
    };
    let (noted, done) = disk::run(move || order.run()).await;
    note(exchange, &noted);
    match done {
        Ok(tree::Done::Tree) => Ok(StatusCode::CREATED),
        Ok(tree::Done::File) => Ok(StatusCode::NO_CONTENT),
        Err(refusal) => Err(explain(exchange, refusal)),
    }
}

fn ends_with_slash(path: &std::path::Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

/// The decoded path of `Destination`, which must be on this server.
fn destination(exchange: &Exchange) -> Result<Vec<u8>, StatusCode> {
    let Some(written) = header(exchange, KnownHeader::Destination) else {
        log_request!(exchange, Error, "client sent no \"Destination\" header");
        return Err(StatusCode::BAD_REQUEST);
    };
    let shown = Text(written);
    let invalid = || {
        log_request!(
            exchange,
            Error,
            "client sent invalid \"Destination\" header: \"{shown}\""
        );
        StatusCode::BAD_REQUEST
    };
    let target = match written {
        [b'/', ..] => written,
        _ => below_host(exchange, written, invalid)?,
    };
    let Some((uri, _)) = safe_uri(target) else {
        log_request!(
            exchange,
            Error,
            "unsafe URI \"{}\" was detected",
            Text(target)
        );
        return Err(invalid());
    };
    let source = &exchange.request.uri;
    if source.ends_with(b"/") != written.ends_with(b"/") {
        log_request!(
            exchange,
            Error,
            "both URI \"{}\" and \"Destination\" URI \"{shown}\" should be either collections \
             or non-collections",
            Text(source)
        );
        return Err(StatusCode::CONFLICT);
    }
    if !may_replace_prefix(exchange, &uri) {
        return Err(invalid());
    }
    Ok(uri)
}

/// An absolute URI must be of this server. Like nginx, this compares only the beginning of the
/// name.
fn below_host<'w>(
    exchange: &Exchange,
    written: &'w [u8],
    invalid: impl Fn() -> StatusCode,
) -> Result<&'w [u8], StatusCode> {
    let host = &exchange.request.host;
    if host.is_empty() {
        log_request!(exchange, Error, "client sent no \"Host\" header");
        return Err(StatusCode::BAD_REQUEST);
    }
    let scheme: &[u8] = match exchange.is_tls() {
        true => b"https://",
        false => b"http://",
    };
    let rest = written.strip_prefix(scheme).ok_or_else(&invalid)?;
    let Some(rest) = rest.strip_prefix(&host[..]) else {
        log_request!(
            exchange,
            Error,
            "\"Destination\" URI \"{}\" is handled by different repository than the source URI",
            Text(written)
        );
        return Err(StatusCode::BAD_REQUEST);
    };
    let slash = memchr::memchr(b'/', rest).ok_or_else(&invalid)?;
    Ok(&rest[slash..])
}

/// With `alias` the beginning of the path is replaced. nginx cuts off that many bytes, whatever
/// they are; what is left of another path would be another file, or leave the root by `..`.
fn may_replace_prefix(exchange: &Exchange, uri: &[u8]) -> bool {
    let conf = exchange.conf();
    let Some(replaced) = conf.alias_prefix_bytes else {
        return true;
    };
    if !matches!(conf.files_at, FilesAt::Alias(_)) {
        return true;
    }
    match (
        uri.split_at_checked(replaced),
        exchange.request.uri.get(..replaced),
    ) {
        (Some((prefix, rest)), Some(own)) => {
            prefix == own && !rest.split(|byte| *byte == b'/').any(|part| part == b"..")
        }
        _ => false,
    }
}

fn check_depth(exchange: &Exchange) -> Result<(), StatusCode> {
    let is_copy = exchange.request.head.method == Method::Copy;
    match depth(exchange).unwrap_or(Depth::Infinity) {
        Depth::Infinity => Ok(()),
        Depth::Zero if is_copy => Ok(()),
        _ if is_copy => {
            log_request!(exchange, Error, "\"Depth\" header must be 0 or infinity");
            Err(StatusCode::BAD_REQUEST)
        }
        _ => {
            log_request!(exchange, Error, "\"Depth\" header must be infinity");
            Err(StatusCode::BAD_REQUEST)
        }
    }
}

fn overwrite(exchange: &Exchange) -> Result<bool, StatusCode> {
    match header(exchange, KnownHeader::Overwrite) {
        None | Some(b"T" | b"t") => Ok(true),
        Some(b"F" | b"f") => Ok(false),
        Some(other) => {
            let other = Text(other);
            log_request!(
                exchange,
                Error,
                "client sent invalid \"Overwrite\" header: \"{other}\""
            );
            Err(StatusCode::BAD_REQUEST)
        }
    }
}

/// The path in the file system of a URI other than the request's.
fn destination_path(exchange: &mut Exchange, uri: Vec<u8>) -> Result<PathBuf, StatusCode> {
    let own = std::mem::replace(&mut exchange.request.uri, uri);
    let path = FilePath::of(exchange);
    exchange.request.uri = own;
    Ok(path_of(&path?))
}

/// Logs why nothing was copied or moved, and returns the status.
fn explain(exchange: &Exchange, refusal: tree::CopyRefusal) -> StatusCode {
    use tree::CopyRefusal as R;
    let uri = Text(&exchange.request.uri);
    let method = exchange.request.head.method.name().unwrap_or_default();
    let to = header(exchange, KnownHeader::Destination).unwrap_or_default();
    let to = Text(to);
    match refusal {
        R::ToDirectory => {
            log_request!(
                exchange,
                Error,
                "\"{uri}\" could not be {method}ed to collection \"{to}\""
            );
            StatusCode::CONFLICT
        }
        R::Exists(path) => {
            let (path, errno) = (path.display(), Errno(libc::EEXIST));
            log_request!(exchange, Error, "\"{path}\" could not be created ({errno})");
            StatusCode::PRECONDITION_FAILED
        }
        R::IsCollection => {
            log_request!(exchange, Error, "\"{uri}\" is collection");
            StatusCode::BAD_REQUEST
        }
        R::SamePlace => {
            log_request!(
                exchange,
                Error,
                "\"{uri}\" and \"{to}\" are the same, or one is inside the other: nothing was done"
            );
            StatusCode::FORBIDDEN
        }
        R::Link => {
            log_request!(
                exchange,
                Error,
                "\"{uri}\" is a link to a directory, which {method} does not follow"
            );
            StatusCode::FORBIDDEN
        }
        R::Failed(failure) => refuse(exchange, &failure, StatusCode::NOT_FOUND),
        R::Incomplete(failure) => incomplete(exchange, &failure),
    }
}

/// A file that could not be copied or moved is 500 in nginx, whatever the reason; here a full disk
/// is reported as such.
fn incomplete(exchange: &Exchange, failure: &DavError) -> StatusCode {
    let DavError { call, path, errno } = failure;
    let (path, reason) = (path.display(), confinement::reason(Some(errno.0)));
    log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno}){reason}");
    match errno.0 {
        libc::ENOSPC | libc::EDQUOT => StatusCode::INSUFFICIENT_STORAGE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
