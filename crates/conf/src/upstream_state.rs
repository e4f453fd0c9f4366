//! Servers of an `upstream` outside its block: in the file of `state`, and in what a running server
//! is told.
//!
//! ```text
//! # sealane state 1 bytes=54 crc32=89abcdef
//! server 127.0.0.1:8081 weight=2;
//! server 127.0.0.1:8082;
//! ```
//!
//! The first line says how long the rest is, and what its checksum is, so that a file of which a
//! part is missing is refused. A file without it, such as nginx's own, is read as it is.

use crate::diagnostic::Diagnostic;
use crate::input::{Loader, Options};
use crate::model::Upstream;
use crate::parser::{Limits, parse_within};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// How the first line begins.
const MAGIC: &str = "# sealane state 1 ";
/// Where the block that stands around the text has its "file".
const AROUND: &str = "/around";
/// The "file" that the text is; messages name it.
const TEXT: &str = "/servers";

/// A file of `state`, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateText<'a> {
    /// Sealane wrote it.
    pub is_ours: bool,
    /// The `server` lines.
    pub lines: &'a [u8],
}

impl<'a> StateText<'a> {
    /// Takes the content of a file apart.
    ///
    /// # Errors
    /// What is wrong with it: a part of it is missing, or it was changed.
    pub fn read(content: &'a [u8]) -> Result<StateText<'a>, &'static str> {
        const CUT: &str = "a part of it is missing";
        if content.is_empty() {
            return Err("it is empty");
        }
        let magic = MAGIC.as_bytes();
        if !content.starts_with(magic) {
            return match magic.starts_with(content) {
                true => Err(CUT),
                false => Ok(StateText {
                    is_ours: false,
                    lines: content,
                }),
            };
        }
        let end = memchr::memchr(b'\n', content).ok_or(CUT)?;
        let (first, lines) = (&content[magic.len()..end], &content[end + 1..]);
        let first = std::str::from_utf8(first).map_err(|_| "its first line is damaged")?;
        let value = |name: &str| {
            let mut words = first.split(' ');
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let bytes = value("bytes").and_then(|text| text.parse().ok());
        let sum = value("crc32").and_then(|text| u32::from_str_radix(text, 16).ok());
        let (Some(bytes), Some(sum)) = (bytes, sum) else {
            return Err("its first line is damaged");
        };
        if lines.len() < bytes {
            return Err(CUT);
        }
        if lines.len() > bytes || crc32fast::hash(lines) != sum {
            return Err("it was changed after it was written");
        }
        Ok(StateText {
            is_ours: true,
            lines,
        })
    }

    /// The content of a file with these lines.
    pub fn written(lines: &[u8]) -> Vec<u8> {
        let (bytes, sum) = (lines.len(), crc32fast::hash(lines));
        let mut content = format!("{MAGIC}bytes={bytes} crc32={sum:08x}\n").into_bytes();
        content.extend_from_slice(lines);
        content
    }
}

/// A word of the configuration that stands for these bytes, in quotes if it needs them.
pub fn word(bytes: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric() || b"-._:/[]=,+%@~".contains(byte) || !byte.is_ascii()
    };
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return bytes.to_vec();
    }
    let mut word = vec![b'"'];
    for byte in bytes {
        if matches!(byte, b'"' | b'\\') {
            word.push(b'\\');
        }
        word.push(*byte);
    }
    word.push(b'"');
    word
}

/// Reads what would stand in an `upstream` block; servers may be missing, or all be backups. It has
/// a `zone` and a `resolver` already; `state` and `include` find no file. Names are looked up by
/// `hosts` unless they have `resolve`.
///
/// # Errors
/// The first error, as in a configuration file.
pub fn read_block(
    name: &str,
    lines: &[u8],
    hosts: &mut dyn FnMut(&str) -> io::Result<Vec<IpAddr>>,
) -> Result<Upstream, Box<Diagnostic>> {
    let options = Options::new(AROUND, "/");
    // The first server is there so that there is one; it is not a part of the result.
    let mut around = b"events {} http { upstream ".to_vec();
    around.extend(word(name.as_bytes()));
    around.extend_from_slice(b" { zone servers; resolver 127.0.0.1; server 127.0.0.1; include ");
    around.extend_from_slice(TEXT.as_bytes());
    around.extend_from_slice(b"; } }");
    let mut loader = TextLoader {
        around,
        lines,
        hosts,
    };
    let config = parse_within(&options, &mut loader, &Limits::DEFAULT);
    let config = config.map_err(|failure| failure.error)?;
    let http = config.http.as_ref();
    let first = http.and_then(|http| http.upstreams.first());
    let mut group = Upstream::clone(first.expect("it has the block around the text"));
    group.servers.remove(0);
    Ok(group)
}

