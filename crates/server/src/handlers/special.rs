//! Statuses that no handler has a body for: `error_page`, or the built-in page.

use super::Outcome;
use crate::exchange::{ContentType, Exchange};
use crate::framing;
use crate::pipeline::MAX_INTERNAL_REDIRECTS;
use crate::response_head::server_name;
use crate::{template, variables};
use bytes::Bytes;
use sealane_conf::model::{ErrorPage as Configured, ErrorPageStatus, ErrorPageTarget, Variable};
use sealane_conf::variables::Builtin;
use sealane_http::escape;
use sealane_http::h1::Version;
use sealane_http::headers::KnownHeader;
use sealane_http::status::{ErrorPage, write_refresh};
use sealane_http::{Method, StatusCode};

/// What a request keeps for `error_page`.
#[derive(Default)]
pub(crate) struct ErrorPageState {
    /// An `error_page` led here: no other is followed unless `recursive_error_pages` is on.
    in_error_page: bool,
    /// The status that replaces the handler's (`error_page code =status`).
    pub(crate) status_override: Option<StatusCode>,
}

/// What is sent instead of an error page for a subrequest.
#[derive(Debug, Clone)]
pub(crate) struct Stub {
    /// The body.
    pub(crate) text: Bytes,
    /// Its type.
    pub(crate) content_type: Option<ContentType>,
}

/// Answers with a status: through the first matching `error_page`, at most once
/// unless `recursive_error_pages` is on, or with the page that is built in
/// (nginx's `ngx_http_special_response_handler()`).
pub(crate) fn answer(exchange: &mut Exchange, status: StatusCode) -> Outcome {
    exchange.features.error_page.status_override = Some(status);
    exchange.response.close |= status.ends_connection();
    exchange.response.content_type = None;
    if let Some(stub) = exchange.features.subrequest.stub.take() {
        let response = &mut exchange.response;
        response.status = status;
        response.content_type = stub.content_type;
        response.content_length = Some(stub.text.len() as u64);
        response.body.clear();
        response.body.push_bytes(stub.text);
        return Outcome::Answered;
    }
    let conf = exchange.conf();
    let may_redirect = !exchange.features.error_page.in_error_page
        && !conf.error_pages.is_empty()
        && exchange.phases.redirects <= MAX_INTERNAL_REDIRECTS;
    if may_redirect {
        let page = conf
            .error_pages
            .iter()
            .find(|page| page.codes.contains(&status.0))
            .cloned();
        exchange.features.error_page.in_error_page = !conf.recursive_error_pages;
        if let Some(page) = page {
            return follow(exchange, &page);
        }
    }
    built_in(exchange, status);
    Outcome::Answered
}

/// Follows an `error_page`.
fn follow(exchange: &mut Exchange, page: &Configured) -> Outcome {
    match page.status {
        ErrorPageStatus::Original => {}
        ErrorPageStatus::Fixed(code) => {
            exchange.features.error_page.status_override = Some(StatusCode(code))
        }
        ErrorPageStatus::FromTarget => {
            exchange.features.error_page.status_override = None;
            exchange.phases.has_status = false;
        }
    }
    let target = match &page.target {
        ErrorPageTarget::Named(name) => return Outcome::Named(name.clone()),
        ErrorPageTarget::Uri(target) | ErrorPageTarget::Url(target) => {
            template::evaluate(target, exchange).into_owned()
        }
    };
    if target.starts_with(b"/") {
        let head = &mut exchange.request.head;
        if head.method != Method::Head {
            head.method = Method::Get;
        }
        let (uri, args) = split_args(&target);
        return Outcome::Redirect {
            uri: uri.to_vec(),
            args: args.map(<[u8]>::to_vec),
        };
    }
    if let Some(name) = target.strip_prefix(b"@") {
        return Outcome::Named(String::from_utf8_lossy(name).into());
    }
    // A redirect to elsewhere: 302 unless the directive names another redirect.
    let status = match page.status {
        ErrorPageStatus::Fixed(code @ (301 | 302 | 303 | 307 | 308)) => StatusCode(code),
        _ => StatusCode::FOUND,
    };
    exchange.response.location = Some(target);
    exchange.features.error_page.status_override = Some(status);
    built_in(exchange, status);
    Outcome::Answered
}

