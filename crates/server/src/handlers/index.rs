//! `index`: the file that is served for a directory.

use super::path::FilePath;
use super::symlinks;
use super::{Outcome, open};
use crate::exchange::Exchange;
use crate::open_file_cache::{Errno, Opened};
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_http::{Method, StatusCode};
use sealane_log::confinement;

/// Redirects internally to the first index file that exists. Called for URIs that end with a slash.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    if !matches!(
        exchange.request.head.method,
        Method::Get | Method::Head | Method::Post
    ) {
        return Outcome::Declined;
    }
    let mut path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Outcome::Status(status),
    };
    let directory_bytes = path.as_bytes().len();
    let snapshot = exchange.snapshot.clone();
    let conf = &snapshot.location(exchange.location).conf;
    let mut directory_tested = false;
    for candidate in &conf.index {
        let name = template::evaluate(candidate, exchange);
        if name.starts_with(b"/") {
            return Outcome::Redirect {
                uri: name.into_owned(),
                args: exchange.request.args.clone(),
            };
        }
        path.truncate(directory_bytes);
        path.push(&name);
        let errno = match open(exchange, &path).await {
            Ok(_) => {
                let uri = [&exchange.request.uri[..], &name].concat();
                return Outcome::Redirect {
                    uri,
                    args: exchange.request.args.clone(),
                };
            }
            Err(errno) => errno,
        };
        if errno.is_forbidden() || (errno.is_not_found() && errno != Errno(libc::ENOENT)) {
            return refuse(exchange, path.as_bytes(), errno);
        }
        if !directory_tested {
            path.truncate(directory_bytes);
            if let Some(outcome) = test_directory(exchange, &path, &name).await {
                return outcome;
            }
            path.push(&name);
            directory_tested = true;
        }
        if errno != Errno(libc::ENOENT) {
            let call = symlinks::call(exchange, "open()");
            log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
            return Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);
        }
    }
    Outcome::Declined
}

/// A missing index file may mean that there is no such directory at all.
async fn test_directory(exchange: &Exchange, path: &FilePath, index: &[u8]) -> Option<Outcome> {
    match open(exchange, path).await {
        Ok(Opened::Directory) => None,
        Ok(_) => {
            log_request!(exchange, Alert, "\"{path}\" is not a directory");
            Some(Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR))
        }
        Err(errno) if errno == Errno(libc::ENOENT) => {
            // As in nginx the message names the index file.
            Some(refuse(exchange, &[path.as_bytes(), index].concat(), errno))
        }
        // It exists but may not be read: its contents may still be served.
        Err(errno) if errno.is_forbidden() => None,
        Err(errno) => {
            let call = symlinks::call(exchange, "open()");
            log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
            Some(Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR))
        }
    }
}

fn refuse(exchange: &Exchange, path: &[u8], errno: Errno) -> Outcome {
    let path = Text(path);
    if errno.is_forbidden() {
        let reason = confinement::read_reason(Some(errno.0));
        log_request!(exchange, Error, "\"{path}\" is forbidden ({errno}){reason}");
        return Outcome::Status(StatusCode::FORBIDDEN);
    }
    if exchange.conf().log_not_found {
        log_request!(exchange, Error, "\"{path}\" is not found ({errno})");
    }
    Outcome::Status(StatusCode::NOT_FOUND)
}
