//! `autoindex`: the list of a directory.

mod format;

use super::Step;
use super::path::FilePath;
use crate::disk;
use crate::exchange::{ContentType, Exchange};
use crate::filters;
use crate::open_file_cache::Errno;
use crate::request_log::log_request;
use format::Callback;
use sealane_conf::model::AutoindexFormat;
use sealane_http::{Method, StatusCode};
use sealane_sys::file::{self, Kind, Stat};
use sealane_sys::time;
use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: Vec<u8>,
    pub(super) kind: Kind,
    size: u64,
    mtime_s: i64,
}

/// What could not be read.
pub(super) struct Failure {
    call: &'static str,
    path: PathBuf,
    errno: Errno,
}

/// Lists the directory. Called for URIs that end with a slash.
pub(crate) async fn answer(exchange: &mut Exchange) -> Step {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Step::Declined;
    }
    let Some(autoindex) = exchange.conf().autoindex else {
        return Step::Declined;
    };
    let path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Step::Status(status),
    };
    let callback = match Callback::of(exchange.request.args()) {
        Ok(callback) => callback,
        Err(_) if autoindex.format != AutoindexFormat::Jsonp => None,
        Err(problem) => {
            log_request!(exchange, Info, "client sent {problem}");
            return Step::Status(StatusCode::BAD_REQUEST);
        }
    };
    let directory = PathBuf::from(std::ffi::OsString::from_vec(path.as_bytes().to_vec()));
    let entries = match disk::run(move || read(directory)).await {
        Ok((entries, skipped)) => {
            for failure in skipped {
                note(exchange, &failure);
            }
            entries
        }
        Err(failure) => return Step::Status(refuse(exchange, &failure)),
    };
    let zone_s = if autoindex.localtime {
        local_offset_s()
    } else {
        0
    };
    let (content_type, text) = match (autoindex.format, &callback) {
        (AutoindexFormat::Html, _) => ("text/html", {
            exchange.response.content_type = ContentType::new(b"text/html");
            let charset = filters::charset_to_be_named(exchange);
            let page = format::Page {
                exact_size: autoindex.exact_size,
                zone_s,
                is_utf8: charset.is_some_and(|name| name.eq_ignore_ascii_case(b"utf-8")),
            };
            format::html(&exchange.request.uri, &entries, &page)
        }),
        (AutoindexFormat::Xml, _) => ("text/xml; charset=utf-8", format::xml(&entries)),
        (AutoindexFormat::Json, _) | (AutoindexFormat::Jsonp, None) => {
            ("application/json", format::json(&entries, None))
        }
        (AutoindexFormat::Jsonp, Some(callback)) => (
            "application/javascript",
            format::json(&entries, Some(callback)),
        ),
    };
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_type = ContentType::new(content_type.as_bytes());
    response.content_length = Some(text.len() as u64);
    response.body.push_bytes(text);
    Step::Answered
}

fn local_offset_s() -> i64 {
    i64::from(time::local(time::unix_coarse_s()).utc_offset_s)
}

/// Reads a directory: directories first, then by name, without hidden names.
/// Entries that may not be examined are left out and returned beside.
pub(super) fn read(directory: PathBuf) -> Result<(Vec<Entry>, Vec<Failure>), Failure> {
    let fail = |call, path: &std::path::Path, error: &io::Error| Failure {
        call,
        path: path.to_owned(),
        errno: Errno::of(error),
    };
    let listed = fs::read_dir(&directory).map_err(|error| fail("opendir", &directory, &error))?;
    let (mut entries, mut skipped) = (Vec::new(), Vec::new());
    for entry in listed {
        let entry = entry.map_err(|error| fail("readdir", &directory, &error))?;
        let name = entry.file_name().into_vec();
        if name.starts_with(b".") {
            continue;
        }
        let path = directory.join(OsStr::from_bytes(&name));
        match examine(&path) {
            Ok(stat) => entries.push(Entry {
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
        let directory_last = |entry: &Entry| entry.kind != Kind::Dir;
        (directory_last(a), &a.name).cmp(&(directory_last(b), &b.name))
    });
    Ok((entries, skipped))
}

/// The facts of an entry; of the link itself when it leads nowhere.
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

pub(super) fn refuse(exchange: &Exchange, failure: &Failure) -> StatusCode {
    note(exchange, failure);
    if failure.errno.is_not_found() {
        StatusCode::NOT_FOUND
    } else if failure.errno.is_forbidden() {
        StatusCode::FORBIDDEN
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    }
}

pub(super) fn note(exchange: &Exchange, failure: &Failure) {
    let Failure { call, path, errno } = failure;
    let path = path.display();
    if *call == "opendir" && (errno.is_not_found() || errno.is_forbidden()) {
        log_request!(exchange, Error, "{call}() \"{path}\" failed ({errno})");
    } else {
        log_request!(exchange, Crit, "{call}() \"{path}\" failed ({errno})");
    }
}
