//! What becomes of the origin's answer: a response that is kept or not, a 304, a failure.

use super::super::body::Pace;
use super::super::next::Cause;
use super::super::wire::UpstreamHead;
use super::super::{PassRuntime, conversation::Conversation, lease::Leased};
use super::fill::{Fill, FillReader, Filling};
use super::freshness::Freshness;
use super::look::{any, variant_of};
use super::writer::{Start, Writer};
use super::{CacheState, CacheStatus, answer, form, rfc9111, settings, state_mut, tags};
use crate::body_source::{BodySource, PendingBody};
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::request_log::log_request;
use crate::subrequest;
use sealane_cache::{CacheHeader, CacheKey, NO_TIME, StoredLength, Subject, Tags, Visit};
use sealane_conf::model::{CacheRules, CacheSettings, NextUpstreamCause, Pass};
use sealane_http::h1::ResponseFraming;
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode, date};
use sealane_io::chain::OutputChain;
use sealane_io::disk;
use sealane_sys::time::unix_coarse_s;
use std::future::poll_fn;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::task::{Context, Waker};

/// The origin has failed. If a stale response may take its place, that is the answer.
pub(in crate::proxying) fn failed(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    cause: Cause,
    status: StatusCode,
) -> Option<Outcome> {
    let settings = settings(pass)?;
    let may = {
        let state = super::state(exchange)?;
        let is_named = match cause {
            Cause::Error => settings.use_stale.contains(NextUpstreamCause::Error),
            Cause::Timeout => settings.use_stale.contains(NextUpstreamCause::Timeout),
            Cause::InvalidHeader => settings
                .use_stale
                .contains(NextUpstreamCause::InvalidHeader),
            Cause::Status(status) => settings.use_stale.contains_status(status),
        };
        let by_response = state.allows_stale
            && match cause {
                Cause::Status(status) => state.lookup.is_on && rfc9111::is_error(status),
                _ => true,
            };
        state.status == CacheStatus::Expired
            && (is_named || by_response)
            && !state.lookup.forbids_stale
    };
    if may && let Some(outcome) = serve_stale(exchange, pass, CacheStatus::Stale) {
        return Some(outcome);
    }
    // As in nginx, these statuses can stand for a response, too.
    let can_stand = status == StatusCode::BAD_GATEWAY || status == StatusCode::GATEWAY_TIMEOUT;
    if can_stand && let Some(until_s) = configured_until(settings, status, unix_coarse_s()) {
        let state = state_mut(exchange)?;
        if state.is_cacheable {
            stand_for_response(state, status, until_s);
        }
    }
    state_mut(exchange)?.visit = None;
    None
}

/// Until when a response with this status is fresh, as `cache_valid` has it; `None` if it is not.
fn configured_until(settings: &CacheSettings, status: StatusCode, now_s: i64) -> Option<i64> {
    let time = settings.valid(status.0).filter(|time| !time.is_zero())?;
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Some(now_s.saturating_add(seconds))
}

fn stand_for_response(state: &mut CacheState, status: StatusCode, until_s: i64) {
    if let Some(visit) = &state.visit {
        let subject = Subject {
            key: state.key.clone(),
            tags: Tags::Unknown,
        };
        if !visit.is_purged(&subject) {
            visit.set_failure(status.0, until_s);
        }
    }
}

/// Answers with the stale response.
fn serve_stale(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    status: CacheStatus,
) -> Option<Outcome> {
    let state = state_mut(exchange)?;
    let stored = *state.stale.take()?;
    let head = form::decode(&pass.pass, &stored.head)?;
    state.status = status;
    state.visit = None;
    Some(answer::from_file(exchange, pass, head, stored))
}

