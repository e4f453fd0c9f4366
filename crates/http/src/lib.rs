//! sealane-http
