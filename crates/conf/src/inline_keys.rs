//! Private keys that are written into a configuration: `ssl_certificate_key "data:-----BEGIN
//! PRIVATE KEY----- ..."`.
//!
//! The text of a configuration is kept, and goes to worker processes, where no key is to be. So
//! whoever reads it takes such texts out first ([`without_keys`]), and the parser finds references
//! in their place:
//!
//! ```text
//! ssl_certificate_key "data:-----BEGIN SEALANE KEY 2c26b46b68ffc6...-----
//!
//!
//! ";
//! ```
//!
//! Lines and columns of everything else stay what they are. A text with a private key is taken as a
//! whole, certificates included, and is then to the server what a file is: see
//! [`CertificateSource::Taken`](crate::model::CertificateSource::Taken).

use crate::lexer::{Lexer, Origin, RawWord, Token, unescape};
use crate::model::{
    EvaluatedPair, ServerCertificates, Template, Tls, UpstreamCertificate, UpstreamTls,
};
use memchr::memmem;
use std::ops::Range;
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// What begins a text that stands for a file.
const DATA: &[u8] = b"data:";

/// What begins and ends a reference.
const REFERENCE: [&str; 2] = ["-----BEGIN SEALANE KEY ", "-----"];

/// With `data:`.
const REFERENCE_BYTES: usize = DATA.len() + REFERENCE[0].len() + 64 + REFERENCE[1].len();

/// What begins a block in PEM.
const KEY_BEGIN: &[u8] = b"-----BEGIN ";

/// The end of the line that begins a private key (RFC 7468 sections 10 and 11, and the traditional
/// forms).
const KEY_LABEL_END: &[u8] = b"PRIVATE KEY-----";

/// Stands in the place of what is part of a private key.
const MASK: u8 = b'*';

/// Whether a text in PEM has a private key.
pub fn has_private_key(pem: &[u8]) -> bool {
    memmem::find(pem, KEY_LABEL_END).is_some()
}

/// The text of a configuration with references in the place of texts with private keys. `take` gets
/// each of these, without `data:` and with its escapes resolved, and returns its SHA-256. `None`
/// when there are none: the text is what is meant.
///
/// Taken are the arguments of `ssl_certificate_key`, `ssl_certificate` and their relatives, if they
/// have no variables. Keys in comments, and in what cannot be read as a configuration, are of no
/// use, and are made unreadable.
pub fn without_keys(
    text: &[u8],
    take: impl FnMut(Zeroizing<Vec<u8>>) -> [u8; 32],
) -> Option<Vec<u8>> {
    has_private_key(text).then(|| {
        let sweep = Sweep {
            text,
            out: Vec::with_capacity(text.len()),
            take,
        };
        sweep.run()
    })
}

/// The path under which a taken text is found, by its SHA-256. No file has it: all others are
/// absolute.
pub fn path_of(hash: &[u8; 32]) -> PathBuf {
    PathBuf::from(format!("data:{}", hexadecimal(hash)))
}

/// Whether this is such a path.
pub fn is_path(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(DATA)
}

/// The paths of texts that the certificates of a server are read from while it runs.
pub fn of_server(tls: &Tls) -> impl Iterator<Item = PathBuf> {
    let pairs: &[EvaluatedPair] = match &tls.certificates {
        ServerCertificates::Evaluated(evaluated) => &evaluated.pairs,
        ServerCertificates::Files(_) => &[],
    };
    let names = pairs.iter().filter_map(|pair| match pair {
        EvaluatedPair::Named { certificate, key } => Some([certificate, key]),
        EvaluatedPair::Acme => None,
    });
    names.flatten().filter_map(taken_from)
}

/// The same, of a certificate for other servers.
pub fn of_upstream(tls: &UpstreamTls) -> impl Iterator<Item = PathBuf> {
    let names = match &tls.certificate {
        Some(UpstreamCertificate::Evaluated { certificate, key }) => Some([certificate, key]),
        Some(UpstreamCertificate::Files(_)) | None => None,
    };
    names.into_iter().flatten().filter_map(taken_from)
}

/// The path of the text that was taken out of a name without variables, if one was.
pub fn taken_from(name: &Template) -> Option<PathBuf> {
    name.as_literal()?
        .strip_prefix(DATA)
        .and_then(path_of_reference)
}

/// The path of the text for which a reference stands in what follows `data:`.
pub(crate) fn path_of_reference(data: &[u8]) -> Option<PathBuf> {
    let [begin, end] = REFERENCE.map(str::as_bytes);
    let hash = data.trim_ascii().strip_prefix(begin)?.strip_suffix(end)?;
    let is_hash = hash.len() == 64 && hash.iter().all(u8::is_ascii_hexdigit);
    let hash = std::str::from_utf8(hash).ok().filter(|_| is_hash)?;
    Some(PathBuf::from(format!("data:{hash}")))
}

