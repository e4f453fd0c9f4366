//! Handshakes in memory.
