//! Handshakes away from the worker: `ssl_async`.
//!
//! What a full handshake costs lies in one flight, the one with the private-key operation. While
//! a worker computes it, all other connections of that worker wait. So the flight can
//! leave: the connection to libssl moves by value to a thread of the pool, together with
//! the records of the ClientHello, and comes back with what is to be sent.
//!
//! ```text
//! worker                          pool thread                      accelerator of the key
//! Pool::hand_over(Flight) ------> libssl, until it wants the key
//!   FlightHandle                  submit(job), Slot parks the flight -> queue
//!                                 no new flight? Accelerator::work <--- up to eight at once
//!   poll_landed <-- Slot lands -- libssl goes on   <----- the job is done
//! ```
//!
//! One thread has the flight at any time: the slot says which state it is in. A
//! connection that dies drops its `FlightHandle`, and whoever has the flight next drops it; one
//! that is parked goes at once, which cancels its job.
//!
//! Flights never wait for each other on purpose: a thread first goes on with flights whose job is
//! done, then computes a full batch, then begins flights that wait, and only without those
//! computes what is queued, be it one job. So batches grow with the load and nobody
//! waits for company.
//!
//! | file | what |
//! |---|---|
//! | `policy.rs` | [`AsyncMode`], [`Load`]: which flights leave |
//! | `state.rs` | [`HandshakeState`]: pool, counters and reports of a process |
//! | `pool.rs` | the threads and what they do next |
//! | `courtesy.rs` | letting workers go first |
//! | `flight.rs` | a handshake on its way, and the slot through which it comes back |
//!
//! The states of a handshake that waits, from the socket to the flight, are drawn in the server's
//! `connection/handshake.rs`.
//!
//! Tests: `crate::tests::offload`.

pub(crate) mod courtesy;
pub(crate) mod flight;
pub(crate) mod policy;
pub(crate) mod pool;
pub(crate) mod state;

pub use policy::{AsyncMode, Load};
pub use state::{HandshakeSettings, HandshakeState};
