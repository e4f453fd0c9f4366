//! `stub_status`: nginx's page of connection counts, summed over all worker threads.

use super::Outcome;
use crate::exchange::{ContentType, Exchange};
use crate::worker::Worker;
use sealane_http::{Method, StatusCode};

/// Sums over all threads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) accepted: u64,
    pub(crate) handled: u64,
    pub(crate) requests: u64,
    pub(crate) active: u64,
    pub(crate) reading: u64,
    pub(crate) writing: u64,
    pub(crate) waiting: u64,
}

impl Totals {
    /// The counts of all worker threads.
    pub(crate) fn of(worker: &Worker) -> Totals {
        let process = &worker.process;
        if process.workers().is_empty() {
            // The only one there is, in tests.
            return Totals {
                accepted: worker.counters.accepted.get(),
                handled: worker.counters.handled.get(),
                requests: worker.counters.requests.get(),
                active: level(worker.counters.active.get()),
                reading: level(worker.counters.reading.get()),
                writing: level(worker.counters.writing.get()),
                waiting: level(worker.counters.waiting.get()),
            };
        }
        Totals {
            accepted: process.total(|counts| counts.accepted.get()),
            handled: process.total(|counts| counts.handled.get()),
            requests: process.total(|counts| counts.requests.get()),
            active: process.level(|counters| counters.active.get()),
            reading: process.level(|counters| counters.reading.get()),
            writing: process.level(|counters| counters.writing.get()),
            waiting: process.level(|counters| counters.waiting.get()),
        }
    }
}

fn level(level: i64) -> u64 {
    u64::try_from(level).unwrap_or(0)
}

/// Answers with the counts.
pub(crate) fn answer(exchange: &mut Exchange) -> Outcome {
    if !matches!(exchange.request.head.method, Method::Get | Method::Head) {
        return Outcome::Status(StatusCode::NOT_ALLOWED);
    }
    let Totals {
        accepted,
        handled,
        requests,
        active,
        reading,
        writing,
        waiting,
    } = Totals::of(&exchange.worker);
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
