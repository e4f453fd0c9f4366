//! Where cache files are.

use crate::Hash;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How many hexadecimal digits name each level of subdirectories (`levels`); 0 after the last.
pub type Levels = [u8; 3];

/// The path of a key's file. The names of subdirectories are taken from the end of the file's own:
/// with `levels=1:2`, `b7f54b2df7773722d382f4809d65029c` is in `c/29`.
pub fn file_path(directory: &Path, levels: Levels, hash: &Hash) -> PathBuf {
    let name = hex(hash);
    let mut path = directory.as_os_str().to_owned();
    path.reserve(name.len() + 8);
    let mut end = name.len();
    for level in levels.into_iter().take_while(|level| *level > 0) {
        let begin = end.saturating_sub(usize::from(level));
        path.push("/");
        path.push(&name[begin..end]);
        end = begin;
    }
    path.push("/");
    path.push(&name);
    PathBuf::from(path)
}

/// Lower-case digits, two for each byte.
pub(crate) fn hex(hash: &Hash) -> String {
    let mut text = String::with_capacity(hash.len() * 2);
    for byte in hash {
        // A string takes everything.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The hash that a name stands for; `None` if it is another name.
pub(crate) fn hash_of(name: &str) -> Option<Hash> {
    let mut hash = Hash::default();
    let digits = name.as_bytes();
    if digits.len() != hash.len() * 2 {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_taken_from_the_end() {
        let name = "b7f54b2df7773722d382f4809d65029c";
        let hash = hash_of(name).expect("32 digits");
        let path = |levels| file_path(Path::new("/c"), levels, &hash);
        assert_eq!(path([0; 3]), PathBuf::from(format!("/c/{name}")));
        assert_eq!(path([1, 2, 0]), PathBuf::from(format!("/c/c/29/{name}")));
        assert_eq!(
            path([2, 2, 2]),
            PathBuf::from(format!("/c/9c/02/65/{name}"))
        );
        assert_eq!(hex(&hash), name);
        assert_eq!(hash_of(&name[1..]), None);
        assert_eq!(hash_of("g7f54b2df7773722d382f4809d65029c"), None);
    }
}
