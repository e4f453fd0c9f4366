//! ngx_http_upstream_module and the modules of its balancing methods, and
//! Tengine's VNSWRR.

use super::{
    Arity, HTTP, Module, ONE, Row, STREAM, STREAM_UPSTREAM, UPSTREAM, resolver, session_sticky,
    session_store, sticky, zones,
};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault, shown};
use crate::draft::{CheckDraft, UpstreamBlock, ZoneUse};
use crate::input::addresses_of;
use crate::model::{
    BalanceMethod, BetterOfTwo, MAX_WEIGHT, PeerAddress, ServerKind, TimeUntil, UpstreamPeers,
    UpstreamQueue, UpstreamServer, UpstreamState, UpstreamZone,
};
use crate::parser::{errno_text, path_of};
use crate::template;
use crate::upstream_state::{StateText, read_block};
use crate::upstream_url::{HostKind, UpstreamUrl, UriPart};
use crate::values;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Smallest shared zone, as in nginx: eight memory pages.
const MIN_ZONE_BYTES: u64 = 8 * 4096;
/// Longest `route=` of a server.
const MAX_ROUTE_BYTES: usize = 32;
/// `timeout=` of `queue`.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(60);
/// Port of a server of `http` when none is written; in `stream` there is no default.
const DEFAULT_PORT: u16 = 80;

const NONE: Arity = Arity::Between(0, 0);

