//! Writes error-log lines about a request.

use crate::debug_log;
use crate::exchange::Exchange;
use crate::mail::MailState;
use sealane_conf::model::{ListenAddress, LogLevel};
use sealane_http::headers::KnownHeader;
use sealane_log::Logger;
use std::fmt;

/// What a request keeps for the error log.
#[derive(Default)]
pub(crate) struct RequestLogState {
    /// What it is doing, in nginx's words, for lines that do not say so themselves.
    pub(crate) doing: &'static str,
}

/// Logs a line at the level of the location, with nginx's tail: the current action, client, server,
/// request, upstream server, host and referrer. A line that the request has written before is only
/// counted, unless it is for debugging.
pub(crate) fn log(exchange: &Exchange, level: LogLevel, message: fmt::Arguments<'_>) {
    let logger = &exchange.snapshot.location(exchange.location).logger;
    let facts = &exchange.connection;
    if !logger.enabled(level) && !facts.is_debugged() {
        return;
    }
    let logger = &*debug_log::logger_for(facts, logger);
    let number = facts.number;
    let (doing, tail) = (exchange.features.request_log.doing, Tail(exchange));
    if level > LogLevel::Notice {
        write(
            exchange,
            logger,
            level,
            format_args!("{message}{doing}{tail}"),
        );
        return;
    }
    let line = format!("{message}{doing}{tail}");
    if exchange.tally().is_new(logger, level, number, &line) {
        write(exchange, logger, level, format_args!("{line}"));
    }
}

/// Writes a line about a session that says for itself which client and server it is about.
pub(crate) fn log_plainly(exchange: &Exchange, level: LogLevel, message: fmt::Arguments<'_>) {
    let logger = &exchange.snapshot.location(exchange.location).logger;
    let facts = &exchange.connection;
    if logger.enabled(level) || facts.is_debugged() {
        let logger = &*debug_log::logger_for(facts, logger);
        let client: &dyn fmt::Display = &facts.client_address();
        let fields = &[("SEALANE_CLIENT", client)];
        logger.log_with(level, Some(facts.number), fields, message);
    }
}

/// With what the journal keeps as fields.
fn write(exchange: &Exchange, logger: &Logger, level: LogLevel, message: fmt::Arguments<'_>) {
    let request = &exchange.request;
    let head = &request.head;
    let host = head.get(KnownHeader::Host).unwrap_or_default();
    let upstream = exchange.upstream.as_deref();
    let upstream = upstream.filter(|upstream| !upstream.attempts.is_empty());
    logger.log_with(
        level,
        Some(exchange.connection.number),
        &[
            ("SEALANE_CLIENT", &exchange.client_address()),
            ("SEALANE_SERVER", &exchange.server().conf.primary_name),
            (
                "SEALANE_REQUEST",
                &Text(head.request_line.of(&request.buffer)),
            ),
            ("SEALANE_HOST", &Text(host.of(&request.buffer))),
            (
                "SEALANE_UPSTREAM",
                upstream.map_or(&"" as &dyn fmt::Display, |upstream| upstream),
            ),
        ],
        message,
    );
}

/// `log_request!(exchange, Error, "open() \"{path}\" failed")`.
macro_rules! log_request {
    ($exchange:expr, $level:ident, $($message:tt)+) => {
        $crate::request_log::log(
            $exchange,
            ::sealane_conf::model::LogLevel::$level,
            ::core::format_args!($($message)+),
        )
    };
}
pub(crate) use log_request;

/// What stands before the client, or the server, of a session of datagrams.
pub(crate) fn udp(exchange: &Exchange) -> &'static str {
    match exchange.connection.is_udp() {
        true => "udp ",
        false => "",
    }
}

/// `, client: 1.2.3.4, server: name, request: "GET / HTTP/1.1", host: "h"`.
struct Tail<'e>(&'e Exchange);

impl fmt::Display for Tail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exchange = self.0;
        let udp = udp(exchange);
        write!(f, ", {udp}client: {}", exchange.client_address())?;
        if exchange.is_session() {
            return session_tail(exchange, f);
        }
        write!(f, ", server: {}", exchange.server().conf.primary_name)?;
        let request = &exchange.request;
        let head = &request.head;
        let line = head.request_line.of(&request.buffer);
        if !line.is_empty() {
            write!(f, ", request: \"{}\"", Text(line))?;
        }
        if request.is_subrequest {
            write!(f, ", subrequest: \"{}\"", Text(&request.uri))?;
        }
        if let Some(upstream) = exchange.upstream.as_deref()
            && !upstream.attempts.is_empty()
        {
            write!(f, ", upstream: \"{upstream}\"")?;
        }
        if let Some(host) = head.get(KnownHeader::Host) {
            write!(f, ", host: \"{}\"", Text(host.of(&request.buffer)))?;
        }
        if let Some(referrer) = head.get(KnownHeader::Referer) {
            write!(f, ", referrer: \"{}\"", Text(referrer.of(&request.buffer)))?;
        }
        Ok(())
    }
}

/// `, server: 0.0.0.0:5432, upstream: "10.0.0.1:5432", bytes from/to client:1/2, ...`.
fn session_tail(exchange: &Exchange, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let listener = exchange.snapshot.listener(exchange.listener);
    let session = exchange.features.session.as_deref();
    if let Some(mail) = session.and_then(|session| session.mail.as_deref()) {
        return mail_tail(mail, &listener.address, f);
    }
    write!(f, ", server: {}", listener.address)?;
    let Some(upstream) = exchange.upstream.as_deref() else {
        return Ok(());
    };
    if !upstream.attempts.is_empty() {
        write!(f, ", upstream: \"{upstream}\"")?;
    }
    write!(f, "{}", MovedBytes(exchange))
}

/// ` using starttls, server: 0.0.0.0:143, login: "jo", upstream: 10.0.0.1:143`.
fn mail_tail(mail: &MailState, address: &ListenAddress, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if mail.is_starttls {
        f.write_str(" using starttls")?;
    }
    write!(f, ", server: {address}")?;
    if !mail.login.is_empty() {
        write!(f, ", login: \"{}\"", Text(&mail.login))?;
    }
    match &mail.upstream {
        Some(upstream) => write!(f, ", upstream: {upstream}"),
        None => Ok(()),
    }
}

/// What a session has moved so far, as nginx ends its lines.
struct MovedBytes<'e>(&'e Exchange);

impl Exchange {
    /// `, bytes from/to client:1/2, bytes from/to upstream:2/1` of a session.
    pub(crate) fn moved_bytes(&self) -> impl fmt::Display {
        MovedBytes(self)
    }
}

impl fmt::Display for MovedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transfer = &self.0.transfer;
        let states = self.0.upstream.as_deref();
        let attempt = states.and_then(|states| states.attempts.last());
        let (received, sent) = attempt.map_or((0, 0), |attempt| {
            (attempt.bytes_received, attempt.bytes_sent)
        });
        write!(
            f,
            ", bytes from/to client:{}/{}, bytes from/to upstream:{received}/{sent}",
            transfer.request_bytes, transfer.sent_bytes
        )
    }
}

/// Bytes as text for a log line; invalid UTF-8 is shown as U+FFFD. The logger escapes control
/// characters.
pub(crate) struct Text<'b>(pub(crate) &'b [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() {
                Ok(())
            } else {
                f.write_str("\u{fffd}")
            }
        })
    }
}
