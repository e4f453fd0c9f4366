//! Reload: another configuration while the server runs.
//!
//! The master reads the configuration and everything it names, validates it by building a
//! snapshot, and only then changes anything. The worker process, which may open no file, gets
//! all of it in one bundle, builds the same snapshot and goes on with it, in place: connections,
//! sessions and ticket keys stay. What a running process cannot change ([`changes`]) is served
//! by a second one, while the first finishes what it has.
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
//! | `records.rs` | what the parser was told, and telling it again |
//! | `bundle.rs` | texts and files in memory that is handed over |
//! | `changes.rs` | what needs another process |
//! | `incoming.rs` | the worker's side: from messages to a snapshot |
//!
//! What the master does when is in `master/reconfigure.rs`.

mod bundle;
mod changes;
mod incoming;
mod records;

pub(crate) use self::bundle::seal;
pub(crate) use self::changes::needs_new_process;
pub(crate) use self::incoming::{Carried, Incoming};
pub(crate) use self::records::{RecordingLoader, Records};
