//! sealane-server
