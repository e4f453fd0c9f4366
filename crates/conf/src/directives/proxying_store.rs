//! `*_store`: responses of other servers become files.

use super::dav::files_access;
use super::proxying::{family, upstream};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::{CacheZoneDraft, StoreDraft};
use crate::template;

/// The rows of a family.
macro_rules! store_rows {
    ($family:literal) => {
        &[
            Row::new(
                concat!($family, "_store"),
                HSL,
                ONE,
                "off",
                concat!(
                    "Whether complete responses with status 200 are stored as files: `on` by \
                     `root` or `alias`, or at a path, usually with variables, such as \
                     `/data$uri`. A file is written in `",
                    $family,
                    "_temp_path`, gets its name when it is complete, and the time of the \
                     Last-Modified field; keep both on the same file system. Nothing is stored \
                     without `",
                    $family,
                    "_buffering`, or once a client has gone."
                ),
                $crate::directives::proxying_store::store,
            ),
            Row::new(
                concat!($family, "_store_access"),
                HSL,
                Arity::Between(1, 3),
                "user:rw",
                "Permissions of stored files and of directories made for them: `user:`, `group:` \
                 or `all:` with `r` or `rw`.",
                $crate::directives::proxying_store::store_access,
            ),
        ]
    };
}
pub(super) use store_rows;

/// `*_store`.
pub(super) fn store(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).store)?;
    let store = match c.arg(1) {
        b"off" => StoreDraft::Off,
        b"" => return Err(Fault::at(1, "empty path")),
        _ if is_cached(b, c) => {
            return Err(c.refuse(&format!("is incompatible with \"{}_cache\"", family(c))));
        }
        b"on" => StoreDraft::ByUri,
        path => StoreDraft::At(template::compile(&mut b.names, path, 1, &c.origin)?),
    };
    upstream(b, c).store = Some(store);
    Ok(())
}

fn is_cached(b: &mut Build<'_>, c: &Call<'_>) -> bool {
    let zone = &upstream(b, c).cache.zone;
    zone.as_ref()
        .is_some_and(|zone| !matches!(zone, CacheZoneDraft::Off))
}

/// `*_store_access`.
pub(super) fn store_access(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.once(&upstream(b, c).store_access)?;
    upstream(b, c).store_access = Some(files_access(c)?);
    Ok(())
}
