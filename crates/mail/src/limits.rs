//! How much is read from each side before it is refused.

/// A command of IMAP or SMTP, literals included, in bytes: `imap_client_buffer` and
/// `smtp_client_buffer`, by default a page as in nginx.
pub(crate) const CLIENT_BUFFER_BYTES: usize = 4096;

/// A command of POP3 in bytes. As in nginx, no directive changes it.
pub(crate) const POP3_CLIENT_BUFFER_BYTES: usize = 128;

/// A command of POP3 in bytes where a method is on whose tokens are longer than passwords.
pub(crate) const POP3_TOKEN_BUFFER_BYTES: usize = 4096;

/// Arguments of a command of IMAP or POP3, as in nginx.
pub(crate) const MAX_ARGUMENTS: usize = 3;

/// Arguments of a command of SMTP, as in nginx.
pub(crate) const MAX_SMTP_ARGUMENTS: usize = 11;

/// The longest tag of an IMAP command in bytes, as in nginx.
pub(crate) const MAX_IMAP_TAG_BYTES: usize = 32;

/// Commands that are none, after which a session ends: `max_errors`.
pub(crate) const MAX_ERRORS: usize = 5;

/// The head of an auth service's response in bytes. nginx reads 1024.
pub(crate) const AUTH_RESPONSE_BYTES: usize = 4096;

/// A response of a mail server during the login in bytes: `proxy_buffer`, by default a page.
pub(crate) const PROXY_BUFFER_BYTES: usize = 4096;

/// How much of what a peer sent is repeated in a message of the error log, in bytes.
pub(crate) const MAX_LOGGED_BYTES: usize = 512;
