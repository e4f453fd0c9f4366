//! The rules of CONTRIBUTING.md that a test can check. Each test reads the
//! repository's own files; its message says what to do.

#[path = "tidy/pages.rs"]
mod pages;
#[path = "tidy/public_items.rs"]
mod public_items;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest source file, in lines.
const FILE_LINES: usize = 800;
/// How wide a comment may be.
const COMMENT_COLUMNS: usize = 100;

/// Longest function outside of tests, in lines. The aim is 70; a table written
/// as one `match` may take more.
const FUNCTION_LINES: usize = 120;

/// Which of our packages a package may depend on. `tests` and `fuzz` may use
/// everything.
const DEPENDENCIES: [(&str, &[&str]); 20] = [
    ("sys", &[]),
    ("awslc", &[]),
    ("vector", &[]),
    ("conf", &[]),
    ("http", &[]),
    ("mail", &[]),
    ("counters", &["sys"]),
    ("tls", &["awslc", "counters", "sys", "vector"]),
    ("pkcs11", &["awslc", "counters", "tls"]),
    ("provider", &["awslc", "counters", "sys", "tls"]),
    ("quic", &["tls"]),
    ("io", &["sys", "tls"]),
    ("keys", &["awslc", "counters", "sys", "tls"]),
    ("log", &["conf", "sys"]),
    ("upstream", &["counters"]),
    ("cache", &["counters"]),
    ("stream", &["io", "sys", "tls"]),
    (
        "server",
        &[
            "cache", "conf", "counters", "http", "io", "keys", "log", "mail", "quic", "stream",
            "sys", "tls", "upstream",
        ],
    ),
    ("bench", &["awslc", "http", "quic", "sys", "tls"]),
    // Not `bench`: what makes load has no place in what faces the network.
    (
        "sealane",
        &[
            "conf", "counters", "keys", "log", "pkcs11", "provider", "server", "sys", "tls",
            "upstream",
        ],
    ),
];

/// The crates that may contain `unsafe`.
const UNSAFE_CRATES: [&str; 3] = ["crates/sys/", "crates/awslc/", "crates/vector/"];

struct File {
    /// Relative to the repository, with forward slashes.
    name: String,
    text: String,
}

/// Every file that belongs to the repository, as git sees it: generated and
/// ignored files do not count, new ones do before they are committed.
fn files() -> Vec<File> {
    let root = sealane_tests::repository();
    let output = std::process::Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(&root)
        .output()
        .expect("git is installed");
    assert!(
        output.status.success(),
        "the rules are checked in a git working tree"
    );
    let names = String::from_utf8(output.stdout).expect("file names are UTF-8");
    let read = |name: &str| {
        // A file may be deleted and not yet committed, or not be text.
        let text = std::fs::read_to_string(root.join(name)).ok()?;
        Some(File {
            name: name.to_owned(),
            text,
        })
    };
    let files: Vec<File> = names
        .split('\0')
        .filter(|name| !name.is_empty())
        .filter_map(read)
        .collect();
    assert!(
        files.iter().any(|file| file.name == "Cargo.toml"),
        "the repository was read"
    );
    files
}

fn sources() -> Vec<File> {
    files()
        .into_iter()
        .filter(|file| file.name.ends_with(".rs"))
        .collect()
}

#[track_caller]
fn assert_none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn files_and_functions_are_short() {
    let mut long = Vec::new();
    for file in sources() {
        let lines: Vec<&str> = file.text.lines().collect();
        if lines.len() > FILE_LINES {
            long.push(format!(
                "{}: {} lines, at most {FILE_LINES}",
                file.name,
                lines.len()
            ));
        }
        if file.name.contains("tests") {
            continue;
        }
        for (start, line) in lines.iter().enumerate() {
            let code = line.trim_start();
            let indent = &line[..line.len() - code.len()];
            let is_function =
                code.split(' ').take(5).any(|word| word == "fn") && !code.starts_with("//");
            if !is_function || code.ends_with(';') || code.ends_with('}') {
                continue;
            }
            // rustfmt puts the closing brace where the function began.
            let end = lines[start..]
                .iter()
                .position(|line| *line == format!("{indent}}}"));
            let length = end.map_or(0, |length| length + 1);
            if length > FUNCTION_LINES {
                long.push(format!(
                    "{}:{}: {length} lines, at most {FUNCTION_LINES}",
                    file.name,
                    start + 1
                ));
            }
        }
    }
    assert_none("one idea for each file and function; split these", long);
}