/// A URI taken apart at its question mark.
pub(crate) fn split_args(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// The built-in page; an empty body for statuses that have none.
fn built_in(exchange: &mut Exchange, status: StatusCode) {
    let is_redirect = matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND);
    let mut text = Vec::new();
    let mut status = status;
    if is_redirect
        && exchange.conf().msie_refresh
        && framing::is_msie(exchange)
        && let Some(location) = exchange.response.location.take()
    {
        status = StatusCode::OK;
        write_refresh(&mut text, &location);
        exchange.response.content_type = ContentType::new(b"text/html");
    }
    // Clients and logs see nginx's own codes as 400.
    exchange.features.error_page.status_override = Some(status.on_wire());
    if let Some(page) = ErrorPage::of(status) {
        let info = match exchange.conf().server_info && status >= StatusCode::BAD_REQUEST {
            true => server_info(exchange),
            false => Vec::new(),
        };
        let padded = wants_padding(exchange);
        page.write(&mut text, &info, &server_name(exchange), padded);
        exchange.response.content_type = ContentType::new(b"text/html");
    }
    let response = &mut exchange.response;
    response.status = status.on_wire();
    response.content_length = Some(text.len() as u64);
    response.last_modified_s = None;
    response.etag = None;
    response.allow_ranges = false;
    response.content_encoding = None;
    response.body.clear();
    response.body.push_bytes(text);
}

/// `server_info`: what a page says of the request and the server.
fn server_info(exchange: &Exchange) -> Vec<u8> {
    let mut out = b"<table>\r\n".to_vec();
    let value = |builtin: Builtin, out: &mut Vec<u8>| {
        let mut text = Vec::new();
        variables::append(exchange, &Variable::Builtin(builtin), &mut text);
        escape::html_into(out, &text);
    };
    out.extend_from_slice(b"<tr><td>URL:</td><td>");
    value(Builtin::Scheme, &mut out);
    out.extend_from_slice(b"://");
    let request = &exchange.request;
    match request.head.get(KnownHeader::Host) {
        Some(host) => escape::html_into(&mut out, host.of(&request.buffer)),
        None => value(Builtin::Host, &mut out),
    }
    value(Builtin::RequestUri, &mut out);
    out.extend_from_slice(b"</td></tr>\r\n<tr><td>Server:</td><td>");
    value(Builtin::Hostname, &mut out);
    if let Some(admin) = &exchange.conf().server_admin {
        out.extend_from_slice(b"</td></tr>\r\n<tr><td>Admin:</td><td>");
        out.extend_from_slice(admin); // the operator's own HTML
    }
    out.extend_from_slice(b"</td></tr>\r\n<tr><td>Date:</td><td>");
    value(Builtin::TimeLocal, &mut out);
    out.extend_from_slice(b"</td></tr>\r\n</table>\r\n");
    out
}

/// `msie_padding`: whether the client is one of the browsers that replace short
/// pages by their own.
fn wants_padding(exchange: &Exchange) -> bool {
    let head = &exchange.request.head;
    if !exchange.conf().msie_padding || head.version == Version::Http09 {
        return false;
    }
    let Some(agent) = head.get(KnownHeader::UserAgent) else {
        return false;
    };
    let agent = agent.of(&exchange.request.buffer);
    let has = |word: &[u8]| memchr::memmem::find(agent, word).is_some();
    if has(b"Opera") {
        return false;
    }
    // nginx takes `Gecko/` (not `like Gecko`) for Mozilla's browsers, which do not do that.
    framing::is_msie(exchange) || (has(b"Chrome/") && !has(b"Gecko/"))
}
