//! Operating system errors in nginx's notation.

use std::fmt;
use std::io;

/// Displays an error like nginx: `2: No such file or directory`.
#[derive(Debug, Clone, Copy)]
pub struct OsError<'a>(pub &'a io::Error);

impl fmt::Display for OsError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.0.raw_os_error() else {
            return self.0.fmt(f);
        };
        // The standard library appends the number; nginx puts it in front.
        let text = self.0.to_string();
        let text = text
            .strip_suffix(&format!(" (os error {code})"))
            .unwrap_or(&text);
        write!(f, "{code}: {text}")
    }
}