/// The origin has responded: confirms what there is, or replaces the response by a stale one.
/// Called before anything else looks at the response.
pub(in crate::proxying) async fn response(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: &UpstreamHead,
) -> Option<Outcome> {
    let settings = settings(pass)?;
    let state = state_mut(exchange)?;
    let status = head.parsed.status;
    state.lookup.origin = Some(status);
    if state.status != CacheStatus::Expired || state.stale.is_none() {
        return None;
    }
    let lookup = &state.lookup;
    let by_response = lookup.is_on && state.allows_stale && rfc9111::is_error(status.0);
    if (settings.use_stale.contains_status(status.0) || by_response) && !lookup.forbids_stale {
        return serve_stale(exchange, pass, CacheStatus::Stale);
    }
    if lookup.is_on {
        return Box::pin(rfc9111::response(exchange, pass, settings, head)).await;
    }
    if status == StatusCode::NOT_MODIFIED && settings.revalidate {
        return Box::pin(confirm(exchange, pass, settings, head)).await;
    }
    None
}

/// Answers with the response that the origin has confirmed.
pub(super) fn serve_confirmed(exchange: &mut Exchange, pass: &PassRuntime) -> Option<Outcome> {
    serve_stale(exchange, pass, CacheStatus::Revalidated)
}

/// 304: what there is, is fresh again.
async fn confirm(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    head: &UpstreamHead,
) -> Option<Outcome> {
    let now_s = unix_coarse_s();
    let ignored = pass.settings().ignore_headers;
    let mut freshness = Freshness::of(head, ignored, now_s);
    let state = state_mut(exchange)?;
    let mut stored = state.stale.clone()?;
    let kept = form::decode(&pass.pass, &stored.head)?;
    if freshness.valid_s == 0 {
        freshness = Freshness::of(&kept, ignored, now_s);
    }
    if freshness.valid_s == 0
        && let Some(until_s) = configured_until(settings, kept.parsed.status, now_s)
    {
        freshness.valid_s = until_s;
    }
    // Purged meanwhile, it is good for this client alone. That is looked at after the time, so that
    // a later purge is later than what the file will say.
    let subject = Subject {
        key: state.key.clone(),
        tags: tags::of_head(&stored.head),
    };
    let is_purged = match &state.visit {
        Some(visit) => visit.is_purged(&subject),
        None => true,
    };
    if freshness.valid_s != 0 && !is_purged {
        stored.header.valid_s = freshness.valid_s;
        stored.header.updating_s = freshness.updating_s;
        stored.header.error_s = freshness.error_s;
        stored.header.date_s = now_s;
        let fixed = stored.header.fixed(&state.key);
        let path = state.zone.index.file_path(&state.hash);
        let length = stored.file.size();
        let before = Arc::clone(&stored.file);
        let written = disk::run(move || -> std::io::Result<()> {
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)?;
            let metadata = file.metadata()?;
            let same = sealane_sys::file::stat_fd(std::os::fd::AsFd::as_fd(&*before))?;
            // It may have been replaced meanwhile.
            if metadata.ino() == same.inode && metadata.len() == length {
                file.write_all_at(&fixed, 0)?;
            }
            Ok(())
        });
        match written.await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let path =
                    super::state(exchange).map(|state| state.zone.index.file_path(&state.hash));
                let path = path.unwrap_or_default();
                log_request!(
                    exchange,
                    Crit,
                    "write() \"{}\" failed ({})",
                    path.display(),
                    sealane_log::OsError(&error)
                );
            }
        }
    }
    state_mut(exchange)?.stale = Some(stored);
    serve_confirmed(exchange, pass)
}

/// An error page takes the place of a response; its status may stand for one.
pub(in crate::proxying) fn intercepted(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: &UpstreamHead,
) {
    let Some(settings) = settings(pass) else {
        return;
    };
    let now_s = unix_coarse_s();
    let is_rfc = settings.rules == CacheRules::Rfc9111;
    let freshness = freshness(exchange, pass, settings, head, now_s);
    let Some(state) = state_mut(exchange) else {
        return;
    };
    if state.is_cacheable && freshness.allows() {
        let status = head.parsed.status;
        let until_s = match freshness.valid_s {
            0 => configured_until(settings, status, now_s),
            time => Some(time),
        };
        if let Some(until_s) = until_s.filter(|time| !is_rfc || *time > now_s) {
            stand_for_response(state, status, until_s);
        }
    }
    state.visit = None;
}

