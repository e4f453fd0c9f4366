//! ngx_http_tunnel_module of nginx 1.31, and ngx_http_proxy_connect_module, which Tengine contains:
//! tunnels for clients that ask for them with CONNECT.

use super::proxying::{bind, bind_of, next_upstream, pass_to, send_lowat_row, upstream};
use super::real_ip::network;
use super::{Arity, Check, HS, HSL, LOCATION, LOCATION_IF, Module, ONE, Row, SERVER};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::TunnelRulesDraft;
use crate::model::{Family, List, TunnelAddresses};
use crate::template;
use crate::values;
use std::ops::RangeInclusive;

pub(super) const MODULE: Module = Module {
    title: "Tunnels: CONNECT",
    doc: "A server with `tunnel_pass` is a forward proxy: a client sends `CONNECT host:port`, and \
          what both sides say from then on is passed on as it is. Where the client chooses the \
          host, tunnels lead to port 443 of public addresses and nowhere else, unless \
          `tunnel_allow_ports` and `tunnel_allow_addresses` name more. With CONNECT, `auth_basic` \
          is the authentication of a proxy: 407, `Proxy-Authenticate`, `Proxy-Authorization`. \
          See [connect.md](connect.md).",
    rows: TUNNEL,
};

pub(super) const CONNECT: Module = Module {
    title: "Tunnels: proxy_connect",
    doc: "The directives of ngx_http_proxy_connect_module, which Tengine contains, for the same \
          tunnels. They are configured for a whole server: locations have no say in CONNECT.",
    rows: PROXY_CONNECT,
};

/// What `tunnel_pass` without an argument means.
const REQUESTED: &[u8] = b"$host:$request_port";

/// What `proxy_connect` connects to.
const CONNECTED: &[u8] = b"$connect_host:$connect_port";

const TUNNEL: &[Row] = &[
    Row::new(
        "tunnel_pass",
        SERVER | LOCATION | LOCATION_IF,
        Arity::Between(0, 1),
        "",
        "Opens tunnels for CONNECT; other methods are answered with 405. The argument is a host \
         and port, the name of an `upstream`, or `unix:PATH`, and may contain variables; without \
         it, it is `$host:$request_port`, which is what the client names. Names in variables are \
         looked up by `resolver`, once for each request.",
        |b, c| {
            let written = match c.count() {
                0 => REQUESTED,
                _ => c.arg(1),
            };
            pass_to(b, c, Family::Tunnel, written, &[], false)
        },
    ),
    Row::new(
        "tunnel_allow_ports",
        HSL,
        Arity::AtLeast(1),
        "443",
        "Ports that tunnels may lead to where `tunnel_pass` has variables: numbers, ranges \
         (`8000-8010`), or `all`. Others are answered with 403.",
        |b, c| ports(c, &mut b.location().passing.tunnel),
    )
    .own(),
    Row::new(
        "tunnel_allow_addresses",
        HSL,
        Arity::AtLeast(1),
        "",
        "Addresses that tunnels may lead to where `tunnel_pass` has variables, besides those of \
         the public Internet: addresses, networks, `unix:` for Unix sockets, or `all`. Others \
         (private, loopback, link-local, multicast, shared, reserved, IPv6 forms of these, and \
         the server's own) are answered with 403. The address that is checked is the one that is \
         connected to.",
        |b, c| addresses(c, &mut b.location().passing.tunnel),
    )
    .own(),
    Row::new(
        "tunnel_bind",
        HSL,
        Arity::Between(1, 2),
        "",
        "Local IP address, with an optional port, for connections to servers; `transparent` \
         allows a non-local address; `off` cancels an inherited directive. May contain variables.",
        bind,
    ),
    Row::new(
        "tunnel_socket_keepalive",
        HSL,
        ONE,
        "off",
        "Whether SO_KEEPALIVE is enabled for connections to servers.",
        |b, c| c.flag(&mut upstream(b, c).socket_keepalive),
    ),
    Row::new(
        "tunnel_socket_rcvbuf",
        HSL,
        ONE,
        "",
        "Size of the receive buffer (SO_RCVBUF) of connections to servers; by default, the \
         system's.",
        |b, c| c.size(&mut upstream(b, c).socket_rcvbuf),
    ),
    Row::new(
        "tunnel_socket_sndbuf",
        HSL,
        ONE,
        "",
        "Size of the send buffer (SO_SNDBUF) of connections to servers; by default, the system's.",
        |b, c| c.size(&mut upstream(b, c).socket_sndbuf),
    ),
    Row::new(
        "tunnel_connect_timeout",
        HSL,
        ONE,
        "60s",
        "Timeout for establishing a connection with a server.",
        |b, c| c.time(&mut upstream(b, c).connect_timeout),
    ),
    Row::new(
        "tunnel_send_timeout",
        HSL,
        ONE,
        "60s",
        "Timeout between two successive writes to a server that takes nothing.",
        |b, c| c.time(&mut upstream(b, c).send_timeout),
    ),
    send_lowat_row!("tunnel_send_lowat"),
    Row::new(
        "tunnel_buffer_size",
        HSL,
        ONE,
        "4k",
        "How much of what a server has sent may wait for the client. A busy tunnel may use 32k even \
         if this is less; an idle one uses nothing.",
        |b, c| c.size(&mut upstream(b, c).buffer_size),
    ),
    Row::new(
        "tunnel_read_timeout",
        HSL,
        ONE,
        "60s",
        "How long a tunnel stays open while neither side sends anything.",
        |b, c| c.time(&mut upstream(b, c).read_timeout),
    ),
    Row::new(
        "tunnel_next_upstream",
        HSL,
        Arity::AtLeast(1),
        "error timeout",
        "When another address or server is tried: `error`, `timeout`, or `off`. Once a tunnel is \
         open, it stays where it leads.",
        next_upstream,
    ),
    Row::new(
        "tunnel_next_upstream_tries",
        HSL,
        ONE,
        "0",
        "Maximum number of servers that are tried for a tunnel; 0 means no limit.",
        |b, c| c.number(&mut upstream(b, c).next_upstream_tries),
    ),
    Row::new(
        "tunnel_next_upstream_timeout",
        HSL,
        ONE,
        "0",
        "Time during which another server may be tried; 0 means no limit.",
        |b, c| c.time(&mut upstream(b, c).next_upstream_timeout),
    ),
];