struct TextLoader<'a> {
    around: Vec<u8>,
    lines: &'a [u8],
    hosts: &'a mut dyn FnMut(&str) -> io::Result<Vec<IpAddr>>,
}

impl Loader for TextLoader<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some(AROUND) => Ok(self.around.clone()),
            Some(TEXT) => Ok(self.lines.to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn glob(&mut self, _: &str) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn resolve(&mut self, host: &str) -> io::Result<Vec<IpAddr>> {
        (self.hosts)(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &[u8] = b"server 127.0.0.1:8081 weight=2;\nserver 127.0.0.1:8082;\n";

    fn no_host(_: &str) -> io::Result<Vec<IpAddr>> {
        Err(io::ErrorKind::NotFound.into())
    }

    #[test]
    fn what_was_written_is_read() {
        let content = StateText::written(LINES);
        let text = StateText::read(&content).expect("it is whole");
        assert_eq!((text.is_ours, text.lines), (true, LINES));
        let empty = StateText::written(b"");
        let text = StateText::read(&empty).expect("no server is a list, too");
        assert_eq!(text.lines, b"");
        // As nginx writes it.
        let text = StateText::read(LINES).expect("it needs no first line");
        assert_eq!((text.is_ours, text.lines), (false, LINES));
    }

    #[test]
    fn a_file_that_is_cut_or_changed_anywhere_is_refused() {
        let content = StateText::written(LINES);
        for end in 0..content.len() {
            let read = StateText::read(&content[..end]);
            assert!(read.is_err(), "{end}: {read:?}");
        }
        for at in 0..content.len() {
            let mut changed = content.clone();
            changed[at] ^= 1;
            match StateText::read(&changed) {
                // The words that nothing depends on, or no first line of ours.
                Ok(text) => assert!(at < content.len() - LINES.len(), "{at}: {text:?}"),
                Err(_) => continue,
            }
        }
        let longer = [&content[..], b"server 127.0.0.1:1;\n"].concat();
        assert!(StateText::read(&longer).is_err());
    }

    #[test]
    fn blocks_are_read_as_in_a_file() {
        let read = |text: &str| read_block("a \"b\" {", text.as_bytes(), &mut no_host);
        let group = read("least_conn; server 127.0.0.1:1; server [::1]:2 backup;").expect("good");
        assert_eq!((&*group.name, group.servers.len()), ("a \"b\" {", 2));
        for (text, message) in [
            ("server", "unexpected end of file"),
            ("server 127.0.0.1:1; }", "unexpected \"}\""),
            ("server 127.0.0.1:1; } upstream other {", "unexpected \"}\""),
            ("listen 80;", "not allowed here"),
            ("server app.example;", "host not found"),
            ("include /etc/passwd;", "failed"),
            ("include /servers;", "includes itself"),
            ("server 127.0.0.1:1; state /tmp/state;", "\"state\""),
            (
                "server 127.0.0.1:1; hash $undefined;",
                "unknown \"undefined\" variable",
            ),
        ] {
            let error = read(text).expect_err(text).headline();
            assert!(error.contains(message), "{text}: {error}");
        }
        for (text, servers) in [("", 0), ("include /etc/*;", 0), ("server [::1] backup;", 1)] {
            assert_eq!(read(text).expect(text).servers.len(), servers, "{text}");
        }
        let group = read("server app.example resolve;").expect("looked up later");
        assert_eq!(group.servers.len(), 1);
    }

    #[test]
    fn words_are_read_as_they_were() {
        for route in ["a", "a b", "a\"b\\", "a;b", "a{", "$a", "#"] {
            let mut line = b"server 127.0.0.1:1 ".to_vec();
            line.extend(word(format!("route={route}").as_bytes()));
            line.push(b';');
            let group = read_block("a", &line, &mut no_host).expect(route);
            assert_eq!(group.servers[0].route.as_deref(), Some(route.as_bytes()));
        }
    }
}
