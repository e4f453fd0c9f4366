//! ngx_http_core_module, first part: connections and what is read from them.

use super::{Arity, Check, HS, HSL, HTTP, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{KeepaliveDisable, LingeringClose};
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "HTTP: connections and requests",
    doc: "Time-outs, keep-alive and what is accepted from a client.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "client_header_timeout",
        HS,
        ONE,
        "60s",
        "Time within which a whole request header must arrive, else 408.",
        |b, c| c.time(&mut b.server().client_header_timeout),
    ),
    Row::new(
        "client_body_timeout",
        HSL,
        ONE,
        "60s",
        "Longest time between two reads of a request body, else 408.",
        |b, c| c.time(&mut b.location().client_body_timeout),
    ),
    Row::new(
        "send_timeout",
        HSL,
        ONE,
        "60s",
        "Longest time between two writes of a response before the connection is closed.",
        |b, c| c.time(&mut b.location().send_timeout),
    ),
    Row::new(
        "keepalive_timeout",
        HSL,
        Arity::Between(1, 2),
        "75s",
        "How long an idle connection is kept; 0 closes it after the response. The second argument \
         is sent as `Keep-Alive: timeout=`.",
        keepalive_timeout,
    ),
    Row::new(
        "keepalive_requests",
        HSL,
        ONE,
        "1000",
        "Requests served on one connection before it is closed.",
        |b, c| c.number(&mut b.location().keepalive_requests),
    ),
    Row::new(
        "keepalive_time",
        HSL,
        ONE,
        "1h",
        "Age at which a connection is closed after the current request.",
        |b, c| c.time(&mut b.location().keepalive_time),
    ),
    Row::new(
        "keepalive_min_timeout",
        HSL,
        ONE,
        "0",
        "Time that an idle connection is kept at least when it would be closed at shutdown.",
        |b, c| c.time(&mut b.location().keepalive_min_timeout),
    ),
    Row::new(
        "keepalive_disable",
        HSL,
        Arity::Between(1, 2),
        "msie6",
        "Browsers that get no keep-alive: `msie6`, `safari` or `none`.",
        keepalive_disable,
    ),
    Row::new(
        "lingering_close",
        HSL,
        ONE,
        "on",
        "Whether data that a client still sends is read and dropped before its connection closes: \
         `on` when it may be sending, `always`, or `off`.",
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
        "Longest time for which data is read and dropped.",
        |b, c| c.time(&mut b.location().lingering_time),
    ),
    Row::new(
        "lingering_timeout",
        HSL,
        ONE,
        "5s",
        "Longest wait for more data while reading and dropping.",
        |b, c| c.time(&mut b.location().lingering_timeout),
    ),
    Row::new(
        "reset_timedout_connection",
        HSL,
        ONE,
        "off",
        "Whether connections that timed out, or are closed with 444, are reset.",
        |b, c| c.flag(&mut b.location().reset_timedout_connection),
    ),
    Row::new(
        "merge_slashes",
        HS,
        ONE,
        "on",
        "Whether adjacent slashes of a URI count as one.",
        |b, c| c.flag(&mut b.server().merge_slashes),
    ),
    Row::new(
        "ignore_invalid_headers",
        HS,
        ONE,
        "on",
        "Whether header lines with invalid names are dropped; `off` lets them through.",
        |b, c| c.flag(&mut b.server().ignore_invalid_headers),
    ),
    Row::new(
        "underscores_in_headers",
        HS,
        ONE,
        "off",
        "Whether underscores are valid in the names of header lines.",
        |b, c| c.flag(&mut b.server().underscores_in_headers),
    ),
    Row::new(
        "tcp_nodelay",
        HSL,
        ONE,
        "on",
        "Sends the last bytes of a response at once (TCP_NODELAY).",
        |b, c| c.flag(&mut b.location().tcp_nodelay),
    ),
    Row::meaningless(
        "tcp_nopush",
        HSL,
        ONE,
        Check::Flag,
        "The head of a response and the beginning of a file always leave in one packet.",
    ),
    Row::meaningless(
        "connection_pool_size",
        HS,
        ONE,
        Check::Size,
        "Memory is not taken from pools.",
    ),
    Row::meaningless(
        "request_pool_size",
        HS,
        ONE,
        Check::Size,
        "Memory is not taken from pools.",
    ),
    Row::meaningless(
        "server_names_hash_max_size",
        HTTP,
        ONE,
        Check::Number,
        "Tables size themselves.",
    ),
    Row::meaningless(
        "server_names_hash_bucket_size",
        HTTP,
        ONE,
        Check::Number,
        "Tables size themselves.",
    ),
    Row::meaningless(
        "variables_hash_max_size",
        HTTP,
        ONE,
        Check::Number,
        "Tables size themselves.",
    ),
    Row::meaningless(
        "variables_hash_bucket_size",
        HTTP,
        ONE,
        Check::Number,
        "Tables size themselves.",
    ),
    Row::meaningless(
        "types_hash_max_size",
        HSL,
        ONE,
        Check::Number,
        "Tables size themselves.",
    ),
    Row::meaningless(
        "types_hash_bucket_size",
        HSL,
        ONE,
        Check::Number,
        "Tables size themselves.",
    ),
    Row::new(
        "send_lowat",
        HSL,
        ONE,
        "",
        "Accepted with a warning, as in nginx on Linux, which does not let it be set.",
        |b, c| {
            if !b.first_here("send_lowat") {
                return Err(c.refuse("is duplicate"));
            }
            c.size(&mut None)?;
            b.warn("\"send_lowat\" is not supported, ignored");
            Ok(())
        },
    ),
    Row::unsupported(
        "post_action",
        HSL | super::LOCATION_IF,
        ONE,
        "there are no requests behind a response; nginx does not document the directive either",
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
