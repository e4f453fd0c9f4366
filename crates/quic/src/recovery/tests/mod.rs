//! Tests of recovery as a whole.
