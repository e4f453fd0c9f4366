//! Splits configuration text into statements, as nginx's tokenizer does.
//!
//! The rules are nginx's own, odd corners included: a backslash protects the
//! next byte and stays, except before a quote or another backslash and in
//! `\t`, `\r`, `\n`; a quoted word must be followed by a blank, `;`, `{` or
//! `)`; `${` does not open a block; `#` begins a comment only where a word
//! could begin.

use std::ops::Range;

/// Longest word. nginx reads through a buffer of this size and refuses what
/// does not fit.
pub(crate) const MAX_WORD_BYTES: usize = 4096;

/// A word as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawWord {
    /// Offset of its first byte (the quote, if quoted) in the text.
    pub(crate) at: usize,
    /// Its bytes, without quotes.
    pub(crate) inside: Range<usize>,
}

impl RawWord {
    pub(crate) fn is_quoted(&self) -> bool {
        self.inside.start > self.at
    }
}

/// A part of a statement, without blanks and comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word.
    Word(RawWord),
    /// `;`, `{` or `}`.
    Mark(u8),
    /// The text is over.
    End,
}

/// A word with the place where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// Quotes and escapes resolved.
    pub(crate) bytes: Vec<u8>,
    /// Offset of its first byte (the quote, if quoted) in the text.
    pub(crate) at: usize,
}

/// What ends a run of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    /// Words, then `;`.
    Simple(Vec<Word>),
    /// Words, then `{`.
    BlockStart(Vec<Word>),
    /// `}`.
    BlockEnd,
    /// The text is over.
    End,
}

/// What is wrong with the text, in nginx's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LexError {
    pub(crate) message: String,
    /// Offset to point at.
    pub(crate) at: usize,
    /// The line that nginx names.
    pub(crate) line: u32,
}

/// Where the text comes from; end-of-text messages differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file.
    File,
    /// The argument of `-g`.
    CommandLine,
}

