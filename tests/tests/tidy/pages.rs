//! The documentation: links that lead somewhere, pages that can be found, messages that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use super::{File, files};

/// Where the site's list of pages is.
const SUMMARY: &str = "docs/SUMMARY.md";
/// What explains messages.
const TROUBLESHOOTING: &str = "docs/troubleshooting.md";
/// The place of what differs in a message.
const GAP: char = '…';

fn pages(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.name.ends_with(".md"))
}

/// The text of a page without its blocks and spans of code, line by line.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            // Every second piece is code.
            let pieces = line.split('`').step_by(2);
            prose += &pieces.collect::<Vec<_>>().join("`");
        }
        prose.push('\n');
    }
    prose
}

/// The targets of a page's links, without those to other sites.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let after = prose.split("](").skip(1);
    let targets = after.filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split(' ').next().unwrap_or_default().to_owned())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// The anchors of a page's headings, as forges and mdBook make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    let mut in_block = false;
    for line in text.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if in_block || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || "-_".contains(c) => Some(c.to_ascii_lowercase()),
            _ => None,
        });
        let anchor: String = kept.collect();
        let count = seen.entry(anchor.clone()).or_insert(0);
        anchors.insert(match *count {
            0 => anchor,
            again => format!("{anchor}-{again}"),
        });
        *count += 1;
    }
    anchors
}

/// `target`, relative to the directory of `page`, without `.` and `..`; `None` outside of the
/// repository.
fn resolved(page: &str, target: &str) -> Option<String> {
    let mut path = Path::new(page).parent().unwrap_or(Path::new("")).to_owned();
    for component in Path::new(target).components() {
        match component {
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    path.to_str().map(str::to_owned)
}

#[test]
fn links_lead_to_files_and_headings() {
    let files = files();
    let anchors_of: BTreeMap<&str, BTreeSet<String>> = pages(&files)
        .map(|page| (page.name.as_str(), anchors(&page.text)))
        .collect();
    let root = sealane_tests::repository();
    let mut dead = Vec::new();
    for page in pages(&files) {
        for link in links(&page.text) {
            let (target, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path = match target {
                "" => Some(page.name.clone()),
                _ => resolved(&page.name, target),
            };
            let Some(path) = path.filter(|path| root.join(PathBuf::from(path)).exists()) else {
                dead.push(format!("{}: {link}: no such file", page.name));
                continue;
            };
            let has_anchor = || {
                let anchors = anchors_of.get(path.as_str());
                anchors.is_some_and(|anchors| anchors.contains(anchor))
            };
            if !anchor.is_empty() && !has_anchor() {
                dead.push(format!("{}: {link}: no such heading", page.name));
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{}", dead.join("\n"));
}

#[test]
fn every_page_of_the_manual_is_listed() {
    let files = files();
    let summary = files.iter().find(|file| file.name == SUMMARY);
    let summary = summary.expect("the list of pages");
    let listed: BTreeSet<_> = links(&summary.text)
        .iter()
        .filter_map(|link| resolved(SUMMARY, link))
        .collect();
    let missing: Vec<_> = pages(&files)
        .map(|page| page.name.as_str())
        .filter(|name| name.starts_with("docs/") && *name != SUMMARY && !listed.contains(*name))
        .collect();
    assert!(missing.is_empty(), "add to {SUMMARY}: {missing:?}");
}

/// The string literals of a source without its tests, with a gap for each placeholder.
fn literals(source: &str) -> Vec<String> {
    let source = source
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let bytes = source.as_bytes();
    let mut literals = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
            }
            // A character, not a lifetime.
            b'\'' if bytes[at + 1..].starts_with(b"\\") => {
                at += 3 + source[at + 3..].find('\'').unwrap_or(0);
            }
            b'\'' if bytes.get(at + 2) == Some(&b'\'') => at += 2,
            b'"' => {
                let start = at + 1;
                at = start;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += 1 + usize::from(bytes[at] == b'\\');
                }
                literals.push(plain(&source[start..at.min(source.len())]));
            }
            _ => {}
        }
        at += 1;
    }
    literals
}

/// A literal as it is printed: continued lines joined, escapes resolved, placeholders as gaps.
fn plain(literal: &str) -> String {
    let mut plain = String::new();
    let mut characters = literal.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\n') => while characters.next_if(|c| c.is_whitespace()).is_some() {},
                Some('n') => plain.push('\n'),
                Some(other) => plain.push(other),
                None => {}
            },
            '{' if characters.next_if_eq(&'{').is_some() => plain.push('{'),
            '{' => {
                while characters.next().is_some_and(|c| c != '}') {}
                plain.push(GAP);
            }
            '}' => {
                characters.next_if_eq(&'}');
                plain.push('}');
            }
            other => plain.push(other),
        }
    }
    plain
}

/// Whether the pieces of `message` between its gaps are in `literal`, in order.
fn is_in(message: &str, literal: &str) -> bool {
    let mut rest = literal;
    message.split(GAP).all(|piece| match rest.find(piece) {
        Some(at) => {
            rest = &rest[at + piece.len()..];
            true
        }
        None => false,
    })
}

#[test]
fn explained_messages_are_in_the_code() {
    let files = files();
    let is_source = |file: &&File| {
        file.name.starts_with("crates/")
            && file.name.contains("/src/")
            && file.name.ends_with(".rs")
            && !file.name.contains("/tests")
            && !file.name.starts_with("crates/bench/")
    };
    let all: Vec<_> = files
        .iter()
        .filter(is_source)
        .flat_map(|file| literals(&file.text))
        .collect();
    let page = files.iter().find(|file| file.name == TROUBLESHOOTING);
    let page = page.expect("the page about messages");
    let rows = page
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("| `"));
    let messages: Vec<_> = rows.filter_map(|row| row.split("` |").next()).collect();
    assert!(messages.len() > 50, "the page's tables were read");
    let missing: Vec<_> = messages
        .into_iter()
        .filter(|message| !all.iter().any(|literal| is_in(message, literal)))
        .collect();
    assert!(
        missing.is_empty(),
        "{TROUBLESHOOTING} explains messages that no code has; correct or remove them:\n{}",
        missing.join("\n")
    );
}

#[test]
fn literals_are_read_as_they_are_printed() {
    let source = "// \"not this\"\nlet quote = '\"'; let end = '\\'';\nlet text = \"a \\\"{name}\\\" \\\n     \
                  and {{}} {}\";\nfn f<'a>(x: &'a str) {}\n#[cfg(test)]\nmod tests { \"nor this\" }";
    assert_eq!(literals(source), ["a \"…\" and {} …"]);
    assert!(is_in("a \"…\" and", "say a \"…\" and more"));
    assert!(!is_in("and … a", "a and b"));
}

#[test]
fn anchors_are_those_of_forges() {
    let text = "# `ssl_x`: a B\n```sh\n# no heading\n```\n## Twice\n## Twice\n#none\n";
    let anchors: Vec<_> = anchors(text).into_iter().collect();
    assert_eq!(anchors, ["ssl_x-a-b", "twice", "twice-1"]);
    let page =
        "[a](b.md#c) `[no](code)` [site](https://x.test/) [t](d.md \"title\")\n```\n[n](o)\n```\n";
    assert_eq!(links(page), ["b.md#c", "d.md"]);
    assert_eq!(resolved("docs/a.md", "../b/./c").as_deref(), Some("b/c"));
    assert_eq!(resolved("docs/a.md", "../../x"), None);
}
