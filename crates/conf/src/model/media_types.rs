//! Which responses a filter applies to, by media type.

use std::sync::Arc;

/// A list of media types, as in `sub_filter_types`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaTypes {
    /// `*`.
    Any,
    /// These, in lower case.
    Listed(Arc<[Box<[u8]>]>),
}

impl MediaTypes {
    /// The types that hold where none are written.
    pub fn of(names: &[&str]) -> MediaTypes {
        MediaTypes::Listed(names.iter().map(|name| name.as_bytes().into()).collect())
    }

    /// Whether a type, without parameters, is among them.
    pub fn has(&self, media_type: &[u8]) -> bool {
        match self {
            MediaTypes::Any => true,
            MediaTypes::Listed(types) => {
                types.iter().any(|one| one.eq_ignore_ascii_case(media_type))
            }
        }
    }
}
