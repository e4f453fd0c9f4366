//! Where request bodies are kept, and when they are read: the `client_body_*` directives of
//! ngx_http_core_module that are no limits.

use super::cache_paths::claim_path;
use super::{Arity, HS, HSL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::{BodyInFile, TempPath};
use crate::parser::path_of;
use crate::template;
use crate::values;
use std::sync::Arc;

/// Digits of a temporary file's name that subdirectories may take.
const MAX_LEVEL_DIGITS: u64 = 10;

pub(super) const MODULE: Module = Module {
    title: "HTTP: request bodies",
    doc: "Where a request body is stored when it is read in advance, and when it is. Its limits are \
          `client_body_buffer_size`, `client_max_body_size` and `client_body_timeout`.",
    rows: &[
        Row::new(
            "client_body_temp_path",
            HSL,
            Arity::Between(1, 4),
            "client_body_temp",
            "Directory for request bodies that do not fit into memory. A relative path starts from \
             the prefix. Up to three numbers define levels of subdirectories; each is the number \
             of digits of the file's number in the name of one level.",
            |b, c| {
                let path = temp_path(b, c, &b.location_ref().client_body_temp_path)?;
                claim_path(b, c, &path.path, false)?;
                b.location().client_body_temp_path = Some(path);
                Ok(())
            },
        ),
        Row::new(
            "client_body_in_file_only",
            HSL,
            ONE,
            "off",
            "Whether every request body is saved to a file, which is kept (`on`) or removed after \
             the request (`clean`).",
            |b, c| {
                let choices = [
                    ("off", BodyInFile::Off),
                    ("on", BodyInFile::On),
                    ("clean", BodyInFile::Clean),
                ];
                c.choice(&mut b.location().client_body_in_file_only, &choices)
            },
        ),
        Row::new(
            "client_body_in_single_buffer",
            HSL,
            ONE,
            "off",
            "Whether a request body in memory is kept in a single buffer, which saves a copy for \
             `$request_body`.",
            |b, c| c.flag(&mut b.location().client_body_in_single_buffer),
        ),
        Row::new(
            "client_body_early_read",
            HS,
            Arity::AtLeast(1),
            "",
            "The request body is read before the first `rewrite`, if at least one of the values is \
             neither empty nor `0`: `if`, `map` and `set` can use `$request_body` then. The limits \
             on the level of the server apply.",
            client_body_early_read,
        ),
    ],
};

fn client_body_early_read(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    for (index, word) in c.args() {
        let value = template::compile(&mut b.names, word, index, &c.origin)?;
        let conditions = b.server().client_body_early_read.get_or_insert_default();
        conditions.push(value);
    }
    Ok(())
}

/// The arguments of a `..._temp_path` directive whose value on this level is
/// `slot` so far.
pub(super) fn temp_path(
    b: &Build<'_>,
    c: &Call<'_>,
    slot: &Option<Arc<TempPath>>,
) -> Result<Arc<TempPath>, Fault> {
    c.once(slot)?;
    let written = c.arg(1);
    let directory = match written.strip_suffix(b"/") {
        Some(b"") => written,
        Some(directory) => directory,
        None => written,
    };
    if directory.is_empty() {
        return Err(c.refuse_arg(1, "invalid value"));
    }
    let mut levels = [0; 3];
    let mut digits = 0;
    for ((index, word), level) in c.args().skip(1).zip(&mut levels) {
        let invalid = || c.refuse_arg(index, "invalid value");
        let number = values::number(word).filter(|number| *number > 0);
        digits += number
            .filter(|n| *n <= MAX_LEVEL_DIGITS)
            .ok_or_else(invalid)?;
        if digits > MAX_LEVEL_DIGITS {
            return Err(invalid());
        }
        *level = number
            .and_then(|n| u8::try_from(n).ok())
            .ok_or_else(invalid)?;
    }
    Ok(Arc::new(TempPath {
        path: b.options.under_prefix(path_of(directory)),
        levels,
    }))
}
