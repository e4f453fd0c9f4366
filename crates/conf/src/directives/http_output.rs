//! ngx_http_core_module, fourth part: what responses say and how they are sent.

use super::{Arity, Check, HSL, LOCATION_IF, Module, ONE, Row};
use crate::build::Opening;
use crate::model::{IfModifiedSince, ServerTokens};

pub(super) const MODULE: Module = Module {
    title: "HTTP: responses",
    doc: "What responses say about themselves and how they are sent.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "types",
        HSL,
        Arity::Between(0, 0),
        "Media types with their extensions, one type per line; replaces the inherited list as a \
         whole. Without any, html, gif and jpg are known.",
        |b, _| {
            b.opening = Some(Opening::Types);
            Ok(())
        },
    ),
    Row::new(
        "default_type",
        HSL,
        ONE,
        "text/plain",
        "Media type of files whose extension is not known.",
        |b, c| {
            c.once(&b.location().default_type)?;
            b.location().default_type = Some(c.text(1)?.into());
            Ok(())
        },
    ),
    Row::new(
        "etag",
        HSL,
        ONE,
        "on",
        "Whether files get an ETag.",
        |b, c| c.flag(&mut b.location().etag),
    ),
    Row::new(
        "if_modified_since",
        HSL,
        ONE,
        "exact",
        "How If-Modified-Since is compared with a file's time: `exact`, `before`, or `off`.",
        |b, c| {
            use IfModifiedSince::{Before, Exact, Off};
            let choices = [("off", Off), ("exact", Exact), ("before", Before)];
            c.choice(&mut b.location().if_modified_since, &choices)
        },
    ),
    Row::new(
        "server_tokens",
        HSL,
        ONE,
        "on",
        "Whether the Server header and error pages name the version: `on`, `off`, or `build`. A \
         text of one's own exists in nginx's commercial build only.",
        |b, c| {
            use ServerTokens::{Build, Off, On};
            c.choice(
                &mut b.location().server_tokens,
                &[("off", Off), ("on", On), ("build", Build)],
            )
        },
    ),
    Row::new(
        "chunked_transfer_encoding",
        HSL,
        ONE,
        "on",
        "Whether responses of unknown length are sent chunked to HTTP/1.1 clients.",
        |b, c| c.flag(&mut b.location().chunked_transfer_encoding),
    ),
    Row::new(
        "msie_padding",
        HSL,
        ONE,
        "on",
        "Whether error pages for MSIE are padded to 512 bytes.",
        |b, c| c.flag(&mut b.location().msie_padding),
    ),
    Row::new(
        "log_not_found",
        HSL,
        ONE,
        "on",
        "Whether files that do not exist are noted in the error log.",
        |b, c| c.flag(&mut b.location().log_not_found),
    ),
    Row::new(
        "log_subrequest",
        HSL,
        ONE,
        "off",
        "Whether subrequests (`auth_request`, `mirror`) get lines in the access log.",
        |b, c| c.flag(&mut b.location().log_subrequest),
    ),
    Row::new(
        "sendfile",
        HSL | LOCATION_IF,
        ONE,
        "off",
        "Sends files with sendfile(2) where the transport allows it: on plain TCP.",
        |b, c| c.flag(&mut b.location().sendfile),
    ),
    Row::new(
        "sendfile_max_chunk",
        HSL,
        ONE,
        "2m",
        "Bytes sent by one call of sendfile(2), so that one connection does not hold up the \
         others; 0 means no limit.",
        |b, c| c.size(&mut b.location().sendfile_max_chunk),
    ),
    Row::new(
        "output_buffers",
        HSL,
        Arity::Between(2, 2),
        "2 32k",
        "Number and size of buffers for reading a file without sendfile(2).",
        |b, c| c.buffers(&mut b.location().output_buffers),
    ),
    Row::new(
        "postpone_output",
        HSL,
        ONE,
        "1460",
        "Bytes that are gathered before something is sent, if possible; 0 sends at once.",
        |b, c| c.size(&mut b.location().postpone_output),
    ),
    Row::meaningless(
        "aio",
        HSL,
        ONE,
        Check::Any,
        "Reads that could block always go to a thread pool, as with nginx's `aio threads`.",
    ),
    Row::meaningless(
        "aio_write",
        HSL,
        ONE,
        Check::Flag,
        "Temporary files are always written by the same threads.",
    ),
    Row::later(
        "directio",
        HSL,
        ONE,
        Check::Offset,
        "files are read through the page cache, whatever their size",
    )
    .inert(&["off"]),
    Row::later(
        "directio_alignment",
        HSL,
        ONE,
        Check::Offset,
        "files are read through the page cache",
    ),
    Row::later(
        "read_ahead",
        HSL,
        ONE,
        Check::Size,
        "the kernel's own read-ahead holds",
    ),
    Row::meaningless(
        "msie_refresh",
        HSL,
        ONE,
        Check::Flag,
        "No browser in use needs a refresh page instead of a redirect.",
    ),
];
