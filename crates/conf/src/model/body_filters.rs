//! Filters that change the body of a response.

/// What changes bodies in a location; locations where nothing does have none of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BodyFilters {
    /// `gunzip`; default off.
    pub gunzip: bool,
}
