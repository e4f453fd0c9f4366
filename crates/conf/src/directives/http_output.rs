//! ngx_http_core_module, fourth part: the contents of responses and how they are sent.

use super::{Arity, Check, HSL, LOCATION_IF, Module, ONE, Row, SetterOf, distance, thread_pools};
use crate::build::{Build, Opening};
use crate::call::{Call, Fault};
use crate::model::{IfModifiedSince, ServerTokens};
use crate::template;

pub(super) const MODULE: Module = Module {
    title: "HTTP: responses",
    doc: "Response header fields, and how responses are sent.",
    rows: ROWS,
};

const ROWS: &[Row] = &[
    Row::block(
        "types",
        HSL,
        Arity::Between(0, 0),
        "Maps file name extensions to media types, one type per line. Replaces the inherited map. \
         Without any `types`, only html, gif and jpg are known.",
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
        "Media type of files with unknown extensions.",
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
        "Whether responses for files have an ETag.",
        |b, c| c.flag(&mut b.location().etag),
    ),
    Row::new(
        "if_modified_since",
        HSL,
        ONE,
        "exact",
        "How a file's modification time is compared with If-Modified-Since: `exact`, `before`, or \
         `off`.",
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
        "Whether the Server header field and error pages show the version: `on`, `off`, or \
         `build`. Any other text takes the place of the name, and an empty one removes it; it may \
         contain variables.",
        server_tokens,
    ),
    Row::new(
        "server_tag",
        HSL,
        ONE,
        "",
        "Text in the place of the server's name, as in Tengine; `off` removes the name. Takes \
         precedence over `server_tokens`.",
        |b, c| {
            c.once(&b.location().server_tag)?;
            let text = if c.arg(1) == b"off" { b"" } else { c.arg(1) };
            b.location().server_tag = Some(template::compile(&mut b.names, text, 1, &c.origin)?);
            Ok(())
        },
    )
    .own(),
    Row::new(
        "server_info",
        HSL,
        ONE,
        "off",
        "Whether built-in error pages show the URL, this machine's name, `server_admin` and the \
         time, as in Tengine, where this is the default.",
        |b, c| c.flag(&mut b.location().server_info),
    )
    .own(),
    Row::new(
        "server_admin",
        HSL,
        ONE,
        "",
        "Whom error pages with `server_info on` name: text or HTML.",
        |b, c| {
            c.once(&b.location().server_admin)?;
            b.location().server_admin = Some(c.arg(1).into());
            Ok(())
        },
    )
    .own(),
    Row::new(
        "chunked_transfer_encoding",
        HSL,
        ONE,
        "on",
        "Whether chunked transfer encoding is used in HTTP/1.1 for responses of unknown length.",
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
        "Whether missing files are logged in the error log.",
        |b, c| c.flag(&mut b.location().log_not_found),
    ),
    Row::new(
        "log_subrequest",
        HSL,
        ONE,
        "off",
        "Whether subrequests (`auth_request`, `mirror`) are logged in the access log.",
        |b, c| c.flag(&mut b.location().log_subrequest),
    ),
    Row::new(
        "sendfile",
        HSL | LOCATION_IF,
        ONE,
        "off",
        "Whether files are sent with sendfile(2). This works on plain TCP.",
        |b, c| c.flag(&mut b.location().sendfile),
    ),
    Row::new(
        "sendfile_max_chunk",
        HSL,
        ONE,
        "2m",
        "Maximum number of bytes per sendfile(2) call, so that one fast connection does not hold \
         up the others; 0 means no limit.",
        |b, c| c.size(&mut b.location().sendfile_max_chunk),
    ),
    Row::new(
        "output_buffers",
        HSL,
        Arity::Between(2, 2),
        "2 32k",
        "Number and size of the buffers for reading a file without sendfile(2).",
        |b, c| c.buffers(&mut b.location().output_buffers),
    ),
    Row::new(
        "postpone_output",
        HSL,
        ONE,
        "1460",
        "If possible, sending is postponed until this many bytes are ready; 0 sends at once.",
        |b, c| c.size(&mut b.location().postpone_output),
    ),
    Row::meaningless(
        "aio",
        HSL,
        ONE,
        Check::By(SetterOf(thread_pools::aio)),
        "Reads that could block always run in a thread pool, as with nginx's `aio threads`.",
    ),
    Row::meaningless(
        "aio_write",
        HSL,
        ONE,
        Check::Flag,
        "Temporary files are always written in the thread pool.",
    ),
    Row::later(
        "directio",
        HSL,
        ONE,
        Check::Offset,
        "files of any size are read through the page cache",
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
        "the kernel's default read-ahead applies",
    ),
    Row::new(
        "msie_refresh",
        HSL,
        ONE,
        "off",
        "Whether clients that call themselves MSIE get a page that refreshes itself in place of a \
         redirect 301 or 302. No current browser needs that.",
        |b, c| c.flag(&mut b.location().msie_refresh),
    ),
];

fn server_tokens(b: &mut Build<'_>, c: &Call<'_>) -> Result<(), Fault> {
    use ServerTokens::{Off, On, Text};
    let words = [("off", Off), ("on", On), ("build", ServerTokens::Build)];
    let text = c.arg(1);
    let is_word = words
        .iter()
        .any(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text));
    // A word with one letter wrong is not meant as a name.
    let is_near = |word: &str| {
        let lower = String::from_utf8_lossy(text).to_ascii_lowercase();
        distance(word, &lower) == 1
    };
    if is_word || words.iter().any(|(word, _)| is_near(word)) {
        return c.choice(&mut b.location().server_tokens, &words);
    }
    c.once(&b.location().server_tokens)?;
    let text = template::compile(&mut b.names, text, 1, &c.origin)?;
    b.location().server_tokens = Some(Text(text));
    Ok(())
}
