//! `mp4`: a file from one second to another, with an index of its own.

use super::path::FilePath;
use super::{Step, open, set_content_type, static_file};
use crate::disk;
use crate::exchange::{ETag, Exchange};
use crate::open_file_cache::{Errno, OpenFile, Opened};
use crate::request_log::{Text, log_request};
use crate::variables::argument;
use sealane_http::mp4::{self, Cut, Mp4Error, Wanted};
use sealane_http::{Method, StatusCode};
use sealane_sys::file;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Sends the file that the URI leads to, or what of it is asked for.
pub(crate) async fn answer(exchange: &mut Exchange) -> Step {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Step::Status(StatusCode::NOT_ALLOWED);
    }
    if exchange.request.uri.ends_with(b"/") {
        return Step::Declined;
    }
    let path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Step::Status(status),
    };
    let (file, content) = match open(exchange, &path).await {
        Ok(Opened::File(file, content)) => (file, content),
        Ok(Opened::Directory | Opened::Other) => return Step::Declined,
        Err(errno) => return Step::Status(static_file::refuse(exchange, &path, errno)),
    };
    let wanted = wanted(exchange);
    let cut = match wanted {
        Some(wanted) => match cut(exchange, &path, &file, wanted).await {
            Ok(cut) => cut,
            Err(status) => return Step::Status(status),
        },
        None => Cut::Whole,
    };
    set_content_type(exchange);
    exchange.response.allow_ranges = true;
    exchange.response.single_range = wanted.is_some();
    static_file::send(exchange, &file, content);
    if let Cut::Part { head, data } = cut {
        let has_tag = exchange.conf().etag;
        let response = &mut exchange.response;
        response.body.clear();
        response.body.push_bytes(head);
        let (begin, len) = (data.start, data.end - data.start);
        response.body.push_file(Arc::clone(&file), begin, len);
        let len = response.body.len();
        response.content_length = Some(len);
        // Of what is sent, not of the file.
        response.etag = has_tag.then(|| ETag::of_file(file.mtime_s(), len));
    }
    Step::Answered
}

/// What `start` and `end` ask for; `None` is the file as it is.
fn wanted(exchange: &Exchange) -> Option<Wanted> {
    let args = &exchange.request.args;
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

async fn cut(
    exchange: &Exchange,
    path: &FilePath,
    file: &Arc<OpenFile>,
    wanted: Wanted,
) -> Result<Cut, StatusCode> {
    let opened = Arc::clone(file);
    let cut = disk::run(move || {
        mp4::cut(opened.size(), &wanted, |offset, len| {
            read(&opened, offset, len)
        })
    });
    match cut.await {
        Ok(cut) => return Ok(cut),
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

/// Reads so many bytes at a position. Blocks.
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
