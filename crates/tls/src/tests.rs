//! Whole connections in memory.