pub(super) const MODULE: Module = Module {
    title: "Upstreams",
    doc: "Groups of servers that requests are passed to, and load balancing. `include` works \
          inside the block, so that a file can hold a list of servers.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "upstream",
        HTTP | STREAM,
        ONE,
        "A group of servers. `proxy_pass` and the like refer to it by name; names are \
         case-insensitive, and the block may follow its use.",
        upstream,
    ),
    Row::new(
        "server",
        UPSTREAM | STREAM_UPSTREAM,
        Arity::AtLeast(1),
        "",
        "A server of the group: `host[:port]` or `unix:path`; the default port is 80 in `http`, \
         `stream` requires a port. A name that \
         resolves to several addresses defines several servers. Parameters: `weight=` (1 to \
         1000000, default 1); `max_fails=` (default 1, 0 disables it) failures within \
         `fail_timeout=` (default 10s) make the server unavailable for that time; `max_conns=` \
         limits connections of all workers; `slow_start=` is the time in which the weight grows \
         once the server can be used again (0); `backup` servers are used when no other is available; \
         `down`; `drain` admits only clients that \
         belong to the server; `route=` is its name in `sticky`, at most 32 bytes; `id=` (Tengine) and `sid=` (Angie) are \
         the same, of any length, also for `session_sticky` with `hash=plain`; `resolve` monitors changes of the name's addresses, which requires `zone` and \
         `resolver`; `service=` uses SRV records.",
        server,
    ),
    Row::new(
        "least_conn",
        UPSTREAM | STREAM_UPSTREAM,
        NONE,
        "",
        "Selects the server with the fewest active connections, taking weights into account.",
        |b, _| method(b, BalanceMethod::LeastConn),
    ),
    Row::new(
        "ip_hash",
        UPSTREAM,
        NONE,
        "",
        "Selects a server by the client address: the first three octets of an IPv4 address, or the \
         entire IPv6 address.",
        |b, _| method(b, BalanceMethod::IpHash),
    ),
    Row::new(
        "hash",
        UPSTREAM | STREAM_UPSTREAM,
        Arity::Between(1, 2),
        "",
        "Selects a server by a key of text and variables. `consistent` uses ketama consistent \
         hashing, which remaps few keys when a server is added or removed.",
        hash,
    ),
    Row::new(
        "random",
        UPSTREAM | STREAM_UPSTREAM,
        Arity::Between(0, 2),
        "",
        "Selects a server at random, taking weights into account. `two [least_conn]` selects two \
         servers and uses the one with fewer connections; `two least_time=header|last_byte` the \
         one that `least_time` would prefer.",
        random,
    ),
    Row::new(
        "vnswrr",
        UPSTREAM | STREAM_UPSTREAM,
        Arity::Between(0, 1),
        "",
        "Smooth weighted round robin over virtual nodes, as in Tengine. The cost of a selection \
         does not depend on the number of servers, and each worker starts at a different node. \
         `max_init=`: maximum number of virtual nodes that are initialized at once; the default \
         is the number of servers.",
        vnswrr,
    )
    .own(),
    Row::new(
        "least_time",
        UPSTREAM | STREAM_UPSTREAM,
        Arity::Between(1, 2),
        "",
        "Selects the server with the least average response time and the fewest active \
         connections, taking weights into account: the time to the response `header`, or to the \
         `last_byte`; in `stream` the time to `connect`, to the `first_byte`, or to the `last_byte`. With `inflight`, requests that are under way count as well.",
        least_time,
    ),
    Row::new(
        "sticky",
        UPSTREAM,
        Arity::AtLeast(2),
        "",
        "Passes requests of a client to the server that it belongs to, as long as that is \
         available. `cookie NAME [expires=TIME|max] [domain=] [path=] [httponly] [secure] \
         [samesite=strict|lax|none|$variable]` sets a cookie with the server's `route=`, or the \
         MD5 hash of its address; `route $variable ...` finds the route in the first variable that \
         is not empty; `learn create=$variable lookup=$variable zone=NAME:SIZE [timeout=10m] \
         [header] [sync]` remembers which server created a session. A reload keeps the sessions, another \
         worker process starts without. With `sync` the nodes of a site share them, as \
         `upstream_store` says.",
        sticky::sticky,
    ),
    Row::new(
        "upstream_store",
        HTTP | UPSTREAM,
        Arity::AtLeast(1),
        "",
        "Redis or Valkey store in which the nodes of a site share what `sticky learn ... sync`, \
         `health_check ... shared` and `check ... shared` find out, written as \
         `ssl_session_store` is; `off` cancels an inherited store. Without it, that of the \
         `ssl_session_store` of `http` is used. `key=FILE` is required: it seals what is stored, \
         and must be the same on all nodes. If the store is slow or unavailable, each node goes on \
         by itself. See [session-nodes.md](session-nodes.md).",
        upstream_store,
    )
    .own(),
    Row::new(
        "keepalive",
        UPSTREAM,
        Arity::Between(1, 2),
        "32 local",
        "Maximum number of idle connections to the servers of the group that each worker keeps \
         open; 0 disables the cache. With `local`, a connection is reused only by the location \
         that opened it, otherwise by any location.",
        keepalive,
    ),
    Row::new(
        "keepalive_requests",
        UPSTREAM,
        ONE,
        "1000",
        "Maximum number of requests on one connection. The connection is then closed.",
        |b, c| c.number(&mut b.upstream().keepalive_requests),
    ),
    Row::new(
        "keepalive_time",
        UPSTREAM,
        ONE,
        "1h",
        "Age after which a connection is closed once its current request completes.",
        |b, c| c.time(&mut b.upstream().keepalive_time),
    ),
    Row::new(
        "keepalive_timeout",
        UPSTREAM,
        ONE,
        "60s",
        "Time for which an idle connection stays open.",
        |b, c| c.time(&mut b.upstream().keepalive_timeout),
    ),
    Row::new(
        "multi",
        UPSTREAM,
        ONE,
        "1",
        "Number of connections that each worker thread opens to a server of the group for \
         `dubbo_pass`. Any number of requests share a connection; they are spread evenly. One \
         without requests is closed after `keepalive_timeout`. Other protocols use `keepalive`.",
        multi,
    )
    .own(),
    Row::new(
        "ntlm",
        UPSTREAM,
        NONE,
        "",
        "Authentication of connections: once a client sends `Authorization` with `Negotiate` or \
         `NTLM`, the connection to the server is bound to its own. It carries only this client's \
         requests, whatever the location, and is closed with it. Clients have to use HTTP/1.1, as \
         browsers do for NTLM by themselves; with HTTP/2 nothing is bound. Without this directive, \
         or over HTTP/2, a connection is closed after a request with such a header, so that it \
         never serves another client.",
        |b, c| {
            if b.upstream().ntlm {
                return Err(c.refuse("is duplicate"));
            }
            b.upstream().ntlm = true;
            Ok(())
        },
    ),
    Row::new(
        "queue",
        UPSTREAM,
        Arity::Between(1, 2),
        "",
        "A request for which no server can be selected at once waits until one can: at most so \
         many of them for the group, over all workers, in the order in which they came. Each \
         waits for at most `timeout=` (60s). When the queue is full, or that time is over, the \
         response is 502. Servers are full (`max_conns`), left out after failures, or unhealthy. \
         `$upstream_queue_time` tells how long a request has waited.",
        queue,
    ),
    Row::new(
        "zone",
        UPSTREAM | STREAM_UPSTREAM,
        Arity::Between(1, 2),
        "",
        "All workers share the counters and the state of the group. The size is checked as in \
         nginx but not used, because the threads of one process share memory.",
        zone,
    ),
    Row::new(
        "state",
        UPSTREAM,
        ONE,
        "",
        "File that holds the servers of the group, in place of `server` lines. What is changed \
         through `api write=on`, `upstream_conf` or `dyups_interface` is written to it, as a whole: \
         a file of which a part is missing is refused. The user of the worker processes must be \
         able to write to its directory. Without a file, the group begins without servers. The \
         file should not be edited while the server runs. Requires `zone`.",
        state,
    ),
    Row::new(
        "resolver",
        UPSTREAM | STREAM_UPSTREAM,
        Arity::AtLeast(1),
        "",
        "Name servers for `resolve`; overrides the `resolver` of `http`.",
        |b, c| {
            c.once(&b.upstream().resolver)?;
            let resolver = resolver::parse(b, c)?;
            b.upstream().resolver = Some(resolver);
            Ok(())
        },
    ),
    Row::new(
        "resolver_timeout",
        UPSTREAM | STREAM_UPSTREAM,
        ONE,
        "30s",
        "Timeout for name resolution.",
        |b, c| c.time(&mut b.upstream().resolver_timeout),
    ),
];

