//! Maps a URI to a path in the file system: `root` and `alias`.

use crate::exchange::Exchange;
use crate::request_log::{Text, log_request};
use crate::template;
use sealane_conf::model::FilesAt;
use sealane_http::StatusCode;
use smallvec::SmallVec;
use std::fmt;

/// Paths up to this length cost no allocation.
const INLINE_BYTES: usize = 256;

/// A path made from a URI, with a NUL at its end for system calls.
pub(crate) struct FilePath {
    bytes: SmallVec<[u8; INLINE_BYTES]>,
    /// Length of what `root` or `alias` contributed.
    root_bytes: usize,
}

impl FilePath {
    /// The path of the exchange's URI.
    ///
    /// The URI is normalised: it has no NUL and no `..`, so the path stays below
    /// `root`. With `alias` only the bytes of the location's prefix are replaced;
    /// a prefix without a final slash lets what follows join the alias directly,
    /// as in nginx: `location /i { alias /data/; }` serves `/i../x` from
    /// `/data/../x`. That is a mistake in the configuration, known from nginx.
    ///
    /// # Errors
    /// 500, logged, when an alias cannot be applied to the URI.
    pub(crate) fn of(exchange: &Exchange) -> Result<FilePath, StatusCode> {
        let conf = exchange.conf();
        let uri = &exchange.request.uri[..];
        let (root, rest) = match &conf.files_at {
            FilesAt::Root(root) => (root, uri),
            FilesAt::Alias(_) if exchange.features.rewrite.uri_left_location => {
                log_request!(
                    exchange,
                    Alert,
                    "\"alias\" cannot be used in location \"{}\" where URI was rewritten",
                    conf.name
                );
                return Err(StatusCode::INTERNAL_SERVER_ERROR);
            }
            FilesAt::Alias(alias) => match conf.alias_prefix_bytes {
                None if exchange.features.try_files.uri_under_alias => (alias, uri),
                None => (alias, &b""[..]),
                Some(prefix_bytes) => (alias, uri.get(prefix_bytes..).ok_or_else(|| {
                    log_request!(
                        exchange,
                        Alert,
                        "could not map \"{}\" to a file: it is shorter than the prefix that \"alias\" replaces",
                        Text(uri)
                    );
                    StatusCode::INTERNAL_SERVER_ERROR
                })?),
            },
        };
        let mut path = FilePath {
            bytes: SmallVec::new(),
            root_bytes: 0,
        };
        match root.as_literal() {
            Some(text) => path.bytes.extend_from_slice(text),
            None => {
                let text = template::evaluate(root, exchange);
                if text.first().is_some_and(|byte| *byte != b'/') {
                    path.bytes.extend_from_slice(&exchange.snapshot.prefix);
                    path.bytes.push(b'/');
                }
                path.bytes.extend_from_slice(&text);
            }
        }
        path.root_bytes = path.bytes.len();
        path.bytes.push(0);
        path.push(rest);
        Ok(path)
    }

    /// A path as it is written.
    pub(crate) fn absolute(path: &[u8]) -> FilePath {
        let mut bytes = SmallVec::from_slice(path);
        bytes.push(0);
        FilePath {
            bytes,
            root_bytes: 0,
        }
    }

    /// The path itself.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - 1]
    }

    /// The path and the NUL after it.
    pub(crate) fn nul_terminated(&self) -> &[u8] {
        &self.bytes
    }

    /// What follows `root` or `alias`.
    pub(crate) fn below_root(&self) -> &[u8] {
        &self.as_bytes()[self.root_bytes..]
    }

    /// Appends to the path.
    pub(crate) fn push(&mut self, more: &[u8]) {
        self.bytes.pop(); // the NUL
        self.bytes.extend_from_slice(more);
        self.bytes.push(0);
    }

    /// The path with something behind it.
    pub(crate) fn joined(&self, more: &[u8]) -> FilePath {
        let mut bytes = SmallVec::from_slice(self.as_bytes());
        bytes.extend_from_slice(more);
        bytes.push(0);
        FilePath {
            bytes,
            root_bytes: self.root_bytes,
        }
    }

    /// Cuts the path to a length.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        debug_assert!(bytes < self.bytes.len());
        self.bytes.truncate(bytes);
        self.bytes.push(0);
    }

    /// Replaces what follows `root` or `alias`.
    pub(crate) fn replace_below_root(&mut self, rest: &[u8]) {
        self.truncate(self.root_bytes);
        self.push(rest);
    }
}

impl fmt::Display for FilePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Text(self.as_bytes()).fmt(f)
    }
}
