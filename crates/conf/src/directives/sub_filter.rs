//! ngx_http_sub_module.

use super::{Arity, HSL, Module, ONE, Row, media_types};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{Part, Replacement, Template};
use crate::template;
use std::sync::Arc;

pub(super) const MODULE: Module = Module {
    title: "HTTP: replacements",
    doc: "Replaces texts in responses, while they are sent.",
    rows: &[
        Row::new(
            "sub_filter",
            HSL,
            Arity::Between(2, 2),
            "",
            "Replaces the first text by the second, without regard to the case of ASCII letters. \
             Both may contain variables. Several lines replace several texts in one pass; at the \
             same place the first of them holds. A level with any `sub_filter` of its own inherits \
             none. What is compressed stays as it is; `gunzip`, or no `Accept-Encoding` for \
             the server behind, helps.",
            sub_filter,
        ),
        Row::new(
            "sub_filter_last_modified",
            HSL,
            ONE,
            "off",
            "Keeps `Last-Modified`, and a weak `ETag`, of responses in which texts may be replaced; \
             otherwise they have neither.",
            |b, c| c.flag(&mut b.location().body_filters.texts.sub_last_modified),
        ),
        Row::new(
            "sub_filter_once",
            HSL,
            ONE,
            "on",
            "Replaces each text once in a response, or wherever it stands.",
            |b, c| c.flag(&mut b.location().body_filters.texts.sub_once),
        ),
        Row::new(
            "sub_filter_types",
            HSL,
            Arity::AtLeast(1),
            "text/html",
            "Media types of responses in which texts are replaced, besides `text/html`; `*` is all.",
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
