//! `listen`: addresses, their options, and which servers share them.

use crate::build::Build;
use crate::call::{Call, Fault, shown};
use crate::draft::Address;
use crate::input::addresses_of;
use crate::model::{ListenAddress, ListenOptions, MailProtocol, Origin, ServerKind, TcpKeepalive};
use crate::parser::path_of;
use crate::values;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// nginx's default length of the accept queue on Linux.
const DEFAULT_BACKLOG: i32 = 511;
/// Longest path of a Unix socket (`sun_path` with its final zero byte).
pub(crate) const MAX_UNIX_PATH_BYTES: usize = 107;
/// Most pairs of an address and a server; port ranges multiply.
const MAX_LISTEN_PAIRS: usize = 1 << 17;

/// The options of a `listen` line, without its addresses.
struct Line {
    options: ListenOptions,
    default_server: bool,
    /// Options of the socket were given.
    options_given: bool,
    /// It needs its own socket.
    bind: bool,
    /// `udp`.
    udp: bool,
    /// `backlog=`, whatever its value.
    has_backlog: bool,
}

impl Line {
    fn new() -> Line {
        Line {
            options: ListenOptions {
                ssl: false,
                http2: false,
                quic: false,
                proxy_protocol: false,
                backlog: DEFAULT_BACKLOG,
                rcvbuf_bytes: None,
                sndbuf_bytes: None,
                deferred: false,
                reuseport: false,
                ipv6only: true,
                so_keepalive: None,
                fastopen: None,
                multipath: false,
            },
            default_server: false,
            options_given: false,
            bind: false,
            udp: false,
            has_backlog: false,
        }
    }

    /// The first parameter that excludes datagrams, in nginx's order.
    fn excludes_datagrams(&self) -> Option<&'static str> {
        let options = &self.options;
        let given = [
            ("fastopen", options.fastopen.is_some()),
            ("backlog", self.has_backlog),
            ("deferred", options.deferred),
            ("multipath", options.multipath),
            ("ssl", options.ssl),
            ("http2", options.http2),
            ("so_keepalive", options.so_keepalive.is_some()),
            ("proxy_protocol", options.proxy_protocol),
        ];
        let mut given = given.into_iter();
        given.find_map(|(name, is_given)| is_given.then_some(name))
    }
}

/// The setter of `listen`.
pub(crate) fn listen(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    b.server().listens = true;
    let written = c.arg(1);
    let found = match b.kind() {
        ServerKind::Http => addresses(b, written),
        ServerKind::Stream | ServerKind::Mail => stream_addresses(b, written),
    };
    let addresses = found.map_err(|reason| {
        let message = format!(
            "{reason} in \"{}\" of the \"listen\" directive",
            shown(written)
        );
        Fault::at(1, message)
    })?;
    let mut line = Line::new();
    for (index, option) in c.args().skip(1) {
        line_option(b, c, index, option, &mut line)?;
    }
    let addresses = match (line.udp, line.options.quic) {
        (true, _) => for_datagrams(c, &line, "udp", addresses)?,
        (_, true) => for_datagrams(c, &line, "quic", addresses)?,
        (false, false) => addresses,
    };
    b.met.listens_quic |= line.options.quic;
    let server = b.server_index();
    if b.kind() == ServerKind::Mail {
        note_protocol(b, &addresses);
        b.server().mail.listens_ssl |= line.options.ssl;
    }
    for address in addresses {
        add(b, address, &line, server, &c.origin)?;
    }
    Ok(())
}

/// Without `protocol` in front of it, the port of a `listen` line of `mail` says what is spoken.
fn note_protocol(b: &mut Build<'_>, addresses: &[ListenAddress]) {
    let Some(ListenAddress::Inet(first)) = addresses.first() else {
        return;
    };
    let mut all = MailProtocol::ALL.into_iter();
    let found = all.find(|protocol| protocol.ports().contains(&first.port()));
    let protocol = &mut b.server().mail.protocol;
    *protocol = protocol.or(found);
}

