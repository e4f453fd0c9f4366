//! ngx_http_memcached_module.

use super::proxying::{self, bind, joined, next_upstream, reaching_rows, upstream};
use super::{Arity, HSL, LOCATION, LOCATION_IF, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};

pub(super) const MODULE: Module = Module {
    title: "Passing requests to memcached",
    doc: "A location with `memcached_pass` answers GET and HEAD with values from memcached, whose \
          key is `$memcached_key`. A key that is not there is status 404, for which `error_page` \
          names another location.",
    rows: joined!(OWN, REACHING),
};

const REACHING: &[Row] = reaching_rows!(
    "memcached",
    "`error`, `timeout`, `invalid_response`, `not_found`",
    ""
);

const OWN: &[Row] = &[
    Row::new(
        "memcached_pass",
        LOCATION | LOCATION_IF,
        ONE,
        "",
        "Address of the memcached server: host and port, the name of an `upstream`, or \
         `unix:PATH`. The variable `$memcached_key` must be set; spaces, percent signs and control \
         characters in it are escaped.",
        pass,
    ),
    Row::new(
        "memcached_gzip_flag",
        HSL,
        ONE,
        "",
        "Bits of a value's flags that mean that it is compressed by gzip: the response gets \
         `Content-Encoding: gzip`.",
        |b, c| c.number(&mut b.location().passing.memcached.gzip_flag),
    ),
];

fn pass(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let key = b.names.variable("memcached_key", &c.origin)?;
    proxying::pass(b, c, &[], false)?;
    b.location().passing.memcached.key = Some(key);
    Ok(())
}
