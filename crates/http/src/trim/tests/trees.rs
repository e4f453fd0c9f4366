//! A browser's parser builds the same tree from a trimmed page, whatever is in it.
//!
//! Trees are compared as they are shown: comments are left out, texts beside each other are one,
//! and white space is collapsed as CSS does, but not where it is shown. Between the parts of a
//! table there is none.

use crate::tests::Random;
use crate::trim::{TrimOptions, Trimmer};
use html5ever::tendril::TendrilSink;
use html5ever::{ParseOpts, parse_document};
use markup5ever_rcdom::{Handle, NodeData, RcDom};
use std::fmt::Write;
use std::path::Path;

/// Mutated pages of one run.
const PAGES: usize = 6000;

const EVERYTHING: TrimOptions = TrimOptions {
    scripts: true,
    styles: true,
};

fn trimmed(page: &[u8], options: TrimOptions, piece: usize) -> Vec<u8> {
    let mut output = Vec::new();
    let mut trimmer = Trimmer::new(options);
    for piece in page.chunks(piece.max(1)) {
        trimmer.push(piece, &mut output);
    }
    trimmer.finish(&mut output);
    output
}

/// What is compared of a page.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    tree: String,
    /// Whether scripts and style sheets are compared too.
    with_code: bool,
}

impl Shown {
    fn of(page: &[u8], with_code: bool) -> Shown {
        let text = String::from_utf8_lossy(page);
        let parsed = parse_document(RcDom::default(), ParseOpts::default()).one(&*text);
        let mut shown = Shown {
            tree: String::new(),
            with_code,
        };
        shown.children(&parsed.document, 0, false);
        shown
    }

    fn children(&mut self, parent: &Handle, depth: usize, spaced: bool) {
        let mut text = String::new();
        let parts = ["table", "thead", "tbody", "tfoot", "tr", "colgroup"];
        let between_cells = match &parent.data {
            NodeData::Element { name, .. } => parts.contains(&&*name.local) && !spaced,
            _ => false,
        };
        for child in parent.children.borrow().iter() {
            match &child.data {
                NodeData::Comment { .. } => {}
                NodeData::Text { contents } => text.push_str(&contents.borrow()),
                _ => {
                    self.text(&std::mem::take(&mut text), depth, spaced, between_cells);
                    self.node(child, depth, spaced);
                }
            }
        }
        self.text(&text, depth, spaced, between_cells);
    }

    fn text(&mut self, text: &str, depth: usize, spaced: bool, between_cells: bool) {
        let mut shown = String::new();
        for char in text.chars() {
            match char {
                ' ' | '\t' | '\n' if !spaced && shown.ends_with(' ') => {}
                ' ' | '\t' | '\n' if !spaced => shown.push(' '),
                _ => shown.push(char),
            }
        }
        if !(shown.is_empty() || between_cells && shown == " ") {
            writeln!(self.tree, "{:depth$}{shown:?}", "").expect("memory");
        }
    }

    fn node(&mut self, node: &Handle, depth: usize, spaced: bool) {
        let NodeData::Element {
            name,
            attrs,
            template_contents,
            ..
        } = &node.data
        else {
            if let NodeData::Doctype { name, .. } = &node.data {
                writeln!(self.tree, "!{name}").expect("memory");
            }
            return;
        };
        let attributes = attrs.borrow();
        let list = attributes.iter();
        let list = list.map(|one| format!(" {}={:?}", &*one.name.local, &*one.value));
        let list: String = list.collect();
        let (local, ns) = (&*name.local, name.ns.rsplit('/').next().unwrap_or_default());
        writeln!(self.tree, "{:depth$}<{ns} {local}{list}>", "").expect("memory");
        let is_html = ns == "xhtml";
        if is_html && matches!(local, "script" | "style") && !self.with_code {
            return;
        }
        let shows = [
            "pre",
            "textarea",
            "listing",
            "xmp",
            "plaintext",
            "code",
            "samp",
            "kbd",
            "script",
            "style",
            "iframe",
            "noscript",
        ];
        let style = attributes.iter().find(|one| &*one.name.local == "style");
        let spaced = spaced
            || is_html && shows.contains(&local)
            // A second tag adds its attributes to an element that has begun long ago.
            || !matches!(local, "html" | "body")
                && style.is_some_and(|style| style.value.contains("white-space: pre"));
        self.children(node, depth + 1, spaced);
        if let Some(contents) = &*template_contents.borrow() {
            self.children(contents, depth + 1, spaced);
        }
    }
}