/// The addresses of a line with a `parameter` that makes them those of datagrams.
fn for_datagrams(
    c: &Call<'_>,
    line: &Line,
    parameter: &str,
    addresses: Vec<ListenAddress>,
) -> Result<Vec<ListenAddress>, Fault> {
    if let Some(name) = line.excludes_datagrams() {
        let what = format!("\"{name}\" parameter is incompatible with \"{parameter}\"");
        let fault = Fault::new(format!("\"listen\" directive {what}"));
        return Err(match (name, parameter) {
            ("ssl", "quic") => {
                let address = c.shown(1);
                fault.help(format!(
                    "use two lines: \"listen {address} ssl;\" and \"listen {address} quic;\""
                ))
            }
            _ => fault,
        });
    }
    let addresses = addresses.into_iter().map(|address| match address.inet() {
        Some(inet) => Ok(ListenAddress::Udp(inet)),
        None => {
            let message = format!("\"listen unix:... {parameter}\" is not supported");
            Err(Fault::at(1, message).help(format!(
                "datagrams are received on addresses with a port; a Unix socket for connections is \
                 written without \"{parameter}\""
            )))
        }
    });
    addresses.collect()
}

/// At the end of a `server` block: without a `listen` line it listens on
/// `*:80`, or `*:8000` without privileges.
pub(crate) fn default_listen(b: &mut Build<'_>, origin: Origin) -> Result<(), Fault> {
    if b.server().listens {
        return Ok(());
    }
    let port = if b.options.privileged { 80 } else { 8000 };
    let address = ListenAddress::Inet(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)));
    let server = b.server_index();
    add(b, address, &Line::new(), server, &origin)
}

/// The addresses that the first argument names.
pub(crate) fn addresses(
    b: &mut Build<'_>,
    written: &[u8],
) -> Result<Vec<ListenAddress>, &'static str> {
    if written.len() >= 5 && written[..5].eq_ignore_ascii_case(b"unix:") {
        let path = &written[5..];
        return match path.len() {
            0 => Err("no path in the unix domain socket"),
            1..=MAX_UNIX_PATH_BYTES => Ok(vec![ListenAddress::Unix(path_of(path).to_owned())]),
            _ => Err("too long path in the unix domain socket"),
        };
    }
    let (hosts, ports) = match written {
        [b'[', rest @ ..] => inet6(rest)?,
        _ => inet(b, written)?,
    };
    let mut list = Vec::new();
    for port in ports.0..=ports.1 {
        for host in &hosts {
            list.push(ListenAddress::Inet(SocketAddr::new(*host, port)));
        }
    }
    Ok(list)
}

/// The addresses of a `listen` line of `stream` or `mail`, which have no default port.
pub(crate) fn stream_addresses(
    b: &mut Build<'_>,
    written: &[u8],
) -> Result<Vec<ListenAddress>, &'static str> {
    match has_port(written) {
        true => addresses(b, written),
        false => Err("no port"),
    }
}

/// Whether an address says which port, or is a Unix socket.
fn has_port(written: &[u8]) -> bool {
    if written.len() >= 5 && written[..5].eq_ignore_ascii_case(b"unix:") {
        return true;
    }
    let behind_host = match written {
        [b'[', rest @ ..] => memchr::memchr(b']', rest).map_or(rest, |close| &rest[close + 1..]),
        _ => written,
    };
    // A number alone is a port.
    let is_port = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    behind_host.contains(&b':') || (!written.is_empty() && written.iter().all(is_port))
}

/// First and last port of a range.
type Ports = (u16, u16);

const DEFAULT_PORTS: Ports = (80, 80);

