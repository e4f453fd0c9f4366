//! `mp4`: a file from one second to another, with an index that matches.
//!
//! An index takes megabytes, so the number of those that are made at a time or wait for clients
//! is bounded ([`made`]).

use super::media_file::{MediaFile, MediaPart};
use super::{Outcome, made};
use crate::exchange::Exchange;
use crate::open_file_cache::{Errno, OpenFile};
use crate::request_log::{Text, log_request};
use crate::variables::argument;
use sealane_http::StatusCode;
use sealane_http::mp4::{self, Cut, Mp4Error, SCAN_BYTES, Wanted};
use sealane_io::disk;
use sealane_sys::file;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Sends the file of the URI, or the part that is asked for.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    let media = match MediaFile::open(exchange).await {
        Ok(media) => media,
        Err(outcome) => return outcome,
    };
    let wanted = wanted(exchange);
    let part = match wanted {
        Some(wanted) => match cut(exchange, &media, wanted).await {
            Ok(part) => part,
            Err(status) => return Outcome::Status(status),
        },
        None => None,
    };
    exchange.response.single_range = wanted.is_some();
    media.send(exchange, part);
    Outcome::Answered
}

/// What `start` and `end` ask for; `None` is the file as it is.
fn wanted(exchange: &Exchange) -> Option<Wanted> {
    let args = exchange.request.args();
    if args.is_empty() {
        return None;
    }
    let time = |name| argument(args, name).and_then(mp4::milliseconds);
    let end = time(b"end").filter(|end| *end > 0);
    let start_ms = match (time(b"start"), end) {
        (Some(start), _) => start,
        (None, Some(_)) => 0,
        (None, None) => return None,
    };
    let settings = exchange.conf().mp4.as_deref()?;
    Some(Wanted {
        start_ms,
        length_ms: end.map_or(0, |end| end.saturating_sub(start_ms)),
        start_key_frame: settings.start_key_frame,
        buffer_bytes: settings.buffer_bytes,
        max_buffer_bytes: settings.max_buffer_bytes,
    })
}

/// What is to be sent instead of the file; `None` means all of it.
async fn cut(
    exchange: &Exchange,
    media: &MediaFile,
    wanted: Wanted,
) -> Result<Option<MediaPart>, StatusCode> {
    let (opened, path) = (Arc::clone(&media.file), &media.path);
    let temp_path = Arc::clone(&exchange.conf().client_body_temp_path);
    let cut = disk::run(move || {
        // Held until the new index is stored for the client.
        let mut room = None;
        let cut = mp4::cut(opened.size(), &wanted, |offset, len| {
            if len as u64 > SCAN_BYTES && room.is_none() {
                // Memory for the index, and for the new one.
                room = Some(made::wait_for_room(2 * len));
            }
            read(&opened, offset, len)
        });
        cut.map(|cut| match cut {
            Cut::Part { head, data } => {
                made::keep(&temp_path, head).map(|head| Some(MediaPart { head, data }))
            }
            Cut::Whole => Ok(None),
        })
    });
    match cut.await {
        Ok(Ok(part)) => return Ok(part),
        Ok(Err(error)) => log_request!(exchange, Crit, "{error}"),
        Err(Mp4Error::Malformed(message)) => {
            let name = Text(path.as_bytes()).to_string();
            log_request!(exchange, Error, "{}", message.replacen("FILE", &name, 1));
        }
        Err(Mp4Error::Read(error)) => {
            let errno = Errno::of(&error);
            log_request!(exchange, Crit, "pread() \"{path}\" failed ({errno})");
        }
    }
    Err(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Reads this many bytes at a position. Blocks.
fn read(opened: &OpenFile, offset: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let (left, position) = (len - bytes.len(), offset + bytes.len() as u64);
        if file::read_at(opened.as_fd(), &mut bytes, left, position)? == 0 {
            // It has become shorter since it was opened.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(bytes)
}
