//! ngx_http_empty_gif_module, ngx_http_flv_module and ngx_http_mp4_module.

use super::{Arity, LOCATION, Module, Row};
use crate::build::Build;
use crate::call::{Call, Fault};
use crate::model::ContentHandler;

/// No argument.
const NONE: Arity = Arity::Between(0, 0);

pub(super) const MODULE: Module = Module {
    title: "HTTP: media files",
    doc: "Parts of FLV and MP4 files that players ask for with `?start=`, and the empty GIF.",
    rows: &[
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
