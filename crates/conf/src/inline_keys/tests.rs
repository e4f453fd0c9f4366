use super::*;
use crate::lexer::{Item, LexError};
use proptest::prelude::*;

const KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIDAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm
c2Vj
-----END PRIVATE KEY-----
";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

/// No hash, but one that tells texts of a test apart.
fn hash(number: usize) -> [u8; 32] {
    [u8::try_from(number).expect("few texts"); 32]
}

/// The text without keys, and what was taken.
fn sweep(text: &str) -> (String, Vec<String>) {
    let mut taken = Vec::new();
    let swept = without_keys(text.as_bytes(), |text| {
        taken.push(String::from_utf8(text.to_vec()).expect("text"));
        hash(taken.len())
    });
    let swept = swept.map_or_else(
        || text.to_owned(),
        |it| String::from_utf8(it).expect("text"),
    );
    (swept, taken)
}

fn reference(number: usize) -> String {
    let hash = hexadecimal(&hash(number));
    format!("-----BEGIN SEALANE KEY {hash}-----")
}

#[test]
fn a_text_in_either_quotes_becomes_a_reference_with_as_many_lines() {
    for quote in ['"', '\''] {
        for name in [
            "ssl_certificate_key",
            "ssl_certificate",
            "proxy_ssl_certificate_key",
            "\"grpc_ssl_certificate_key\"",
        ] {
            let text = format!("a;\n{name} {quote}data:{KEY}{quote}; b;");
            let (swept, taken) = sweep(&text);
            let reference = reference(1);
            let expected = format!("a;\n{name} {quote}data:{reference}\n\n\n\n{quote}; b;");
            assert_eq!(swept, expected);
            assert_eq!(taken, [KEY]);
        }
    }
}

#[test]
fn escapes_are_resolved_and_columns_stay() {
    let escaped = KEY.trim_end().replace('\n', "\\n");
    let text = format!("x; ssl_certificate_key \"data:{escaped}\\\"\\\\\\t\\r\"; y;");
    let (swept, taken) = sweep(&text);
    assert_eq!(taken, [format!("{}\"\\\t\r", KEY.trim_end())]);
    assert_eq!(swept.find("; y;"), text.find("; y;"), "{swept}");
    let reference = reference(1);
    assert!(swept.starts_with(&format!("x; ssl_certificate_key \"data:{reference} ")));
    // The last line of a text that ends with its label.
    let text = format!("ssl_certificate_key \"data:{}\"; y;", KEY.trim_end());
    let (swept, _) = sweep(&text);
    let last = |text: &str| text.lines().last().map(str::len);
    assert_eq!(last(&swept), last(&text));
    assert_eq!(swept.lines().count(), text.lines().count());
}

#[test]
fn a_text_is_taken_whole() {
    for (text, taken) in [
        (format!("{CERTIFICATE}{KEY}"), true),
        (format!("{KEY}{KEY}{CERTIFICATE}"), true),
        (KEY.replace('\n', "\r\n"), true),
        (KEY.replace("PRIVATE", "ENCRYPTED PRIVATE"), true),
        (KEY.replace("PRIVATE", "RSA PRIVATE"), true),
        // Whoever loads it says what is wrong.
        ("-----BEGIN PRIVATE KEY-----\nc2Vj\n".to_owned(), true),
        (CERTIFICATE.to_owned(), false),
        (KEY.replace("PRIVATE", "PUBLIC"), false),
        (format!("$a{KEY}"), false),
    ] {
        let line = format!("ssl_certificate_key \"data:{text}\";");
        let (swept, found) = sweep(&line);
        match taken {
            true => assert_eq!(found, [text]),
            false => assert_eq!((swept, found), (line, Vec::new())),
        }
    }
}

#[test]
fn other_words_stay() {
    for line in [
        format!("return 200 \"data:{KEY}\";"),
        format!("map $a $b {{ default \"data:{KEY}\"; }}"),
        format!("ssl_certificate_key \"{KEY}\";"),
        format!("ssl_trusted_certificates \"data:{KEY}\";"),
        "ssl_certificate_key data:PRIVATE; # KEY-----".to_owned(),
        "PRIVATE KEY-----".to_owned(),
        "a; # what begins with -----BEGIN PRIVATE KEY-----\nb c 'd'; # ... KEY-----\ne f;"
            .to_owned(),
        format!("a {};", KEY.trim_end()),
        "ssl_certificate_key \"data:-----BEGIN PRIVATE KEY-----\";".to_owned(),
    ] {
        assert_eq!(sweep(&line), (line, Vec::new()));
    }
}

