//! What a proxy changes in header values: redirects, cookies, forwarding headers.
//!
//! The configuration decides what is replaced by what (fixed text, variables, regular expressions).
//! This module finds the parts and puts the replacements in, leaving every other byte unchanged.

mod cookie;
mod forwarding;
mod redirect;

pub use cookie::{Attribute, CookieFlags, SameSite, SetCookie};
pub use forwarding::{append_forwarded_for, hop_by_hop, is_hop_by_hop};
pub use redirect::{refresh_url, replace, replace_prefix};

#[cfg(test)]
mod tests;
