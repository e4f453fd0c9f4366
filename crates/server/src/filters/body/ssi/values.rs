//! Variables, blocks and captures of server-side includes. A response shares them with
//! everything that it includes.

use super::commands::Failed;
use super::complain;
use crate::exchange::Exchange;
use crate::request_log::Text;
use crate::variables;
use bytes::Bytes;
use sealane_conf::model::{ServerKind, UserVariable, Variable};
use sealane_conf::regex::{Captures, Regex};
use std::sync::PoisonError;

/// What a response shares with everything that it includes.
#[derive(Debug, Default)]
pub(crate) struct SharedIncludes {
    variables: Vec<(Vec<u8>, Vec<u8>)>,
    blocks: Vec<(Vec<u8>, Vec<u8>)>,
    /// Groups of the expression that matched last.
    groups: Vec<Vec<u8>>,
    /// Of variables and blocks.
    bytes: usize,
}

/// The longest text that a command's variables may expand to.
const MAX_VALUE_BYTES: usize = 64 << 10;

/// Limit of all variables and blocks of a page and its includes, so that a page cannot fill the
/// memory.
const MAX_SHARED_BYTES: usize = 1 << 20;

/// Memory of a variable or a block besides its bytes.
const ENTRY_BYTES: usize = 64;

/// `$0` to `$9`: no others can be referred to, and an expression may have thousands of groups that
/// each match all of a long text.
const MAX_GROUPS: usize = 10;

/// There are too many variables and blocks, or they are too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full;

/// Accesses the shared variables and blocks.
pub(super) fn with<T>(exchange: &Exchange, act: impl FnOnce(&mut SharedIncludes) -> T) -> T {
    match &exchange.features.ssi.shared {
        Some(shared) => act(&mut shared.lock().unwrap_or_else(PoisonError::into_inner)),
        None => act(&mut SharedIncludes::default()),
    }
}

impl SharedIncludes {
    fn take(&mut self, bytes: usize) -> Result<(), Full> {
        if self.bytes + bytes > MAX_SHARED_BYTES {
            return Err(Full);
        }
        self.bytes += bytes;
        Ok(())
    }

    /// `set`; the name is in lower case.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(super) fn set(&mut self, name: &[u8], value: Vec<u8>) -> Result<(), Full> {
        let known = self.variables.iter().position(|(known, _)| known == name);
        let Some(at) = known else {
            self.take(ENTRY_BYTES + name.len() + value.len())?;
            self.variables.push((name.to_vec(), value));
            return Ok(());
        };
        let old_bytes = self.variables[at].1.len();
        self.take(value.len().saturating_sub(old_bytes))?;
        self.bytes -= old_bytes.saturating_sub(value.len());
        self.variables[at].1 = value;
        Ok(())
    }

    /// `include` with `set`: without a value the variable keeps its own, but exists.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(super) fn set_from(&mut self, name: &[u8], value: Option<Vec<u8>>) -> Result<(), Full> {
        let is_known = self.variables.iter().any(|(known, _)| known == name);
        match value {
            Some(value) => self.set(name, value),
            None if is_known => Ok(()),
            None => self.set(name, Vec::new()),
        }
    }

    /// `block`.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(super) fn begin_block(&mut self, name: &[u8]) -> Result<(), Full> {
        self.take(ENTRY_BYTES + name.len())?;
        self.blocks.push((name.to_vec(), Vec::new()));
        Ok(())
    }

    /// Appends to the newest block.
    ///
    /// # Errors
    /// When there is no room for it.
    pub(super) fn add_to_block(&mut self, text: &[u8]) -> Result<(), Full> {
        self.take(text.len())?;
        if let Some((_, block)) = self.blocks.last_mut() {
            block.extend_from_slice(text);
        }
        Ok(())
    }

    pub(super) fn block(&self, name: &[u8]) -> Option<Bytes> {
        let found = self.blocks.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| Bytes::copy_from_slice(text))
    }

    /// An expression has matched; `names` are those of its named groups.
    ///
    /// # Errors
    /// When there is no room for the groups.
    pub(super) fn capture(
        &mut self,
        regex: &Regex,
        names: &[Vec<u8>],
        found: &Captures,
        subject: &[u8],
    ) -> Result<(), Full> {
        let group = |number| found.get(subject, number).unwrap_or_default().to_vec();
        self.groups = (0..found.len().min(MAX_GROUPS)).map(group).collect();
        for (number, name) in regex.named_groups() {
            self.set(&names[usize::from(*name)], group(usize::from(*number)))?;
        }
        Ok(())
    }

    fn get(&self, name: &[u8]) -> Option<Vec<u8>> {
        if let [digit @ b'0'..=b'9'] = name
            && let Some(group) = self.groups.get(usize::from(digit - b'0'))
        {
            return Some(group.clone());
        }
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    }
}

