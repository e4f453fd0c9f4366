//! Variables about the request.

use super::{is_variable_name, number, put, seconds, text};
use crate::access::Credentials;
use crate::exchange::Exchange;
use crate::handlers::path::FilePath;
use crate::request_body::ReceivedBody;
use crate::template;
use sealane_conf::model::FilesAt;
use sealane_conf::variables::Builtin;
use sealane_http::h1::{Framing, RequestHead, Version};
use sealane_http::headers::KnownHeader;
use sealane_http::uri::TargetForm;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

pub(super) fn append(exchange: &Exchange, builtin: Builtin, out: &mut Vec<u8>) -> bool {
    let request = &exchange.request;
    let head = &request.head;
    let transfer = &exchange.transfer;
    let sent =
        |span: sealane_http::Span| Some(span.of(&request.buffer)).filter(|text| !text.is_empty());
    match builtin {
        Builtin::Request => put(sent(head.request_line), out),
        Builtin::RequestMethod => match head.method.name() {
            // That of the main request, whatever the subrequest's own method is.
            Some(name) if !head.request_line.is_empty() && !request.is_subrequest => {
                text(name, out)
            }
            _ => put(sent(head.method_name), out),
        },
        // `GET http://host` has a path as in nginx, so that `$host$request_uri` is one, and so does
        // `CONNECT host:port`.
        Builtin::RequestUri
            if head.path.is_empty()
                && matches!(
                    head.form,
                    TargetForm::Absolute { .. } | TargetForm::Authority { .. }
                ) =>
        {
            text("/", out)
        }
        Builtin::RequestUri => put(sent(head.path).or_else(|| sent(head.target)), out),
        // Absent before the request line has been parsed; a rewrite may leave it empty.
        Builtin::Uri | Builtin::DocumentUri => {
            // That of a target that is refused is empty, too.
            let is_known = !request.uri.is_empty() || request.uri_replaced || !head.path.is_empty();
            put(is_known.then_some(&request.uri), out)
        }
        Builtin::Args | Builtin::QueryString => put(request.args.as_deref(), out),
        Builtin::IsArgs => text(if request.args().is_empty() { "" } else { "?" }, out),
        Builtin::ServerProtocol => text(protocol(head, &request.buffer), out),
        Builtin::Host if !request.host.is_empty() => text(&request.host, out),
        Builtin::Host => text(&exchange.server().conf.primary_name, out),
        // As in nginx, port 0 is none.
        Builtin::RequestPort => match head.port {
            Some(port @ 1..) => number(port, out),
            Some(0) | None => text("", out),
        },
        Builtin::IsRequestPort => {
            let is_named = head.port.is_some_and(|port| port > 0);
            text(if is_named { ":" } else { "" }, out)
        }
        Builtin::DocumentRoot => match &exchange.conf().files_at {
            FilesAt::Root(path) | FilesAt::Alias(path) => {
                text(template::evaluate(path, exchange), out)
            }
        },
        Builtin::RealpathRoot => real_path_of_root(exchange, out),
        Builtin::RequestFilename => match FilePath::of(exchange) {
            Ok(path) => text(path.as_bytes(), out),
            Err(_) => false,
        },
        Builtin::ContentLength => match head.framing {
            Framing::Length(bytes) => number(bytes, out),
            // Known once it has been read.
            Framing::Chunked => request
                .received
                .as_ref()
                .is_some_and(|body| number(body.len(), out)),
            // There is no body, or the request is refused.
            Framing::None => put(
                head.get(KnownHeader::ContentLength)
                    .map(|span| span.of(&request.buffer)),
                out,
            ),
        },
        Builtin::ContentType => header(exchange, "content_type", out),
        Builtin::RequestBody => {
            let body = request.received.as_ref().and_then(ReceivedBody::memory);
            put(
                body.map(|bytes| &bytes[..]).filter(|body| !body.is_empty()),
                out,
            )
        }
        Builtin::RequestBodyFile => put(
            request.received.as_ref().and_then(ReceivedBody::file_path),
            out,
        ),
        Builtin::RequestLength => number(transfer.request_bytes, out),
        Builtin::RequestTime => seconds(transfer.started.elapsed().as_millis(), out),
        Builtin::RequestId => text(exchange.features.request_id.id.get_or_init(random_id), out),
        Builtin::RequestCompletion => text(if transfer.completed { "OK" } else { "" }, out),
        Builtin::RemoteUser => remote_user(exchange, out),
        Builtin::LimitReqStatus => {
            let status = exchange
                .features
                .limits
                .lock()
                .and_then(|limited| limited.requests);
            put(status.map(|status| status.name().as_bytes()), out)
        }
        Builtin::LimitConnStatus => {
            let status = exchange
                .features
                .limits
                .lock()
                .and_then(|limited| limited.connections);
            put(status.map(|status| status.name().as_bytes()), out)
        }
        Builtin::Pipe => text(if transfer.pipelined { "p" } else { "." }, out),
        _ => false,
    }
}

