//! Caching responses of other servers: `*_cache*` is accepted with a warning until
//! it works, `*_store*` is refused.

pub(super) const CACHE: &str = "responses are not cached; every request is passed to a server";

pub(super) const STORE: &str = "responses are not stored as files; `try_files` and a program that \
     writes the files cover many uses";

/// The rows of a family.
macro_rules! cache_rows {
    ($family:literal) => {
        &[
            Row::later(concat!($family, "_cache"), HSL, ONE, Check::Text, CACHE).inert(&["off"]),
            Row::later(
                concat!($family, "_cache_background_update"),
                HSL,
                ONE,
                Check::Flag,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_bypass"),
                HSL,
                Arity::AtLeast(1),
                Check::Any,
                CACHE,
            ),
            Row::later(concat!($family, "_cache_key"), HSL, ONE, Check::Text, CACHE),
            Row::later(
                concat!($family, "_cache_lock"),
                HSL,
                ONE,
                Check::Flag,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_lock_age"),
                HSL,
                ONE,
                Check::Time,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_lock_timeout"),
                HSL,
                ONE,
                Check::Time,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_max_range_offset"),
                HSL,
                ONE,
                Check::Offset,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_methods"),
                HSL,
                Arity::AtLeast(1),
                Check::Any,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_min_uses"),
                HSL,
                ONE,
                Check::Number,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_path"),
                HTTP,
                Arity::AtLeast(2),
                Check::Any,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_revalidate"),
                HSL,
                ONE,
                Check::Flag,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_use_stale"),
                HSL,
                Arity::AtLeast(1),
                Check::Any,
                CACHE,
            ),
            Row::later(
                concat!($family, "_cache_valid"),
                HSL,
                Arity::AtLeast(1),
                Check::Any,
                CACHE,
            ),
            Row::later(
                concat!($family, "_no_cache"),
                HSL,
                Arity::AtLeast(1),
                Check::Any,
                CACHE,
            ),
            Row::unsupported(concat!($family, "_store"), HSL, ONE, STORE).inert(&["off"]),
            Row::unsupported(
                concat!($family, "_store_access"),
                HSL,
                Arity::Between(1, 3),
                STORE,
            ),
        ]
    };
}
pub(super) use cache_rows;
