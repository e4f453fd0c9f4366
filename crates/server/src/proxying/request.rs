//! The request that `proxy_pass` sends: method, URI and header fields.

use super::wire::http2::RequestHead;
use super::{PassRuntime, Target, cache};
use crate::exchange::Exchange;
use crate::request_log::{Text, log_request};
use crate::{template, variables};
use sealane_conf::model::{
    Pass, ProxyHttpVersion, ProxyPass, SetHeaders, UpstreamSettings, UriPart, Variable,
};
use sealane_conf::variables::Builtin;
use sealane_http::cgi;
use sealane_http::h1::{RequestEncoder, Version};
use sealane_http::h2::{RequestTarget, Scheme};
use sealane_http::headers::{Field, HeaderList, InvalidHeader};
use sealane_http::outgoing::{self as sent, InvalidRequest, MethodName};
use sealane_http::uri::{EscapeKind, escape_into};
use std::borrow::Cow;

/// The body of the request that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyPlan {
    /// Nothing.
    None,
    /// This many bytes.
    Length(u64),
    /// An unknown number, in chunks where the protocol has them.
    Unknown,
}

/// Appends the request head.
///
/// # Errors
/// When something in it, most likely a variable, would be read as more than it is.
pub(crate) fn encode_head(
    exchange: &Exchange,
    pass: &ProxyPass,
    target: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), InvalidRequest> {
    let method = method(exchange, pass);
    let version = match pass.http_version {
        ProxyHttpVersion::Http10 => Version::Http10,
        _ => Version::Http11,
    };
    let (method, target) = (MethodName::new(&method)?, sent::Target::new(target)?);
    let mut encoder = RequestEncoder::new(out, method, target, version);
    let pass_client = pass.upstream.pass_request_headers;
    for_each_field(
        exchange,
        &pass.set_headers,
        pass_client,
        &pass.upstream,
        version == Version::Http11,
        |field| {
            encoder.header(field);
        },
    )?;
    encoder.finish();
    Ok(())
}

/// The log message for a request that is not sent: what is wrong with it, which directive is to
/// blame, and what can be done.
pub(super) fn refusal(family: &str, error: &InvalidRequest) -> String {
    let cause = match error {
        InvalidRequest::Method => format!("\"{family}_method\" must give the name of a method"),
        InvalidRequest::Target => format!(
            "a variable in \"{family}_pass\", \"rewrite\" or \"set $args\" holds decoded text \
             ($uri, $1 and the like); $request_uri holds it as it was sent"
        ),
        InvalidRequest::Authority => {
            format!("a variable in \"{family}_pass\" holds more than a host")
        }
        InvalidRequest::Name { .. } => return error.to_string(),
        InvalidRequest::Value { name } => format!(
            "a variable in \"{family}_set_header {}\" holds decoded text or binary data",
            name.escape_ascii()
        ),
        InvalidRequest::ParamName { name } => format!(
            "\"{family}_param {}\" needs another name",
            name.escape_ascii()
        ),
        InvalidRequest::ParamValue { name } => format!(
            "a variable in \"{family}_param {}\" holds decoded text or binary data",
            name.escape_ascii()
        ),
    };
    format!("{error}: {cause}")
}

/// The header that marks a possible replay (RFC 8470 section 5.1).
pub(super) const EARLY_DATA: &[u8] = b"Early-Data";

/// What marks a request as a possible replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marked {
    /// We do, in place of the client's field.
    ByUs,
    /// A proxy before us; its field is passed on unchanged.
    ByClient,
}

/// Whether a peer must be told that a request may be a replay.
///
/// A request in early data is marked whatever its client sends: applications that compare with `1`
/// would believe a `0`. The mark of a proxy before us is never dropped, even if no headers of the
/// client are passed.
pub(super) fn early_data(exchange: &Exchange, pass_client: bool) -> Option<Marked> {
    let request = &exchange.request;
    let mut headers = request.head.headers.iter();
    if request.early_data {
        return Some(Marked::ByUs);
    }
    headers
        .any(|header| is_early_data(header.name.of(&request.buffer)))
        .then_some(match pass_client {
            true => Marked::ByClient,
            false => Marked::ByUs,
        })
}

