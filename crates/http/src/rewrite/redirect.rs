//! `proxy_redirect`: `Location`, and the URL in `Refresh`.

use std::ops::Range;

/// Where the URL of a `Refresh` value is: after the first `url=`, in any case, up to the end.
/// `None` if there is none, in which case there is nothing to rewrite.
pub fn refresh_url(value: &[u8]) -> Option<Range<usize>> {
    const KEY: &[u8] = b"url=";
    let mut windows = value.windows(KEY.len());
    let at = windows.position(|window| window.eq_ignore_ascii_case(KEY))?;
    Some(at + KEY.len()..value.len())
}

/// The value with this part replaced.
///
/// A part outside the value is a bug of the caller; it is treated as empty, at the value's end.
pub fn replace(value: &[u8], part: Range<usize>, replacement: &[u8]) -> Vec<u8> {
    let end = part.end.min(value.len());
    let start = part.start.min(end);
    [&value[..start], replacement, &value[end..]].concat()
}

/// The value with `pattern` at the start of `url` replaced; `None` if `url` does not begin with it.
/// As in nginx, the comparison is case-sensitive. `url` is the whole value of `Location`, or what
/// [`refresh_url`] found; `proxy_cookie_path` uses the same rule.
pub fn replace_prefix(
    value: &[u8],
    url: Range<usize>,
    pattern: &[u8],
    replacement: &[u8],
) -> Option<Vec<u8>> {
    let start = url.start;
    let is_prefix = value.get(url)?.starts_with(pattern);
    is_prefix.then(|| replace(value, start..start + pattern.len(), replacement))
}