/// rustfmt keeps code to this width and leaves comments as they are. Tables cannot be wrapped.
#[test]
fn comments_fit_into_100_columns() {
    let mut long = Vec::new();
    for file in sources() {
        for (at, line) in file.text.lines().enumerate() {
            let comment = line.trim_start();
            let is_table = comment.trim_start_matches(['/', '!', ' ']).starts_with('|');
            let columns = line.chars().count();
            if comment.starts_with("//") && !is_table && columns > COMMENT_COLUMNS {
                long.push(format!("{}:{}: {columns} columns", file.name, at + 1));
            }
        }
    }
    assert_none("wrap these comments", long);
}

#[test]
fn unsafe_code_is_where_it_belongs_and_says_why_it_is_sound() {
    let mut wrong = Vec::new();
    for file in sources()
        .into_iter()
        .filter(|file| file.name != "tests/tests/tidy.rs")
    {
        let allowed = UNSAFE_CRATES
            .iter()
            .any(|directory| file.name.starts_with(directory));
        let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
        for (number, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| !line.starts_with("//"))
        {
            let code = line.split("//").next().unwrap_or_default();
            let is_unsafe = code
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "unsafe");
            if !is_unsafe || code.contains("unsafe_") || code.contains('"') {
                continue;
            }
            let place = format!("{}:{}", file.name, number + 1);
            if !allowed {
                wrong.push(format!("{place}: unsafe outside of {UNSAFE_CRATES:?}"));
                continue;
            }
            let is_block = code.contains("unsafe {") || code.contains("unsafe impl");
            // The comment stands right above the statement that the block is part of.
            let reason = lines[..number]
                .iter()
                .rev()
                .take(12)
                .any(|above| above.contains("SAFETY:"));
            if is_block && !reason {
                wrong.push(format!("{place}: no SAFETY: comment"));
            }
        }
    }
    assert_none("unsafe code", wrong);
}

