//! Dictionaries of structured fields (RFC 9651 section 4.2.2), of which only those values are
//! kept that cache directives have.

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Integer(i64),
    Boolean(bool),
    String(Vec<u8>),
    /// Of another type, or an inner list.
    Other,
}

/// The members, of which the last one of a name counts; `None` if it is not a dictionary.
pub(super) fn read(text: &[u8]) -> Option<Vec<(Vec<u8>, Value)>> {
    let mut reader = Reader(text);
    let mut members: Vec<(Vec<u8>, Value)> = Vec::new();
    reader.skip(b" ");
    while !reader.0.is_empty() {
        let name = reader.key()?;
        let value = match reader.take(b'=') {
            true => reader.member()?,
            false => {
                reader.parameters()?;
                Value::Boolean(true)
            }
        };
        members.retain(|(known, _)| *known != name);
        members.push((name, value));
        reader.skip(b" \t");
        if reader.0.is_empty() {
            break;
        }
        if !reader.take(b',') {
            return None;
        }
        reader.skip(b" \t");
        if reader.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

struct Reader<'t>(&'t [u8]);

impl Reader<'_> {
    fn skip(&mut self, bytes: &[u8]) {
        let end = self.0.iter().position(|byte| !bytes.contains(byte));
        self.0 = &self.0[end.unwrap_or(self.0.len())..];
    }

    fn take(&mut self, byte: u8) -> bool {
        match self.0.split_first() {
            Some((first, rest)) if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &[u8] {
        let end = self.0.iter().position(|byte| !wanted(*byte));
        let (taken, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        self.0 = rest;
        taken
    }

    fn key(&mut self) -> Option<Vec<u8>> {
        if !matches!(self.0.first()?, b'a'..=b'z' | b'*') {
            return None;
        }
        let is_in_key =
            |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*');
        Some(self.take_while(is_in_key).to_vec())
    }

    /// An item or an inner list, with its parameters.
    fn member(&mut self) -> Option<Value> {
        let value = match self.take(b'(') {
            true => {
                self.inner_list()?;
                Value::Other
            }
            false => self.bare_item()?,
        };
        self.parameters()?;
        Some(value)
    }

    /// What follows the opening parenthesis.
    fn inner_list(&mut self) -> Option<()> {
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(());
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.0.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<Value> {
        match self.0.first()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Value::String),
            b'?' => {
                self.take(b'?');
                let value = match self.0.first()? {
                    b'0' => false,
                    b'1' => true,
                    _ => return None,
                };
                self.0 = &self.0[1..];
                Some(Value::Boolean(value))
            }
            b':' => {
                self.take(b':');
                let is_base64 =
                    |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
                self.take_while(is_base64);
                self.take(b':').then_some(Value::Other)
            }
            b'@' => {
                self.take(b'@');
                match self.number()? {
                    Value::Integer(_) => Some(Value::Other),
                    _ => None,
                }
            }
            b'%' => {
                self.take(b'%');
                self.string().map(|_| Value::Other)
            }
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => {
                let is_in_token =
                    |byte: u8| crate::headers::is_token(&[byte]) || matches!(byte, b':' | b'/');
                self.take_while(is_in_token);
                Some(Value::Other)
            }
            _ => None,
        }
    }

    /// An integer of at most 15 digits, or a decimal of at most 12 and 3.
    fn number(&mut self) -> Option<Value> {
        let is_negative = self.take(b'-');
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let whole = digits.len();
        let number = match whole {
            1..=15 => std::str::from_utf8(digits).ok()?.parse::<i64>().ok()?,
            _ => return None,
        };
        if self.take(b'.') {
            let part = self.take_while(|byte| byte.is_ascii_digit()).len();
            let is_decimal = whole <= 12 && matches!(part, 1..=3);
            return is_decimal.then_some(Value::Other);
        }
        Some(Value::Integer(if is_negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Vec<u8>> {
        if !self.take(b'"') {
            return None;
        }
        let mut out = Vec::new();
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            match byte {
                b'"' => return Some(out),
                b'\\' => {
                    let (escaped, rest) = self.0.split_first()?;
                    self.0 = rest;
                    if !matches!(escaped, b'"' | b'\\') {
                        return None;
                    }
                    out.push(*escaped);
                }
                b' '..=b'~' => out.push(*byte),
                _ => return None,
            }
        }
    }
}
