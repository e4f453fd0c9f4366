//! Tests of recovery as a whole.

mod acks;
mod congestion;
mod link;
mod losses;
mod paths;
mod random;
mod received;
mod sender;
mod timers;
mod transfers;
