//! Elements whose contents are not markup: they end at their end tag and nowhere else.

use super::TrimOptions;
use super::regions::Regions;
use super::script::Script;
use super::space::Space;
use super::style::Style;
use super::tag::Tag;
use smallvec::SmallVec;

/// The contents of such an element.
#[derive(Debug)]
pub(super) struct Raw {
    name: &'static [u8],
    /// What else might be meant by `<`; see [`Escape`].
    escape: Escape,
    /// `<` and what follows it, as long as it may be a tag.
    held: SmallVec<[u8; 16]>,
    contents: Contents,
}

/// What is done with the contents.
#[derive(Debug)]
enum Contents {
    Copied,
    /// As [`Contents::Copied`], but it is not known whether they are markup.
    Unclear,
    /// Texts of which white space is collapsed.
    Title(Space),
    Script(Script),
    Style(Style),
}

/// What a byte has led to.
#[derive(Debug)]
pub(super) enum RawStep {
    Inside,
    /// The end tag with this name is written up to this byte.
    EndTag(&'static [u8]),
    /// Nobody knows where the element ends.
    Uncertain,
}

/// In a script, `<!--` begins a part in which another `<script` makes the next end tag part of the
/// text (HTML standard, 13.2.5.18 to 13.2.5.31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Escape {
    /// Not a script.
    Never,
    Plain,
    /// Behind `<!--`: dashes at the end so far.
    Escaped(u8),
    /// Behind another `<script`.
    Twice(u8),
}

impl Raw {
    /// The contents of an element that this start tag begins, if they are not markup.
    pub(super) fn new(
        tag: &Tag,
        options: TrimOptions,
        certain: bool,
        regions: &Regions,
    ) -> Option<Raw> {
        let (name, contents): (&'static [u8], _) = match tag.name() {
            b"script" if options.scripts && tag.is_javascript() => {
                (b"script", Contents::Script(Script::new()))
            }
            b"script" => (b"script", Contents::Copied),
            b"style" if options.styles && tag.is_css() => (b"style", Contents::Style(Style::new())),
            b"style" => (b"style", Contents::Copied),
            b"title" if !regions.keeps_space() => (b"title", Contents::Title(Space::None)),
            b"title" => (b"title", Contents::Copied),
            b"textarea" => (b"textarea", Contents::Copied),
            b"xmp" => (b"xmp", Contents::Copied),
            b"iframe" => (b"iframe", Contents::Copied),
            b"noembed" => (b"noembed", Contents::Copied),
            b"noframes" => (b"noframes", Contents::Copied),
            b"noscript" => (b"noscript", Contents::Copied),
            _ => return None,
        };
        Some(Raw {
            name,
            escape: match name {
                b"script" if certain => Escape::Plain,
                _ => Escape::Never,
            },
            held: SmallVec::new(),
            contents: if certain { contents } else { Contents::Unclear },
        })
    }

    /// Takes a byte.
    pub(super) fn step(&mut self, byte: u8, output: &mut Vec<u8>) -> RawStep {
        if self.held.is_empty() {
            match byte {
                b'<' => self.held.push(byte),
                _ => self.content(byte, output),
            }
            return RawStep::Inside;
        }
        let is_terminator = matches!(byte, b' ' | b'\t' | b'\n' | 0x0c | b'\r' | b'/' | b'>');
        if is_terminator && self.is_tag(b"</") {
            if let Escape::Twice(_) = self.escape {
                self.release(output);
                self.escape = Escape::Escaped(0);
                self.content(byte, output);
                return RawStep::Inside;
            }
            self.finish_contents(output);
            output.extend_from_slice(&self.held);
            return RawStep::EndTag(self.name);
        }
        if is_terminator && matches!(self.escape, Escape::Escaped(_)) && self.is_tag(b"<") {
            self.release(output);
            self.escape = Escape::Twice(0);
            self.content(byte, output);
            return RawStep::Inside;
        }
        self.held.push(byte);
        if self.escape == Escape::Plain && *self.held == *b"<!--" {
            // What a trimmed script lacks must not change where it ends.
            if let Contents::Script(script) = &mut self.contents {
                script.give_up(output);
            }
            self.release(output);
            self.escape = Escape::Escaped(2);
            return RawStep::Inside;
        }
        if self.may_become_tag() {
            return RawStep::Inside;
        }
        self.held.pop();
        self.release(output);
        if matches!(self.contents, Contents::Unclear) {
            output.push(byte);
            return RawStep::Uncertain;
        }
        self.step(byte, output)
    }

    /// What is held is this and the name.
    fn is_tag(&self, beginning: &[u8]) -> bool {
        let name = self.held.strip_prefix(beginning);
        name.is_some_and(|name| name.eq_ignore_ascii_case(self.name))
    }

    fn may_become_tag(&self) -> bool {
        let begins = |beginning: &[u8]| {
            let both = self.held.len().min(beginning.len());
            let rest = &self.held[both..];
            self.held[..both] == beginning[..both]
                && rest.len() <= self.name.len()
                && rest.eq_ignore_ascii_case(&self.name[..rest.len()])
        };
        begins(b"</")
            || matches!(self.escape, Escape::Escaped(_)) && begins(b"<")
            || self.escape == Escape::Plain && b"<!--".starts_with(&self.held)
    }

    /// What was held is part of the contents.
    fn release(&mut self, output: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        held.iter().for_each(|byte| self.content(*byte, output));
    }

    fn content(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.escape = match (self.escape, byte) {
            (Escape::Escaped(dashes), b'-') => Escape::Escaped((dashes + 1).min(2)),
            (Escape::Twice(dashes), b'-') => Escape::Twice((dashes + 1).min(2)),
            (Escape::Escaped(2) | Escape::Twice(2), b'>') => Escape::Plain,
            (Escape::Escaped(_), _) => Escape::Escaped(0),
            (Escape::Twice(_), _) => Escape::Twice(0),
            (other, _) => other,
        };
        match &mut self.contents {
            Contents::Copied | Contents::Unclear => output.push(byte),
            Contents::Title(space) => match byte {
                b' ' | b'\t' => space.add(Space::Blank),
                b'\n' | b'\r' => space.add(Space::Line),
                _ => {
                    space.write(output);
                    output.push(byte);
                }
            },
            Contents::Script(script) => script.push(byte, output),
            Contents::Style(style) => style.push(byte, output),
        }
    }

    fn finish_contents(&mut self, output: &mut Vec<u8>) {
        match &mut self.contents {
            Contents::Copied | Contents::Unclear => {}
            Contents::Title(space) => space.write(output),
            Contents::Script(script) => script.finish(output),
            Contents::Style(style) => style.finish(output),
        }
    }

    /// What follows stays as it is.
    pub(super) fn give_up(&mut self, output: &mut Vec<u8>) {
        match &mut self.contents {
            Contents::Copied | Contents::Unclear => {}
            Contents::Title(space) => space.write(output),
            Contents::Script(script) => script.give_up(output),
            Contents::Style(style) => style.give_up(output),
        }
        self.release(output);
    }

    /// The page ends in the element.
    pub(super) fn finish(&mut self, output: &mut Vec<u8>) {
        self.release(output);
        self.finish_contents(output);
    }
}
