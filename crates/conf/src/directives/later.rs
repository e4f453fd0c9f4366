//! Modules that only tune and are not there yet: accepted, with one warning
//! for each directive met.

use super::Check::{Any, Buffers, Flag, Number, Size, Time};
use super::{Arity, Check, HS, HSL, HTTP, LOCATION_IF, Module, ONE, Row};
use crate::build::Build;

const NO_HTTP2: &str = "clients are offered HTTP/1.1 only";
const NO_HTTP3: &str = "clients are offered HTTP/1.1 only";
const NO_GZIP: &str = "responses are not compressed; gzip_static serves files that are";
const NO_STAPLING: &str = "nothing looks up names yet (OCSP stapling and proxying will)";

pub(super) const HTTP2: Module = Module {
    title: "HTTP/2",
    doc: "Not there yet. Clients fall back to HTTP/1.1 by themselves.",
    rows: &[
        Row::new(
            "http2",
            HS,
            ONE,
            "off",
            "Accepted with a warning: clients are offered HTTP/1.1 only, for now.",
            |b, c| {
                c.flag(&mut b.server().http2)?;
                if b.server().http2 == Some(true) {
                    warn_no_http2(b);
                }
                Ok(())
            },
        ),
        Row::later("http2_body_preread_size", HS, ONE, Size, NO_HTTP2),
        Row::later("http2_chunk_size", HSL, ONE, Size, NO_HTTP2),
        Row::later("http2_max_concurrent_streams", HS, ONE, Number, NO_HTTP2),
        Row::later("http2_recv_buffer_size", HTTP, ONE, Size, NO_HTTP2),
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
    ],
};

pub(super) const HTTP3: Module = Module {
    title: "HTTP/3",
    doc: "Not there yet; `listen ... quic` is an error.",
    rows: &[
        Row::later("http3", HS, ONE, Flag, NO_HTTP3),
        Row::later("http3_hq", HS, ONE, Flag, NO_HTTP3),
        Row::later("http3_max_concurrent_streams", HS, ONE, Number, NO_HTTP3),
        Row::later("http3_stream_buffer_size", HS, ONE, Size, NO_HTTP3),
        Row::later("quic_active_connection_id_limit", HS, ONE, Number, NO_HTTP3),
        Row::later("quic_gso", HS, ONE, Flag, NO_HTTP3),
        Row::later("quic_host_key", HS, ONE, Any, NO_HTTP3),
        Row::later("quic_retry", HS, ONE, Flag, NO_HTTP3),
    ],
};

pub(super) const GZIP: Module = Module {
    title: "HTTP: compression",
    doc: "Not there yet: responses are sent as they are.",
    rows: &[
        Row::later("gzip", HSL | LOCATION_IF, ONE, Flag, NO_GZIP),
        Row::later("gzip_buffers", HSL, Arity::Between(2, 2), Buffers, NO_GZIP),
        Row::later("gzip_comp_level", HSL, ONE, Check::Between(1, 9), NO_GZIP),
        Row::later("gzip_disable", HSL, Arity::AtLeast(1), Any, NO_GZIP),
        Row::later(
            "gzip_http_version",
            HSL,
            ONE,
            Check::OneOf(&["1.0", "1.1"]),
            NO_GZIP,
        ),
        Row::later("gzip_min_length", HSL, ONE, Size, NO_GZIP),
        Row::later("gzip_proxied", HSL, Arity::AtLeast(1), Any, NO_GZIP),
        Row::later("gzip_types", HSL, Arity::AtLeast(1), Any, NO_GZIP),
    ],
};

pub(super) const RESOLVER: Module = Module {
    title: "HTTP: name lookups",
    doc: "Not there yet.",
    rows: &[
        Row::later("resolver", HSL, Arity::AtLeast(1), Any, NO_STAPLING),
        Row::later("resolver_timeout", HSL, ONE, Time, NO_STAPLING),
    ],
};

/// HTTP/2 is asked for, by `http2` or by `listen`.
pub(crate) fn warn_no_http2(b: &mut Build<'_>) {
    b.warn_once(
        "http2",
        format!("the \"http2\" directive has no effect yet: {NO_HTTP2}"),
    );
}
