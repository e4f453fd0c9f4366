//! Lines at level `debug`, for who has to find out what becomes of a request: its head, the
//! location that was chosen, what an upstream server answered, the response. `error_log ... debug`
//! writes those of every client, `debug_connection` those of some, whatever the level of the logs.
//!
//! They are for people, not for programs: wording and number may change with any version. Values of
//! header fields that authenticate someone are left out.

use crate::exchange::Exchange;
use crate::facts::ConnectionFacts;
use crate::proxying::UpstreamHead;
use crate::request_log::Text;
use sealane_conf::model::LogLevel;
use sealane_log::Logger;
use std::borrow::Cow;
use std::fmt;

/// The logger for a line about a connection: at every level if `debug_connection` names its client.
pub(crate) fn logger_for<'l>(facts: &ConnectionFacts, logger: &'l Logger) -> Cow<'l, Logger> {
    match facts.is_debugged() {
        true => Cow::Owned(logger.with_all_levels()),
        false => Cow::Borrowed(logger),
    }
}

/// `debug_request!(exchange, "using configuration {name}")`: a line without nginx's tail.
macro_rules! debug_request {
    ($exchange:expr, $($message:tt)+) => {
        if $crate::debug_log::is_wanted($exchange) {
            $crate::debug_log::write($exchange, ::core::format_args!($($message)+));
        }
    };
}
pub(crate) use debug_request;

/// Whether debug lines about this request are written anywhere.
#[inline]
pub(crate) fn is_wanted(exchange: &Exchange) -> bool {
    let logger = &exchange.snapshot.location(exchange.location).logger;
    logger.enabled(LogLevel::Debug) || exchange.connection.is_debugged()
}

#[cold]
pub(crate) fn write(exchange: &Exchange, message: fmt::Arguments<'_>) {
    let facts = &exchange.connection;
    let logger = &exchange.snapshot.location(exchange.location).logger;
    logger_for(facts, logger).log(LogLevel::Debug, Some(facts.number), message);
}

/// The request line and the header fields, as they came.
pub(crate) fn request(exchange: &Exchange) {
    if !is_wanted(exchange) {
        return;
    }
    let (head, buffer) = (&exchange.request.head, &exchange.request.buffer);
    let line = Text(head.request_line.of(buffer));
    write(exchange, format_args!("http request line: \"{line}\""));
    for header in &head.headers {
        let field = Field(header.name.of(buffer), header.value.of(buffer));
        write(exchange, format_args!("http header: \"{field}\""));
    }
}

/// The location whose settings apply.
pub(crate) fn location(exchange: &Exchange) {
    debug_request!(
        exchange,
        "using configuration \"{}\" for \"{}\"",
        exchange.conf().name,
        Text(&exchange.request.uri)
    );
}

/// The head that an upstream server has sent.
pub(crate) fn upstream_head(exchange: &Exchange, head: &UpstreamHead) {
    if !is_wanted(exchange) {
        return;
    }
    let status = head.parsed.status.0;
    write(exchange, format_args!("http upstream status: {status}"));
    for header in &head.parsed.headers {
        let field = Field(header.name.of(&head.buffer), header.value.of(&head.buffer));
        write(exchange, format_args!("http upstream header: \"{field}\""));
    }
}

/// The response, before it is sent.
pub(crate) fn response(exchange: &Exchange) {
    if !is_wanted(exchange) {
        return;
    }
    let response = &exchange.response;
    let status = response.status.0;
    match response.content_length {
        Some(length) => write(
            exchange,
            format_args!("http response: {status}, content length {length}"),
        ),
        None => write(exchange, format_args!("http response: {status}")),
    }
    for (name, value) in response.headers.iter() {
        let field = Field(name, value);
        write(exchange, format_args!("http response header: \"{field}\""));
    }
}

/// The end of a request, once its response has been sent as far as it could be.
pub(crate) fn end(exchange: &Exchange) {
    debug_request!(
        exchange,
        "http finalize request: {}, \"{}\", bytes sent: {}, {}",
        exchange.response.status.0,
        Text(&exchange.request.uri),
        exchange.transfer.sent_bytes,
        match exchange.transfer.completed {
            true => "complete",
            false => "incomplete",
        }
    );
}

/// A header field as it is shown; a value that authenticates someone is not.
struct Field<'b>(&'b [u8], &'b [u8]);

/// Fields whose values would let the reader of a log act for someone else.
const SECRET_FIELDS: [&[u8]; 4] = [
    b"authorization",
    b"cookie",
    b"proxy-authorization",
    b"set-cookie",
];

impl fmt::Display for Field<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Field(name, value) = self;
        let is_secret = SECRET_FIELDS
            .iter()
            .any(|secret| name.eq_ignore_ascii_case(secret));
        match is_secret {
            true => write!(f, "{}: ({} bytes not shown)", Text(name), value.len()),
            false => write!(f, "{}: {}", Text(name), Text(value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Field;

    #[test]
    fn values_that_authenticate_are_not_shown() {
        for name in [
            "Authorization",
            "cookie",
            "PROXY-AUTHORIZATION",
            "Set-Cookie",
        ] {
            let shown = Field(name.as_bytes(), b"secret").to_string();
            assert_eq!(shown, format!("{name}: (6 bytes not shown)"));
        }
        let shown = Field(b"Accept", b"*/*").to_string();
        assert_eq!(shown, "Accept: */*");
    }
}
