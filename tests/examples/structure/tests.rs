//! A tree that is made up for these tests.

use std::path::{Path, PathBuf};

use crate::crates::Crate;
use crate::uses::{largest_circle, uses};

/// A tree in a directory of its own, with these files of one crate.
fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
    let root = std::env::temp_dir().join(format!("structure-{}-{name}", std::process::id()));
    for (file, text) in files {
        let path = root.join("crates/made").join(file);
        let directory = path.parent().expect("a file has a directory");
        std::fs::create_dir_all(directory).expect("the temporary directory is writable");
        std::fs::write(path, text).expect("the temporary directory is writable");
    }
    root
}

/// Every use in the crate as `a -> b`, without `src/` and `.rs`.
fn arrows(read: &Crate) -> Vec<String> {
    let name = |file: &usize| {
        let file = read.files[*file].strip_prefix("src/");
        file.and_then(|file| file.strip_suffix(".rs"))
            .expect("a source")
    };
    let mut arrows = Vec::new();
    for (file, used) in uses(read) {
        arrows.extend(
            used.iter()
                .map(|used| format!("{} -> {}", name(&file), name(used))),
        );
    }
    arrows.sort();
    arrows
}

fn crate_of(root: &Path) -> Crate {
    Crate::read(&root.join("crates/made")).expect("the crate is right")
}

#[test]
fn a_use_leads_to_the_file_that_declares_the_thing() {
    let root = tree(
        "uses",
        &[
            (
                "src/lib.rs",
                "mod exchange;\nmod plain;\nmod a;\nmod b;\nmod c;\nmod d;\nmod e;\n",
            ),
            // The re-export is a use; `mod alone;` is none.
            (
                "src/exchange/mod.rs",
                "mod alone;\nmod state;\npub use state::Exchange as Ex;\n\
                 pub const LIMIT: u8 = 1;\n",
            ),
            (
                "src/exchange/alone.rs",
                "fn f() { super::super::plain::g() }\n",
            ),
            ("src/exchange/state.rs", "pub struct Exchange;\n"),
            (
                "src/plain.rs",
                "pub fn g() {}\nmacro_rules! make { () => { $crate::a::x() } }\n",
            ),
            ("src/a.rs", "use crate::exchange::Ex;\npub fn x() {}\n"),
            (
                "src/b.rs",
                "use crate::exchange::{self, Ex as Other};\nfn f() { exchange::LIMIT; }\n",
            ),
            (
                "src/c.rs",
                "fn f(plain: u8) { println!(\"{} {}\", crate::a::x(), plain) }\n",
            ),
            // A glob over what is imported there, and a path from the inside of a function.
            (
                "src/d.rs",
                "use super::a::*;\nfn f() -> Ex { use crate::plain::g; g() }\n",
            ),
            (
                "src/e.rs",
                "mod inner {\n    fn f() { super::super::b::missing() }\n}\n",
            ),
        ],
    );
    assert_eq!(
        arrows(&crate_of(&root)),
        [
            "a -> exchange/state",
            "b -> exchange/mod",
            "b -> exchange/state",
            "c -> a",
            "d -> a",
            "d -> exchange/state",
            "d -> plain",
            "e -> b",
            "exchange/alone -> plain",
            "exchange/mod -> exchange/state",
            "plain -> a",
        ]
    );
    std::fs::remove_dir_all(root).expect("it is there");
}

#[test]
fn circles_go_over_any_number_of_files_and_not_over_tests() {
    let root = tree(
        "circles",
        &[
            (
                "src/lib.rs",
                "mod a;\nmod b;\nmod c;\nmod outside;\npub use a::A;\n",
            ),
            ("src/a.rs", "use crate::b::B;\npub struct A(B);\n"),
            ("src/b.rs", "use crate::c::C;\npub struct B(C);\n"),
            (
                "src/c.rs",
                "pub struct C;\nimpl C { fn f() -> crate::a::A { loop {} } }\n\
                 #[cfg(test)]\nmod tests;\n",
            ),
            ("src/c/tests.rs", "use crate::outside::O;\n"),
            (
                "src/outside.rs",
                "use crate::a::A;\npub struct O(A);\n\
                 #[cfg(test)]\nmod inner {\n    use crate::c::C;\n    struct A;\n}\n",
            ),
        ],
    );
    let read = crate_of(&root);
    let circle = largest_circle(&uses(&read));
    let circle: Vec<&str> = circle
        .iter()
        .map(|file| read.files[*file].as_str())
        .collect();
    assert_eq!(circle, ["src/a.rs", "src/b.rs", "src/c.rs"]);
    assert_eq!(read.files.len(), 5);
    // `A` is declared a second time in a test only.
    assert!(
        read.types.values().all(|files| files.len() == 1),
        "{:?}",
        read.types
    );
    std::fs::remove_dir_all(root).expect("it is there");
}

#[test]
fn what_is_printed() {
    let old = tree(
        "old",
        &[
            ("src/lib.rs", "mod a;\nmod b;\n"),
            ("src/a.rs", "use crate::b::B;\npub struct Link(B);\n"),
            (
                "src/b.rs",
                "pub struct B;\ntype Link = u8;\nfn f() -> crate::a::Link {}\n",
            ),
        ],
    );
    let new = tree(
        "new",
        &[
            (
                "src/main.rs",
                "mod a;\n\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n",
            ),
            ("src/a.rs", "struct Link;\n"),
        ],
    );
    let one = crate::report::one(&old).expect("the tree is right");
    assert_eq!(
        one.lines().next(),
        Some("crate       lines  without tests  files  circle  names")
    );
    assert_eq!(
        one.lines().nth(1),
        Some("made            7              7      3       2      1")
    );
    assert_eq!(one.lines().last(), Some("made: Link: src/a.rs, src/b.rs"));
    let both = crate::report::two(&old, &new).expect("the trees are right");
    assert_eq!(
        both.lines().nth(1),
        Some("made            7          7 > 3  3 > 2   2 > 0  1 > 0")
    );
    let circle = crate::report::circle(&old, "made").expect("the tree is right");
    assert_eq!(circle, "src/a.rs\n    src/b.rs\nsrc/b.rs\n    src/a.rs\n");
    let missing = crate::report::one(Path::new("/nonexistent"));
    assert!(missing.is_err_and(|error| error.contains("/nonexistent/crates")));
    for root in [old, new] {
        std::fs::remove_dir_all(root).expect("it is there");
    }
}
