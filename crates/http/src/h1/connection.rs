//! The `Connection` header's options (RFC 9110 section 7.6.1).

/// The options in a `Connection` value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
    pub(super) upgrade: bool,
}

/// Reads the comma-separated options; unknown ones are ignored.
pub(super) fn options(value: &[u8]) -> Options {
    let mut found = Options::default();
    for option in value.split(|&byte| byte == b',') {
        let option = option.trim_ascii();
        match option.len() {
            5 if option.eq_ignore_ascii_case(b"close") => found.close = true,
            10 if option.eq_ignore_ascii_case(b"keep-alive") => found.keep_alive = true,
            7 if option.eq_ignore_ascii_case(b"upgrade") => found.upgrade = true,
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_whole_words_in_any_case() {
        let found = options(b"Keep-Alive ,\tUPGRADE, x");
        assert_eq!(
            (found.close, found.keep_alive, found.upgrade),
            (false, true, true)
        );
        assert!(options(b"close").close);
        assert!(options(b"foo,close").close);
        assert_eq!(options(b"closed, not-close, \"close\""), Options::default());
        assert_eq!(options(b""), Options::default());
    }
}
