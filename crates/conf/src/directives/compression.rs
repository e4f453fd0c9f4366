//! ngx_http_gzip_module and ngx_http_gzip_static_module; ngx_brotli and zstd-nginx-module, which
//! are not nginx's own.

use super::Check::Between;
use super::{Arity, Check, HSL, HTTP, LOCATION_IF, Module, ONE, Row, Setter, media_types};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::draft::CompressorDraft;
use crate::model::{BROTLI_MAX_LEVEL, GzipProxied, StaticCoding};
use crate::values;

pub(super) const GZIP: Module = Module {
    title: "HTTP: compression with gzip",
    doc: "Compresses responses while they are sent. Of several codings that are on and that the \
          client takes, zstd goes before Brotli and Brotli before gzip.",
    rows: &[
        Row::new(
            "gzip",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Compresses responses with status 200, 403 or 404 for clients that take gzip.",
            |b, c| c.flag(&mut gzip(b).on),
        ),
        Row::new(
            "compression_memory",
            HTTP,
            ONE,
            "512m",
            "What `gzip`, `brotli` and `zstd` may take in all worker threads at a time. [What each \
             response takes](performance.md#compression), for as long as its client reads, depends on \
             coding and level: 0.4 to 24 MiB. Responses for which there is no room are sent as they \
             are, and the log says so once each time that it runs out.",
            |b, c| c.size(&mut b.http.compression_memory_bytes),
        )
        .own(),
        types("gzip_types", |b, c| {
            media_types::add(b, c, |location| {
                &mut location.body_filters.compression.gzip.types
            });
            Ok(())
        }),
        least("gzip_min_length", |b, c| c.size(&mut gzip(b).min_length)),
        Row::new(
            "gzip_comp_level",
            HSL,
            ONE,
            "1",
            "1 is fastest and means 2, 9 compresses best. [What each costs](performance.md#compression).",
            |b, c| {
                c.check(Between(1, 9))?;
                c.number(&mut gzip(b).level)
            },
        ),
        Row::new(
            "gzip_http_version",
            HSL,
            ONE,
            "1.1",
            "The least version of HTTP that a request must have: `1.0` or `1.1`. It holds for \
             `gzip_static` and `gunzip` too, as do the next two.",
            |b, c| {
                let slot = &mut b.location().body_filters.compression.gzip_http10;
                c.choice(slot, &[("1.0", true), ("1.1", false)])
            },
        ),
        Row::new(
            "gzip_proxied",
            HSL,
            Arity::AtLeast(1),
            "off",
            "Which responses to requests with a `Via` are compressed: `off`, `any`, or those with \
             an `Expires` in the past (`expired`), with `no-cache`, `no-store` or `private` in \
             `Cache-Control`, without `Last-Modified` (`no_last_modified`) or `ETag` (`no_etag`), \
             or to requests with `Authorization` (`auth`).",
            gzip_proxied,
        ),
        Row::new(
            "gzip_disable",
            HSL,
            Arity::AtLeast(1),
            "",
            "Sends nothing compressed to browsers whose `User-Agent` one of these expressions \
             matches, letters of either case; `msie6` stands for MSIE 4 to 6.",
            gzip_disable,
        ),
        Row::new(
            "gzip_vary",
            HSL,
            ONE,
            "off",
            "Adds `Vary: Accept-Encoding` to what other clients may get in another coding \
             (`gzip`, `brotli`, `zstd`, their static forms, `gunzip`), so that caches keep both.",
            |b, c| c.flag(&mut b.location().gzip_vary),
        ),
        Row::new(
            "gzip_static",
            HSL,
            ONE,
            "off",
            "Sends `FILE.gz` instead of FILE, if it exists, to clients that accept gzip (`on`) or \
             to all (`always`).",
            |b, c| static_coding(c, &mut gzip(b).precompressed),
        ),
        buffers("gzip_buffers"),
    ],
};

pub(super) const BROTLI: Module = Module {
    title: "HTTP: compression with Brotli",
    doc: "The directives of ngx_brotli. Nothing of `gzip_proxied`, `gzip_http_version` and \
          `gzip_disable` holds for it.",
    rows: &[
        Row::new(
            "brotli",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Compresses responses with status 200, 403 or 404 for clients that take Brotli (`br`).",
            |b, c| c.flag(&mut brotli(b).on),
        ),
        types("brotli_types", |b, c| {
            media_types::add(b, c, |location| {
                &mut location.body_filters.compression.brotli.types
            });
            Ok(())
        }),
        least("brotli_min_length", |b, c| {
            c.size(&mut brotli(b).min_length)
        }),
        Row::new(
            "brotli_comp_level",
            HSL,
            ONE,
            "6",
            "0 is fastest, 8 compresses best; 9 to 11 mean 8, with a warning, as they take too much \
             memory and time for responses that are compressed while they are sent. \
             [What each costs](performance.md#compression).",
            brotli_level,
        ),
        Row::new(
            "brotli_window",
            HSL,
            ONE,
            "512k",
            "How far back the compressor looks, a power of two from 1k to 16m; it decides about \
             memory on both ends. Less is taken where the response is known to be shorter. From \
             level 5 on it is at least 128k, and 512k for responses that are longer than that or \
             of unknown length.",
            brotli_window,
        ),
        Row::new(
            "brotli_static",
            HSL,
            ONE,
            "off",
            "Sends `FILE.br` instead of FILE, if it exists, to clients that accept Brotli (`on`) \
             or to all (`always`).",
            |b, c| static_coding(c, &mut brotli(b).precompressed),
        ),
        buffers("brotli_buffers"),
    ],
};

