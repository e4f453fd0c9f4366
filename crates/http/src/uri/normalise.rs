//! nginx's normalisation: the form of a path that `location` and the file system see.
//!
//! Percent-encoding is decoded, `.` and `..` segments are resolved, doubled slashes are merged, the
//! fragment is dropped and the query split off. Decoding comes first, so `%2e%2e` climbs and `%2F`
//! separates; only `%23`, `%25` and `%3F` stand for themselves. A path that is already normal is
//! borrowed, not copied.

use std::borrow::Cow;

use super::UriError;

/// A normalised path and its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalUri<'a> {
    /// `$uri`: starts with `/`, has no NUL, no `.` or `..` segment, and with `merge_slashes`
    /// no doubled slash.
    pub path: Cow<'a, [u8]>,
    /// `$args` as sent, without the question mark and without a fragment; `None` if there is no
    /// question mark.
    pub args: Option<&'a [u8]>,
    /// Whether the path contained percent-encoding, so that anything derived from `$uri`
    /// (redirects, proxied requests) must be escaped again.
    pub was_encoded: bool,
}

/// Normalises path and query of a request target. `merge_slashes` is the directive.
///
/// `path_and_query` is the whole target in origin form, or its path part in absolute form; an
/// empty path is `/`.
///
/// # Errors
/// [`UriError::Escape`], [`UriError::Nul`], [`UriError::AboveRoot`]; [`UriError::Form`] when it
/// starts with neither `/` nor `?`.
pub fn normalise(path_and_query: &[u8], merge_slashes: bool) -> Result<NormalUri<'_>, UriError> {
    match path_and_query.first() {
        Some(b'/') => {}
        None | Some(b'?') => return Ok(empty_path(path_and_query)),
        Some(_) => return Err(UriError::Form),
    }
    let plain_end = plain_prefix(path_and_query);
    match path_and_query.get(plain_end) {
        None | Some(b'?') => Ok(NormalUri {
            path: Cow::Borrowed(&path_and_query[..plain_end]),
            args: args_after(&path_and_query[plain_end..]),
            was_encoded: false,
        }),
        Some(_) => rewrite(path_and_query, plain_end, merge_slashes),
    }
}

fn empty_path(query: &[u8]) -> NormalUri<'_> {
    NormalUri {
        path: Cow::Borrowed(b"/"),
        args: args_after(query),
        was_encoded: false,
    }
}

/// The query in what follows a path: nothing, `?query`, `#fragment` or `?query#fragment`.
fn args_after(rest: &[u8]) -> Option<&[u8]> {
    let query = rest.strip_prefix(b"?")?;
    let end = memchr::memchr(b'#', query).unwrap_or(query.len());
    Some(&query[..end])
}

/// Length of the longest prefix of the path that is certainly normal. It ends at the path's end, at
/// `%`, `#` or NUL, or at the slash before another slash or a dot.
fn plain_prefix(path: &[u8]) -> usize {
    let mut index = 0;
    while let Some(&byte) = path.get(index) {
        match byte {
            b'/' if matches!(path.get(index + 1), Some(b'/' | b'.')) => return index,
            b'%' | b'#' | b'?' | 0 => return index,
            _ => index += 1,
        }
    }
    index
}

/// The general case: copies the normal prefix and processes the rest.
fn rewrite(
    target: &[u8],
    plain_end: usize,
    merge_slashes: bool,
) -> Result<NormalUri<'_>, UriError> {
    let mut path = Vec::with_capacity(target.len());
    path.extend_from_slice(&target[..plain_end]);
    let mut was_encoded = false;
    let mut index = plain_end;
    let mut args = None;
    loop {
        let byte = match target.get(index) {
            None => break,
            Some(b'#') => break,
            Some(0) => return Err(UriError::Nul),
            Some(b'?') => {
                args = args_after(&target[index..]);
                break;
            }
            Some(b'%') => {
                was_encoded = true;
                let decoded = decode(target, index)?;
                index += 2;
                decoded
            }
            Some(&byte) => byte,
        };
        index += 1;
        if byte == b'/' {
            // After a dot segment the path ends with the slash before it; no other is needed.
            let resolved = close_segment(&mut path)?;
            let doubled = merge_slashes && path.last() == Some(&b'/');
            if !resolved && !doubled {
                path.push(b'/');
            }
        } else {
            path.push(byte);
        }
    }
    close_segment(&mut path)?;
    Ok(NormalUri {
        path: Cow::Owned(path),
        args,
        was_encoded,
    })
}

/// Resolves the segment at the end of `path`, which a slash or the path's end has just closed: `.`
/// disappears, `..` removes the previous segment too. Returns whether it was one of them; `path`
/// then ends with the slash before.
fn close_segment(path: &mut Vec<u8>) -> Result<bool, UriError> {
    let Some(slash) = memchr::memrchr(b'/', path) else {
        return Ok(false);
    };
    match &path[slash + 1..] {
        b"." => path.truncate(slash + 1),
        b".." => {
            let parent = memchr::memrchr(b'/', &path[..slash]).ok_or(UriError::AboveRoot)?;
            path.truncate(parent + 1);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn decode(target: &[u8], at: usize) -> Result<u8, UriError> {
    let digit = |offset: usize| {
        let byte = target.get(at + offset)?;
        (*byte as char).to_digit(16)
    };
    let (Some(high), Some(low)) = (digit(1), digit(2)) else {
        return Err(UriError::Escape);
    };
    match (high * 16 + low) as u8 {
        0 => Err(UriError::Nul),
        byte => Ok(byte),
    }
}