/// The value of a variable, whose name is in lower case.
///
/// # Errors
/// When a variable cannot be evaluated.
pub(super) fn lookup(exchange: &Exchange, name: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
    if let Some(value) = with(exchange, |shared| shared.get(name)) {
        return Ok(Some(value));
    }
    let Ok(name) = std::str::from_utf8(name) else {
        return Ok(None);
    };
    let mut defined = exchange.snapshot.variables.iter();
    let is_named = |one: &UserVariable| one.kind == ServerKind::Http && &*one.name == name;
    let position = defined.position(is_named);
    let variable = match position.and_then(|index| u16::try_from(index).ok()) {
        Some(index) => Some(Variable::User(index)),
        None => sealane_conf::variables::lookup(ServerKind::Http, name),
    };
    let Some(variable) = variable else {
        return Ok(None);
    };
    let mut value = Vec::new();
    if variables::append(exchange, &variable, &mut value) {
        return Ok(Some(value));
    }
    match name {
        // The time always has a value: it is the format that is wrong.
        "date_local" | "date_gmt" => Err(Failed::Command),
        _ => Ok(None),
    }
}

/// Expands the variables in a text. `is_path`: it is relative to the URI of the response.
///
/// # Errors
/// When a variable cannot be evaluated, or the text gets too long.
pub(super) fn evaluate(exchange: &Exchange, text: &[u8], is_path: bool) -> Result<Vec<u8>, Failed> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        rest = match rest.strip_prefix(b"$") {
            Some(name) => {
                let (name, after) = variable_name(exchange, text, name)?;
                let value = lookup(exchange, &name.to_ascii_lowercase())?;
                out.extend_from_slice(&value.unwrap_or_default());
                if out.len() > MAX_VALUE_BYTES {
                    let text = Text(text);
                    complain(
                        exchange,
                        format_args!("\"{text}\" has more than {MAX_VALUE_BYTES} bytes"),
                    );
                    return Err(Failed::Command);
                }
                after
            }
            None => unquote(rest, &mut out),
        };
    }
    if is_path && !out.starts_with(b"/") {
        let uri = &exchange.request.uri;
        let end = memchr::memrchr(b'/', uri).map_or(0, |at| at + 1);
        out.splice(0..0, uri[..end].iter().copied());
    }
    Ok(out)
}

/// The name of a variable after its `$`, and the rest.
fn variable_name<'t>(
    exchange: &Exchange,
    text: &[u8],
    behind: &'t [u8],
) -> Result<(&'t [u8], &'t [u8]), Failed> {
    let in_brackets = behind.strip_prefix(b"{");
    let from = in_brackets.unwrap_or(behind);
    let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let (name, after) = from.split_at(from.iter().take_while(is_name).count());
    let after = match (in_brackets, after) {
        (None, after) => after,
        (Some(_), [b'}', after @ ..]) => after,
        (Some(b""), _) => &b""[..],
        (Some(_), _) => {
            let name = Text(name);
            complain(
                exchange,
                format_args!("the closing bracket in \"{name}\" variable is missing"),
            );
            return Err(Failed::Command);
        }
    };
    if name.is_empty() {
        let text = Text(text);
        complain(
            exchange,
            format_args!("invalid variable name in \"{text}\""),
        );
        return Err(Failed::Command);
    }
    Ok((name, after))
}

/// Text up to the next variable. A backslash escapes the characters that have a meaning.
fn unquote<'t>(text: &'t [u8], out: &mut Vec<u8>) -> &'t [u8] {
    let mut is_quoted = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b'\\' if !is_quoted => is_quoted = true,
            b'$' if !is_quoted => return &text[at..],
            _ => {
                if is_quoted && !matches!(byte, b'\\' | b'\'' | b'"' | b'$') {
                    out.push(b'\\');
                }
                out.push(*byte);
                is_quoted = false;
            }
        }
    }
    b""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_bounded_whatever_is_refused() {
        let mut shared = SharedIncludes::default();
        let step = MAX_SHARED_BYTES / 16;
        // Each is made shorter than what it has and then longer than there is room for, which is
        // refused and must not make room for more.
        for number in 0..64_u8 {
            let _ = shared.set(&[number], vec![b'x'; step]);
            let _ = shared.set(&[number], vec![b'x'; step - 1]);
            assert_eq!(
                shared.set(&[number], vec![b'x'; MAX_SHARED_BYTES]),
                Err(Full)
            );
        }
        let held: usize = shared
            .variables
            .iter()
            .map(|(name, value)| ENTRY_BYTES + name.len() + value.len())
            .sum();
        assert_eq!(shared.bytes, held);
        assert!(held <= MAX_SHARED_BYTES, "{held}");
    }

    #[test]
    fn groups_beyond_the_ninth_are_not_kept() {
        let regex = Regex::new(&"(?=(.*))".repeat(40), false, |_| 0).expect("it is valid");
        let subject = b"text";
        let found = regex.captures(subject).expect("no limit is reached");
        let mut shared = SharedIncludes::default();
        let kept = shared.capture(&regex, &[], &found.expect("it matches"), subject);
        assert_eq!(kept, Ok(()));
        assert_eq!(shared.get(b"9"), Some(subject.to_vec()));
        assert_eq!(shared.groups.len(), MAX_GROUPS);
    }
}
