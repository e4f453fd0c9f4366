//! Tunnels for clients (`tunnel_pass`, `proxy_connect`): where they lead, where they must not, and
//! their response.
//!
//! What the client has a say in is checked twice: addresses that a name has are sorted out when it
//! has been looked up, and whatever is connected to is checked immediately before that
//! ([`refusal`]). A name is looked up once for a request, so nobody can answer differently in
//! between.

use super::attempt::PeerResponse;
use super::body::ProxiedBody;
use super::conversation::Timeouts;
use super::failure::Failure;
use super::response;
use super::target::{self, Target};
use super::wire::UpstreamHead;
use super::{PassRuntime, buffering_of};
use crate::body_source::PendingBody;
use crate::exchange::{Exchange, PassedHead};
use crate::handlers::Outcome;
use crate::request_log::log_request;
use crate::template;
use sealane_conf::model::{Pass, PassTarget, TunnelPass};
use sealane_conf::upstream_url::{HostKind, UpstreamUrl, UriPart};
use sealane_http::StatusCode;
use sealane_http::h1::{ParsedResponse, ResponseLimits, ResponseState, parse_response};
use sealane_http::headers::KnownHeader;
use sealane_upstream::PeerAddress;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a request keeps of its tunnel, and of `set $proxy_connect_*`.
#[derive(Default)]
pub(crate) struct TunnelState {
    /// `set $proxy_connect_connect_timeout`.
    pub(crate) connect_timeout: Option<Duration>,
    /// `set $proxy_connect_data_timeout`.
    pub(crate) data_timeout: Option<Duration>,
    /// `set $proxy_connect_response`.
    pub(crate) response: Option<Vec<u8>>,
    /// `$proxy_connect_resolve_time`.
    pub(crate) resolved: Measured,
    /// `$proxy_connect_first_byte_time`, since the attempt began.
    pub(crate) first_byte: Measured,
}

/// How long something on the way to a tunnel took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Measured {
    /// It has not begun.
    #[default]
    None,
    /// It has begun, and has failed unless it ends.
    Begun,
    /// It took so long.
    Took(Duration),
}

/// The response of `proxy_connect` unless another is configured.
const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection Established\r\nProxy-agent: nginx\r\n\r\n";

/// The most that a configured response may have: `add_header` has room for as much.
const MAX_RESPONSE_BYTES: usize = 8 << 10;

/// Room of a busy tunnel where `tunnel_buffer_size` is less. Memory is only taken while something
/// is on its way, and reads begin small; page by page, a tunnel would take a third more time.
const BUSY_BYTES: u64 = 32 << 10;

