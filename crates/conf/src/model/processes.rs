//! Programs that the master runs beside the workers: `processes`.

use super::{ListenAddress, User};
use std::path::PathBuf;
use std::time::Duration;

/// A `process` block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandAlone {
    /// Its name.
    pub name: String,
    /// `command`: an absolute path.
    pub program: PathBuf,
    /// What follows it.
    pub arguments: Vec<String>,
    /// `user`; default that of the workers.
    pub user: Option<User>,
    /// `listen`: sockets that it inherits.
    pub listen: Vec<ListenAddress>,
    /// `count`: how many of it run; default 1.
    pub count: u32,
    /// `priority`: the nice value; default that of the master.
    pub priority: Option<i32>,
    /// `delay_start`: how long after the server it starts; default 300 ms.
    pub delay: Duration,
    /// `respawn`: what happens when it has ended; default soon.
    pub respawn: Respawn,
}

/// What happens when a program has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Respawn {
    /// Nothing.
    Never,
    /// It is started again, later and later if it keeps ending early.
    Soon,
    /// It is started again after this time.
    After(Duration),
}
