//! ngx_http_v2_module, and Sealane's limits against abuse of HTTP/2.

use super::Check::{Number, Size};
use super::{Arity, HS, HSL, HTTP, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{FrameAllowance, Http2Limits};
use crate::values;

/// What nginx keeps free of its receive buffer for an unfinished frame.
const STATE_BUFFER_BYTES: u64 = 16;
/// Largest flow-control window (RFC 9113, 6.9.1).
const MAX_WINDOW_BYTES: u64 = (1 << 31) - 1;
/// Longest frame that nginx sends, whatever the client allows.
const MAX_CHUNK_BYTES: u64 = (1 << 24) - 1;
/// Window that every stream and connection begins with (RFC 9113, 6.9.2).
const INITIAL_WINDOW_BYTES: u64 = (1 << 16) - 1;
/// What an ordinary request's header fields fit in.
const MIN_HEADER_BLOCK_BYTES: u64 = 4 << 10;

pub(super) const METERED: Arity = Arity::Between(1, 2);
const DEFAULT: Http2Limits = Http2Limits::DEFAULT;

pub(super) const MODULE: Module = Module {
    title: "HTTP/2",
    doc: "HTTP/2 over TLS (negotiated with ALPN), and without TLS with prior knowledge. The limits \
          against abuse are specific to Sealane and far above what browsers need. A connection \
          that exceeds one is closed with ENHANCE_YOUR_CALM and a line in the error log. `number \
          [rate=number]` allows a burst of that many frames, and `rate` of them are replenished \
          per second. The settings come from the server that the connection was opened for: the \
          one selected by SNI, or the default server.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "http2",
        HS,
        ONE,
        "off",
        "Whether HTTP/2 is enabled.",
        |b, c| c.flag(&mut b.server().http2.enabled),
    ),
    Row::new(
        "http2_body_preread_size",
        HS,
        ONE,
        "64k",
        "Size of the request body that a client may send before the server starts to process it.",
        body_preread_size,
    ),
    Row::new(
        "http2_chunk_size",
        HSL,
        ONE,
        "8k",
        "Maximum size of a response body chunk in one frame; over 16k only for clients that allow it.",
        chunk_size,
    ),
    Row::new(
        "http2_extended_connect",
        HS,
        ONE,
        "on",
        "Whether clients may open WebSockets on streams of HTTP/2 (RFC 8441). It is announced to \
         them where a location with `proxy_pass` passes `Upgrade` on with `proxy_set_header`, as \
         for WebSockets over HTTP/1.1, which is what the server behind it gets.",
        |b, c| c.flag(&mut b.server().http2.extended_connect),
    )
    .own(),
    Row::new(
        "http2_max_concurrent_streams",
        HS,
        ONE,
        "128",
        "Maximum number of concurrent streams in a connection.",
        |b, c| c.number(&mut b.server().http2.max_concurrent_streams),
    ),
    Row::new(
        "http2_recv_buffer_size",
        HTTP,
        ONE,
        "256k",
        "Size of the input buffer of each worker.",
        recv_buffer_size,
    ),
    Row::new(
        "http2_max_stream_window",
        HS,
        ONE,
        "4m",
        "Maximum receive window of a stream; it grows with the measured round-trip time while the \
         body is read. Never below `http2_body_preread_size`.",
        |b, c| window(c, &mut b.server().http2.max_stream_window),
    )
    .own(),
    Row::new(
        "http2_max_connection_window",
        HS,
        ONE,
        "16m",
        "Maximum receive window of a connection, which limits the memory for one client's uploads. \
         Never below `http2_max_stream_window`.",
        |b, c| window(c, &mut b.server().http2.max_connection_window),
    )
    .own(),
    Row::new(
        "http2_max_resets",
        HS,
        METERED,
        "400 rate=33",
        "Requests that fail because of the client: cancelled before the response (rapid reset), \
         refused, or ended by a protocol error. Each complete response replenishes one.",
        |b, c| allowance(c, &mut b.server().http2.resets, DEFAULT.resets),
    )
    .own(),
    Row::new(
        "http2_max_settings",
        HS,
        METERED,
        "100 rate=5",
        "SETTINGS frames; a well-behaved client sends one or two.",
        |b, c| allowance(c, &mut b.server().http2.settings, DEFAULT.settings),
    )
    .own(),
    Row::new(
        "http2_max_pings",
        HS,
        METERED,
        "500 rate=50",
        "PING frames. Requests and bodies replenish the allowance.",
        |b, c| allowance(c, &mut b.server().http2.pings, DEFAULT.pings),
    )
    .own(),
    Row::new(
        "http2_max_empty_frames",
        HS,
        METERED,
        "200 rate=20",
        "Frames without effect: empty frames that end nothing, frames of closed streams, and \
         unknown frames.",
        |b, c| allowance(c, &mut b.server().http2.empty_frames, DEFAULT.empty_frames),
    )
    .own(),
    Row::new(
        "http2_max_priority_frames",
        HS,
        METERED,
        "1000 rate=50",
        "PRIORITY and PRIORITY_UPDATE frames. Each request replenishes two.",
        |b, c| {
            allowance(
                c,
                &mut b.server().http2.priority_frames,
                DEFAULT.priority_frames,
            )
        },
    )
    .own(),
    Row::new(
        "http2_max_window_updates",
        HS,
        METERED,
        "2000 rate=200",
        "WINDOW_UPDATE frames. Each frame of a response body replenishes four.",
        |b, c| {
            allowance(
                c,
                &mut b.server().http2.window_updates,
                DEFAULT.window_updates,
            )
        },
    )
    .own(),
    Row::new(
        "http2_max_oversized_heads",
        HS,
        METERED,
        "20 rate=1",
        "Requests whose header fields exceed `large_client_header_buffers` after decompression \
         (HPACK bombs). Each gets 431 or 414 and uses no memory beyond the limits.",
        |b, c| {
            allowance(
                c,
                &mut b.server().http2.oversized_heads,
                DEFAULT.oversized_heads,
            )
        },
    )
    .own(),
    Row::new(
        "http2_max_continuations",
        HS,
        ONE,
        "32",
        "CONTINUATION frames in the header of one request.",
        |b, c| at_least(c, &mut b.server().http2.continuations, 1),
    )
    .own(),
    Row::new(
        "http2_max_header_block_size",
        HS,
        ONE,
        "64k",
        "Compressed size of one request's header fields, unless `large_client_header_buffers` \
         allows more.",
        |b, c| header_block_size(c, &mut b.server().http2.header_block_size),
    )
    .own(),
    Row::new(
        "http2_max_unread_replies",
        HS,
        ONE,
        "1000",
        "Acknowledgements, resets and window updates that are queued because the client does not \
         read.",
        |b, c| at_least(c, &mut b.server().http2.unread_replies, 16),
    )
    .own(),
    Row::meaningless(
        "http2_pool_size",
        HS,
        ONE,
        Size,
        "There are no memory pools.",
    ),
    Row::meaningless(
        "http2_streams_index_size",
        HS,
        ONE,
        Number,
        "Hash tables size themselves.",
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
fn at_least(c: &Call<'_>, slot: &mut Option<u64>, least: u64) -> Result<(), Fault> {
    c.number(slot)?;
    match slot {
        Some(number) if *number < least => {
            Err(c.refuse_arg(1, &format!("value must be at least {least}")))
        }
        _ => Ok(()),
    }
}

/// `number [rate=number]`; without a rate the default one holds.
pub(super) fn allowance(
    c: &Call<'_>,
    slot: &mut Option<FrameAllowance>,
    default: FrameAllowance,
) -> Result<(), Fault> {
    c.once(slot)?;
    let number = |text: &[u8]| values::number(text).and_then(|number| u32::try_from(number).ok());
    let burst = number(c.arg(1)).filter(|burst| *burst > 0);
    let burst = burst.ok_or_else(|| c.refuse_arg(1, "invalid number"))?;
    let per_second = match c.count() {
        1 => default.per_second,
        _ => {
            let rate = c.arg(2).strip_prefix(b"rate=").and_then(number);
            rate.ok_or_else(|| c.invalid_parameter(2))?
        }
    };
    *slot = Some(FrameAllowance { burst, per_second });
    Ok(())
}

/// The compressed header fields of one request.
pub(super) fn header_block_size(c: &Call<'_>, slot: &mut Option<u64>) -> Result<(), Fault> {
    c.size(slot)?;
    match slot {
        Some(size) if *size < MIN_HEADER_BLOCK_BYTES => {
            let what = format!("value must be at least {MIN_HEADER_BLOCK_BYTES}");
            Err(c.refuse_arg(1, &what))
        }
        _ => Ok(()),
    }
}

/// A flow-control window that may grow to this many bytes.
pub(super) fn window(c: &Call<'_>, slot: &mut Option<u64>) -> Result<(), Fault> {
    c.size(slot)?;
    let allowed = INITIAL_WINDOW_BYTES..=MAX_WINDOW_BYTES;
    match slot {
        Some(size) if !allowed.contains(size) => {
            let (least, most) = allowed.into_inner();
            let what = format!("value must be between {least} and {most}");
            Err(c.refuse_arg(1, &what))
        }
        _ => Ok(()),
    }
}
