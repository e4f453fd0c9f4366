//! Modules that only tune and are not there yet: accepted, with one warning
//! for each directive met.

use super::Check::{Any, Buffers, Flag, Number, Size};
use super::{Arity, Check, HS, HSL, LOCATION_IF, Module, ONE, Row};

const NO_HTTP3: &str = "clients are offered HTTP/1.1 and HTTP/2 only";
const NO_GZIP: &str = "responses are not compressed; gzip_static serves files that are";

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