/// The most connections of `multi`.
const MAX_MULTI: u32 = 1024;

fn upstream(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.text(1)?;
    let group = b.http.groups.define(name, &c.origin)?;
    b.opening = Some(Opening::Upstream(Box::new(UpstreamBlock {
        group,
        name: name.into(),
        origin: c.origin.clone(),
        servers: Vec::new(),
        refused: false,
        method: None,
        keepalive: None,
        keepalive_requests: None,
        keepalive_time: None,
        keepalive_timeout: None,
        multi: None,
        ntlm: false,
        queue: None,
        zone: None,
        state: None,
        sticky: None,
        check: CheckDraft::default(),
        store: None,
        resolver: None,
        resolver_timeout: None,
    })));
    Ok(())
}

fn upstream_store(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let of_block = b.http.open_upstream.as_ref().map(|block| &block.store);
    c.once(of_block.unwrap_or(&b.http.upstream_store))?;
    let store = session_store::parse(b, c)?;
    match &mut b.http.open_upstream {
        Some(block) => block.store = Some(store),
        None => b.http.upstream_store = Some(store),
    }
    Ok(())
}

/// At the end of an `upstream` block.
pub(crate) fn end_upstream(b: &mut Build<'_>) -> Result<(), Fault> {
    let mut block = b.http.open_upstream.take().expect("an upstream was open");
    if block.servers.is_empty() && block.refused {
        block.servers.push(stand_in());
    }
    if block.servers.is_empty() && block.state.is_none() {
        return Err(Fault::new("no servers are inside upstream"));
    }
    b.http.upstreams.push(block);
    Ok(())
}

/// A server in the place of those that were refused, so that their group exists while the rest is
/// read.
fn stand_in() -> UpstreamServer {
    let address = SocketAddr::from(([0, 0, 0, 0], DEFAULT_PORT));
    UpstreamServer {
        name: "".into(),
        peers: UpstreamPeers::Fixed(vec![PeerAddress::Inet(address)]),
        weight: 1,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        max_conns: None,
        slow_start: Duration::ZERO,
        backup: false,
        down: true,
        drain: false,
        route: None,
    }
}

/// The parameters of a `server` line after the address.
struct Parameters<'a> {
    weight: u32,
    max_fails: u32,
    fail_timeout: Duration,
    max_conns: u32,
    slow_start: Duration,
    backup: bool,
    down: bool,
    drain: bool,
    route: Option<&'a [u8]>,
    resolve: bool,
    service: Option<&'a [u8]>,
}

fn server(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if b.upstream().state.is_some() {
        return Err(Fault::new(STATE_AND_SERVER));
    }
    let parameters = parameters(b, c)?;
    let peers = peers(b, c, &parameters)?;
    b.upstream().servers.push(UpstreamServer {
        name: c.text(1)?.into(),
        peers,
        weight: parameters.weight,
        max_fails: parameters.max_fails,
        fail_timeout: parameters.fail_timeout,
        max_conns: Some(parameters.max_conns).filter(|limit| *limit > 0),
        slow_start: parameters.slow_start,
        backup: parameters.backup,
        down: parameters.down,
        drain: parameters.drain,
        route: parameters.route.map(Into::into),
    });
    Ok(())
}

