//! ngx_http_headers_module.

use super::{Arity, HSL, LOCATION_IF, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::HeaderInherit;
use crate::model::{AddHeader, Expires};
use crate::template;
use crate::values;

pub(super) const MODULE: Module = Module {
    title: "HTTP: header lines",
    doc: "Header fields and trailers that are added to responses.",
    rows: ROWS,
};

const INHERIT: &[(&str, HeaderInherit)] = &[
    ("on", HeaderInherit::On),
    ("off", HeaderInherit::Off),
    ("merge", HeaderInherit::Merge),
];

const ROWS: &[Row] = &[
    Row::new(
        "add_header",
        HSL | LOCATION_IF,
        Arity::Between(2, 3),
        "",
        "Adds a header field to responses with status 200, 201, 204, 206, 301, 302, 303, 304, 307 \
         or 308, with `always` to all responses. Inherited only if the current level has no \
         `add_header` (see `add_header_inherit`). A field with an empty value is not added. May \
         contain variables.",
        |b, c| {
            let header = header(b, c)?;
            b.location()
                .add_headers
                .get_or_insert_default()
                .push(header);
            Ok(())
        },
    ),
    Row::new(
        "add_header_inherit",
        HSL | LOCATION_IF,
        ONE,
        "on",
        "How `add_header` directives of the previous level are inherited: `on` (only if the \
         current level has none), `merge` (after those of the current level), or `off`.",
        |b, c| c.choice(&mut b.location().add_header_inherit, INHERIT),
    ),
    Row::new(
        "add_trailer",
        HSL | LOCATION_IF,
        Arity::Between(2, 3),
        "",
        "Adds a trailer field to a chunked response, under the same conditions as `add_header`.",
        |b, c| {
            let trailer = header(b, c)?;
            b.location()
                .add_trailers
                .get_or_insert_default()
                .push(trailer);
            Ok(())
        },
    ),
    Row::new(
        "add_trailer_inherit",
        HSL | LOCATION_IF,
        ONE,
        "on",
        "The same as `add_header_inherit`, for trailers.",
        |b, c| c.choice(&mut b.location().add_trailer_inherit, INHERIT),
    ),
    Row::new(
        "expires",
        HSL | LOCATION_IF,
        Arity::Between(1, 2),
        "off",
        "Sets Expires and Cache-Control: a time from now, `modified` and a time from the file's \
         modification, `@time` of day, `epoch`, `max` or `off`. May contain variables.",
        expires,
    ),
];

fn header(b: &mut Build<'_>, c: &Call<'_>) -> Result<AddHeader, Fault> {
    let name = c.text(1)?.into();
    let value = template::compile(&mut b.names, c.arg(2), 2, &c.origin)?;
    if c.count() == 3 && c.arg(3) != b"always" {
        return Err(c.invalid_parameter(3));
    }
    Ok(AddHeader {
        name,
        value,
        always: c.count() == 3,
    })
}

fn expires(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().expires)?;
    let modified = c.count() == 2;
    if modified && c.arg(1) != b"modified" {
        return Err(c.refuse_arg(1, "invalid value"));
    }
    let word = c.count();
    let value = template::compile(&mut b.names, c.arg(word), word, &c.origin)?;
    let parsed = match value.as_literal() {
        Some(text) => parse_expires(text, modified).map_err(|what| c.refuse_arg(word, what))?,
        None => Expires::Evaluated(value, modified),
    };
    b.location().expires = Some(parsed);
    Ok(())
}

/// Parses the value of `expires`, also when variables produce it while a
/// request is answered.
///
/// # Errors
///
/// nginx's error message.
pub fn parse_expires(text: &[u8], modified: bool) -> Result<Expires, &'static str> {
    match text {
        b"epoch" if !modified => return Ok(Expires::Epoch),
        b"max" if !modified => return Ok(Expires::Max),
        b"off" if !modified => return Ok(Expires::Off),
        _ => {}
    }
    let (kind, time) = match text {
        [kind @ (b'@' | b'+' | b'-'), time @ ..] => (*kind, time),
        _ => (b'+', text),
    };
    if kind == b'@' && modified {
        return Err("daily time cannot be used with \"modified\" parameter");
    }
    let seconds = values::seconds(time).ok_or("invalid value")?.as_secs();
    if kind == b'@' {
        return match u32::try_from(seconds) {
            Ok(seconds) if seconds <= 24 * 60 * 60 => Ok(Expires::Daily(seconds)),
            _ => Err("daily time value must be less than 24 hours"),
        };
    }
    let seconds = i64::try_from(seconds).map_err(|_| "invalid value")?;
    let seconds = if kind == b'-' { -seconds } else { seconds };
    Ok(if modified {
        Expires::Modified(seconds)
    } else {
        Expires::Access(seconds)
    })
}
