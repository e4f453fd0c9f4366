//! Private-key operations in PKCS #11 tokens.

mod uri;

pub use uri::{MAX_URI_BYTES, Uri, UriError, is_uri};