/// The target of a tunnel whose directive has variables.
///
/// # Errors
/// A status when nothing is there to connect to, or the client must not; the reason is logged.
pub(super) async fn evaluated(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    tunnel: &TunnelPass,
) -> Result<Target, StatusCode> {
    let PassTarget::Evaluated(target) = &tunnel.target else {
        return Err(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let connect = tunnel.connect.as_ref();
    let address = connect.and_then(|connect| connect.address.as_ref());
    let address = address.map(|address| template::evaluate(address, exchange).into_owned());
    let text = match address {
        Some(address) if !address.is_empty() => address,
        _ => template::evaluate(target, exchange).into_owned(),
    };
    let requested_port = exchange.request.head.port.unwrap_or(0);
    let default_port = connect.map_or(0, |_| requested_port);
    let url = target::parse(exchange, &text, default_port, UriPart::Refused)?;
    if connect.is_some() {
        check_port(exchange, tunnel, requested_port)?;
    }
    if tunnel.is_chosen_by_client() && url.kind != HostKind::Unix {
        check_port(exchange, tunnel, url.port)?;
    }
    let begun = Instant::now();
    state(exchange).resolved = Measured::Begun;
    let group = target::group_of(exchange, pass, &url).await?;
    state(exchange).resolved = Measured::Took(begun.elapsed());
    Ok(Target {
        uri: Vec::new(),
        tls: false,
        host: url.host_header(0).into(),
        port: port_text(&url).into(),
        group,
    })
}

fn port_text(url: &UpstreamUrl<'_>) -> String {
    match url.kind {
        HostKind::Unix => String::new(),
        _ => url.port.to_string(),
    }
}

fn state(exchange: &mut Exchange) -> &mut TunnelState {
    let states = exchange.upstream.get_or_insert_default();
    states.tunnel.get_or_insert_default()
}

/// The same of a request whose tunnel may be another's.
pub(crate) fn state_of(exchange: &Exchange) -> Option<&TunnelState> {
    exchange.upstream.as_deref()?.tunnel.as_deref()
}

/// The state that `set` changes.
pub(crate) fn state_to_set(exchange: &mut Exchange) -> &mut TunnelState {
    state(exchange)
}

fn check_port(exchange: &Exchange, tunnel: &TunnelPass, port: u16) -> Result<(), StatusCode> {
    if tunnel.allows.allows_port(port) {
        return Ok(());
    }
    let directive = match tunnel.connect {
        Some(_) => "proxy_connect_allow",
        None => "tunnel_allow_ports",
    };
    log_request!(
        exchange,
        Error,
        "tunnel to port {port} refused by \"{directive}\""
    );
    Err(StatusCode::FORBIDDEN)
}

/// Of the addresses that a name has, those that a tunnel may lead to.
///
/// # Errors
/// 403 if it may lead to none; that is logged.
pub(super) fn allowed(
    exchange: &Exchange,
    pass: &PassRuntime,
    addresses: Vec<PeerAddress>,
) -> Result<Vec<PeerAddress>, StatusCode> {
    let Pass::Tunnel(tunnel) = &pass.pass else {
        return Ok(addresses);
    };
    if !tunnel.is_chosen_by_client() {
        return Ok(addresses);
    }
    let mut first = None;
    let mut kept = addresses;
    kept.retain(|address| {
        let refused = why_not(tunnel, address);
        let is_allowed = refused.is_none();
        first = first.take().or(refused);
        is_allowed
    });
    match first {
        Some(why) if kept.is_empty() => {
            log_request!(exchange, Error, "{why}");
            Err(StatusCode::FORBIDDEN)
        }
        _ => Ok(kept),
    }
}

/// Why the address of a peer must not be connected to.
pub(super) fn refusal(pass: &PassRuntime, address: &PeerAddress) -> Option<Failure> {
    match &pass.pass {
        Pass::Tunnel(tunnel) if tunnel.is_chosen_by_client() => {
            why_not(tunnel, address).map(Failure::Refused)
        }
        _ => None,
    }
}

fn why_not(tunnel: &TunnelPass, address: &PeerAddress) -> Option<String> {
    let rules = &tunnel.allows.addresses;
    let (shown, kind) = match address {
        PeerAddress::Ip(address) => {
            let ip = address.ip();
            let own = || (!rules.names(ip) && is_own(ip)).then_some("the server's own");
            (ip.to_string(), rules.refusal(ip).or_else(own)?)
        }
        PeerAddress::Unix(_) if rules.unix => return None,
        PeerAddress::Unix(_) => ("unix:".to_owned(), "a Unix socket"),
    };
    let directive = match tunnel.connect {
        Some(_) => "proxy_connect_allow_addresses",
        None => "tunnel_allow_addresses",
    };
    Some(format!(
        "tunnel to {shown} refused, the address is {kind}; \"{directive} {shown}\" allows it"
    ))
}

/// Whether the address belongs to this machine: then a socket can be bound to it, without sending
/// anything.
fn is_own(address: IpAddr) -> bool {
    let binds = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    // Addresses for documentation belong to nobody; if they can be bound to, then any can
    // (`net.ipv4.ip_nonlocal_bind`). The source of a connection to one's own address is itself.
    let nobodys: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    binds(address) && (!binds(nobodys) || is_own_source(address))
}

fn is_own_source(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect((address, 9))?;
        socket.local_addr()
    });
    source.is_ok_and(|source| source.ip() == address)
}

/// How long a connection may take.
pub(super) fn connect_timeout(exchange: &Exchange, pass: &PassRuntime) -> Duration {
    let set = set_for(exchange, pass).and_then(|state| state.connect_timeout);
    set.unwrap_or(pass.settings().connect_timeout)
}

/// What `set` has changed for the request, if it is one for a tunnel: a server's script also runs
/// for others.
fn set_for<'e>(exchange: &'e Exchange, pass: &PassRuntime) -> Option<&'e TunnelState> {
    state_of(exchange).filter(|_| matches!(pass.pass, Pass::Tunnel(_)))
}

/// How long either side may be silent.
pub(super) fn timeouts(exchange: &Exchange, pass: &PassRuntime) -> Timeouts {
    let settings = pass.settings();
    let set = set_for(exchange, pass).and_then(|state| state.data_timeout);
    Timeouts {
        send: set.unwrap_or(settings.send_timeout),
        read: set.unwrap_or(settings.read_timeout),
    }
}

