//! Public items that nobody uses: the compiler does not look for them.

use super::{File, assert_none, sources};
use std::collections::BTreeMap;

/// What is declared in a line.
struct Item<'a> {
    name: &'a str,
    /// Whether its own file may be all that names it: a type may stand in the signature of a
    /// function, and a limit may be there to be read about.
    may_stay: bool,
}

fn item(line: &str) -> Option<Item<'_>> {
    let mut words = line.trim_start().strip_prefix("pub ")?.split(' ');
    let mut kind = words.next()?;
    while matches!(kind, "const" | "unsafe" | "async") {
        let next = words.next()?;
        if kind == "const" && !matches!(next, "fn" | "unsafe") {
            // Constants of a type are a table, such as that of an RFC, which may be complete.
            let is_free = line.starts_with("pub ");
            let name = name(next);
            return is_free.then_some(Item {
                name,
                may_stay: true,
            });
        }
        kind = next;
    }
    let may_stay = match kind {
        "fn" => false,
        "struct" | "enum" | "trait" | "type" | "union" | "static" => true,
        _ => return None,
    };
    let name = name(words.next()?);
    Some(Item { name, may_stay })
}

fn name(word: &str) -> &str {
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_');
    &word[..end.unwrap_or(word.len())]
}

/// The code of a file as a text without comments, without tests at its end and without `use`,
/// which names things to use them elsewhere.
fn code(file: &File) -> String {
    let is_tests = is_test(&file.name);
    let text = match file.text.split_once("#[cfg(test)]\nmod tests {") {
        Some((code, _)) if !is_tests => code,
        _ => &file.text,
    };
    let mut code = String::new();
    let mut in_use = false;
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default();
        let start = line.trim_start();
        let start = start.strip_prefix("pub ").unwrap_or(start);
        in_use |= start.starts_with("use ") || start.starts_with("pub(crate) use ");
        if !in_use {
            code.push_str(line);
            code.push('\n');
        }
        in_use &= !line.contains(';');
    }
    code
}

fn is_test(name: &str) -> bool {
    name.contains("tests/") || name.ends_with("/tests.rs")
}

fn crate_of(name: &str) -> &str {
    name.split('/').nth(1).unwrap_or_default()
}

/// A name that something else has too hides what nobody uses; a long name is seldom shared.
fn unused(files: &[File]) -> Vec<String> {
    let codes: Vec<String> = files.iter().map(code).collect();
    let mut uses: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, code) in codes.iter().enumerate() {
        for word in code.split(|c: char| !c.is_alphanumeric() && c != '_') {
            uses.entry(word).or_default().push(index);
        }
    }
    let mut unused = Vec::new();
    for (index, code) in codes.iter().enumerate() {
        let file = &files[index].name;
        if !file.starts_with("crates/") || !file.contains("/src/") || is_test(file) {
            continue;
        }
        for item in code.lines().filter_map(item) {
            let uses = &uses[item.name];
            let own = uses.iter().filter(|other| **other == index).count();
            let is_used_elsewhere = uses.iter().any(|&other| {
                let other_file = &files[other].name;
                let is_own_test = is_test(other_file)
                    && other_file.starts_with("crates/")
                    && crate_of(other_file) == crate_of(file);
                other != index && !is_own_test
            });
            let is_enough = item.may_stay && own > 1;
            if !is_used_elsewhere && !is_enough {
                unused.push(format!("{file}: {}", item.name));
            }
        }
    }
    unused
}

#[test]
fn public_items_are_used_outside_of_their_file() {
    assert_none(
        "public items that no other file names, but for tests of their own crate; delete them, or \
         take `pub` away and let the compiler decide",
        unused(&sources()),
    );
}

#[test]
fn what_nobody_uses_is_found() {
    let file = |name: &str, text: &str| File {
        name: name.to_owned(),
        text: text.to_owned(),
    };
    let declared = "pub fn everywhere() {}\npub fn tested() {}\npub fn own() { exported() }\n\
         pub const fn exported() {}\npub struct Signature;\npub fn other(_: Signature) {}\n\
         pub struct Nothing;\npub const LIMIT: u8 = 1;\npub const LEFT: u8 = LIMIT; // own\n\
         impl X {\n    pub const TABLE: u8 = 1;\n    pub async fn commented() {}\n}\n\
         #[cfg(test)]\nmod tests {\n    fn f() { own() }\n}\n";
    let files = [
        file("crates/a/src/lib.rs", declared),
        file("crates/a/src/tests.rs", "fn f() { tested() }\n"),
        file(
            "crates/b/src/lib.rs",
            "pub use a::{exported,\n    Nothing};\n// commented\nfn main() { everywhere(); other() }\n",
        ),
    ];
    let names = ["tested", "own", "exported", "Nothing", "LEFT", "commented"];
    let expected = names.map(|name| format!("crates/a/src/lib.rs: {name}"));
    assert_eq!(unused(&files), expected);
}
