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
    doc: "Parts of FLV and MP4 files that players ask for with `?start=`, and the empty GIF.",
    rows: &[
        Row::new(
            "slice",
            HSL,
            ONE,
            "0",
            "What is asked of another server comes in pieces of this size; 0 is off. The request must \
             say `proxy_set_header Range $slice_range`.",
            |b, c| c.size(&mut b.location().slice),
        ),
        Row::new(
            "empty_gif",
            LOCATION,
            NONE,
            "",
            "Answers with a GIF of one transparent pixel.",
            |b, c| handler(b, c, ContentHandler::EmptyGif),
        ),
        Row::new(
            "flv",
            LOCATION,
            NONE,
            "",
            "FLV files can be asked for from a position on: `?start=BYTES`.",
            |b, c| handler(b, c, ContentHandler::Flv),
        ),
        Row::new(
            "mp4",
            LOCATION,
            NONE,
            "",
            "MP4 files can be asked for from one second to another: `?start=SECONDS&end=SECONDS`.",
            |b, c| handler(b, c, ContentHandler::Mp4),
        ),
        Row::new(
            "mp4_buffer_size",
            HSL,
            ONE,
            "512k",
            "An index of this size is read whatever `mp4_max_buffer_size` says.",
            |b, c| c.size(&mut b.location().mp4_buffer_size),
        ),
        Row::new(
            "mp4_max_buffer_size",
            HSL,
            ONE,
            "10m",
            "The largest index (`moov`) of a file that is taken into memory while a part is cut; a \
             part of a file with a larger one is 500. What is cut at a time takes 24 MiB, or as much \
             as one file needs. New indexes wait for slow clients in files below \
             `client_body_temp_path` where they would take more than 16 MiB of memory together.",
            |b, c| c.size(&mut b.location().mp4_max_buffer_size),
        ),
        Row::new(
            "mp4_start_key_frame",
            HSL,
            ONE,
            "off",
            "Whether the part begins with a key frame. What is before the second that was asked for \
             is hidden by an edit list.",
            |b, c| c.flag(&mut b.location().mp4_start_key_frame),
        ),
    ],
};

/// nginx takes the last one that is written.
fn handler(b: &mut Build<'_>, _: &Call<'_>, handler: ContentHandler) -> Result<(), Fault> {
    let location = b.location();
    location.content_handler = Some(handler);
    location.passing.answers = None;
    location.stub_status = false;
    Ok(())
}
