//! `ssl_preread`: the ClientHello is read before a connection is passed on, and chooses the server.

use super::{Ended, Verdict, refuse, session, shown, stream_of};
use crate::connection::{Connection, Wait};
use crate::exchange::Exchange;
use crate::request_log::log_request;
use sealane_http::StatusCode;
use sealane_tls::{PrereadDecoder, PrereadHello, PrereadStatus};
use std::borrow::Cow;

/// Reads the hello. What is none is passed on as well.
///
/// # Errors
/// The client has gone, or sends too much or too little.
pub(super) async fn read(connection: &mut Connection, exchange: &mut Exchange) -> Verdict {
    let stream = stream_of(exchange);
    connection.set_deadline(stream.preread_timeout);
    let mut decoder = PrereadDecoder::default();
    loop {
        if !connection.buffer.is_empty() {
            match decoder.decode(&connection.buffer) {
                PrereadStatus::Complete(hello) => {
                    choose_server(exchange, hello.server_name());
                    keep(exchange, Some(hello));
                    return Ok(());
                }
                PrereadStatus::Unreadable => {
                    keep(exchange, None);
                    return Ok(());
                }
                PrereadStatus::Incomplete => keep(exchange, Some(PrereadHello::default())),
            }
        }
        let room = stream
            .preread_buffer_bytes
            .saturating_sub(connection.buffer.len());
        if room == 0 {
            log_request!(
                exchange,
                Error,
                "preread buffer full while prereading client data"
            );
            return refuse(StatusCode::BAD_REQUEST);
        }
        match connection.receive(room, false).await {
            Wait::Bytes => {}
            Wait::TimedOut => {
                log_request!(
                    exchange,
                    Info,
                    "client timed out (110: Connection timed out) while prereading client data"
                );
                return Err(Ended::Status(StatusCode::OK));
            }
            Wait::Broken(error) => {
                connection.log_broken(&error, "while prereading client data");
                return Err(Ended::Status(StatusCode::OK));
            }
            Wait::End | Wait::Asked(_) => return Err(Ended::Status(StatusCode::OK)),
        }
    }
}

/// What variables show of the hello: empty while it is read, nothing if it is none.
fn keep(exchange: &mut Exchange, hello: Option<PrereadHello>) {
    if let Some(session) = &mut exchange.features.session {
        session.hello = hello;
    }
}

/// The server of that name among those of the listener, if there is one; with the captures of its
/// expression.
pub(super) fn choose_server(exchange: &mut Exchange, name: &[u8]) {
    let snapshot = exchange.snapshot.clone();
    let names = &snapshot.listener(exchange.listener).names;
    if names.is_single() || name.is_empty() {
        return;
    }
    match host_of(name) {
        Some(host) => {
            let server = names.find(&host, Some(&exchange.request.values));
            session::choose_server(exchange, server);
        }
        None => log_request!(
            exchange,
            Info,
            "client sent an invalid server name \"{}\" in its ClientHello",
            shown(name)
        ),
    }
}

/// A name as it is looked up: in lower case, without a port and a final dot. `None` if it cannot be
/// the name of a host (RFC 3986 section 3.2.2).
fn host_of(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    let name = match name {
        // An address in brackets has colons of its own.
        [b'[', ..] => &name[..=memchr::memchr(b']', name)?],
        _ => name.split(|byte| *byte == b':').next().unwrap_or_default(),
    };
    let name = name.strip_suffix(b".").unwrap_or(name);
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%[]:".contains(byte);
    let has_dots = name.windows(2).any(|two| two == b"..");
    if name.is_empty() || has_dots || !name.iter().all(is_host) {
        return None;
    }
    Some(match name.iter().any(u8::is_ascii_uppercase) {
        true => Cow::Owned(name.to_ascii_lowercase()),
        false => Cow::Borrowed(name),
    })
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn names_are_looked_up_as_hosts_are() {
        let found = |name: &str| {
            let host = host_of(name.as_bytes());
            host.map(|host| String::from_utf8_lossy(&host).into_owned())
        };
        for (name, host) in [
            ("db.example", "db.example"),
            ("DB.Example.", "db.example"),
            ("db.example:443", "db.example"),
            ("[::1]:443", "[::1]"),
        ] {
            assert_eq!(found(name).as_deref(), Some(host), "{name}");
        }
        for name in ["", ".", "a..b", "a/b", "a b", "[::1", "a\0"] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