#[test]
fn dependencies_point_one_way() {
    let root = sealane_tests::repository();
    let mut wrong = Vec::new();
    for (package, allowed) in DEPENDENCIES {
        let manifest = std::fs::read_to_string(root.join(format!("crates/{package}/Cargo.toml")));
        let manifest =
            manifest.unwrap_or_else(|error| panic!("crates/{package}/Cargo.toml: {error}"));
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let Some(name) = line.strip_prefix("sealane-") else {
                continue;
            };
            let name = name.split(['.', ' ', '=']).next().unwrap_or_default();
            if section.starts_with("[dependencies") && !allowed.contains(&name) {
                wrong.push(format!(
                    "crates/{package} depends on {name}, allowed are {allowed:?}"
                ));
            }
        }
        if package != "awslc" && manifest.contains("aws-lc-sys") {
            wrong.push(format!(
                "crates/{package} calls the TLS library directly instead of through awslc"
            ));
        }
        if !manifest.contains("[lints]\nworkspace = true") {
            wrong.push(format!(
                "crates/{package} does not take the workspace's lints"
            ));
        }
    }
    assert_none(
        "dependencies (sys awslc vector <- tls; sys conf <- log; tls conf http log upstream cache <- server <- sealane)",
        wrong,
    );
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(path: &str) -> Vec<String> {
    let parts = path
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    match parts {
        Some((before, (names, after))) => {
            let names = names.split(',');
            names.map(|name| format!("{before}{name}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

#[test]
fn the_map_names_files_that_exist() {
    let root = sealane_tests::repository();
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("it is there");
    // What stands in backquotes and begins with a directory of ours; `<...>` stands for a name.
    let quoted = map.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|path| {
        let ours = ["crates/", "tests/", "docs/", "scripts/", "fuzz/"];
        ours.iter().any(|start| path.starts_with(start)) && !path.contains(['<', ' ', '\n'])
    });
    let paths: Vec<String> = paths.flat_map(expanded).collect();
    assert!(paths.len() > 50, "backquotes pair up: {paths:?}");
    let missing = paths.into_iter().filter(|path| !root.join(path).exists());
    assert_none("paths in ARCHITECTURE.md", missing.collect());
}

#[test]
fn types_are_called_what_the_field_calls_them() {
    let mut wrong = Vec::new();
    let sources = sources().into_iter();
    for file in sources.filter(|file| file.name.starts_with("crates/")) {
        for (number, line) in file.text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_type = words.any(|word| matches!(word, "struct" | "enum" | "trait" | "type"));
            let is_vague = matches!(words.next(), Some("Place" | "State" | "Step"));
            if is_type && is_vague && !line.trim_start().starts_with("//") {
                wrong.push(format!("{}:{}", file.name, number + 1));
            }
        }
    }
    assert_none(
        "types called \"Place\", \"State\" or \"Step\" (a slot, a permit, a location, a shard, an \
         endpoint? The state of what? The glossary in ARCHITECTURE.md has the words)",
        wrong,
    );
}

/// One name, one meaning: a reader who has met a type in one file of the data plane need not ask
/// which one is meant in another.
#[test]
fn types_of_the_data_plane_have_names_of_their_own() {
    // Private to their files, each of which has one thing of the kind.
    let private = ["Entry", "State"];
    let mut known = BTreeMap::new();
    let mut wrong = Vec::new();
    for file in sources() {
        if !file.name.starts_with("crates/server/src/") || file.name.contains("tests") {
            continue;
        }
        let (code, _) = file
            .text
            .split_once("#[cfg(test)]\nmod ")
            .unwrap_or((&file.text, ""));
        for line in code.lines() {
            let line = line.trim_start();
            let line = match line.strip_prefix("pub") {
                Some(rest) => rest.split_once(' ').map_or("", |(_, rest)| rest),
                None => line,
            };
            let Some((kind, rest)) = line.split_once(' ') else {
                continue;
            };
            if !matches!(kind, "struct" | "enum" | "trait") {
                continue;
            }
            let name = rest.split(|c: char| !c.is_alphanumeric()).next();
            let name = name.unwrap_or_default().to_owned();
            if private.contains(&&*name) {
                continue;
            }
            if let Some(first) = known.insert(name.clone(), file.name.clone()) {
                wrong.push(format!("{name}: {first}, {}", file.name));
            }
        }
    }
    assert_none("types with the same name", wrong);
}

#[test]
fn pure_crates_do_no_input_or_output() {
    let forbidden = [
        "std::fs",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "std::process",
        "std::thread",
        "Instant::now",
        "SystemTime::now",
        "std::env",
        "println!",
        "eprintln!",
    ];
    let mut wrong = Vec::new();
    for file in sources() {
        let pure = ["conf", "http", "mail", "quic"];
        let mut pure = pure.iter().map(|name| format!("crates/{name}/src/"));
        let pure = pure.any(|path| file.name.starts_with(&path));
        let test = file.name.contains("tests") || file.name.ends_with("_test.rs");
        if !pure || test {
            continue;
        }
        // Tests at the end of a file may do what they like.
        let code = file.text.split("#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in code
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim_start().starts_with("//"))
        {
            for name in forbidden.iter().filter(|name| line.contains(**name)) {
                wrong.push(format!("{}:{}: {name}", file.name, number + 1));
            }
        }
    }
    assert_none(
        "conf, http, mail and quic get files and the time handed in",
        wrong,
    );
}

#[test]
fn names_say_what_a_file_is_about() {
    let vague = [
        "manager", "context", "util", "utils", "helper", "helpers", "common", "misc",
    ];
    // AWS-LC's own word for SSL_CTX.
    let allowed = ["crates/awslc/src/context.rs"];
    let is_vague = |file: &File| {
        let words = file.name.split(['/', '_', '-', '.']);
        words.into_iter().any(|word| vague.contains(&word))
            && !allowed.contains(&file.name.as_str())
    };
    let found = sources()
        .into_iter()
        .filter(is_vague)
        .map(|file| file.name)
        .collect();
    assert_none("name the thing, not that it is a thing", found);
}

#[test]
fn nothing_is_left_to_do_or_bound_to_one_machine() {
    // Put together here, so that this file does not match itself.
    let unfinished = ["TO", "FIX", "XX"].map(|half| {
        format!(
            "{half}{}",
            match half {
                "TO" => "DO",
                "FIX" => "ME",
                _ => "X",
            }
        )
    });
    let home = std::env::var("HOME").unwrap_or_default();
    let root = sealane_tests::repository().display().to_string();
    let machine: Vec<String> = [home, root]
        .into_iter()
        .filter(|path| path.len() > 1)
        .map(|path| format!("{path}/"))
        .collect();
    let mut found = Vec::new();
    for file in files()
        .into_iter()
        .filter(|file| !file.name.starts_with("LICENSE") && file.name != "Cargo.lock")
    {
        for (number, line) in file.text.lines().enumerate() {
            let words = || line.split(|c: char| !c.is_alphanumeric());
            let left = unfinished
                .iter()
                .find(|word| words().any(|found| found == word.as_str()));
            // A path of this machine: at the start of a word, followed by a name.
            let path = machine.iter().find(|path| {
                line.match_indices(path.as_str()).any(|(at, _)| {
                    !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-}*".contains(c))
                })
            });
            if let Some(word) = left.or(path) {
                found.push(format!("{}:{}: {word}", file.name, number + 1));
            }
        }
    }
    assert_none(
        "finish it, or open an issue; and no paths of one machine",
        found,
    );
}

#[test]
fn merges_are_finished() {
    let markers = ["<", ">", "|"].map(|sign| sign.repeat(7) + " ");
    let mut found = Vec::new();
    for file in files() {
        for (number, line) in file.text.lines().enumerate() {
            if markers.iter().any(|marker| line.starts_with(marker)) {
                found.push(format!("{}:{}", file.name, number + 1));
            }
        }
    }
    assert_none("keep what belongs there of both sides", found);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let root = sealane_tests::repository();
    let mut broken = Vec::new();
    for file in files()
        .into_iter()
        .filter(|file| file.name.ends_with(".md"))
    {
        let directory = root
            .join(&file.name)
            .parent()
            .map(Path::to_path_buf)
            .expect("a file has a directory");
        for link in file.text.split("](").skip(1) {
            let target = link.split([')', '#', ' ']).next().unwrap_or_default();
            let is_local =
                !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:");
            if is_local && !directory.join(target).exists() {
                broken.push(format!("{}: {target}", file.name));
            }
        }
    }
    assert_none("links", broken);
}

/// `docs/limits.md` names constants and tests: they are there.
#[test]
fn limits_that_are_written_down_exist() {
    let all = files();
    let page = all.iter().find(|file| file.name == "docs/limits.md");
    let page = page.expect("docs/limits.md is there");
    let is_somewhere = |text: &str| {
        let mut sources = all.iter().filter(|file| file.name.ends_with(".rs"));
        sources.any(|file| file.text.contains(text))
    };
    let mut missing = Vec::new();
    for row in page.text.lines().filter(|line| line.starts_with("| ")) {
        let Some((_, tests)) = row.trim_end_matches(" |").rsplit_once(" | ") else {
            continue;
        };
        for word in row.split('`').skip(1).step_by(2) {
            let is_constant = |byte: u8| byte.is_ascii_uppercase() || byte == b'_';
            if word.contains('_') && word.bytes().all(is_constant) {
                missing.extend((!is_somewhere(&format!("const {word}:"))).then_some(word));
            }
        }
        for word in tests.split(|c: char| !c.is_alphanumeric() && c != '_') {
            let is_sentence = word.matches('_').count() > 1 && !word.starts_with("section_");
            if is_sentence {
                missing.extend((!is_somewhere(&format!("fn {word}("))).then_some(word));
            }
        }
    }
    let missing = missing.into_iter().map(str::to_owned).collect();
    assert_none("constants and tests of docs/limits.md", missing);
}

#[test]
fn scripts_stop_at_the_first_error() {
    let mut wrong = Vec::new();
    for file in files()
        .into_iter()
        .filter(|file| file.text.starts_with("#!"))
    {
        // A POSIX shell, as maintainer scripts have it, knows no "pipefail".
        let rule = match file.text.starts_with("#!/bin/sh\n") {
            true => "set -eu",
            false => "set -euo pipefail",
        };
        if !file.text.contains(&format!("\n{rule}\n")) {
            wrong.push(format!("{}: no `{rule}`", file.name));
        }
        let path: PathBuf = sealane_tests::repository().join(&file.name);
        let check = sealane_tests::command("bash", &["-n".as_ref(), path.as_os_str()], b"");
        if check.status != 0 {
            wrong.push(check.stderr);
        }
    }
    assert_none("shell scripts", wrong);
}

#[test]
fn every_package_of_the_workspace_is_described() {
    let mut missing = BTreeMap::new();
    for file in files()
        .into_iter()
        .filter(|file| file.name.ends_with("/Cargo.toml"))
    {
        for key in ["description", "license.workspace", "publish.workspace"] {
            let line = file.text.lines().find(|line| line.starts_with(key));
            if line.is_none_or(|line| line.ends_with("\"\"")) {
                missing
                    .entry(file.name.clone())
                    .or_insert_with(Vec::new)
                    .push(key);
            }
        }
    }
    assert!(missing.is_empty(), "manifests without: {missing:?}");
}

/// What is linked may be used under one of these, and comes with its text.
const LICENCES: [&str; 10] = [
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "BSL-1.0",
    "Unlicense",
    "Unicode-3.0",
];

#[test]
fn what_is_linked_is_permissively_licensed() {
    let script = sealane_tests::repository().join("scripts/third-party-notices.sh");
    let notices = sealane_tests::command(&script.display().to_string(), &[""; 0], b"");
    let notices = notices.success();
    let text = String::from_utf8_lossy(&notices.stdout);
    let licences: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("Licence: "))
        .collect();
    assert!(
        licences.len() > 100,
        "the list has {} packages only",
        licences.len()
    );
    let unknown = licences.iter().filter(|licence| {
        let mut names = licence.split(|c: char| !(c.is_alphanumeric() || "-._".contains(c)));
        names.any(|name| {
            let joins = ["", "AND", "OR", "WITH", "LLVM-exception"];
            !joins.contains(&name) && !LICENCES.contains(&name)
        })
    });
    let unknown = unknown.map(|licence| (*licence).to_owned()).collect();
    assert_none("licences that are new here: is each permissive?", unknown);
}

/// A compiler that nobody tried is not promised, and no other one than stable is used.
#[test]
fn the_compiler_is_the_same_everywhere() {
    let read = |name: &str| {
        std::fs::read_to_string(sealane_tests::repository().join(name)).expect("the file is there")
    };
    let manifest = read("Cargo.toml");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .expect("Cargo.toml has a rust-version");
    let promise = format!("({version} or newer, stable)");
    assert!(
        read("README.md").contains(&promise),
        "README.md does not say {promise:?}"
    );
    for (file, line) in [
        ("rust-toolchain.toml", "channel = \"stable\""),
        ("Makefile", "export RUSTUP_TOOLCHAIN := stable"),
        (".ci/run", "export RUSTUP_TOOLCHAIN=stable"),
        (".ci/run", "scripts/check-toolchain.sh"),
        (
            "scripts/install-build-deps.sh",
            "\"$directory/check-toolchain.sh\"",
        ),
    ] {
        assert!(
            read(file).lines().any(|found| found == line),
            "{file}: no line {line:?}"
        );
    }
}
