//! The descriptor of a temporary file: what is left to do when nothing uses the file any more is
//! done on a disk thread.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// The descriptor of a temporary file; closing it, which frees its blocks, and removing
/// its name are left to a disk thread.
#[derive(Debug)]
pub struct TempDescriptor(Option<Remains>);

/// What is left to do for a file that nobody uses any more; dropping it does it.
#[derive(Debug)]
struct Remains {
    file: File,
    remove: Option<PathBuf>,
    /// Somebody has given the file another name.
    renamed: AtomicBool,
}

impl TempDescriptor {
    /// Of a file whose name, if one is given, goes with it.
    pub fn new(file: File, remove: Option<PathBuf>) -> TempDescriptor {
        TempDescriptor(Some(Remains {
            file,
            remove,
            renamed: AtomicBool::new(false),
        }))
    }

    /// Writes all of `bytes` at this offset.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file().write_all_at(bytes, offset)
    }

    /// The file has another name now; what has the old one is not ours.
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
        // While a task unwinds nothing may go wrong; and a thread without a runtime may wait.
        if !std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            // Should the runtime be at its end, it drops the closure and what it owns.
            drop(runtime.spawn_blocking(move || drop(remains)));
        }
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        if let Some(path) = &self.remove
            && !*self.renamed.get_mut()
        {
            // It may be gone: an operator may have cleaned up.
            let _ = fs::remove_file(path);
        }
    }
}