const PROXY_CONNECT: &[Row] = &[
    Row::new(
        "proxy_connect",
        SERVER,
        Arity::Between(0, 0),
        "",
        "Opens tunnels for CONNECT. Requests with other methods are answered by the locations.",
        proxy_connect,
    )
    .own(),
    Row::new(
        "proxy_connect_allow",
        SERVER,
        Arity::AtLeast(1),
        "443",
        "Ports that tunnels may lead to: numbers, ranges (`1000-2000`), or `all`. Others are \
         answered with 403. The module's own default has port 563, too.",
        |b, c| ports(c, &mut b.location().passing.connect.rules),
    )
    .own(),
    Row::new(
        "proxy_connect_allow_addresses",
        HS,
        Arity::AtLeast(1),
        "",
        "Addresses that tunnels may lead to besides those of the public Internet, as in \
         `tunnel_allow_addresses`. A `proxy_connect_address` without variables is allowed.",
        |b, c| addresses(c, &mut b.location().passing.connect.rules),
    )
    .own(),
    Row::new(
        "proxy_connect_connect_timeout",
        HS,
        ONE,
        "60s",
        "Timeout for establishing a connection with a server. \
         `set $proxy_connect_connect_timeout` changes it for a request.",
        |b, c| c.time(&mut connect_upstream(b).connect_timeout),
    )
    .own(),
    Row::new(
        "proxy_connect_data_timeout",
        HS,
        ONE,
        "60s",
        "How long a tunnel stays open while neither side sends anything. \
         `set $proxy_connect_data_timeout` changes it for a request.",
        |b, c| c.time(&mut connect_upstream(b).read_timeout),
    )
    .own(),
    Row::new(
        "proxy_connect_read_timeout",
        HS,
        ONE,
        "60s",
        "The old name of `proxy_connect_data_timeout`.",
        |b, c| c.time(&mut connect_upstream(b).read_timeout),
    )
    .own(),
    Row::meaningless(
        "proxy_connect_send_timeout",
        HS,
        ONE,
        Check::Time,
        "As in the module, `proxy_connect_data_timeout` is for both directions.",
    )
    .own(),
    Row::meaningless(
        "proxy_connect_send_lowat",
        HS,
        ONE,
        Check::Size,
        "Linux does not support it.",
    )
    .own(),
    Row::new(
        "proxy_connect_address",
        HS,
        ONE,
        "",
        "Address, with an optional port, that is connected to instead of the host that the client \
         names; may contain variables, and counts as absent if they come out empty. `off` is none.",
        address,
    )
    .own(),
    Row::new(
        "proxy_connect_bind",
        HS,
        Arity::Between(1, 2),
        "",
        "Local IP address for connections to servers; arguments as in `tunnel_bind`.",
        |b, c| bind_of(b, c, Family::ProxyConnect),
    )
    .own(),
    Row::new(
        "proxy_connect_response",
        HS,
        ONE,
        "\"HTTP/1.1 200 Connection Established\\r\\nProxy-agent: nginx\\r\\n\\r\\n\"",
        "Response of an open tunnel: a status line with 200 and header fields; may contain \
         variables. `Server`, `Date` and `Connection` are added. \
         `set $proxy_connect_response` changes it for a request.",
        response,
    )
    .own(),
];