fn parameters<'a>(b: &mut Build<'_>, c: &Call<'a>) -> Result<Parameters<'a>, Fault> {
    let mut parameters = Parameters {
        weight: 1,
        max_fails: 1,
        fail_timeout: Duration::from_secs(10),
        max_conns: 0,
        slow_start: Duration::ZERO,
        backup: false,
        down: false,
        drain: false,
        route: None,
        resolve: false,
        service: None,
    };
    for (index, word) in c.args().skip(1) {
        let invalid = || c.invalid_parameter(index);
        let equals = memchr::memchr(b'=', word).map_or(word.len(), |at| at + 1);
        let (name, value) = word.split_at(equals);
        let number = || {
            let number = values::number(value).ok_or_else(invalid)?;
            Ok(u32::try_from(number).unwrap_or(u32::MAX))
        };
        match name {
            b"weight=" => {
                let weight = number()?;
                if weight > MAX_WEIGHT {
                    return Err(invalid().help(format!("the maximum weight is {MAX_WEIGHT}")));
                }
                parameters.weight = Some(weight).filter(|w| *w > 0).ok_or_else(invalid)?;
            }
            b"max_conns=" => parameters.max_conns = number()?,
            b"max_fails=" => parameters.max_fails = number()?,
            b"fail_timeout=" => {
                parameters.fail_timeout = values::seconds(value).ok_or_else(invalid)?;
            }
            b"backup" => {
                // The method that is written so far; nginx checks no later.
                let method = &b.upstream().method;
                if !method.as_ref().is_none_or(BalanceMethod::allows_backup) {
                    let message = format!(
                        "balancing method does not support parameter \"{}\"",
                        shown(word)
                    );
                    return Err(Fault::at(index, message));
                }
                parameters.backup = true;
            }
            // As in nginx, the last of the two counts.
            b"down" => (parameters.down, parameters.drain) = (true, false),
            b"drain" => (parameters.down, parameters.drain) = (false, true),
            b"route=" if value.is_empty() => return Err(Fault::at(index, "route is empty")),
            b"route=" if value.len() > MAX_ROUTE_BYTES => {
                let message = format!("route is longer than {MAX_ROUTE_BYTES}");
                return Err(Fault::at(index, message));
            }
            b"route=" => parameters.route = Some(value),
            b"resolve" => parameters.resolve = true,
            b"service=" if value.is_empty() => return Err(Fault::at(index, "service is empty")),
            b"service=" => parameters.service = Some(value),
            b"slow_start=" => {
                // The method that is written so far, as for "backup".
                let method = &b.upstream().method;
                if !method.as_ref().is_none_or(BalanceMethod::allows_slow_start) {
                    let message = format!(
                        "balancing method does not support parameter \"{}\"",
                        shown(word)
                    );
                    return Err(Fault::at(index, message));
                }
                parameters.slow_start = values::time(value).ok_or_else(invalid)?;
            }
            // Tengine's word, and Angie's.
            b"id=" | b"sid=" if session_sticky::is_id(value) => parameters.route = Some(value),
            b"id=" | b"sid=" => {
                let help = "the id is part of a cookie: visible characters other than , ; | ~ \\ \
                            and the quotation mark";
                return Err(invalid().help(help));
            }
            _ => return Err(invalid()),
        }
    }
    Ok(parameters)
}

