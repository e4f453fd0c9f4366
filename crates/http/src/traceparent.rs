//! W3C Trace Context: the fields `traceparent` and `tracestate`.
//!
//! What is malformed is ignored, as the recommendation asks for: a bad `traceparent` begins a new
//! trace, a bad `tracestate` is dropped and leaves `traceparent` as it is. Versions to come are
//! read as far as version 00 goes.

use std::fmt;

/// Bytes of a `traceparent` of version 00.
pub const TRACEPARENT_BYTES: usize = 55;

/// The most members of a `tracestate`; a longer one is dropped.
pub const MAX_STATE_MEMBERS: usize = 32;

/// The bit of the flags that says that the sender records its span.
const SAMPLED: u8 = 1;

/// The identifier of a trace; never all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The identifier of a span; never all zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

macro_rules! identifier {
    ($name:ident, $bytes:literal) => {
        impl $name {
            /// From random bytes. All zeros would mean that there is none.
            pub fn from_random(mut bytes: [u8; $bytes]) -> $name {
                if bytes == [0; $bytes] {
                    bytes[0] = 1;
                }
                $name(bytes)
            }

            /// From lower-case hexadecimal digits.
            fn parse(text: &[u8]) -> Option<$name> {
                let mut bytes = [0; $bytes];
                if text.len() != 2 * bytes.len() {
                    return None;
                }
                for (byte, digits) in bytes.iter_mut().zip(text.chunks_exact(2)) {
                    *byte = hexadecimal(digits)?;
                }
                (bytes != [0; $bytes]).then_some($name(bytes))
            }

            /// Its bytes.
            pub fn as_bytes(&self) -> &[u8; $bytes] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

identifier!(TraceId, 16);
identifier!(SpanId, 8);

/// A `traceparent`: a trace, a span in it, and whether that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The sender's span.
    pub span: SpanId,
    /// The sender records it.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads a `traceparent`; `None` if it is malformed.
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let (known, rest) = text.split_at_checked(TRACEPARENT_BYTES)?;
        let dashes = [2, 35, 52].map(|at| known[at]);
        let version = hexadecimal(&known[..2])?;
        let ends = match version {
            0 => rest.is_empty(),
            0xff => false,
            // Further parts may follow.
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        if dashes != *b"---" || !ends {
            return None;
        }
        Some(TraceParent {
            trace: TraceId::parse(&known[3..35])?,
            span: SpanId::parse(&known[36..52])?,
            sampled: hexadecimal(&known[53..])? & SAMPLED != 0,
        })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = if self.sampled { SAMPLED } else { 0 };
        write!(f, "00-{}-{}-{flags:02x}", self.trace, self.span)
    }
}

/// Two lower-case hexadecimal digits.
fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    match digits {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    }
}

/// The members of all `tracestate` fields as one, without white space around them; empty if there
/// are none, or if any is malformed.
pub fn trace_state<'v>(fields: impl IntoIterator<Item = &'v [u8]>) -> String {
    joined(fields).unwrap_or_default()
}

fn joined<'v>(fields: impl IntoIterator<Item = &'v [u8]>) -> Option<String> {
    let mut state = String::new();
    let mut keys: Vec<&[u8]> = Vec::new();
    for field in fields {
        for member in field.split(|byte| *byte == b',') {
            let member = trimmed(member);
            if member.is_empty() {
                continue; // allowed
            }
            let equals = member.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (&member[..equals], &member[equals + 1..]);
            if !is_key(key) || !is_value(value) || keys.contains(&key) {
                return None;
            }
            keys.push(key);
            if keys.len() > MAX_STATE_MEMBERS {
                return None;
            }
            if !state.is_empty() {
                state.push(',');
            }
            // Both are ASCII, as has just been checked.
            state.push_str(std::str::from_utf8(member).ok()?);
        }
    }
    Some(state)
}

/// Without spaces and tabs around it.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = text.iter().position(is_text).unwrap_or(text.len());
    let end = text.iter().rposition(is_text).map_or(start, |at| at + 1);
    &text[start..end]
}

/// `vendor`, or `tenant@vendor`.
fn is_key(key: &[u8]) -> bool {
    let is_part = |part: &[u8], first: fn(&u8) -> bool, longest: usize| {
        let of_key = |byte: &u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-*/".contains(byte)
        };
        (1..=longest).contains(&part.len())
            && part.first().is_some_and(first)
            && part.iter().all(of_key)
    };
    let starts_tenant = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match key.iter().position(|byte| *byte == b'@') {
        // The second edition of the recommendation lets a digit begin it, too.
        None => is_part(key, starts_tenant, 256),
        Some(at) => {
            is_part(&key[..at], starts_tenant, 241)
                && is_part(&key[at + 1..], u8::is_ascii_lowercase, 14)
        }
    }
}

