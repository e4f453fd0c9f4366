//! The bytes of every file a configuration names: certificates, keys,
//! passwords, ticket keys.
//!
//! The privileged master reads them; whoever builds a [`crate::Snapshot`] needs
//! no right to open them. A later reload hands the same type over a socket.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// Contents of the files named by a configuration, by absolute path.
#[derive(Default, Clone)]
pub struct Materials {
    files: HashMap<PathBuf, Zeroizing<Vec<u8>>>,
}

impl Materials {
    /// No files yet.
    pub fn new() -> Materials {
        Materials::default()
    }

    /// Remembers the bytes of a file. They are wiped when dropped.
    pub fn insert(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.files.insert(path, Zeroizing::new(bytes));
    }

    /// The bytes of a file, if it was read.
    pub fn get(&self, path: &Path) -> Option<&[u8]> {
        self.files.get(path).map(|bytes| bytes.as_slice())
    }
}

impl fmt::Debug for Materials {
    /// Names only: the contents are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.files.keys()).finish()
    }
}
