//! `auth_basic_user_file`: lines of `name:password`. As in nginx, the file is read from its
//! beginning for every request, however long it is.

use std::io::{self, Read};
use zeroize::Zeroizing;

/// Most bytes of a password; nginx's limit.
const MAX_PASSWORD_BYTES: usize = 2048;

/// How much is read at a time.
const BLOCK_BYTES: usize = 16 << 10;

/// The result of a search for a name.
pub(super) struct UserEntry {
    /// The password of the name, if it is there.
    pub(super) password: Option<Zeroizing<Vec<u8>>>,
    /// The password of the first line: comparing it makes unknown names take as long as known ones.
    pub(super) first: Option<Zeroizing<Vec<u8>>>,
}

/// Looks up a name. Its first line counts.
///
/// # Errors
/// When reading fails.
pub(super) fn find(file: &mut impl Read, user: &[u8]) -> io::Result<UserEntry> {
    let mut block = Zeroizing::new(vec![0; BLOCK_BYTES]);
    let mut line = Line::new(user);
    let mut found = UserEntry {
        password: None,
        first: None,
    };
    loop {
        let read = match file.read(&mut block) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        for byte in &block[..read] {
            if line.take(*byte, found.first.is_none()) {
                end_line(&mut line, &mut found);
                if found.password.is_some() {
                    return Ok(found);
                }
            }
        }
    }
    end_line(&mut line, &mut found);
    Ok(found)
}

/// Evaluates the line that has ended, and begins the next one.
fn end_line(line: &mut Line<'_>, found: &mut UserEntry) {
    if let LinePart::Password { matches, .. } = line.part {
        let password = std::mem::take(&mut line.password);
        if matches {
            found.password = Some(password);
        } else if found.first.is_none() && !password.is_empty() {
            found.first = Some(password);
        }
    }
    line.begin();
}

/// The line at hand.
struct Line<'u> {
    user: &'u [u8],
    part: LinePart,
    password: Zeroizing<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum LinePart {
    /// In the name: how many of its bytes have matched; `None` if it is another name.
    Name { matched: Option<usize> },
    /// In the password: whether it belongs to the name, and whether it has ended.
    Password { matches: bool, ended: bool },
    /// A comment.
    Rest,
}

impl Line<'_> {
    fn new(user: &[u8]) -> Line<'_> {
        Line {
            user,
            part: LinePart::Name { matched: Some(0) },
            password: Zeroizing::default(),
        }
    }

    fn begin(&mut self) {
        self.part = LinePart::Name { matched: Some(0) };
        self.password.clear();
    }

    /// Takes one byte. True at the end of the line, or when its rest is not needed.
    fn take(&mut self, byte: u8, keeps_others: bool) -> bool {
        if byte == b'\n' {
            return true;
        }
        match &mut self.part {
            LinePart::Name { matched } => match (byte, *matched) {
                (b'#' | b'\r', Some(0)) => self.part = LinePart::Rest,
                (b':', at) => {
                    self.part = LinePart::Password {
                        matches: at == Some(self.user.len()),
                        ended: false,
                    };
                }
                (_, Some(at)) if self.user.get(at) == Some(&byte) => *matched = Some(at + 1),
                // No longer the start, where `#` begins a comment.
                _ => *matched = None,
            },
            LinePart::Password { matches, ended } => {
                *ended |= matches!(byte, b':' | b'\r');
                if *ended {
                    return *matches;
                }
                let keeps = *matches || keeps_others;
                if keeps && self.password.len() < MAX_PASSWORD_BYTES {
                    // Allocated at full size, so that growing leaves no unwiped copy behind.
                    if self.password.capacity() == 0 {
                        self.password.reserve_exact(MAX_PASSWORD_BYTES);
                    }
                    self.password.push(byte);
                }
            }
            LinePart::Rest => {}
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_in(text: &[u8], user: &str) -> Option<String> {
        let found = find(&mut &text[..], user.as_bytes()).expect("reading works");
        let bytes = found.password?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn lines_and_what_is_in_them() {
        let text = b"# user:comment\n\nuser:one:and more\r\nother:two\r\nu:three\n:none\n\
                     user:four\nempty:\nno colon\n#x:y\nlast:five";
        for (user, want) in [
            ("user", Some("one")),
            ("other", Some("two")),
            ("u", Some("three")),
            ("use", None),
            ("users", None),
            ("User", None),
            ("empty", Some("")),
            ("no colon", None),
            ("#x", None),
            ("# user", None),
            ("last", Some("five")),
            ("one", None),
        ] {
            assert_eq!(find_in(text, user).as_deref(), want, "{user}");
        }
        assert_eq!(find_in(b"", "user"), None);
        assert_eq!(find_in(b"user", "user"), None);
        assert_eq!(find_in(b"user:", "user").as_deref(), Some(""));
    }

    #[test]
    fn long_files_and_long_passwords() {
        let mut text = Vec::new();
        for number in 0..20_000 {
            text.extend_from_slice(format!("user{number}:password{number}\n").as_bytes());
        }
        text.extend_from_slice(b"long:");
        text.extend_from_slice(&[b'x'; 1 << 20]);
        assert_eq!(
            find_in(&text, "user19999").as_deref(),
            Some("password19999")
        );
        let long = find_in(&text, "long").expect("it is there");
        assert_eq!(long.len(), MAX_PASSWORD_BYTES);
    }

    #[test]
    fn the_first_password_stands_in_for_a_name_that_is_not_there() {
        let text = b"#a:b\nempty:\nuser:one:more\nother:two\n";
        let found = find(&mut &text[..], b"nobody").expect("reading works");
        assert!(found.password.is_none());
        assert_eq!(found.first.as_deref().map(Vec::as_slice), Some(&b"one"[..]));
    }
}
