//! Tengine's ngx_http_footer_filter_module.

use super::{Arity, HSL, Module, ONE, Row, media_types};
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "HTTP: footers",
    doc: "Text behind every page, as in Tengine.",
    rows: &[
        Row::new(
            "footer",
            HSL,
            ONE,
            "",
            "Text that is put behind the bodies of responses, unless they are compressed already. \
             May contain variables, whose values are those when the head is made. An empty string \
             adds nothing and cancels an inherited value.",
            |b, c| {
                let text = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
                c.once(&b.location_ref().body_filters.texts.footer)?;
                b.location().body_filters.texts.footer = Some(text);
                Ok(())
            },
        )
        .own(),
        Row::new(
            "footer_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of responses that get the footer, in addition to `text/html`; `*` \
             matches any type.",
            |b, c| {
                media_types::add(b, c, |location| {
                    &mut location.body_filters.texts.footer_types
                });
                Ok(())
            },
        )
        .own(),
    ],
};
