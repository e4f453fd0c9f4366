//! Connections in memory, against this crate's server, and to `openssl s_server`.
