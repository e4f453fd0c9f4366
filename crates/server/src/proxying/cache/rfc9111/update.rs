//! What a 304, or a response to HEAD, changes in what is kept (RFC 9111 sections 3.2, 4.3.4 and
//! 4.3.5).

use super::super::super::PassRuntime;
use super::super::super::wire::UpstreamHead;
use super::super::fill::Fill;
use super::super::stored::StoredResponse;
use super::super::{form, keep, state, state_mut, tags, writer};
use super::head;
use super::invalidation::log_failure;
use super::keep::{circumstances, kept_text, received_s};
use super::policy::Policy;
use crate::exchange::Exchange;
use crate::handlers::Outcome;
use crate::request_log::log_request;
use crate::temp_file::TempFileError;
use sealane_cache::{CacheHeader, CacheKey, NO_TIME, StoredFile, StoredLength, Subject, Visit};
use sealane_conf::model::{CacheSettings, TempPath};
use sealane_http::headers::KnownHeader;
use sealane_http::{Method, StatusCode, date};
use sealane_io::disk;
use sealane_sys::file;
use std::fs::{self, File, OpenOptions};
use std::future::poll_fn;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a body that are copied at a time.
const PIECE_BYTES: usize = 256 << 10;
/// The least that file systems and disks write at a time, as a rule.
const PAGE_BYTES: usize = 4096;

/// The origin has responded although there is a response: what that means for it. An answer, if the
/// client gets what there is.
pub(in crate::proxying::cache) async fn response(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    newer: &UpstreamHead,
) -> Option<Outcome> {
    let is_head = exchange.request.head.method == Method::Head && !settings.convert_head;
    if !state(exchange)?.is_cacheable {
        // The conditions were the client's own.
        return None;
    }
    match newer.parsed.status {
        StatusCode::NOT_MODIFIED if settings.revalidate => {
            confirm(exchange, pass, settings, newer).await
        }
        StatusCode::OK if is_head => update_by_head(exchange, pass, settings, newer).await,
        _ => None,
    }
}

/// The head of what there is.
fn stale_head(exchange: &Exchange, pass: &PassRuntime) -> Option<Arc<UpstreamHead>> {
    let stored = state(exchange)?.stale.as_deref()?;
    form::decode(&pass.pass, &stored.head)
}

/// 304: what there is, with the fields of the 304, is fresh again, and the answer.
async fn confirm(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    newer: &UpstreamHead,
) -> Option<Outcome> {
    let kept = stale_head(exchange, pass)?;
    // A 304 about another version changes nothing; the client gets what was asked about.
    if !has_other_tag(&kept, newer) {
        freshen(exchange, pass, settings, &kept, newer).await;
    }
    keep::serve_confirmed(exchange, pass)
}

/// 200 to a HEAD that was sent as such: what there is has the fields of it, and is fresh again. If
/// it is another version, what there is goes.
async fn update_by_head(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    newer: &UpstreamHead,
) -> Option<Outcome> {
    let kept = stale_head(exchange, pass)?;
    let value = |head: &UpstreamHead, name| {
        let value = head.parsed.get(name)?;
        Some(value.of(&head.buffer).to_vec())
    };
    let differs = |name| {
        let newer = value(newer, name);
        newer.is_some() && newer != value(&kept, name)
    };
    let is_other = differs(KnownHeader::Etag)
        || differs(KnownHeader::LastModified)
        || differs(KnownHeader::ContentLength);
    if !is_other && kept.parsed.status == StatusCode::OK {
        freshen(exchange, pass, settings, &kept, newer).await;
        return keep::serve_confirmed(exchange, pass);
    }
    let state = state_mut(exchange)?;
    state.stale = None;
    let (zone, hash) = (Arc::clone(&state.zone.index), state.hash);
    if let Err(failure) = disk::run(move || zone.invalidate(&hash)).await {
        log_failure(exchange, &failure);
    }
    None
}

/// Whether both have strong tags, and not the same.
fn has_other_tag(kept: &UpstreamHead, newer: &UpstreamHead) -> bool {
    let strong = |head: &UpstreamHead| {
        let tag = head.parsed.get(KnownHeader::Etag)?.of(&head.buffer);
        (!tag.starts_with(b"W/")).then(|| tag.to_vec())
    };
    strong(kept)
        .zip(strong(newer))
        .is_some_and(|(one, other)| one != other)
}

