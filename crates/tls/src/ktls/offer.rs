//! A suite that a server offers, for operators who want to know what the kernel could seal
//! before a client connects.

use sealane_sys::ktls::{Cipher, Version};

/// A suite that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferedSuite {
    /// OpenSSL's name.
    pub name: &'static str,
    /// How the kernel would seal its records; `None` when no kernel can.
    pub kernel: Option<(Version, Cipher)>,
}
