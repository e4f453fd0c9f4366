//! Requests whose success is a tunnel: CONNECT (RFC 9110 section 9.3.6), and extended CONNECT for
//! WebSockets (RFC 8441).
//!
//! To the client every 2xx means that a tunnel is open, and what follows on the connection belongs
//! to it. So nothing else may answer with one, and a connection on which CONNECT was refused ends:
//! what the client has already sent may be meant for the other end of the tunnel, and must not be
//! taken for a request.

use super::{answer_instead, begin, finish};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::request_log::log_request;
use sealane_conf::model::Pass;
use sealane_http::h1::{Framing, Version};
use sealane_http::headers::KnownHeader;
use sealane_http::uri::parse_authority;
use sealane_http::{Method, StatusCode};

const READING: &str = "while reading client request headers";

/// Processes such a request.
pub(super) async fn handle(exchange: &mut Exchange) {
    let is_websocket = exchange.request.head.extended_connect;
    let refused = match is_websocket {
        true => check_protocol(exchange),
        false => check_connect(exchange),
    };
    let outcome = match refused {
        Ok(()) => begin(exchange).await,
        Err(status) => Outcome::Status(status),
    };
    finish(exchange, outcome).await;
    if !claims_success(exchange) {
        return;
    }
    let (wanted, instead) = match is_websocket {
        true => ("a WebSocket", StatusCode::NOT_IMPLEMENTED),
        false => ("a tunnel", StatusCode::NOT_ALLOWED),
    };
    log_request!(
        exchange,
        Info,
        "client asked for {wanted} where there is none"
    );
    answer_instead(exchange, instead).await;
    if claims_success(exchange) {
        // An `error_page` insists.
        exchange.response.drop_connection = true;
    }
}

/// Whether the response would mean that a tunnel is open, and none is.
fn claims_success(exchange: &Exchange) -> bool {
    let response = &exchange.response;
    matches!(response.status.0, 200..=299) && !response.is_tunnel && !response.drop_connection
}

/// Whether the request may go on to the phases.
fn check_connect(exchange: &mut Exchange) -> Result<(), StatusCode> {
    // As in nginx, this is the last request of the connection, whatever becomes of it.
    exchange.response.close = true;
    exchange.request.head.keep_alive = false;
    if !has_tunnels(exchange) {
        log_request!(exchange, Info, "client sent CONNECT method {READING}");
        return Err(StatusCode::NOT_ALLOWED);
    }
    if has_body(exchange) {
        log_request!(
            exchange,
            Info,
            "client sent CONNECT request with body {READING}"
        );
        return Err(StatusCode::BAD_REQUEST);
    }
    if !names_one_host(exchange) {
        log_request!(
            exchange,
            Info,
            "client sent CONNECT request with different host in \"Host\" {READING}"
        );
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(())
}

/// Whether the version of the request has tunnels on this server. As in the modules, `tunnel_pass`
/// needs HTTP/1.1, while `proxy_connect` serves older clients, too.
fn has_tunnels(exchange: &Exchange) -> bool {
    exchange.server().accepts_connect
        && match exchange.request.head.version {
            Version::Http11 | Version::Http2 | Version::Http3 => true,
            Version::Http10 => stays_outside_locations(exchange),
            Version::Http09 => false,
        }
}

/// In HTTP/2 the DATA frames that follow are those of the tunnel.
fn has_body(exchange: &Exchange) -> bool {
    match exchange.request.head.framing {
        Framing::None | Framing::Length(0) => false,
        Framing::Length(_) => true,
        Framing::Chunked => !exchange.request.head.version.has_streams(),
    }
}

/// Whether `Host` agrees with the target (RFC 9112 section 3.2). Who looks at one of them to decide
/// who may connect where must not be told another one.
fn names_one_host(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    let mut lines = request.head.get_all(KnownHeader::Host);
    lines.all(|line| {
        let line = line.of(&request.buffer);
        let Ok(authority) = parse_authority(line) else {
            return false;
        };
        authority.host.of(line).eq_ignore_ascii_case(&request.host)
            && (authority.port.is_none() || authority.port == request.head.port)
    })
}

/// The only protocol of extended CONNECT that is passed on.
fn check_protocol(exchange: &mut Exchange) -> Result<(), StatusCode> {
    let request = &exchange.request;
    let protocol = request.head.get(KnownHeader::Upgrade).unwrap_or_default();
    let protocol = protocol.of(&request.buffer);
    if protocol.eq_ignore_ascii_case(b"websocket") {
        return Ok(());
    }
    log_request!(
        exchange,
        Info,
        "client sent CONNECT for unknown protocol \"{}\" {READING}",
        protocol.escape_ascii()
    );
    Err(StatusCode::NOT_IMPLEMENTED)
}

/// `proxy_connect` is about the server, whatever locations it has.
pub(super) fn stays_outside_locations(exchange: &Exchange) -> bool {
    let request = &exchange.request;
    if request.head.method != Method::Connect || request.is_subrequest {
        return false;
    }
    let server = exchange.server().default_location;
    match &exchange.snapshot.location(server).pass {
        Some(pass) => matches!(&pass.pass, Pass::Tunnel(tunnel) if tunnel.connect.is_some()),
        None => false,
    }
}
