//! ngx_stream_core_module, ngx_stream_ssl_preread_module, ngx_stream_pass_module,
//! ngx_stream_return_module and ngx_stream_set_module: servers of layer 4.
//!
//! What means the same in `http` (TLS, logs, access, limits, `map`, `upstream` ...) has one row,
//! whose contexts include those of `stream`.

use super::{
    Arity, Check, MAIN, Module, ONE, Row, STREAM, STREAM_LEVELS, STREAM_SERVER, http_routing,
    rewrite,
};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault};
use crate::listen;
use crate::model::{Getter, ServerKind, StreamHandler, StreamPassTarget};
use crate::{template, values};

/// The longest name of a protocol (RFC 7301).
pub(super) const MAX_PROTOCOL_BYTES: usize = 255;

pub(super) const MODULE: Module = Module {
    title: "Stream: servers of layer 4",
    doc: "A `stream` block has servers that pass TCP connections on, with and without TLS, and \
          datagrams (UDP). A session goes through the phases of nginx: PROXY header and `set_real_ip_from`, \
          `limit_conn`, `allow` and `deny`, the TLS handshake, `ssl_preread`, then `proxy_pass`, \
          `pass` or `return`, and the access log. Directives of TLS, logs, access, limits, `map`, \
          `geo`, `split_clients`, `resolver` and `upstream` are described with those of HTTP; \
          where they may be used in `stream`, their contexts say so. Variables of `http` and of \
          `stream` have nothing to do with each other.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "stream",
        MAIN,
        Arity::Between(0, 0),
        "Servers of layer 4.",
        |b, c| {
            if b.has_block(ServerKind::Stream) {
                return Err(c.refuse("is duplicate"));
            }
            b.opening = Some(Opening::Stream);
            Ok(())
        },
    ),
    Row::block(
        "server",
        STREAM,
        Arity::Between(0, 0),
        "A server of layer 4.",
        |b, _| {
            b.opening = Some(Opening::StreamServer);
            Ok(())
        },
    ),
    Row::new(
        "listen",
        STREAM_SERVER,
        Arity::AtLeast(1),
        "",
        "Address that the server listens on: `port`, `address:port`, `[ipv6]:port`, a range of \
         ports, or `unix:path`; a server needs at least one. Parameters: `default_server`, `ssl`, \
         `proxy_protocol`, `udp`, `backlog=`, `rcvbuf=`, `sndbuf=`, `deferred`, `reuseport`, \
         `bind`, `ipv6only=`, `so_keepalive=`, `fastopen=`, `multipath`. An address belongs either \
         to `http` or to `stream`; with `udp` it is another one than without.",
        listen::listen,
    ),
    Row::new(
        "udp_sessions",
        STREAM_LEVELS,
        ONE,
        "",
        "Sessions of UDP at a time, for each worker thread and listening socket (`listen ... \
         udp`); 0, the default, is half of `worker_connections`. When there are so many, datagrams \
         of other clients are dropped, which the log says once a minute. The default server of the \
         address decides.",
        |b, c| c.number(&mut b.server().stream.udp_sessions),
    )
    .own(),
    Row::new(
        "udp_session_queue",
        STREAM_LEVELS,
        Arity::Between(2, 2),
        "256 256k",
        "Datagrams, and bytes in them, that wait while the server of a session is chosen, or is \
         slower than the client. More are dropped, but for those received in one system call with \
         the last of them.",
        session_queue,
    )
    .own(),
    Row::new(
        "udp_queue_memory",
        STREAM_LEVELS,
        ONE,
        "16m",
        "Bytes of datagrams that wait in all sessions of a listening socket together, for each \
         worker thread. More are dropped.",
        |b, c| c.size(&mut b.server().stream.udp_queue_bytes),
    )
    .own(),
    Row::new(
        "server_name",
        STREAM_SERVER,
        Arity::AtLeast(1),
        "\"\"",
        "Names of the server, as in HTTP. Among the servers of an address, the name in the \
         ClientHello chooses: that of the TLS handshake, or with `ssl_preread` the one that was \
         read.",
        http_routing::server_name,
    ),
    Row::new(
        "ssl_preread",
        STREAM_LEVELS,
        ONE,
        "off",
        "Whether the ClientHello of a connection is read before it is passed on, without ending \
         TLS: `$ssl_preread_server_name`, `$ssl_preread_alpn_protocols` and \
         `$ssl_preread_protocol` then tell what it says.",
        |b, c| c.flag(&mut b.server().stream.ssl_preread),
    ),
    Row::new(
        "ssl_alpn",
        STREAM_LEVELS,
        Arity::AtLeast(1),
        "",
        "Protocols that clients may agree on (ALPN), in the order of preference. A client that \
         offers none of them is refused with the alert `no_application_protocol`.",
        ssl_alpn,
    ),
    Row::new(
        "preread_buffer_size",
        STREAM_LEVELS,
        ONE,
        "16k",
        "Maximum number of bytes that are read before a connection is passed on.",
        |b, c| c.size(&mut b.server().stream.preread_buffer_bytes),
    ),
    Row::new(
        "preread_timeout",
        STREAM_LEVELS,
        ONE,
        "30s",
        "Timeout of the preread phase.",
        |b, c| c.time(&mut b.server().stream.preread_timeout),
    ),
    Row::new(
        "proxy_protocol_timeout",
        STREAM_LEVELS,
        ONE,
        "30s",
        "Timeout for reading the PROXY protocol header.",
        |b, c| c.time(&mut b.server().stream.proxy_protocol_timeout),
    ),
    Row::new(
        "return",
        STREAM_SERVER,
        ONE,
        "",
        "Sends a text, which may contain variables, and closes the connection.",
        |b, c| {
            once(b, c, |handler| matches!(handler, StreamHandler::Return(_)))?;
            let text = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
            b.server().stream.handler = Some(StreamHandler::Return(text));
            Ok(())
        },
    ),
    Row::new(
        "pass",
        STREAM_SERVER,
        ONE,
        "",
        "Passes the connection to another listening socket of this configuration, of `http` or \
         `stream`, as if it had been accepted there: an address as in `listen`. May contain \
         variables.",
        pass,
    ),
    Row::new(
        "set",
        STREAM_SERVER,
        Arity::Between(2, 2),
        "",
        "Sets a variable to a value, which may contain variables, before the connection is passed \
         on.",
        set,
    ),
    Row::meaningless(
        "variables_hash_bucket_size",
        STREAM,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "variables_hash_max_size",
        STREAM,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "server_names_hash_bucket_size",
        STREAM,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "server_names_hash_max_size",
        STREAM,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
];

