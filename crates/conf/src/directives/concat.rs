//! Tengine's ngx_http_concat_module.

use super::{Arity, HSL, Module, ONE, Row, media_types};

/// The type that lists of `concat_types` begin with, as in Tengine.
const FIRST_TYPE: &[u8] = b"application/javascript";

pub(super) const MODULE: Module = Module {
    title: "HTTP: concatenated files",
    doc: "Several files in one response, as in Tengine: `/static/??a.js,lib/b.js?v=7` is answered \
          with `/static/a.js` and `/static/lib/b.js`. What follows another question mark is not \
          looked at, so that versions can be named: one for all, or one for each file. The access \
          rules are those of the location that answers, whatever the files are.",
    rows: &[
        Row::new(
            "concat",
            HSL,
            ONE,
            "off",
            "Whether requests for a directory whose arguments begin with a question mark are \
             answered with the files that the arguments name. `Last-Modified` is that of the \
             newest file.",
            |b, c| c.flag(&mut b.location().concat.enabled),
        )
        .own(),
        Row::new(
            "concat_types",
            HSL,
            Arity::AtLeast(1),
            "application/javascript text/javascript text/css",
            "Media types of files that may be concatenated, in addition to \
             `application/javascript`; `*` is any. A file of another type is answered with 400.",
            |b, c| {
                media_types::add_to(b, c, FIRST_TYPE, |location| &mut location.concat.types);
                Ok(())
            },
        )
        .own(),
        Row::new(
            "concat_unique",
            HSL,
            ONE,
            "on",
            "Whether all files of a request must have the same type; otherwise the answer is 400. \
             With `off`, the type is that of the last file.",
            |b, c| c.flag(&mut b.location().concat.unique),
        )
        .own(),
        Row::new(
            "concat_max_files",
            HSL,
            ONE,
            "10",
            "Maximum number of files that a request may name; more are answered with 400.",
            |b, c| c.number(&mut b.location().concat.max_files),
        )
        .own(),
        Row::new(
            "concat_delimiter",
            HSL,
            ONE,
            "",
            "Text that is put between two files, such as `\"\\n\"`.",
            |b, c| {
                c.once(&b.location_ref().concat.delimiter)?;
                b.location().concat.delimiter = Some(c.arg(1).into());
                Ok(())
            },
        )
        .own(),
        Row::new(
            "concat_ignore_file_error",
            HSL,
            ONE,
            "off",
            "Whether files that do not exist, or must not be read, are left out instead of being \
             answered with 404 or 403.",
            |b, c| c.flag(&mut b.location().concat.ignore_file_error),
        )
        .own(),
    ],
};
