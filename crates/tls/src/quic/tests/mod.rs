//! The protection of packets here; whole handshakes in `crate::tests::quic`.

mod appendix;
mod packets;