/// `$http_NAME`: all headers of that name, joined as their grammar allows.
pub(super) fn header(exchange: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let buffer = &exchange.request.buffer;
    let separator: &[u8] = if name == "cookie" { b"; " } else { b", " };
    let mut found = false;
    for header in &exchange.request.head.headers {
        if is_variable_name(header.name.of(buffer), name) {
            if found {
                out.extend_from_slice(separator);
            }
            out.extend_from_slice(header.value.of(buffer));
            found = true;
        }
    }
    found
}

/// The first argument of that name, as received. Names are compared without case.
pub(crate) fn argument<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args.split(|byte| *byte == b'&').find_map(|argument| {
        let (key, value) = argument.split_at_checked(name.len())?;
        key.eq_ignore_ascii_case(name)
            .then(|| value.strip_prefix(b"="))?
    })
}

/// The first cookie of that name. Names are compared without case, as in nginx.
pub(crate) fn cookie<'e>(exchange: &'e Exchange, name: &[u8]) -> Option<&'e [u8]> {
    let buffer = &exchange.request.buffer;
    let mut lines = exchange.request.head.get_all(KnownHeader::Cookie);
    lines.find_map(|line| {
        line.of(buffer)
            .split(|byte| *byte == b';')
            .find_map(|pair| {
                let (key, value) = without_spaces(pair).split_at_checked(name.len())?;
                let value = without_spaces(value).strip_prefix(b"=")?;
                key.eq_ignore_ascii_case(name)
                    .then(|| without_spaces(value))
            })
    })
}

/// Without the spaces before it; tabs belong to the text, as in nginx.
fn without_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| *byte != b' ');
    &text[start.unwrap_or(text.len())..]
}

/// `$remote_user`: the name in Basic credentials, whether they are right or not.
/// The protocol as the client wrote it: `HTTP/1.12` is answered like HTTP/1.1, but not called so.
fn protocol<'h>(head: &RequestHead, buffer: &'h [u8]) -> &'h [u8] {
    let line = head.request_line.of(buffer).trim_ascii_end();
    let last = line.rsplit(|&byte| byte == b' ').next();
    match (head.version, last) {
        (Version::Http10 | Version::Http11, Some(word)) if word.starts_with(b"HTTP/") => word,
        (version, _) => version.name().as_bytes(),
    }
}

fn remote_user(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let credentials = Credentials::of(exchange);
    put(credentials.as_ref().map(Credentials::user), out)
}

/// `$realpath_root`. Reads the file system each time: links may change.
fn real_path_of_root(exchange: &Exchange, out: &mut Vec<u8>) -> bool {
    let (FilesAt::Root(root) | FilesAt::Alias(root)) = &exchange.conf().files_at;
    let root = template::evaluate(root, exchange);
    match std::fs::canonicalize(OsStr::from_bytes(&root)) {
        Ok(path) => text(path.as_os_str().as_bytes(), out),
        Err(_) => false,
    }
}

/// What a request keeps for `$request_id`.
#[derive(Default)]
pub(crate) struct RequestIdState {
    /// Made when it is first asked for.
    id: OnceLock<[u8; 32]>,
}

impl RequestIdState {
    /// A subrequest has the id of the request that makes it.
    pub(crate) fn of_subrequest(main: &Exchange) -> RequestIdState {
        RequestIdState {
            id: OnceLock::from(*main.features.request_id.id.get_or_init(random_id)),
        }
    }
}

/// 16 random bytes in hexadecimal.
fn random_id() -> [u8; 32] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut bytes = [0; 16];
    // The kernel's generator cannot fail once the machine has started. If it did, identifiers would
    // not be unique, which is harmless.
    let _ = getrandom::fill(&mut bytes);
    let mut id = [0; 32];
    for (pair, byte) in id.chunks_exact_mut(2).zip(bytes) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    id
}
