//! What a proxy changes in header values: redirects and cookies.
//!
//! The configuration decides what is replaced by what (fixed text, variables, regular expressions).
//! This module finds the parts and puts the replacements in, leaving every other byte unchanged.

mod cookie;
mod redirect;

pub use cookie::{CookieFlags, SameSite, SetCookie};
pub use redirect::{refresh_url, replace, replace_prefix};

#[cfg(test)]
mod tests;
