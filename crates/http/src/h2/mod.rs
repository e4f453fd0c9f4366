//! HTTP/2 without I/O (RFC 9113).
//!
//! | module | what it knows |
//! |---|---|
//! | [`hpack`] | header compression (RFC 7541) |

pub mod hpack;
