//! sealane-tls
