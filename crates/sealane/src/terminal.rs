//! Output for users who start the program from a terminal.

use std::io::{IsTerminal, Write};

/// Writes to stderr; if that fails, there is nothing to be done.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Whether standard output gets colours: only a terminal does, unless the user has
/// declined them (<https://no-color.org>).
pub(crate) fn wants_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stdout().is_terminal() && !set("NO_COLOR") && !dumb
}
