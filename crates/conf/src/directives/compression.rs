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
    doc: "Compresses responses while they are sent. If several encodings are enabled and supported \
          by the client, zstd is preferred to Brotli, and Brotli to gzip.",
    rows: &[
        Row::new(
            "gzip",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Whether responses with status 200, 403 or 404 are compressed for clients that support \
             gzip.",
            |b, c| c.flag(&mut gzip(b).on),
        ),
        Row::new(
            "compression_memory",
            HTTP,
            ONE,
            "512m",
            "Maximum memory for `gzip`, `brotli` and `zstd` in all worker threads. [The memory for \
             each response](performance.md#compression) depends on encoding and level, 0.4 to 24 \
             MiB, and is used until the client has read the response. When the limit is reached, \
             responses are sent uncompressed; the log says so once each time.",
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
            "Compression level: 1 is the fastest and means 2, 9 compresses best. [Costs of each \
             level](performance.md#compression).",
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
            "Minimum HTTP version of a request for its response to be compressed: `1.0` or `1.1`. \
             This directive and the next two also apply to `gzip_static` and `gunzip`.",
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
            "Disables compression for clients whose `User-Agent` matches one of the regular \
             expressions (case-insensitive); `msie6` stands for MSIE 4 to 6.",
            gzip_disable,
        ),
        Row::new(
            "gzip_vary",
            HSL,
            ONE,
            "off",
            "Whether `Vary: Accept-Encoding` is added to responses whose encoding depends on the \
             client (`gzip`, `brotli`, `zstd`, their static forms, `gunzip`), so that caches keep \
             each variant.",
            |b, c| c.flag(&mut b.location().gzip_vary),
        ),
        Row::new(
            "gzip_static",
            HSL,
            ONE,
            "off",
            "Sends `FILE.gz` instead of FILE, if it exists, to clients that support gzip (`on`) or \
             to all clients (`always`).",
            |b, c| static_coding(c, &mut gzip(b).precompressed),
        ),
        buffers("gzip_buffers"),
    ],
};

pub(super) const BROTLI: Module = Module {
    title: "HTTP: compression with Brotli",
    doc: "The directives of ngx_brotli. `gzip_proxied`, `gzip_http_version` and `gzip_disable` do \
          not apply.",
    rows: &[
        Row::new(
            "brotli",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Whether responses with status 200, 403 or 404 are compressed for clients that support \
             Brotli (`br`).",
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
            "Compression level: 0 is the fastest, 8 compresses best. 9 to 11 mean 8, with a \
             warning, because they take too much memory and time to compress responses while they \
             are sent. [Costs of each level](performance.md#compression).",
            brotli_level,
        ),
        Row::new(
            "brotli_window",
            HSL,
            ONE,
            "512k",
            "Size of the compression window, a power of two from 1k to 16m. It determines the \
             memory for compression and decompression. A smaller window is used if the response \
             is known to be shorter. From level 5, the window is at least 128k, and 512k for \
             responses that are longer or of unknown length.",
            brotli_window,
        ),
        Row::new(
            "brotli_static",
            HSL,
            ONE,
            "off",
            "Sends `FILE.br` instead of FILE, if it exists, to clients that support Brotli (`on`) \
             or to all clients (`always`).",
            |b, c| static_coding(c, &mut brotli(b).precompressed),
        ),
        buffers("brotli_buffers"),
    ],
};

pub(super) const ZSTD: Module = Module {
    title: "HTTP: compression with zstd",
    doc: "The directives of zstd-nginx-module. `gzip_proxied`, `gzip_http_version` and \
          `gzip_disable` do not apply.",
    rows: &[
        Row::new(
            "zstd",
            HSL | LOCATION_IF,
            ONE,
            "off",
            "Whether responses with status 200, 403 or 404 are compressed for clients that support \
             zstd.",
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
            "Compression level: 1 is the fastest, 22 compresses best. The window never exceeds 8 \
             MiB, the maximum that clients must support. [Costs of each \
             level](performance.md#compression).",
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
            "Sends `FILE.zst` instead of FILE, if it exists, to clients that support zstd (`on`) \
             or to all clients (`always`).",
            |b, c| static_coding(c, &mut zstd(b).precompressed),
        ),
        Row::unsupported(
            "zstd_dict_file",
            HTTP,
            ONE,
            "clients that send `Accept-Encoding: zstd` could not decompress responses without the \
             dictionary",
        ),
        buffers("zstd_buffers"),
    ],
};

/// `gzip_types` and the like.
const fn types(name: &'static str, set: Setter) -> Row {
    const DOC: &str = "Media types of responses that are compressed, in addition to `text/html`; `*` matches any \
         type.";
    Row::new(name, HSL, Arity::AtLeast(1), "text/html", DOC, set)
}

/// `gzip_min_length` and the like.
const fn least(name: &'static str, set: Setter) -> Row {
    const DOC: &str = "Minimum length of a response that is compressed. Responses of unknown \
        length are always compressed.";
    Row::new(name, HSL, ONE, "20", DOC, set)
}

/// `gzip_buffers` and the like.
const fn buffers(name: &'static str) -> Row {
    const WHY: &str = "A response is compressed as fast as the client reads it.";
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

/// `gzip_static` and the like.
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