/// The response will not be kept; others need not wait for it.
pub(in crate::proxying) fn let_go(exchange: &mut Exchange) {
    if let Some(state) = state_mut(exchange) {
        state.visit = None;
        state.is_cacheable = false;
    }
}

/// What the rules of the location say about a response.
fn freshness(
    exchange: &Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    head: &UpstreamHead,
    now_s: i64,
) -> Freshness {
    match settings.rules {
        CacheRules::Nginx => Freshness::of(head, pass.settings().ignore_headers, now_s),
        CacheRules::Rfc9111 => rfc9111::freshness(exchange, pass, settings, head, now_s),
    }
}

/// How a response is kept.
pub(in crate::proxying) struct Keeping {
    key: CacheKey,
    header: CacheHeader,
    /// What a purge can name of it.
    subject: Subject,
    /// The head for other clients, where it is not that of the one who has asked.
    shared_head: Option<Arc<UpstreamHead>>,
    visit: Visit<Fill>,
    writer: Writer,
}

/// Whether the response is kept; its head is in the exchange already.
pub(in crate::proxying) fn keep(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: &UpstreamHead,
    method: Method,
    buffers: bool,
) -> Option<Box<Keeping>> {
    let settings = settings(pass)?;
    let is_rfc = settings.rules == CacheRules::Rfc9111;
    if is_rfc && super::state(exchange).is_none() {
        rfc9111::note_passed_on(exchange, pass, head, false);
    }
    let now_s = match is_rfc {
        true => rfc9111::received_s(exchange),
        false => unix_coarse_s(),
    };
    let mut freshness = freshness(exchange, pass, settings, head, now_s);
    let refuses = any(exchange, &settings.no_cache);
    let status = head.parsed.status;
    let is_cacheable = super::state(exchange)?.is_cacheable;
    // The origin was not told of conditions; as in nginx, they count though nothing is kept, unless
    // that is because of a field of the response.
    if is_cacheable && (freshness.allows() || is_rfc) {
        answer::mark(exchange, head, false);
    }
    // A body that was announced and not sent would take the place of the one that there is; and
    // without a length nothing would tell the response from one to GET with an empty body.
    let announced = head.parsed.framing(Method::Get);
    let has_none = matches!(
        announced,
        ResponseFraming::None | ResponseFraming::Length(0)
    );
    let is_told_apart =
        matches!(pass.pass, Pass::Proxy(_)) && matches!(announced, ResponseFraming::Length(_));
    let lacks_body = method == Method::Head && !has_none && !is_told_apart;
    let may = is_cacheable && buffers && !refuses && !lacks_body && freshness.allows();
    if freshness.valid_s == 0
        && let Some(until_s) = configured_until(settings, status, now_s)
    {
        freshness.valid_s = until_s;
    }
    // As far as the response itself is concerned.
    let has_no_time = !freshness.allows() || freshness.valid_s == 0;
    let kept = match may && freshness.valid_s != 0 {
        true => prepare(exchange, pass, head, freshness, now_s),
        false => None,
    };
    if kept.is_none() {
        // An origin in trouble is asked by one at a time.
        let is_refused = is_cacheable && !refuses && has_no_time && status.0 < 500;
        if is_refused && let Some(visit) = state_mut(exchange)?.visit.take() {
            visit.refuse();
        }
        let_go(exchange);
    }
    if is_rfc {
        rfc9111::note_passed_on(exchange, pass, head, kept.is_some());
    }
    kept
}

