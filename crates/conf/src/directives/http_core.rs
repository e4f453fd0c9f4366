//! ngx_http_core_module, first part: connections and what is read from them.

use super::{Arity, Check, HS, HSL, HSL_STREAM, HTTP, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{KeepaliveDisable, LingeringClose};
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "HTTP: connections and requests",
    doc: "Timeouts, keep-alive, and which requests are accepted.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "client_header_timeout",
        HS,
        ONE,
        "60s",
        "Timeout for reading the whole request header. When it expires, the client gets 408.",
        |b, c| c.time(&mut b.server().client_header_timeout),
    ),
    Row::new(
        "client_body_timeout",
        HSL,
        ONE,
        "60s",
        "Timeout between two successive reads of the request body. When it expires, the client \
         gets 408.",
        |b, c| c.time(&mut b.location().client_body_timeout),
    ),
    Row::new(
        "send_timeout",
        HSL,
        ONE,
        "60s",
        "Timeout between two successive writes of a response. When it expires, the connection is \
         closed.",
        |b, c| c.time(&mut b.location().send_timeout),
    ),
    Row::new(
        "keepalive_timeout",
        HSL,
        Arity::Between(1, 2),
        "75s",
        "How long an idle keep-alive connection stays open; 0 disables keep-alive connections. The \
         second argument is sent as `Keep-Alive: timeout=`.",
        keepalive_timeout,
    ),
    Row::new(
        "keepalive_requests",
        HSL,
        ONE,
        "1000",
        "Maximum number of requests on one keep-alive connection. The connection is then closed.",
        |b, c| c.number(&mut b.location().keepalive_requests),
    ),
    Row::new(
        "keepalive_time",
        HSL,
        ONE,
        "1h",
        "Age after which a keep-alive connection is closed once its current request completes.",
        |b, c| c.time(&mut b.location().keepalive_time),
    ),
    Row::new(
        "keepalive_min_timeout",
        HSL,
        ONE,
        "0",
        "Minimum time for which an idle keep-alive connection stays open during a graceful \
         shutdown.",
        |b, c| c.time(&mut b.location().keepalive_min_timeout),
    ),
    Row::new(
        "keepalive_disable",
        HSL,
        Arity::Between(1, 2),
        "msie6",
        "Browsers for which keep-alive is disabled: `msie6`, `safari` or `none`.",
        keepalive_disable,
    ),
    Row::new(
        "lingering_close",
        HSL,
        ONE,
        "on",
        "Whether remaining data from the client is read and discarded before the connection is \
         closed: `on` (if more data may follow), `always`, or `off`.",
        |b, c| {
            use LingeringClose::{Always, Off, On};
            c.choice(
                &mut b.location().lingering_close,
                &[("off", Off), ("on", On), ("always", Always)],
            )
        },
    ),
    Row::new(
        "lingering_time",
        HSL,
        ONE,
        "30s",
        "Maximum time for which data from the client is read and discarded.",
        |b, c| c.time(&mut b.location().lingering_time),
    ),
    Row::new(
        "lingering_timeout",
        HSL,
        ONE,
        "5s",
        "Maximum time to wait for more data while reading and discarding it.",
        |b, c| c.time(&mut b.location().lingering_timeout),
    ),
    Row::new(
        "reset_timedout_connection",
        HSL,
        ONE,
        "off",
        "Whether connections that time out or are closed with the code 444 are reset.",
        |b, c| c.flag(&mut b.location().reset_timedout_connection),
    ),
    Row::new(
        "merge_slashes",
        HS,
        ONE,
        "on",
        "Whether two or more adjacent slashes in a URI are merged into one.",
        |b, c| c.flag(&mut b.server().merge_slashes),
    ),
    Row::new(
        "ignore_invalid_headers",
        HS,
        ONE,
        "on",
        "Whether header fields with invalid names are ignored; `off` passes them through.",
        |b, c| c.flag(&mut b.server().ignore_invalid_headers),
    ),
    Row::new(
        "underscores_in_headers",
        HS,
        ONE,
        "off",
        "Whether underscores are allowed in the names of request header fields.",
        |b, c| c.flag(&mut b.server().underscores_in_headers),
    ),
    Row::new(
        "tcp_nodelay",
        HSL_STREAM,
        ONE,
        "on",
        "Whether TCP_NODELAY is used, so that the last bytes of a response are sent at once.",
        |b, c| c.flag(&mut b.location().tcp_nodelay),
    ),
    Row::meaningless(
        "tcp_nopush",
        HSL,
        ONE,
        Check::Flag,
        "The response header and the beginning of a file are always sent in one packet.",
    ),
    Row::new(
        "connection_pool_size",
        HS,
        ONE,
        "512",
        "There are no memory pools: only the least size that `large_client_header_buffers` may have.",
        |b, c| c.size(&mut b.server().connection_pool_bytes),
    ),
    Row::meaningless(
        "request_pool_size",
        HS,
        ONE,
        Check::Size,
        "There are no memory pools.",
    ),
    Row::meaningless(
        "server_names_hash_max_size",
        HTTP,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "server_names_hash_bucket_size",
        HTTP,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "variables_hash_max_size",
        HTTP,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "variables_hash_bucket_size",
        HTTP,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "types_hash_max_size",
        HSL,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::meaningless(
        "types_hash_bucket_size",
        HSL,
        ONE,
        Check::Number,
        "Hash tables size themselves.",
    ),
    Row::new(
        "send_lowat",
        HSL,
        ONE,
        "",
        "Accepted with a warning. As in nginx, Linux does not support it.",
        |b, c| {
            if !b.first_here("send_lowat") {
                return Err(c.refuse("is duplicate"));
            }
            c.size(&mut None)?;
            b.warn("\"send_lowat\" is not supported, ignored");
            Ok(())
        },
    ),
];

fn keepalive_timeout(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.time(&mut b.location().keepalive_timeout)?;
    if c.count() == 2 {
        let header = values::seconds(c.arg(2));
        let header = header.ok_or_else(|| c.refuse_arg(2, "invalid value"))?;
        b.location().keepalive_header = Some(header);
    }
    Ok(())
}

fn keepalive_disable(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    // nginx collects the words of several lines of one level.
    let mut disable = b.location().keepalive_disable.unwrap_or_default();
    for (index, value) in c.args() {
        match value.to_ascii_lowercase().as_slice() {
            b"none" => {}
            b"msie6" => disable.msie6 = true,
            b"safari" => disable.safari = true,
            _ => return Err(c.invalid(index)),
        }
    }
    b.location().keepalive_disable = Some(KeepaliveDisable {
        msie6: disable.msie6,
        safari: disable.safari,
    });
    Ok(())
}
