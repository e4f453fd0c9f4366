//! Finds commands in a text that comes in pieces, as nginx does: byte by byte.

use std::fmt;

/// Longest name of a command or a parameter.
const NAME_BYTES: usize = 32;

/// Most parameters of a command.
pub(super) const MAX_PARAMS: usize = 16;

/// A command as written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) name: Vec<u8>,
    /// Names and values, in their order.
    pub(super) params: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What stands next in the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Text up to this place, and first so many bytes of `<!--` from the pieces before.
    Text { held: usize, from: usize, to: usize },
    /// A command that ends here.
    Command(Command),
    /// What began as a command ends here; the complaint was made.
    Broken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Text,
    /// So many bytes of `<!--` were seen, 1 to 4.
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
    /// So many bytes of `-->` were seen, 1 or 2.
    Closing(usize),
    /// Nothing but the end matters; so many bytes of `-->` were seen.
    Broken(usize),
}

pub(super) struct Parser {
    state: State,
    command: Command,
    value_bytes: usize,
}

pub(super) const OPENING: &[u8] = b"<!--";

impl Parser {
    /// Values of parameters may have `value_bytes`.
    pub(super) fn new(value_bytes: usize) -> Parser {
        Parser {
            state: State::Text,
            command: Command::default(),
            value_bytes,
        }
    }

