//! Measures how the crates are put together: how long they are, how many of their files hang
//! together in a circle, and which names of types mean two things.
//!
//! ```sh
//! cargo run -p sealane-tests --example structure                  # this tree
//! cargo run -p sealane-tests --example structure -- OLD           # another one
//! cargo run -p sealane-tests --example structure -- OLD NEW       # both, side by side
//! cargo run -p sealane-tests --example structure -- --circle server [TREE]
//! ```
//!
//! A tree is a directory with `crates/`; `git archive REVISION | tar x -C OLD` makes one.
//!
//! A file uses another one when a path in its code (`use`, a type, a call, inside of macros too)
//! leads to something that the other one declares. Re-exports are followed to where the thing
//! stands: `use crate::exchange::Exchange` leads to the file with the `struct`, whatever `mod.rs`
//! lies between. `mod child;` is no use, `pub use child::Thing` is one. Calls of methods have no
//! path and do not count. A circle is a set of files each of which uses, over any number of steps,
//! each other one. Tests count nowhere but in the lines of `src`.

mod crates;
mod paths;
mod report;
#[cfg(test)]
mod tests;
mod uses;

use std::path::PathBuf;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let printed = match arguments[..] {
        [] => report::one(&sealane_tests::repository()),
        ["--circle", name] => report::circle(&sealane_tests::repository(), name),
        ["--circle", name, tree] => report::circle(&PathBuf::from(tree), name),
        [tree] if !tree.starts_with('-') => report::one(&PathBuf::from(tree)),
        [old, new] => report::two(&PathBuf::from(old), &PathBuf::from(new)),
        _ => Err("usage: structure [TREE [NEW-TREE]] | --circle CRATE [TREE]".to_owned()),
    };
    match printed {
        Ok(text) => print!("{text}"),
        Err(error) => {
            eprintln!("structure: {error}");
            std::process::exit(1);
        }
    }
}
