//! The `main` and `events` contexts.

use super::{ErrorLog, PeerNetwork, StandAlone};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Directives of the `main` context.
#[derive(Debug, Clone)]
pub struct Main {
    /// `daemon`: detach from the terminal. Default on.
    pub daemon: bool,
    /// `master_process`: default on; off runs the worker in the foreground process.
    pub master_process: bool,
    /// `user`: whom the worker runs as, when started by root.
    pub user: Option<User>,
    /// `pid`: path of the pid file.
    pub pid: PathBuf,
    /// `worker_processes`: the number of worker threads.
    pub worker_processes: WorkerCount,
    /// `worker_rlimit_nofile`, per worker thread (multiplied by the threads).
    pub worker_rlimit_nofile: Option<u64>,
    /// `worker_rlimit_core` in bytes.
    pub worker_rlimit_core: Option<u64>,
    /// `backtrace_log`: where crashes are reported; `None` is the main error log.
    pub backtrace_log: Option<PathBuf>,
    /// `worker_cpu_affinity`.
    pub worker_cpu_affinity: Option<CpuAffinity>,
    /// `worker_priority`: the nice value.
    pub worker_priority: Option<i32>,
    /// `worker_seccomp`. Default on.
    pub worker_seccomp: Seccomp,
    /// `worker_landlock`. Default on.
    pub worker_landlock: Landlock,
    /// `worker_landlock_read on`: reading is confined to what the configuration has the worker read
    /// and to these paths. `None`, the default: it is not confined.
    pub worker_landlock_read: Option<Vec<PathBuf>>,
    /// `worker_shutdown_timeout`.
    pub worker_shutdown_timeout: Option<Duration>,
    /// `working_directory`.
    pub working_directory: Option<PathBuf>,
    /// `error_log` lines of the main context; never empty.
    pub error_logs: Vec<ErrorLog>,
    /// `log_queue_size` (Sealane): bytes that wait for one log at most. Default 4m.
    pub log_queue_bytes: u64,
    /// `metrics_memory` (Sealane): bytes for what is counted. Default 64m.
    pub metrics_memory_bytes: u64,
    /// `control_socket` (Sealane): path of the Unix socket where commands ask the server. `None` if
    /// it has none.
    pub control_socket: Option<PathBuf>,
    /// `env` lines.
    pub env: Vec<EnvVar>,
    /// `processes`: programs that the master runs beside the workers.
    pub processes: Vec<StandAlone>,
}

/// The arguments of `user`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// User name.
    pub name: String,
    /// Group name; the user name when not given.
    pub group: String,
}

/// The argument of `worker_processes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCount {
    /// One per available CPU.
    Auto,
    /// A fixed number, at least 1.
    Count(u32),
}

/// The arguments of `worker_cpu_affinity`. A set of CPUs is the list of their numbers, ascending;
/// it may be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CpuAffinity {
    /// Each thread runs on the CPUs of its set; threads beyond the last set share it. There
    /// is at least one set.
    Sets(Vec<Vec<usize>>),
    /// Each thread runs on one CPU, of this set or of all that there are.
    Auto(Option<Vec<usize>>),
}

/// The argument of `worker_landlock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Landlock {
    /// File permissions decide alone.
    Off,
    /// Files can be changed only where the configuration says.
    #[default]
    On,
    /// They are emptied there only as well.
    Strict,
}

/// The argument of `worker_seccomp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Seccomp {
    /// Every system call is allowed.
    Off,
    /// Calls that the server does not need fail, and are reported.
    #[default]
    On,
    /// Calls that the server does not need end the worker process.
    Kill,
}

/// One `env` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// Name of the environment variable.
    pub name: String,
    /// Value to set, or `None` to keep the inherited one.
    pub value: Option<String>,
}

/// The `events` block.
#[derive(Debug, Clone)]
pub struct Events {
    /// `worker_connections`, per worker thread. Default 512.
    pub worker_connections: u32,
    /// `multi_accept`. Default off.
    pub multi_accept: bool,
    /// `accept_mutex`. Parsed; meaningless here.
    pub accept_mutex: bool,
    /// `debug_connection`: whose connections are logged at level `debug`.
    pub debug_connections: Arc<[PeerNetwork]>,
}