pub(super) const ZSTD: Module = Module {
    title: "HTTP: compression with zstd",
    doc: "The directives of zstd-nginx-module. Nothing of `gzip_proxied`, `gzip_http_version` and \
          `gzip_disable` holds for it.",
    rows: &[
        Row::new(
            "zstd",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Compresses responses with status 200, 403 or 404 for clients that take zstd.",
            |b, c| c.flag(&mut zstd(b).on),
        ),
        types("zstd_types", |b, c| {
            media_types::add(b, c, |location| {
                &mut location.body_filters.compression.zstd.types
            });
            Ok(())
        }),
        least("zstd_min_length", |b, c| c.size(&mut zstd(b).min_length)),
        Row::new(
            "zstd_comp_level",
            HSL,
            ONE,
            "1",
            "1 is fastest, 22 compresses best; no window is larger than 8 MiB, which is what \
             clients must take. [What each costs](performance.md#compression).",
            |b, c| {
                c.check(Between(1, 22))?;
                c.number(&mut zstd(b).level)
            },
        ),
        Row::new(
            "zstd_static",
            HSL,
            ONE,
            "off",
            "Sends `FILE.zst` instead of FILE, if it exists, to clients that accept zstd (`on`) \
             or to all (`always`).",
            |b, c| static_coding(c, &mut zstd(b).precompressed),
        ),
        Row::unsupported(
            "zstd_dict_file",
            HTTP,
            ONE,
            "clients could not read what is compressed with a dictionary that `Accept-Encoding: \
             zstd` says nothing about",
        ),
        buffers("zstd_buffers"),
    ],
};

/// `gzip_types` and its like.
const fn types(name: &'static str, set: Setter) -> Row {
    const DOC: &str =
        "Media types of responses that are compressed, besides `text/html`; `*` is all.";
    Row::new(name, HSL, Arity::AtLeast(1), "text/html", DOC, set)
}

/// `gzip_min_length` and its like.
const fn least(name: &'static str, set: Setter) -> Row {
    const DOC: &str = "Responses that are known to be shorter stay as they are.";
    Row::new(name, HSL, ONE, "20", DOC, set)
}

/// `gzip_buffers` and its like.
const fn buffers(name: &'static str) -> Row {
    const WHY: &str = "A response is compressed as far as its client takes it.";
    Row::meaningless(name, HSL, Arity::Between(2, 2), Check::Buffers, WHY)
}

fn gzip<'b>(b: &'b mut Build<'_>) -> &'b mut CompressorDraft {
    &mut b.location().body_filters.compression.gzip
}

fn brotli<'b>(b: &'b mut Build<'_>) -> &'b mut CompressorDraft {
    &mut b.location().body_filters.compression.brotli
}

fn zstd<'b>(b: &'b mut Build<'_>) -> &'b mut CompressorDraft {
    &mut b.location().body_filters.compression.zstd
}

/// `gzip_static` and its like.
fn static_coding(c: &Call<'_>, slot: &mut Option<StaticCoding>) -> Result<(), Fault> {
    use StaticCoding::{Always, Off, On};
    c.choice(slot, &[("off", Off), ("on", On), ("always", Always)])
}

fn gzip_proxied(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let slot = &mut b.location().body_filters.compression.gzip_proxied;
    let mut proxied = slot.unwrap_or_default();
    let mut twice = Vec::new();
    for (index, word) in c.args() {
        let flag = match word.to_ascii_lowercase().as_slice() {
            b"off" => &mut proxied.off,
            b"expired" => &mut proxied.expired,
            b"no-cache" => &mut proxied.no_cache,
            b"no-store" => &mut proxied.no_store,
            b"private" => &mut proxied.private,
            b"no_last_modified" => &mut proxied.no_last_modified,
            b"no_etag" => &mut proxied.no_etag,
            b"auth" => &mut proxied.auth,
            b"any" => &mut proxied.any,
            _ => return Err(c.invalid(index)),
        };
        if std::mem::replace(flag, true) {
            twice.push(c.shown(index));
        }
    }
    *slot = Some::<GzipProxied>(proxied);
    for word in twice {
        b.warn(format!("duplicate value \"{word}\""));
    }
    Ok(())
}

fn gzip_disable(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    b.location()
        .body_filters
        .compression
        .gzip_disable
        .get_or_insert_default();
    for (index, word) in c.args() {
        if word == b"msie6" {
            b.location().body_filters.compression.gzip_disable_msie6 = Some(true);
            continue;
        }
        let regex = b.regex(c.text(index)?, true, index)?;
        let compression = &mut b.location().body_filters.compression;
        compression.gzip_disable.get_or_insert_default().push(regex);
    }
    Ok(())
}

fn brotli_level(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    c.check(Between(0, 11))?;
    let slot = &mut brotli(b).level;
    c.number(slot)?;
    if let Some(level) = slot.filter(|level| *level > BROTLI_MAX_LEVEL.into()) {
        b.warn(format!(
            "responses are compressed at level {BROTLI_MAX_LEVEL} instead of {level}, which takes too \
             much memory and time; compress files beforehand and send them with \"brotli_static\""
        ));
    }
    Ok(())
}

fn brotli_window(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    let slot = &mut brotli(b).window_bits;
    c.once(slot)?;
    let bits = values::size(c.arg(1))
        .filter(|bytes| bytes.is_power_of_two())
        .map(|bytes| bytes.trailing_zeros() as u8) // at most 63
        .filter(|bits| (10..=24).contains(bits));
    *slot = Some(bits.ok_or_else(|| {
        c.refuse_arg(
            1,
            "must be 1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 256k, 512k, 1m, 2m, 4m, 8m or 16m",
        )
    })?);
    Ok(())
}