/// Whether this is the name of the header, or of one that applications confuse with it
/// (`Early_Data`).
pub(super) fn is_early_data(name: &[u8]) -> bool {
    cgi::variables::is_same_variable(name, EARLY_DATA)
}

/// `proxy_method`, else the client's, unless HEAD becomes GET for the cache.
pub(crate) fn method<'e>(exchange: &'e Exchange, pass: &'e ProxyPass) -> Cow<'e, [u8]> {
    if cache::converts_head(exchange, &pass.upstream) {
        return Cow::Borrowed(b"GET");
    }
    if let Some(method) = &pass.method {
        let method = template::evaluate(method, exchange);
        if !method.is_empty() {
            return method;
        }
    }
    Cow::Borrowed(current_method(exchange))
}

/// The current method of the request: error pages and `auth_request` use GET.
fn current_method(exchange: &Exchange) -> &[u8] {
    let request = &exchange.request;
    match request.head.method.name() {
        Some(name) => name.as_bytes(),
        None => request.head.method_name.of(&request.buffer),
    }
}

/// Header fields in nginx's order: what the configuration sets, then the client's. With `must_host`
/// there is a Host in any case: `$proxy_host` takes the place of an empty one (nginx 1.31), such as
/// `$http_host` of a client that names none.
///
/// # Errors
/// When a value would be read as more than it is.
fn for_each_field(
    exchange: &Exchange,
    set: &SetHeaders,
    pass_client: bool,
    settings: &UpstreamSettings,
    must_host: bool,
    mut each: impl FnMut(Field<'_>),
) -> Result<(), InvalidRequest> {
    let (mut value, mut host) = (Vec::new(), Vec::new());
    for field in &set.fields {
        let mut value = match field.value.as_literal() {
            Some(text) => text,
            None => {
                value.clear();
                template::append(&field.value, exchange, &mut value);
                &value
            }
        };
        if must_host && value.is_empty() && field.name.eq_ignore_ascii_case(b"Host") {
            let variable = Variable::Builtin(Builtin::ProxyHost);
            variables::append(exchange, &variable, &mut host);
            value = &host;
        }
        if !value.is_empty() {
            let (name, value) = (&field.name, unfolded(value));
            each(Field::new(name, &value).map_err(|error| InvalidRequest::field(name, error))?);
        }
    }
    let is_for_cache = cache::asks_for_all(exchange);
    if is_for_cache {
        cache::for_each_validator(exchange, settings, |name, value| {
            if !set.replaces(name.as_bytes())
                && let Ok(field) = Field::new(name.as_bytes(), value)
            {
                each(field);
            }
        });
    }
    let early_data = early_data(exchange, pass_client).filter(|_| !set.replaces(EARLY_DATA));
    if early_data == Some(Marked::ByUs) {
        each(Field::from_static("Early-Data", "1"));
    }
    if !pass_client {
        return Ok(());
    }
    let request = &exchange.request;
    for header in &request.head.headers {
        let name = header.name.of(&request.buffer);
        let is_said_by_us = early_data == Some(Marked::ByUs) && is_early_data(name);
        let is_left_out = is_for_cache && header.known.is_some_and(cache::is_conditional);
        if set.replaces(name) || is_said_by_us || is_left_out {
            continue;
        }
        match Field::new(name, header.value.of(&request.buffer)) {
            Ok(field) => each(field),
            // `ignore_invalid_headers off` accepts such names; they must not be passed on.
            Err(InvalidHeader::Name) => log_odd_name(exchange, name),
            Err(error) => return Err(InvalidRequest::field(name, error)),
        }
    }
    Ok(())
}

pub(super) fn log_odd_name(exchange: &Exchange, name: &[u8]) {
    log_request!(
        exchange,
        Warn,
        "client header \"{}\" is not passed to upstream: invalid character in its name",
        Text(name)
    );
}

/// A value with continuation lines (`$ssl_client_cert`) as one line, as the recipient of a folded
/// field has to read it (RFC 9112 section 5.2); folded fields must not be sent any more. Other line
/// breaks stay, and are refused.
pub(super) fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\n', value).is_none() {
        return Cow::Borrowed(value);
    }
    let mut line = Vec::with_capacity(value.len());
    let mut rest = value.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match (byte, rest.peek()) {
            (b'\n', Some(b' ' | b'\t')) => {
                rest.next();
                line.push(b' ');
            }
            _ => line.push(byte),
        }
    }
    Cow::Owned(line)
}

