//! Modules of nginx that change what clients get and are not there yet.

use super::{Arity, HSL, LOCATION_IF, Module, ONE, Row};

const CONTENT: &str = "the content of responses cannot be changed yet";

pub(super) const MODULE: Module = Module {
    title: "Other modules of nginx",
    doc: "Not there yet, and refused because they change what clients get.",
    rows: &[
        Row::unsupported("ssi", HSL | LOCATION_IF, ONE, CONTENT).inert(&["off"]),
        Row::unsupported("ssi_ignore_recycled_buffers", HSL, ONE, CONTENT).inert(&["off"]),
        Row::unsupported("ssi_last_modified", HSL, ONE, CONTENT).inert(&["off"]),
        Row::unsupported("ssi_min_file_chunk", HSL, ONE, CONTENT),
        Row::unsupported("ssi_silent_errors", HSL, ONE, CONTENT).inert(&["off"]),
        Row::unsupported("ssi_types", HSL, Arity::AtLeast(1), CONTENT),
        Row::unsupported("ssi_value_length", HSL, ONE, CONTENT),
    ],
};
