//! Cipher strings against the `openssl` binary.
