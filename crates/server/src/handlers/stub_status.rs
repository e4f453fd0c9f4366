//! `stub_status`: nginx's page of connection counts, summed over all worker threads.

use super::Outcome;
use crate::counters::Counters;
use crate::exchange::{ContentType, Exchange};
use crate::worker::Worker;
use sealane_http::{Method, StatusCode};

/// Sums over all threads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) accepted: u64,
    pub(crate) handled: u64,
    pub(crate) requests: u64,
    pub(crate) active: i64,
    pub(crate) reading: i64,
    pub(crate) writing: i64,
    pub(crate) waiting: i64,
}

impl Totals {
    /// The counts of all worker threads of the process.
    pub(crate) fn of(worker: &Worker) -> Totals {
        let mut totals = Totals::default();
        match worker.process.workers() {
            [] => totals.add(&worker.counters),
            workers => workers
                .iter()
                .for_each(|worker| totals.add(&worker.counters)),
        }
        totals
    }

    fn add(&mut self, counters: &Counters) {
        self.accepted += counters.accepted.get();
        self.handled += counters.handled.get();
        self.requests += counters.requests.get();
        self.active += counters.active.get();
        self.reading += counters.reading.get();
        self.writing += counters.writing.get();
        self.waiting += counters.waiting.get();
    }
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
