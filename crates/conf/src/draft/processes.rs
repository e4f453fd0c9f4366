//! `process`, while its block is read.

use crate::model::{ListenAddress, Origin, Respawn, User};
use std::path::PathBuf;
use std::time::Duration;

/// A `process` block that is open.
#[derive(Debug)]
pub(crate) struct StandAloneDraft {
    pub(crate) name: String,
    pub(crate) command: Option<(PathBuf, Vec<String>)>,
    pub(crate) user: Option<User>,
    pub(crate) listen: Vec<ListenAddress>,
    pub(crate) count: Option<u64>,
    pub(crate) priority: Option<i32>,
    pub(crate) delay: Option<Duration>,
    pub(crate) respawn: Option<Respawn>,
    pub(crate) origin: Origin,
}