/// The request target: the URI of `proxy_pass`, applied to the request's URI.
pub(crate) fn target(exchange: &Exchange, part: &UriPart) -> Vec<u8> {
    let request = &exchange.request;
    let raw = request.head.path.of(&request.buffer);
    match part {
        // A URL without a path (`GET http://host?x`) has one here.
        UriPart::AsReceived if !request.uri_replaced && raw.starts_with(b"/") => raw.to_vec(),
        UriPart::AsReceived => rest_of(exchange, b"", 0),
        UriPart::Replaces { .. } if exchange.features.rewrite.uri_left_location => {
            rest_of(exchange, b"", 0)
        }
        UriPart::Replaces { prefix_bytes, uri } => rest_of(exchange, uri, *prefix_bytes),
    }
}

/// The current URI with its first bytes replaced, escaped again where that is due,
/// and the arguments.
fn rest_of(exchange: &Exchange, instead: &[u8], prefix_bytes: usize) -> Vec<u8> {
    let request = &exchange.request;
    let rest = request.uri.get(prefix_bytes..).unwrap_or_default();
    let mut target = Vec::with_capacity(instead.len() + rest.len() + request.args().len() + 1);
    target.extend_from_slice(instead);
    // As in nginx, what was received without escapes is sent without, unless that would break the
    // request line.
    let raw = request.head.path.of(&request.buffer);
    let path = raw.split(|&byte| byte == b'?').next().unwrap_or_default();
    let was_quoted = memchr::memchr(b'%', path).is_some();
    if was_quoted || request.internal || rest.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
        escape_into(&mut target, rest, EscapeKind::Uri);
    } else {
        target.extend_from_slice(rest);
    }
    if !request.args().is_empty() {
        target.push(b'?');
        target.extend_from_slice(request.args());
    }
    target
}

/// The head of an HTTP/2 request.
///
/// # Errors
/// As for [`encode_head`].
pub(super) fn http2_head(
    exchange: &Exchange,
    pass: &PassRuntime,
    target: &Target,
    end: bool,
) -> Result<RequestHead, InvalidRequest> {
    let (method, set, path) = match &pass.pass {
        Pass::Proxy(proxy) => (
            method(exchange, proxy),
            Some(&proxy.set_headers),
            Cow::Borrowed(&target.uri[..]),
        ),
        other => {
            let set = match other {
                Pass::Grpc(grpc) => Some(&grpc.set_headers),
                _ => None,
            };
            let path = self::target(exchange, &UriPart::AsReceived);
            (Cow::Borrowed(current_method(exchange)), set, path.into())
        }
    };
    let mut fields = HeaderList::new();
    let mut has_host = false;
    if let Some(set) = set {
        let settings = pass.settings();
        let pass_client = settings.pass_request_headers;
        for_each_field(exchange, set, pass_client, settings, false, |field| {
            has_host |= field.name.as_bytes().eq_ignore_ascii_case(b"Host");
            // Only gigabytes do not fit.
            let _ = fields.push(field.name.as_bytes(), field.value.as_bytes());
        })?;
    }
    let scheme = match target.tls {
        true => Scheme::Https,
        false => Scheme::Http,
    };
    let authority = match has_host {
        true => &b""[..],
        false => target.host.as_bytes(),
    };
    let target = RequestTarget::new(&method, scheme, authority, &path)?;
    Ok(RequestHead::new(&target, fields, end))
}

#[cfg(test)]
mod tests {
    use super::unfolded;

    #[test]
    fn continued_lines_become_one_and_other_line_breaks_stay() {
        for (value, line) in [
            ("a b", "a b"),
            ("a\n\tb\n c", "a b c"),
            ("a\nb", "a\nb"),
            ("a\n\t\nHost: b", "a \nHost: b"),
            ("a\r\n\tb", "a\r b"),
            ("a\n", "a\n"),
        ] {
            assert_eq!(*unfolded(value.as_bytes()), *line.as_bytes(), "{value:?}");
        }
    }
}
