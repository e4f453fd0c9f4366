//! Pages without the white space and the comments that nobody sees (`trim`).
//!
//! [`Trimmer`] reads a page byte by byte, as the tokeniser of a browser does (HTML standard,
//! 13.2.5), and writes what stays. It keeps a bounded number of bytes and never looks at a page as
//! a whole. A browser builds the same tree from its output, but for comments and for white space
//! that is collapsed when the page is shown; `regions` says where it is not.
//!
//! | part | file |
//! |---|---|
//! | text, and what begins with `<` | this one |
//! | tags and their attributes | `tag.rs` |
//! | comments | `comment.rs` |
//! | what is open, and what must not be touched in it | `regions.rs` |
//! | elements whose contents are not markup | `raw.rs` |
//! | JavaScript, CSS | `script.rs`, `style.rs` |
//!
//! Wherever two ways to read a page are possible, bytes stay as they are: up to where both agree
//! again or, if that cannot be told, to the end of the script, the style or the page.

mod comment;
mod raw;
mod regions;
mod script;
mod space;
mod style;
mod tag;
#[cfg(test)]
mod tests;
mod word;

use comment::{CommentEnd, Verdict, verdict};
use raw::{Raw, RawStep};
use regions::Regions;
use smallvec::SmallVec;
use space::Space;
use tag::Tag;

/// What is trimmed besides markup and text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrimOptions {
    /// JavaScript in `script` elements.
    pub scripts: bool,
    /// CSS in `style` elements.
    pub styles: bool,
}

/// Trims one page.
#[derive(Debug)]
pub struct Trimmer {
    options: TrimOptions,
    state: PageState,
    regions: Regions,
    gap: Gap,
    /// Bytes of a tag's or comment's beginning that are not written yet.
    held: SmallVec<[u8; 64]>,
}

#[derive(Debug)]
enum PageState {
    /// The first two bytes, which may say that this is UTF-16.
    Beginning,
    Text,
    /// Behind `<`.
    Open,
    /// Behind `</`.
    EndOpen,
    /// Behind `<!`: a comment, a document type, or something else.
    Declaration,
    /// A comment that may stay or go.
    NewComment(CommentEnd),
    /// A comment that stays.
    KeptComment(CommentEnd),
    /// One that goes.
    DroppedComment(CommentEnd),
    /// What ends at the next `>`: document types, processing instructions, mistakes.
    Bogus,
    /// Behind `<![CDATA[`, where that may be one: the last two bytes.
    Cdata([u8; 2]),
    Tag(Box<Tag>),
    /// In an element whose contents are not markup.
    Raw(Box<Raw>),
    /// The rest stays as it is.
    Verbatim,
}

impl Trimmer {
    /// At the beginning of a page.
    pub fn new(options: TrimOptions) -> Trimmer {
        Trimmer {
            options,
            state: PageState::Beginning,
            regions: Regions::default(),
            gap: Gap::default(),
            held: SmallVec::new(),
        }
    }

    /// Takes the next bytes of the page and appends what is decided. However a page is cut into
    /// pieces, the output is the same.
    pub fn push(&mut self, input: &[u8], output: &mut Vec<u8>) {
        for (at, &byte) in input.iter().enumerate() {
            // ISO-2022-JP, where any byte may be part of a character.
            if byte == 0x1b {
                self.give_up(output);
            }
            if matches!(self.state, PageState::Verbatim) {
                output.extend_from_slice(&input[at..]);
                return;
            }
            self.step(byte, output);
        }
    }

    /// The page has ended: appends what was held back.
    pub fn finish(&mut self, output: &mut Vec<u8>) {
        match &mut self.state {
            PageState::Raw(raw) => raw.finish(output),
            // A tag without an end is none, but its name alone would be text.
            PageState::Tag(tag) => tag.give_up(output),
            _ => self.write_held(output),
        }
        self.state = PageState::Verbatim;
    }

