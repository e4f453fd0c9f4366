//! ngx_http_secure_link_module.

use super::{HSL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::Template;
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "HTTP: secure links",
    doc: "Links that only who was given them can have, and for some time only: `$secure_link` and \
          `$secure_link_expires`.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "secure_link",
        HSL,
        ONE,
        "",
        "What the request has to show, with variables: an MD5 hash in base64url, and after a comma the \
         Unix time until which it holds. `$secure_link` is empty if the hash is wrong, `0` if the time \
         is over, else `1`.",
        |b, c| {
            let mut slot = b.location().restricting.secure_link.take();
            let read = value(b, c, &mut slot);
            b.location().restricting.secure_link = slot;
            read
        },
    ),
    Row::new(
        "secure_link_md5",
        HSL,
        ONE,
        "",
        "What the hash of `secure_link` must be the MD5 of, with variables: a secret among it.",
        |b, c| {
            let mut slot = b.location().restricting.secure_link_md5.take();
            let read = value(b, c, &mut slot);
            b.location().restricting.secure_link_md5 = slot;
            read
        },
    ),
    Row::new(
        "secure_link_secret",
        HSL,
        ONE,
        "",
        "Older than `secure_link`: of `/prefix/hash/link` the hash must be the MD5 of the link and this \
         word, in hexadecimal; `$secure_link` is the link then, else empty.",
        |b, c| {
            let slot = &mut b.location().restricting.secure_link_secret;
            c.once(slot)?;
            *slot = Some(c.arg(1).into());
            Ok(())
        },
    ),
];

fn value(b: &mut Build<'_>, c: &Call<'_>, slot: &mut Option<Template>) -> Result<(), Fault> {
    c.once(slot)?;
    *slot = Some(template::compile(&mut b.names, c.arg(1), 1, &c.origin)?);
    Ok(())
}