fn hexadecimal(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies a text, without keys.
struct Sweep<'t, T> {
    text: &'t [u8],
    out: Vec<u8>,
    take: T,
}

impl<T: FnMut(Zeroizing<Vec<u8>>) -> [u8; 32]> Sweep<'_, T> {
    fn run(mut self) -> Vec<u8> {
        let mut lexer = Lexer::new(self.text, Origin::File);
        let mut words: Vec<RawWord> = Vec::new();
        let mut copied = 0;
        loop {
            match lexer.next_token() {
                Ok(Token::Word(word)) => words.push(word),
                Ok(Token::Mark(_)) => {
                    self.statement(copied..lexer.at(), &words);
                    copied = lexer.at();
                    words.clear();
                }
                // The rest is no configuration; whoever parses it says so.
                Ok(Token::End) | Err(_) => {
                    self.masked(copied..self.text.len());
                    return self.out;
                }
            }
        }
    }

    /// A statement with what is before it: blanks and comments.
    fn statement(&mut self, range: Range<usize>, words: &[RawWord]) {
        let is_named = words.first().is_some_and(|name| {
            let name = &self.text[name.inside.clone()];
            name.ends_with(b"ssl_certificate_key") || name.ends_with(b"ssl_certificate")
        });
        let start = words.first().map_or(range.end, |name| name.at);
        self.masked(range.start..start);
        if is_named && words.len() != 2 {
            // It is refused. Perhaps there are no quotes.
            return self.masked(start..range.end);
        }
        let mut copied = start;
        for word in words {
            let end = word.inside.end + usize::from(word.is_quoted());
            self.masked(copied..word.at);
            match is_named && self.is_text_with_key(word) {
                true => self.reference(word),
                false => self.out.extend_from_slice(&self.text[word.at..end]),
            }
            copied = end;
        }
        self.masked(copied..range.end);
    }

    fn is_text_with_key(&self, word: &RawWord) -> bool {
        let inside = &self.text[word.inside.clone()];
        // In one line, every key is longer than a reference.
        let has_room = inside.len() >= REFERENCE_BYTES || inside.contains(&b'\n');
        word.is_quoted()
            && inside.starts_with(DATA)
            && has_private_key(inside)
            && !inside.contains(&b'$')
            && has_room
            && std::str::from_utf8(inside).is_ok() // others are refused
    }

    /// Takes a text, and puts a reference with as many lines in its place. What follows in the last
    /// line begins in the same column as before.
    fn reference(&mut self, word: &RawWord) {
        let inside = &self.text[word.inside.clone()];
        let hash = (self.take)(Zeroizing::new(unescape(&inside[DATA.len()..])));
        let [begin, end] = REFERENCE;
        let quote = self.text[word.at];
        self.out.push(quote);
        self.out.extend_from_slice(DATA);
        for part in [begin, &hexadecimal(&hash), end] {
            self.out.extend_from_slice(part.as_bytes());
        }
        let blanks = match memchr::memrchr(b'\n', inside) {
            Some(last) => {
                let newlines = memchr::memchr_iter(b'\n', inside).count();
                self.out.extend(std::iter::repeat_n(b'\n', newlines));
                inside.len() - last - 1
            }
            None => inside.len().saturating_sub(REFERENCE_BYTES),
        };
        self.out.extend(std::iter::repeat_n(b' ', blanks));
        self.out.push(quote);
    }

    /// Copies a part of the text and makes the private keys in it unreadable, but nothing that the
    /// lexer goes by.
    fn masked(&mut self, range: Range<usize>) {
        let from = self.out.len();
        self.out.extend_from_slice(&self.text[range]);
        let mut rest = &mut self.out[from..];
        while let Some(label) = memmem::find(rest, KEY_BEGIN) {
            rest = &mut rest[label + KEY_BEGIN.len()..];
            let line_end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let Some(label_end) = memmem::find(&rest[..line_end], KEY_LABEL_END) else {
                continue;
            };
            rest = &mut rest[label_end + KEY_LABEL_END.len()..];
            let end = [
                memmem::find(rest, b"-----"),
                rest.iter().position(|byte| b"\"';{}".contains(byte)),
            ];
            let end = end.into_iter().flatten().min().unwrap_or(rest.len());
            let (key, behind) = rest.split_at_mut(end);
            let mut is_escaped = false;
            for byte in key {
                let is_digit = byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
                let is_escape = *byte == b'\\' && !is_escaped;
                if is_digit && !is_escaped {
                    *byte = MASK;
                }
                is_escaped = is_escape;
            }
            rest = behind;
        }
    }
}

#[cfg(test)]
mod tests;
