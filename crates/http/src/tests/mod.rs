//! What holds of all decoders of the crate, and what tests of several modules share.

mod final_errors;
mod random;

pub(crate) use random::Random;
