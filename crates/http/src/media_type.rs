//! File extension to media type: the `types` block.

use std::collections::HashMap;

/// The type of files without a known extension, nginx's default for `default_type`.
pub const DEFAULT_TYPE: &str = "text/plain";

/// Longer extensions are looked up through a heap copy; none is in use.
const STACK_EXTENSION_BYTES: usize = 32;

/// The media types of a location. Extensions are compared without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMap {
    types: HashMap<Box<[u8]>, Box<str>>,
}

impl TypeMap {
    /// A map without entries, as `types { }` gives.
    pub fn empty() -> TypeMap {
        TypeMap::default()
    }

    /// The types nginx knows when there is no `types` block at all.
    pub fn built_in() -> TypeMap {
        let mut map = TypeMap::empty();
        map.insert("html", "text/html");
        map.insert("gif", "image/gif");
        map.insert("jpg", "image/jpeg");
        map
    }

    /// Adds an extension (without its dot). Returns its previous type: nginx warns about a
    /// duplicate and lets the last one win.
    pub fn insert(&mut self, extension: &str, media_type: &str) -> Option<Box<str>> {
        let key = extension.to_ascii_lowercase().into_bytes().into();
        self.types.insert(key, media_type.into())
    }

    /// The type of an extension, as [`extension`] returns it.
    pub fn get(&self, extension: &[u8]) -> Option<&str> {
        if extension.is_empty() {
            return None;
        }
        let mut lower = [0; STACK_EXTENSION_BYTES];
        let found = match lower.get_mut(..extension.len()) {
            Some(lower) => {
                lower.copy_from_slice(extension);
                lower.make_ascii_lowercase();
                self.types.get(&*lower)
            }
            None => self.types.get(&*extension.to_ascii_lowercase()),
        };
        found.map(|media_type| &**media_type)
    }

    /// The type of the file at a normalised path.
    pub fn of_path(&self, path: &[u8]) -> Option<&str> {
        self.get(extension(path))
    }
}

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
    fn built_in_types_are_found_in_any_case() {
        let map = TypeMap::built_in();
        assert_eq!(map.of_path(b"/a/index.html"), Some("text/html"));
        assert_eq!(map.of_path(b"/A.JPG"), Some("image/jpeg"));
        assert_eq!(map.of_path(b"/a.gif"), Some("image/gif"));
        assert_eq!(map.of_path(b"/a.css"), None);
        assert_eq!(map.get(&[b'x'; 100]), None);
    }

    #[test]
    fn the_last_of_two_types_wins() {
        let mut map = TypeMap::empty();
        assert_eq!(map.insert("JS", "a/b"), None);
        assert_eq!(map.insert("js", "c/d").as_deref(), Some("a/b"));
        assert_eq!(map.get(b"Js"), Some("c/d"));
    }

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
