//! ngx_http_gunzip_module.

use super::{Arity, Check, HSL, Module, ONE, Row};

pub(super) const MODULE: Module = Module {
    title: "HTTP: decompression",
    doc: "Decompresses responses for clients that do not take gzip.",
    rows: &[
        Row::new(
            "gunzip",
            HSL,
            ONE,
            "off",
            "Decompresses responses with `Content-Encoding: gzip` for clients that do not take it.",
            |b, c| c.flag(&mut b.location().body_filters.gunzip),
        ),
        Row::meaningless(
            "gunzip_buffers",
            HSL,
            Arity::Between(2, 2),
            Check::Buffers,
            "A response is decompressed as far as its client takes it.",
        ),
    ],
};
