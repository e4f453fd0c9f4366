//! ngx_http_slice_module, ngx_http_empty_gif_module, ngx_http_flv_module and
//! ngx_http_mp4_module.

use super::{Arity, HSL, LOCATION, Module, ONE, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::ContentHandler;

/// No argument.
const NONE: Arity = Arity::Between(0, 0);

pub(super) const MODULE: Module = Module {
    title: "HTTP: large files and media",
    doc: "Parts of FLV and MP4 files that players request with `?start=`, slices, and the empty \
        GIF.",
    rows: &[
        Row::new(
            "slice",
            HSL,
            ONE,
            "0",
            "Size of the pieces in which a response is requested from an upstream server; 0 \
             disables slicing. Requires `proxy_set_header Range $slice_range`.",
            |b, c| c.size(&mut b.location().slice),
        ),
        Row::new(
            "empty_gif",
            LOCATION,
            NONE,
            "",
            "Responds with a transparent one-pixel GIF.",
            |b, c| handler(b, c, ContentHandler::EmptyGif),
        ),
        Row::new(
            "flv",
            LOCATION,
            NONE,
            "",
            "Enables requests for an FLV file from a given position: `?start=BYTES`.",
            |b, c| handler(b, c, ContentHandler::Flv),
        ),
        Row::new(
            "mp4",
            LOCATION,
            NONE,
            "",
            "Enables requests for a part of an MP4 file: `?start=SECONDS&end=SECONDS`.",
            |b, c| handler(b, c, ContentHandler::Mp4),
        ),
        Row::new(
            "mp4_buffer_size",
            HSL,
            ONE,
            "512k",
            "An index up to this size is read even if `mp4_max_buffer_size` is smaller.",
            |b, c| c.size(&mut b.location().mp4_buffer_size),
        ),
        Row::new(
            "mp4_max_buffer_size",
            HSL,
            ONE,
            "10m",
            "Maximum size of a file's index (`moov`) that is read into memory to extract a part; \
             with a larger index, the request gets 500. All extractions in progress share 24 MiB, \
             or more if a single file needs it. If new indexes for slow clients would take more \
             than 16 MiB of memory in total, they are stored in files below \
             `client_body_temp_path`.",
            |b, c| c.size(&mut b.location().mp4_max_buffer_size),
        ),
        Row::new(
            "mp4_start_key_frame",
            HSL,
            ONE,
            "off",
            "Whether the part begins with a key frame. An edit list hides the frames before the \
             requested time.",
            |b, c| c.flag(&mut b.location().mp4_start_key_frame),
        ),
    ],
};

/// nginx takes the last one that is written.
fn handler(b: &mut Build<'_>, _: &Call<'_>, handler: ContentHandler) -> Result<(), Fault> {
    b.location().answer_by(handler);
    Ok(())
}
