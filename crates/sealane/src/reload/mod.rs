//! Reload: another configuration while the server runs.
//!
//! The master reads the configuration and everything it names, validates it by building a
//! snapshot, and only then changes anything. The worker process, which must not open files, gets
//! all of it in one bundle, builds the same snapshot and switches to it in place: connections,
//! sessions and ticket keys stay. What a running process cannot change ([`changes`]) needs
//! a second process, while the first finishes its connections.
//!
//! ```text
//! master                                   worker
//!   read, validate, open logs, bind
//!   bundle, logs, new sockets, apply ──────> parse again, build, go on
//!   new state is the state        <────────── applied
//!   close sockets that are gone   <────────── drained
//! ```
//!
//! | file | what |
//! |---|---|
//! | `records.rs` | recording the parser's inputs, and replaying them |
//! | `bundle.rs` | texts and files in memory that is handed over |
//! | `changes.rs` | what needs another process |
//! | `incoming.rs` | the worker's side: from messages to a snapshot |
//!
//! The master's steps are in `master/reconfigure.rs`.

mod bundle;
mod changes;
mod incoming;
mod records;

pub(crate) use self::bundle::seal;
pub(crate) use self::changes::needs_new_process;
pub(crate) use self::incoming::{Carried, Incoming};
pub(crate) use self::records::{RecordingLoader, Records, ReplayLoader};
