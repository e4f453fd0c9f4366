//! sealane-conf
