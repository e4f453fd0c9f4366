//! Responses that are read from cache files.

use crate::handlers::open_at_once_or_from_disk;
use crate::open_file_cache::{Errno, OpenFile, Opened};
use bytes::Bytes;
use sealane_cache::{BodyChecksum, CacheHeader, CacheKey, FIXED_BYTES, Mismatch};
use sealane_io::disk;
use sealane_io::open_file::Read;
use sealane_sys::file;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are read first if the index does not know where the body begins: `proxy_buffer_size`
/// is about as much.
const FIRST_BYTES: usize = 4 << 10;

/// A response in a file.
#[derive(Debug, Clone)]
pub(super) struct StoredResponse {
    pub(super) header: CacheHeader,
    /// The head, as it is kept.
    pub(super) head: Vec<u8>,
    pub(super) file: Arc<OpenFile>,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum Unusable {
    /// There is no file.
    Missing,
    /// It was purged.
    Purged,
    /// It is not a file for the key.
    Mismatch(Mismatch),
    /// It has lost a part, or more has come to it.
    Length,
    /// Its body is not the one that was written.
    Checksum,
    /// It cannot be opened or read: the call that failed, and why.
    Failed(&'static str, Errno),
}

impl StoredResponse {
    /// Reads the file of a key. `first_bytes` is where its body begins, or 0. Unless it `is_proven`
    /// the body is compared with its checksum.
    ///
    /// # Errors
    /// See [`Unusable`].
    pub(super) async fn read(
        path: &Path,
        key: &CacheKey,
        first_bytes: usize,
        is_proven: bool,
    ) -> Result<StoredResponse, Unusable> {
        let mut name = path.as_os_str().as_bytes().to_vec();
        name.push(0);
        let file = match open_at_once_or_from_disk(&name, None).await {
            Ok(Opened::File(file, _)) => file,
            Ok(Opened::Directory | Opened::Other) => {
                return Err(Unusable::Mismatch(Mismatch::TooSmall));
            }
            Err(errno) if errno.is_not_found() => return Err(Unusable::Missing),
            Err(errno) => return Err(Unusable::Failed("open()", errno)),
        };
        let wanted = match first_bytes {
            0 => FIRST_BYTES,
            bytes => bytes,
        };
        let mut beginning = read_beginning(&file, wanted).await?;
        let mut header = CacheHeader::decode(&beginning, key);
        if matches!(header, Err(Mismatch::HeaderTooLong | Mismatch::TooSmall))
            && file.size() > beginning.len() as u64
        {
            beginning = read_beginning(&file, usize::from(u16::MAX)).await?;
            header = CacheHeader::decode(&beginning, key);
        }
        let header = header.map_err(Unusable::Mismatch)?;
        let (head_start, body_start) = (header.header_start, header.body_start);
        let stored = StoredResponse {
            head: beginning[usize::from(head_start)..usize::from(body_start)].to_vec(),
            header,
            file,
        };
        if !stored.header.length.allows(stored.body_bytes()) {
            return Err(Unusable::Length);
        }
        if !is_proven {
            let is_all = beginning.len() as u64 == stored.file.size();
            stored.prove(is_all.then_some(&beginning)).await?;
        }
        Ok(stored)
    }

    /// Compares the body with its checksum, if it has one. `all` is the whole file, if that was
    /// read.
    ///
    /// # Errors
    /// [`Unusable::Checksum`], or that of [`StoredResponse::read_all`].
    async fn prove(&self, all: Option<&[u8]>) -> Result<(), Unusable> {
        let Some(expected) = self.header.checksum else {
            return Ok(());
        };
        let start = usize::from(self.header.body_start);
        let found = match all {
            Some(all) => checksum(&all[start..]),
            None => checksum(&self.read_all().await?[start..]),
        };
        match found == expected {
            true => Ok(()),
            false => Err(Unusable::Checksum),
        }
    }

    /// The whole file, from memory if it is there.
    ///
    /// # Errors
    /// [`Unusable::Missing`] if it has changed since it was opened, [`Unusable::Length`] if it
    /// cannot be read to its end.
    pub(super) async fn read_all(&self) -> Result<Bytes, Unusable> {
        let mut read = self.file.read_stable();
        if let Read::NotCached = read {
            let file = Arc::clone(&self.file);
            read = disk::run(move || file.read_stable_blocking()).await;
        }
        match read {
            Read::Done(bytes) => Ok(bytes),
            Read::NotCached => Err(Unusable::Length),
            // It is being confirmed or replaced: there is no use in this one.
            Read::Changed => Err(Unusable::Missing),
        }
    }

    /// The length of the body.
    pub(super) fn body_bytes(&self) -> u64 {
        let body_start = u64::from(self.header.body_start);
        self.file.size().saturating_sub(body_start)
    }
}

fn checksum(body: &[u8]) -> u32 {
    let mut checksum = BodyChecksum::default();
    checksum.update(body);
    checksum.value()
}

/// The first bytes of a file, as many as there are.
async fn read_beginning(open: &Arc<OpenFile>, wanted: usize) -> Result<Vec<u8>, Unusable> {
    let there = usize::try_from(open.size()).unwrap_or(usize::MAX);
    let wanted = wanted.max(FIXED_BYTES).min(there);
    let mut bytes = Vec::with_capacity(wanted);
    while bytes.len() < wanted {
        let (room, offset) = (wanted - bytes.len(), bytes.len() as u64);
        if file::read_cached_at(open.as_fd(), &mut bytes, room, offset).is_err() {
            break;
        }
    }
    if bytes.len() == wanted {
        return Ok(bytes);
    }
    let file = Arc::clone(open);
    let read = disk::run(move || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(wanted);
        while bytes.len() < wanted {
            let (room, offset) = (wanted - bytes.len(), bytes.len() as u64);
            if file::read_at(file.as_fd(), &mut bytes, room, offset)? == 0 {
                break;
            }
        }
        Ok(bytes)
    });
    read.await
        .map_err(|error| Unusable::Failed("read()", Errno::of(&error)))
}
