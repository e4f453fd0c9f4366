//! JavaScript without comments and without white space that means nothing.
//!
//! Only tokens are told apart. What needs a parser is decided where tokens are enough; anywhere
//! else the rest of the script stays as it is: a slash behind `}` or behind `++` may be a division
//! or begin a regular expression. A line break stays one unless nothing can end in front of it,
//! since semicolons may be missing.

use super::space::Space;
use super::word::Word;

/// Brackets that may be open at a time in a script that is trimmed.
const MAX_NESTING: usize = 64;

/// A script that is being read.
#[derive(Debug)]
pub(super) struct Script {
    state: ScriptState,
    space: Space,
    /// The last bytes that were written, the newest one in the lowest place. 0: none.
    recent: u32,
    before: Before,
    /// The word that is being read.
    word: Option<Word<10>>,
    /// That word is the name of a property.
    is_property: bool,
    /// That word may be white space in part.
    is_odd: bool,
    open: [Open; MAX_NESTING],
    depth: usize,
    /// The byte before was not ASCII.
    was_high: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptState {
    Code,
    /// Behind a slash, which is not written yet.
    Slash,
    /// Behind `//`.
    NewLineComment,
    /// A comment that goes: how many bytes of a line separator it ends with.
    LineComment(u8),
    KeptLineComment,
    /// Behind `/*`.
    NewComment,
    /// A comment that goes. Its last byte is a star; see also [`ScriptState::LineComment`].
    Comment(bool, u8),
    /// The last byte is a star.
    KeptComment(bool),
    /// In quotes of this kind.
    Quoted(u8),
    QuotedEscape(u8),
    Template,
    TemplateEscape,
    TemplateDollar,
    Regex,
    RegexEscape,
    RegexClass,
    RegexClassEscape,
    /// The rest stays as it is.
    Verbatim,
}

/// What stands before the next token: whether a slash divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// An operator, or nothing: a slash begins a regular expression.
    Operator,
    /// An operand: a slash divides.
    Operand,
    /// It takes a parser to tell.
    Unclear,
    /// `if`, `while`, `for`, `with`: a statement follows the parentheses that come next.
    Condition,
    /// A dot: the name of a property follows, or it is part of a number.
    Dot,
}

/// An open bracket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Parenthesis,
    /// The one of a condition.
    Condition,
    /// Perhaps.
    Unclear,
    Bracket,
    Brace,
    /// The one of `${`.
    Template,
}

impl Script {
    pub(super) fn new() -> Script {
        Script {
            state: ScriptState::Code,
            space: Space::None,
            recent: 0,
            before: Before::Operator,
            word: None,
            is_property: false,
            is_odd: false,
            open: [Open::Unclear; MAX_NESTING],
            depth: 0,
            was_high: false,
        }
    }

    /// Takes a byte.
    pub(super) fn push(&mut self, byte: u8, output: &mut Vec<u8>) {
        let was_high = std::mem::replace(&mut self.was_high, byte >= 0x80);
        match self.state {
            ScriptState::Verbatim => output.push(byte),
            ScriptState::NewLineComment
            | ScriptState::LineComment(_)
            | ScriptState::KeptLineComment
            | ScriptState::NewComment
            | ScriptState::Comment(..)
            | ScriptState::KeptComment(_) => self.comment(byte, output),
            // In some character sets, these may be the second byte of a character.
            _ if was_high && matches!(byte, b'[' | b'\\' | b']' | b'`' | b'{' | b'|' | b'}') => {
                self.give_up_with(byte, output);
            }
            ScriptState::Code => self.code(byte, output),
            ScriptState::Slash => self.slash(byte, output),
            _ => self.literal(byte, output),
        }
    }

    /// What follows stays as it is.
    pub(super) fn give_up(&mut self, output: &mut Vec<u8>) {
        let begun: &[u8] = match self.state {
            ScriptState::Slash => b"/",
            ScriptState::NewLineComment | ScriptState::LineComment(_) => b"//",
            ScriptState::NewComment | ScriptState::Comment(false, _) => b"/*",
            ScriptState::Comment(true, _) => b"/**",
            _ => b"",
        };
        if self.state != ScriptState::Verbatim {
            self.space.write(output);
        }
        output.extend_from_slice(begun);
        self.state = ScriptState::Verbatim;
    }

    fn give_up_with(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.give_up(output);
        output.push(byte);
    }

    /// The script has ended.
    pub(super) fn finish(&mut self, output: &mut Vec<u8>) {
        match self.state {
            // Nothing was wrong up to here.
            ScriptState::Code | ScriptState::NewLineComment | ScriptState::LineComment(_) => {}
            // An error stays one.
            _ => self.give_up(output),
        }
    }

