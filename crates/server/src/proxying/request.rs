//! The request that `proxy_pass` sends: method, URI and header fields.

use super::wire::http2::RequestHead;
use super::{PassRuntime, Target};
use crate::exchange::Exchange;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_conf::model::{Pass, ProxyHttpVersion, ProxyPass, SetHeaders, UriPart};
use sealane_http::Method;
use sealane_http::h1::{RawHeader, RequestEncodeError, RequestEncoder, Version};
use sealane_http::headers::HeaderList;
use sealane_http::uri::{EscapeKind, escape_into};
use std::borrow::Cow;
use std::sync::Arc;

/// What is sent as the request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyPlan {
    /// Nothing.
    None,
    /// So many bytes.
    Length(u64),
    /// An unknown number, in chunks where the protocol has them.
    Unknown,
}

/// Appends the request head.
///
/// # Errors
/// When a variable would end a line early.
pub(crate) fn encode_head(
    exchange: &Exchange,
    pass: &ProxyPass,
    target: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RequestEncodeError> {
    let method = method(exchange, pass);
    let version = match pass.http_version {
        ProxyHttpVersion::Http10 => Version::Http10,
        _ => Version::Http11,
    };
    let mut encoder = RequestEncoder::new(out, &method, target, version)?;
    for_each_field(
        exchange,
        &pass.set_headers,
        pass.upstream.pass_request_headers,
        |name, value| match encoder.header(name, value) {
            // `ignore_invalid_headers off` lets such names in; they must not get further.
            Err(RequestEncodeError::Name) => {
                log_request!(
                    exchange,
                    Warn,
                    "client header \"{}\" is not passed to upstream: \
                     invalid character in its name",
                    Text(name)
                );
                Ok(())
            }
            done => done,
        },
    )?;
    encoder.finish();
    Ok(())
}

/// The client's header that says that its request may be a replay (RFC 8470 section 5.1).
const EARLY_DATA: &[u8] = b"Early-Data";

/// Whether a peer must be told that a request came as early data: it did, the
/// configuration does not say so itself, and no proxy before us has.
fn marks_early_data(exchange: &Exchange, set: &SetHeaders, pass_client: bool) -> bool {
    let request = &exchange.request;
    let says_so = |header: &RawHeader| {
        let name = header.name.of(&request.buffer);
        name.eq_ignore_ascii_case(EARLY_DATA)
    };
    request.early_data
        && !set.replaces(EARLY_DATA)
        && !(pass_client && request.head.headers.iter().any(says_so))
}

/// `proxy_method`, else the client's.
pub(crate) fn method<'e>(exchange: &'e Exchange, pass: &'e ProxyPass) -> Cow<'e, [u8]> {
    if let Some(method) = &pass.method {
        let method = template::evaluate(method, exchange);
        if !method.is_empty() {
            return method;
        }
    }
    Cow::Borrowed(current_method(exchange))
}

/// The method of the request as it is now: an error page and `auth_request` are asked for
/// with GET.
fn current_method(exchange: &Exchange) -> &[u8] {
    let request = &exchange.request;
    match request.head.method.name() {
        Some(name) => name.as_bytes(),
        None => request.head.method_name.of(&request.buffer),
    }
}

/// Header fields in nginx's order: what the configuration sets, then the client's.
pub(crate) fn for_each_field<E>(
    exchange: &Exchange,
    set: &SetHeaders,
    pass_client: bool,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut value = Vec::new();
    for field in &set.fields {
        let value = match field.value.as_literal() {
            Some(text) => text,
            None => {
                value.clear();
                template::append(&field.value, exchange, &mut value);
                &value
            }
        };
        if !value.is_empty() {
            each(&field.name, &unfolded(value))?;
        }
    }
    if marks_early_data(exchange, set, pass_client) {
        each(EARLY_DATA, b"1")?;
    }
    if !pass_client {
        return Ok(());
    }
    let request = &exchange.request;
    for header in &request.head.headers {
        let name = header.name.of(&request.buffer);
        if !set.replaces(name) {
            each(name, header.value.of(&request.buffer))?;
        }
    }
    Ok(())
}

/// A value whose lines are continued (`$ssl_client_cert`) in one line, as whoever receives a
/// folded field has to read it (RFC 9112 section 5.2); nobody may send such any more. Other line
/// breaks stay, and are refused.
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
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

/// The request target: what `proxy_pass` says, applied to the request's URI.
pub(crate) fn target(exchange: &Exchange, part: &UriPart) -> Vec<u8> {
    let request = &exchange.request;
    let raw = request.head.path.of(&request.buffer);
    match part {
        // A URL without a path (`GET http://host?x`) has one here.
        UriPart::AsReceived if !request.uri_replaced && raw.starts_with(b"/") => raw.to_vec(),
        UriPart::AsReceived => rest_of(exchange, b"", 0),
        UriPart::Replaces { .. } if exchange.progress.uri_left_location => {
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
    // As in nginx, what came without escapes is sent without, unless that would
    // break the request line.
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

/// The head of a request by HTTP/2.
pub(super) fn http2_head(
    exchange: &Exchange,
    pass: &PassRuntime,
    target: &Target,
    end: bool,
) -> RequestHead {
    let client_method = current_method(exchange);
    let (method_name, set, host_set) = match &pass.pass {
        Pass::Proxy(proxy) => {
            let set = &proxy.set_headers;
            (
                method(exchange, proxy).into_owned(),
                Some(set),
                set.host_set,
            )
        }
        Pass::Grpc(grpc) => {
            let set = &grpc.set_headers;
            (client_method.to_vec(), Some(set), set.host_set)
        }
        _ => (client_method.to_vec(), None, false),
    };
    let mut fields = HeaderList::new();
    if let Some(set) = set {
        let pass_client = pass.settings().pass_request_headers;
        // A field with a line break or an odd name is left out: it cannot be sent.
        let push = |name: &[u8], value: &[u8]| {
            let _ = fields.push(name, value);
            Ok::<(), std::convert::Infallible>(())
        };
        let _ = for_each_field(exchange, set, pass_client, push);
    }
    let path = match &pass.pass {
        Pass::Proxy(_) => target.uri.clone(),
        _ => self::target(exchange, &UriPart::AsReceived),
    };
    RequestHead {
        method: Method::from_bytes(&method_name),
        method_name,
        scheme: if target.tls { "https" } else { "http" },
        authority: match host_set {
            true => Vec::new(),
            false => target.host.as_bytes().to_vec(),
        },
        path,
        fields: Arc::new(fields),
        end,
    }
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