fn inet6(after_bracket: &[u8]) -> Result<(Vec<IpAddr>, Ports), &'static str> {
    let close = memchr::memchr(b']', after_bracket).ok_or("invalid host")?;
    let (host, rest) = (&after_bracket[..close], &after_bracket[close + 1..]);
    if rest.contains(&b'/') {
        return Err("invalid host");
    }
    let ports = match rest {
        [] => DEFAULT_PORTS,
        [b':', ports @ ..] => port_range(ports)?,
        _ => return Err("invalid host"),
    };
    if host.is_empty() {
        return Err("no host");
    }
    let host = std::str::from_utf8(host)
        .ok()
        .and_then(|host| host.parse::<Ipv6Addr>().ok());
    Ok((vec![IpAddr::V6(host.ok_or("invalid IPv6 address")?)], ports))
}

fn inet(b: &mut Build<'_>, written: &[u8]) -> Result<(Vec<IpAddr>, Ports), &'static str> {
    let any = || vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
    if written.iter().any(|byte| matches!(byte, b'/' | b'?')) {
        return Err("invalid host");
    }
    let (host, ports) = match memchr::memchr(b':', written) {
        Some(colon) => (&written[..colon], port_range(&written[colon + 1..])?),
        None => {
            // A number, or a range of two, is a port; anything else a host.
            let first = written
                .split(|byte| *byte == b'-')
                .next()
                .unwrap_or_default();
            let second = written.get(first.len() + 1..);
            let numbers = values::number(first).is_some()
                && second.is_none_or(|second| values::number(second).is_some());
            if numbers {
                return Ok((any(), port_range(written)?));
            }
            (written, DEFAULT_PORTS)
        }
    };
    if host.is_empty() {
        return Err("no host");
    }
    if host == b"*" {
        return Ok((any(), ports));
    }
    let host = std::str::from_utf8(host).map_err(|_| "invalid host")?;
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Ok((vec![IpAddr::V4(address)], ports));
    }
    let found = addresses_of(b.loader, host);
    if found.is_empty() {
        Err("host not found")
    } else {
        Ok((found, ports))
    }
}

fn port_range(written: &[u8]) -> Result<Ports, &'static str> {
    let port = |text: &[u8]| match values::number(text).and_then(|port| u16::try_from(port).ok()) {
        None | Some(0) => Err("invalid port"),
        Some(port) => Ok(port),
    };
    match memchr::memchr(b'-', written) {
        None => port(written).map(|port| (port, port)),
        Some(dash) => {
            let last = port(&written[dash + 1..])?;
            let first = port(&written[..dash])?;
            if first > last {
                Err("invalid port range")
            } else {
                Ok((first, last))
            }
        }
    }
}

fn line_option(
    b: &mut Build<'_>,
    c: &Call<'_>,
    index: usize,
    option: &[u8],
    line: &mut Line,
) -> Result<(), Fault> {
    let invalid = |what: &str| Fault::at(index, format!("invalid {what} \"{}\"", shown(option)));
    let is_stream = b.kind() == ServerKind::Stream;
    if b.kind() == ServerKind::Mail && !is_of_mail(option) {
        return Err(c.invalid_parameter(index));
    }
    match option {
        b"default_server" => line.default_server = true,
        b"udp" if is_stream => line.udp = true,
        b"http2" | b"quic" | b"default" if is_stream => {
            return Err(c.invalid_parameter(index));
        }
        b"default" => line.default_server = true,
        b"ssl" => line.options.ssl = true,
        b"http2" => {
            b.warn(
                "the \"listen ... http2\" directive is deprecated, use the \"http2\" directive \
                 instead",
            );
            line.options.http2 = true;
        }
        b"proxy_protocol" => line.options.proxy_protocol = true,
        b"quic" => line.options.quic = true,
        b"http3" if !is_stream => {
            let help = format!("write \"quic\": \"listen {} quic;\"", c.shown(1));
            return Err(c.invalid_parameter(index).help(help));
        }
        _ if option.starts_with(b"accept_filter=") => b.warn(format!(
            "accept filters \"{}\" are not supported on this platform, ignored",
            shown(option)
        )),
        _ => {
            socket_option(c, index, option, line, &invalid)?;
            line.options_given = true;
            line.bind = true;
        }
    }
    Ok(())
}

