//! Cases whose outcome is a known defect. Their faults are printed and fail no test; a line
//! is deleted with the change that mends it.

use super::explained::matches;

/// Names of cases, or their beginning and `*`; and handlers, where it is not all of them.
const KNOWN: &[(&str, &[&str])] = &[
    // A wrong chunk behind a handler that does not read the body: the answer of the handler
    // is not replaced by 400.
    ("0.TERM: nothing behind the data, and a request", UNREAD),
    ("2.TERM*", UNREAD),
    ("CR CR LF behind a size", UNREAD),
    ("CR CR LF behind the data", UNREAD),
    ("CR and a letter *", UNREAD),
    ("CR behind *", UNREAD),
    ("CR everywhere", UNREAD),
    ("EXT.TERM*", UNREAD),
    ("LF CR behind a size", UNREAD),
    ("TERM by *", UNREAD),
    ("TERM.EXT behind the last chunk", UNREAD),
    ("TERM.SPILL*", UNREAD),
    ("chunk *", UNREAD),
    ("extension with*", UNREAD),
    ("last chunk with*", UNREAD),
    ("letter and LF behind the data", UNREAD),
    ("request, wrong size past the limit", UNREAD),
    ("request, then a wrong chunk", UNREAD),
    ("trailer with*", UNREAD),
    ("wrong chunk in a pipeline, then a request", UNREAD),
    // Versions of more than one digit are taken.
    ("version 1.12", &[]),
    ("version 1.10", &[]),
    ("version 1.01", &[]),
    // `OPTIONS *` is looked for among the files.
    ("target in asterisk form", &[]),
    // A head or a body that is refused before it was read to its end: the connection is reset,
    // which may cost the client the answer.
    ("extension of 100 kB", &[]),
    ("extensions of 100 bytes, 1000 times", &[]),
    ("fields, 10000", &[]),
    ("fields, 3000", &[]),
    ("head of 200 kB in lines of 1000", &[]),
    ("name of 40000 bytes", &[]),
    ("value of 100000 bytes", &[]),
    ("value of 20000 bytes", &[]),
    ("value of 40000 bytes", &[]),
    ("method of 9000 letters", &[]),
    ("query of 40000 bytes", &[]),
    ("target of * bytes", &[]),
];

const UNREAD: &[&str] = &["static", "return", "redirect", "status"];

pub(crate) fn is_known(case: &str, handler: &str) -> bool {
    KNOWN.iter().any(|(cases, handlers)| {
        matches(cases, case) && (handlers.is_empty() || handlers.contains(&handler))
    })
}
