//! Responses of mail servers during a login.

/// What a response has to be for the login to go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected<'a> {
    /// IMAP: `* OK`.
    Greeting,
    /// IMAP: `+`.
    Continue,
    /// IMAP: this tag, with the space behind it, and `OK`.
    Tagged(&'a [u8]),
    /// POP3: `+OK`.
    Ok,
    /// SMTP: one of these codes, or any where there are none.
    Code(&'a [&'static str]),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing that is complete.
    Nothing,
    /// What was expected, up to here.
    Response { end: usize },
    /// Something else, which begins here.
    Other { start: usize },
}

/// Looks for a response in what has arrived.
pub(super) fn find(input: &[u8], expected: &Expected<'_>) -> Found {
    let mut start = 0;
    loop {
        let Some(end) = line_end(input, start) else {
            return Found::Nothing;
        };
        let line = &input[start..end];
        let is_expected = match expected {
            Expected::Greeting => line.starts_with(b"* OK"),
            Expected::Ok => line.starts_with(b"+OK"),
            Expected::Continue | Expected::Tagged(_)
                if line.starts_with(b"* ") && !line.starts_with(b"* BYE") =>
            {
                // Untagged: SmarterMail and Gmail send CAPABILITY, for example.
                start = end;
                continue;
            }
            Expected::Continue => line.starts_with(b"+"),
            Expected::Tagged(tag) => line
                .strip_prefix(*tag)
                .is_some_and(|status| status.starts_with(b"OK")),
            // All lines of a response have the same code; the last one has no hyphen behind it.
            Expected::Code(_) if line.get(3) == Some(&b'-') => {
                start = end;
                continue;
            }
            Expected::Code(codes) => {
                codes.is_empty() || codes.iter().any(|code| input.starts_with(code.as_bytes()))
            }
        };
        return match (is_expected, expected) {
            (true, _) => Found::Response { end },
            (false, Expected::Code(_)) => Found::Other { start: 0 },
            (false, _) => Found::Other { start },
        };
    }
}

/// Whether these are untagged responses of IMAP, the last one perhaps incomplete: a server may send
/// them at any time.
pub(super) fn is_untagged(input: &[u8]) -> bool {
    let mut lines = input.split_inclusive(|&byte| byte == b'\n');
    lines.all(|line| line.starts_with(b"*"))
}

/// Where the line ends that begins at `start`: behind CRLF.
fn line_end(input: &[u8], start: usize) -> Option<usize> {
    let mut from = start;
    loop {
        let at = from + memchr::memchr(b'\n', &input[from..])?;
        if at > start && input[at - 1] == b'\r' {
            return Some(at + 1);
        }
        from = at + 1;
    }
}