/// Whether a `listen` line of `mail` has this option.
fn is_of_mail(option: &[u8]) -> bool {
    let name = option.split_inclusive(|byte| *byte == b'=').next();
    let name = name.unwrap_or_default();
    [
        &b"ssl"[..],
        b"proxy_protocol",
        b"bind",
        b"multipath",
        b"backlog=",
        b"rcvbuf=",
        b"sndbuf=",
        b"ipv6only=",
        b"so_keepalive=",
    ]
    .contains(&name)
}

/// Options that set something on the socket, and so give it one of its own.
fn socket_option(
    c: &Call<'_>,
    index: usize,
    option: &[u8],
    line: &mut Line,
    invalid: &dyn Fn(&str) -> Fault,
) -> Result<(), Fault> {
    let options = &mut line.options;
    let equals = memchr::memchr(b'=', option).map_or(option.len(), |at| at + 1);
    let (name, value) = option.split_at(equals);
    let number = || values::number(value).and_then(|number| i32::try_from(number).ok());
    let size = || values::size(value).and_then(|size| u32::try_from(size).ok());
    match name {
        b"bind" => {}
        b"deferred" => options.deferred = true,
        b"multipath" => options.multipath = true,
        b"reuseport" => options.reuseport = true,
        b"backlog=" => {
            let backlog = number().filter(|backlog| *backlog != 0);
            options.backlog = backlog.ok_or_else(|| invalid("backlog"))?;
            line.has_backlog = true;
        }
        b"rcvbuf=" => options.rcvbuf_bytes = Some(size().ok_or_else(|| invalid("rcvbuf"))?),
        b"sndbuf=" => options.sndbuf_bytes = Some(size().ok_or_else(|| invalid("sndbuf"))?),
        b"fastopen=" => {
            let queue = number().and_then(|queue| u32::try_from(queue).ok());
            options.fastopen = Some(queue.ok_or_else(|| invalid("fastopen"))?);
        }
        b"ipv6only=" if value.starts_with(b"o") => match value {
            b"on" => options.ipv6only = true,
            b"off" => options.ipv6only = false,
            _ => {
                let message = format!("invalid ipv6only flags \"{}\"", shown(value));
                return Err(Fault::at(index, message));
            }
        },
        b"so_keepalive=" => {
            let keepalive = keepalive(value).ok_or_else(|| {
                Fault::at(
                    index,
                    format!("invalid so_keepalive value: \"{}\"", shown(value)),
                )
            })?;
            options.so_keepalive = Some(keepalive);
        }
        _ => return Err(c.invalid_parameter(index)),
    }
    Ok(())
}

/// `on`, `off` or `[idle]:[interval]:[count]`.
fn keepalive(value: &[u8]) -> Option<TcpKeepalive> {
    let mut keepalive = TcpKeepalive {
        on: true,
        idle: None,
        interval: None,
        count: None,
    };
    match value {
        b"on" => return Some(keepalive),
        b"off" => {
            return Some(TcpKeepalive {
                on: false,
                ..keepalive
            });
        }
        _ => {}
    }
    let mut parts = value.splitn(3, |byte| *byte == b':');
    let time = |part: Option<&[u8]>| -> Option<Option<Duration>> {
        match part.unwrap_or_default() {
            [] => Some(None),
            part => values::seconds(part).map(Some),
        }
    };
    keepalive.idle = time(parts.next())?;
    keepalive.interval = time(parts.next())?;
    keepalive.count = match parts.next().unwrap_or_default() {
        [] => None,
        count => Some(u32::try_from(values::number(count)?).ok()?),
    };
    let something = [keepalive.idle, keepalive.interval]
        .iter()
        .flatten()
        .any(|t| !t.is_zero())
        || keepalive.count.is_some_and(|count| count != 0);
    something.then_some(keepalive)
}

