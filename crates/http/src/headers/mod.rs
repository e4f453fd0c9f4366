//! Header fields: numbers for the well-known names, checked names and values, and the list that a
//! response carries.

mod field;
mod known;
mod list;

pub use field::{Field, FieldName, FieldValue};
pub use known::{KnownHeader, KnownSet};
pub use list::{HeaderList, InvalidHeader, is_token};