/// The addresses of a `server` line, looked up unless they are at run time.
fn peers(
    b: &mut Build<'_>,
    c: &Call<'_>,
    parameters: &Parameters<'_>,
) -> Result<UpstreamPeers, Fault> {
    let written = c.arg(1);
    let refuse = |what: &str| {
        let message = format!("service upstream \"{}\" {what}", shown(written));
        Err(Fault::at(1, message))
    };
    if parameters.service.is_some() && !parameters.resolve {
        return refuse("requires \"resolve\" parameter");
    }
    let fault = |reason: &str| {
        let message = format!("{reason} in upstream \"{}\"", shown(written));
        Fault::at(1, message)
    };
    let default_port = match b.kind() {
        ServerKind::Stream => 0,
        _ => DEFAULT_PORT,
    };
    let url = UpstreamUrl::parse(written, default_port, UriPart::Refused).map_err(fault)?;
    if parameters.service.is_some() {
        if url.port_text.is_some() || url.kind == HostKind::Unix {
            return refuse("may not have port");
        }
        if url.kind != HostKind::Name {
            return refuse("requires domain name");
        }
    }
    let inet = |addresses: &[std::net::IpAddr]| {
        let port = url.port;
        let sockets = addresses.iter().map(|ip| SocketAddr::new(*ip, port));
        UpstreamPeers::Fixed(sockets.map(PeerAddress::Inet).collect())
    };
    let peers = match url.kind {
        HostKind::Unix => {
            let path = path_of(url.host.as_bytes()).to_owned();
            return Ok(UpstreamPeers::Fixed(vec![PeerAddress::Unix(path)]));
        }
        HostKind::Address(address) => inet(&[address]),
        HostKind::Name if parameters.resolve => UpstreamPeers::Resolved {
            host: url.host.into(),
            port: url.port,
            service: match parameters.service {
                Some(service) => Some(c.utf8(1, service)?.into()),
                None => None,
            },
        },
        HostKind::Name => {
            let found = addresses_of(b.loader, url.host);
            if found.is_empty() {
                return Err(fault("host not found"));
            }
            inet(&found)
        }
    };
    // As in nginx, after the look-up; SRV records have ports.
    if url.port == 0 && parameters.service.is_none() {
        let host = url.host;
        return Err(fault("no port").help(format!("write a port: \"server {host}:5432;\"")));
    }
    Ok(peers)
}

/// Sets the method; a second one replaces the first, with a warning.
fn method(b: &mut Build<'_>, method: BalanceMethod) -> Result<(), Fault> {
    if b.upstream().method.replace(method).is_some() {
        b.warn("load balancing method redefined");
    }
    Ok(())
}

fn hash(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let key = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let consistent = c.count() == 2;
    method(b, BalanceMethod::Hash { key, consistent })?;
    if consistent && c.arg(2) != b"consistent" {
        return Err(c.invalid_parameter(2));
    }
    Ok(())
}

fn random(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let time = c.arg(2).strip_prefix(b"least_time=");
    let time = time.and_then(|written| time_until(b.kind(), written));
    let better = match time {
        Some(until) => BetterOfTwo::LessTime { until },
        None => BetterOfTwo::FewerConnections,
    };
    let two = (c.count() > 0).then_some(better);
    // First, as in nginx: it may have to warn.
    method(b, BalanceMethod::Random { two })?;
    if two.is_some() && c.arg(1) != b"two" {
        return Err(c.invalid_parameter(1));
    }
    let is_known = better != BetterOfTwo::FewerConnections || c.arg(2) == b"least_conn";
    if c.count() == 2 && !is_known {
        return Err(c.invalid_parameter(2));
    }
    Ok(())
}

fn least_time(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let inflight = c.count() == 2;
    let until = time_until(b.kind(), c.arg(1)).ok_or_else(|| c.invalid(1))?;
    if inflight && c.arg(2) != b"inflight" {
        return Err(c.invalid_parameter(2));
    }
    method(b, BalanceMethod::LeastTime { until, inflight })
}

/// What `least_time` measures.
fn time_until(kind: ServerKind, written: &[u8]) -> Option<TimeUntil> {
    match (kind, written) {
        (_, b"last_byte") => Some(TimeUntil::LastByte),
        (ServerKind::Http, b"header") => Some(TimeUntil::Header),
        (ServerKind::Stream, b"first_byte") => Some(TimeUntil::Header),
        (ServerKind::Stream, b"connect") => Some(TimeUntil::Connect),
        _ => None,
    }
}

fn vnswrr(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let max_init = match c.count() {
        0 => None,
        _ => {
            let number = c.arg(1).strip_prefix(b"max_init=");
            let number = number.and_then(values::number).filter(|number| *number > 0);
            let number = number.ok_or_else(|| c.invalid_parameter(1))?;
            Some(u32::try_from(number).unwrap_or(u32::MAX))
        }
    };
    method(b, BalanceMethod::Vnswrr { max_init })
}

