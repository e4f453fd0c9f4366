//! ngx_http_v2_module, and Sealane's limits against abuse of HTTP/2.

use super::Check::{Number, Size};
use super::{HS, HSL, HTTP, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::Http2Draft;
use std::time::Duration;

/// What nginx keeps free of its receive buffer for an unfinished frame.
const STATE_BUFFER_BYTES: u64 = 16;
/// Largest flow-control window (RFC 9113, 6.9.1).
const MAX_WINDOW_BYTES: u64 = (1 << 31) - 1;
/// Longest frame that nginx sends, whatever the client allows.
const MAX_CHUNK_BYTES: u64 = (1 << 14) - 1;
/// Window that every stream and connection begins with (RFC 9113, 6.9.2).
const INITIAL_WINDOW_BYTES: u64 = (1 << 16) - 1;

pub(super) const MODULE: Module = Module {
    title: "HTTP/2",
    doc: "HTTP/2 over TLS by ALPN, and without TLS by prior knowledge. The limits against abuse \
          are Sealane's own: a connection that goes over one of them ends with ENHANCE_YOUR_CALM \
          and a line in the error log. Those counted per period begin anew with each \
          `http2_limit_period`. The settings of the server that the connection was opened for \
          hold: the one that SNI names, else the default server.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "http2",
        HS,
        ONE,
        "off",
        "Whether clients are offered HTTP/2.",
        |b, c| c.flag(&mut b.server().http2.enabled),
    ),
    Row::new(
        "http2_body_preread_size",
        HS,
        ONE,
        "64k",
        "How much of a request body a client may send before anybody reads it.",
        body_preread_size,
    ),
    Row::new(
        "http2_chunk_size",
        HSL,
        ONE,
        "8k",
        "Longest part of a response body in one frame; less than 16k.",
        chunk_size,
    ),
    Row::new(
        "http2_max_concurrent_streams",
        HS,
        ONE,
        "128",
        "Requests that a connection may have under way.",
        |b, c| c.number(&mut b.server().http2.max_concurrent_streams),
    ),
    Row::new(
        "http2_recv_buffer_size",
        HTTP,
        ONE,
        "256k",
        "Size of each worker's buffer for received frames.",
        recv_buffer_size,
    ),
    Row::new(
        "http2_limit_period",
        HS,
        ONE,
        "10s",
        "The period over which the limits below count frames.",
        |b, c| {
            c.time(&mut b.server().http2.limit_period)?;
            match b.server().http2.limit_period {
                Some(Duration::ZERO) => Err(c.refuse_arg(1, "value must be greater than 0")),
                _ => Ok(()),
            }
        },
    )
    .own(),
    Row::new(
        "http2_max_resets",
        HS,
        ONE,
        "200",
        "Requests per period that the client cancels, or makes the server cancel by mistakes of its \
         own, before they are answered (rapid reset).",
        |b, c| at_least(b, c, 1, |http2| &mut http2.max_resets),
    )
    .own(),
    Row::new(
        "http2_max_control_frames",
        HS,
        ONE,
        "1000",
        "SETTINGS, PING, PRIORITY, PRIORITY_UPDATE, window updates for finished streams and unknown \
         frames per period.",
        |b, c| at_least(b, c, 16, |http2| &mut http2.max_control_frames),
    )
    .own(),
    Row::new(
        "http2_max_empty_frames",
        HS,
        ONE,
        "100",
        "Frames per period of header fields or body that carry nothing and end nothing.",
        |b, c| at_least(b, c, 1, |http2| &mut http2.max_empty_frames),
    )
    .own(),
    Row::new(
        "http2_max_continuations",
        HS,
        ONE,
        "32",
        "CONTINUATION frames of one request's header fields.",
        |b, c| at_least(b, c, 1, |http2| &mut http2.max_continuations),
    )
    .own(),
    Row::new(
        "http2_max_queued_frames",
        HS,
        ONE,
        "1000",
        "Answers to control frames that may wait because the client does not read.",
        |b, c| at_least(b, c, 16, |http2| &mut http2.max_queued_frames),
    )
    .own(),
    Row::new(
        "http2_max_header_list_size",
        HS,
        ONE,
        "32k",
        "Size of a request's header fields once decompressed (HPACK bombs); a request with more gets \
         400. Each field counts 32 bytes more than its name and value. Where it is not set, number \
         times size of `large_client_header_buffers`.",
        |b, c| size_between(b, c, 1 << 10, 16 << 20, |http2| &mut http2.max_header_list_size),
    )
    .own(),
    Row::new(
        "http2_max_header_table_size",
        HS,
        ONE,
        "4k",
        "Memory for header fields that later ones refer to, for each direction of a connection.",
        |b, c| size_between(b, c, 0, 1 << 20, |http2| &mut http2.max_header_table_size),
    )
    .own(),
    Row::new(
        "http2_max_window",
        HS,
        ONE,
        "4m",
        "How far the receive window of a connection, and of a stream, grows with the measured round \
         trip: the memory that one client's uploads may take.",
        |b, c| {
            size_between(b, c, INITIAL_WINDOW_BYTES, MAX_WINDOW_BYTES, |http2| {
                &mut http2.max_window
            })
        },
    )
    .own(),
    Row::meaningless(
        "http2_pool_size",
        HS,
        ONE,
        Size,
        "Memory is not taken from pools.",
    ),
    Row::meaningless(
        "http2_streams_index_size",
        HS,
        ONE,
        Number,
        "Tables size themselves.",
    ),
    Row::obsolete("http2_idle_timeout", HS, Some("keepalive_timeout")),
    Row::obsolete(
        "http2_max_field_size",
        HS,
        Some("large_client_header_buffers"),
    ),
    Row::obsolete(
        "http2_max_header_size",
        HS,
        Some("large_client_header_buffers"),
    ),
    Row::obsolete("http2_max_requests", HS, Some("keepalive_requests")),
    Row::obsolete("http2_recv_timeout", HS, Some("client_header_timeout")),
    Row::obsolete("http2_max_concurrent_pushes", HS, None),
    Row::obsolete("http2_push", HSL, None),
    Row::obsolete("http2_push_preload", HSL, None),
];

