//! ngx_http_ssi_module.

use super::{Arity, Check, HSL, LOCATION_IF, Module, ONE, Row, media_types};

pub(super) const MODULE: Module = Module {
    title: "HTTP: server-side includes",
    doc: "Commands in responses, such as `<!--#include virtual=\"/menu.html\" -->`: `block`, \
          `config`, `echo`, `if`, `elif`, `else`, `endif`, `include` (with `wait`, `set` and \
          `stub`), `set`. `config timefmt` sets the format of `$date_local` and `$date_gmt`. The \
          variables and blocks of a page and its includes are limited to 1 MiB.",
    rows: &[
        Row::new(
            "ssi",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Whether SSI commands in responses are processed.",
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
            "Whether `Last-Modified` and a weak `ETag` are preserved in responses with commands. \
             Otherwise both are removed.",
            |b, c| c.flag(&mut b.location().body_filters.texts.ssi_last_modified),
        ),
        Row::meaningless(
            "ssi_min_file_chunk",
            HSL,
            ONE,
            Check::Size,
            "The processed data is in memory and is sent from there.",
        ),
        Row::new(
            "ssi_silent_errors",
            HSL,
            ONE,
            "off",
            "Whether the error message is suppressed if a command fails.",
            |b, c| c.flag(&mut b.location().body_filters.texts.ssi_silent_errors),
        ),
        Row::new(
            "ssi_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of responses in which commands are processed, in addition to `text/html`; \
             `*` matches any type.",
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
            "Maximum length of parameter values in commands.",
            |b, c| c.size(&mut b.location().body_filters.texts.ssi_value_length),
        ),
    ],
};
