//! Tengine's ngx_http_trim_filter_module.

use super::{Arity, HSL, Module, ONE, Row, media_types};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::TextFiltersDraft;
use crate::model::Template;
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "HTTP: trimmed pages",
    doc: "Pages without white space and comments that nobody sees, as in Tengine. What is kept, \
          and what differs from Tengine, is in [pages.md](pages.md). `$trim_original_bytes` is the \
          length of a page, `$trim_bytes` how much shorter it has become. Responses with status \
          200 are trimmed, unless they are compressed or the request has the argument \
          `http_trim=off`.",
    rows: &[
        Row::new(
            "trim",
            HSL,
            ONE,
            "off",
            "Whether pages are trimmed: `on`, or a text with variables whose value is `on`. White \
             space becomes a single space or line break, and comments are dropped, but not in \
             `pre`, `textarea`, `code` and the like.",
            |b, c| switch(b, c, |texts| &mut texts.trim),
        )
        .own(),
        Row::new(
            "trim_js",
            HSL,
            ONE,
            "off",
            "The same for JavaScript in `script` elements of trimmed pages.",
            |b, c| switch(b, c, |texts| &mut texts.trim_js),
        )
        .own(),
        Row::new(
            "trim_css",
            HSL,
            ONE,
            "off",
            "The same for CSS in `style` elements of trimmed pages.",
            |b, c| switch(b, c, |texts| &mut texts.trim_css),
        )
        .own(),
        Row::new(
            "trim_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of pages, in addition to `text/html`. They are all read as HTML.",
            |b, c| {
                if let Some((word, _)) = c.args().find(|(_, name)| *name == b"*") {
                    let message = "\"trim_types\" does not take \"*\"";
                    let help =
                        "scripts and pictures would be read as HTML: name the types of pages";
                    return Err(Fault::at(word, message).help(help));
                }
                media_types::add(b, c, |location| &mut location.body_filters.texts.trim_types);
                Ok(())
            },
        )
        .own(),
    ],
};

fn switch(
    b: &mut Build<'_>,
    c: &Call<'_>,
    slot: fn(&mut TextFiltersDraft) -> &mut Option<Template>,
) -> Result<(), Fault> {
    let value = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    if let Some(text) = value.as_literal()
        && !matches!(text, b"on" | b"off")
    {
        let shown = c.shown(1);
        b.warn(format!(
            "\"{shown}\" is neither \"on\" nor \"off\", and means \"off\""
        ));
    }
    let slot = slot(&mut b.location().body_filters.texts);
    c.once(slot)?;
    *slot = Some(value);
    Ok(())
}
