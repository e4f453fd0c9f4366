//! ngx_http_secure_link_module.

use super::{HSL, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::Template;
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "HTTP: secure links",
    doc: "Links with a signature and an expiration time: `$secure_link` and \
          `$secure_link_expires`.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "secure_link",
        HSL,
        ONE,
        "",
        "String with variables that extracts an MD5 hash in base64url from the request and, after \
         a comma, an expiration time in Unix time. `$secure_link` is empty if the hash is wrong, \
         `0` if the link has expired, otherwise `1`.",
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
        "Expression for which the MD5 hash of `secure_link` is computed; it may contain variables \
         and should contain a secret.",
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
        "Older form of `secure_link`: in `/prefix/hash/link`, the hash must be the hexadecimal MD5 \
         of the link and this word. `$secure_link` is then the link, otherwise empty.",
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