/// The connection stands: the client is told, and what both say is passed on from here.
pub(super) fn open(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    tunnel: &TunnelPass,
    answer: PeerResponse,
) -> Outcome {
    let PeerResponse {
        mut conversation,
        lease,
        ..
    } = answer;
    if let Err(why) = respond(exchange, tunnel) {
        let directive = "proxy_connect_response";
        log_request!(exchange, Error, "invalid \"{directive}\": {why}");
        lease.succeeded(None);
        return Outcome::Status(StatusCode::INTERNAL_SERVER_ERROR);
    }
    become_tunnel(exchange, &mut conversation);
    let settings = pass.settings();
    let buffering = buffering_of(exchange, settings, false).with_room(BUSY_BYTES);
    let body = ProxiedBody::new(conversation, lease, buffering, false).tunnel();
    exchange.response.source = Some(PendingBody::new(body));
    Outcome::Answered
}

/// From now on everything that the client sends goes to the peer, and the other way round.
pub(super) fn become_tunnel(
    exchange: &mut Exchange,
    conversation: &mut super::conversation::Conversation,
) {
    // The end of one direction of a stream is that of one direction of the connection (RFC 9113
    // section 8.5); in HTTP/1 a tunnel ends with either side (RFC 9110 section 9.3.6).
    let has_halves = exchange.request.head.version.has_streams();
    exchange.response.is_tunnel = true;
    exchange.client.open_tunnel(has_halves);
    conversation.become_tunnel(exchange.client.clone(), has_halves);
}

/// Makes the response of an open tunnel.
fn respond(exchange: &mut Exchange, tunnel: &TunnelPass) -> Result<(), String> {
    exchange.response.from_upstream = true;
    exchange.response.status = StatusCode::OK;
    let Some(connect) = &tunnel.connect else {
        return Ok(());
    };
    let set = state_of(exchange).and_then(|state| state.response.clone());
    let text = match (set, &connect.response) {
        (Some(text), _) => text,
        (None, Some(response)) => template::evaluate(response, exchange).into_owned(),
        (None, None) => ESTABLISHED.to_vec(),
    };
    let head = parse(text)?;
    if head.parsed.status != StatusCode::OK {
        return Err(format!(
            "the status is {} instead of 200",
            head.parsed.status.0
        ));
    }
    let reason = response::reason(head.parsed.status_line.of(&head.buffer));
    exchange.response.passed = Some(Box::new(PassedHead {
        server: head.parsed.has(KnownHeader::Server),
        date: head.parsed.has(KnownHeader::Date),
        last_modified: false,
        reason: reason.filter(|reason| *reason != b"OK").map(Into::into),
    }));
    for header in &head.parsed.headers {
        let name = header.name.of(&head.buffer);
        if frames(header.known) {
            continue; // a tunnel has no length (RFC 9110 section 9.3.6)
        }
        // Checked by the parser.
        let _ = exchange
            .response
            .headers
            .push(name, header.value.of(&head.buffer));
    }
    Ok(())
}

fn frames(name: Option<KnownHeader>) -> bool {
    use KnownHeader as H;
    matches!(
        name,
        Some(H::ContentLength | H::TransferEncoding | H::Connection | H::KeepAlive)
    )
}

fn parse(text: Vec<u8>) -> Result<UpstreamHead, String> {
    let limits = ResponseLimits::of_head(MAX_RESPONSE_BYTES);
    match parse_response(&text, &mut ResponseState::default(), &limits) {
        Ok(ParsedResponse::Complete(parsed)) if parsed.head_bytes == text.len() => {
            Ok(UpstreamHead {
                buffer: text,
                parsed,
            })
        }
        Ok(ParsedResponse::Complete(_)) => Err("something follows the empty line".to_owned()),
        Ok(_) => Err("it does not end with an empty line (\\r\\n\\r\\n)".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// The head that stands for a connection that has been established.
pub(super) fn established() -> Arc<UpstreamHead> {
    let head = parse(b"HTTP/1.1 200 OK\r\n\r\n".to_vec());
    Arc::new(head.expect("it is valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_found_without_sending_anything() {
        for own in ["127.0.0.1", "127.9.9.9"] {
            assert!(is_own(own.parse().expect("an address")), "{own}");
        }
        // Addresses for documentation and benchmarks are nobody's.
        for other in ["198.51.100.7", "203.0.113.9", "198.18.0.1", "2001:db8::7"] {
            assert!(!is_own(other.parse().expect("an address")), "{other}");
        }
    }

    #[test]
    fn a_response_is_a_whole_head() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\n", Some("does not end")),
            ("HTTP/1.1 200 OK\r\n\r\nmore", Some("something follows")),
            ("hello\r\n\r\n", Some("")),
            ("", Some("does not end")),
        ] {
            let error = parse(text.as_bytes().to_vec()).err();
            match (&error, expected) {
                (None, None) => {}
                (Some(error), Some(part)) => assert!(error.contains(part), "{text}: {error}"),
                _ => panic!("{text:?}: {error:?}"),
            }
        }
    }
}
