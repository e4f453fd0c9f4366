//! The parser with texts in pieces of any length.

use super::*;
use proptest::prelude::*;

/// What a text is to the parser, however it is cut.
#[derive(Debug, Default, PartialEq, Eq)]
struct ParsedPage {
    text: Vec<u8>,
    /// Where in the text each stands.
    commands: Vec<(usize, Option<SsiCommand>)>,
    complaints: Vec<String>,
}

/// Values may have this many bytes here.
const VALUE_BYTES: usize = 20;

fn parse(pieces: &[&[u8]]) -> ParsedPage {
    let mut parser = Parser::new(VALUE_BYTES);
    let mut found = ParsedPage::default();
    for piece in pieces {
        let mut at = 0;
        while at < piece.len() {
            let mut complain =
                |message: fmt::Arguments<'_>| found.complaints.push(message.to_string());
            let (next, event) = parser.next(piece, at, &mut complain);
            assert!(next > at, "it goes on");
            match event {
                None => {}
                Some(SsiToken::Text { held, from, to }) => {
                    assert!(held < OPENING.len() + 1 && at <= from && from <= to && to <= next);
                    found.text.extend_from_slice(&OPENING[..held]);
                    found.text.extend_from_slice(&piece[from..to]);
                }
                Some(SsiToken::Command(command)) => {
                    assert!(command.name.len() <= NAME_BYTES);
                    assert!(command.params.len() <= MAX_PARAMS + 1);
                    for (name, value) in &command.params {
                        assert!(name.len() <= NAME_BYTES && value.len() <= VALUE_BYTES);
                    }
                    found.commands.push((found.text.len(), Some(command)));
                }
                Some(SsiToken::Broken) => found.commands.push((found.text.len(), None)),
            }
            at = next;
        }
    }
    found
}

/// The text in pieces of these lengths, the last one again and again.
fn cut<'t>(mut text: &'t [u8], lengths: &[usize]) -> Vec<&'t [u8]> {
    let mut pieces = Vec::new();
    let mut lengths = lengths.iter();
    let mut length = 1;
    while !text.is_empty() {
        length = *lengths.next().unwrap_or(&length);
        let (piece, rest) = text.split_at(length.min(text.len()));
        pieces.push(piece);
        text = rest;
    }
    pieces
}

/// Parts of commands and of what only looks like one, so that garbage gets somewhere.
fn page() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        3 => prop::sample::select(vec![
            "<!--#", "<!--", "<!-", "<!", "<", "<<!--#", "-->", "--", "-", ">", "#", " ", "\n", "=",
            "\"", "'", "\\", "echo", "include", " virtual=\"/a\"", " var='x'", " a='", "text",
            "<!--#echo var=\"uri\" -->", "<!--#if expr='$a = /b/' -->", "<!-- comment -->",
        ])
        .prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn pieces_do_not_matter(page in page(), lengths in prop::collection::vec(1usize..9, 1..20)) {
        let whole = parse(&[&page]);
        let commands = whole.commands.len();
        prop_assert!(whole.text.len() + 6 * commands <= page.len(), "nothing is made up");
        prop_assert_eq!(&parse(&cut(&page, &lengths)), &whole);
        prop_assert_eq!(&parse(&cut(&page, &[1])), &whole);
    }
}

#[test]
fn text_stays_what_it_is() {
    for text in [
        "",
        "a",
        "<",
        "<!",
        "<!-",
        "<!--",
        "<!-- x -->",
        "<<<!-<!--<",
    ] {
        // What may begin a command waits for more, so there is more.
        let text = format!("{text}.");
        let pieces = cut(text.as_bytes(), &[1]);
        assert_eq!(parse(&pieces).text, text.as_bytes(), "{text}");
    }
    // The end may come without it.
    assert_eq!(parse(&[b"a<!-"]).text, b"a");
}