#[test]
fn keys_that_are_of_no_use_are_unreadable() {
    let stars = "*".repeat(64);
    let masked =
        &format!("-----BEGIN PRIVATE KEY-----\n{stars}\n****\n-----END PRIVATE KEY-----\n");
    for (before, behind) in [
        ("ssl_certificate_key data:", "; a;"),
        ("ssl_certificate_key \"data:", "\" twice; a;"),
        ("ssl_certificate_key \"data:", "\"c; a;"),
        ("ssl_certificate_key \"data:", ""),
        ("a; b 'c'e; ssl_certificate_key \"data:", "\"; d"),
    ] {
        let (swept, taken) = sweep(&format!("{before}{KEY}{behind}"));
        assert_eq!(swept, format!("{before}{masked}{behind}"));
        assert_eq!(taken, Vec::<String>::new());
    }
    let comment = |text: &str| format!("a; # {}\nb;", text.trim_end().replace('\n', "\n# "));
    assert_eq!(sweep(&comment(KEY)).0, comment(masked));
    // As it is before a library encrypts it in the traditional form.
    let (swept, _) = sweep(&comment(
        "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,0A\n\nc2Vj\n-----END RSA PRIVATE KEY-----",
    ));
    assert!(
        !swept.contains("c2Vj") && swept.ends_with("\nb;"),
        "{swept}"
    );
}

#[test]
fn references_are_found_again() {
    let hash = hash(7);
    let reference = format!("data:{}", reference(7));
    let path = path_of(&hash);
    assert!(path.is_relative());
    for name in [reference.clone(), format!("{reference}\n\n  ")] {
        assert_eq!(taken_from(&Template::literal(name)), Some(path.clone()));
    }
    for other in [
        "data:",
        "data:-----BEGIN SEALANE KEY 00-----",
        &reference["data:".len()..],
        &reference.replace("07", "0g"),
        &format!("data:{CERTIFICATE}"),
    ] {
        assert_eq!(taken_from(&Template::literal(other)), None, "{other}");
    }
}

/// The words of a statement, with the line and the column of what follows them.
struct Seen {
    words: Vec<Vec<u8>>,
    line: u32,
    column: usize,
}

/// All that a parser sees, and the error.
fn seen(text: &[u8]) -> (Vec<Seen>, Option<LexError>) {
    let mut lexer = Lexer::new(text, Origin::File);
    let mut items = Vec::new();
    loop {
        let item = match lexer.next_item() {
            Ok(item) => item,
            Err(error) => {
                let at = column(text, error.at);
                return (items, Some(LexError { at, ..error }));
            }
        };
        let words = match item {
            Item::End => return (items, None),
            Item::Simple(words) | Item::BlockStart(words) => words,
            Item::BlockEnd => Vec::new(),
        };
        let words = words.into_iter().map(|word| word.bytes).collect();
        items.push(Seen {
            words,
            line: lexer.line(),
            column: column(text, lexer.last_at()),
        });
    }
}

fn column(text: &[u8], at: usize) -> usize {
    let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
    at - start
}

fn fragment() -> impl Strategy<Value = String> {
    let escaped = KEY.replace('\n', "\\n");
    prop_oneof![
        Just(KEY.to_owned()),
        Just(escaped),
        Just(CERTIFICATE.to_owned()),
        Just("-----BEGIN EC PRIVATE KEY-----\n".to_owned()),
        Just("-----END PRIVATE KEY-----".to_owned()),
        Just("ssl_certificate_key ".to_owned()),
        Just("ssl_certificate_key \"data:".to_owned()),
        Just("proxy_ssl_certificate 'data:".to_owned()),
        Just("data:".to_owned()),
        "[\"';{}#\\\\\n\r\t $a-]{1,3}",
    ]
}

proptest! {
    #[test]
    fn a_parser_sees_the_same(fragments in proptest::collection::vec(fragment(), 0..20)) {
        let text = fragments.concat();
        let (swept, taken) = sweep(&text);
        let (before, error_before) = seen(text.as_bytes());
        let (after, error_after) = seen(swept.as_bytes());
        prop_assert_eq!(&error_before, &error_after);
        prop_assert_eq!(before.len(), after.len());
        let mut references = 0;
        for (before, after) in before.iter().zip(&after) {
            prop_assert_eq!((before.line, before.column), (after.line, after.column));
            prop_assert_eq!(before.words.len(), after.words.len());
            for (word, word_after) in before.words.iter().zip(&after.words) {
                if word_after.trim_ascii_end().ends_with(b"-----")
                    && let Some(text) = word.strip_prefix(DATA)
                    && let Some(path) = word_after.strip_prefix(DATA).and_then(path_of_reference)
                {
                    references += 1;
                    prop_assert_eq!(path, path_of(&hash(references)));
                    prop_assert_eq!(text, taken[references - 1].as_bytes());
                    continue;
                }
                let same = word.iter().zip(word_after).all(|(a, b)| a == b || *b == MASK);
                prop_assert!(same && word.len() == word_after.len());
            }
        }
        if error_before.is_none() {
            prop_assert_eq!(references, taken.len());
        }
    }

    #[test]
    fn text_without_keys_is_the_same(text in "[a-zA-Z\"';{}#\\\\\n$: -]{0,200}") {
        prop_assert_eq!(without_keys(text.as_bytes(), |_| unreachable!("no key")), None);
        // The same, where something else has a key.
        let more = format!("{text}\nreturn 200 \"PRIVATE KEY-----\";");
        let swept = without_keys(more.as_bytes(), |_| unreachable!("no key"));
        prop_assert_eq!(swept, Some(more.into_bytes()));
    }
}
