//! CSS without comments and without white space that means nothing.
//!
//! Style sheets without errors mean the same. White space before a colon stays where a selector
//! could follow (`a :hover`), the values of custom properties stay as they are, and a comment
//! without white space around it leaves an empty one, as it separates what stands beside it.

use super::word::Word;

/// A style sheet that is being read.
#[derive(Debug)]
pub(super) struct Style {
    state: StyleState,
    /// White space that is not written yet.
    space: bool,
    /// A comment without white space has been dropped.
    gap: bool,
    /// The last byte that was written; 0: none.
    last: u8,
    /// Braces that are open.
    depth: u32,
    statement: Statement,
    /// The end of the identifier that is being read.
    word: Word<4>,
    /// It is spelt with an escape.
    word_is_escaped: bool,
    /// A comment for Internet Explorer 5 on the Macintosh is open.
    hidden: bool,
    was_high: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StyleState {
    Code,
    /// A colon between white space and what comes next, both not written yet.
    Colon,
    /// Behind a slash, which is not written yet.
    Slash,
    /// Behind `/*`.
    NewComment,
    /// A comment that goes: its last two bytes.
    Comment([u8; 2]),
    /// The last byte is a star.
    KeptComment(bool),
    Quoted(u8),
    QuotedEscape(u8),
    /// Behind a backslash: hexadecimal digits so far.
    Escape(u8),
    /// Behind `url(`.
    UrlStart,
    Url,
    UrlEscape,
    /// The value of a custom property: brackets that are open, and what is read.
    Custom(u32, Custom),
    /// The rest stays as it is.
    Verbatim,
}

/// What is read of the value of a custom property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Custom {
    Plain,
    Escape,
    Slash,
    Comment(bool),
    Quoted(u8),
    QuotedEscape(u8),
}

/// What has been read since the last `{`, `}` or `;`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Statement {
    /// Nothing.
    New,
    /// A dash.
    Dash,
    /// What may be the name of a property.
    Name,
    /// White space behind it.
    AfterName,
    /// A name and a colon, in a block.
    Value,
    Other,
}

impl Style {
    pub(super) fn new() -> Style {
        Style {
            state: StyleState::Code,
            space: false,
            gap: false,
            last: 0,
            depth: 0,
            statement: Statement::New,
            word: Word::EMPTY,
            word_is_escaped: false,
            hidden: false,
            was_high: false,
        }
    }

    /// Takes a byte.
    pub(super) fn push(&mut self, byte: u8, output: &mut Vec<u8>) {
        let was_high = std::mem::replace(&mut self.was_high, byte >= 0x80);
        match self.state {
            StyleState::Verbatim => output.push(byte),
            StyleState::NewComment | StyleState::Comment(_) | StyleState::KeptComment(_) => {
                self.comment(byte, output);
            }
            // In some character sets, these may be the second byte of a character.
            _ if was_high && matches!(byte, b'[' | b'\\' | b']' | b'`' | b'{' | b'|' | b'}') => {
                self.give_up(output);
                output.push(byte);
            }
            StyleState::Code => self.code(byte, output),
            StyleState::Colon => {
                self.state = StyleState::Code;
                if !is_space(byte) {
                    // A selector, perhaps.
                    self.write(b' ', output);
                }
                self.write(b':', output);
                self.statement = match is_space(byte) {
                    true => Statement::Value,
                    false => Statement::Other,
                };
                self.code(byte, output);
            }
            StyleState::Slash if byte == b'*' => self.state = StyleState::NewComment,
            StyleState::Slash => {
                self.state = StyleState::Code;
                self.statement = Statement::Other;
                self.write(b'/', output);
                self.code(byte, output);
            }
            StyleState::Escape(digits) => self.escape(digits, byte, output),
            StyleState::UrlStart if matches!(byte, b'"' | b'\'') => {
                self.state = StyleState::Code;
                self.code(byte, output);
            }
            StyleState::Custom(open, custom) => self.custom(open, custom, byte, output),
            _ => self.literal(byte, output),
        }
    }

    /// What follows stays as it is.
    pub(super) fn give_up(&mut self, output: &mut Vec<u8>) {
        if self.state == StyleState::Verbatim {
            return;
        }
        let begun: &[u8] = match self.state {
            StyleState::Colon => b" :",
            StyleState::Slash => b"/",
            StyleState::NewComment => b"/*",
            StyleState::Comment([_, b'*']) => b"/**",
            StyleState::Comment(_) => b"/*",
            _ => b"",
        };
        if self.gap {
            output.extend_from_slice(b"/**/");
        } else if self.space {
            output.push(b' ');
        }
        output.extend_from_slice(begun);
        self.state = StyleState::Verbatim;
    }