/// Gives the stale response the fields of a newer head, in its file, too.
async fn freshen(
    exchange: &mut Exchange,
    pass: &PassRuntime,
    settings: &CacheSettings,
    kept: &UpstreamHead,
    newer: &UpstreamHead,
) {
    let received_s = received_s(exchange);
    let old = form::text(false, kept);
    let text = head::updated(&old, &kept_text(pass, newer, received_s));
    let Some(merged) = form::decode(&pass.pass, &form::wrap(&pass.pass, text.clone())) else {
        return;
    };
    let policy = Policy::of(&merged, pass.settings().ignore_headers);
    // What the older directives say about fields counts for the newer ones, too.
    let text = head::kept(&text, &policy.omitted(), None);
    let is_news = !head::is_same_but_for_time(&old, &text);
    let wrapped = form::wrap(&pass.pass, text);
    let around = circumstances(exchange, settings, merged.parsed.status);
    let until_s = policy.kept_until(received_s, &around);
    let Some(state) = state_mut(exchange) else {
        return;
    };
    let temp_path = state.temp_path(pass);
    let Some(stored) = state.stale.as_deref_mut() else {
        return;
    };
    let body_start = usize::from(stored.header.header_start) + wrapped.len();
    let Ok(body_start) = u16::try_from(body_start) else {
        return;
    };
    let field = |name| Some(merged.parsed.get(name)?.of(&merged.buffer));
    let (updating_s, error_s) = policy.stale_windows();
    let header = CacheHeader {
        valid_s: until_s.unwrap_or(received_s - 1),
        updating_s,
        error_s,
        last_modified_s: field(KnownHeader::LastModified)
            .and_then(date::parse)
            .unwrap_or(NO_TIME),
        date_s: received_s,
        body_start,
        etag: field(KnownHeader::Etag).unwrap_or_default().into(),
        length: StoredLength::of(stored.body_bytes()),
        ..stored.header.clone()
    };
    let change = Change {
        path: state.zone.index.file_path(&state.hash),
        key: state.key.clone(),
        temp_path,
        before: stored.clone(),
        header: header.clone(),
        head: wrapped.clone(),
    };
    // This request still reads the file that it has found.
    let body_start = stored.header.body_start;
    stored.header = CacheHeader {
        body_start,
        ..header
    };
    stored.head = wrapped;
    let visit = state.visit.take();
    // What is confirmed each time needs no new time.
    let is_worth_it = until_s.is_some_and(|until_s| is_news || until_s > received_s);
    if is_worth_it && let Some(visit) = visit {
        write(exchange, visit, change).await;
    }
}

/// What is done to a file.
struct Change {
    path: PathBuf,
    key: CacheKey,
    temp_path: Option<Arc<TempPath>>,
    before: StoredResponse,
    header: CacheHeader,
    head: Vec<u8>,
}

/// Writes the head, if no newer response has taken the place of this one meanwhile.
async fn write(exchange: &Exchange, mut visit: Visit<Fill>, change: Change) {
    let subject = Subject {
        key: change.key.clone(),
        tags: tags::of_head(&change.head),
    };
    // That is looked at after the time, so that a later purge is later than what the file will say.
    visit.begin_rewrite(subject, change.header.date_s);
    if !poll_fn(|cx| visit.poll_store(cx)).await {
        return;
    }
    match disk::run(move || change.make()).await {
        Ok(Some(file)) => visit.stored(file),
        Ok(None) => {}
        Err(error) => log_request!(exchange, Crit, "{error}"),
    }
}

impl Change {
    /// Writes the head into the file if it differs in values of the same length only, and fits into
    /// one page: whoever reads it meanwhile, or after a power failure, finds one that makes sense.
    /// Otherwise there will be a new file. `None` if the file is not there any more, or is another
    /// one. Blocks.
    fn make(self) -> Result<Option<StoredFile>, String> {
        let failed = |call| {
            let path = self.path.display();
            move |error: io::Error| format!("{call} \"{path}\" failed ({error})")
        };
        let opened = OpenOptions::new().read(true).write(true).open(&self.path);
        let there = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(failed("open()"))?,
        };
        let metadata = there.metadata().map_err(failed("fstat()"))?;
        let known = file::stat_fd(self.before.file.as_fd()).map_err(failed("fstat()"))?;
        if metadata.ino() != known.inode {
            return Ok(None);
        }
        let beginning = self.header.encode(&self.key, &self.head);
        let is_in_place =
            head::has_same_layout(&self.before.head, &self.head) && beginning.len() <= PAGE_BYTES;
        if is_in_place {
            there
                .write_all_at(&beginning, 0)
                .map_err(failed("write()"))?;
        } else {
            self.rewrite(&there, &beginning)?;
        }
        let metadata = fs::metadata(&self.path).map_err(failed("stat()"))?;
        Ok(Some(StoredFile::new(&metadata, self.header.body_start)))
    }

    /// Makes a file with the new head and the old body, and gives it the name.
    fn rewrite(&self, there: &File, beginning: &[u8]) -> Result<(), String> {
        let text = |error: TempFileError| error.to_string();
        let created = writer::create_blocking(self.temp_path.as_ref(), &self.path);
        let mut new = created.map_err(text)?;
        new.append_blocking(beginning).map_err(text)?;
        let mut piece = vec![0; PIECE_BYTES];
        let (mut at, end) = (
            u64::from(self.before.header.body_start),
            self.before.file.size(),
        );
        while at < end {
            let wanted = piece
                .len()
                .min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let read = there.read_exact_at(&mut piece[..wanted], at);
            let path = self.path.display();
            read.map_err(|error| format!("pread() \"{path}\" failed ({error})"))?;
            new.append_blocking(&piece[..wanted]).map_err(text)?;
            at += wanted as u64;
        }
        writer::name_blocking(&new, &self.path, &self.header).map_err(text)
    }
}
