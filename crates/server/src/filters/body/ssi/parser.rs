//! Finds commands in a text that arrives in pieces; like nginx, byte by byte.

use std::fmt;

/// Longest name of a command or a parameter.
const NAME_BYTES: usize = 32;

/// Most parameters of a command.
pub(super) const MAX_PARAMS: usize = 16;

/// A command as written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct SsiCommand {
    pub(super) name: Vec<u8>,
    /// Names and values, in their order.
    pub(super) params: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The next token of the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SsiToken {
    /// Text up to this position, preceded by `held` bytes of `<!--` from earlier pieces.
    Text { held: usize, from: usize, to: usize },
    /// A command that ends here.
    Command(SsiCommand),
    /// An invalid command ends here; it has been reported.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParserState {
    Text,
    /// How many bytes of `<!--` were seen, 1 to 4.
    Opening(usize),
    BeforeName,
    Name,
    BeforeParam,
    Param,
    BeforeEqual,
    BeforeValue,
    Value(u8),
    /// Behind a backslash in a value.
    Escaped(u8),
    AfterValue,
    /// How many bytes of `-->` were seen, 1 or 2.
    Closing(usize),
    /// After a mistake, until the end; with how many bytes of `-->` were seen.
    Broken(usize),
}

pub(super) struct Parser {
    state: ParserState,
    command: SsiCommand,
    value_bytes: usize,
}

pub(super) const OPENING: &[u8] = b"<!--";

impl Parser {
    /// Values of parameters may have `value_bytes`.
    pub(super) fn new(value_bytes: usize) -> Parser {
        Parser {
            state: ParserState::Text,
            command: SsiCommand::default(),
            value_bytes,
        }
    }

