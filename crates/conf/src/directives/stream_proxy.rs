//! ngx_stream_proxy_module: what `proxy_*` means in `stream` only. The rest (`proxy_ssl_*`,
//! `proxy_bind`, time-outs of connecting ...) has the rows of ngx_http_proxy_module.

use super::stream::MAX_PROTOCOL_BYTES;
use super::{Arity, MAIL_LEVELS, Module, ONE, Row, STREAM_LEVELS, STREAM_SERVER, proxying};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::UpstreamDraft;
use crate::model::{Family, SendProxyProtocol, StreamHandler, Template};
use crate::{template, values};

pub(super) const MODULE: Module = Module {
    title: "Stream: passing connections to servers",
    doc: "A server of `stream` with `proxy_pass` connects to an upstream server and moves bytes \
          in both directions until one side has ended, or with UDP datagrams. `proxy_bind`, `proxy_connect_timeout`, \
          `proxy_next_upstream_tries`, `proxy_next_upstream_timeout`, `proxy_socket_*` and \
          `proxy_ssl_*` are described with HTTP's.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "proxy_pass",
        STREAM_SERVER,
        ONE,
        "",
        "Address of the upstream server: a host with a port, the name of an `upstream`, or \
         `unix:PATH`. May contain variables.",
        |b, c| {
            proxying::pass_to(b, c, Family::Proxy, c.arg(1), &[], false)?;
            b.server().stream.handler = Some(StreamHandler::Proxy);
            Ok(())
        },
    ),
    Row::new(
        "proxy_timeout",
        STREAM_LEVELS,
        ONE,
        "10m",
        "Timeout between two successive reads or writes on either side. When it expires, both \
         connections are closed; a session of UDP ends, see `proxy_responses`.",
        |b, c| c.time(&mut b.server().stream.proxy.timeout),
    ),
    Row::new(
        "proxy_buffer_size",
        STREAM_LEVELS,
        ONE,
        "16k",
        "Size of the buffer for each direction. Where bytes are moved by the kernel, or in \
         batches, as much as a batch may be on its way.",
        buffer_size,
    ),
    Row::new(
        "proxy_downstream_buffer",
        STREAM_LEVELS,
        ONE,
        "",
        "The name of `proxy_buffer_size` in old configurations.",
        |b, c| {
            warn_of_old_name(b, c);
            buffer_size(b, c)
        },
    ),
    Row::new(
        "proxy_upstream_buffer",
        STREAM_LEVELS,
        ONE,
        "",
        "Another name of `proxy_buffer_size` in old configurations.",
        |b, c| {
            warn_of_old_name(b, c);
            buffer_size(b, c)
        },
    ),
    Row::new(
        "proxy_upload_rate",
        STREAM_LEVELS,
        ONE,
        "0",
        "Rate at which data from the client is read, in bytes per second for each connection; 0 \
         means no limit. May contain variables.",
        |b, c| {
            let rate = rate(b, c)?;
            c.once(&b.server().stream.proxy.upload_rate)?;
            b.server().stream.proxy.upload_rate = Some(rate);
            Ok(())
        },
    ),
    Row::new(
        "proxy_download_rate",
        STREAM_LEVELS,
        ONE,
        "0",
        "Rate at which data from the server is read, in bytes per second for each connection; 0 \
         means no limit. May contain variables.",
        |b, c| {
            let rate = rate(b, c)?;
            c.once(&b.server().stream.proxy.download_rate)?;
            b.server().stream.proxy.download_rate = Some(rate);
            Ok(())
        },
    ),
    Row::new(
        "proxy_half_close",
        STREAM_LEVELS,
        ONE,
        "off",
        "Whether the end of one direction is passed on while the other direction continues. \
         Without it, the session ends with the first side that closes.",
        |b, c| c.flag(&mut b.server().stream.proxy.half_close),
    ),
    Row::new(
        "proxy_next_upstream",
        STREAM_LEVELS,
        ONE,
        "on",
        "Whether the next server is tried when a connection cannot be established.",
        |b, c| c.flag(&mut b.server().stream.proxy.next_upstream),
    ),
    Row::new(
        "proxy_protocol",
        STREAM_LEVELS | MAIL_LEVELS,
        ONE,
        "off",
        "Whether connections to servers begin with a PROXY protocol header for the client: `on` \
         for version 1 (text), `v2` for version 2 (binary).",
        |b, c| {
            let choices = [
                ("off", SendProxyProtocol::Off),
                ("on", SendProxyProtocol::V1),
                ("v2", SendProxyProtocol::V2),
            ];
            c.choice(&mut b.location().send_proxy_protocol, &choices)
        },
    ),
    Row::new(
        "proxy_requests",
        STREAM_LEVELS,
        ONE,
        "0",
        "Number of datagrams that a client may send in a session of UDP: the next one begins \
         another session, maybe with another server. 0 means no limit.",
        |b, c| c.number(&mut b.server().stream.proxy.requests),
    ),
    Row::new(
        "proxy_responses",
        STREAM_LEVELS,
        ONE,
        "",
        "Number of datagrams that the server is expected to send for each of the client's, with \
         UDP. When they have been sent, the session ends; with 0 it does so at once. If they are \
         not there when `proxy_timeout` expires, the server has failed. By default there is no \
         number, and a session ends with `proxy_timeout`.",
        |b, c| c.number(&mut b.server().stream.proxy.responses),
    ),
    Row::new(
        "proxy_ssl",
        STREAM_LEVELS,
        ONE,
        "off",
        "Whether connections to servers use TLS. Datagrams (UDP) are passed on as they are.",
        |b, c| c.flag(&mut b.server().stream.proxy.tls),
    ),
    Row::new(
        "proxy_ssl_alpn",
        STREAM_LEVELS,
        Arity::AtLeast(1),
        "",
        "Protocols that are offered to servers (ALPN). May contain variables; an empty one is not \
         offered.",
        alpn,
    ),
];

fn passing<'b>(b: &'b mut Build<'_>) -> &'b mut UpstreamDraft {
    b.location().passing.of_mut(Family::Proxy)
}

fn buffer_size(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.size(&mut passing(b).buffer_size)?;
    match passing(b).buffer_size {
        Some(0) => Err(c.refuse_arg(1, "invalid value")),
        _ => Ok(()),
    }
}

fn warn_of_old_name(b: &mut Build<'_>, c: &Call<'_>) {
    let name = c.row.name;
    b.warn(format!(
        "the \"{name}\" directive is deprecated, use the \"proxy_buffer_size\" directive instead"
    ));
}

/// A rate in bytes per second, which is checked now if it has no variables.
fn rate(b: &mut Build<'_>, c: &Call<'_>) -> Result<Template, Fault> {
    let value = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    match value.as_literal() {
        Some(text) if values::size(text).is_none() => Err(c.refuse_arg(1, "invalid value")),
        _ => Ok(value),
    }
}

fn alpn(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.server().stream.proxy.alpn)?;
    let mut protocols = Vec::new();
    for (index, protocol) in c.args() {
        let value = template::compile(&mut b.names, protocol, index, &c.origin)?;
        if value
            .as_literal()
            .is_some_and(|text| text.len() > MAX_PROTOCOL_BYTES)
        {
            return Err(c.refuse_arg(index, "protocol too long"));
        }
        protocols.push(value);
    }
    b.server().stream.proxy.alpn = Some(protocols.into());
    Ok(())
}
