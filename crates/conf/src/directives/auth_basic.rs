//! ngx_http_auth_basic_module.

use super::{HSL, LIMIT_EXCEPT, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::template;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) const MODULE: Module = Module {
    title: "HTTP: basic authentication",
    doc: "HTTP Basic authentication (RFC 7617).",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::new(
        "auth_basic",
        HSL | LIMIT_EXCEPT,
        ONE,
        "off",
        "Enables authentication by user name and password. The argument is the realm and may \
         contain variables; `off` disables it.",
        |b, c| {
            c.once(&b.location().restricting.auth_basic)?;
            let realm = template::compile(&mut b.names, c.arg(1), 1, &c.origin)?;
            b.location().restricting.auth_basic = Some(realm);
            Ok(())
        },
    ),
    Row::new(
        "auth_basic_user_file",
        HSL | LIMIT_EXCEPT,
        ONE,
        "",
        "File with user names and passwords, one `name:password` per line. It is read for each \
         request. A relative path starts from the configuration file's directory; it may contain \
         variables. Passwords may have the formats of `htpasswd` and `openssl passwd`: `$apr1$`, \
         `$1$`, `$5$`, `$6$`, `$2a$`, `$2b$` and `$2y$` (bcrypt), `$y$` (yescrypt), crypt(3)'s \
         DES, `{PLAIN}`, `{SHA}`, `{SSHA}`.",
        user_file,
    ),
];

fn user_file(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&b.location().restricting.auth_basic_user_file)?;
    let written = c.arg(1);
    let full;
    let path = match written.first() {
        Some(b'$') => written,
        _ => {
            let path = Path::new(OsStr::from_bytes(written));
            full = b.options.beside_conf(path);
            full.as_os_str().as_bytes()
        }
    };
    let path = template::compile(&mut b.names, path, 1, &c.origin)?;
    b.location().restricting.auth_basic_user_file = Some(path);
    Ok(())
}
