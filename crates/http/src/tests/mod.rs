//! Properties of all decoders of the crate, and code shared by the tests of several modules.

mod final_errors;
mod random;

pub(crate) use random::Random;