fn body_preread_size(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let slot = &mut b.server().http2.body_preread_size;
    c.size(slot)?;
    if slot.is_some_and(|size| size > MAX_WINDOW_BYTES) {
        let message = format!("the maximum body preread buffer size is {MAX_WINDOW_BYTES}");
        return Err(Fault::at(1, message));
    }
    Ok(())
}

fn chunk_size(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let slot = &mut b.location().http2_chunk_size;
    c.size(slot)?;
    if *slot == Some(0) {
        return Err(Fault::at(1, "the http2 chunk size cannot be zero"));
    }
    *slot = slot.map(|size| size.min(MAX_CHUNK_BYTES));
    Ok(())
}

fn recv_buffer_size(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let slot = &mut b.http.http2_recv_buffer_bytes;
    c.size(slot)?;
    match slot {
        Some(size) if *size <= STATE_BUFFER_BYTES => Err(c.refuse_arg(1, "value is too small")),
        _ => Ok(()),
    }
}

/// A number of frames, not below `least`, which every client needs.
fn at_least(
    b: &mut Build<'_>,
    c: &Call<'_>,
    least: u64,
    slot: fn(&mut Http2Draft) -> &mut Option<u64>,
) -> Result<(), Fault> {
    let slot = slot(&mut b.server().http2);
    c.number(slot)?;
    match slot {
        Some(number) if *number < least => {
            Err(c.refuse_arg(1, &format!("value must be at least {least}")))
        }
        _ => Ok(()),
    }
}

/// A size from `least` to `most`.
fn size_between(
    b: &mut Build<'_>,
    c: &Call<'_>,
    least: u64,
    most: u64,
    slot: fn(&mut Http2Draft) -> &mut Option<u64>,
) -> Result<(), Fault> {
    let slot = slot(&mut b.server().http2);
    c.size(slot)?;
    match slot {
        Some(size) if !(least..=most).contains(size) => {
            let what = format!("value must be between {least} and {most} bytes");
            Err(c.refuse_arg(1, &what))
        }
        _ => Ok(()),
    }
}