/// Reads statements one by one.
#[derive(Debug, Clone)]
pub(crate) struct Lexer<'t> {
    text: &'t [u8],
    origin: Origin,
    at: usize,
    line: u32,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t [u8], origin: Origin) -> Lexer<'t> {
        // Editors on some systems put a byte order mark in front.
        let at = if text.starts_with(b"\xEF\xBB\xBF") {
            3
        } else {
            0
        };
        Lexer {
            text,
            origin,
            at,
            line: 1,
        }
    }

    /// The line that has been reached, from 1.
    pub(crate) fn line(&self) -> u32 {
        self.line
    }

    /// Offset of the next byte.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Offset of the last byte read.
    pub(crate) fn last_at(&self) -> usize {
        self.at.saturating_sub(1)
    }

    /// The next statement or brace.
    pub(crate) fn next_item(&mut self) -> Result<Item, LexError> {
        let mut words: Vec<Word> = Vec::new();
        loop {
            match self.next_token()? {
                Token::Word(RawWord { at, inside }) => words.push(Word {
                    bytes: unescape(&self.text[inside]),
                    at,
                }),
                Token::Mark(byte) => {
                    return match (byte, words.is_empty()) {
                        (b';', false) => Ok(Item::Simple(words)),
                        (b'{', false) => Ok(Item::BlockStart(words)),
                        (b'}', true) => Ok(Item::BlockEnd),
                        _ => Err(self.unexpected(byte)),
                    };
                }
                Token::End => {
                    return match words.first() {
                        None => Ok(Item::End),
                        Some(word) => Err(self.cut_short(word.at)),
                    };
                }
            }
        }
    }

    /// The next part of a statement, of which nothing is copied.
    pub(crate) fn next_token(&mut self) -> Result<Token, LexError> {
        self.skip_blanks();
        let Some(byte) = self.peek() else {
            return Ok(Token::End);
        };
        match byte {
            b';' | b'{' | b'}' => {
                self.bump();
                Ok(Token::Mark(byte))
            }
            b'"' | b'\'' => self.quoted(byte).map(Token::Word),
            _ => self.bare().map(Token::Word),
        }
    }

    /// Skips a block of Lua, whose `{` was read, as nginx's Lua module does: braces in
    /// its strings and comments do not count. False when the text ends first.
    pub(crate) fn skip_lua(&mut self) -> bool {
        let mut depth = 1_usize;
        while let Some(byte) = self.bump() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth -= 1,
                b'"' | b'\'' => self.skip_lua_string(byte),
                b'[' => drop(self.skip_lua_long_string()),
                b'-' if self.peek() == Some(b'-') => {
                    self.bump();
                    let long = self.peek() == Some(b'[') && {
                        self.bump();
                        self.skip_lua_long_string()
                    };
                    while !long && self.bump().is_some_and(|byte| byte != b'\n') {}
                }
                _ => {}
            }
            if depth == 0 {
                return true;
            }
        }
        false
    }

    fn skip_lua_string(&mut self, quote: u8) {
        while let Some(byte) = self.bump() {
            match byte {
                b'\\' => drop(self.bump()),
                _ if byte == quote => return,
                _ => {}
            }
        }
    }

    /// After a `[`: past `[[...]]` or `[=[...]=]`, if that is what begins here.
    fn skip_lua_long_string(&mut self) -> bool {
        let rest = &self.text[self.at..];
        let level = rest.iter().take_while(|byte| **byte == b'=').count();
        if rest.get(level) != Some(&b'[') {
            return false;
        }
        let mut close = vec![b'='; level + 2];
        (close[0], close[level + 1]) = (b']', b']');
        let inside = memchr::memmem::find(rest, &close);
        let until = self.at + inside.map_or(rest.len(), |inside| inside + close.len());
        while self.at < until {
            self.bump();
        }
        true
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b'\n' {
            self.line = self.line.saturating_add(1);
        }
        Some(byte)
    }

    /// Skips blanks and comments.
    fn skip_blanks(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {
                    self.bump();
                }
                b'#' => while self.bump().is_some_and(|byte| byte != b'\n') {},
                _ => return,
            }
        }
    }

    /// A word in quotes, with what must follow it.
    fn quoted(&mut self, quote: u8) -> Result<RawWord, LexError> {
        let opening = self.at;
        self.bump();
        let (start, start_line) = (self.at, self.line);
        loop {
            self.check_length(Some(quote), start, start_line)?;
            match self.bump() {
                None => return Err(self.cut_short(opening)),
                Some(b'\\') => drop(self.bump()),
                Some(byte) if byte == quote => break,
                Some(_) => {}
            }
        }
        let inside = start..self.at - 1;
        match self.peek() {
            // `if ("$a" = "b")`: the parenthesis is a word of its own.
            None | Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{' | b')') => Ok(RawWord {
                at: opening,
                inside,
            }),
            Some(other) => {
                self.bump();
                Err(self.unexpected(other))
            }
        }
    }

    /// A word without quotes.
    fn bare(&mut self) -> Result<RawWord, LexError> {
        let (start, start_line) = (self.at, self.line);
        let mut after_dollar = false;
        loop {
            self.check_length(None, start, start_line)?;
            match self.peek() {
                None => return Err(self.cut_short(start)),
                Some(b'{') if after_dollar => {
                    self.bump();
                    continue;
                }
                Some(b' ' | b'\t' | b'\r' | b'\n' | b';' | b'{') => break,
                Some(byte) => {
                    self.bump();
                    if byte == b'\\' {
                        self.bump();
                    }
                    after_dollar = byte == b'$';
                }
            }
        }
        Ok(RawWord {
            at: start,
            inside: start..self.at,
        })
    }

    fn unexpected(&self, byte: u8) -> LexError {
        let shown = String::from_utf8_lossy(&[byte]).into_owned();
        LexError {
            message: format!("unexpected \"{shown}\""),
            at: self.last_at(),
            line: self.line,
        }
    }

    fn check_length(
        &self,
        quote: Option<u8>,
        start: usize,
        start_line: u32,
    ) -> Result<(), LexError> {
        let more_follows = self.at < self.text.len();
        if self.at - start < MAX_WORD_BYTES || !more_follows || self.origin == Origin::CommandLine {
            return Ok(());
        }
        let message = match quote {
            Some(quote) => format!(
                "too long parameter, probably missing terminating \"{}\" character",
                char::from(quote)
            ),
            None => {
                let begin = String::from_utf8_lossy(&self.text[start..start + 10]);
                format!("too long parameter \"{begin}...\" started")
            }
        };
        Err(LexError {
            message,
            at: start,
            line: start_line,
        })
    }

    /// The text ends inside of a statement that begins at `at`.
    fn cut_short(&self, at: usize) -> LexError {
        let message = match self.origin {
            Origin::File => "unexpected end of file, expecting \";\" or \"}\"",
            Origin::CommandLine => "unexpected end of parameter, expecting \";\"",
        };
        LexError {
            message: message.into(),
            at,
            line: self.line,
        }
    }
}

