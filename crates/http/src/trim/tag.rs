//! Tags: white space between attributes, and what decides about the contents of an element.

use super::space::Space;
use super::word::Word;

/// Where in a tag the next byte is (HTML standard, 13.2.5.8 and 13.2.5.32 to 13.2.5.40).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TagPart {
    Name,
    BeforeAttribute,
    Attribute,
    AfterAttribute,
    BeforeValue,
    /// In quotes of this kind.
    Quoted(u8),
    Unquoted,
    AfterQuoted,
    /// Behind a slash that closes the element if the tag ends here.
    Slash,
}

/// A tag that is being read.
#[derive(Debug, Clone)]
pub(super) struct Tag {
    pub(super) is_end: bool,
    name: Word<16>,
    place: TagPart,
    space: Space,
    /// The slash of a self-closing tag, or one that would become it without white space.
    behind_slash: bool,
    self_closing: bool,
    attribute: Word<16>,
    value: Word<32>,
    wanted: Wanted,
    kind: Option<Word<32>>,
    language: Option<Word<32>>,
    styles: StyleWords,
}

impl Tag {
    /// A tag whose name begins.
    pub(super) fn new(is_end: bool) -> Tag {
        Tag {
            is_end,
            name: Word::EMPTY,
            place: TagPart::Name,
            space: Space::None,
            behind_slash: false,
            self_closing: false,
            attribute: Word::EMPTY,
            value: Word::EMPTY,
            wanted: Wanted::Nothing,
            kind: None,
            language: None,
            styles: StyleWords::default(),
        }
    }

    /// An end tag of this name, which is written already.
    pub(super) fn end_of(name: &[u8]) -> Tag {
        let mut tag = Tag::new(true);
        name.iter().for_each(|byte| tag.name.push(*byte));
        tag
    }

    /// Takes a byte. Returns whether the tag ends with it.
    pub(super) fn step(&mut self, byte: u8, output: &mut Vec<u8>) -> bool {
        let is_space = matches!(byte, b' ' | b'\t' | b'\n' | 0x0c | b'\r');
        match (self.place, byte) {
            (TagPart::Quoted(quote), _) => {
                self.write(byte, output);
                match byte == quote {
                    true => self.end_value(TagPart::AfterQuoted),
                    false => self.push_value(byte),
                }
                return false;
            }
            (TagPart::BeforeValue, _) if is_space => return false,
            (TagPart::Unquoted, _) if is_space => {
                self.end_value(TagPart::BeforeAttribute);
                self.space = Space::Blank;
                return false;
            }
            (TagPart::Attribute | TagPart::AfterAttribute, _) if is_space => {
                self.place = TagPart::AfterAttribute;
                self.space = Space::Blank;
                return false;
            }
            (_, _) if is_space => {
                self.place = TagPart::BeforeAttribute;
                self.space = Space::Blank;
                return false;
            }
            (TagPart::BeforeValue, b'"' | b'\'') => self.place = TagPart::Quoted(byte),
            (_, b'>') => {
                self.end(output);
                return true;
            }
            (TagPart::BeforeValue | TagPart::Unquoted, _) => {
                self.place = TagPart::Unquoted;
                self.push_value(byte);
            }
            (_, b'/') => {
                self.space.write(output);
                self.write(byte, output);
                self.behind_slash = true;
                self.place = TagPart::Slash;
                return false;
            }
            (TagPart::Attribute | TagPart::AfterAttribute, b'=') => {
                self.space = Space::None;
                self.value = Word::EMPTY;
                self.wanted = Wanted::of(&self.attribute);
                self.place = TagPart::BeforeValue;
            }
            (TagPart::Name, _) => self.name.push(byte),
            (TagPart::Attribute, _) => self.attribute.push(byte),
            // An equals sign here is the beginning of a name.
            (_, _) => {
                self.attribute = Word::EMPTY;
                self.attribute.push(byte);
                self.place = TagPart::Attribute;
            }
        }
        self.space.write(output);
        self.write(byte, output);
        false
    }

    /// What follows stays as it is.
    pub(super) fn give_up(&mut self, output: &mut Vec<u8>) {
        self.space.write(output);
    }

    fn write(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.behind_slash = false;
        output.push(byte);
    }

    fn push_value(&mut self, byte: u8) {
        match self.wanted {
            Wanted::Nothing => {}
            Wanted::Kind | Wanted::Language => self.value.push(byte),
            Wanted::Style => self.styles.push(byte),
        }
    }

    fn end(&mut self, output: &mut Vec<u8>) {
        if self.place == TagPart::Unquoted {
            self.end_value(TagPart::BeforeAttribute);
        }
        self.self_closing = self.place == TagPart::Slash;
        // "/ >" does not close the element.
        if self.behind_slash && !self.self_closing {
            self.space.write(output);
        }
        output.push(b'>');
    }

    fn end_value(&mut self, place: TagPart) {
        self.place = place;
        // Of attributes with the same name, the first one counts.
        match self.wanted {
            Wanted::Kind => self.kind = self.kind.or(Some(self.value)),
            Wanted::Language => self.language = self.language.or(Some(self.value)),
            Wanted::Nothing | Wanted::Style => {}
        }
    }

    /// The name, unless it is longer than any that matters.
    pub(super) fn name(&self) -> &[u8] {
        self.name.text().unwrap_or_default()
    }

    pub(super) fn is_self_closing(&self) -> bool {
        self.self_closing
    }

    /// A `style` attribute lets white space be seen.
    pub(super) fn shows_space(&self) -> bool {
        self.styles.has_property && self.styles.has_value
    }

    /// The contents of a `script` element with these attributes are JavaScript.
    pub(super) fn is_javascript(&self) -> bool {
        match (&self.kind, &self.language) {
            (Some(kind), _) => matches!(
                kind.text().map(<[u8]>::trim_ascii),
                Some(b"" | b"text/javascript" | b"application/javascript" | b"module")
            ),
            (None, Some(language)) => matches!(language.text(), Some(b"" | b"javascript")),
            (None, None) => true,
        }
    }

    /// The contents of a `style` element with these attributes are CSS.
    pub(super) fn is_css(&self) -> bool {
        let kind = self.kind.as_ref();
        kind.is_none_or(|kind| matches!(kind.text(), Some(b"" | b"text/css")))
    }
}

/// Looks for `white-space: pre` and the like in the values of attributes.
#[derive(Debug, Clone, Default)]
struct StyleWords {
    /// The bytes that are compared, the newest one last.
    recent: [u8; 12],
    has_property: bool,
    has_value: bool,
}

impl StyleWords {
    fn push(&mut self, byte: u8) {
        self.recent.rotate_left(1);
        self.recent[11] = byte.to_ascii_lowercase();
        self.has_property |= self.recent.ends_with(b"white-space");
        // "pre", "pre-wrap", "preserve" ...; what a variable says is not known.
        let values: [&[u8]; 3] = [b"pre", b"break-spaces", b"var("];
        self.has_value |= values.iter().any(|value| self.recent.ends_with(value));
    }
}

/// What is to be remembered of a value.
#[derive(Debug, Clone, Copy)]
enum Wanted {
    Nothing,
    Kind,
    Language,
    Style,
}

impl Wanted {
    fn of(attribute: &Word<16>) -> Wanted {
        match attribute.text() {
            Some(b"type") => Wanted::Kind,
            Some(b"language") => Wanted::Language,
            Some(b"style") => Wanted::Style,
            _ => Wanted::Nothing,
        }
    }
}
