//! ngx_http_gunzip_module.

use super::{Arity, Check, HSL, Module, ONE, Row};

pub(super) const MODULE: Module = Module {
    title: "HTTP: decompression",
    doc: "Decompresses responses for clients that do not support gzip.",
    rows: &[
        Row::new(
            "gunzip",
            HSL,
            ONE,
            "off",
            "Whether responses with `Content-Encoding: gzip` are decompressed for clients that do \
             not support gzip.",
            |b, c| c.flag(&mut b.location().body_filters.gunzip),
        ),
        Row::meaningless(
            "gunzip_buffers",
            HSL,
            Arity::Between(2, 2),
            Check::Buffers,
            "A response is decompressed as fast as the client reads it.",
        ),
    ],
};
