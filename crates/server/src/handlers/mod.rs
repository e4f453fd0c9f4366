//! The handlers that answer requests: files, directories, fixed texts, status pages.

pub(crate) mod autoindex;
pub(crate) mod concat;
pub(crate) mod dav;
pub(crate) mod echo;
pub(crate) mod empty_gif;
pub(crate) mod flv;
pub(crate) mod index;
mod made;
mod media_file;
pub(crate) mod mp4;
pub(crate) mod path;
pub(crate) mod random_index;
pub(crate) mod returns;
pub(crate) mod special;
pub(crate) mod static_codings;
pub(crate) mod static_file;
pub(crate) mod status;
pub(crate) mod stub_status;
pub(crate) mod symlinks;
pub(crate) mod try_files;
mod upstreams;

use crate::exchange::{ContentType, Exchange};
use crate::open_file_cache::{Errno, Lookup, Opened, open_blocking, open_now};
use crate::proxying;
use crate::req_status;
use crate::request_log::{Text, log_request};
use path::FilePath;
use sealane_conf::model::{ContentHandler, LocationConf, StaticCodings};
use sealane_http::media_type;
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use sealane_io::open_file::LinkRule;

/// The outcome of a phase or a handler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The response is complete; the filters are next.
    Answered,
    /// Not applicable; the next handler or phase is next.
    Declined,
    /// Respond with this status, through `error_page` or a built-in page.
    Status(StatusCode),
    /// An internal redirect.
    Redirect {
        /// The new URI.
        uri: Vec<u8>,
        /// The new arguments, if there are any.
        args: Option<Vec<u8>>,
    },
    /// An internal redirect to `@name`.
    Named(Box<str>),
}

impl Outcome {
    /// A redirect to a URI, with the request's arguments, or to a named location (`@name`).
    pub(crate) fn elsewhere(exchange: &Exchange, place: &str) -> Outcome {
        match place.strip_prefix('@') {
            Some(name) => Outcome::Named(name.into()),
            None => Outcome::Redirect {
                uri: place.as_bytes().to_vec(),
                args: exchange.request.args.clone(),
            },
        }
    }
}