/// Numbers, ranges, `all`.
fn ports(c: &Call<'_>, rules: &mut TunnelRulesDraft) -> Result<(), Fault> {
    c.once(&rules.ports)?;
    let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
    let mut is_any = false;
    for (index, word) in c.args() {
        match word {
            b"all" => is_any = true,
            _ => ranges.push(port_range(word).ok_or_else(|| {
                Fault::at(index, format!("invalid port \"{}\"", c.shown(index)))
                    .help("a port from 1 to 65535, a range such as 8000-8010, or all")
            })?),
        }
    }
    rules.ports = Some((!is_any).then(|| List::from(ranges)));
    Ok(())
}

fn port_range(word: &[u8]) -> Option<RangeInclusive<u16>> {
    let port = |digits: &[u8]| {
        let port = u16::try_from(values::number(digits)?).ok()?;
        (port > 0).then_some(port)
    };
    let at = memchr::memchr(b'-', word);
    let (low, high) = match at {
        None => (port(word)?, port(word)?),
        Some(at) => (port(&word[..at])?, port(&word[at + 1..])?),
    };
    (low <= high).then_some(low..=high)
}

/// Addresses, networks, `unix:`, `all`.
fn addresses(c: &Call<'_>, rules: &mut TunnelRulesDraft) -> Result<(), Fault> {
    c.once(&rules.addresses)?;
    let mut named = TunnelAddresses::default();
    for (index, word) in c.args() {
        match word {
            b"all" => named.all = true,
            b"unix:" => named.unix = true,
            _ => {
                let (network, has_more_bits) =
                    network(word).ok_or_else(|| c.invalid_parameter(index))?;
                if has_more_bits {
                    let shown = c.shown(index);
                    let message = format!("low address bits of {shown} are meaningless");
                    return Err(Fault::at(index, message));
                }
                named.networks.push(network);
            }
        }
    }
    rules.addresses = Some(named);
    Ok(())
}

fn connect_upstream<'b>(b: &'b mut Build<'_>) -> &'b mut crate::draft::UpstreamDraft {
    b.location().passing.of_mut(Family::ProxyConnect)
}

fn proxy_connect(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if !b.first_here("proxy_connect") {
        return Err(c.refuse("is duplicate"));
    }
    pass_to(b, c, Family::ProxyConnect, CONNECTED, &[], false)
}

fn address(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().passing.connect.address)?;
    let address = match c.arg(1) {
        b"off" => None,
        written => Some(template::compile(&mut b.names, written, 1, &c.origin)?),
    };
    b.location().passing.connect.address = Some(address);
    Ok(())
}

fn response(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().passing.connect.response)?;
    let response = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    b.location().passing.connect.response = Some(response);
    Ok(())
}

#[cfg(test)]
mod tests;