/// The pages of the repository, each with its name.
fn pages() -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/pages");
    let entries = std::fs::read_dir(directory).expect("it lies in the repository");
    let mut pages: Vec<_> = entries
        .map(|entry| {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("listed").to_string_lossy();
            (name.into_owned(), std::fs::read(&path).expect("readable"))
        })
        .collect();
    pages.sort();
    pages
}

#[track_caller]
fn check(page: &[u8]) {
    for options in [TrimOptions::default(), EVERYTHING] {
        let at_once = trimmed(page, options, page.len());
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        assert_eq!(shown(&at_once), shown(&trimmed(page, options, 1)));
        assert!(at_once.len() <= page.len(), "{}", shown(page));
        let with_code = options == TrimOptions::default();
        let (before, after) = (Shown::of(page, with_code), Shown::of(&at_once, with_code));
        if before != after {
            let lines = before.tree.lines().zip(after.tree.lines());
            let first = lines.into_iter().find(|(before, after)| before != after);
            panic!(
                "{first:?}\n--- before\n{}\n--- after\n{}\n{}",
                String::from_utf8_lossy(page),
                String::from_utf8_lossy(&at_once),
                shown(page),
            );
        }
    }
}

#[test]
fn the_pages_of_the_repository() {
    let pages = pages();
    assert!(pages.len() >= 4);
    for (name, page) in pages {
        let output = trimmed(&page, EVERYTHING, page.len());
        println!("{name}: {} bytes, trimmed {}", page.len(), output.len());
        assert!(output.len() < page.len(), "{name}");
        check(&page);
    }
}

/// What changes how a page is read.
const TOKENS: &[&str] = &[
    "<!--",
    "-->",
    "<!-- remark -->",
    "<!--remark",
    "--!>",
    "<!",
    "<",
    "</",
    ">",
    "/>",
    " ",
    "\n",
    "\r",
    "  ",
    "&",
    "&am",
    "p;",
    "\"",
    "'",
    "=",
    "<p>",
    "</p>",
    "<pre>",
    "</pre>",
    "<pre>\n",
    "<code>",
    "</code>",
    "<samp>",
    "</samp>",
    "<listing>",
    "<textarea>",
    "</textarea>",
    "<title>",
    "</title>",
    "<script>",
    "</script>",
    "<script",
    "</script",
    "<style>",
    "</style>",
    "<table>",
    "</table>",
    "<tr>",
    "<td>",
    "<caption>",
    "<col>",
    "<colgroup>",
    "<select>",
    "</select>",
    "<option>",
    "<svg>",
    "</svg>",
    "<svg/>",
    "<desc>",
    "</desc>",
    "<foreignObject>",
    "</foreignObject>",
    "<math>",
    "</math>",
    "<mi>",
    "</mi>",
    "<annotation-xml>",
    "<template>",
    "</template>",
    "<noscript>",
    "</noscript>",
    "<iframe>",
    "<xmp>",
    "</xmp>",
    "<plaintext>",
    "<frameset>",
    "<b>",
    "</b>",
    "<div>",
    "</div>",
    "<button>",
    "<object>",
    "<body>",
    "</body>",
    "<head>",
    "</head>",
    "<html>",
    "</html>",
    "<![CDATA[",
    "]]>",
    "<?",
    "<a b = c / >",
    "\u{e9}",
    "<p style=\"white-space: pre\">",
    "<i a=b/ >",
    "text",
    "/*",
    "*/",
    "//",
    "{",
    "}",
];

/// Deterministic: a page that fails, fails in every run.
#[test]
fn mutated_pages() {
    let pages = pages();
    let mut random = Random(0x5ea1);
    for _ in 0..PAGES {
        let (_, page) = &pages[random.below(pages.len())];
        // A part of a page, so that a change matters to what follows.
        let from = random.below(page.len());
        let to = page.len().min(from + 40 + random.below(700));
        let mut page = page[from..to].to_vec();
        for _ in 0..=random.below(8) {
            let at = random.below(page.len() + 1);
            let end = page.len().min(at + random.below(30));
            let token = TOKENS[random.below(TOKENS.len())].bytes();
            match random.below(4) {
                0 => drop(page.splice(at..end, token)),
                1 => drop(page.drain(at..end)),
                _ => drop(page.splice(at..at, token)),
            }
        }
        check(&page);
    }
}

/// Nothing but what changes how a page is read.
#[test]
fn pages_made_of_tokens() {
    let mut random = Random(7);
    for _ in 0..PAGES * 2 {
        let count = 2 + random.below(14);
        let tokens = (0..count).map(|_| TOKENS[random.below(TOKENS.len())]);
        check(tokens.collect::<String>().as_bytes());
    }
}
