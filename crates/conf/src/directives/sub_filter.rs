//! ngx_http_sub_module.

use super::{Arity, HSL, Module, ONE, Row, media_types};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{Part, Replacement, Template};
use crate::template;
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: replacements",
    doc: "Replaces strings in responses while they are sent.",
    rows: &[
        Row::new(
            "sub_filter",
            HSL,
            Arity::Between(2, 2),
            "",
            "Replaces the first string with the second; the case of ASCII letters is ignored. Both \
             may contain variables. Several directives are applied in one pass; if several match \
             at the same position, the first one wins. Inherited only if the current level has no \
             `sub_filter`. Compressed responses are not changed: use `gunzip`, or send no \
             `Accept-Encoding` to the upstream server.",
            sub_filter,
        ),
        Row::new(
            "sub_filter_last_modified",
            HSL,
            ONE,
            "off",
            "Whether `Last-Modified` and a weak `ETag` are preserved in responses that may be \
             changed. Otherwise both are removed.",
            |b, c| c.flag(&mut b.location().body_filters.texts.sub_last_modified),
        ),
        Row::new(
            "sub_filter_once",
            HSL,
            ONE,
            "on",
            "Whether each string is replaced only once in a response.",
            |b, c| c.flag(&mut b.location().body_filters.texts.sub_once),
        ),
        Row::new(
            "sub_filter_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of responses in which strings are replaced, in addition to `text/html`; \
             `*` matches any type.",
            |b, c| {
                media_types::add(b, c, |location| &mut location.body_filters.texts.sub_types);
                Ok(())
            },
        ),
    ],
};

/// nginx's limit.
const MAX_LINES: usize = 255;

fn sub_filter(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    if c.arg(1).is_empty() {
        return Err(Fault::at(1, "empty search pattern"));
    }
    let text = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
    let by = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    let slot = &mut b.location().body_filters.texts.replacements;
    let replacements = Arc::make_mut(slot.get_or_insert_default());
    if replacements.lines.len() == MAX_LINES {
        return Err(Fault::new("number of search patterns exceeds 255"));
    }
    replacements.lines.push(Replacement {
        text: in_lower_case(&text),
        by,
    });
    Ok(())
}

fn in_lower_case(template: &Template) -> Template {
    let lower = |part: &Part| match part {
        Part::Literal(text) => Part::Literal(text.to_ascii_lowercase().into()),
        Part::Variable(variable) => Part::Variable(variable.clone()),
    };
    Template::new(template.parts().iter().map(lower).collect())
}
