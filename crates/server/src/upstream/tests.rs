//! Tests of groups.
