//! Directives that restrict access or check a peer. Ignoring one would let
//! somebody in who should stay out, so each is an error until it works.

use super::{Arity, HSL, LOCATION, Module, ONE, Row, SERVER};

const ACCESS: &str = "it restricts access, so it is refused until it works";

pub(super) const MODULE: Module = Module {
    title: "Access control",
    doc: "Not there yet. A directive that restricts access or checks a peer is an error until it \
          works, unless it is switched off.",
    rows: &[
        Row::unsupported("secure_link", HSL, ONE, ACCESS),
        Row::unsupported("secure_link_md5", HSL, ONE, ACCESS),
        Row::unsupported("secure_link_secret", HSL, ONE, ACCESS),
        Row::unsupported(
            "valid_referers",
            SERVER | LOCATION,
            Arity::AtLeast(1),
            ACCESS,
        ),
        Row::unsupported("referer_hash_bucket_size", SERVER | LOCATION, ONE, ACCESS),
        Row::unsupported("referer_hash_max_size", SERVER | LOCATION, ONE, ACCESS),
    ],
};