    fn step(&mut self, byte: u8, output: &mut Vec<u8>) {
        match &mut self.state {
            PageState::Beginning => self.beginning(byte, output),
            PageState::Text => self.text(byte, output),
            PageState::Open => self.open(byte, output),
            PageState::EndOpen => self.end_open(byte, output),
            PageState::Declaration => self.declaration(byte, output),
            PageState::NewComment(end) => {
                let (mut end, before) = (*end, *end);
                self.held.push(byte);
                let ended = end.step(byte);
                self.new_comment(if ended { before } else { end }, ended, output);
            }
            PageState::KeptComment(end) => {
                output.push(byte);
                if end.step(byte) {
                    self.state = PageState::Text;
                }
            }
            PageState::DroppedComment(end) => {
                if end.step(byte) {
                    self.state = PageState::Text;
                }
            }
            PageState::Bogus => {
                output.push(byte);
                if byte == b'>' {
                    self.state = PageState::Text;
                }
            }
            PageState::Cdata(last) => {
                output.push(byte);
                match byte {
                    b'>' if last == b"]]" => self.state = PageState::Text,
                    b'>' => self.state = PageState::Verbatim,
                    _ => *last = [last[1], byte],
                }
            }
            PageState::Tag(tag) => {
                if tag.step(byte, output) {
                    self.end_tag();
                }
            }
            PageState::Raw(raw) => match raw.step(byte, output) {
                RawStep::Inside => {}
                RawStep::EndTag(name) => {
                    self.state = PageState::Tag(Box::new(Tag::end_of(name)));
                    self.step(byte, output);
                }
                RawStep::Uncertain => self.state = PageState::Verbatim,
            },
            PageState::Verbatim => output.push(byte),
        }
    }

    fn beginning(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.held.push(byte);
        match *self.held {
            [0xfe | 0xff] => {}
            [0xfe, 0xff] | [0xff, 0xfe] => self.give_up(output),
            _ => {
                let held = std::mem::take(&mut self.held);
                self.state = PageState::Text;
                self.push(&held, output);
            }
        }
    }

    fn text(&mut self, byte: u8, output: &mut Vec<u8>) {
        match byte {
            b'<' => {
                self.held.push(byte);
                self.state = PageState::Open;
            }
            b' ' | b'\t' if !self.regions.keeps_space() => self.gap.space(Space::Blank),
            b'\n' | b'\r' if !self.regions.keeps_space() => self.gap.space(Space::Line),
            _ => self.write_text(byte, output),
        }
    }

    fn write_text(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.gap
            .write_before_text(byte, self.regions.may_be_in_table(), output);
        output.push(byte);
    }

    /// The rest stays as it is.
    fn give_up(&mut self, output: &mut Vec<u8>) {
        match &mut self.state {
            PageState::Raw(raw) => raw.give_up(output),
            PageState::DroppedComment(_) => {
                self.write_held(output);
                output.extend_from_slice(b"<!--");
            }
            PageState::Tag(tag) => tag.give_up(output),
            _ => self.write_held(output),
        }
        self.state = PageState::Verbatim;
    }

    fn write_held(&mut self, output: &mut Vec<u8>) {
        self.gap.write(self.regions.may_be_in_table(), output);
        output.extend_from_slice(&self.held);
        self.held.clear();
    }

    fn open(&mut self, byte: u8, output: &mut Vec<u8>) {
        match byte {
            b'!' => {
                self.held.push(byte);
                self.state = PageState::Declaration;
            }
            b'/' => {
                self.held.push(byte);
                self.state = PageState::EndOpen;
            }
            b'?' => {
                self.held.push(byte);
                self.write_held(output);
                self.state = PageState::Bogus;
            }
            _ if byte.is_ascii_alphabetic() => {
                self.write_held(output);
                self.state = PageState::Tag(Box::new(Tag::new(false)));
                self.step(byte, output);
            }
            _ => {
                // Text, after all.
                self.held.clear();
                self.write_text(b'<', output);
                self.state = PageState::Text;
                self.step(byte, output);
            }
        }
    }

    fn end_open(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.write_held(output);
        if byte.is_ascii_alphabetic() {
            self.state = PageState::Tag(Box::new(Tag::new(true)));
            self.step(byte, output);
            return;
        }
        // "</>" is nothing, and ends at the same place.
        self.state = PageState::Bogus;
        self.step(byte, output);
    }

