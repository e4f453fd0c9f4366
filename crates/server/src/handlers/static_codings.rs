//! `gzip_static`, `brotli_static`, `zstd_static`: the compressed copy of a file, with `.gz`,
//! `.br` or `.zst` appended to its name.

use super::path::FilePath;
use super::{Outcome, open, set_content_type, static_file};
use crate::codings::{self, Coding};
use crate::exchange::Exchange;
use crate::open_file_cache::Opened;
use crate::request_log::log_request;
use sealane_conf::model::{StaticCoding, StaticCodings};
use sealane_http::{Method, StatusCode};

/// Serves the first compressed copy that exists and that the client accepts.
pub(crate) async fn answer(exchange: &mut Exchange, codings: StaticCodings) -> Outcome {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Declined;
    }
    for coding in Coding::ALL {
        let who = match coding {
            Coding::Zstd => codings.zstd,
            Coding::Brotli => codings.brotli,
            Coding::Gzip => codings.gzip,
        };
        if who == StaticCoding::Off {
            continue;
        }
        match answer_in(exchange, coding, who == StaticCoding::On).await {
            Outcome::Declined => {}
            outcome => return outcome,
        }
    }
    Outcome::Declined
}

async fn answer_in(exchange: &mut Exchange, coding: Coding, by_client: bool) -> Outcome {
    let accepted = !by_client || codings::takes(exchange, coding);
    if !accepted && !exchange.conf().gzip_vary {
        return Outcome::Declined;
    }
    let mut path = match FilePath::of(exchange) {
        Ok(path) => path,
        Err(status) => return Outcome::Status(status),
    };
    path.push(coding.suffix());
    match open(exchange, &path).await {
        Ok(Opened::File(file, content)) => {
            exchange.response.varies_by_encoding |= by_client;
            if !accepted {
                // Another file is served, but caches must know of this one.
                return Outcome::Declined;
            }
            set_content_type(exchange);
            exchange.response.content_encoding = Some(coding.name());
            // The copy does not change, unlike a response that is compressed while it is sent.
            exchange.response.allow_ranges = true;
            static_file::send(exchange, &file, content);
            Outcome::Answered
        }
        Ok(Opened::Directory) => Outcome::Declined,
        Ok(Opened::Other) => {
            log_request!(exchange, Crit, "\"{path}\" is not a regular file");
            Outcome::Status(StatusCode::NOT_FOUND)
        }
        Err(errno) => {
            // A missing copy is the usual case. One that cannot be opened is not, but the plain
            // file may still do.
            if !errno.is_not_found() {
                let _ = static_file::refuse(exchange, &path, errno);
            }
            Outcome::Declined
        }
    }
}
