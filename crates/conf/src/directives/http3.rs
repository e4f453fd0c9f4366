//! ngx_http_v3_module, the part about HTTP, and Sealane's limits against abuse of HTTP/3.

use super::http2::{METERED, allowance, header_block_size, window};
use super::{HS, Module, ONE, Row};
use crate::call::{Call, Fault};
use crate::model::Http3Limits;

/// The largest table of QPACK: it is memory of every connection that fills it.
const MAX_TABLE_BYTES: u64 = 64 << 10;
/// Most requests that wait for the table, each of which is kept meanwhile.
const MAX_BLOCKED_STREAMS: u64 = 1000;

const DEFAULT: Http3Limits = Http3Limits::DEFAULT;

pub(super) const MODULE: Module = Module {
    title: "HTTP/3",
    doc: "HTTP/3 over QUIC, on the addresses with `listen ... quic`: see \
          [http3.md](http3.md). Clients that come over TCP learn of it from a header field: \
          `add_header Alt-Svc 'h3=\":443\"; ma=86400';`. The limits against abuse are specific to \
          Sealane and far above what browsers need. A connection that exceeds one is closed with H3_EXCESSIVE_LOAD and a line in the error \
          log. `number [rate=number]` means what it does for HTTP/2. The settings come from the \
          server that the connection was opened for: the one selected by SNI, or the default \
          server; numbers of streams and sizes of windows, which clients learn before, from the \
          default server of the address.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "http3",
        HS,
        ONE,
        "on",
        "Whether HTTP/3 is enabled, where the server listens with `quic`.",
        |b, c| {
            c.flag(&mut b.server().http3.enabled)?;
            if b.server().http3.enabled == Some(true) && b.http.http3_place.is_none() {
                b.http.http3_place.clone_from(&b.place);
            }
            Ok(())
        },
    ),
    Row::new(
        "http3_hq",
        HS,
        ONE,
        "off",
        "Whether HTTP/0.9 over QUIC is enabled (`hq-interop`), which tests of interoperability use: \
         beside HTTP/3, or alone with `http3 off`.",
        |b, c| c.flag(&mut b.server().http3.hq),
    ),
    Row::new(
        "http3_max_concurrent_streams",
        HS,
        ONE,
        "128",
        "Maximum number of concurrent requests in a connection; never more than 65536.",
        |b, c| c.number(&mut b.server().http3.max_concurrent_streams),
    ),
    Row::new(
        "http3_stream_buffer_size",
        HS,
        ONE,
        "64k",
        "Size of the request body that a client may send before the server starts to process it, \
         and of the part of a response that waits until it is acknowledged; never below 4k.",
        |b, c| c.size(&mut b.server().http3.stream_buffer_size),
    ),
    Row::new(
        "http3_extended_connect",
        HS,
        ONE,
        "on",
        "Whether clients may open WebSockets on streams of HTTP/3 (RFC 9220), under the conditions \
         of `http2_extended_connect`.",
        |b, c| c.flag(&mut b.server().http3.extended_connect),
    )
    .own(),
    Row::new(
        "http3_max_stream_window",
        HS,
        ONE,
        "4m",
        "Maximum receive window of a stream; it grows with the measured round-trip time while the \
         body is read. Never below `http3_stream_buffer_size`.",
        |b, c| window(c, &mut b.server().http3.max_stream_window),
    )
    .own(),
    Row::new(
        "http3_max_connection_window",
        HS,
        ONE,
        "16m",
        "Maximum receive window of a connection, which limits the memory for one client's uploads. \
         Never below `http3_max_stream_window`.",
        |b, c| window(c, &mut b.server().http3.max_connection_window),
    )
    .own(),
    Row::new(
        "http3_max_table_capacity",
        HS,
        ONE,
        "4k",
        "Maximum size of the dynamic tables that compress header fields (QPACK, RFC 9204), one for \
         requests and one for responses; at most 64k. 0 disables them.",
        |b, c| {
            let slot = &mut b.server().http3.max_table_capacity;
            c.size(slot)?;
            at_most(c, *slot, MAX_TABLE_BYTES)
        },
    )
    .own(),
    Row::new(
        "http3_max_blocked_streams",
        HS,
        ONE,
        "16",
        "Requests of a connection that may wait for entries of that table; at most 1000.",
        |b, c| {
            let slot = &mut b.server().http3.max_blocked_streams;
            c.number(slot)?;
            at_most(c, *slot, MAX_BLOCKED_STREAMS)
        },
    )
    .own(),
    Row::new(
        "http3_max_resets",
        HS,
        METERED,
        "400 rate=33",
        "Requests that fail because of the client: cancelled before the response (rapid reset), \
         refused, or ended by a protocol error. Each complete response replenishes one.",
        |b, c| allowance(c, &mut b.server().http3.resets, DEFAULT.resets),
    )
    .own(),
    Row::new(
        "http3_max_empty_frames",
        HS,
        METERED,
        "200 rate=20",
        "Frames without effect: DATA without bytes, unknown frames, and those about pushes.",
        |b, c| allowance(c, &mut b.server().http3.empty_frames, DEFAULT.empty_frames),
    )
    .own(),
    Row::new(
        "http3_max_priority_frames",
        HS,
        METERED,
        "1000 rate=50",
        "PRIORITY_UPDATE frames. Each request replenishes two.",
        |b, c| {
            allowance(
                c,
                &mut b.server().http3.priority_frames,
                DEFAULT.priority_frames,
            )
        },
    )
    .own(),
    Row::new(
        "http3_max_unidirectional_streams",
        HS,
        METERED,
        "32 rate=1",
        "Unidirectional streams; a well-behaved client opens three, and now and then one of an \
         unknown type.",
        |b, c| {
            allowance(
                c,
                &mut b.server().http3.unidirectional_streams,
                DEFAULT.unidirectional_streams,
            )
        },
    )
    .own(),
    Row::new(
        "http3_max_oversized_heads",
        HS,
        METERED,
        "20 rate=1",
        "Requests whose header fields exceed `large_client_header_buffers` after decompression \
         (QPACK bombs). Each gets 431 or 414 and uses no memory beyond the limits.",
        |b, c| {
            allowance(
                c,
                &mut b.server().http3.oversized_heads,
                DEFAULT.oversized_heads,
            )
        },
    )
    .own(),
    Row::new(
        "http3_max_header_block_size",
        HS,
        ONE,
        "64k",
        "Compressed size of one request's header fields, unless `large_client_header_buffers` \
         allows more.",
        |b, c| header_block_size(c, &mut b.server().http3.header_block_size),
    )
    .own(),
];

fn at_most(c: &Call<'_>, value: Option<u64>, most: u64) -> Result<(), Fault> {
    match value {
        Some(value) if value > most => {
            Err(c.refuse_arg(1, &format!("value must be at most {most}")))
        }
        _ => Ok(()),
    }
}
