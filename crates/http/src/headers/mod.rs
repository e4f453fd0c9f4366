//! Header fields: numbers for the well-known names, and the list a response carries.

mod known;
mod list;

pub use known::{KnownHeader, KnownSet};
pub use list::{HeaderList, InvalidHeader, is_token};
