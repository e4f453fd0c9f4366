//! `empty_gif`: one transparent pixel.

use super::Outcome;
use crate::exchange::{ContentType, Exchange};
use bytes::Bytes;
use sealane_http::{Method, StatusCode};

/// GIF 89a, 1x1 pixel, white and transparent, 43 bytes; the same file as nginx's.
const GIF: &[u8; 43] =
    b"GIF89a\x01\0\x01\0\x80\x01\0\0\0\0\xff\xff\xff!\xf9\x04\x01\0\0\x01\0,\0\0\0\0\x01\0\x01\0\0\x02\x02L\x01\0;";

/// The modification time that nginx gives the picture: 28 September 1970.
const MODIFIED_S: i64 = 23_349_600;

/// Sends the picture.
pub(crate) fn answer(exchange: &mut Exchange) -> Outcome {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Status(StatusCode::NOT_ALLOWED);
    }
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_type = ContentType::new(b"image/gif");
    response.content_length = Some(GIF.len() as u64);
    response.last_modified_s = Some(MODIFIED_S);
    response.body.clear();
    response.body.push_bytes(Bytes::from_static(GIF));
    Outcome::Answered
}
