//! `autoindex`: lists directories.

mod format;

use super::made::Room;
use super::path::FilePath;
use super::{Outcome, made};
use crate::exchange::{ContentType, Exchange};
use crate::filters;
use crate::open_file_cache::Errno;
use crate::request_log::log_request;
use format::Callback;
use sealane_conf::model::AutoindexFormat;
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use sealane_log::confinement;
use sealane_sys::file::{self, Kind, Stat};
use sealane_sys::time;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::sync::Arc;

/// One entry of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DirectoryEntry {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    size: u64,
    mtime_s: i64,
}

/// Why a directory could not be listed.
pub(super) enum ListError {
    Call {
        call: &'static str,
        path: PathBuf,
        errno: Errno,
    },
    /// There are more entries than are allowed.
    TooMany { path: PathBuf, most: u32 },
}

/// What was read.
pub(super) struct List {
    pub(super) entries: Vec<DirectoryEntry>,
    /// Entries that may not be examined.
    pub(super) skipped: Vec<ListError>,
    /// Held while a long list is worked on.
    _room: Option<Room>,
}

/// Longer lists are made one after the other.
const LONG_LIST: usize = 2000;

/// Lists the directory. Called for URIs that end with a slash.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Declined;
    }
    let Some(autoindex) = exchange.conf().autoindex else {
        return Outcome::Declined;
    };
    let path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Outcome::Status(status),
    };
    let callback = match Callback::of(exchange.request.args()) {
        Ok(callback) => callback,
        Err(_) if autoindex.format != AutoindexFormat::Jsonp => None,
        Err(problem) => {
            log_request!(exchange, Info, "client sent {problem}");
            return Outcome::Status(StatusCode::BAD_REQUEST);
        }
    };
    let directory = PathBuf::from(std::ffi::OsString::from_vec(path.as_bytes().to_vec()));
    let content_type: &[u8] = match (autoindex.format, &callback) {
        (AutoindexFormat::Html, _) => b"text/html",
        (AutoindexFormat::Xml, _) => b"text/xml; charset=utf-8",
        (AutoindexFormat::Json, _) | (AutoindexFormat::Jsonp, None) => b"application/json",
        (AutoindexFormat::Jsonp, Some(_)) => b"application/javascript",
    };
    exchange.response.content_type = ContentType::new(content_type);
    let charset = filters::charset_to_be_named(exchange);
    let page = format::ListPage {
        exact_size: autoindex.exact_size,
        zone_s: match autoindex.localtime {
            true => local_offset_s(),
            false => 0,
        },
        is_utf8: charset.is_some_and(|name| name.eq_ignore_ascii_case(b"utf-8")),
    };
    let (uri, most) = (
        exchange.request.uri.clone(),
        exchange.conf().autoindex_max_entries,
    );
    let temp_path = Arc::clone(&exchange.conf().client_body_temp_path);
    let made = disk::run(move || {
        let list = read(directory, most)?;
        let entries = &list.entries;
        let text = match autoindex.format {
            AutoindexFormat::Html => format::html(&uri, entries, &page),
            AutoindexFormat::Xml => format::xml(entries),
            AutoindexFormat::Json => format::json(entries, None),
            AutoindexFormat::Jsonp => format::json(entries, callback.as_ref()),
        };
        Ok((made::keep(&temp_path, text), list.skipped))
    });
    let (text, skipped) = match made.await {
        Ok(made) => made,
        Err(failure) => {
            exchange.response.content_type = None;
            return Outcome::Status(refuse(exchange, &failure));
        }
    };
    for failure in skipped {
        note(exchange, &failure);
    }
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            exchange.response.content_type = None;
            log_request!(exchange, Crit, "{error}");
            return Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);
        }
    };
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_length = Some(text.len());
    response.body.push(text);
    Outcome::Answered
}

fn local_offset_s() -> i64 {
    i64::from(time::local(time::unix_coarse_s()).utc_offset_s)
}

/// Reads a directory: directories first, then by name, without hidden names.
/// Entries that may not be examined are left out and returned separately. Blocks; a long list
/// waits until others are done.
///
/// # Errors
/// See [`ListError`].
pub(super) fn read(directory: PathBuf, most: u32) -> Result<List, ListError> {
    let fail = |call, path: &std::path::Path, error: &io::Error| ListError::Call {
        call,
        path: path.to_owned(),
        errno: Errno::of(error),
    };
    let listed = fs::read_dir(&directory).map_err(|error| fail("opendir", &directory, &error))?;
    let (mut entries, mut skipped, mut room) = (Vec::new(), Vec::new(), None);
    for entry in listed {
        let count = entries.len() + skipped.len();
        if count == most as usize {
            return Err(ListError::TooMany {
                path: directory,
                most,
            });
        }
        if count == LONG_LIST && room.is_none() {
            room = Some(made::wait_for_room(usize::MAX));
        }
        let entry = entry.map_err(|error| fail("readdir", &directory, &error))?;
        let name = entry.file_name().into_vec();
        if name.starts_with(b".") {
            continue;
        }
        let path = directory.join(OsStr::from_bytes(&name));
        match examine(&path) {
            Ok(stat) => entries.push(DirectoryEntry {
                name,
                kind: stat.kind,
                size: stat.size,
                mtime_s: stat.mtime_s,
            }),
            // Removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => skipped.push(fail("stat", &path, &error)),
        }
    }
    entries.sort_unstable_by(|a, b| {
        let directory_last = |entry: &DirectoryEntry| entry.kind != Kind::Dir;
        (directory_last(a), &a.name).cmp(&(directory_last(b), &b.name))
    });
    Ok(List {
        entries,
        skipped,
        _room: room,
    })
}

/// The metadata of an entry; of the link itself if its target does not exist.
fn examine(path: &std::path::Path) -> io::Result<Stat> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    match file::stat_path(&name) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ELOOP)) => {
            use std::os::unix::fs::MetadataExt;
            let link = fs::symlink_metadata(path)?;
            Ok(Stat {
                kind: Kind::Other,
                size: link.size(),
                mtime_s: link.mtime(),
                mtime_ns: link.mtime_nsec() as u32,
                dev: link.dev(),
                inode: link.ino(),
                mode: link.mode(),
                uid: link.uid(),
            })
        }
        result => result,
    }
}

pub(super) fn refuse(exchange: &Exchange, failure: &ListError) -> StatusCode {
    note(exchange, failure);
    match failure {
        ListError::Call { errno, .. } if errno.is_not_found() => StatusCode::NOT_FOUND,
        ListError::Call { errno, .. } if errno.is_forbidden() => StatusCode::FORBIDDEN,
        ListError::Call { .. } | ListError::TooMany { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

pub(super) fn note(exchange: &Exchange, failure: &ListError) {
    let (call, path, errno) = match failure {
        ListError::Call { call, path, errno } => (call, path.display(), errno),
        ListError::TooMany { path, most } => {
            let path = path.display();
            log_request!(
                exchange,
                Error,
                "directory \"{path}\" has more than {most} entries, you may want to increase \
                 autoindex_max_entries"
            );
            return;
        }
    };
    if *call == "opendir" && (errno.is_not_found() || errno.is_forbidden()) {
        let reason = confinement::read_reason(Some(errno.0));
        log_request!(
            exchange,
            Error,
            "{call}() \"{path}\" failed ({errno}){reason}"
        );
    } else {
        log_request!(exchange, Crit, "{call}() \"{path}\" failed ({errno})");
    }
}
