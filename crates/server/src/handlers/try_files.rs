//! `try_files`.

use super::path::FilePath;
use super::{Outcome, open, special, symlinks};
use crate::exchange::Exchange;
use crate::open_file_cache::{Errno, Opened};
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::{FilesAt, LocationConf, Template, TryFallback};
use sealane_http::StatusCode;
use sealane_io::disk;
use sealane_sys::file::{self, Kind};
use std::ffi::CString;

/// Finds the first candidate that exists and makes it the URI; then the content handlers serve it
/// ([`Outcome::Declined`]). Otherwise the fallback is used.
pub(crate) async fn choose(exchange: &mut Exchange) -> Outcome {
    let conf = exchange.snapshot.location(exchange.location).conf.clone();
    let Some(try_files) = &conf.try_files else {
        return Outcome::Declined;
    };
    let mut path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Outcome::Status(status),
    };
    for candidate in &try_files.candidates {
        let name = template::evaluate(&candidate.name, exchange);
        path.replace_below_root(below_alias(exchange, &conf, &candidate.name, &name));
        let is_directory = match kind_of(exchange, &path).await {
            Ok(kind) => kind == Kind::Dir,
            Err(errno) => {
                if !errno.is_not_found() {
                    let call = symlinks::call(exchange, "stat()");
                    log_request!(exchange, Crit, "{call} \"{path}\" failed ({errno})");
                }
                continue;
            }
        };
        if is_directory == candidate.directory {
            use_as_uri(exchange, &path, candidate.directory);
            return Outcome::Declined;
        }
    }
    fall_back(exchange, &conf, &try_files.fallback)
}

/// A value that repeats the location's prefix is a URI, in which `alias` replaces the prefix. As in
/// nginx this applies only to values with variables, and even to the fallback, which surprises
/// users who have not written the prefix twice (nginx's ticket 97).
fn below_alias<'n>(
    exchange: &Exchange,
    conf: &LocationConf,
    template: &Template,
    name: &'n [u8],
) -> &'n [u8] {
    let (FilesAt::Alias(_), Some(prefix_bytes), None) = (
        &conf.files_at,
        conf.alias_prefix_bytes,
        template.as_literal(),
    ) else {
        return name;
    };
    let prefix = exchange.request.uri.get(..prefix_bytes);
    prefix
        .and_then(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}

fn fall_back(exchange: &Exchange, conf: &LocationConf, fallback: &TryFallback) -> Outcome {
    match fallback {
        TryFallback::Code(code) => Outcome::Status(StatusCode(*code)),
        TryFallback::Named(name) => Outcome::Named(name.clone()),
        TryFallback::Uri(target) => {
            let text = template::evaluate(target, exchange);
            let target = below_alias(exchange, conf, target, &text);
            if let Some(name) = target.strip_prefix(b"@") {
                return Outcome::Named(String::from_utf8_lossy(name).into());
            }
            let (uri, args) = special::split_args(target);
            Outcome::Redirect {
                uri: uri.to_vec(),
                // As in nginx there are arguments, even if they are empty.
                args: Some(args.unwrap_or_default().to_vec()),
            }
        }
    }
}

/// What a request keeps for `try_files`.
#[derive(Default)]
pub(crate) struct TryFilesState {
    /// Under an `alias` in a location with a regular expression: the URI is appended to the
    /// alias.
    pub(crate) uri_under_alias: bool,
}

/// The URI under which the candidate is found: what follows the root, after the
/// prefix that an `alias` replaces.
fn use_as_uri(exchange: &mut Exchange, path: &FilePath, directory: bool) {
    let conf = exchange.conf();
    let below = path.below_root();
    match (&conf.files_at, conf.alias_prefix_bytes) {
        (FilesAt::Root(_), _) => exchange.request.uri = below.to_vec(),
        (FilesAt::Alias(_), Some(prefix_bytes)) => {
            let uri = &mut exchange.request.uri;
            uri.truncate(prefix_bytes);
            uri.extend_from_slice(below);
        }
        (FilesAt::Alias(_), None) if directory => {}
        (FilesAt::Alias(_), None) => {
            exchange.request.uri = below.to_vec();
            exchange.features.try_files.uri_under_alias = true;
        }
    }
}

/// The kind of file at a path. A file that may not be read exists all the same; one that
/// `disable_symlinks` hides does not.
///
/// # Errors
/// What opening it or examining it has failed with.
pub(crate) async fn kind_of(exchange: &Exchange, path: &FilePath) -> Result<Kind, Errno> {
    match open(exchange, path).await {
        Ok(Opened::File(..)) => Ok(Kind::File),
        Ok(Opened::Directory) => Ok(Kind::Dir),
        Ok(Opened::Other) => Ok(Kind::Other),
        Err(errno) if errno.is_forbidden() && errno != Errno(libc::ELOOP) => {
            let Ok(name) = CString::new(path.as_bytes()) else {
                return Err(errno);
            };
            let stat = disk::run(move || file::stat_path(&name)).await;
            stat.map(|stat| stat.kind)
                .map_err(|error| Errno::of(&error))
        }
        Err(errno) => Err(errno),
    }
}
