//! `flv`: a file from the position that `?start=` gives, preceded by a header.

use super::Outcome;
use super::media_file::{MediaFile, MediaPart};
use crate::exchange::Exchange;
use crate::variables;
use bytes::Bytes;
use sealane_http::decimal::parse_offset;
use sealane_io::chain::Segment;

/// The header of an FLV file with audio and video, and the size of the tag before the first, 0.
const HEADER: &[u8; 13] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// Sends the file of the URI, or the part that is asked for.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    let media = match MediaFile::open(exchange).await {
        Ok(media) => media,
        Err(outcome) => return outcome,
    };
    let size = media.file.size();
    let start = variables::argument(exchange.request.args(), b"start")
        .and_then(parse_offset)
        .filter(|start| (1..size).contains(start));
    let part = start.map(|start| MediaPart {
        head: Segment::Memory(Bytes::from_static(HEADER)),
        data: start..size,
    });
    media.send(exchange, part);
    Outcome::Answered
}