/// Calls the content handlers in nginx's order.
pub(crate) async fn content(exchange: &mut Exchange) -> Outcome {
    let passes = exchange.snapshot.location(exchange.location).pass.is_some();
    if !passes && exchange.features.rewrite.passes {
        return no_upstream(exchange);
    }
    if exchange.conf().stub_status {
        return stub_status::answer(exchange);
    }
    if passes {
        match Box::pin(proxying::answer(exchange)).await {
            Outcome::Declined => {} // `proxy_connect` is for one method
            outcome => return outcome,
        }
    }
    if let Some(handler) = exchange.conf().content_handler {
        match Box::pin(by_module(exchange, handler)).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    if let Some(dav) = exchange.conf().dav.clone() {
        match Box::pin(dav::answer(exchange, dav)).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    if exchange.request.uri.ends_with(b"/") {
        return Box::pin(directory(exchange)).await;
    }
    let codings = exchange.conf().static_codings;
    if codings != StaticCodings::default() {
        match Box::pin(static_codings::answer(exchange, codings)).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    static_file::answer(exchange).await
}

/// A request was to be passed on, but of the `if`s that matched the last does not say where: the
/// directive belongs into both.
fn no_upstream(exchange: &Exchange) -> Outcome {
    log_request!(exchange, Alert, "no upstream configuration");
    Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The module that replaces plain files; it may leave some of them to the default handler.
async fn by_module(exchange: &mut Exchange, handler: ContentHandler) -> Outcome {
    match handler {
        ContentHandler::CachePurge => proxying::purge_location(exchange).await,
        ContentHandler::Echo => echo::answer(exchange).await,
        ContentHandler::EmptyGif => empty_gif::answer(exchange),
        ContentHandler::Flv => flv::answer(exchange).await,
        ContentHandler::Mp4 => mp4::answer(exchange).await,
        ContentHandler::ReqStatus => req_status::answer(exchange).await,
        ContentHandler::Status(view) => status::answer(exchange, view).await,
    }
}

/// A URI that ends with a slash: an index file, or a directory listing.
async fn directory(exchange: &mut Exchange) -> Outcome {
    if let Some(concat) = exchange.conf().concat.clone() {
        match concat::answer(exchange, concat).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    if exchange.conf().random_index {
        match random_index::answer(exchange).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    match index::answer(exchange).await {
        Outcome::Declined => {}
        outcome => return outcome,
    }
    match autoindex::answer(exchange).await {
        Outcome::Declined => {}
        outcome => return outcome,
    }
    if !matches!(
        exchange.request.head.method,
        Method::Get | Method::Head | Method::Post
    ) {
        return Outcome::Status(StatusCode::NOT_ALLOWED);
    }
    if let Ok(path) = FilePath::of(exchange) {
        log_request!(
            exchange,
            Error,
            "directory index of \"{}\" is forbidden",
            Text(path.as_bytes())
        );
    }
    Outcome::Status(StatusCode::FORBIDDEN)
}

/// Opens what is at a path: from the cache, or from the file system. Leaves the worker thread
/// only if the disk has to be read.
///
/// # Errors
/// What opening it has failed with.
pub(crate) async fn open(exchange: &Exchange, path: &FilePath) -> Result<Opened, Errno> {
    match symlinks::rule(exchange, path) {
        None => open_by(exchange, path, path.as_bytes(), None).await,
        Some(rule) => {
            let key = symlinks::cache_key(rule, path);
            Box::pin(open_by(exchange, path, &key, Some(rule))).await
        }
    }
}

/// Opens a path under a rule for links; the cache knows it by `key`.
async fn open_by(
    exchange: &Exchange,
    path: &FilePath,
    key: &[u8],
    rule: Option<LinkRule>,
) -> Result<Opened, Errno> {
    let settings = exchange.conf().open_file_cache;
    let now = exchange.transfer.started;
    let cache = &exchange.worker.open_files;
    match &settings {
        Some(settings) => {
            if let Lookup::Answer(answer) = cache.lookup(settings, key, now) {
                return answer;
            }
        }
        None => {
            if let Some(answer) = cache.lookup_uncached(key) {
                return answer;
            }
        }
    }
    let name = path.nul_terminated();
    let mut result = open_at_once_or_from_disk(name, rule).await;
    if result
        .as_ref()
        .is_err_and(|errno| errno.is_out_of_descriptors())
        && cache.shed(SHED_ENTRIES) > 0
    {
        result = open_at_once_or_from_disk(name, rule).await;
    }
    match &settings {
        Some(settings) => cache.store(settings, key, now, result),
        None => {
            cache.store_uncached(key, &result);
            result
        }
    }
}

/// Entries that each open-file cache of the thread gives up when descriptors run out: enough for
/// the current requests, few enough to leave a warm cache.
pub(crate) const SHED_ENTRIES: usize = 32;

/// Opens a path (with its NUL), without waiting if that takes no disk access.
///
/// # Errors
/// The errno of opening the file.
pub(crate) async fn open_at_once_or_from_disk(
    name: &[u8],
    rule: Option<LinkRule>,
) -> Result<Opened, Errno> {
    match open_now(name, rule) {
        Some(result) => result,
        None => Box::pin(open_from_disk(name, rule)).await,
    }
}

async fn open_from_disk(name: &[u8], rule: Option<LinkRule>) -> Result<Opened, Errno> {
    let name = name.to_vec();
    disk::run(move || open_blocking(&name, rule)).await
}

/// Sets the type of a response by the extension of the URI, unless an upstream server has set it
/// before it redirected here (`X-Accel-Redirect`).
pub(crate) fn set_content_type(exchange: &mut Exchange) {
    if exchange.response.content_type.is_some() {
        return;
    }
    let media_type = content_type(exchange.conf(), &exchange.request.uri);
    exchange.response.content_type = media_type;
}

fn content_type(conf: &LocationConf, uri: &[u8]) -> Option<ContentType> {
    let extension = media_type::extension(uri);
    let known = if extension.is_empty() {
        None
    } else {
        lookup_type(conf, extension)
    };
    ContentType::new(known.unwrap_or(conf.default_type.as_bytes()))
}

/// The configured type of an extension, compared without case.
fn lookup_type<'c>(conf: &'c LocationConf, extension: &[u8]) -> Option<&'c [u8]> {
    const LONGEST: usize = 64; // far above any extension in use; a longer one is of no known type
    let mut lower = [0; LONGEST];
    let lower = lower.get_mut(..extension.len())?;
    lower.copy_from_slice(extension);
    lower.make_ascii_lowercase();
    let extension = std::str::from_utf8(lower).ok()?;
    conf.types
        .by_extension
        .get(extension)
        .map(|text| text.as_bytes())
}