/// Resolves the escapes of a word, in memory that is never reallocated.
pub(crate) fn unescape(raw: &[u8]) -> Vec<u8> {
    if memchr::memchr(b'\\', raw).is_none() {
        return raw.to_vec();
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        let resolved = match (byte, rest.peek()) {
            (b'\\', Some(&next @ (b'"' | b'\'' | b'\\'))) => Some(next),
            (b'\\', Some(b't')) => Some(b'\t'),
            (b'\\', Some(b'r')) => Some(b'\r'),
            (b'\\', Some(b'n')) => Some(b'\n'),
            _ => None,
        };
        match resolved {
            Some(resolved) => {
                rest.next();
                out.push(resolved);
            }
            None => out.push(byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str) -> Result<Vec<String>, String> {
        let mut lexer = Lexer::new(text.as_bytes(), Origin::File);
        let mut out = Vec::new();
        loop {
            let item = lexer
                .next_item()
                .map_err(|e| format!("{}:{}", e.message, e.line))?;
            let shown = |words: Vec<Word>| {
                let words: Vec<_> = words
                    .iter()
                    .map(|w| w.bytes.escape_ascii().to_string())
                    .collect();
                words.join("|")
            };
            out.push(match item {
                Item::Simple(words) => format!("{};", shown(words)),
                Item::BlockStart(words) => format!("{}{{", shown(words)),
                Item::BlockEnd => "}".into(),
                Item::End => return Ok(out),
            });
        }
    }

    fn ok(text: &str) -> Vec<String> {
        all(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
    }

    #[test]
    fn statements_blocks_and_comments() {
        assert_eq!(
            ok("a b;# c;\nhttp{ # x }\n server { listen 80 ; } }"),
            ["a|b;", "http{", "server{", "listen|80;", "}", "}"]
        );
        assert_eq!(ok("a#b c;"), ["a#b|c;"], "no comment inside a word");
        assert_eq!(ok(""), [""; 0]);
        assert_eq!(ok("\u{feff}a;"), ["a;"], "byte order mark");
        assert_eq!(ok("a\r\n\tb;\r\n"), ["a|b;"]);
    }

    #[test]
    fn quotes_and_escapes() {
        assert_eq!(ok(r#"a "b c" 'd"e';"#), [r#"a|b c|d\"e;"#]);
        assert_eq!(ok(r#"a "b\"c";"#), [r#"a|b\"c;"#]);
        assert_eq!(ok(r"a b\ c\;d;"), [r"a|b\\ c\\;d;"], "the backslash stays");
        assert_eq!(ok(r"a \t\r\n\\;"), [r"a|\t\r\n\\;"]);
        assert_eq!(ok("a '';"), ["a|;"]);
        assert_eq!(ok("a \"b\nc\";"), ["a|b\\nc;"], "a quoted word may go on");
        assert_eq!(ok(r#"if ("x" = "y") {"#), [r#"if|(\"x\"|=|y|){"#]);
        assert_eq!(ok(r#"if ( "x") {"#), ["if|(|x|){"]);
    }

    #[test]
    fn braces_of_variables_open_no_block() {
        assert_eq!(ok("a ${b}c$d;"), ["a|${b}c$d;"]);
        assert_eq!(ok("a$ {"), ["a${"]);
        assert_eq!(ok("a b$c{"), ["a|b$c{"]);
    }

    #[test]
    fn errors_in_nginx_words() {
        let error = |text: &str| all(text).expect_err("must be refused");
        assert_eq!(
            error("a b"),
            "unexpected end of file, expecting \";\" or \"}\":1"
        );
        assert_eq!(
            error("a\n'b"),
            "unexpected end of file, expecting \";\" or \"}\":2"
        );
        assert_eq!(error(";"), "unexpected \";\":1");
        assert_eq!(error("\n{"), "unexpected \"{\":2");
        assert_eq!(error("a }"), "unexpected \"}\":1");
        assert_eq!(error("a 'b'c;"), "unexpected \"c\":1");
    }

    #[test]
    fn long_words_are_refused() {
        let bare = format!("a\n{};", "x".repeat(MAX_WORD_BYTES - 1));
        assert!(all(&bare).is_ok());
        let bare = format!("a\n{};", "x".repeat(MAX_WORD_BYTES));
        assert_eq!(
            all(&bare),
            Err("too long parameter \"xxxxxxxxxx...\" started:2".into())
        );
        let quoted = format!("a '{};\n\n", "x".repeat(MAX_WORD_BYTES));
        assert_eq!(
            all(&quoted),
            Err("too long parameter, probably missing terminating \"'\" character:1".into())
        );
        let comment = format!("#{}\na;", "x".repeat(3 * MAX_WORD_BYTES));
        assert_eq!(ok(&comment), ["a;"], "comments may be long");
    }

    #[test]
    fn the_command_line_has_its_own_end() {
        let mut lexer = Lexer::new(b"daemon off", Origin::CommandLine);
        let error = lexer.next_item().expect_err("no semicolon");
        assert_eq!(
            error.message,
            "unexpected end of parameter, expecting \";\""
        );
    }

    proptest! {
        #[test]
        fn quoting_any_bytes_gives_them_back(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut text = b"name \"".to_vec();
            for byte in &bytes {
                if matches!(byte, b'"' | b'\\') {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.extend_from_slice(b"\";");
            let mut lexer = Lexer::new(&text, Origin::File);
            let Ok(Item::Simple(words)) = lexer.next_item() else { panic!("one statement") };
            prop_assert_eq!(&words[1].bytes, &bytes);
        }

        #[test]
        fn garbage_ends(text in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut lexer = Lexer::new(&text, Origin::File);
            for _ in 0..=text.len() {
                match lexer.next_item() {
                    Ok(Item::End) | Err(_) => return Ok(()),
                    Ok(_) => {}
                }
            }
            prop_assert!(false, "the text must come to an end");
        }
    }
}
