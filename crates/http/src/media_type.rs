//! By which part of a path its media type is looked up.

/// The extension of a path's last segment, without the dot; empty when there is none.
///
/// As in nginx a dot that begins the segment starts no extension (`/.htaccess`).
pub fn extension(path: &[u8]) -> &[u8] {
    let name_start = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
    let name = &path[name_start..];
    match memchr::memrchr(b'.', name) {
        None | Some(0) => b"",
        Some(dot) => &name[dot + 1..],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions() {
        for (path, wanted) in [
            ("/index.html", "html"),
            ("/a.tar.gz", "gz"),
            ("/a.b/c", ""),
            ("/.htaccess", ""),
            ("/a/.x", ""),
            ("/.a.b", "b"),
            ("/a.", ""),
            ("/", ""),
            ("", ""),
        ] {
            assert_eq!(extension(path.as_bytes()), wanted.as_bytes(), "{path}");
        }
    }
}
