//! Pages of any origin, which are trimmed.

use crate::trim::{TrimOptions, Trimmer};

/// What a trimmer may hold back: the beginning of a tag, a comment or a script's comment.
const MAX_HELD_BYTES: usize = 96;

/// A page; two bits of the first byte say what is trimmed in it, the others how it is cut.
///
/// However it is cut, the output is the same. It is never longer than the page, and little is held
/// back. Bytes other than white space and comments all stay where nothing but markup is trimmed.
pub fn fuzz_trim(data: &[u8]) {
    let Some((&choice, page)) = data.split_first() else {
        return;
    };
    let options = TrimOptions {
        scripts: choice & 1 != 0,
        styles: choice & 2 != 0,
    };
    let at_once = trimmed(page, options, page.len());
    let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
    for piece in [1, usize::from(choice >> 2) % 9 + 2] {
        let in_pieces = trimmed(page, options, piece);
        assert_eq!(shown(&at_once), shown(&in_pieces), "in pieces of {piece}");
    }
    assert!(at_once.len() <= page.len(), "{}", shown(&at_once));
    if !page.windows(4).any(|bytes| bytes == b"<!--") && choice & 3 == 0 {
        let visible = |bytes: &[u8]| {
            let all = bytes.iter().copied();
            all.filter(|byte| !byte.is_ascii_whitespace())
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(&visible(page)), shown(&visible(&at_once)));
    }
}

fn trimmed(page: &[u8], options: TrimOptions, piece: usize) -> Vec<u8> {
    let mut output = Vec::new();
    let mut trimmer = Trimmer::new(options);
    for piece in page.chunks(piece.max(1)) {
        trimmer.push(piece, &mut output);
    }
    let before = output.len();
    trimmer.finish(&mut output);
    assert!(output.len() - before <= MAX_HELD_BYTES);
    output
}

#[cfg(test)]
mod tests {
    use super::fuzz_trim;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes(page: Vec<u8>) {
            fuzz_trim(&page);
        }

        #[test]
        fn what_looks_like_pages(choice: u8, page in "([ \n<>/!&='\"-]|<!--|-->|<pre|<script>|</script>|<style>|</style>|/\\*|\\*/|//|\\\\|a|\\{|\\}){0,60}") {
            fuzz_trim(&[&[choice], page.as_bytes()].concat());
        }
    }
}
