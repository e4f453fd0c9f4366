//! sealane-bench
