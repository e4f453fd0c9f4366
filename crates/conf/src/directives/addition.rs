//! ngx_http_addition_module.

use super::{Arity, HSL, Module, ONE, Row, media_types};
use crate::call::{Call, Fault};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: additions",
    doc: "Puts other answers before and behind a body. They are made as answers to requests of \
          their own inside the server, and passed on as they come.",
    rows: &[
        Row::new(
            "add_after_body",
            HSL,
            ONE,
            "",
            "What the given URI answers follows the body. An empty text adds nothing, and takes \
             back what an outer level says.",
            |b, c| text(c, &mut b.location().body_filters.texts.after_body),
        ),
        Row::new(
            "add_before_body",
            HSL,
            ONE,
            "",
            "What the given URI answers stands before the body. An empty text adds nothing, and \
             takes back what an outer level says.",
            |b, c| text(c, &mut b.location().body_filters.texts.before_body),
        ),
        Row::new(
            "addition_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of responses that something is added to, besides `text/html`; `*` is all.",
            |b, c| {
                media_types::add(b, c, |location| {
                    &mut location.body_filters.texts.addition_types
                });
                Ok(())
            },
        ),
    ],
};

fn text(c: &Call<'_>, slot: &mut Option<Arc<[u8]>>) -> Result<(), Fault> {
    c.once(slot)?;
    *slot = Some(c.arg(1).into());
    Ok(())
}
