//! Where request bodies are kept until they have been read.

use std::path::PathBuf;

/// `client_body_in_file_only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyInFile {
    /// `off`: a file only when memory does not do.
    #[default]
    Off,
    /// `on`: always, and the file stays.
    On,
    /// `clean`: always, and the file goes with the request.
    Clean,
}

/// A directory for temporary files and the subdirectories below it
/// (`client_body_temp_path path [level1 [level2 [level3]]]`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TempPath {
    /// The directory, absolute.
    pub path: PathBuf,
    /// How many digits of the file's number, from its end, name each level of
    /// subdirectories; 0 after the last. `[1, 2, 0]` puts file 0000000123 into
    /// `3/12/`.
    pub levels: [u8; 3],
}
