//! `stub_status`: nginx's page of connection counts, summed over all worker threads.

use super::Outcome;
use crate::exchange::{ContentType, Exchange};
use sealane_http::{Method, StatusCode};

/// Answers with the counts.
pub(crate) fn answer(exchange: &mut Exchange) -> Outcome {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Status(StatusCode::NOT_ALLOWED);
    }
    let process = &exchange.worker.process;
    let accepted = process.total(|counts| counts.accepted.get());
    let handled = process.total(|counts| counts.handled.get());
    let requests = process.total(|counts| counts.requests.get());
    let active = process.level(|counters| counters.active.get());
    let reading = process.level(|counters| counters.reading.get());
    let writing = process.level(|counters| counters.writing.get());
    let waiting = process.level(|counters| counters.waiting.get());
    let text = format!(
        "Active connections: {active} \n\
         server accepts handled requests\n {accepted} {handled} {requests} \n\
         Reading: {reading} Writing: {writing} Waiting: {waiting} \n"
    );
    let response = &mut exchange.response;
    response.status = StatusCode::OK;
    response.content_type = ContentType::new(b"text/plain");
    response.content_length = Some(text.len() as u64);
    response.body.push_bytes(text);
    Outcome::Answered
}