/// Of `proxy_pass`, `return` and `pass` the last one counts, as in nginx, but none may be written
/// twice.
fn once(b: &mut Build<'_>, c: &Call<'_>, is_same: fn(&StreamHandler) -> bool) -> Result<(), Fault> {
    match &b.server().stream.handler {
        Some(handler) if is_same(handler) => Err(c.refuse("is duplicate")),
        _ => Ok(()),
    }
}

fn session_queue(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().stream.udp_session_queue)?;
    let packets = values::number(c.arg(1)).filter(|packets| *packets > 0);
    let packets = packets.ok_or_else(|| c.refuse_arg(1, "invalid number"))?;
    let bytes = values::size(c.arg(2)).ok_or_else(|| c.refuse_arg(2, "invalid value"))?;
    b.server().stream.udp_session_queue = Some((packets, bytes));
    Ok(())
}

fn ssl_alpn(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().stream.alpn)?;
    let mut protocols = Vec::new();
    for (index, protocol) in c.args() {
        if protocol.len() > MAX_PROTOCOL_BYTES {
            return Err(c.refuse_arg(index, "protocol too long"));
        }
        protocols.push(protocol.into());
    }
    b.server().stream.alpn = Some(protocols.into());
    Ok(())
}

fn pass(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    once(b, c, |handler| matches!(handler, StreamHandler::Pass(_)))?;
    let written = c.arg(1);
    let target = match written.contains(&b'$') {
        true => {
            let address = template::compile(&mut b.names, written, 1, &c.origin)?;
            StreamPassTarget::Evaluated(address)
        }
        false => {
            let addresses = listen::stream_addresses(b, written).map_err(|reason| {
                Fault::at(
                    1,
                    format!("{reason} in \"{}\" of the \"pass\" directive", c.shown(1)),
                )
            })?;
            StreamPassTarget::Fixed(addresses.into())
        }
    };
    b.server().stream.handler = Some(StreamHandler::Pass(target));
    Ok(())
}

fn set(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let set = rewrite::assignment(b, c, Getter::Uninitialized)?;
    b.server().stream.sets.push(set);
    Ok(())
}