    /// The next of `piece` from `from` on, and where it ends; `None` if nothing but the rest of a
    /// command or the beginning of one is there. Mistakes are told to `complain`.
    pub(super) fn next(
        &mut self,
        piece: &[u8],
        from: usize,
        complain: &mut dyn FnMut(fmt::Arguments<'_>),
    ) -> (usize, Option<Event>) {
        let held = match self.state {
            State::Opening(seen) => seen,
            _ => 0,
        };
        // Where the text ends, if what has begun turns out to be a command.
        let mut text_end = from;
        let mut is_held_back = held > 0;
        let mut at = from;
        while at < piece.len() {
            let byte = piece[at];
            match self.state {
                State::Text => {
                    let rest = &piece[at..];
                    at += memchr::memchr(b'<', rest).unwrap_or(rest.len());
                    if at < piece.len() {
                        text_end = at;
                        is_held_back = false;
                        self.state = State::Opening(1);
                        at += 1;
                    }
                    continue;
                }
                State::Opening(seen) => {
                    match (OPENING.get(seen), byte) {
                        (Some(wanted), byte) if *wanted == byte => {
                            self.state = State::Opening(seen + 1);
                        }
                        (None, b'#') => {
                            self.state = State::BeforeName;
                            self.command = Command::default();
                            at += 1;
                            let text = Event::Text {
                                held: if is_held_back { 0 } else { held },
                                from,
                                to: text_end,
                            };
                            return (at, Some(text));
                        }
                        (_, b'<') => {
                            text_end = at;
                            is_held_back = false;
                            self.state = State::Opening(1);
                        }
                        _ => {
                            is_held_back = false;
                            self.state = State::Text;
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
            State::Text => piece.len(),
            State::Opening(_) => text_end,
            _ => return (at, None),
        };
        let held = if is_held_back { 0 } else { held };
        let is_some = held > 0 || to > from;
        (at, is_some.then_some(Event::Text { held, from, to }))
    }

    /// A byte of a command.
    fn step(&mut self, byte: u8, complain: Complain<'_>) -> Option<Event> {
        self.state = match self.state {
            State::BeforeName | State::Name => self.name(byte, complain),
            State::BeforeParam | State::Param | State::BeforeEqual => self.param(byte, complain),
            State::BeforeValue | State::Value(_) | State::Escaped(_) | State::AfterValue => {
                self.value(byte, complain)
            }
            State::Closing(2) if byte == b'>' => {
                self.state = State::Text;
                return Some(Event::Command(std::mem::take(&mut self.command)));
            }
            State::Closing(1) if byte == b'-' => State::Closing(2),
            State::Closing(_) => {
                mistake(
                    &self.command.name,
                    complain,
                    format_args!("unexpected {}", Symbol(byte)),
                );
                State::Broken(0)
            }
            State::Broken(2..) if byte == b'>' => {
                self.state = State::Text;
                return Some(Event::Broken);
            }
            State::Broken(0) => broken(byte),
            State::Broken(1) if byte == b'-' => State::Broken(2),
            State::Broken(_) => State::Broken(0),
            State::Text | State::Opening(_) => State::Text, // these are the caller's
        };
        None
    }

    /// A byte of a command's name, or before it.
    fn name(&mut self, byte: u8, complain: Complain<'_>) -> State {
        match self.state {
            State::BeforeName if is_space(byte) => return State::BeforeName,
            State::Name if is_space(byte) => return State::BeforeParam,
            State::Name if byte == b'-' => return State::Closing(1),
            _ => {}
        }
        if self.command.name.len() == NAME_BYTES {
            let (name, shown) = (self.command.name.escape_ascii(), char::from(byte));
            complain(format_args!(
                "the \"{name}{shown}...\" SSI command is too long"
            ));
            return State::Broken(0);
        }
        self.command.name.push(byte);
        State::Name
    }

    /// A byte of a parameter's name, before it or behind it.
    fn param(&mut self, byte: u8, complain: Complain<'_>) -> State {
        match self.state {
            State::BeforeParam if is_space(byte) => return State::BeforeParam,
            State::BeforeParam if byte == b'-' => return State::Closing(1),
            State::BeforeParam => {
                // One more than there may be is refused when the command is carried out.
                self.command.params.truncate(MAX_PARAMS);
                self.command.params.push((vec![byte], Vec::new()));
                return State::Param;
            }
            _ if is_space(byte) => return State::BeforeEqual,
            _ if byte == b'=' => return State::BeforeValue,
            _ => {}
        }
        let is_over = self.state == State::BeforeEqual || byte == b'-';
        let Some((name, _)) = self.command.params.last_mut() else {
            return State::Broken(0); // it has begun, so there is one
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
            return State::Broken(0);
        }
        name.push(byte);
        State::Param
    }

    /// A byte of a value, or around it.
    fn value(&mut self, byte: u8, complain: Complain<'_>) -> State {
        let max_bytes = self.value_bytes;
        let Some((param, value)) = self.command.params.last_mut() else {
            return State::Broken(0); // its name came before
        };
        let symbol = Symbol(byte);
        match self.state {
            State::BeforeValue if is_space(byte) => State::BeforeValue,
            State::BeforeValue if matches!(byte, b'"' | b'\'') => State::Value(byte),
            State::BeforeValue => {
                let param = param.escape_ascii();
                let what =
                    format_args!("unexpected {symbol} before value of \"{param}\" parameter");
                mistake(&self.command.name, complain, what);
                broken(byte)
            }
            State::Value(quote) if byte == quote => State::AfterValue,
            State::Value(quote) | State::Escaped(quote) if value.len() < max_bytes => {
                value.push(byte);
                match self.state {
                    State::Value(_) if byte == b'\\' => State::Escaped(quote),
                    _ => State::Value(quote),
                }
            }
            State::Value(_) | State::Escaped(_) => {
                let (param, value) = (param.escape_ascii(), value.escape_ascii());
                let shown = char::from(byte);
                let what =
                    format_args!("too long \"{value}{shown}...\" value of \"{param}\" parameter");
                mistake(&self.command.name, complain, what);
                State::Broken(0)
            }
            _ if is_space(byte) => State::BeforeParam,
            _ if byte == b'-' => State::Closing(1),
            _ => {
                let (param, value) = (param.escape_ascii(), value.escape_ascii());
                let what = format_args!(
                    "unexpected {symbol} after \"{value}\" value of \"{param}\" parameter"
                );
                mistake(&self.command.name, complain, what);
                State::Broken(0)
            }
        }
    }
}

fn mistake(command: &[u8], complain: Complain<'_>, what: fmt::Arguments<'_>) {
    let command = command.escape_ascii();
    complain(format_args!("{what} in \"{command}\" SSI command"));
}

/// Told about mistakes.
type Complain<'c> = &'c mut dyn FnMut(fmt::Arguments<'_>);

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\r' | b'\n' | b'\t')
}

/// Behind a mistake; the byte may begin the end.
fn broken(byte: u8) -> State {
    State::Broken(usize::from(byte == b'-'))
}

struct Symbol(u8);

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" symbol", char::from(self.0))
    }
}

#[cfg(test)]
mod tests;
