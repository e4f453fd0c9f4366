//! ngx_http_ssi_module.

use super::{Arity, Check, HSL, LOCATION_IF, Module, ONE, Row, media_types};

pub(super) const MODULE: Module = Module {
    title: "HTTP: server-side includes",
    doc: "Commands such as `<!--#include virtual=\"/menu.html\" -->` in responses: `block`, `config`, \
          `echo`, `if`, `elif`, `else`, `endif`, `include` (with `wait`, `set` and `stub`), `set`. \
          `$date_local` and `$date_gmt` are written as `config timefmt` says; variables and blocks of a \
          page and what it includes may have 1 MiB.",
    rows: &[
        Row::new(
            "ssi",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Carries out commands in responses.",
            |b, c| c.flag(&mut b.location().body_filters.texts.ssi),
        ),
        Row::meaningless(
            "ssi_ignore_recycled_buffers",
            HSL,
            ONE,
            Check::Flag,
            "There are no recycled buffers.",
        ),
        Row::new(
            "ssi_last_modified",
            HSL,
            ONE,
            "off",
            "Keeps `Last-Modified`, and a weak `ETag`, of responses with commands; otherwise they \
             have neither.",
            |b, c| c.flag(&mut b.location().body_filters.texts.ssi_last_modified),
        ),
        Row::meaningless(
            "ssi_min_file_chunk",
            HSL,
            ONE,
            Check::Size,
            "What was searched is in memory, and is sent from there.",
        ),
        Row::new(
            "ssi_silent_errors",
            HSL,
            ONE,
            "off",
            "Puts nothing in the place of a command that fails, instead of a message.",
            |b, c| c.flag(&mut b.location().body_filters.texts.ssi_silent_errors),
        ),
        Row::new(
            "ssi_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of responses with commands, besides `text/html`; `*` is all.",
            |b, c| {
                media_types::add(b, c, |location| &mut location.body_filters.texts.ssi_types);
                Ok(())
            },
        ),
        Row::new(
            "ssi_value_length",
            HSL,
            ONE,
            "255",
            "The longest value of a parameter in a command.",
            |b, c| c.size(&mut b.location().body_filters.texts.ssi_value_length),
        ),
    ],
};
