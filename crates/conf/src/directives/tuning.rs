//! Directives in nginx's source that its documentation lacks: they tune its compressor.

use super::{Check, HSL, Module, ONE, Row};

const ZLIB: &str = "`gzip_comp_level` and the length of the response determine the compressor's \
    memory";

pub(super) const MODULE: Module = Module {
    title: "HTTP: undocumented directives of nginx",
    doc: "Accepted because they do not affect what clients see.",
    rows: &[
        Row::meaningless("gzip_window", HSL, ONE, Check::Size, ZLIB),
        Row::meaningless("gzip_hash", HSL, ONE, Check::Size, ZLIB),
        Row::meaningless(
            "postpone_gzipping",
            HSL,
            ONE,
            Check::Size,
            "Responses are compressed as they arrive; nothing is postponed",
        ),
        Row::meaningless(
            "gzip_no_buffer",
            HSL,
            ONE,
            Check::Flag,
            "Responses are compressed as they arrive; nothing is postponed",
        ),
    ],
};