/// Printable characters but `,` and `=`; the last is no space, for none was left.
fn is_value(value: &[u8]) -> bool {
    let of_value = |byte: &u8| (b' '..=b'~').contains(byte) && !b",=".contains(byte);
    (1..=256).contains(&value.len()) && value.iter().all(of_value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b9c7c989f97918e1";

    fn parent(text: &str) -> Option<(String, String, bool)> {
        let parent = TraceParent::parse(text.as_bytes())?;
        Some((
            parent.trace.to_string(),
            parent.span.to_string(),
            parent.sampled,
        ))
    }

    #[test]
    fn a_parent_is_read_as_far_as_it_is_known() {
        for (text, sampled) in [
            (format!("00-{TRACE}-{SPAN}-01"), true),
            (format!("00-{TRACE}-{SPAN}-00"), false),
            (format!("00-{TRACE}-{SPAN}-fe"), false),
            (format!("01-{TRACE}-{SPAN}-03"), true),
            (format!("cc-{TRACE}-{SPAN}-01-what.will.come"), true),
            (format!("fe-{TRACE}-{SPAN}-01-"), true),
        ] {
            let expected = Some((TRACE.to_owned(), SPAN.to_owned(), sampled));
            assert_eq!(parent(&text), expected, "{text}");
        }
    }

    #[test]
    fn malformed_parents_are_none() {
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            "00".to_owned(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!("01-{TRACE}-{SPAN}-011"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0A"),
            format!("0x-{TRACE}-{SPAN}-01"),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{TRACE}_{SPAN}-01"),
            format!("00-{}-{SPAN}-01", &TRACE[1..]),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-\u{e9}"),
        ] {
            assert_eq!(parent(&text), None, "{text}");
        }
    }

    fn state(fields: &[&str]) -> String {
        trace_state(fields.iter().map(|field| field.as_bytes()))
    }

    #[test]
    fn states_are_joined_in_order() {
        assert_eq!(state(&[]), "");
        assert_eq!(state(&["congo=ucfJ,rojo=00f0"]), "congo=ucfJ,rojo=00f0");
        assert_eq!(state(&[" a=1 ,,\tb=2", "", "c=3"]), "a=1,b=2,c=3");
        assert_eq!(state(&["t61rc@w_-*/=a b~!"]), "t61rc@w_-*/=a b~!");
        let most: Vec<String> = (0..32).map(|n| format!("k{n}=v")).collect();
        assert_eq!(state(&[&most.join(",")]), most.join(","));
        let longest = format!("{}=v", "a".repeat(256));
        assert_eq!(state(&[&longest]), longest);
    }

    #[test]
    fn malformed_states_are_dropped_as_a_whole() {
        let too_many: Vec<String> = (0..33).map(|n| format!("k{n}=v")).collect();
        let too_long = format!("{}=v", "a".repeat(257));
        for bad in [
            "a",
            "a=",
            "=1",
            "A=1",
            "a=1=2",
            "a=1,a=2",
            "@v=1",
            "t@=1",
            "t@1v=1",
            "a b=1",
            "a=\u{7f}",
            "a=\u{e9}",
            "t@abcdefghijklmno=1",
            &too_long,
            &too_many.join(","),
        ] {
            assert_eq!(state(&["good=1", bad]), "", "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(
            trace: [u8; 16],
            span: [u8; 8],
            sampled: bool,
        ) {
            let parent = TraceParent {
                trace: TraceId::from_random(trace),
                span: SpanId::from_random(span),
                sampled,
            };
            let written = parent.to_string();
            prop_assert_eq!(written.len(), TRACEPARENT_BYTES);
            prop_assert_eq!(TraceParent::parse(written.as_bytes()), Some(parent));
        }

        #[test]
        fn no_bytes_can_do_harm(
            text in proptest::collection::vec(any::<u8>(), 0..80),
            damage in proptest::collection::vec((0..TRACEPARENT_BYTES, any::<u8>()), 0..3),
        ) {
            let _ = TraceParent::parse(&text);
            let mut known = format!("00-{TRACE}-{SPAN}-01").into_bytes();
            for (at, byte) in damage {
                known[at] = byte;
            }
            if let Some(parent) = TraceParent::parse(&known) {
                // Only flags other than "sampled", and the version, are lost.
                let written = parent.to_string();
                prop_assert_eq!(&written.as_bytes()[3..52], &known[3..52]);
            }
        }

        #[test]
        fn a_state_is_empty_or_one_that_is_taken_again(
            fields in proptest::collection::vec("[a-z0-9@=, \t\u{e9}-]{0,24}", 0..4),
        ) {
            let fields = fields.iter().map(|field| field.as_bytes());
            let state = trace_state(fields);
            prop_assert_eq!(trace_state([state.as_bytes()]), state);
        }
    }
}
