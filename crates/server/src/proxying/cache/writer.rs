//! Writes cache files: under a temporary name, until they are complete.

use crate::temp_file::{Durability, Keep, TempFile, TempFileError};
use bytes::Bytes;
use sealane_cache::{BodyChecksum, CacheHeader, CacheKey, StoredFile, StoredLength};
use sealane_conf::model::TempPath;
use sealane_io::disk;
use sealane_io::open_file::OpenFile;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Longer bodies are on the disk for certain before their files get a name. The others have a
/// checksum, which costs nothing until they are read for the first time after a start.
const MAX_CHECKED_BYTES: u64 = 1 << 20;

/// Writes one response.
pub(super) struct Writer {
    /// What the file begins with; the length of the body comes in when it is known.
    start: Arc<Start>,
    /// Where it will be.
    path: PathBuf,
    /// Where it is written; `None` is beside its place.
    temp_path: Option<Arc<TempPath>>,
    file: Option<TempFile>,
    written: u64,
    checksum: BodyChecksum,
    work: Option<Work>,
}

/// The beginning of a file.
pub(super) struct Start {
    pub(super) header: CacheHeader,
    pub(super) key: CacheKey,
    /// The head, as it is kept.
    pub(super) head: Vec<u8>,
}

type Work = Pin<Box<dyn Future<Output = Result<JobDone, String>> + Send>>;

/// What a disk thread has done.
struct JobDone {
    file: TempFile,
    checksum: BodyChecksum,
    finished: WrittenAs,
}

/// What has been done.
pub(super) struct Written {
    pub(super) file: Arc<OpenFile>,
    /// Bytes of the body that are in the file.
    pub(super) written: u64,
    pub(super) finished: WrittenAs,
}

/// Whether the file has its name.
pub(super) enum WrittenAs {
    Part,
    File(StoredFile),
}

impl Writer {
    /// How much waits before it is written.
    pub(super) const PIECE_BYTES: u64 = 64 << 10;

    pub(super) fn new(start: Start, path: PathBuf, temp_path: Option<Arc<TempPath>>) -> Writer {
        Writer {
            start: Arc::new(start),
            path,
            temp_path,
            file: None,
            written: 0,
            checksum: BodyChecksum::default(),
            work: None,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.work.is_none()
    }

    /// Writes this, which follows all that was written. With `complete`, which is the length of
    /// the body, that is all.
    pub(super) fn begin(&mut self, pieces: Vec<Bytes>, complete: Option<u64>) {
        let added: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        let job = Job {
            file: self.file.take(),
            start: Arc::clone(&self.start),
            path: self.path.clone(),
            temp_path: self.temp_path.clone(),
            pieces,
            checksum: self.checksum.clone(),
            complete,
        };
        self.written += added;
        self.work = Some(Box::pin(disk::run(move || job.run())));
    }

    /// Ready when that is done.
    ///
    /// # Errors
    /// What failed, in nginx's words.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Written, String>> {
        let Some(work) = &mut self.work else {
            return Poll::Pending;
        };
        let done = ready!(work.as_mut().poll(cx));
        self.work = None;
        let done = match done {
            Ok(done) => done,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let written = Written {
            file: done.file.shared(),
            written: self.written,
            finished: done.finished,
        };
        self.file = Some(done.file);
        self.checksum = done.checksum;
        Poll::Ready(Ok(written))
    }
}

/// What a disk thread does at a time.
struct Job {
    file: Option<TempFile>,
    start: Arc<Start>,
    path: PathBuf,
    temp_path: Option<Arc<TempPath>>,
    pieces: Vec<Bytes>,
    /// Of what was written before.
    checksum: BodyChecksum,
    complete: Option<u64>,
}

impl Job {
    fn run(self) -> Result<JobDone, String> {
        let start = &*self.start;
        let mut header = start.header.clone();
        let mut checksum = self.checksum;
        for piece in &self.pieces {
            checksum.update(piece);
        }
        if let Some(bytes) = self.complete {
            header.length = StoredLength::of(bytes);
            let is_checked = bytes <= MAX_CHECKED_BYTES && header.holds_checksum();
            header.checksum = is_checked.then(|| checksum.value());
        }
        let mut file = match self.file {
            Some(mut file) => {
                if self.complete.is_some() {
                    let fixed = header.fixed(&start.key);
                    file.overwrite_blocking(0, &fixed).map_err(text)?;
                }
                file
            }
            None => {
                let created = create_blocking(self.temp_path.as_ref(), &self.path);
                let mut file = created.map_err(text)?;
                let bytes = header.encode(&start.key, &start.head);
                file.append_blocking(&bytes).map_err(text)?;
                file
            }
        };
        for piece in &self.pieces {
            file.append_blocking(piece).map_err(text)?;
        }
        if self.complete.is_none() {
            return Ok(JobDone {
                file,
                checksum,
                finished: WrittenAs::Part,
            });
        }
        name_blocking(&file, &self.path, &header).map_err(text)?;
        let stored = match fs::metadata(&self.path) {
            Ok(metadata) => StoredFile::new(&metadata, header.body_start),
            // It was purged at once, which the index finds out.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                StoredFile::of_bytes(file.len(), header.body_start)
            }
            Err(error) => {
                return Err(format!(
                    "stat() \"{}\" failed ({error})",
                    self.path.display()
                ));
            }
        };
        Ok(JobDone {
            file,
            checksum,
            finished: WrittenAs::File(stored),
        })
    }
}

/// Creates the file that will be at `path`. Blocks.
///
/// # Errors
/// What failed.
pub(super) fn create_blocking(
    temp_path: Option<&Arc<TempPath>>,
    path: &Path,
) -> Result<TempFile, TempFileError> {
    match temp_path {
        Some(place) => TempFile::create_blocking(place, Keep::WhileUsed),
        None => TempFile::create_beside_blocking(path),
    }
}

/// Gives a complete file its name. Without a checksum, nothing would tell what a power failure has
/// left of it, so it is on the disk before. Blocks.
///
/// # Errors
/// What failed.
pub(super) fn name_blocking(
    file: &TempFile,
    path: &Path,
    header: &CacheHeader,
) -> Result<(), TempFileError> {
    let durability = match header.checksum {
        Some(_) => Durability::Any,
        None => Durability::Whole,
    };
    file.rename_blocking(path, durability)
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
