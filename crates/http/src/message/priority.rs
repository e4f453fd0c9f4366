//! Priorities of RFC 9218: the value of the `priority` header and of PRIORITY_UPDATE frames.
//!
//! The tree of RFC 7540 is not maintained: PRIORITY frames and the priority part of HEADERS are
//! checked and ignored, as RFC 9113 section 5.3.2 permits.

/// How urgent a response is, and whether parts of it are of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// 0, the most urgent, to 7 (RFC 9218 section 4.1).
    pub urgency: u8,
    /// Whether the receiver can use the response as it comes (RFC 9218 section 4.2).
    pub incremental: bool,
}

/// Number of urgencies.
pub(crate) const URGENCIES: usize = 8;

impl Default for Priority {
    /// Urgency 3, not incremental.
    fn default() -> Priority {
        Priority {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Parses a field value, a dictionary of RFC 8941. Members that are missing, unknown or of the
    /// wrong type keep the default; a value that is not a dictionary is ignored altogether (RFC
    /// 9218 section 4).
    pub fn parse(value: &[u8]) -> Priority {
        let mut priority = Priority::default();
        for member in Members(value) {
            match member {
                Some((b"u", Value::Integer(urgency))) => {
                    priority.urgency = u8::try_from(urgency)
                        .ok()
                        .filter(|&urgency| usize::from(urgency) < URGENCIES)
                        .unwrap_or(Priority::default().urgency);
                }
                Some((b"i", Value::Boolean(incremental))) => priority.incremental = incremental,
                // The last of several equal keys counts, whatever its type.
                Some((b"u", _)) => priority.urgency = Priority::default().urgency,
                Some((b"i", _)) => priority.incremental = false,
                Some(_) => {}
                None => return Priority::default(),
            }
        }
        priority
    }

    /// The value to send in a `priority` header or a PRIORITY_UPDATE.
    pub fn value(self) -> &'static [u8] {
        const VALUES: [[&str; 2]; URGENCIES] = [
            ["u=0", "u=0, i"],
            ["u=1", "u=1, i"],
            ["u=2", "u=2, i"],
            ["u=3", "u=3, i"],
            ["u=4", "u=4, i"],
            ["u=5", "u=5, i"],
            ["u=6", "u=6, i"],
            ["u=7", "u=7, i"],
        ];
        VALUES[usize::from(self.urgency.min(7))][usize::from(self.incremental)].as_bytes()
    }
}

/// The value of a dictionary member.
#[derive(Debug, PartialEq, Eq)]
enum Value {
    Boolean(bool),
    Integer(i64),
    /// Strings, tokens, decimals, lists: no priority parameter has these types.
    Other,
}

/// The members of a dictionary; yields `None` once if it is invalid.
struct Members<'v>(&'v [u8]);

impl<'v> Iterator for Members<'v> {
    type Item = Option<(&'v [u8], Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.0.trim_ascii();
        if text.is_empty() {
            return None;
        }
        let member = split_member(text);
        self.0 = member.as_ref().map_or(b"", |(_, _, rest)| rest);
        Some(member.map(|(key, value, _)| (key, value)))
    }
}

/// Splits the first member off a dictionary: key, value, and what follows the comma.
fn split_member(text: &[u8]) -> Option<(&[u8], Value, &[u8])> {
    let is_key =
        |&byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(&byte);
    let first = *text.first()?;
    if !(first.is_ascii_lowercase() || first == b'*') {
        return None;
    }
    let key_bytes = text.iter().take_while(|byte| is_key(byte)).count();
    let (key, rest) = text.split_at(key_bytes);
    let end = member_end(rest)?;
    let (mut item, rest) = rest.split_at(end);
    // Parameters of the item have no meaning here.
    item = item.trim_ascii_end();
    let value = match item {
        [] | [b';', ..] => Value::Boolean(true),
        [b'=', bare @ ..] => bare_value(bare)?,
        _ => return None,
    };
    let rest = match rest {
        [] => rest,
        [_comma, after @ ..] if !after.trim_ascii().is_empty() => after,
        // A comma at the end.
        _ => return None,
    };
    Some((key, value, rest))
}

/// Position of the comma that ends a member, outside strings and inner lists.
fn member_end(text: &[u8]) -> Option<usize> {
    let mut in_string = false;
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => at += 1,
            b'(' if !in_string => depth += 1,
            b')' if !in_string => depth = depth.checked_sub(1)?,
            b',' if !in_string && depth == 0 => return Some(at),
            0..=0x1f | 0x7f.. if byte != b'\t' => return None,
            _ => {}
        }
        at += 1;
    }
    (!in_string && depth == 0).then_some(text.len())
}

fn bare_value(text: &[u8]) -> Option<Value> {
    let bare = text.split(|&byte| byte == b';').next().unwrap_or(text);
    match bare {
        b"?1" => Some(Value::Boolean(true)),
        b"?0" => Some(Value::Boolean(false)),
        [b'-' | b'0'..=b'9', ..] => {
            let text = std::str::from_utf8(bare).ok()?;
            let is_decimal = bare.contains(&b'.');
            Some(match text.parse() {
                Ok(number) => Value::Integer(number),
                Err(_) if is_decimal => Value::Other,
                Err(_) => return None,
            })
        }
        [b'"' | b'(' | b':' | b'*' | b'a'..=b'z' | b'A'..=b'Z', ..] => Some(Value::Other),
        _ => None,
    }
}
