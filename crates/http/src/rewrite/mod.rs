//! What a proxy changes in header values: redirects and cookies.
//!
//! The configuration above decides what is replaced by what (fixed text, variables, regular
//! expressions); here is where the parts are and how they are put back, with every other byte as
//! it came.

mod cookie;
mod redirect;

pub use cookie::{Attribute, CookieFlags, SameSite, SetCookie};
pub use redirect::{refresh_url, replace, replace_prefix};

#[cfg(test)]
mod tests;