    /// The next token of `piece` from `from` on, and where it ends. `None` if there is only part of
    /// a command. Mistakes are reported to `complain`.
    pub(super) fn next(
        &mut self,
        piece: &[u8],
        from: usize,
        complain: &mut dyn FnMut(fmt::Arguments<'_>),
    ) -> (usize, Option<SsiToken>) {
        let held = match self.state {
            ParserState::Opening(seen) => seen,
            _ => 0,
        };
        // Where the text ends, if this turns out to be a command.
        let mut text_end = from;
        let mut is_held_back = held > 0;
        let mut at = from;
        while at < piece.len() {
            let byte = piece[at];
            match self.state {
                ParserState::Text => {
                    let rest = &piece[at..];
                    at += memchr::memchr(b'<', rest).unwrap_or(rest.len());
                    if at < piece.len() {
                        text_end = at;
                        is_held_back = false;
                        self.state = ParserState::Opening(1);
                        at += 1;
                    }
                    continue;
                }
                ParserState::Opening(seen) => {
                    match (OPENING.get(seen), byte) {
                        (Some(wanted), byte) if *wanted == byte => {
                            self.state = ParserState::Opening(seen + 1);
                        }
                        (None, b'#') => {
                            self.state = ParserState::BeforeName;
                            self.command = SsiCommand::default();
                            at += 1;
                            let text = SsiToken::Text {
                                held: if is_held_back { 0 } else { held },
                                from,
                                to: text_end,
                            };
                            return (at, Some(text));
                        }
                        (_, b'<') => {
                            text_end = at;
                            is_held_back = false;
                            self.state = ParserState::Opening(1);
                        }
                        _ => {
                            is_held_back = false;
                            self.state = ParserState::Text;
                            continue;
                        }
                    }
                    at += 1;
                }
                _ => {
                    at += 1;
                    if let Some(event) = self.step(byte, complain) {
                        return (at, Some(event));
                    }
                    continue;
                }
            }
        }
        let to = match self.state {
            ParserState::Text => piece.len(),
            ParserState::Opening(_) => text_end,
            _ => return (at, None),
        };
        let held = if is_held_back { 0 } else { held };
        let is_some = held > 0 || to > from;
        (at, is_some.then_some(SsiToken::Text { held, from, to }))
    }

    /// A byte of a command.
    fn step(&mut self, byte: u8, complain: Complain<'_>) -> Option<SsiToken> {
        self.state = match self.state {
            ParserState::BeforeName | ParserState::Name => self.name(byte, complain),
            ParserState::BeforeParam | ParserState::Param | ParserState::BeforeEqual => {
                self.param(byte, complain)
            }
            ParserState::BeforeValue
            | ParserState::Value(_)
            | ParserState::Escaped(_)
            | ParserState::AfterValue => self.value(byte, complain),
            ParserState::Closing(2) if byte == b'>' => {
                self.state = ParserState::Text;
                return Some(SsiToken::Command(std::mem::take(&mut self.command)));
            }
            ParserState::Closing(1) if byte == b'-' => ParserState::Closing(2),
            ParserState::Closing(_) => {
                mistake(
                    &self.command.name,
                    complain,
                    format_args!("unexpected {}", Symbol(byte)),
                );
                ParserState::Broken(0)
            }
            ParserState::Broken(2..) if byte == b'>' => {
                self.state = ParserState::Text;
                return Some(SsiToken::Broken);
            }
            ParserState::Broken(0) => broken(byte),
            ParserState::Broken(1) if byte == b'-' => ParserState::Broken(2),
            ParserState::Broken(_) => ParserState::Broken(0),
            ParserState::Text | ParserState::Opening(_) => ParserState::Text, // these are the caller's
        };
        None
    }

    /// A byte of a command's name, or before it.
    fn name(&mut self, byte: u8, complain: Complain<'_>) -> ParserState {
        match self.state {
            ParserState::BeforeName if is_space(byte) => return ParserState::BeforeName,
            ParserState::Name if is_space(byte) => return ParserState::BeforeParam,
            ParserState::Name if byte == b'-' => return ParserState::Closing(1),
            _ => {}
        }
        if self.command.name.len() == NAME_BYTES {
            let (name, shown) = (self.command.name.escape_ascii(), char::from(byte));
            complain(format_args!(
                "the \"{name}{shown}...\" SSI command is too long"
            ));
            return ParserState::Broken(0);
        }
        self.command.name.push(byte);
        ParserState::Name
    }

    /// A byte before, within or after the name of a parameter.
    fn param(&mut self, byte: u8, complain: Complain<'_>) -> ParserState {
        match self.state {
            ParserState::BeforeParam if is_space(byte) => return ParserState::BeforeParam,
            ParserState::BeforeParam if byte == b'-' => return ParserState::Closing(1),
            ParserState::BeforeParam => {
                // Too many parameters are refused when the command is carried out.
                self.command.params.truncate(MAX_PARAMS);
                self.command.params.push((vec![byte], Vec::new()));
                return ParserState::Param;
            }
            _ if is_space(byte) => return ParserState::BeforeEqual,
            _ if byte == b'=' => return ParserState::BeforeValue,
            _ => {}
        }
        let is_over = self.state == ParserState::BeforeEqual || byte == b'-';
        let Some((name, _)) = self.command.params.last_mut() else {
            return ParserState::Broken(0); // it has begun, so there is one
        };
        if is_over {
            let (name, symbol) = (name.escape_ascii(), Symbol(byte));
            let what = format_args!("unexpected {symbol} after \"{name}\" parameter");
            mistake(&self.command.name, complain, what);
            return broken(byte);
        }
        if name.len() == NAME_BYTES {
            let (name, shown) = (name.escape_ascii(), char::from(byte));
            mistake(
                &self.command.name,
                complain,
                format_args!("too long \"{name}{shown}...\" parameter"),
            );
            return ParserState::Broken(0);
        }
        name.push(byte);
        ParserState::Param
    }

    /// A byte of a value, or around it.
    fn value(&mut self, byte: u8, complain: Complain<'_>) -> ParserState {
        let max_bytes = self.value_bytes;
        let Some((param, value)) = self.command.params.last_mut() else {
            return ParserState::Broken(0); // its name came before
        };
        let symbol = Symbol(byte);
        match self.state {
            ParserState::BeforeValue if is_space(byte) => ParserState::BeforeValue,
            ParserState::BeforeValue if matches!(byte, b'"' | b'\'') => ParserState::Value(byte),
            ParserState::BeforeValue => {
                let param = param.escape_ascii();
                let what =
                    format_args!("unexpected {symbol} before value of \"{param}\" parameter");
                mistake(&self.command.name, complain, what);
                broken(byte)
            }
            ParserState::Value(quote) if byte == quote => ParserState::AfterValue,
            ParserState::Value(quote) | ParserState::Escaped(quote) if value.len() < max_bytes => {
                value.push(byte);
                match self.state {
                    ParserState::Value(_) if byte == b'\\' => ParserState::Escaped(quote),
                    _ => ParserState::Value(quote),
                }
            }
            ParserState::Value(_) | ParserState::Escaped(_) => {
                let (param, value) = (param.escape_ascii(), value.escape_ascii());
                let shown = char::from(byte);
                let what =
                    format_args!("too long \"{value}{shown}...\" value of \"{param}\" parameter");
                mistake(&self.command.name, complain, what);
                ParserState::Broken(0)
            }
            _ if is_space(byte) => ParserState::BeforeParam,
            _ if byte == b'-' => ParserState::Closing(1),
            _ => {
                let (param, value) = (param.escape_ascii(), value.escape_ascii());
                let what = format_args!(
                    "unexpected {symbol} after \"{value}\" value of \"{param}\" parameter"
                );
                mistake(&self.command.name, complain, what);
                ParserState::Broken(0)
            }
        }
    }
}

fn mistake(command: &[u8], complain: Complain<'_>, what: fmt::Arguments<'_>) {
    let command = command.escape_ascii();
    complain(format_args!("{what} in \"{command}\" SSI command"));
}

/// Receives complaints about mistakes.
type Complain<'c> = &'c mut dyn FnMut(fmt::Arguments<'_>);

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

/// After a mistake; the byte may be part of the end.
fn broken(byte: u8) -> ParserState {
    ParserState::Broken(usize::from(byte == b'-'))
}

struct Symbol(u8);

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" symbol", char::from(self.0))
    }
}

#[cfg(test)]
mod tests;