/// Adds a server to an address, with nginx's errors for conflicting
/// lines.
fn add(
    b: &mut Build<'_>,
    address: ListenAddress,
    line: &Line,
    server: usize,
    origin: &Origin,
) -> Result<(), Fault> {
    b.http.listen_pairs += 1;
    if b.http.listen_pairs > MAX_LISTEN_PAIRS {
        return Err(Fault::new("too many addresses to listen on"));
    }
    let Some(&index) = b.http.address_index.get(&address) else {
        b.http
            .address_index
            .insert(address.clone(), b.http.addresses.len());
        let kind = b.kind();
        b.http.addresses.push(Address {
            kind,
            address,
            origin: origin.clone(),
            options: line.options.clone(),
            options_given: line.options_given,
            bind: line.bind,
            default_server: server,
            default_given: line.default_server,
            servers: vec![server],
            protocols: None,
            protocols_changed: false,
        });
        return Ok(());
    };
    let kind = b.kind();
    let known = &mut b.http.addresses[index];
    let name = known.address.to_string();
    if known.kind != kind {
        let (one, other) = (known.kind.min(kind).name(), known.kind.max(kind).name());
        let message = format!("\"{one}\" and \"{other}\" both listen on {name}");
        let Origin { file, line } = &known.origin;
        return Err(Fault::at(1, message).help(format!(
            "an address belongs to one of them; the other one is in {}:{line}",
            file.display()
        )));
    }
    if kind == ServerKind::Mail {
        let message = format!("duplicate \"{name}\" address and port pair");
        return Err(Fault::at(1, message));
    }
    if known.servers.last() == Some(&server) {
        return Err(Fault::at(1, format!("a duplicate listen {name}")));
    }
    known.servers.push(server);
    let before = known.options.clone();
    if line.options_given {
        if known.options_given {
            return Err(Fault::at(1, format!("duplicate listen options for {name}")));
        }
        known.options = line.options.clone();
        known.options_given = true;
        known.bind = line.bind;
    }
    if line.default_server {
        if known.default_given {
            return Err(Fault::at(
                1,
                format!("a duplicate default server for {name}"),
            ));
        }
        known.default_given = true;
        known.default_server = server;
    }
    let redefined = known.note_protocols(bits(&before), line);
    known.options.ssl = before.ssl || line.options.ssl;
    known.options.http2 = before.http2 || line.options.http2;
    known.options.proxy_protocol = before.proxy_protocol || line.options.proxy_protocol;
    if redefined {
        b.warn(format!("protocol options redefined for {name}"));
    }
    Ok(())
}

/// The protocol options of a line as a set.
fn bits(options: &ListenOptions) -> u8 {
    u8::from(options.proxy_protocol) | u8::from(options.ssl) << 1 | u8::from(options.http2) << 2
}

impl Address {
    /// Whether nginx would warn that the lines of this address name different
    /// protocols. It does not in two harmless cases: one line names them
    /// and the others none, or the lines that set options name them.
    fn note_protocols(&mut self, before: u8, line: &Line) -> bool {
        let now = bits(&line.options);
        let given = line.options_given;
        let differs_from_kept = self.protocols.is_some_and(|kept| kept != now);
        if now | before != before {
            // Options were added.
            let warn =
                (self.options_given && !given) || self.protocols_changed || now | before != now;
            self.protocols = Some(before);
            self.protocols_changed = true;
            warn
        } else if before | now != now {
            // Options were left out.
            let warn = given || differs_from_kept;
            self.protocols = Some(now);
            self.protocols_changed = true;
            warn
        } else {
            let warn = (given && self.protocols_changed) || differs_from_kept;
            self.protocols = Some(now);
            warn
        }
    }
}

#[cfg(test)]
mod tests;
