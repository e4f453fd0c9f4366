//! Comments of pages: where they end, and which ones mean something.

/// Where a comment has got to, as the HTML standard has it (13.2.5.43 and following).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommentEnd {
    Start,
    StartDash,
    Inside,
    Dash,
    DashDash,
    Bang,
}

impl CommentEnd {
    /// Takes a byte behind `<!--`. Returns whether the comment ends with it.
    pub(super) fn step(&mut self, byte: u8) -> bool {
        *self = match (*self, byte) {
            (
                CommentEnd::Start | CommentEnd::StartDash | CommentEnd::DashDash | CommentEnd::Bang,
                b'>',
            ) => return true,
            (CommentEnd::Start, b'-') => CommentEnd::StartDash,
            (CommentEnd::StartDash | CommentEnd::Dash | CommentEnd::DashDash, b'-') => {
                CommentEnd::DashDash
            }
            (CommentEnd::Inside | CommentEnd::Bang, b'-') => CommentEnd::Dash,
            (CommentEnd::DashDash, b'!') => CommentEnd::Bang,
            _ => CommentEnd::Inside,
        };
        false
    }

    /// The bytes of the comment so far that may belong to its end.
    fn bytes(self) -> usize {
        match self {
            CommentEnd::Start | CommentEnd::Inside => 0,
            CommentEnd::StartDash | CommentEnd::Dash => 1,
            CommentEnd::DashDash => 2,
            CommentEnd::Bang => 3,
        }
    }
}

/// Whether a comment stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    Drop,
    /// More of it has to be seen.
    Open,
}

/// A comment whose text is no longer is a mark, not a remark: `<!---->`, `<!--$-->`.
const MAX_MARK_BYTES: usize = 4;

/// White space at the beginning of a comment that is looked past.
const MAX_LEADING_BYTES: usize = 24;

/// How comments begin that others read: browsers, servers on the way, and scripts that take over
/// pages which a server has made with the same program.
const MEANT: [&[u8]; 27] = [
    b"[",   // conditional comments; Vue and Svelte
    b"<!",  // the end of one
    b"#",   // SSI
    b"esi", // ESI
    b"!",   // by custom: licences
    b"$",   // React
    b"/$",
    b"]",
    b"ko ", // Knockout
    b"/ko",
    b"v-if", // Vue
    b"teleport",
    b"lit-", // Lit
    b"/lit-",
    b"?lit$",
    b"nghm", // Angular
    b"ngetn",
    b"ngtns",
    b"blazor:", // Blazor
    b"astro:",  // Astro
    b"qv ",     // Qwik
    b"/qv",
    b"t=",
    b"head_svelte", // Svelte
    b"google",      // search engines and advertisements
    b"noindex",
    b"/noindex",
];

/// What becomes of a comment with this text so far, the bytes of its end included.
pub(super) fn verdict(text: &[u8], end: CommentEnd, ended: bool) -> Verdict {
    let own = &text[..text.len().saturating_sub(end.bytes())];
    let trimmed = own.trim_ascii_start();
    if trimmed.is_empty() {
        return match ended || text.len() > MAX_LEADING_BYTES {
            true => Verdict::Keep,
            false => Verdict::Open,
        };
    }
    let begins = |meant: &&[u8]| {
        let shorter = meant.len().min(trimmed.len());
        trimmed[..shorter].eq_ignore_ascii_case(&meant[..shorter])
    };
    let longest = MEANT.iter().filter(|meant| begins(meant));
    match longest.map(|meant| meant.len()).min() {
        Some(bytes) if bytes <= trimmed.len() => Verdict::Keep,
        Some(_) if !ended => Verdict::Open,
        _ if own.len() > MAX_MARK_BYTES => Verdict::Drop,
        _ if ended => Verdict::Keep,
        _ => Verdict::Open,
    }
}
