//! Evaluates values that contain variables.

use crate::exchange::Exchange;
use crate::variables;
use sealane_conf::model::{Part, Template};
use std::borrow::Cow;

/// The value of a template for this exchange. Borrowed, without any work, when
/// the template is plain text. An absent variable counts as empty.
pub(crate) fn evaluate<'t>(template: &'t Template, exchange: &Exchange) -> Cow<'t, [u8]> {
    if let Some(text) = template.as_literal() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::new();
    append(template, exchange, &mut out);
    Cow::Owned(out)
}

/// Appends the value of a template.
pub(crate) fn append(template: &Template, exchange: &Exchange, out: &mut Vec<u8>) {
    for part in template.parts() {
        match part {
            Part::Literal(text) => out.extend_from_slice(text),
            Part::Variable(variable) => {
                variables::append(exchange, variable, out);
            }
        }
    }
}

/// Whether a condition such as `if=` of `access_log` holds: neither empty nor `0`.
pub(crate) fn is_true(template: &Template, exchange: &Exchange) -> bool {
    !matches!(&*evaluate(template, exchange), b"" | b"0")
}
