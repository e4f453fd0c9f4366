//! What is counted: counters, levels and histograms.
//!
//! A counter should say how often something has happened since the server was started, not since
//! one of its processes was: a worker that dies, or gives way to another in a reload, must not
//! take its numbers along. So counters are kept in memory that all processes of a server share.
//! The master creates it before it forks ([`share`]), and each part finds its own counters there
//! by name ([`Placed::named`]), whichever process it runs in. Before that, and in tests, they are
//! private.
//!
//! Levels say what is open or waiting now. They belong to one process and end with it, so they are
//! never shared.
//!
//! | file | what it holds |
//! |---|---|
//! | `number.rs` | [`Counter`], [`Level`] |
//! | `histogram.rs` | [`Histogram`]: durations by size |
//! | `statuses.rs` | [`StatusCounts`]: responses by status |
//! | `memory.rs` | the memory that processes share, and what is where in it |

#![forbid(unsafe_code)]

mod histogram;
mod memory;
mod number;
mod statuses;

pub use histogram::{BUCKET_BOUNDS, Histogram, HistogramValues};
pub use memory::{Placed, Usage, share, usage};
pub use number::{Counter, Level};
pub use statuses::{StatusCounts, StatusLabel, StatusSums};