fn prepare(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    head: &UpstreamHead,
    freshness: Freshness,
    now_s: i64,
) -> Option<Box<Keeping>> {
    let (kept_head, shared_head) = match super::state(exchange)?.lookup.is_on {
        true => {
            let (kept, shared) = rfc9111::as_kept(pass, head, now_s)?;
            (kept, Some(shared))
        }
        false => (form::encode(&pass.pass, pass.speaks_http2(), head), None),
    };
    let variant = match freshness.vary.is_empty() {
        true => None,
        false => {
            let state = super::state(exchange)?;
            Some(variant_of(exchange, &state.key, &freshness.vary))
        }
    };
    let state = state_mut(exchange)?;
    // If the response is not the variant that was looked for, its place is that of the main key.
    let is_variant = state.hash != state.key.hash();
    if is_variant && variant != Some(state.hash) {
        state.hash = state.key.hash();
        state.visit = None;
    }
    let visit = match state.visit.take() {
        Some(visit) => visit,
        None => {
            let (mut visit, _) = Visit::begin(&state.zone.index, state.hash, 1, now_s).ok()?;
            visit.date_back(state.generation);
            visit
        }
    };
    let subject = Subject {
        key: state.key.clone(),
        tags: tags::of_head(&kept_head),
    };
    let has_validators = matches!(head.parsed.status.0, 200 | 206);
    let field = |name| {
        let value = head.parsed.get(name).filter(|_| has_validators)?;
        Some(value.of(&head.buffer))
    };
    let header_start = u16::try_from(CacheHeader::start_for(&state.key)).ok()?;
    let body_start = u16::try_from(usize::from(header_start) + kept_head.len()).ok()?;
    let header = CacheHeader {
        valid_s: freshness.valid_s,
        updating_s: freshness.updating_s,
        error_s: freshness.error_s,
        last_modified_s: field(KnownHeader::LastModified)
            .and_then(date::parse)
            .unwrap_or(NO_TIME),
        date_s: now_s,
        header_start,
        body_start,
        etag: field(KnownHeader::Etag).unwrap_or_default().into(),
        vary: freshness.vary.into(),
        variant: variant.unwrap_or_default(),
        length: StoredLength::Unknown,
        checksum: None,
    };
    let start = Start {
        header: header.clone(),
        key: state.key.clone(),
        head: kept_head,
    };
    let path = state.zone.index.file_path(&state.hash);
    let writer = Writer::new(start, path, state.temp_path(pass));
    Some(Box::new(Keeping {
        key: state.key.clone(),
        header,
        subject,
        shared_head,
        visit,
        writer,
    }))
}

impl Keeping {
    /// Begins to receive the response: its body is what the client gets as it arrives. With a
    /// `limit_rate` other than 0, no more than so many bytes per second are read.
    pub(in crate::proxying) fn begin(
        self,
        exchange: &mut Exchange,
        head: Arc<UpstreamHead>,
        conversation: Box<Conversation>,
        lease: Leased,
        limit_rate: u64,
    ) {
        let Keeping {
            key,
            header,
            subject,
            shared_head,
            mut visit,
            writer,
        } = self;
        let date_s = header.date_s;
        if let Some(state) = state_mut(exchange) {
            state.date_s = Some(date_s);
        }
        // One without any length may be empty, as far as a file of it could tell.
        let is_head_only = conversation.method() == Method::Head
            && matches!(
                head.parsed.framing(Method::Get),
                ResponseFraming::Length(1..)
            );
        let head = shared_head.unwrap_or(head);
        let fill = Arc::new(Fill::new(key, header, head, is_head_only));
        let mut reader = FillReader::new(Arc::clone(&fill), true);
        let mut filling = {
            visit.begin_fill(Arc::clone(&fill), subject, date_s);
            let pace = (limit_rate > 0).then(|| Pace::new(limit_rate));
            Filling::new(fill, conversation, lease, visit, writer, pace, exchange)
        };
        // The task registers for what follows.
        filling.receive(&mut Context::from_waker(Waker::noop()));
        let mut chain = OutputChain::new();
        if reader.take_at_once(&mut chain) {
            exchange.response.body = chain;
            exchange.response.trailers = reader.take_trailers(exchange);
            filling.note_statistics(exchange);
        } else {
            exchange.response.source = Some(PendingBody::new(reader));
        }
        subrequest::in_background(exchange, async move {
            poll_fn(|cx| filling.poll(cx)).await;
        });
    }
}
