//! Commands of IMAP (RFC 3501, section 9): a tag, a verb, and arguments that are atoms, quoted
//! strings or literals.
//!
//! It differs from nginx where that mixes up commands: an unterminated quoted string ends with its
//! line and does not change how the next line is read, and a literal of no bytes is empty (nginx
//! takes the byte behind it).

use super::Parsed;
use super::command::{Command, Verb, verb_named};
use crate::limits::{MAX_ARGUMENTS, MAX_IMAP_TAG_BYTES};
use crate::secret::Secret;
use std::ops::Range;
use zeroize::Zeroizing;

const VERBS: [(&str, Verb); 6] = [
    ("NOOP", Verb::Noop),
    ("LOGIN", Verb::Login),
    ("LOGOUT", Verb::Logout),
    ("STARTTLS", Verb::StartTls),
    ("CAPABILITY", Verb::Capability),
    ("AUTHENTICATE", Verb::Authenticate),
];

/// Where in a command the parser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Lexeme {
    #[default]
    Start,
    Tag,
    BeforeVerb,
    Verb,
    BeforeArgument,
    Atom,
    Quoted,
    Escaped,
    LiteralLength,
    /// Behind the `+` of a literal that does not wait.
    NoWait,
    LiteralStart,
    Literal,
    AfterLiteral,
    LineEnd,
    /// Behind something invalid, up to the end of the line.
    Invalid,
}

/// What the next byte means.
enum Transition {
    To(Lexeme),
    Invalid,
    Continue(Lexeme),
    Done,
}

#[derive(Debug)]
struct Argument {
    range: Range<usize>,
    /// Whether a backslash stands before each character that needs one.
    is_escaped: bool,
}

/// Reads one command after the other. All positions are within the input, which begins with the
/// command.
#[derive(Debug, Default)]
pub(super) struct CommandParser {
    lexeme: Lexeme,
    at: usize,
    /// With the space behind it; empty before it is complete.
    tag: Vec<u8>,
    verb_start: usize,
    verb: Option<Verb>,
    arguments: Vec<Argument>,
    argument_start: usize,
    is_escaped: bool,
    literal_bytes: usize,
    waits: bool,
}

impl CommandParser {
    /// The tag of the command that is being read, or of the last one, with the space behind it;
    /// empty without one.
    pub(super) fn tag(&self) -> &[u8] {
        &self.tag
    }

    /// The command is removed from the input.
    pub(super) fn consumed(&mut self) {
        *self = CommandParser {
            tag: std::mem::take(&mut self.tag),
            ..CommandParser::default()
        };
    }

    /// Looks for a command, from where it has stopped in the same input.
    pub(super) fn parse(&mut self, input: &[u8], in_exchange: bool) -> Parsed {
        if in_exchange && self.at == 0 && self.lexeme == Lexeme::Start {
            self.lexeme = Lexeme::Atom;
        }
        while let Some(&byte) = input.get(self.at) {
            let transition = self.transition(byte, input);
            let at = self.at;
            match transition {
                Transition::To(lexeme) => self.lexeme = lexeme,
                Transition::Continue(lexeme) => {
                    self.lexeme = lexeme;
                    self.at += 1;
                    return Parsed::Continue;
                }
                Transition::Done => {
                    let verb = self.verb.unwrap_or(Verb::Response);
                    return Parsed::Command(self.command(verb, input), at + 1);
                }
                Transition::Invalid if byte == b'\n' => {
                    // The client may send a literal now without being asked for it.
                    let line = &input[..at];
                    let line = line.strip_suffix(b"\r").unwrap_or(line);
                    let end = line.ends_with(b"+}");
                    return Parsed::Invalid { bytes: at + 1, end };
                }
                Transition::Invalid => self.lexeme = Lexeme::Invalid,
            }
            self.at += 1;
        }
        Parsed::More
    }

