//! Tests of recovery as a whole.

mod link;
mod transfers;