    fn code(&mut self, byte: u8, output: &mut Vec<u8>) {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'#' | 0x80..) {
            if self.word.is_none() {
                self.is_property = self.before == Before::Dot;
                self.is_odd = false;
            }
            self.is_odd |= !byte.is_ascii();
            self.word.get_or_insert(Word::EMPTY).push(byte);
            self.write(byte, output);
            return;
        }
        self.end_word();
        match byte {
            b' ' | b'\t' | 0x0b | 0x0c => self.space.add(Space::Blank),
            b'\n' | b'\r' => self.space.add(Space::Line),
            b'/' => self.state = ScriptState::Slash,
            b'"' | b'\'' => self.begin(ScriptState::Quoted(byte), byte, output),
            b'`' => self.begin(ScriptState::Template, byte, output),
            b'(' | b'[' | b'{' => {
                let open = match (byte, self.before) {
                    (b'[', _) => Open::Bracket,
                    (b'{', _) => Open::Brace,
                    (_, Before::Condition) => Open::Condition,
                    (_, Before::Unclear) => Open::Unclear,
                    (_, _) => Open::Parenthesis,
                };
                self.open(open, byte, output);
            }
            b')' | b']' | b'}' => self.close(byte, output),
            // Other spellings of letters; nothing else may begin with it.
            b'\\' => self.give_up_with(byte, output),
            _ => self.operator(byte, output),
        }
    }

    fn operator(&mut self, byte: u8, output: &mut Vec<u8>) {
        self.write(byte, output);
        self.before = match (byte, self.recent & 0xffff) {
            (b'+', 0x2b2b) | (b'-', 0x2d2d) | (b'@', _) => Before::Unclear,
            (b'.', 0x2e2e) => Before::Unclear,
            (b'.', _) => Before::Dot,
            (_, _) => Before::Operator,
        };
        // What follows "-->" at the beginning of a line is a comment.
        if self.recent & 0xff_ffff == 0x2d_2d3e {
            self.give_up(output);
        }
    }

    fn begin(&mut self, state: ScriptState, byte: u8, output: &mut Vec<u8>) {
        self.write(byte, output);
        self.state = state;
    }

    fn open(&mut self, open: Open, byte: u8, output: &mut Vec<u8>) {
        match self.open.get_mut(self.depth) {
            Some(place) => *place = open,
            None => return self.give_up_with(byte, output),
        }
        self.depth += 1;
        self.write(byte, output);
        self.before = Before::Operator;
    }

    fn close(&mut self, byte: u8, output: &mut Vec<u8>) {
        let open = self.depth.checked_sub(1).map(|at| self.open[at]);
        let (before, state) = match (byte, open) {
            (b')', Some(Open::Parenthesis)) | (b']', Some(Open::Bracket)) => {
                (Before::Operand, ScriptState::Code)
            }
            (b')', Some(Open::Condition)) => (Before::Operator, ScriptState::Code),
            (b')', Some(Open::Unclear)) | (b'}', Some(Open::Brace)) => {
                (Before::Unclear, ScriptState::Code)
            }
            (b'}', Some(Open::Template)) => (Before::Operand, ScriptState::Template),
            _ => return self.give_up_with(byte, output),
        };
        self.depth -= 1;
        self.write(byte, output);
        self.before = before;
        self.state = state;
    }

    /// A word is complete: what may follow it?
    fn end_word(&mut self) {
        let Some(word) = self.word.take() else {
            return;
        };
        self.before = match word.text() {
            _ if self.is_odd => Before::Unclear,
            None => Before::Operand,
            _ if self.is_property => Before::Operand,
            Some(b"if" | b"while" | b"for" | b"with") => Before::Condition,
            Some(
                b"return" | b"typeof" | b"instanceof" | b"in" | b"new" | b"delete" | b"void"
                | b"throw" | b"case" | b"do" | b"else",
            ) => Before::Operator,
            Some(
                b"of" | b"yield" | b"await" | b"default" | b"extends" | b"break" | b"continue"
                | b"debugger",
            ) => Before::Unclear,
            Some(_) => Before::Operand,
        };
    }

    /// Behind a slash.
    fn slash(&mut self, byte: u8, output: &mut Vec<u8>) {
        match (byte, self.before) {
            (b'/', _) => self.state = ScriptState::NewLineComment,
            (b'*', _) => self.state = ScriptState::NewComment,
            (_, Before::Operand) => {
                self.write(b'/', output);
                self.before = Before::Operator;
                self.state = ScriptState::Code;
                self.code(byte, output);
            }
            (_, Before::Operator) => {
                self.write(b'/', output);
                self.state = ScriptState::Regex;
                self.literal(byte, output);
            }
            (_, Before::Unclear | Before::Condition | Before::Dot) => {
                self.give_up_with(byte, output);
            }
        }
    }

    fn comment(&mut self, byte: u8, output: &mut Vec<u8>) {
        match (self.state, byte) {
            (ScriptState::KeptLineComment, b'\n' | b'\r') => {
                self.space = Space::Line;
                self.recent = 0x01;
                self.state = ScriptState::Code;
            }
            (ScriptState::NewLineComment | ScriptState::LineComment(_), b'\n' | b'\r') => {
                self.space.add(Space::Line);
                self.state = ScriptState::Code;
            }
            // For tools of developers.
            (ScriptState::NewLineComment, b'#' | b'@') => {
                self.write_all(&[b'/', b'/', byte], output);
                self.state = ScriptState::KeptLineComment;
            }
            (ScriptState::NewLineComment, _) => {
                self.state = ScriptState::LineComment(separator(0, byte))
            }
            (ScriptState::LineComment(seen), _) => {
                self.state = ScriptState::LineComment(separator(seen, byte));
                // A line separator ends the comment, if the character set is UTF-8.
                if self.state == ScriptState::LineComment(3) {
                    self.give_up(output);
                    output.extend_from_slice(&[0xe2, 0x80, byte]);
                }
            }
            // Licences, and what old browsers take for code.
            (ScriptState::NewComment, b'!' | b'@' | b'#') => {
                self.write_all(&[b'/', b'*', byte], output);
                self.state = ScriptState::KeptComment(false);
            }
            (ScriptState::KeptComment(true) | ScriptState::Comment(true, _), b'/') => {
                match self.state {
                    ScriptState::KeptComment(_) => self.write(byte, output),
                    _ => self.space.add(Space::Blank),
                }
                self.state = ScriptState::Code;
            }
            (ScriptState::NewComment, _) => {
                self.state = ScriptState::Comment(false, 0);
                self.comment(byte, output);
            }
            (ScriptState::Comment(_, seen), _) => {
                if matches!(byte, b'\n' | b'\r') {
                    self.space.add(Space::Line);
                }
                self.state = ScriptState::Comment(byte == b'*', separator(seen, byte));
                if let ScriptState::Comment(_, 3) = self.state {
                    self.give_up(output);
                    output.extend_from_slice(&[0xe2, 0x80, byte]);
                }
            }
            _ => {
                output.push(byte);
                if let ScriptState::KeptComment(_) = self.state {
                    self.state = ScriptState::KeptComment(byte == b'*');
                }
            }
        }
    }

    fn literal(&mut self, byte: u8, output: &mut Vec<u8>) {
        let breaks_line = matches!(byte, b'\n' | b'\r');
        let next = match (self.state, byte) {
            (ScriptState::QuotedEscape(quote), _) => ScriptState::Quoted(quote),
            (ScriptState::TemplateEscape, _) => ScriptState::Template,
            (ScriptState::Quoted(quote), b'\\') => ScriptState::QuotedEscape(quote),
            (ScriptState::Template | ScriptState::TemplateDollar, b'\\') => {
                ScriptState::TemplateEscape
            }
            (ScriptState::Template | ScriptState::TemplateDollar, b'$') => {
                ScriptState::TemplateDollar
            }
            (ScriptState::TemplateDollar, b'{') => {
                self.state = ScriptState::Code;
                return self.open(Open::Template, byte, output);
            }
            (ScriptState::Quoted(quote), _) if quote == byte => ScriptState::Code,
            (ScriptState::Template | ScriptState::TemplateDollar, b'`') => ScriptState::Code,
            (ScriptState::Template | ScriptState::TemplateDollar, _) => ScriptState::Template,
            // An error.
            (_, _) if breaks_line => return self.give_up_with(byte, output),
            (ScriptState::Regex, b'\\') => ScriptState::RegexEscape,
            (ScriptState::RegexClass, b'\\') => ScriptState::RegexClassEscape,
            (ScriptState::Regex, b'[') => ScriptState::RegexClass,
            (ScriptState::RegexClass, b']') | (ScriptState::RegexEscape, _) => ScriptState::Regex,
            (ScriptState::RegexClassEscape, _) => ScriptState::RegexClass,
            (ScriptState::Regex, b'/') => ScriptState::Code,
            (state, _) => state,
        };
        output.push(byte);
        if next == ScriptState::Code {
            self.before = Before::Operand;
            self.recent = u32::from(byte);
        }
        self.state = next;
    }

    fn write_all(&mut self, bytes: &[u8], output: &mut Vec<u8>) {
        bytes.iter().for_each(|byte| self.write(*byte, output));
    }

    /// Writes a byte of the code, and the white space before it if that means something.
    fn write(&mut self, byte: u8, output: &mut Vec<u8>) {
        if self.space != Space::None {
            let before = (self.recent & 0xff) as u8; // the lowest byte
            if means_nothing(before, byte) {
                self.space = Space::None;
            } else {
                self.recent = self.recent << 8 | 0x20;
                self.space.write(output);
            }
        }
        self.recent = self.recent << 8 | u32::from(byte);
        output.push(byte);
    }
}

/// Whether white space between these bytes can go: nothing ends behind the first one, and they do
/// not make another token together.
fn means_nothing(before: u8, next: u8) -> bool {
    const MORE_FOLLOWS: &[u8] = b"\0(,=:[!&|?;>~*{";
    MORE_FOLLOWS.contains(&before) && !b"=&|><*+-.?:".contains(&next)
}

/// How many bytes of U+2028 or U+2029 a text ends with.
fn separator(seen: u8, byte: u8) -> u8 {
    match (seen, byte) {
        (_, 0xe2) => 1,
        (1, 0x80) => 2,
        (2, 0xa8 | 0xa9) => 3,
        _ => 0,
    }
}
