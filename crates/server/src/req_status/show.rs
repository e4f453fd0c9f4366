//! `req_status_show`.
//!
//! The lines are made on a disk thread: there are as many as zones have values.

use super::ReqStatusZoneRuntime;
use super::zone::Entry;
use crate::exchange::{ContentType, Exchange};
use crate::handlers::Outcome;
use crate::snapshot::Snapshot;
use sealane_conf::model::{ReqStatusField, ReqStatusShow};
use sealane_http::{Method, StatusCode};
use sealane_io::disk;
use std::fmt::Write;

/// Answers with the numbers.
pub(crate) async fn answer(exchange: &mut Exchange) -> Outcome {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Status(StatusCode::NOT_ALLOWED);
    }
    let Some(show) = exchange.conf().req_status_show.clone() else {
        return Outcome::Declined; // the handler and this are set together
    };
    let snapshot = exchange.snapshot.clone();
    if snapshot.req_status_zones.is_empty() {
        exchange.response.status = StatusCode::NO_CONTENT;
        return Outcome::Answered;
    }
    let text = disk::run(move || lines(&snapshot, &show)).await;
    let response = &mut exchange.response;
    let _ = response.headers.push(b"Cache-Control", b"no-store");
    response.status = StatusCode::OK;
    response.content_type = ContentType::new(b"text/plain");
    response.content_length = Some(text.len() as u64);
    response.body.push_bytes(text);
    Outcome::Answered
}

fn lines(snapshot: &Snapshot, show: &ReqStatusShow) -> String {
    let all = &snapshot.req_status_zones;
    let mut text = String::new();
    match &show.zones {
        None => all.iter().for_each(|zone| append(zone, show, &mut text)),
        Some(zones) => zones
            .iter()
            .for_each(|zone| append(&all[*zone], show, &mut text)),
    }
    text
}

fn append(zone: &ReqStatusZoneRuntime, show: &ReqStatusShow, text: &mut String) {
    let mut entries = zone.copied();
    entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    for (key, entry) in &entries {
        append_key(key, text);
        append_fields(zone, entry, show, text);
        text.push('\n');
    }
}

/// Values come from clients: none may look like two lines.
fn append_key(key: &[u8], line: &mut String) {
    for chunk in key.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                let _ = write!(line, "\\x{:02X}", u32::from(character)); // the same
            } else {
                line.push(character);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(line, "\\x{byte:02X}"); // a String takes everything
        }
    }
}

fn append_fields(
    zone: &ReqStatusZoneRuntime,
    entry: &Entry,
    show: &ReqStatusShow,
    line: &mut String,
) {
    let mut append = |number: u64| {
        let _ = write!(line, ",{number}"); // a String takes everything
    };
    let indicators = &zone.conf.indicators;
    let extra = |at: usize| entry.extra.get(at).copied().unwrap_or(0);
    let Some(fields) = &show.fields else {
        entry.sums.iter().for_each(|sum| append(*sum));
        (0..indicators.len()).for_each(|at| append(extra(at)));
        return;
    };
    for field in fields {
        match field {
            ReqStatusField::Counted(at) => append(entry.sums[*at]),
            ReqStatusField::Indicator(name) => {
                let at = indicators.iter().position(|known| known.name == *name);
                append(at.map_or(0, extra));
            }
        }
    }
}