    fn declaration(&mut self, byte: u8, output: &mut Vec<u8>) {
        const CDATA: &[u8] = b"<![CDATA[";
        self.held.push(byte);
        if *self.held == *b"<!--" {
            self.state = PageState::NewComment(CommentEnd::Start);
            if self.regions.keeps_space() {
                self.keep_comment(CommentEnd::Start, false, output);
            }
            return;
        }
        let is_section = self.regions.may_be_foreign();
        if *self.held == *b"<!-" || (is_section && CDATA.starts_with(&self.held)) {
            if self.held.len() == CDATA.len() {
                self.write_held(output);
                self.state = PageState::Cdata([0; 2]);
            }
            return;
        }
        let last = self.held.pop();
        self.write_held(output);
        self.state = PageState::Bogus;
        last.into_iter().for_each(|byte| self.step(byte, output));
    }

    fn new_comment(&mut self, end: CommentEnd, ended: bool, output: &mut Vec<u8>) {
        const BEGINNING: usize = b"<!--".len();
        let text = &self.held[BEGINNING..self.held.len() - usize::from(ended)];
        match verdict(text, end, ended) {
            Verdict::Keep => self.keep_comment(end, ended, output),
            Verdict::Drop => {
                self.held.clear();
                self.gap.comment();
                self.state = match ended {
                    true => PageState::Text,
                    false => PageState::DroppedComment(end),
                };
            }
            Verdict::Open => self.state = PageState::NewComment(end),
        }
    }

    fn keep_comment(&mut self, end: CommentEnd, ended: bool, output: &mut Vec<u8>) {
        self.write_held(output);
        self.state = match ended {
            true => PageState::Text,
            false => PageState::KeptComment(end),
        };
    }

    fn end_tag(&mut self) {
        let PageState::Tag(tag) = std::mem::replace(&mut self.state, PageState::Text) else {
            return;
        };
        if tag.is_end {
            self.regions.end(tag.name());
            return;
        }
        let certain = !self.regions.may_ignore_elements();
        self.regions.start(tag.name(), tag.is_self_closing());
        if tag.shows_space() {
            self.regions.keep_space();
        }
        if tag.name() == b"plaintext" {
            self.state = PageState::Verbatim;
        } else if let Some(raw) = Raw::new(&tag, self.options, certain, &self.regions) {
            self.state = PageState::Raw(Box::new(raw));
        }
    }
}

/// What stands between two texts, or a text and a tag: white space, and comments that are dropped.
#[derive(Debug, Default)]
struct Gap {
    /// White space in front of the first comment.
    first: Space,
    /// White space in front of the last comment.
    before: Space,
    /// Comments were dropped.
    comments: bool,
    /// White space behind the last comment.
    after: Space,
    /// There is text before it.
    in_text: bool,
    /// What that ends with.
    last: Last,
}

/// The end of a text, as far as it could become something else together with what follows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    /// `<`, or what may be a reference to a character.
    Unfinished,
    /// A byte that may be the first of several.
    High,
}

impl Gap {
    fn space(&mut self, space: Space) {
        self.after.add(space);
    }

    fn comment(&mut self) {
        if !self.comments {
            self.first = self.after;
        }
        self.before.add(std::mem::take(&mut self.after));
        self.comments = true;
    }

    /// Ends the gap with something that is not text.
    fn write(&mut self, may_be_in_table: bool, output: &mut Vec<u8>) {
        self.end(self.in_text && may_be_in_table, output);
        *self = Gap::default();
    }

    /// Ends the gap with text.
    fn write_before_text(&mut self, byte: u8, may_be_in_table: bool, output: &mut Vec<u8>) {
        let has_space = self.before.max(self.after) != Space::None;
        let joins = match self.last {
            Last::Nothing => false,
            Last::Unfinished => true,
            Last::High => byte >= 0x80,
        };
        let continues = self.last == Last::Unfinished && !has_space && !self.comments;
        self.end(if has_space { may_be_in_table } else { joins }, output);
        let last = match byte {
            b'<' | b'&' => Last::Unfinished,
            b'#' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' if continues => Last::Unfinished,
            0x80.. => Last::High,
            _ => Last::Nothing,
        };
        *self = Gap {
            in_text: true,
            last,
            ..Gap::default()
        };
    }

    /// Writes the white space. Where dropped comments were, an empty one takes their place if that
    /// `matters`: if texts would be joined into something else, and in tables. There, white space
    /// on its own stays where it is, but text is moved out with the white space around it.
    fn end(&mut self, matters: bool, output: &mut Vec<u8>) {
        if self.comments && matters {
            self.first.write(output);
            output.extend_from_slice(b"<!---->");
            self.after.write(output);
        } else {
            self.before.max(self.after).write(output);
        }
    }
}
