//! The descriptor of a temporary file. A disk thread cleans up once the file is no longer used.

use crate::runtime;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The descriptor of a temporary file. A disk thread closes it, which frees its blocks, and removes
/// its name.
#[derive(Debug)]
pub struct TempDescriptor(Option<Remains>);

/// What is left to clean up once a file is no longer used. Dropping it does the work.
#[derive(Debug)]
struct Remains {
    file: File,
    remove: Option<PathBuf>,
    /// The file has been given another name.
    renamed: AtomicBool,
}

impl TempDescriptor {
    /// Wraps `file`. Its name is removed with it if `remove` is set.
    pub fn new(file: File, remove: Option<PathBuf>) -> TempDescriptor {
        TempDescriptor(Some(Remains {
            file,
            remove,
            renamed: AtomicBool::new(false),
        }))
    }

    /// Writes all of `bytes` at this offset.
    ///
    /// # Errors
    ///
    /// The errno of `pwrite`; `ENOSPC` when the disk is full.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file().write_all_at(bytes, offset)
    }

    /// Waits until everything that was written is on the disk. Blocks.
    ///
    /// # Errors
    ///
    /// The errno of `fdatasync`; an error of the disk that the kernel has met before.
    pub fn sync(&self) -> io::Result<()> {
        self.file().sync_data()
    }

    /// The file has been renamed; whatever has the old name now is not ours to remove.
    pub fn lost_its_name(&self) {
        if let Some(remains) = &self.0 {
            remains.renamed.store(true, Ordering::Relaxed);
        }
    }

    fn file(&self) -> &File {
        let remains = self.0.as_ref();
        &remains.expect("it is taken out when it is dropped").file
    }
}

impl AsFd for TempDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}

impl Drop for TempDescriptor {
    fn drop(&mut self) {
        let remains = self.0.take();
        // A panic during unwinding would abort, so take the simple path then. A thread without a
        // runtime may block.
        if !std::thread::panicking() && runtime::is_entered() {
            // If the runtime is shutting down, it drops the closure and everything the closure
            // owns.
            runtime::spawn_blocking(move || drop(remains));
        }
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        if let Some(path) = &self.remove
            && !*self.renamed.get_mut()
        {
            // It may be gone already, for example if an operator has cleaned up.
            let _ = fs::remove_file(path);
        }
    }
}
