//! Blocks that are read past.

use super::{Parser, Stop, Text};
use crate::draft::WrittenFile;
use crate::lexer::{Item, Lexer, Word};
use crate::model::Template;

impl Parser<'_> {
    /// Has something in the place of what was refused where its absence would be a second fault.
    pub(super) fn stand_in_for(&mut self, name: &[u8]) {
        if let Some(upstream) = &mut self.build.http.open_upstream {
            upstream.refused |= name == b"server";
            return;
        }
        let tls = &mut self.build.server().tls;
        let files = match name {
            b"ssl_certificate" => &mut tls.certificates,
            b"ssl_certificate_key" => &mut tls.certificate_keys,
            _ => return,
        };
        files.get_or_insert_default().push(WrittenFile {
            text: String::new(),
            name: Template::literal(""),
        });
    }

    /// Reads past a block without looking at what is in it.
    pub(super) fn skip_block(
        &mut self,
        text: &Text,
        lexer: &mut Lexer<'_>,
        name: &[u8],
    ) -> Result<(), Stop> {
        let unfinished =
            |lexer: &Lexer<'_>| text.at_lexer(lexer, "unexpected end of file, expecting \"}\"");
        if name.ends_with(b"_by_lua_block") {
            return match lexer.skip_lua() {
                true => Ok(()),
                false => Err(unfinished(lexer)),
            };
        }
        let mut depth = 1_usize;
        while depth > 0 {
            match lexer.next_item().map_err(|error| text.lex_error(error))? {
                Item::Simple(words) => self.define_all_in(&words),
                Item::BlockStart(words) if words[0].bytes.ends_with(b"_by_lua_block") => {
                    if !lexer.skip_lua() {
                        return Err(unfinished(lexer));
                    }
                }
                Item::BlockStart(_) => depth += 1,
                Item::BlockEnd => depth -= 1,
                Item::End => return Err(unfinished(lexer)),
            }
        }
        Ok(())
    }

    /// Variables that a skipped directive names: it may be what defines them, and
    /// reporting them as missing would add nothing.
    pub(super) fn define_all_in(&mut self, words: &[Word]) {
        for word in words {
            let name = std::str::from_utf8(&word.bytes).ok();
            let name = name.and_then(|word| word.strip_prefix('$'));
            let Some(name) = name.filter(|name| is_variable_name(name)) else {
                continue;
            };
            // One that exists needs no other.
            let _ = self.build.names.define_if_new(name);
        }
    }
}

/// Whether the text after a `$` is the name of a variable and nothing else.
fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
}
