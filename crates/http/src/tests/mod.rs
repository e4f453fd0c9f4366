//! What holds of all decoders of the crate.

mod final_errors;