fn keepalive(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.upstream().keepalive)?;
    let connections = values::number(c.arg(1)).ok_or_else(|| {
        let message = format!(
            "invalid value \"{}\" in \"keepalive\" directive",
            c.shown(1)
        );
        Fault::at(1, message)
    })?;
    let local = c.count() == 2;
    if local && c.arg(2) != b"local" {
        return Err(c.invalid_parameter(2));
    }
    let connections = u32::try_from(connections).unwrap_or(u32::MAX);
    b.upstream().keepalive = Some((connections, local));
    Ok(())
}

fn multi(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.upstream().multi)?;
    let connections = values::number(c.arg(1)).and_then(|number| u32::try_from(number).ok());
    match connections {
        None | Some(0) => Err(Fault::at(
            1,
            format!("invalid value \"{}\" in \"multi\" directive", c.shown(1)),
        )),
        Some(connections) if connections > MAX_MULTI => Err(Fault::at(
            1,
            format!("\"multi\" must be {MAX_MULTI} or less"),
        )),
        connections => {
            b.upstream().multi = connections;
            Ok(())
        }
    }
}

const STATE_AND_SERVER: &str = "\"state\" and \"server\" cannot be used together";

fn state(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.upstream().state)?;
    if !b.upstream().servers.is_empty() {
        return Err(Fault::new(STATE_AND_SERVER));
    }
    let path = b.options.under_prefix(c.path(1));
    let refuse = |what: &str, help: &str| {
        let message = format!("state file \"{}\" {what}", path.display());
        Fault::at(1, message).help(help)
    };
    let content = match b.loader.read(&path) {
        Ok(content) => Some(content),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => {
            let what = format!("cannot be read ({})", errno_text(&error));
            return Err(refuse(&what, "it holds the servers of the group"));
        }
    };
    if let Some(content) = &content {
        let text = StateText::read(content).map_err(|what| {
            let help = "restore it, or remove it to begin without servers";
            refuse(&format!("cannot be used: {what}"), help)
        })?;
        let loader = &mut *b.loader;
        let mut hosts = |host: &str| loader.resolve(host);
        let name = b.http.open_upstream.as_ref().map(|block| &*block.name);
        let group = read_block(name.unwrap_or_default(), text.lines, &mut hosts);
        let group = group.map_err(|error| {
            let help = "it may hold \"server\" lines only";
            refuse(&format!("cannot be used: {}", error.message), help)
        })?;
        b.upstream().servers = group.servers;
    }
    b.upstream().state = Some(UpstreamState {
        path,
        sum: content.map(|content| crc32fast::hash(&content)),
    });
    Ok(())
}

fn queue(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.upstream().queue)?;
    let invalid = || {
        let message = format!("invalid value \"{}\" in \"queue\" directive", c.shown(1));
        Fault::at(1, message).help("write how many requests may wait, at least 1")
    };
    let limit = values::number(c.arg(1)).and_then(|limit| u32::try_from(limit).ok());
    let limit = limit.filter(|limit| *limit > 0).ok_or_else(invalid)?;
    let timeout = match c.count() {
        1 => QUEUE_TIMEOUT,
        _ => {
            let time = c.arg(2).strip_prefix(b"timeout=");
            let time = time.and_then(values::time).filter(|time| !time.is_zero());
            time.ok_or_else(|| c.invalid_parameter(2))?
        }
    };
    b.upstream().queue = Some(UpstreamQueue { limit, timeout });
    Ok(())
}

fn zone(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let name = c.text(1)?;
    if name.is_empty() {
        return Err(Fault::at(1, "invalid zone name \"\""));
    }
    let size_bytes = match c.count() {
        1 => None,
        _ => {
            let size = values::size(c.arg(2));
            let size =
                size.ok_or_else(|| Fault::at(2, format!("invalid zone size \"{}\"", c.shown(2))))?;
            if size < MIN_ZONE_BYTES {
                return Err(Fault::at(2, format!("zone \"{name}\" is too small")));
            }
            Some(size)
        }
    };
    zones::claim(b, name, ZoneUse::Upstream).map_err(|fault| fault.at_word(1))?;
    if let Some(size) = size_bytes {
        let zones = &mut b.http.upstream_zones;
        let declared = *zones.entry(name.to_owned()).or_insert(size);
        if declared != size {
            return Err(zones::size_conflict(name, size, declared).at_word(2));
        }
    }
    let name = name.into();
    b.upstream().zone = Some(UpstreamZone { name, size_bytes });
    Ok(())
}