    fn transition(&mut self, byte: u8, input: &[u8]) -> Transition {
        use Transition::{Continue, Done, Invalid, To};
        match (self.lexeme, byte) {
            (Lexeme::Invalid, _) => Invalid,
            (Lexeme::Start | Lexeme::Tag, _) => self.tag_byte(byte, input),
            (Lexeme::BeforeVerb, b' ') => To(Lexeme::BeforeVerb),
            (Lexeme::BeforeVerb, b'\r' | b'\n') => Invalid,
            (Lexeme::BeforeVerb, _) => {
                self.verb_start = self.at;
                To(Lexeme::Verb)
            }
            (Lexeme::Verb, b' ' | b'\r' | b'\n') => {
                self.verb = verb_named(&input[self.verb_start..self.at], &VERBS);
                match self.verb {
                    Some(_) => after_word(byte),
                    None => Invalid,
                }
            }
            (Lexeme::Verb, _) if byte.is_ascii_alphabetic() => To(Lexeme::Verb),
            (Lexeme::Verb, _) => Invalid,
            (Lexeme::BeforeArgument, _) => self.first_byte(byte),
            (Lexeme::Atom, b' ' | b'\r' | b'\n') => {
                self.end_argument();
                after_word(byte)
            }
            (Lexeme::Atom, _) => To(Lexeme::Atom),
            (Lexeme::Quoted, b'"') => {
                self.end_argument();
                To(Lexeme::BeforeArgument)
            }
            (Lexeme::Quoted, b'\r' | b'\n') => {
                self.end_argument();
                after_word(byte)
            }
            (Lexeme::Quoted, b'\\') => {
                self.is_escaped = true;
                To(Lexeme::Escaped)
            }
            (Lexeme::Quoted, _) => To(Lexeme::Quoted),
            (Lexeme::Escaped, b'\r' | b'\n') => Invalid,
            (Lexeme::Escaped, _) => To(Lexeme::Quoted),
            (Lexeme::LiteralLength, b'0'..=b'9') => {
                let digit = usize::from(byte - b'0');
                let bytes = self.literal_bytes.checked_mul(10);
                match bytes.and_then(|bytes| bytes.checked_add(digit)) {
                    Some(bytes) => {
                        self.literal_bytes = bytes;
                        To(Lexeme::LiteralLength)
                    }
                    None => Invalid,
                }
            }
            (Lexeme::LiteralLength, b'+') => {
                self.waits = false;
                To(Lexeme::NoWait)
            }
            (Lexeme::LiteralLength | Lexeme::NoWait, b'}') => To(Lexeme::LiteralStart),
            (Lexeme::LiteralStart, b'\r') => To(Lexeme::LiteralStart),
            (Lexeme::LiteralStart, b'\n') => {
                let next = self.begin_literal();
                match self.waits {
                    true => Continue(next),
                    false => To(next),
                }
            }
            (Lexeme::LiteralLength | Lexeme::NoWait | Lexeme::LiteralStart, _) => Invalid,
            (Lexeme::Literal, _) => {
                self.literal_bytes -= 1;
                if self.literal_bytes > 0 {
                    return To(Lexeme::Literal);
                }
                self.push_argument(self.at + 1);
                To(Lexeme::AfterLiteral)
            }
            (Lexeme::AfterLiteral, b' ' | b'\r' | b'\n') => after_word(byte),
            (Lexeme::LineEnd, b'\n') => Done,
            (Lexeme::AfterLiteral | Lexeme::LineEnd, _) => Invalid,
        }
    }

    fn tag_byte(&mut self, byte: u8, input: &[u8]) -> Transition {
        if self.lexeme == Lexeme::Start {
            self.tag.clear();
        }
        match byte {
            b' ' => {
                self.tag.extend_from_slice(&input[..=self.at]);
                Transition::To(Lexeme::BeforeVerb)
            }
            _ if !(byte.is_ascii_alphanumeric() || b"-._".contains(&byte)) => Transition::Invalid,
            _ if self.at >= MAX_IMAP_TAG_BYTES => Transition::Invalid,
            _ => Transition::To(Lexeme::Tag),
        }
    }

    /// The first byte behind the space before an argument.
    fn first_byte(&mut self, byte: u8) -> Transition {
        match byte {
            b' ' | b'\r' | b'\n' => return after_word(byte),
            _ if self.arguments.len() == MAX_ARGUMENTS => return Transition::Invalid,
            _ => {}
        }
        Transition::To(match byte {
            b'"' => {
                self.argument_start = self.at + 1;
                Lexeme::Quoted
            }
            b'{' => {
                self.literal_bytes = 0;
                self.waits = true;
                Lexeme::LiteralLength
            }
            _ => {
                self.argument_start = self.at;
                Lexeme::Atom
            }
        })
    }

    fn begin_literal(&mut self) -> Lexeme {
        self.argument_start = self.at + 1;
        if self.literal_bytes > 0 {
            return Lexeme::Literal;
        }
        self.push_argument(self.at + 1);
        Lexeme::AfterLiteral
    }

    fn end_argument(&mut self) {
        self.push_argument(self.at);
    }

    fn push_argument(&mut self, end: usize) {
        self.arguments.push(Argument {
            range: self.argument_start..end,
            is_escaped: std::mem::take(&mut self.is_escaped),
        });
    }

    fn command(&self, verb: Verb, input: &[u8]) -> Command {
        let arguments = self.arguments.iter().map(|argument| {
            let bytes = &input[argument.range.clone()];
            match argument.is_escaped {
                true => unescaped(bytes),
                false => Secret::new(bytes.to_vec()),
            }
        });
        Command {
            verb,
            text: Secret::default(),
            arguments: arguments.collect(),
        }
    }
}

/// What a space or a line end leads to behind a verb or an argument.
fn after_word(byte: u8) -> Transition {
    match byte {
        b' ' => Transition::To(Lexeme::BeforeArgument),
        b'\r' => Transition::To(Lexeme::LineEnd),
        _ => Transition::Done,
    }
}

/// Without the backslashes of a quoted string.
fn unescaped(quoted: &[u8]) -> Secret {
    let mut bytes = Zeroizing::new(Vec::with_capacity(quoted.len()));
    let mut rest = quoted.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            b'\\' => bytes.extend(rest.next()),
            _ => bytes.push(byte),
        }
    }
    Secret::new(std::mem::take(&mut *bytes))
}
