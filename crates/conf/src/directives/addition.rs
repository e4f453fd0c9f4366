//! ngx_http_addition_module.

use super::{Arity, HSL, Module, ONE, Row, media_types};
use crate::call::{Call, Fault};
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: additions",
    doc: "Adds other responses before and after a body. They come from subrequests and are \
          streamed.",
    rows: &[
        Row::new(
            "add_after_body",
            HSL,
            ONE,
            "",
            "Adds the response to a subrequest for the given URI after the body. An empty string \
             adds nothing and cancels an inherited value.",
            |b, c| text(c, &mut b.location().body_filters.texts.after_body),
        ),
        Row::new(
            "add_before_body",
            HSL,
            ONE,
            "",
            "Adds the response to a subrequest for the given URI before the body. An empty string \
             adds nothing and cancels an inherited value.",
            |b, c| text(c, &mut b.location().body_filters.texts.before_body),
        ),
        Row::new(
            "addition_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of responses to which text is added, in addition to `text/html`; `*` \
             matches any type.",
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
