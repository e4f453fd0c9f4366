//! Directives that nginx's source has and its documentation does not: they tune its compressor.

use super::{Check, HSL, Module, ONE, Row};

const ZLIB: &str = "How much memory the compressor takes is decided by `gzip_comp_level` and by the length of the response";

pub(super) const MODULE: Module = Module {
    title: "HTTP: undocumented directives of nginx",
    doc: "Accepted, since they change nothing that a client could see.",
    rows: &[
        Row::meaningless("gzip_window", HSL, ONE, Check::Size, ZLIB),
        Row::meaningless("gzip_hash", HSL, ONE, Check::Size, ZLIB),
        Row::meaningless(
            "postpone_gzipping",
            HSL,
            ONE,
            Check::Size,
            "Responses are sent as they come; nothing waits for more to compress",
        ),
        Row::meaningless(
            "gzip_no_buffer",
            HSL,
            ONE,
            Check::Flag,
            "Responses are sent as they come; nothing waits for more to compress",
        ),
    ],
};