    /// The style sheet has ended.
    pub(super) fn finish(&mut self, output: &mut Vec<u8>) {
        match self.state {
            StyleState::Code | StyleState::NewComment | StyleState::Comment(_) => {}
            _ => self.give_up(output),
        }
    }

    fn code(&mut self, byte: u8, output: &mut Vec<u8>) {
        let is_name = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | 0x80..);
        if is_name {
            self.statement = match (self.statement, byte) {
                (Statement::New, b'-') => Statement::Dash,
                (Statement::Dash, b'-') => {
                    self.write(byte, output);
                    self.state = StyleState::Custom(0, Custom::Plain);
                    return;
                }
                (Statement::New | Statement::Dash | Statement::Name, _) => Statement::Name,
                (Statement::Value, _) => Statement::Value,
                (Statement::AfterName | Statement::Other, _) => Statement::Other,
            };
            if self.space || self.gap {
                self.end_word();
            }
            self.write(byte, output);
            self.word.push(byte);
            return;
        }
        match byte {
            _ if is_space(byte) => {
                self.space = true;
                self.gap = false;
                if matches!(self.statement, Statement::Dash | Statement::Name) {
                    self.statement = Statement::AfterName;
                }
                return;
            }
            b'/' => {
                self.state = StyleState::Slash;
                return;
            }
            b'\\' => {
                self.statement = Statement::Other;
                self.word_is_escaped = true;
                self.write(byte, output);
                self.state = StyleState::Escape(0);
                return;
            }
            b'(' if !self.space && !self.gap && self.word.text() == Some(b"url") => {
                self.state = StyleState::UrlStart;
            }
            // "url(", perhaps.
            b'(' if self.word_is_escaped => return self.literal_rest(byte, output),
            b'"' | b'\'' => self.state = StyleState::Quoted(byte),
            b':' if self.depth > 0 && self.space && self.statement == Statement::AfterName => {
                self.space = false;
                self.end_word();
                self.state = StyleState::Colon;
                return;
            }
            _ => {}
        }
        self.end_word();
        if matches!(byte, b'#' | b'@') {
            self.word.push(byte);
        }
        self.write(byte, output);
        self.statement = match byte {
            b'{' | b'}' | b';' => Statement::New,
            b':' if self.depth > 0 && self.statement == Statement::Name => Statement::Value,
            _ if self.statement == Statement::Value => Statement::Value,
            _ => Statement::Other,
        };
        match byte {
            b'{' => self.depth = self.depth.saturating_add(1),
            b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn end_word(&mut self) {
        self.word = Word::EMPTY;
        self.word_is_escaped = false;
    }

    fn literal_rest(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.give_up(output);
        output.push(byte);
    }

    fn comment(&mut self, byte: u8, output: &mut Vec<u8>) {
        match (self.state, byte) {
            // Nothing but a separator: old browsers are told apart with it.
            (StyleState::NewComment, b'*') => self.state = StyleState::Comment([0, b'*']),
            (StyleState::NewComment, b'!' | b'@' | b'#') => {
                self.pass_comment();
                [b'/', b'*', byte]
                    .iter()
                    .for_each(|byte| self.write(*byte, output));
                self.state = StyleState::KeptComment(false);
            }
            (StyleState::NewComment, _) => self.state = StyleState::Comment([0, byte]),
            (StyleState::Comment(last @ [_, b'*']), b'/') => {
                self.state = StyleState::Code;
                self.end_comment(last, output);
            }
            (StyleState::Comment([_, last]), _) => self.state = StyleState::Comment([last, byte]),
            (StyleState::KeptComment(true), b'/') => {
                self.last = byte;
                output.push(byte);
                self.state = StyleState::Code;
            }
            _ => {
                output.push(byte);
                self.state = StyleState::KeptComment(byte == b'*');
            }
        }
    }

    /// A comment that is not kept has ended with these bytes and a slash.
    fn end_comment(&mut self, last: [u8; 2], output: &mut Vec<u8>) {
        let stays: &[u8] = match last {
            [0, _] => b"/**/",
            // From here on, Internet Explorer 5 on the Macintosh reads a comment.
            [b'\\', _] => b"/*\\*/",
            _ if self.hidden => b"/**/",
            _ => {
                self.gap |= !self.space;
                return;
            }
        };
        self.hidden = last[0] == b'\\' || self.hidden && last[0] == 0;
        self.pass_comment();
        stays.iter().for_each(|byte| self.write(*byte, output));
    }

    /// A comment stays where it is.
    fn pass_comment(&mut self) {
        if self.statement != Statement::New {
            self.statement = Statement::Other;
        }
        self.end_word();
    }

    fn escape(&mut self, digits: u8, byte: u8, output: &mut Vec<u8>) {
        let (state, is_part) = match byte {
            b'\r' | b'\n' | 0x0c if digits == 0 => return self.literal_rest(byte, output),
            b'\r' => return self.literal_rest(byte, output),
            _ if byte.is_ascii_hexdigit() && digits < 6 => (StyleState::Escape(digits + 1), true),
            _ if digits == 0 => (StyleState::Code, true),
            // White space behind digits belongs to them.
            _ if is_space(byte) => (StyleState::Code, true),
            _ => (StyleState::Code, false),
        };
        self.state = state;
        // Whatever the byte is, it is not what it looks like.
        self.last = 0x01;
        if is_part {
            output.push(byte);
        } else {
            self.code(byte, output);
        }
    }

    fn literal(&mut self, byte: u8, output: &mut Vec<u8>) {
        let next = match (self.state, byte) {
            (StyleState::QuotedEscape(quote), _) => StyleState::Quoted(quote),
            (StyleState::Quoted(quote), b'\\') => StyleState::QuotedEscape(quote),
            (StyleState::Quoted(quote), _) if quote == byte => StyleState::Code,
            (StyleState::Quoted(_), b'\n' | b'\r' | 0x0c) => {
                return self.literal_rest(byte, output);
            }
            (StyleState::UrlStart, _) if is_space(byte) => StyleState::UrlStart,
            (StyleState::UrlEscape, _) => StyleState::Url,
            (StyleState::UrlStart | StyleState::Url, b'\\') => StyleState::UrlEscape,
            (StyleState::UrlStart | StyleState::Url, b')') => StyleState::Code,
            (StyleState::UrlStart, _) => StyleState::Url,
            (state, _) => state,
        };
        output.push(byte);
        self.last = byte;
        self.state = next;
    }

    fn custom(&mut self, open: u32, custom: Custom, byte: u8, output: &mut Vec<u8>) {
        if custom == Custom::Plain && open == 0 && matches!(byte, b';' | b'}') {
            self.state = StyleState::Code;
            self.last = 0x01;
            self.end_word();
            return self.code(byte, output);
        }
        output.push(byte);
        let (open, custom) = match (custom, byte) {
            (Custom::Quoted(quote), _) if quote == byte => (open, Custom::Plain),
            (Custom::Quoted(_), b'\n' | b'\r' | 0x0c) => return self.state = StyleState::Verbatim,
            (Custom::Quoted(quote), b'\\') => (open, Custom::QuotedEscape(quote)),
            (Custom::Quoted(quote) | Custom::QuotedEscape(quote), _) => {
                (open, Custom::Quoted(quote))
            }
            (Custom::Comment(true), b'/') => (open, Custom::Plain),
            (Custom::Comment(_), _) => (open, Custom::Comment(byte == b'*')),
            (Custom::Slash, b'*') => (open, Custom::Comment(false)),
            (Custom::Escape, _) => (open, Custom::Plain),
            (_, b'/') => (open, Custom::Slash),
            (_, b'"' | b'\'') => (open, Custom::Quoted(byte)),
            (_, b'\\') => (open, Custom::Escape),
            (_, b'(' | b'[' | b'{') => (open.saturating_add(1), Custom::Plain),
            (_, b')' | b']' | b'}') => (open.saturating_sub(1), Custom::Plain),
            _ => (open, Custom::Plain),
        };
        self.state = StyleState::Custom(open, custom);
    }

    /// Writes a byte of the code, and before it what is needed to keep it apart.
    fn write(&mut self, byte: u8, output: &mut Vec<u8>) {
        let separates = |byte| matches!(byte, b'{' | b'}' | b';' | b',');
        let space = std::mem::take(&mut self.space);
        if std::mem::take(&mut self.gap) {
            if self.last != 0 && !separates(self.last) && !separates(byte) {
                output.extend_from_slice(b"/**/");
            }
        } else if space && !self.means_nothing(byte) {
            output.push(b' ');
        }
        self.last = byte;
        output.push(byte);
    }

    /// Whether white space before this byte can go.
    fn means_nothing(&self, next: u8) -> bool {
        match (self.last, next) {
            (0 | b'{' | b'}' | b';', _) | (_, b'{' | b'}' | b';' | b',') => {
                !(self.last == b':' && matches!(next, b'}' | b';'))
            }
            // "var(--a, )".
            (b',', _) => next != b')',
            (b':', _) => self.statement == Statement::Value,
            (b'>', _) => next != b'=',
            // "-->" is something else.
            (_, b'>') => self.last != b'-',
            _ => false,
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0c | b'\r')
}
