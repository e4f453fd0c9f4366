//! ngx_http_dav_module.

use super::{Arity, HSL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::DavMethods;

pub(super) const MODULE: Module = Module {
    title: "HTTP: writing files (WebDAV)",
    doc: "PUT, DELETE, MKCOL, COPY and MOVE. The access directives control who may use them.",
    rows: &[
        Row::new(
            "dav_methods",
            HSL,
            Arity::AtLeast(1),
            "off",
            "Methods that are allowed to change files: `PUT`, `DELETE`, `MKCOL`, `COPY`, `MOVE`. A \
             file uploaded with PUT is written to `client_body_temp_path` and renamed when it is \
             complete; keep both directories on the same file system.",
            dav_methods,
        ),
        Row::new(
            "create_full_put_path",
            HSL,
            ONE,
            "off",
            "Whether PUT creates missing intermediate directories.",
            |b, c| c.flag(&mut b.location().create_full_put_path),
        ),
        Row::new(
            "min_delete_depth",
            HSL,
            ONE,
            "0",
            "Minimum number of path elements that DELETE requires.",
            |b, c| c.number(&mut b.location().min_delete_depth),
        ),
        Row::new(
            "dav_access",
            HSL,
            Arity::Between(1, 3),
            "user:rw",
            "Permissions of new files and directories: `user:`, `group:` or `all:` with `r` or `rw`.",
            dav_access,
        ),
    ],
};

fn dav_methods(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let mut methods = b.location().dav_methods.unwrap_or_default();
    for (index, word) in c.args() {
        let method = match word.to_ascii_lowercase().as_slice() {
            b"off" => continue,
            b"put" => &mut methods.put,
            b"delete" => &mut methods.delete,
            b"mkcol" => &mut methods.mkcol,
            b"copy" => &mut methods.copy,
            b"move" => &mut methods.move_,
            _ => {
                return Err(c.invalid(index).help(
                    "it can be \"off\", \"PUT\", \"DELETE\", \"MKCOL\", \"COPY\" or \"MOVE\"",
                ));
            }
        };
        if *method {
            b.warn(format!("duplicate value \"{}\"", c.shown(index)));
        }
        *method = true;
    }
    b.location().dav_methods = Some::<DavMethods>(methods);
    Ok(())
}

fn dav_access(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().dav_access)?;
    b.location().dav_access = Some(files_access(c)?);
    Ok(())
}

/// Permissions of files: `user:rw group:r all:r`.
pub(super) fn files_access(c: &Call<'_>) -> Result<u32, Fault> {
    // The user has both rights unless the directive speaks of it.
    let (mut access, mut user) = (0, 0o600);
    for (index, word) in c.args() {
        let (shift, right) = match word {
            [b'u', b's', b'e', b'r', b':', right @ ..] => {
                user = 0;
                (6, right)
            }
            [b'g', b'r', b'o', b'u', b'p', b':', right @ ..] => (3, right),
            [b'a', b'l', b'l', b':', right @ ..] => (0, right),
            _ => return Err(c.invalid(index)),
        };
        let bits: u32 = match right {
            b"rw" => 6,
            b"r" => 4,
            _ => return Err(c.invalid(index)),
        };
        access |= bits << shift;
    }
    Ok(access | user)
}
