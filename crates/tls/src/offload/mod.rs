//! `ssl_async`: handshakes off the worker.
//!
//! Nearly all of the cost of a full handshake is in one flight, the one with the private-key
//! operation. While a worker computes it, all other connections of that worker wait. So the flight
//! can leave: the connection to libssl moves by value to a thread of the pool, together with the
//! records of the ClientHello, and comes back with what is to be sent.
//!
//! ```text
//! worker                          pool thread                      accelerator of the key
//! Pool::hand_over(Flight) ------> libssl, until it wants the key
//!   FlightHandle                  submit(job), Slot parks the flight -> queue
//!                                 no new flight? Accelerator::work <--- up to eight at once
//!   poll_landed <-- Slot lands -- libssl goes on   <----- the job is done
//! ```
//!
//! Exactly one thread has the flight at any time; the slot records its state. A connection that
//! dies drops its `FlightHandle`, and whoever has the flight next drops it. A parked flight is
//! dropped at once, which cancels its job.
//!
//! Flights never wait for each other on purpose. A thread first continues flights whose job is
//! done, then computes a full batch, then begins queued flights, and only if there are none does it
//! compute what is queued, even if that is a single job. So batches grow with the load, and no job
//! waits for a batch to fill.
//!
//! | file | what |
//! |---|---|
//! | `policy.rs` | [`AsyncMode`], [`Load`]: which flights leave |
//! | `state.rs` | [`HandshakeState`]: pool, counters and reports of a process |
//! | `pool.rs` | the threads and what they do next |
//! | `courtesy.rs` | letting workers go first |
//! | `flight.rs` | a handshake on its way, and the slot through which it comes back |
//!
//! The states of a waiting handshake, from the socket to the flight, are drawn in the server's
//! `connection/handshake.rs`.
//!
//! Tests: `crate::tests::offload`.

pub(crate) mod courtesy;
pub(crate) mod flight;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod state;

pub use policy::{AsyncMode, Load};
pub use pool::WakeTogether;
pub use state::{HandshakeSettings, HandshakeState};
