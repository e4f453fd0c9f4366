//! Modules that only tune and are not implemented yet: accepted, with one warning
//! for each directive used.

use super::Check::{Any, Flag, Number, Size};
use super::{HS, Module, ONE, Row};

const NO_HTTP3: &str = "only HTTP/1.1 and HTTP/2 are supported";

pub(super) const HTTP3: Module = Module {
    title: "HTTP/3",
    doc: "Not supported yet; `listen ... quic` is ignored with a warning.",
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
